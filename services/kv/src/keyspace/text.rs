//! Strings: they are lent to whoever reads them, and changed in place if nobody does.

use bytes::{Bytes, BytesMut};

/// Bytes that a string has at most. A record of the log has to hold it.
pub const TEXT_BYTES_MAX: usize = 32 << 20;

/// Writes `bytes` from `offset` on. What does not fit [`TEXT_BYTES_MAX`] is not written: nobody asks for it.
pub fn write(text: &mut Bytes, offset: u64, bytes: &[u8]) {
    let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
    let Some((start, end)) = end.filter(|end| *end <= TEXT_BYTES_MAX).map(|end| (end - bytes.len(), end)) else {
        return;
    };
    // It is copied only if a reply still has it.
    let mut own = std::mem::take(text).try_into_mut().unwrap_or_else(|lent| BytesMut::from(lent.as_ref()));
    if own.len() < end {
        own.resize(end, 0);
    }
    if let Some(target) = own.get_mut(start..end) {
        target.copy_from_slice(bytes);
    }
    *text = own.freeze();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_does_not_change() {
        let mut text = Bytes::copy_from_slice(b"abc");
        let lent = text.clone();
        write(&mut text, 1, b"XYZ");
        write(&mut text, 6, b"!");
        assert_eq!((lent.as_ref(), text.as_ref()), (b"abc".as_slice(), b"aXYZ\0\0!".as_slice()));
        let before = text.clone();
        write(&mut text, TEXT_BYTES_MAX as u64, b"x");
        write(&mut text, u64::MAX, b"x");
        assert_eq!(text, before);
    }
}
