//! What FUNCTION DUMP gives and FUNCTION RESTORE takes: the texts of libraries.

use super::kind::opcode;
use super::lengths::string;
use super::payload::{close, open};
use super::source::Source;

/// How much a payload may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Libraries.
    pub count: usize,
    /// Bytes of a library's text.
    pub text_bytes: usize,
    /// Bytes of all texts. They may come compressed.
    pub bytes: usize,
}

/// Why a payload is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FunctionsError {
    /// Its end is not what has to be there.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// There is something else in it.
    #[error("given type is not a function")]
    Other,
    /// A text is damaged, or too long.
    #[error("failed loading functions payload")]
    Damaged,
    /// It has more than may be kept.
    #[error("there are too many libraries, or they are too long")]
    TooMany,
}

/// Texts as a payload.
pub fn write<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        payload.push(opcode::FUNCTION);
        // Writing to a vector does not fail.
        let _ = string(text, &mut payload);
    }
    close(payload)
}

/// The texts of a payload.
///
/// # Errors
/// [`FunctionsError`].
pub fn read(payload: &[u8], limits: Limits) -> Result<Vec<Vec<u8>>, FunctionsError> {
    let body = open(payload).ok_or(FunctionsError::Footer)?;
    let (mut source, mut texts, mut left) = (Source::new(body), Vec::new(), limits.bytes);
    while source.offset() < body.len() as u64 {
        if source.byte() != Ok(opcode::FUNCTION) {
            return Err(FunctionsError::Other);
        }
        if texts.len() >= limits.count {
            return Err(FunctionsError::TooMany);
        }
        let text = source.string(limits.text_bytes).map_err(|_| FunctionsError::Damaged)?;
        left = left.checked_sub(text.len()).ok_or(FunctionsError::TooMany)?;
        texts.push(text);
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_texts_together_are_bounded() {
        let payload = write([b"abc".as_slice(), b"defg"].into_iter());
        let limits = |bytes| Limits { count: 2, text_bytes: 4, bytes };
        assert_eq!(read(&payload, limits(7)), Ok(vec![b"abc".to_vec(), b"defg".to_vec()]));
        assert_eq!(read(&payload, limits(6)), Err(FunctionsError::TooMany));
    }
}
