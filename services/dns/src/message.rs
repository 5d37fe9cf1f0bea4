//! A message being written (RFC 1035 section 4.1): names compressed against those there already.

/// Length of a header.
pub const HEADER_LENGTH: usize = 12;
/// Places names are compressed against at most; what comes later is written whole.
const PLACES_MAX: usize = 40;
/// Labels followed at most while comparing.
const LABELS_MAX: usize = 128;
/// Pointers reach no further.
const POINTER_MAX: usize = 0x3fff;

/// Response codes.
pub mod rcode {
    #![expect(missing_docs, reason = "they are named as IANA names them")]
    pub const NOERROR: u8 = 0;
    pub const FORMERR: u8 = 1;
    pub const SERVFAIL: u8 = 2;
    pub const NXDOMAIN: u8 = 3;
    pub const NOTIMP: u8 = 4;
    pub const REFUSED: u8 = 5;
    pub const YXDOMAIN: u8 = 6;
    pub const NOTAUTH: u8 = 9;
    /// Its upper bits go into OPT.
    pub const BADVERS: u8 = 16;
    /// Its upper bits go into OPT, too.
    pub const BADCOOKIE: u8 = 23;
}

/// Writes into a buffer, up to its end; what does not fit is noted, not written. `EXACT`: names are compressed only against
/// those written in the same letters, as transfers want it (RFC 5936 section 3.4).
pub struct MessageWriter<'a, const EXACT: bool = false> {
    bytes: &'a mut [u8],
    at: usize,
    overflow: bool,
    places: [u16; PLACES_MAX],
    place_count: usize,
}

impl<'a> MessageWriter<'a> {
    /// Goes on after the first `at` bytes.
    pub fn new(bytes: &'a mut [u8], at: usize) -> MessageWriter<'a> {
        MessageWriter { bytes, at, overflow: false, places: [0; PLACES_MAX], place_count: 0 }
    }
}

impl<'a> MessageWriter<'a, true> {
    /// Goes on after the first `at` bytes; compressed names keep their letters.
    pub fn exact(bytes: &'a mut [u8], at: usize) -> MessageWriter<'a, true> {
        MessageWriter { bytes, at, overflow: false, places: [0; PLACES_MAX], place_count: 0 }
    }
}

impl<const EXACT: bool> MessageWriter<'_, EXACT> {
    /// Bytes written.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether something did not fit.
    pub fn has_overflowed(&self) -> bool {
        self.overflow
    }

    /// Forgets everything after `position`, an overflow too.
    pub fn rewind(&mut self, position: usize) {
        self.at = position.min(self.at);
        self.overflow = false;
        while self.place_count > 0
            && self.places.get(self.place_count - 1).is_some_and(|place| usize::from(*place) >= self.at)
        {
            self.place_count -= 1;
        }
    }

    /// What is written so far.
    pub fn written(&self) -> &[u8] {
        self.bytes.get(..self.at).unwrap_or_default()
    }

    /// Writes `bytes`.
    pub fn put(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.at..self.at + bytes.len()) {
            Some(target) if !self.overflow => {
                target.copy_from_slice(bytes);
                self.at += bytes.len();
            }
            _ => self.overflow = true,
        }
    }

    /// Writes a number of two bytes.
    pub fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Writes a number of four bytes.
    pub fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Writes a number over two bytes written before.
    pub fn put_u16_at(&mut self, at: usize, value: u16) {
        if let Some(target) = self.bytes.get_mut(at..at + 2).filter(|_| at + 2 <= self.at) {
            target.copy_from_slice(&value.to_be_bytes());
        }
    }

    /// Lets names be compressed against the one at `at`, whole in the message, and its parents.
    pub fn remember(&mut self, at: usize) {
        let mut at = at;
        for _ in 0..LABELS_MAX {
            match self.bytes.get(at).copied() {
                Some(length @ 1..=63) if at < self.at => {
                    self.remember_place(at);
                    at += usize::from(length) + 1;
                }
                _ => return,
            }
        }
    }

    fn remember_place(&mut self, at: usize) {
        if let Some(place) = self.places.get_mut(self.place_count).filter(|_| at <= POINTER_MAX) {
            *place = at as u16;
            self.place_count += 1;
        }
    }

    /// Writes a name, compressed as far as possible.
    pub fn put_name(&mut self, name: &[u8]) {
        let start = self.at;
        let places = self.place_count;
        let mut rest = name;
        loop {
            let length = match rest.first() {
                None | Some(0) => {
                    self.put(&[0]);
                    break;
                }
                Some(length) => usize::from(*length),
            };
            if let Some(place) = self.find(rest, places) {
                self.put_u16(0xc000 | place);
                break;
            }
            let Some((label, after)) = rest.split_at_checked(length + 1) else {
                self.overflow = true;
                break;
            };
            if !self.overflow {
                self.remember_place(self.at);
            }
            self.put(label);
            rest = after;
        }
        if self.overflow {
            self.at = start;
        }
    }

