//! Response heads (RFC 9112, 4; RFC 9110, 6.6 and 8).
//!
//! The head of a whole 200 has a fixed shape, so that one prepared object serves every request:
//!
//! ```text
//! HTTP/1.1 200 OK\r\nServer: qanat\r\nDate: DDD…D\r\nConnection: CCCCCCCCCC\r\n…
//!                                           ^ 38: 29 bytes               ^ 81: 10 bytes
//! ```
//!
//! The two holes are filled per response from its stamp. `close` is padded with leading blanks, which belong to no
//! field value (RFC 9110, 5.5), so that both heads have the same length and the body's frames serve both.

use crate::http::date::{self, DATE_LENGTH};
use crate::http::status;
use std::io::Write;

/// Where a whole 200's date begins.
pub const DATE_OFFSET: usize = 38;
/// Where its connection option begins.
pub const CONNECTION_OFFSET: usize = DATE_OFFSET + DATE_LENGTH + "\r\nConnection: ".len();
/// One after the last byte that depends on the stamp.
pub const HOLES_END: usize = CONNECTION_OFFSET + CONNECTION_LENGTH;
const CONNECTION_LENGTH: usize = 10;

/// The connection option, padded to one length.
pub const fn connection_text(close: bool) -> &'static [u8; CONNECTION_LENGTH] {
    if close { b"     close" } else { b"keep-alive" }
}

/// What is said about a file in every response that concerns it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Representation {
    /// Media type.
    pub media_type: &'static str,
    /// Strong entity tag with quotes.
    pub etag: String,
    /// Seconds since 1970.
    pub last_modified: u64,
    /// Content-Encoding, if any.
    pub coding: Option<&'static str>,
    /// The response depends on Accept-Encoding.
    pub varies: bool,
    /// Cache-Control, if any.
    pub cache_control: Option<String>,
    /// Fields of every response, each with its line's end. They are said in the heads that are prepared; all others have them anyway.
    pub common: String,
}

impl Representation {
    /// Fields that a 304 has too (RFC 9110, 15.4.5).
    fn write_validators(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(b"ETag: ");
        target.extend_from_slice(self.etag.as_bytes());
        target.extend_from_slice(b"\r\n");
        if self.varies {
            target.extend_from_slice(b"Vary: Accept-Encoding\r\n");
        }
        if let Some(value) = &self.cache_control {
            field(target, "Cache-Control", value);
        }
    }

    /// Fields of a response that carries (part of) the representation, but for its type.
    fn write_fields(&self, target: &mut Vec<u8>) {
        target.extend_from_slice(b"Last-Modified: ");
        target.extend_from_slice(&date::format(self.last_modified));
        target.extend_from_slice(b"\r\n");
        self.write_validators(target);
        target.extend_from_slice(b"Accept-Ranges: bytes\r\n");
        if let Some(coding) = self.coding {
            field(target, "Content-Encoding", coding);
        }
    }
}

/// The head of a whole 200 for `length` bytes, its holes filled with zero bytes.
pub fn prepared_head(representation: &Representation, length: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(512);
    head.extend_from_slice(b"HTTP/1.1 200 OK\r\nServer: qanat\r\nDate: ");
    head.extend_from_slice(&[0; DATE_LENGTH]);
    head.extend_from_slice(b"\r\nConnection: ");
    head.extend_from_slice(&[0; CONNECTION_LENGTH]);
    head.extend_from_slice(b"\r\n");
    field(&mut head, "Content-Type", representation.media_type);
    field(&mut head, "Content-Length", length);
    representation.write_fields(&mut head);
    head.extend_from_slice(representation.common.as_bytes());
    head.extend_from_slice(b"\r\n");
    head
}

fn field(target: &mut Vec<u8>, name: &str, value: impl std::fmt::Display) {
    // Writing to a vector can't fail.
    let _ = write!(target, "{name}: {value}\r\n");
}

/// Builds any other head.
#[derive(Debug)]
pub struct ResponseHead {
    bytes: Vec<u8>,
}

impl ResponseHead {
    /// Status line and the fields of every response; `date` in IMF-fixdate.
    pub fn new(status: u16, date: &[u8; DATE_LENGTH], close: bool) -> ResponseHead {
        let mut bytes = Vec::with_capacity(512);
        let _ = write!(bytes, "HTTP/1.1 {status} {}\r\nServer: qanat\r\nDate: ", status::reason(status));
        bytes.extend_from_slice(date);
        let connection = if close { "close" } else { "keep-alive" };
        let _ = write!(bytes, "\r\nConnection: {connection}\r\n");
        ResponseHead { bytes }
    }

    /// Adds a field. The value must be free of line ends: it comes from this program or was checked.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl std::fmt::Display) -> ResponseHead {
        field(&mut self.bytes, name, value);
        self
    }

    /// Adds whole lines.
    #[must_use]
    pub fn lines(mut self, lines: &str) -> ResponseHead {
        self.bytes.extend_from_slice(lines.as_bytes());
        self
    }

    /// Adds what a response with `representation`'s bytes says.
    #[must_use]
    pub fn representation(mut self, representation: &Representation) -> ResponseHead {
        representation.write_fields(&mut self.bytes);
        self
    }

    /// Adds what a 304 says.
    #[must_use]
    pub fn validators(mut self, representation: &Representation) -> ResponseHead {
        representation.write_validators(&mut self.bytes);
        self
    }

    /// Ends the head and appends `body`.
    pub fn finish(mut self, body: &[u8]) -> Vec<u8> {
        self.bytes.extend_from_slice(b"\r\n");
        self.bytes.extend_from_slice(body);
        self.bytes
    }
}

/// The page for an error, with its `why`.
pub fn error_page(status: u16, why: &str) -> String {
    let reason = status::reason(status);
    // `why` is one of this program's own sentences, never a client's words.
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{status} {reason}</title></head>\n\
         <body><h1>{status} {reason}</h1><p>{why}</p></body></html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_where_they_should_be() {
        let representation = Representation {
            media_type: "text/plain",
            etag: "\"1-2\"".into(),
            last_modified: 0,
            coding: Some("br"),
            varies: true,
            cache_control: Some("no-cache".into()),
            common: "Strict-Transport-Security: max-age=60\r\n".into(),
        };
        let mut head = prepared_head(&representation, 5);
        assert_eq!(DATE_OFFSET % 2, 0);
        head[DATE_OFFSET..DATE_OFFSET + DATE_LENGTH].copy_from_slice(&date::format(0));
        head[CONNECTION_OFFSET..HOLES_END].copy_from_slice(connection_text(true));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "HTTP/1.1 200 OK\r\nServer: qanat\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection:      close\r\n\
             Content-Type: text/plain\r\nContent-Length: 5\r\nLast-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
             ETag: \"1-2\"\r\nVary: Accept-Encoding\r\nCache-Control: no-cache\r\nAccept-Ranges: bytes\r\n\
             Content-Encoding: br\r\nStrict-Transport-Security: max-age=60\r\n\r\n"
        );
    }
}
