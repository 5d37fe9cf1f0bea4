//! Which disks the daemon has, written down: one small file for each, named by the disk. It outlives the machine's restart, so it is
//! made durable before a disk counts as added.

use qanat_control::protocol::FunctionWish;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Files that are read at most.
const FILES_MAX: usize = 1_024;
/// How a record's name ends.
const ENDING: &str = ".json";

/// A disk, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskRecord {
    pub(super) path: PathBuf,
    /// It is a PCI function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<FunctionWish>,
    /// It is a directory of files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) directory: bool,
}

/// The directory of records.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    directory: PathBuf,
}

impl Records {
    pub(crate) fn at(directory: PathBuf) -> Records {
        Records { directory }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// All of them by name, and what can't be read. Nothing there is no disk.
    pub(crate) fn read(&self) -> io::Result<Vec<(String, io::Result<DiskRecord>)>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let read = |path: PathBuf| Ok(serde_json::from_slice(&std::fs::read(path)?)?);
        let mut found: Vec<_> = entries
            .flatten()
            .take(FILES_MAX)
            .filter_map(|entry| {
                let file = entry.file_name();
                let name = file.to_str()?.strip_suffix(ENDING).filter(|name| !name.starts_with('.'))?;
                Some((name.to_owned(), read(entry.path())))
            })
            .collect();
        found.sort_by(|(first, _), (second, _)| first.cmp(second));
        Ok(found)
    }

    /// Writes one down; durable when this returns.
    pub(super) fn write(&self, name: &str, record: &DiskRecord) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let new = self.directory.join(format!(".{name}.new"));
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        std::fs::rename(&new, self.file(name))?;
        self.flush()
    }

    /// Removes one; durable when this returns.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.file(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            outcome => outcome.and_then(|()| self.flush()),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}{ENDING}"))
    }

    fn flush(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let directory = std::env::temp_dir().join(format!("qanat-disks-{}", std::process::id()));
        let records = Records::at(directory.clone());
        assert!(records.read().unwrap().is_empty(), "nothing there");
        let record = |path: &str| DiskRecord { path: path.into(), function: None, directory: false };
        records.write("slow", &record("/dev/sdb")).unwrap();
        records.write("fast", &record("/dev/sda")).unwrap();
        records.write("fast", &record("/dev/sdc")).unwrap();
        // A daemon killed while it wrote, and somebody's nonsense.
        std::fs::write(directory.join(".third.new"), "{\"pa").unwrap();
        std::fs::write(directory.join("odd.json"), "{\"pa").unwrap();
        let found = records.read().unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["fast", "odd", "slow"]);
        assert!(found[0].1.as_ref().is_ok_and(|found| *found == record("/dev/sdc")) && found[1].1.is_err());
        let directory_of_files = DiskRecord { directory: true, ..record("/srv/areas") };
        records.write("site", &directory_of_files).unwrap();
        let found = records.read().unwrap();
        assert!(found.iter().any(|(_, found)| found.as_ref().is_ok_and(|found| *found == directory_of_files)));
        records.remove("site").unwrap();
        records.remove("fast").unwrap();
        records.remove("fast").unwrap();
        assert_eq!(records.read().unwrap().len(), 2);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
