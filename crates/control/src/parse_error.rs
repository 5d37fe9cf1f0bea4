//! What is wrong with a text that was to be read.

use thiserror::Error;

/// What is wrong with a text, and how it is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ParseError(pub String);

/// For programs whose errors are texts.
impl From<ParseError> for String {
    fn from(error: ParseError) -> String {
        error.0
    }
}
