//! Windows: recycled buffers through which files stream from disk, a bounded number of them.
//!
//! A peer may hold as many as are left for all others (dynamic thresholds, Choudhury and Hahne 1998): one that reads slowly, on
//! however many connections, holds half of them, two hold a third each, and whoever has none finds one.

use bytes::Bytes;
use qanat::stack::{Peer, PeerCounts};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
struct Shelf {
    free: Vec<Vec<u8>>,
    in_use: usize,
    held: PeerCounts,
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

    /// A window for `peer`. The last used comes first: it is the one in cache.
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
        let buffer = shelf.free.pop().unwrap_or_else(|| vec![0; self.window_bytes]);
        Ok(Window { buffer, length: 0, peer, shelf: Arc::clone(&self.shelf) })
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

/// A buffer on loan.
#[derive(Debug)]
pub struct Window {
    buffer: Vec<u8>,
    length: usize,
    peer: Peer,
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
        shelf.held.remove(self.peer);
        shelf.free.push(std::mem::take(&mut self.buffer));
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
        let mut first = pool.take(peer(1)).unwrap();
        first.buffer_mut().copy_from_slice(b"abcdefgh");
        let bytes = first.into_bytes(3);
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