    /// A remembered place where `name` is.
    fn find(&self, name: &[u8], places: usize) -> Option<u16> {
        self.places.get(..places)?.iter().copied().find(|place| self.is_at(usize::from(*place), name))
    }

    /// Whether `name` is what was written at `at`.
    pub fn is_at(&self, at: usize, name: &[u8]) -> bool {
        let (mut at, mut rest) = (at, name);
        for _ in 0..LABELS_MAX {
            let Some(length) = self.bytes.get(at).copied() else { return false };
            if length >= 0xc0 {
                let Some(low) = self.bytes.get(at + 1) else { return false };
                at = usize::from(length & 0x3f) << 8 | usize::from(*low);
                continue;
            }
            if rest.first() != Some(&length) {
                return false;
            }
            if length == 0 {
                return true;
            }
            let count = usize::from(length) + 1;
            let (Some(here), Some((label, after))) = (self.bytes.get(at..at + count), rest.split_at_checked(count))
            else {
                return false;
            };
            if if EXACT { here != label } else { !here.eq_ignore_ascii_case(label) } {
                return false;
            }
            at += count;
            rest = after;
        }
        false
    }

    /// Writes a record's fixed part and data after its owner; names in the data compressed where that is allowed.
    pub fn put_data(&mut self, rtype: u16, ttl: u32, data: &[u8]) {
        self.put_u16(rtype);
        self.put_u16(1);
        self.put_u32(ttl);
        let length_at = self.at;
        self.put_u16(data.len() as u16);
        if crate::layout::is_compressible(rtype) {
            let mut at = 0;
            for field in crate::layout::fields(rtype) {
                let rest = data.get(at..).unwrap_or_default();
                let length = crate::layout::length(*field, rest).unwrap_or(rest.len());
                let part = rest.get(..length).unwrap_or_default();
                if *field == crate::layout::Field::Name {
                    self.put_name(part)
                } else {
                    self.put(part)
                }
                at += length;
            }
            if !self.overflow {
                self.put_u16_at(length_at, (self.at - length_at - 2) as u16);
            }
        } else {
            self.put(data);
        }
    }

    /// Writes a record.
    pub fn put_record(&mut self, owner: &[u8], rtype: u16, ttl: u32, data: &[u8]) {
        self.put_name(owner);
        self.put_data(rtype, ttl, data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compressed_against_earlier_ones() {
        let mut bytes = [0u8; 200];
        bytes[12..25].copy_from_slice(b"\x07Example\x03com\0");
        let mut writer = MessageWriter::new(&mut bytes, 25);
        writer.remember(12);
        writer.put_name(b"\x03www\x07example\x03com\0");
        assert_eq!(&writer.written()[25..], b"\x03www\xc0\x0c");
        writer.put_name(b"\x01a\x03WWW\x07example\x03com\0");
        assert_eq!(&writer.written()[31..], b"\x01a\xc0\x19");
        writer.put_name(b"\x03net\0");
        writer.put_name(b"\x03net\0");
        assert_eq!(&writer.written()[35..], b"\x03net\0\xc0\x23");
        let before = writer.position();
        writer.put_record(b"\x03com\0", 15, 60, b"\x00\x0a\x04mail\x03com\0");
        assert_eq!(&writer.written()[before..], b"\xc0\x14\0\x0f\0\x01\0\0\0\x3c\0\x09\0\x0a\x04mail\xc0\x14");
    }

    #[test]
    fn exact_names_keep_their_letters() {
        let mut bytes = [0u8; 100];
        let mut writer = MessageWriter::exact(&mut bytes, 12);
        for name in [b"\x03Www\x03com\0", b"\x03www\x03com\0", b"\x03Www\x03com\0"] {
            writer.put_name(name);
        }
        assert_eq!(&writer.written()[12..], b"\x03Www\x03com\0\x03www\xc0\x10\xc0\x0c");
    }

    #[test]
    fn what_does_not_fit_is_noted() {
        let mut bytes = [0u8; 20];
        let mut writer = MessageWriter::new(&mut bytes, 12);
        writer.put_name(b"\x03abc\0");
        let position = writer.position();
        writer.put_record(b"\x03abc\0", 1, 0, &[1, 2, 3, 4]);
        assert!(writer.has_overflowed());
        writer.rewind(position);
        assert!(!writer.has_overflowed() && writer.position() == 17);
        writer.put(&[1, 2, 3]);
        assert!(!writer.has_overflowed());
    }
}
