//! The head of a response, as a service of HTTP/1.1 writes it, becomes a block of fields.

use crate::hpack::{encode, encode_status};

/// Fields that are of one connection (RFC 9113, 8.2.2).
const OF_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"];
/// The longest name that is sent on. Services have none that is longer.
const NAME_BYTES_MAX: usize = 64;

/// What a head says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    /// Bytes of the head of HTTP/1.1.
    pub(crate) head_length: usize,
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
}

/// Why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoResponse {
    /// It is not whole yet.
    Partial,
    /// It is not what a service should say.
    Malformed,
}

/// Appends the fields of the head at the beginning of `bytes` to `block`.
pub(crate) fn encode_head(bytes: &[u8], block: &mut Vec<u8>) -> Result<Response, NoResponse> {
    let mut rest = bytes;
    let mut line = || {
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(NoResponse::Partial)?;
        let (line, more) = rest.split_at(end + 1);
        rest = more;
        Ok(line.strip_suffix(b"\r\n").unwrap_or(line))
    };
    let status = line()?.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
    let status = status.filter(|status| (100..1_000).contains(status)).ok_or(NoResponse::Malformed)?;
    encode_status(status, block);
    let mut response = Response { head_length: 0, status, content_length: None };
    loop {
        let field = line()?;
        if field.is_empty() {
            response.head_length = bytes.len() - rest.len();
            return Ok(response);
        }
        let colon = field.iter().position(|byte| *byte == b':').ok_or(NoResponse::Malformed)?;
        let (name, value) = field.split_at(colon);
        // Blanks around a value do not belong to it.
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = lower.get_mut(..name.len()).ok_or(NoResponse::Malformed)?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        if OF_CONNECTION.iter().any(|of_connection| of_connection.as_bytes() == lower) {
            continue;
        }
        if lower == b"content-length" {
            response.content_length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        }
        encode(lower, value, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hpack::Decoder;

    #[test]
    fn a_head_becomes_fields() {
        let head = b"HTTP/1.1 200 OK\r\nServer: qanat\r\nConnection:      close\r\nContent-Length: 12\r\nETag: \"a\"\r\n\r\nbody";
        let mut block = Vec::new();
        let response = encode_head(head, &mut block);
        let expected = Response { head_length: head.len() - 4, status: 200, content_length: Some(12) };
        assert_eq!(response, Ok(expected));
        let mut fields = String::new();
        let field = |name: &[u8], value: &[u8]| {
            fields += &format!("{}={};", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        };
        Decoder::default().decode(&block, field).unwrap();
        assert_eq!(fields, ":status=200;server=qanat;content-length=12;etag=\"a\";");
    }

    #[test]
    fn what_is_not_whole_is_waited_for_and_what_is_none_is_not_sent() {
        let head = b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n";
        for length in 0..head.len() {
            assert_eq!(encode_head(&head[..length], &mut Vec::new()), Err(NoResponse::Partial), "{length}");
        }
        for head in ["hello\r\n\r\n", "HTTP/1.1 xyz\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"] {
            assert_eq!(encode_head(head.as_bytes(), &mut Vec::new()), Err(NoResponse::Malformed), "{head}");
        }
    }
}
