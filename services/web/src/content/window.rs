//! Windows: a bounded number of pieces of files that peers hold at once, and the recycled buffers that they lie in.
//!
//! A peer may hold as many as are left for all others (dynamic thresholds, Choudhury and Hahne 1998): one that reads slowly, on
//! however many connections, holds half of them, two hold a third each, and whoever has none finds one.

use bytes::Bytes;
use qanat::stack::{Peer, PeerCounts};
use std::sync::{Arc, Mutex, PoisonError};

/// What is read around the page cache begins and ends at multiples of this, in the file and in memory (`open(2)`, O_DIRECT): no disk has
/// larger blocks.
pub const ALIGNMENT: usize = 4_096;

#[derive(Debug)]
struct Shelf {
    free: Vec<Vec<u8>>,
    in_use: usize,
    held: PeerCounts,
}

/// Windows and buffers. A window that was lent comes home when its last byte is acknowledged; a buffer, when neither a window nor a
/// cache has it. So there are as many buffers as there are windows and cached pieces, at most.
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
        let shelf = Shelf { free: Vec::new(), in_use: 0, held: PeerCounts::default() };
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

    /// Whether `peer` may have another window now.
    pub fn has_room(&self, peer: Peer) -> bool {
        let shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        (shelf.held.of(peer) as usize) < self.windows_max.saturating_sub(shelf.in_use)
    }

    /// A window for `peer`.
    ///
    /// # Errors
    /// [`NoWindow`].
    pub fn take(&self, peer: Peer) -> Result<Window, NoWindow> {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.windows_max.saturating_sub(shelf.in_use);
        if left == 0 {
            return Err(NoWindow::AllOut);
        }
        if shelf.held.of(peer) as usize >= left {
            return Err(NoWindow::ShareUsed);
        }
        shelf.in_use += 1;
        shelf.held.add(peer);
        Ok(Window { peer, shelf: Arc::clone(&self.shelf) })
    }

    /// Memory for what is read. The last used comes first: it is the one in the processor's cache.
    pub fn buffer(&self) -> Buffer {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = shelf.free.pop().unwrap_or_else(|| vec![0; self.window_bytes + ALIGNMENT]);
        Buffer { start: bytes.as_ptr().align_offset(ALIGNMENT), bytes, length: 0, shelf: Arc::clone(&self.shelf) }
    }
}

/// Why there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoWindow {
    /// All are out.
    AllOut,
    /// The peer holds as many as are left.
    ShareUsed,
}

/// A peer's right to hold a piece of a file, until this is dropped.
#[derive(Debug)]
pub struct Window {
    peer: Peer,
    shelf: Arc<Mutex<Shelf>>,
}

impl Window {
    /// Lends what was read: the window comes home with the last of these bytes. One allocation for each window.
    pub fn lend(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Lent { bytes, _window: self })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.in_use = shelf.in_use.saturating_sub(1);
        shelf.held.remove(self.peer);
    }
}

struct Lent {
    bytes: Bytes,
    _window: Window,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A buffer on loan: as many bytes as a window has, at an address that is a multiple of [`ALIGNMENT`].
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    shelf: Arc<Mutex<Shelf>>,
}

impl Buffer {
    /// The whole buffer, to read into.
    pub fn target(&mut self) -> &mut [u8] {
        let end = (self.start + self.bytes.len()).saturating_sub(ALIGNMENT);
        self.bytes.get_mut(self.start..end).unwrap_or_default()
    }

    /// The first `length` bytes, as bytes to send.
    pub fn into_bytes(mut self, length: usize) -> Bytes {
        self.length = length.min(self.target().len());
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.length).unwrap_or_default()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).free.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Peer {
        std::net::IpAddr::from([192, 0, 2, number]).into()
    }

    #[test]
    fn bounded_and_recycled() {
        let pool = WindowPool::new(8, 2);
        let mut buffer = pool.buffer();
        buffer.target().copy_from_slice(b"abcdefgh");
        let bytes = pool.take(peer(1)).unwrap().lend(buffer.into_bytes(3));
        let clone = bytes.slice(1..);
        let second = pool.take(peer(2));
        assert!(second.is_ok());
        assert_eq!(pool.take(peer(3)).err(), Some(NoWindow::AllOut));
        drop(bytes);
        assert_eq!(pool.take(peer(3)).err(), Some(NoWindow::AllOut));
        assert_eq!(&clone[..], b"bc");
        drop(clone);
        assert_eq!(pool.in_use(), 1);
        assert!(pool.take(peer(3)).is_ok());
        assert_eq!(pool.shelf.lock().unwrap().free.len(), 1);
    }

    #[test]
    fn a_buffer_that_a_cache_has_too_is_lent_again() {
        let pool = WindowPool::new(ALIGNMENT, 2);
        let mut buffer = pool.buffer();
        assert_eq!((buffer.target().as_ptr().align_offset(ALIGNMENT), buffer.target().len()), (0, ALIGNMENT));
        buffer.target()[5] = 7;
        let kept = buffer.into_bytes(6);
        let lent = [1, 2].map(|number| pool.take(peer(number)).unwrap().lend(kept.clone()));
        assert!(lent.iter().all(|bytes| bytes[5] == 7 && bytes.as_ptr() == kept.as_ptr()) && pool.in_use() == 2);
        drop(lent);
        assert_eq!((pool.in_use(), pool.shelf.lock().unwrap().free.len()), (0, 0));
        drop(kept);
        assert_eq!(pool.shelf.lock().unwrap().free.len(), 1);
    }

    #[test]
    fn a_peer_leaves_as_many_as_it_holds() {
        let pool = WindowPool::new(8, 12);
        let take_all = |number| std::iter::from_fn(|| pool.take(peer(number)).ok()).collect::<Vec<Window>>();
        let hog = take_all(1);
        assert_eq!(hog.len(), 6);
        assert_eq!(pool.take(peer(1)).err(), Some(NoWindow::ShareUsed));
        let others = [take_all(2), take_all(3), take_all(4)];
        assert_eq!(others.each_ref().map(Vec::len), [3, 2, 1]);
        assert_eq!(pool.take(peer(5)).err(), Some(NoWindow::AllOut));
        drop((hog, others));
        assert_eq!((pool.in_use(), take_all(1).len()), (0, 6));
    }
}
