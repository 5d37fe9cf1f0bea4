//! Windows: recycled buffers through which files stream from disk, a bounded number of them.

use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
struct Shelf {
    free: Vec<Vec<u8>>,
    in_use: usize,
}

/// The buffers. A window lent to the stack comes home when its last byte is acknowledged.
#[derive(Clone, Debug)]
pub struct WindowPool {
    // A lock per window (256 KiB), seldom contended.
    shelf: Arc<Mutex<Shelf>>,
    window_bytes: usize,
    windows_max: usize,
}

impl WindowPool {
    /// At most `windows_max` windows of `window_bytes`.
    pub fn new(window_bytes: usize, windows_max: usize) -> WindowPool {
        let shelf = Shelf { free: Vec::new(), in_use: 0 };
        WindowPool { shelf: Arc::new(Mutex::new(shelf)), window_bytes, windows_max }
    }

    /// Bytes of a window.
    pub fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Windows out now.
    pub fn in_use(&self) -> usize {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).in_use
    }

    /// A window; `None` while all are out. The last used comes first: it is the one in cache.
    pub fn take(&self) -> Option<Window> {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if shelf.in_use >= self.windows_max {
            return None;
        }
        shelf.in_use += 1;
        let buffer = shelf.free.pop().unwrap_or_else(|| vec![0; self.window_bytes]);
        Some(Window { buffer, length: 0, shelf: Arc::clone(&self.shelf) })
    }
}

/// A buffer on loan.
#[derive(Debug)]
pub struct Window {
    buffer: Vec<u8>,
    length: usize,
    shelf: Arc<Mutex<Shelf>>,
}

impl Window {
    /// The whole buffer, to read into.
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// The first `length` bytes, as bytes to send.
    pub fn into_bytes(mut self, length: usize) -> Bytes {
        self.length = length.min(self.buffer.len());
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Window {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.in_use = shelf.in_use.saturating_sub(1);
        shelf.free.push(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_recycled() {
        let pool = WindowPool::new(8, 2);
        let mut first = pool.take().unwrap();
        first.buffer_mut().copy_from_slice(b"abcdefgh");
        let bytes = first.into_bytes(3);
        let clone = bytes.slice(1..);
        let second = pool.take();
        assert!(second.is_some() && pool.take().is_none());
        drop(bytes);
        assert!(pool.take().is_none());
        assert_eq!(&clone[..], b"bc");
        drop(clone);
        assert_eq!(pool.in_use(), 1);
        assert!(pool.take().is_some());
    }
}
