//! Memory that a service may have: addresses, and files that processes share as memory. One that runs out of it would be ended halfway,
//! so it is looked at first.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a service of the default size can do its work with: frames, tables, and what the C library sets aside for each thread. A
/// small part of it is used as memory.
const NEEDED_MIB: u64 = 512;
/// The longest of its memory files may be this long.
const FILE_NEEDED_MIB: u64 = 128;

/// Has the memory that a service needs: its limit on files is raised as far as it may be. `qanat run` needs more, and looks itself.
///
/// # Errors
/// Says how much is needed, and the remedy.
pub fn make_room() -> Result<(), String> {
    let limit = getrlimit(Resource::As);
    if let Some(limit_mib) = limit.current.map(|limit| limit >> 20).filter(|limit_mib| *limit_mib < NEEDED_MIB) {
        return Err(format!(
            "this command needs {NEEDED_MIB} MiB of address space, of which it uses little as memory, and may have {limit_mib}: lift \
             the limit, `ulimit -v unlimited` (LimitAS=infinity in a unit); what bounds memory itself is a control group's limit \
             (MemoryMax= in a unit)"
        ));
    }
    let limit = getrlimit(Resource::Fsize);
    if let Some(limit_kib) =
        limit.maximum.map(|limit| limit >> 10).filter(|limit_kib| *limit_kib < FILE_NEEDED_MIB << 10)
    {
        return Err(format!(
            "this command needs memory files of {FILE_NEEDED_MIB} MiB, and may have files of {limit_kib} KiB: lift the hard limit, \
             `ulimit -H -f unlimited` as root (LimitFSIZE=infinity in a unit)"
        ));
    }
    match limit.current == limit.maximum {
        true => Ok(()),
        false => setrlimit(Resource::Fsize, Rlimit { current: limit.maximum, ..limit })
            .map_err(|error| format!("a limit on files as high as the hard one: {error}")),
    }
}
