//! Changes of the daemon's disks, asked for.

use crate::progress::progress_bar;
use qanat_control::client::Session;
use qanat_control::protocol::{Answer, AreaPath, AreaStatus, Request};
use std::time::Duration;

/// Between two looks at how far the zeroing of an area is.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Asks for a change of an area, which is answered with how it is then.
pub fn area(session: &Session, request: Request) -> Result<AreaStatus, String> {
    match session.ask(request).map_err(|error| error.to_string())? {
        Answer::Area(area) => Ok(area),
        other => Err(format!("the daemon answers {other:?}: restart it with this version")),
    }
}

/// Waits until all of an area is zeroed, with a bar that shows how far it is. Whoever does not wait loses nothing: it goes on.
pub fn zeroed(session: &Session, path: &AreaPath, number: u64) -> Result<AreaStatus, String> {
    let bar = progress_bar("zeroing");
    loop {
        let disks = session.disks().map_err(|error| error.to_string())?;
        let disk = disks.into_iter().find(|disk| disk.name == path.disk);
        let area = disk.and_then(|disk| disk.areas.into_iter().find(|area| area.number == number));
        let area = area.filter(|area| !area.is_deleted).ok_or_else(|| format!("the area {path} has been deleted"))?;
        if let Some(fault) = &area.fault {
            return Err(format!(
                "the area {path} is there, and could not be zeroed beyond {} bytes: {fault}",
                area.bytes
            ));
        }
        bar.set_length(area.reserved_bytes);
        bar.set_position(area.bytes);
        if area.bytes >= area.reserved_bytes {
            bar.finish_and_clear();
            return Ok(area);
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}
