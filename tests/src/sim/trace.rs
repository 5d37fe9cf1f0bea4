//! What a device saw, as a capture file: hashed always, written when asked for.

use crate::sim::pattern::mix;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

/// Takes a capture's bytes (time stamps, lengths, frames) and keeps their hash.
#[derive(Debug)]
pub struct Trace {
    hash: Rc<Cell<u64>>,
    file: Option<File>,
}

impl Trace {
    /// A trace, written to `path` too if given.
    ///
    /// # Errors
    /// What creating the file says.
    pub fn new(path: Option<&Path>) -> io::Result<Trace> {
        Ok(Trace { hash: Rc::new(Cell::new(0)), file: path.map(File::create).transpose()? })
    }

    /// Where the hash can be read later.
    pub fn hash(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.hash)
    }
}

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut hash = self.hash.get();
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            hash = mix(hash ^ u64::from_le_bytes(*word));
        }
        for &byte in rest {
            hash = mix(hash ^ u64::from(byte));
        }
        self.hash.set(hash);
        match &mut self.file {
            Some(file) => file.write_all(bytes).map(|()| bytes.len()),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}
