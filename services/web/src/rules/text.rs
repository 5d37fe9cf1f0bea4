//! Rules as they are written: the same way as options, and in a file.

use crate::http::target;
use serde::{Deserialize, Deserializer, de};
use std::fmt::Display;
use std::str::FromStr;

/// Bytes of a field's value, or of an address, at most.
pub(super) const VALUE_BYTES_MAX: usize = 4_096;

/// Why a rule is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It has not this form.
    #[error("write it as {0}")]
    Form(&'static str),
    /// A field's name has other characters than those of a token (RFC 9110, 5.6.2).
    #[error("`{0}` is no field's name")]
    Name(String),
    /// A value has other characters than printable ones of ASCII, or more than this many.
    #[error("a value has printable characters of ASCII, at most {0}")]
    Value(usize),
    /// The service writes this field.
    #[error("the server writes {0} itself (--cache-control, --allow-origin and --hsts set theirs)")]
    Own(String),
    /// A path does not begin with a slash, or leads out of the site.
    #[error("`{0}` is no path of the site: it begins with a slash")]
    Path(String),
    /// A path has a star where it would stand for nothing.
    #[error("`{0}`: a * stands at the end of a path, for all that begins so; there are no other patterns")]
    Star(String),
    /// The status is none that there can be.
    #[error("{0} is no status for this: {1}")]
    Status(u16, &'static str),
}

/// What is written as an option is written.
pub(super) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Option<T>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(de::Error::custom)
}

/// A list of what is written as options are written.
pub(super) fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Option<Vec<T>>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let all = texts.iter().map(|text| text.parse().map_err(|error| de::Error::custom(format!("`{text}`: {error}"))));
    all.collect::<Result<_, _>>().map(Some)
}

pub(crate) fn is_printable(text: &str) -> bool {
    text.len() <= VALUE_BYTES_MAX && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// A path of the site as files are found by: without its first slash.
pub(super) fn path_of(text: &str) -> Result<Vec<u8>, RuleError> {
    let why = || RuleError::Path(text.to_owned());
    if !text.starts_with('/') || !is_printable(text) {
        return Err(why());
    }
    target::resolve(text.as_bytes(), true).map_err(|_| why())
}
