//! [`Output`]: answers. Short ones are collected; a long value is lent.

use bytes::{BufMut, Bytes, BytesMut};

/// Memory that answers are written into is taken in pieces of so many bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// Answers are taken before more are written when they are longer than this: one request may ask for more than anybody's memory.
const LONG_BYTES: usize = 64 << 10;

/// Answers that are being written.
#[derive(Debug, Default)]
pub struct Output {
    /// What the last piece will be. Its memory is used again when all of it was acknowledged.
    buffer: BytesMut,
    pieces: Vec<Bytes>,
    /// Bytes of the pieces.
    closed: usize,
}

impl Output {
    /// How many bytes were written and not taken.
    pub fn len(&self) -> usize {
        self.closed + self.buffer.len()
    }

    /// Whether they are to be taken before more are written.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.len() > LONG_BYTES
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes what was written.
    pub fn take(&mut self) -> impl Iterator<Item = Bytes> + '_ {
        self.close();
        self.closed = 0;
        self.pieces.drain(..)
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.take().for_each(drop);
    }

    /// Takes what was written as one piece of memory, copied.
    pub fn flatten(&mut self, into: &mut Vec<u8>) {
        self.take().for_each(|piece| into.extend_from_slice(&piece));
    }

    fn close(&mut self) {
        if !self.buffer.is_empty() {
            self.closed += self.buffer.len();
            self.pieces.push(self.buffer.split().freeze());
        }
    }

    /// Writes bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if self.buffer.capacity() - self.buffer.len() < bytes.len() {
            self.buffer.reserve(bytes.len().max(BUFFER_BYTES));
        }
        self.buffer.put_slice(bytes);
    }

    /// Writes a line.
    pub fn line(&mut self, text: &str) {
        self.put(text.as_bytes());
        self.put(b"\r\n");
    }

    /// Writes a number in decimal.
    pub fn number(&mut self, number: u64) {
        self.put(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds a value: lent if it is one that is, else copied.
    #[inline]
    pub fn value(&mut self, value: &[u8], lent: Option<&Bytes>) {
        let Some(lent) = lent else { return self.put(value) };
        self.close();
        self.closed += lent.len();
        self.pieces.push(lent.clone());
    }
}
