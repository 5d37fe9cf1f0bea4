//! Partitions that a daemon which has ended left on its disks: it was killed, or somebody still had them.

use super::records::{DiskRecord, Records};
use qanat_disk::fence::partitions_of;
use std::path::{Path, PathBuf};

/// A disk with such partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftPartitions {
    /// The disk's name.
    pub disk: String,
    /// Its device.
    pub path: PathBuf,
    /// How many.
    pub count: usize,
}

/// What is left on the disks that are written down in `directory`, as far as it may be read. No daemon may run.
pub fn left_partitions(directory: &Path) -> Vec<LeftPartitions> {
    let records = Records::at(directory.to_owned()).read().unwrap_or_default();
    let on = |(disk, record): (String, std::io::Result<DiskRecord>)| {
        let path = record.ok().filter(|record| record.function.is_none() && !record.directory)?.path;
        let count = partitions_of(&path).map_or(0, |found| found.len());
        (count > 0).then_some(LeftPartitions { disk, path, count })
    };
    records.into_iter().filter_map(on).collect()
}
