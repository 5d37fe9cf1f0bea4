//! Which calls of `qanat run` have programs in a world, and where a program finds its own world. A card has the programs of one `qanat run`,
//! and those of others that have named its address. What such a program starts, or sends a socket to, joins the same world.
//!
//! The program that executes another tells it at which address its keeper can be found ([`VARIABLE`]). A program that has not been told looks at
//! the first address of its `qanat run`.

use crate::world::lock::lock;
use crate::world::state::World;
use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::sync::OnceLock;

/// Names the address at which the world of the program that executed this one can be found.
pub(crate) const VARIABLE: &str = "QANAT_MEETS";
/// By this an environment is known that the library has not been taken out of.
const KNOWN_BY: &[u8] = b"QANAT_ADDRESSES=";
/// How many calls of `qanat run` one card remembers. Beyond that, the oldest are forgotten.
const RUNS_MAX: usize = 256;

/// What the program was told before it could change its environment.
static TOLD: OnceLock<IpAddr> = OnceLock::new();

/// The program begins, or the library in it does.
pub(crate) fn start() {
    if let Some(address) = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok()) {
        // The first counts.
        let _ = TOLD.set(address);
    }
}

/// Where the world of the program that executed this one is.
pub(crate) fn told() -> Option<IpAddr> {
    TOLD.get().copied()
}

impl World {
    /// Programs of this `qanat run` are in. With the lock held, so the name is kept in the arena.
    pub(crate) fn lets_in_run(&mut self, run: &str) {
        if run.is_empty() || self.runs.iter().any(|known| known == run) {
            return;
        }
        if self.runs.len() == RUNS_MAX {
            self.runs.remove(0);
        }
        self.runs.push(run.to_owned());
    }

    /// Whether there are programs of this `qanat run`.
    pub(crate) fn has_run(&self, run: &str) -> bool {
        self.runs.iter().any(|known| known == run)
    }
}

/// An environment for a program that this one executes: what that one is told where this one's world is.
pub(crate) struct Environment {
    pub(crate) pointers: Vec<*const libc::c_char>,
    #[allow(dead_code, reason = "what one of the pointers points to")]
    own: CString,
}

/// `given`, with where this process's world is; `None`: it has none, or the library is not to be in the new program.
///
/// # Safety
/// `given` is an environment, or null.
pub(crate) unsafe fn environment(given: *const *const libc::c_char) -> Option<Environment> {
    let address = lock().ok()?.addresses.first().map(|(address, _)| *address)?;
    let own = CString::new(format!("{VARIABLE}={address}")).ok()?;
    let mut pointers = Vec::new();
    let mut is_known = false;
    for at in 0.. {
        // SAFETY: `given` is null or an environment, which a null pointer ends: this function's condition.
        let entry = unsafe { if given.is_null() { break } else { *given.add(at) } };
        if entry.is_null() {
            break;
        }
        // SAFETY: the pointer is to a C string.
        let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
        is_known |= text.starts_with(KNOWN_BY);
        let is_it = text.strip_prefix(VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
        if !is_it {
            pointers.push(entry);
        }
    }
    pointers.extend([own.as_ptr(), std::ptr::null()]);
    is_known.then_some(Environment { pointers, own })
}
