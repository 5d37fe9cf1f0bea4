//! What DUMP gives and RESTORE takes: a value by itself.

use super::budget::Budget;
use super::encode;
use super::error::Wrong;
use super::kind::{VERSION_READ, VERSION_WRITTEN};
use super::source::{CHECKSUM, Source};
use super::value;
use crate::keyspace::value::Value;

/// What an element takes of memory besides its bytes: many short ones may come compressed.
const ELEMENT_BYTES: usize = 48;

/// Why a payload is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PayloadError {
    /// Its end is not what has to be there: a version that is known, and a checksum that is right.
    Footer,
    /// There is no value in it that can be had here.
    Value(Wrong),
}

/// What a payload has, with the end that belongs to it.
pub fn close(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend_from_slice(&VERSION_WRITTEN.to_le_bytes());
    let checksum = CHECKSUM.checksum(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// What a payload has before its end; `None`: that is of another version, or the checksum is wrong.
pub fn open(payload: &[u8]) -> Option<&[u8]> {
    let (rest, checksum) = payload.split_last_chunk::<8>()?;
    let (body, version) = rest.split_last_chunk::<2>()?;
    let is_known = u32::from(u16::from_le_bytes(*version)) <= VERSION_READ;
    (is_known && u64::from_le_bytes(*checksum) == CHECKSUM.checksum(rest)).then_some(body)
}

/// A value as a payload.
pub fn write(value: &Value) -> Vec<u8> {
    let mut payload = vec![encode::number(value)];
    // Writing to a vector does not fail.
    let _ = encode::value(value, &mut payload);
    close(payload)
}

/// The value of a payload, which is never an empty collection and takes no more than `bytes_max` of memory, about.
///
/// # Errors
/// [`PayloadError`].
pub fn read(payload: &[u8], bytes_max: usize) -> Result<Value, PayloadError> {
    let body = open(payload).ok_or(PayloadError::Footer)?;
    let mut source = Source::new(body);
    let budget = Budget::new(bytes_max, ELEMENT_BYTES);
    let number = source.byte();
    let value = number.and_then(|number| value::read(&mut source, number, budget));
    let value = value.map_err(|error| PayloadError::Value(error.wrong))?;
    match value.is_empty() {
        true => Err(PayloadError::Value(Wrong::Empty)),
        false if source.offset() != body.len() as u64 => Err(PayloadError::Value(Wrong::Length)),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &[u8]) -> Wrong {
        match read(&close(body.to_vec()), 1 << 20) {
            Err(PayloadError::Value(wrong)) => wrong,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn it_is_as_redis_writes_it() {
        // DUMP of "hello", by Redis 7.0.15.
        let payload = b"\x00\x05hello\x0a\x00\x63\x72\xdf\x76\x65\x34\x20\x0a";
        assert_eq!(write(&Value::Text(b"hello".as_slice().into())), payload);
    }

    #[test]
    fn what_is_hostile_is_refused() {
        assert_eq!(read(b"", 1 << 20).unwrap_err(), PayloadError::Footer);
        assert_eq!(refused(b""), Wrong::Truncated);
        // Gigabytes that do not come.
        let long = Wrong::TooLong { bytes: u64::MAX, most: 32 << 20 };
        assert_eq!(refused(b"\x00\x81\xff\xff\xff\xff\xff\xff\xff\xff"), long);
        assert_eq!(refused(b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff"), Wrong::Truncated);
        assert_eq!(refused(b"\x00\xc3\x01\x80\x01\x00\x00\x00x"), Wrong::Compressed);
        assert_eq!(refused(b"\x02\x00"), Wrong::Empty);
        assert_eq!(refused(b"\x02\x02\x01a\x01a"), Wrong::Duplicate);
        assert_eq!(refused(b"\x04\x02\x01a\x01b\x01a\x01c"), Wrong::Duplicate);
        assert_eq!(refused(b"\x03\x01\x01a\xfd"), Wrong::Score);
        assert_eq!(refused(b"\x00\x01ab"), Wrong::Length);
        assert_eq!(refused(b"\x07\x00"), Wrong::Unsupported { kind: "value of a module", number: 7 });
        assert_eq!(refused(b"\x08\x00"), Wrong::Type(8));
        // Short elements, many of them: each takes memory.
        let mut many = vec![1, 0x80, 0, 0, 0x75, 0x30];
        many.extend(std::iter::repeat_n([1, b'x'], 30_000).flatten());
        assert_eq!(refused(&many), Wrong::TooLarge);
    }

    /// A length, and the bytes behind it.
    fn string(bytes: &[u8]) -> Vec<u8> {
        [b"\x80".as_slice(), &(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    /// Elements of a listpack, as they lie in it.
    fn listpack(elements: &[u8]) -> Vec<u8> {
        let total = (elements.len() + 7) as u32;
        [total.to_le_bytes().as_slice(), &[0xff, 0xff], elements, &[0xff]].concat()
    }

    #[test]
    fn no_element_is_longer_than_a_string_may_be() {
        let long = vec![b'x'; (32 << 20) + 1];
        let head = [b"\xf0".as_slice(), &(long.len() as u32).to_le_bytes()].concat();
        // The length from the back is passed over.
        let packed = listpack(&[head, long.clone(), vec![0; 4]].concat());
        for body in
            [[b"\x12\x01\x01".to_vec(), string(&long)].concat(), [b"\x12\x01\x02".to_vec(), string(&packed)].concat()]
        {
            let wrong = read(&close(body), 192 << 20);
            let expected = Wrong::TooLong { bytes: long.len() as u64, most: 32 << 20 };
            assert_eq!(wrong.unwrap_err(), PayloadError::Value(expected));
        }
    }

    /// Pieces may come compressed, and have nothing that is kept: what is unpacked is bounded, too.
    #[test]
    fn pieces_that_have_nothing_are_bounded() {
        // A piece of a stream without an entry, and with many names.
        let count = [0xf2, 0x40, 0x0d, 0x03, 4];
        let names: Vec<u8> = std::iter::repeat_n([1, 1], 200_000).flatten().collect();
        let piece = listpack(&[[0, 1, 0, 1].as_slice(), &count, &names, &[0, 1]].concat());
        let pieces = |number: u8| {
            let one = [string(&[0; 16]), string(&piece)].concat();
            [[19, number].as_slice(), &one.repeat(number.into()), &[0; 9]].concat()
        };
        assert!(read(&close(pieces(5)), 1 << 20).is_ok());
        assert_eq!(refused(&pieces(6)), Wrong::TooLarge);
    }
}
