//! Before the program's first function: what its environment says of this library is kept, since programs make new environments for
//! what they execute, and what it [inherits](crate::lifecycle::join) is taken over.

use crate::lifecycle::join;
use libc::{c_char, c_int};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const PRELOAD: &[u8] = b"LD_PRELOAD";
const OURS: &[u8] = b"QANAT_";
/// What a program begins with that was executed by one that has [left](crate::lifecycle::away) its world.
pub(crate) const AWAY: &str = "QANAT_AWAY";

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn(c_int, *const *mut c_char) = at_start;

/// What the launcher has put into the environment, names and values.
static KEPT: OnceLock<Vec<(Vec<u8>, Vec<u8>)>> = OnceLock::new();

/// The program's name, as it was executed.
static NAME: OnceLock<String> = OnceLock::new();

/// Where the program's arguments are, one behind the other, and how many bytes.
static ARGUMENTS: (AtomicPtr<c_char>, AtomicUsize) = (AtomicPtr::new(std::ptr::null_mut()), AtomicUsize::new(0));

/// The C library hands on what `main` will have.
extern "C" fn at_start(count: c_int, arguments: *const *mut c_char) {
    if crate::sys::wishes::wishes().is_none() {
        return;
    }
    crate::sys::explain::start();
    crate::world::runs::start();
    // SAFETY: as the C library hands them on.
    unsafe { note_arguments(count, arguments) };
    let is_ours = |name: &[u8]| name == PRELOAD || name.starts_with(OURS) && !is_for_one(name);
    let all = std::env::vars_os().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    // The first counts, and there is no other.
    let _ = KEPT.set(all.filter(|(name, _)| is_ours(name)).collect());
    // Programs write over their arguments.
    let file = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = file.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let _ = NAME.set(name.unwrap_or_else(|| "another program".to_owned()));
    let (line, away) = (std::env::var(join::VARIABLE).ok(), std::env::var(AWAY).ok());
    for name in [join::VARIABLE, AWAY] {
        // SAFETY: no other thread is there yet.
        unsafe { std::env::remove_var(name) };
    }
    match (line, away) {
        (Some(line), in_case) => join::accept(&line, in_case.as_deref()),
        (None, Some(text)) if crate::lifecycle::away::begin(&text, None).is_none() => {
            crate::sys::explain::warn(format_args!(
                "sockets are not carried over to this program: what it was told is incomplete"
            ));
        }
        _ => {}
    }
}

/// Notes where the arguments are.
///
/// # Safety
/// `count` strings, which the kernel has put side by side.
pub(crate) unsafe fn note_arguments(count: c_int, arguments: *const *mut c_char) {
    if let Some(last) = usize::try_from(count).ok().and_then(|count| count.checked_sub(1)) {
        // SAFETY: as the caller says.
        let (first, end) = unsafe { (*arguments, (*arguments.add(last)).add(libc::strlen(*arguments.add(last)) + 1)) };
        ARGUMENTS.0.store(first, Ordering::Relaxed);
        ARGUMENTS.1.store(end.addr().saturating_sub(first.addr()), Ordering::Relaxed);
    }
}

/// What the launcher has put into the environment, names and values.
pub(crate) fn kept() -> &'static [(Vec<u8>, Vec<u8>)] {
    KEPT.get().map(Vec::as_slice).unwrap_or_default()
}

/// The program's name, as it was executed.
pub(crate) fn program() -> &'static str {
    crate::lifecycle::helper::program().or(NAME.get().map(String::as_str)).unwrap_or_default()
}

/// Names this process, forked from the program, for `ps` and `pkill -f`: the latter is not to take it for the program.
pub(crate) fn rename(name: &CStr) {
    // SAFETY: a string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let (place, room) = (ARGUMENTS.0.load(Ordering::Relaxed), ARGUMENTS.1.load(Ordering::Relaxed));
    let length = name.count_bytes().min(room.saturating_sub(1));
    // SAFETY: nothing, or so many bytes that stay, and that nobody of this process reads any more.
    unsafe {
        std::ptr::write_bytes(place, 0, room);
        std::ptr::copy_nonoverlapping(name.as_ptr(), place, length);
    }
}

/// Whether a variable is for one program alone.
fn is_for_one(name: &[u8]) -> bool {
    name == join::VARIABLE.as_bytes() || name == AWAY.as_bytes()
}

/// An environment for a program that is to be executed.
pub(crate) struct Environment {
    pub(crate) pointers: Vec<*const c_char>,
    #[allow(dead_code, reason = "what the pointers point to")]
    own: Vec<CString>,
}

/// `given`, with what brings this library along, and the variable the program joins by, or is away by.
///
/// # Safety
/// `given` is an environment, or null.
pub(crate) unsafe fn environment(given: *const *const c_char, variables: &[(&str, String)]) -> Environment {
    let mut pointers = Vec::new();
    let mut own = Vec::new();
    let mut add = |name: &[u8], value: &[u8]| own.extend(CString::new([name, b"=", value].concat()));
    let kept = KEPT.get().map(Vec::as_slice).unwrap_or_default();
    let mut missing: Vec<&(Vec<u8>, Vec<u8>)> = kept.iter().collect();
    for at in 0.. {
        // SAFETY: as the caller says: up to a null pointer.
        let entry = unsafe { if given.is_null() { break } else { *given.add(at) } };
        if entry.is_null() {
            break;
        }
        // SAFETY: a string.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
        let (name, value) = text
            .iter()
            .position(|byte| *byte == b'=')
            .map_or((text, [].as_slice()), |at| (&text[..at], &text[at + 1..]));
        let library = kept.iter().find(|(kept, _)| kept == PRELOAD && name == PRELOAD).map(|(_, library)| library);
        match library {
            Some(library) if !value.windows(library.len().max(1)).any(|part| part == library.as_slice()) => {
                add(name, &[library, b":".as_slice(), value].concat());
            }
            _ if is_for_one(name) => continue,
            _ => pointers.push(entry),
        }
        missing.retain(|(kept, _)| kept != name);
    }
    for (name, value) in missing {
        add(name, value);
    }
    for (name, value) in variables {
        add(name.as_bytes(), value.as_bytes());
    }
    pointers.extend(own.iter().map(|text| text.as_ptr()));
    pointers.push(std::ptr::null());
    Environment { pointers, own }
}
