//! What sysfs says of a block device's queue.

use std::fs;
use std::path::PathBuf;

/// The queue of a block device.
pub(super) struct Queue {
    directory: PathBuf,
}

impl Queue {
    /// By the device's number; a partition's queue is that of its disk.
    pub(super) fn of(device: u64) -> Queue {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let base = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let own = base.join("queue");
        Queue { directory: if own.exists() { own } else { base.join("../queue") } }
    }

    fn text(&self, name: &str) -> Option<String> {
        Some(fs::read_to_string(self.directory.join(name)).ok()?.trim().to_owned())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Not known is taken as volatile: a flush too many costs time, one too few costs data.
    pub(super) fn has_volatile_cache(&self) -> bool {
        self.text("write_cache").is_none_or(|cache| cache != "write through")
    }

    /// Whether completions can be polled for.
    pub(super) fn offers_polling(&self) -> bool {
        self.number("io_poll") == Some(1)
    }
}
