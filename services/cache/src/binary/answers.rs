//! Answers, and what they say.

use super::header::Request;
use crate::output::Output;
use bytes::Bytes;

/// The status of an answer, with the words for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    NotFound,
    Exists,
    TooLarge,
    Invalid,
    NotStored,
    NoNumber,
    NotAllowed,
    Unknown,
    NoMemory,
}

impl Status {
    fn parts(self) -> (u16, &'static str) {
        match self {
            Status::NotFound => (0x01, "Not found"),
            Status::Exists => (0x02, "Data exists for key."),
            Status::TooLarge => (0x03, "Too large."),
            Status::Invalid => (0x04, "Invalid arguments"),
            Status::NotStored => (0x05, "Not stored."),
            Status::NoNumber => (0x06, "Non-numeric server-side value for incr or decr"),
            Status::NotAllowed => (0x20, "Auth failure."),
            Status::Unknown => (0x81, "Unknown command"),
            Status::NoMemory => (0x82, "Out of memory"),
        }
    }
}

/// What an answer has besides its value.
#[derive(Clone, Copy, Default)]
pub struct Parts<'a> {
    pub cas: u64,
    pub extras: &'a [u8],
    pub key: &'a [u8],
}

fn put_header(request: &Request, status: u16, parts: &Parts<'_>, value_bytes: usize, output: &mut Output) {
    let body = (parts.extras.len() + parts.key.len() + value_bytes) as u32;
    output.put(&[0x81, request.opcode]);
    output.put(&(parts.key.len() as u16).to_be_bytes());
    output.put(&[parts.extras.len() as u8, 0]);
    output.put(&status.to_be_bytes());
    output.put(&body.to_be_bytes());
    output.put(&request.opaque);
    output.put(&parts.cas.to_be_bytes());
    output.put(parts.extras);
    output.put(parts.key);
}

/// An answer that all is well.
pub fn put(request: &Request, parts: &Parts<'_>, value: &[u8], lent: Option<&Bytes>, output: &mut Output) {
    put_header(request, 0, parts, value.len(), output);
    output.value(value, lent);
}

/// One that it is not.
pub fn put_error(request: &Request, status: Status, output: &mut Output) {
    let (code, words) = status.parts();
    put_header(request, code, &Parts::default(), words.len(), output);
    output.put(words.as_bytes());
}

/// There is no such key; those who want it back have it.
pub fn put_missing(request: &Request, key: &[u8], output: &mut Output) {
    let (code, words) = Status::NotFound.parts();
    let value = if key.is_empty() { words } else { "" };
    put_header(request, code, &Parts { key, ..Parts::default() }, value.len(), output);
    output.put(value.as_bytes());
}
