//! Fields of every response.

use super::text::{RuleError, VALUE_BYTES_MAX, is_printable};
use std::fmt::{self, Display};
use std::str::FromStr;

/// Bytes of a name: HTTP/2 takes no longer ones here.
const NAME_BYTES_MAX: usize = 64;
/// Fields that the service writes itself, or that belong to a connection.
const OWN_FIELDS: [&str; 24] = [
    "accept-ranges",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "allow",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "server",
    "server-timing",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "www-authenticate",
];

/// A field of every response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    name: String,
    value: String,
}

impl FromStr for Field {
    type Err = RuleError;

    /// `NAME: VALUE`, as it is sent.
    fn from_str(text: &str) -> Result<Field, RuleError> {
        let (name, value) = text.split_once(':').ok_or(RuleError::Form("NAME: VALUE"))?;
        let (name, value) = (name.trim(), value.trim());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_token) {
            return Err(RuleError::Name(name.chars().take(40).collect()));
        }
        if !is_printable(value) {
            return Err(RuleError::Value(VALUE_BYTES_MAX));
        }
        if OWN_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(RuleError::Own(name.to_owned()));
        }
        Ok(Field { name: name.to_owned(), value: value.to_owned() })
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_checked() {
        let field: Field = "X-Frame-Options:  DENY".parse().unwrap();
        assert_eq!(field.to_string(), "X-Frame-Options: DENY");
        for (text, why) in [
            ("DENY", "write it as NAME: VALUE"),
            ("X Frame: a", "`X Frame` is no field's name"),
            (": a", "`` is no field's name"),
            ("X: a\r\nY: b", "a value has printable characters"),
            ("content-LENGTH: 3", "the server writes content-LENGTH itself"),
        ] {
            let error = text.parse::<Field>().unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }
}
