//! [`Budget`]: what a value that is read may have.

use super::error::Wrong;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes of all elements.
    pub bytes: usize,
    /// So many bytes more are counted for each.
    pub of_element: usize,
}

impl Budget {
    /// Takes an element of so many bytes.
    ///
    /// # Errors
    /// The value has too much.
    pub fn take(&mut self, bytes: usize) -> Result<(), Wrong> {
        self.bytes = self.bytes.checked_sub(bytes.saturating_add(self.of_element)).ok_or(Wrong::TooLarge)?;
        Ok(())
    }
}
