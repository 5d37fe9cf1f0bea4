//! Programs of ours from their objects.

use aya::programs::ProgramError;
use aya::{Ebpf, EbpfError, EbpfLoader};
use std::sync::{Mutex, PoisonError};

/// Loads an object. Ours are the same on every kernel: they need no description of its types, which the library reads, all
/// of it, for every loader made (25 ms, and twice in `Ebpf::load`). So there is one loader, and that forgets it.
pub(super) fn load(object: &[u8]) -> Result<Ebpf, EbpfError> {
    static LOADER: Mutex<Option<EbpfLoader<'static>>> = Mutex::new(None);
    let mut loader = LOADER.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let mut made = EbpfLoader::new();
        made.btf(None);
        made
    };
    loader.get_or_insert_with(make).load(object)
}

/// A signal that arrives ends the verifier's work with `EAGAIN`. So many signals in a row are put up with.
const INTERRUPTIONS_MAX: u32 = 64;

/// Loads a program by `load`, whatever signals arrive meanwhile.
///
/// # Errors
/// The verifier's refusal, or what the system says.
pub fn load_program<P>(program: &mut P, load: impl Fn(&mut P) -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    let mut interruptions = 0;
    loop {
        match load(program) {
            Err(ProgramError::LoadError { io_error, .. })
                if io_error.raw_os_error() == Some(libc::EAGAIN) && interruptions < INTERRUPTIONS_MAX =>
            {
                interruptions += 1;
            }
            loaded => return loaded,
        }
    }
}
