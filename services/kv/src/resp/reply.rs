//! [`Reply`]: replies, in version 2 or 3 of the protocol. Short ones are collected; a long value is lent.

use crate::keyspace::text::{LENT_BYTES_MIN, Text};
use crate::resp::number::write_answer;
use bytes::{BufMut, Bytes, BytesMut};

/// Memory that replies are written into is taken in pieces of so many bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// Replies that are being written.
#[derive(Debug, Default)]
pub struct Reply {
    /// What the last piece will be.
    buffer: BytesMut,
    pieces: Vec<Bytes>,
    /// Version 3 of the protocol.
    is_three: bool,
}

impl Reply {
    /// What follows is in version 3, or 2.
    pub fn set_version(&mut self, is_three: bool) {
        self.is_three = is_three;
    }

    /// Whether version 3 is spoken.
    pub fn is_three(&self) -> bool {
        self.is_three
    }

    /// Takes what was written.
    pub fn take(&mut self) -> impl Iterator<Item = Bytes> + '_ {
        self.close();
        self.pieces.drain(..)
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty() && self.pieces.is_empty()
    }

    fn close(&mut self) {
        if !self.buffer.is_empty() {
            self.pieces.push(self.buffer.split().freeze());
        }
    }

    /// Room for so many bytes. The memory is one for all replies, and is used again when all of it was acknowledged.
    fn room(&mut self, bytes: usize) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < bytes {
            self.buffer.reserve(bytes.max(BUFFER_BYTES));
        }
        &mut self.buffer
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        let buffer = self.room(text.len() + 3);
        buffer.put_u8(kind);
        buffer.put_slice(text);
        buffer.put_slice(b"\r\n");
    }

    fn count(&mut self, kind: u8, count: i64) {
        self.line(kind, itoa::Buffer::new().format(count).as_bytes());
    }

    /// Bytes that are replies already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).put_slice(bytes);
    }

    /// `+OK` and its like.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// An error, with its code. Ends of lines in it become blanks.
    pub fn error(&mut self, text: &str) {
        match text.contains(['\r', '\n']) {
            true => self.line(b'-', text.replace(['\r', '\n'], " ").as_bytes()),
            false => self.line(b'-', text.as_bytes()),
        }
    }

    /// An integer.
    pub fn integer(&mut self, number: i64) {
        self.count(b':', number);
    }

    /// How many.
    pub fn length(&mut self, count: usize) {
        self.integer(count as i64);
    }

    /// A string, copied.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.count(b'$', bytes.len() as i64);
        self.tail(bytes);
    }

    fn tail(&mut self, bytes: &[u8]) {
        let buffer = self.room(bytes.len() + 2);
        buffer.put_slice(bytes);
        buffer.put_slice(b"\r\n");
    }

    /// A string; a long one is lent.
    pub fn value(&mut self, bytes: &Bytes) {
        if bytes.len() < LENT_BYTES_MIN {
            return self.bulk(bytes);
        }
        self.count(b'$', bytes.len() as i64);
        self.close();
        self.pieces.push(bytes.clone());
        self.raw(b"\r\n");
    }

    /// A key's string, or nothing; a long one is lent.
    #[inline]
    pub fn text(&mut self, text: Option<&Text>) {
        match text {
            Some(text) => self.lent(text, text.lent()),
            None => self.null(),
        }
    }

    /// A string that is lent, if that can be.
    #[inline]
    pub fn lent(&mut self, bytes: &[u8], lent: Option<&Bytes>) {
        match lent {
            Some(lent) => self.value(lent),
            None => self.bulk(bytes),
        }
    }

    /// A string, or nothing.
    pub fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.raw(if self.is_three { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Nothing, where an array would be.
    pub fn null_array(&mut self) {
        self.raw(if self.is_three { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array of so many.
    pub fn array(&mut self, count: usize) {
        self.count(b'*', count as i64);
    }

    /// A map of so many pairs.
    pub fn map(&mut self, pairs: usize) {
        match self.is_three {
            true => self.count(b'%', pairs as i64),
            false => self.array(2 * pairs),
        }
    }

    /// An array of so many pairs, in either version.
    pub fn pairs(&mut self, pairs: usize) {
        self.array(2 * pairs);
    }

    /// A set of so many.
    pub fn set(&mut self, count: usize) {
        self.count(if self.is_three { b'~' } else { b'*' }, count as i64);
    }

    /// What was not asked for, of so many parts.
    pub fn push(&mut self, count: usize) {
        self.count(if self.is_three { b'>' } else { b'*' }, count as i64);
    }

    /// A double.
    pub fn double(&mut self, number: f64) {
        let mut text = Vec::with_capacity(24);
        write_answer(number, &mut text);
        match self.is_three {
            true => self.line(b',', &text),
            false => self.bulk(&text),
        }
    }

    /// A double that was written already, with its digits behind the point.
    pub fn decimal(&mut self, text: &str) {
        match self.is_three {
            true => self.line(b',', text.as_bytes()),
            false => self.bulk(text.as_bytes()),
        }
    }

    /// Text for people.
    pub fn verbatim(&mut self, text: &str) {
        if !self.is_three {
            return self.bulk(text.as_bytes());
        }
        self.count(b'=', text.len() as i64 + 4);
        self.raw(b"txt:");
        self.tail(text.as_bytes());
    }
}
