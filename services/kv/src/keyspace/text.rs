//! [`Text`]: a string. A short one is copied by whoever reads it; a long one is lent, and changed in place if nobody has it.

use bytes::{Bytes, BytesMut};
use std::ops::Deref;

/// Bytes that a string has at most. A record of the log has to hold it.
pub const TEXT_BYTES_MAX: usize = 32 << 20;
/// Values from here on are lent and not copied: a piece of its own costs as much as copying so many bytes, and memory as long as the key is
/// there.
pub const LENT_BYTES_MIN: usize = 4 << 10;

/// A string. It takes two words beside its bytes, because most keys have short ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Text {
    /// Shorter than [`LENT_BYTES_MIN`].
    Short(Box<[u8]>),
    /// Others. Clones are the same memory.
    Long(Box<Bytes>),
}

impl Text {
    /// The bytes, to be lent, if they are many.
    #[inline]
    pub fn lent(&self) -> Option<&Bytes> {
        match self {
            Text::Short(_) => None,
            Text::Long(bytes) => Some(bytes),
        }
    }

    /// The bytes, lent or copied.
    pub fn to_bytes(&self) -> Bytes {
        self.lent().map_or_else(|| Bytes::copy_from_slice(self), Bytes::clone)
    }

    /// Writes `bytes` from `offset` on. What does not fit [`TEXT_BYTES_MAX`] is not written: nobody asks for it.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
        let Some((start, end)) = end.filter(|end| *end <= TEXT_BYTES_MAX).map(|end| (end - bytes.len(), end)) else {
            return;
        };
        // A long one is copied only if a reply still has it.
        let mut own = match std::mem::take(self) {
            Text::Short(short) if end < LENT_BYTES_MIN => {
                let mut own = short.into_vec();
                own.resize(own.len().max(end), 0);
                put(&mut own, start, bytes);
                *self = Text::Short(own.into_boxed_slice());
                return;
            }
            Text::Short(short) => BytesMut::from(&*short),
            Text::Long(long) => long.try_into_mut().unwrap_or_else(|lent| BytesMut::from(&*lent)),
        };
        if own.len() < end {
            own.resize(end, 0);
        }
        put(&mut own, start, bytes);
        *self = Text::Long(Box::new(own.freeze()));
    }
}

fn put(own: &mut [u8], start: usize, bytes: &[u8]) {
    if let Some(target) = own.get_mut(start..start + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::Short(Box::default())
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Text::Short(bytes) => bytes,
            Text::Long(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Text {
    #[inline]
    fn from(bytes: &[u8]) -> Text {
        match bytes.len() < LENT_BYTES_MIN {
            true => Text::Short(bytes.into()),
            false => Text::Long(Box::new(Bytes::copy_from_slice(bytes))),
        }
    }
}

impl From<Bytes> for Text {
    fn from(bytes: Bytes) -> Text {
        match bytes.len() < LENT_BYTES_MIN {
            true => Text::Short(bytes.as_ref().into()),
            false => Text::Long(Box::new(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_lent_does_not_change() {
        let long = vec![b'a'; LENT_BYTES_MIN];
        let mut text = Text::from(&long[..]);
        let lent = text.to_bytes();
        text.write(1, b"XYZ");
        assert_eq!((&lent[..5], &text[..5]), (b"aaaaa".as_slice(), b"aXYZa".as_slice()));
        let before = text.clone();
        text.write(TEXT_BYTES_MAX as u64, b"x");
        text.write(u64::MAX, b"x");
        assert_eq!(text, before);
        assert_eq!(size_of::<Text>(), 16);
    }

    proptest! {
        #[test]
        fn it_is_what_was_written(writes in proptest::collection::vec((0..6_000_usize, 0..3_000_usize, any::<u8>()), 1..8)) {
            let (mut text, mut model) = (Text::default(), Vec::new());
            for (offset, count, byte) in writes {
                let bytes = vec![byte; count];
                text.write(offset as u64, &bytes);
                model.resize(model.len().max(offset + count), 0);
                model[offset..offset + count].copy_from_slice(&bytes);
                prop_assert_eq!(&*text, &model[..]);
                prop_assert_eq!(text.lent().is_some(), model.len() >= LENT_BYTES_MIN);
                prop_assert_eq!(Text::from(&model[..]), text.clone());
            }
        }
    }
}
