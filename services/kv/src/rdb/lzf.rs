//! Strings that LZF has compressed.

use super::cursor::Cursor;

/// Bytes that one byte of compressed text can become, at most.
const RATIO_MAX: usize = 264;

/// What `bytes` was before, which has to be `length` bytes.
pub fn decompress(bytes: &[u8], length: usize) -> Option<Vec<u8>> {
    if length > bytes.len().saturating_mul(RATIO_MAX) {
        return None;
    }
    let mut text = Vec::with_capacity(length);
    let mut rest = Cursor::new(bytes);
    while let Some(control) = rest.byte() {
        let control = usize::from(control);
        if control < 32 {
            text.extend_from_slice(rest.take(control + 1)?);
        } else {
            let count = match control >> 5 {
                7 => 7 + usize::from(rest.byte()?),
                count => count,
            } + 2;
            let distance = ((control & 0x1f) << 8 | usize::from(rest.byte()?)) + 1;
            let start = text.len().checked_sub(distance)?;
            if text.len() + count > length {
                return None;
            }
            // It may go on into what it writes.
            for place in start..start + count {
                text.push(*text.get(place)?);
            }
        }
        if text.len() > length {
            return None;
        }
    }
    (text.len() == length).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::decompress;

    #[test]
    fn text_comes_back_and_nothing_goes_beyond() {
        // As Redis compresses it.
        let packed = [1, b'a', b'a', 0xe0, 0x0b, 0, 1, b'a', b'a'];
        assert_eq!(decompress(&packed, 24).as_deref(), Some([b'a'; 24].as_slice()));
        assert_eq!(decompress(&packed, 23), None);
        assert_eq!(decompress(&packed, 25), None);
        assert_eq!(decompress(&[0x20, 0], 3), None);
        assert_eq!(decompress(&[5, b'a'], 6), None);
        assert_eq!(decompress(&[0xff], usize::MAX), None);
    }
}
