//! [`Budget`]: what a value that is read may have.

use super::error::Wrong;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of all elements.
    bytes: usize,
    /// So many bytes more are counted for each.
    of_element: usize,
    /// Bytes of packed pieces, elements or not. They may come compressed, and what is in them may be for nothing.
    pieces: usize,
}

impl Budget {
    /// Of a value that may have so many bytes, to which so many are added for each element.
    pub const fn new(bytes: usize, of_element: usize) -> Budget {
        // Packed elements have no more bytes than these, and the room of some that were deleted.
        Budget { bytes, of_element, pieces: bytes.saturating_mul(2) }
    }

    /// Takes a packed piece of so many bytes.
    ///
    /// # Errors
    /// There were too many of them.
    pub fn take_piece(&mut self, bytes: usize) -> Result<(), Wrong> {
        self.pieces = self.pieces.checked_sub(bytes).ok_or(Wrong::TooLarge)?;
        Ok(())
    }

    /// Takes an element of so many bytes.
    ///
    /// # Errors
    /// The value has too much.
    pub fn take(&mut self, bytes: usize) -> Result<(), Wrong> {
        self.bytes = self.bytes.checked_sub(bytes.saturating_add(self.of_element)).ok_or(Wrong::TooLarge)?;
        Ok(())
    }
}
