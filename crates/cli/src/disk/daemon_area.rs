//! An area of the daemon's for a service: it is had again when the disk's core, or the daemon, was started again.

use crate::daemon::DaemonArguments;
use crate::log;
use qanat::{AreaBuffers, AreaNews, DaemonArea, StorageArea};
use qanat_control::protocol::AreaPath;
use std::sync::Arc;

/// Opens it; what happens to it is told on standard error.
pub fn open(daemon: &DaemonArguments, path: AreaPath, buffers: AreaBuffers) -> Result<StorageArea, String> {
    let name = path.to_string();
    let listener = Arc::new(move |news: &AreaNews| match news {
        AreaNews::Lost => log::warning!("area-lost", "the area {name} is lost: its disk core has ended"),
        AreaNews::Waiting(why) => log::warning!("area-waiting", "the area {name} can't be had again yet: {why}"),
        AreaNews::Back(after) => {
            log::info!("area-back", "the area {name} is there again, after {} ms", after.as_millis())
        }
        AreaNews::Gone(why) => log::warning!("area-gone", "the area {name} is gone for good: {why}"),
    });
    DaemonArea::open(daemon.path(), path, buffers, listener).map_err(|error| error.to_string())
}
