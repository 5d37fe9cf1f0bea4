//! Address space that a service may have. One that runs out of it would be aborted halfway, so it is looked at first.

use rustix::process::{Resource, getrlimit};

/// What a service of the default size can do its work with: frames, tables, and what the C library sets aside for each thread. A
/// small part of it is used as memory.
const NEEDED_MIB: u64 = 512;

/// Whether a service may have the addresses it needs. `qanat run` needs more, and looks itself.
///
/// # Errors
/// Says how much is needed, and the remedy.
pub fn check() -> Result<(), String> {
    match getrlimit(Resource::As).current.map(|limit| limit >> 20) {
        Some(limit_mib) if limit_mib < NEEDED_MIB => Err(format!(
            "this command needs {NEEDED_MIB} MiB of address space, of which it uses little as memory, and may have {limit_mib}: lift \
             the limit, `ulimit -v unlimited` (LimitAS=infinity in a unit); what bounds memory itself is a control group's limit \
             (MemoryMax= in a unit)"
        )),
        _ => Ok(()),
    }
}
