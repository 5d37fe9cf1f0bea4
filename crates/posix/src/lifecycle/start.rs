//! What happens before the program's first function: the library keeps what the environment says of it, since programs make new
//! environments for what they execute, and takes over what the program [inherits](crate::lifecycle::join).

use crate::lifecycle::{environment, join};
use libc::{c_char, c_int};

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn(c_int, *const *mut c_char) = at_start;

/// The C library hands on what `main` will have.
extern "C" fn at_start(count: c_int, arguments: *const *mut c_char) {
    if crate::sys::wishes::wishes().is_none() {
        return;
    }
    crate::sys::explain::start();
    crate::world::finish::prepare();
    crate::world::runs::start();
    // SAFETY: the arguments are where the kernel has put them: the C library hands them on.
    unsafe { crate::sys::this_process::program::note_arguments(count, arguments) };
    environment::keep();
    // Programs write over their arguments.
    let file = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = file.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    crate::sys::this_process::program::name(name.unwrap_or_else(|| "another program".to_owned()));
    let (line, detached) = (std::env::var(environment::JOINS).ok(), std::env::var(environment::DETACHED).ok());
    for name in [environment::JOINS, environment::DETACHED] {
        // SAFETY: no other thread is there yet.
        unsafe { std::env::remove_var(name) };
    }
    match (line, detached) {
        (Some(line), in_case) => join::accept(&line, in_case.as_deref()),
        (None, Some(text)) if crate::lifecycle::detached::begin(&text, None).is_none() => {
            crate::sys::explain::warn(format_args!(
                "sockets are not carried over to this program: what it was told is incomplete"
            ));
        }
        _ => {}
    }
}
