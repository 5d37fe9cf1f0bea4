//! The environment variables of this library. It keeps them, since programs make new environments for what they execute.

use libc::c_char;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

const PRELOAD: &[u8] = b"LD_PRELOAD";
const OURS: &[u8] = b"QANAT_";
/// What a program begins with that is to [join](crate::lifecycle::join): the line's descriptor and the library it is for.
pub(crate) const JOINS: &str = "QANAT_JOINS";
/// What a program begins with that was executed by one that has [left](crate::lifecycle::detached) its world.
pub(crate) const DETACHED: &str = "QANAT_AWAY";

/// What the launcher has put into the environment, names and values.
static KEPT: OnceLock<Vec<(Vec<u8>, Vec<u8>)>> = OnceLock::new();

/// Keeps what the launcher has put there.
pub(crate) fn keep() {
    let is_ours = |name: &[u8]| name == PRELOAD || name.starts_with(OURS) && !is_for_one(name);
    let all = std::env::vars_os().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    // The first counts, and there is no other.
    let _ = KEPT.set(all.filter(|(name, _)| is_ours(name)).collect());
}

/// What the launcher has put into the environment, names and values.
pub(crate) fn kept() -> &'static [(Vec<u8>, Vec<u8>)] {
    KEPT.get().map(Vec::as_slice).unwrap_or_default()
}

/// Whether a variable is for one program alone.
fn is_for_one(name: &[u8]) -> bool {
    name == JOINS.as_bytes() || name == DETACHED.as_bytes()
}

/// An environment for a program that is to be executed.
pub(crate) struct Environment {
    pub(crate) pointers: Vec<*const c_char>,
    #[allow(dead_code, reason = "what the pointers point to")]
    own: Vec<CString>,
}

/// `given`, with what brings this library along, and the variable by which the program joins, or begins detached.
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
        // SAFETY: `given` is null or an environment, which a null pointer ends: this function's condition.
        let entry = unsafe { if given.is_null() { break } else { *given.add(at) } };
        if entry.is_null() {
            break;
        }
        // SAFETY: the pointer is to a C string.
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
