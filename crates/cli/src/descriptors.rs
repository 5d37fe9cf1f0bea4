//! Descriptors that a command may have. One that runs out of them would end halfway, so it is looked at first.

use qanat_nic::DESCRIPTORS_REMEDY;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What each command can do its work with.
const NEEDED: u64 = 64;

/// Has room for what a command needs. `qanat run` needs more, and looks itself.
///
/// # Errors
/// Says how many are needed, and the remedy.
pub fn make_room() -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    let is_short = |limit: Option<u64>| limit.is_some_and(|most| most < NEEDED);
    if !is_short(limit.current) {
        return Ok(());
    }
    let wanted = Rlimit { current: Some(NEEDED), ..limit };
    match limit.maximum {
        Some(most) if is_short(limit.maximum) => Err(format!(
            "this command needs {NEEDED} descriptors, and may have {most}: raise the limit, {DESCRIPTORS_REMEDY}"
        )),
        _ => setrlimit(Resource::Nofile, wanted).map_err(|error| format!("a limit of {NEEDED} descriptors: {error}")),
    }
}
