//! [`Listpack`]: elements in one piece of memory, as they are written.

use crate::resp::number::integer;

/// The total and the count come first.
const HEADER_BYTES: usize = 6;

/// A piece that is being written.
#[derive(Debug)]
pub struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    /// One without elements.
    pub fn new() -> Listpack {
        Listpack { bytes: vec![0; HEADER_BYTES], count: 0 }
    }

    /// Adds a number.
    pub fn number(&mut self, number: i64) {
        let start = self.bytes.len();
        let bytes = number.to_le_bytes();
        let mut put = |kind: u8, length: usize| {
            self.bytes.push(kind);
            self.bytes.extend(bytes.iter().take(length));
        };
        match number {
            0..=0x7f => self.bytes.push(number as u8),
            -0x1000..=0xfff => {
                let low = number as u16 & 0x1fff;
                self.bytes.extend_from_slice(&[0xc0 | (low >> 8) as u8, low as u8]);
            }
            -0x8000..=0x7fff => put(0xf1, 2),
            -0x80_0000..=0x7f_ffff => put(0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => put(0xf3, 4),
            _ => put(0xf4, 8),
        }
        self.end(start);
    }

    /// Adds a text. One that is a number is one.
    pub fn text(&mut self, text: &[u8]) {
        if let Some(number) = integer(text) {
            return self.number(number);
        }
        let start = self.bytes.len();
        match text.len() {
            length @ 0..0x40 => self.bytes.push(0x80 | length as u8),
            length @ 0x40..0x1000 => self.bytes.extend_from_slice(&[0xe0 | (length >> 8) as u8, length as u8]),
            length => {
                self.bytes.push(0xf0);
                self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end(start);
    }

    /// Writes the length of the element that begins there, as it is read from the back.
    fn end(&mut self, start: usize) {
        self.count += 1;
        let length = self.bytes.len() - start;
        let count = match length {
            0..0x80 => 1,
            0x80..0x3fff => 2,
            0x3fff..0x1f_ffff => 3,
            0x1f_ffff..0xfff_ffff => 4,
            _ => 5,
        };
        for place in (0..count).rev() {
            let is_first = place == count - 1;
            self.bytes.push((length >> (7 * place)) as u8 & 0x7f | if is_first { 0 } else { 0x80 });
        }
    }

    /// The whole piece.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0xff);
        let total = (self.bytes.len() as u32).to_le_bytes();
        let count = u16::try_from(self.count).unwrap_or(u16::MAX).to_le_bytes();
        let header = total.into_iter().chain(count);
        self.bytes.iter_mut().zip(header).for_each(|(place, byte)| *place = byte);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::packed;

    #[test]
    fn what_is_written_is_read() {
        let numbers =
            [0, 127, 128, -1, 4_095, -4_096, 4_096, 32_767, -32_768, 40_000, -8_388_608, 1 << 30, 1 << 40, i64::MIN];
        let texts = [0, 1, 63, 64, 126, 127, 4_095, 4_096, 16_380, 16_381, 16_390, 2_097_150, 2_097_200]
            .map(|length| "x".repeat(length));
        let mut piece = Listpack::new();
        numbers.iter().for_each(|number| piece.number(*number));
        texts.iter().for_each(|text| piece.text(text.as_bytes()));
        let mut found = Vec::new();
        let read = packed::listpack(&piece.finish(), &mut |element| {
            found.push(String::from_utf8_lossy(element).into_owned());
            Ok(())
        });
        assert_eq!(read, Ok(()));
        let expected: Vec<String> = numbers.iter().map(ToString::to_string).chain(texts).collect();
        assert_eq!(found, expected);
    }
}
