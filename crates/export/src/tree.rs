//! [`Tree`]: a read-only tree of directories and files, as an application answers for it.

use bytes::Bytes;
use rustix::io::Errno;

/// The number of a tree's root.
pub const ROOT_NODE: u64 = 1;
/// Bytes of a name at most, as in all file systems of Linux.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a file's content at most.
pub const CONTENT_BYTES_MAX: usize = 64 << 20;
/// Entries that a page of a directory has at most.
pub const PAGE_ENTRIES_MAX: usize = 1_024;

/// Why a tree does not answer as it was asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// No such name.
    #[error("there is nothing of that name")]
    Absent,
    /// The number is not known any more. The kernel looks the name up again.
    #[error("the number is of nothing any more")]
    Stale,
    /// A name was looked up in a file.
    #[error("it is no directory")]
    NotDirectory,
    /// A directory was to be read as a file.
    #[error("it is a directory")]
    IsDirectory,
    /// The content is larger than an export gives.
    #[error("its content is larger than an export gives")]
    TooLarge,
    /// No more files or directories can be open.
    #[error("too many files are open")]
    TooManyOpen,
    /// A directory is read on from a place that is not remembered.
    #[error("the place in the directory is not known any more")]
    Position,
    /// The service is not ready yet.
    #[error("the service is not ready yet")]
    NotReady,
    /// The service did not answer in time.
    #[error("the service does not answer in time")]
    Unanswered,
    /// The tree said what no tree can say.
    #[error("the tree contradicts itself")]
    Broken,
}

impl TreeError {
    /// What a program that reads is told.
    pub fn errno(self) -> Errno {
        match self {
            TreeError::Absent => Errno::NOENT,
            TreeError::Stale => Errno::STALE,
            TreeError::NotDirectory => Errno::NOTDIR,
            TreeError::IsDirectory => Errno::ISDIR,
            TreeError::TooLarge => Errno::FBIG,
            TreeError::TooManyOpen => Errno::NFILE,
            TreeError::Position => Errno::INVAL,
            TreeError::NotReady => Errno::AGAIN,
            TreeError::Unanswered | TreeError::Broken => Errno::IO,
        }
    }
}

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It has names.
    Directory,
    /// It has content.
    File,
}

/// What is told of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Bytes of its content now; of a directory 0.
    pub size: u64,
}

impl Attributes {
    /// A directory's.
    pub const DIRECTORY: Attributes = Attributes { kind: Kind::Directory, size: 0 };

    /// Of a file with so many bytes.
    pub fn file(size: u64) -> Attributes {
        Attributes { kind: Kind::File, size }
    }
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// See [`is_name`].
    pub name: Vec<u8>,
    /// What has it.
    pub kind: Kind,
}

/// Some names of a directory, at most [`PAGE_ENTRIES_MAX`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The names. There may be none though more follow.
    pub entries: Vec<Entry>,
    /// The cookie of the page that follows; `None`: this was the last one.
    pub next: Option<u64>,
}

/// A read-only tree. Nodes have numbers, [`ROOT_NODE`] is the root's. One thread asks, one question at a time, and readers wait
/// meanwhile: a tree that has to ask others sets itself a limit of time ([`questions`](crate::questions)).
///
/// The [server](crate::server) believes nothing of it: names that can't be, pages without end and contents that are too large are errors
/// for the reader alone.
pub trait Tree: Send + 'static {
    /// The node of a name in a directory. Each answer counts as one look-up.
    ///
    /// # Errors
    /// There is none, or it is not known in time.
    fn look_up(&mut self, directory: u64, name: &[u8]) -> Result<(u64, Attributes), TreeError>;

    /// What a node is.
    ///
    /// # Errors
    /// The number is stale, or what it has is not known in time.
    fn attributes(&mut self, node: u64) -> Result<Attributes, TreeError>;

    /// Some names of a directory, from a cookie on. 0 is the first one; others are of the page before.
    ///
    /// # Errors
    /// It is none, or what it has is not known in time.
    fn page(&mut self, directory: u64, cookie: u64) -> Result<Page, TreeError>;

    /// The content of a file, as it is now. A reader that has opened it reads this to the end, whatever comes meanwhile.
    ///
    /// # Errors
    /// It is none, or what it has is not known in time.
    fn open(&mut self, file: u64) -> Result<Bytes, TreeError>;

    /// So many look-ups of a node are forgotten by the kernel. A tree that keeps something for each number may free it.
    fn forget(&mut self, _node: u64, _look_ups: u64) {}
}

/// Whether a directory can have this name.
pub fn is_name(name: &[u8]) -> bool {
    let is_said = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !matches!(name, b"." | b"..");
    is_said && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for name in [&b"a"[..], b"...", b".a", b"-", b" ", b"\xff", &[b'x'; 255]] {
            assert!(is_name(name), "{name:?}");
        }
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0", &[b'x'; 256]] {
            assert!(!is_name(name), "{name:?}");
        }
    }

    #[test]
    fn readers_can_tell_errors_apart() {
        assert_eq!(TreeError::Absent.errno(), Errno::NOENT);
        assert_eq!(TreeError::Unanswered.errno(), Errno::IO);
        assert_eq!(TreeError::Stale.errno(), Errno::STALE);
    }
}
