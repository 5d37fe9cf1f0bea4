//! The `Authorization` field of the Basic scheme (RFC 7617).

use super::parse::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Bytes of a name and a password, encoded, at most.
const ENCODED_BYTES_MAX: usize = 1_024;

/// Who a client says it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The password, as it was sent.
    pub password: Vec<u8>,
}

/// What a request says; `None`: nothing of this scheme, or nothing that is well-formed.
pub fn basic(request: &Request<'_, '_>) -> Option<Credentials> {
    let value = request.single("authorization")?;
    let (scheme, encoded) = value.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") || encoded.len() > ENCODED_BYTES_MAX {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = memchr::memchr(b':', &decoded)?;
    let user = std::str::from_utf8(&decoded[..colon]).ok()?.to_owned();
    Some(Credentials { user, password: decoded[colon + 1..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Outcome, ParseLimits, header_storage, parse};
    use super::*;

    fn said(fields: &str) -> Option<(String, Vec<u8>)> {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut storage = header_storage();
        let limits = ParseLimits { head_bytes_max: 16384, target_bytes_max: 8192 };
        let Outcome::Complete(request) = parse(text.as_bytes(), &mut storage, &limits) else { panic!() };
        basic(&request).map(|Credentials { user, password }| (user, password))
    }

    #[test]
    fn credentials_are_one_field_of_one_scheme() {
        // The example of RFC 7617, 2.
        let aladdin = Some(("Aladdin".to_owned(), b"open sesame".to_vec()));
        assert_eq!(said("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), aladdin);
        assert_eq!(said("authorization: bAsIc  QWxhZGRpbjpvcGVuIHNlc2FtZQ== \r\n"), aladdin);
        assert_eq!(said("Authorization: Basic Og==\r\n"), Some((String::new(), Vec::new())));
        let long = "A".repeat(2_000);
        for fields in [
            "",
            "Authorization: Basic\r\n",
            "Authorization: Basic \r\n",
            "Authorization: Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n",
            "Authorization: Basic QWxhZGRpbg==\r\n",
            "Authorization: Basic !\r\n",
            "Authorization: Basic QTpi\r\nAuthorization: Basic QTpi\r\n",
            &format!("Authorization: Basic {long}\r\n"),
        ] {
            assert_eq!(said(fields), None, "{fields}");
        }
    }
}
