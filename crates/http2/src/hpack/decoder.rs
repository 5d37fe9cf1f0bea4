//! [`Decoder`]: blocks of fields are read (RFC 7541, 3 and 6).

use super::static_table::STATIC_TABLE;
use super::table::Table;
use super::{huffman, integer};

/// What a block may say that the table is to have at most: what every peer may assume (RFC 9113, 6.5.2).
const TABLE_BYTES_MAX: usize = 4_096;

/// A block was not what it should be. Nothing can be read after it, because the table is not known any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HpackError;

/// Reads the blocks of one connection, in order.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// For names and values that do not lie in the block as they are.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { table: Table::new(TABLE_BYTES_MAX), name: Vec::new(), value: Vec::new() }
    }
}

/// What is in the table at an index.
fn indexed(table: &Table, index: u32) -> Result<(&[u8], &[u8]), HpackError> {
    let place = (index as usize).checked_sub(1).ok_or(HpackError)?;
    match STATIC_TABLE.get(place) {
        Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
        None => table.get(place - STATIC_TABLE.len()).ok_or(HpackError),
    }
}

/// Reads a string into `target`; returns what is behind it.
fn string<'a>(bytes: &'a [u8], target: &mut Vec<u8>) -> Result<&'a [u8], HpackError> {
    let is_huffman = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let (length, rest) = integer::decode(bytes, 7).ok_or(HpackError)?;
    let (text, rest) = rest.split_at_checked(length as usize).ok_or(HpackError)?;
    target.clear();
    if is_huffman {
        huffman::decode(text, target).ok_or(HpackError)?;
    } else {
        target.extend_from_slice(text);
    }
    Ok(rest)
}

impl Decoder {
    /// Reads a block, and calls `field` with each name and value in order. A short block can say many and long fields: who keeps them
    /// keeps count.
    ///
    /// # Errors
    /// The block is malformed: a connection error (RFC 9113, 4.3).
    pub fn decode(&mut self, block: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), HpackError> {
        let mut rest = block;
        let mut is_first = true;
        while let Some(first) = rest.first() {
            if first & 0x80 != 0 {
                let (index, more) = integer::decode(rest, 7).ok_or(HpackError)?;
                rest = more;
                let (name, value) = indexed(&self.table, index)?;
                field(name, value);
            } else if first & 0xe0 == 0x20 {
                // Only before the first field (4.2).
                let (size, more) = integer::decode(rest, 5).ok_or(HpackError)?;
                rest = more;
                if !is_first || size as usize > TABLE_BYTES_MAX {
                    return Err(HpackError);
                }
                self.table.set_size_max(size as usize);
                continue;
            } else {
                let is_kept = first & 0x40 != 0;
                let (index, more) = integer::decode(rest, if is_kept { 6 } else { 4 }).ok_or(HpackError)?;
                rest = more;
                if index == 0 {
                    rest = string(rest, &mut self.name)?;
                } else {
                    let (name, _) = indexed(&self.table, index)?;
                    self.name.clear();
                    self.name.extend_from_slice(name);
                }
                rest = string(rest, &mut self.value)?;
                field(&self.name, &self.value);
                if is_kept {
                    self.table.insert(&self.name, &self.value);
                }
            }
            is_first = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode;
    use super::*;
    use proptest::prelude::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
        let mut fields = Vec::new();
        let text = String::from_utf8_lossy;
        decoder.decode(block, |name, value| fields.push(format!("{}: {}", text(name), text(value))))?;
        Ok(fields)
    }

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn the_requests_of_the_rfc() {
        // C.3 without and C.4 with Huffman's code: three requests on one connection.
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        let expected = [
            ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com",
            ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache",
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value",
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::default();
            for (block, expected) in blocks.iter().zip(expected) {
                assert_eq!(read(&mut decoder, &bytes(block)).unwrap().join("\n"), expected);
            }
        }
    }

    #[test]
    fn a_block_that_is_none_is_refused() {
        let blocks = [
            ("80", "index 0"),
            ("be", "an index that nothing has"),
            ("ff ffff ffff 0f", "an index without end"),
            ("8220", "a size behind a field"),
            ("3fe2 1f", "a size beyond what was announced"),
            ("4003 61", "a name that is cut off"),
            ("4001 6105 61", "a value that is cut off"),
            ("40", "nothing behind a literal"),
            ("4081 0000", "a code that is filled up with zeroes"),
        ];
        for (block, what) in blocks {
            assert_eq!(read(&mut Decoder::default(), &bytes(block)), Err(HpackError), "{what}");
        }
    }

    #[test]
    fn the_table_is_as_large_as_the_block_says() {
        let mut decoder = Decoder::default();
        read(&mut decoder, &bytes("4001 6101 31")).unwrap();
        assert_eq!(read(&mut decoder, &bytes("be")).unwrap(), ["a: 1"]);
        // To nothing, and back.
        assert_eq!(read(&mut decoder, &bytes("20 3fe1 1f be")), Err(HpackError));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            fields in proptest::collection::vec(("[a-z-]{1,20}|date|etag|server|content-type", "[ -~]{0,40}"), 0..20),
        ) {
            let mut block = Vec::new();
            fields.iter().for_each(|(name, value)| encode(name.as_bytes(), value.as_bytes(), &mut block));
            let expected: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            prop_assert_eq!(read(&mut Decoder::default(), &block), Ok(expected));
        }

        #[test]
        fn nothing_that_is_said_is_more_than_the_table_holds(
            blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20),
        ) {
            let mut decoder = Decoder::default();
            for block in blocks {
                let mut said = 0;
                let is_read = decoder.decode(&block, |name, value| said += name.len() + value.len());
                prop_assert!(said <= block.len() * TABLE_BYTES_MAX);
                if is_read.is_err() {
                    break;
                }
            }
        }
    }
}
