//! A directory of content for one test.

use std::path::{Path, PathBuf};

/// A temporary document root; removed when dropped.
#[derive(Debug)]
pub struct Pages {
    directory: tempfile::TempDir,
}

impl Pages {
    /// An empty one.
    ///
    /// # Panics
    /// No temporary directory can be made.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Pages {
        Pages { directory: super::program::directory_for_anybody() }
    }

    /// With one file already.
    #[must_use]
    pub fn with(self, name: &str, content: impl AsRef<[u8]>) -> Pages {
        self.write(name, content);
        self
    }

    /// Writes (replaces) a file, making the directories it is in.
    ///
    /// # Panics
    /// The file system refuses.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.file(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("making a directory");
        std::fs::write(path, content).expect("writing a file");
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The directory, for a command line.
    pub fn argument(&self) -> &str {
        self.directory.path().to_str().expect("a temporary directory with a plain name")
    }

    /// `length` bytes that tell their offset: a byte out of place shows.
    pub fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16).wrapping_mul(31)) as u8).collect()
    }
}
