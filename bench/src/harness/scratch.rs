//! A directory of a table's own, removed with it; those of runs that were killed are removed by the next.

use super::HarnessError;
use std::fs;
use std::path::{Path, PathBuf};

/// Directories are named by this, their table, and their process.
const PREFIX: &str = "qanat-bench-";

/// See the [module](self).
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new one, called after `table`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(table: &str) -> Result<Scratch, HarnessError> {
        remove_leftovers(table);
        let path = std::env::temp_dir().join(format!("{PREFIX}{table}-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| HarnessError::system(format!("make {}", path.display()), error))?;
        Ok(Scratch { path })
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf, HarnessError> {
        let path = self.path.join(name);
        fs::write(&path, content).map_err(|error| HarnessError::system(format!("write {}", path.display()), error))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove_leftovers(table: &str) {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    let start = format!("{PREFIX}{table}-");
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(&start)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
