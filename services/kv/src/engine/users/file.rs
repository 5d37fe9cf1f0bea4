//! [`UsersFile`]: where users are kept (`ACL LOAD`, `ACL SAVE`). The engine knows no disk: the service gives it one of these.

use std::fmt::Debug;
use std::io;

/// Bytes of such a file, at most.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// See the module.
pub trait UsersFile: Debug {
    /// As errors call it.
    fn name(&self) -> String;

    /// All that it has.
    ///
    /// # Errors
    /// It can't be read, or is longer than [`FILE_BYTES_MAX`].
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Makes it have this instead: after a crash it has one or the other.
    ///
    /// # Errors
    /// It can't be written. It has what it had before.
    fn replace(&self, text: &[u8]) -> io::Result<()>;
}
