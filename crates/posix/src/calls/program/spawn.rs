//! `posix_spawn`: the new program [joins](crate::lifecycle::join) with the sockets it inherits, as over `exec`. If an action puts a
//! connection somewhere, the connection is [pumped](crate::lifecycle::pump), because it may not be known yet what the program is. If an
//! action closes or replaces a descriptor, that descriptor is not inherited.

use crate::calls::program::exec::{inherited, offered, path_of};
use crate::lifecycle::environment::environment;
use crate::lifecycle::join::Offer;
use crate::lifecycle::pumped::{STANDARD, pumped};
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::{explain, is_explaining};
use crate::sys::libc_next;
use crate::sys::target;
use crate::world::lock::shared;
use crate::world::runs;
use libc::{c_char, c_int, mode_t, pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What is known of the actions of a program to be spawned.
struct Actions {
    /// Where they are.
    at: usize,
    /// Sockets that descriptors stand for, and which.
    pumped: Vec<(u32, RawFd)>,
    /// Descriptors that are something else in the program, or nothing.
    replaced: Vec<RawFd>,
    /// All from this one on are closed.
    closed_from: RawFd,
}

static ACTIONS: Mutex<Vec<Actions>> = Mutex::new(Vec::new());

fn note<T>(actions: *const posix_spawn_file_actions_t, what: impl FnOnce(&mut Actions) -> T) -> T {
    let mut all = ACTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = actions.addr();
    let known = match all.iter().position(|known| known.at == at) {
        Some(known) => known,
        None => {
            all.push(Actions { at, pumped: Vec::new(), replaced: Vec::new(), closed_from: RawFd::MAX });
            all.len() - 1
        }
    };
    what(&mut all[known])
}

fn forget(actions: *const posix_spawn_file_actions_t) {
    let mut all = ACTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    for known in all.extract_if(.., |known| known.at == actions.addr()) {
        for (_, end) in known.pumped {
            // SAFETY: the descriptor is the library's own, and nothing else uses it.
            unsafe { libc_next::close(end) };
        }
    }
}

/// Whether there may be sockets of ours at all.
fn is_used() -> bool {
    crate::sys::wishes::wishes().is_some()
}

/// # Safety
/// As `posix_spawn_file_actions_init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_init(actions: *mut posix_spawn_file_actions_t) -> c_int {
    forget(actions);
    // SAFETY: `actions` is writable: the program's duty by posix_spawn_file_actions_init(3).
    unsafe { libc_next::posix_spawn_file_actions_init(actions) }
}

/// # Safety
/// As `posix_spawn_file_actions_adddup2`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut posix_spawn_file_actions_t,
    fd: c_int,
    onto: c_int,
) -> c_int {
    let mut source = fd;
    if is_used() {
        let entry = descriptor::get(fd);
        source = note(actions, |known| {
            known.replaced.push(onto);
            let Entry::Socket(number) = entry else { return fd };
            if let Some((_, end)) = known.pumped.iter().find(|(other, _)| *other == number) {
                return *end;
            }
            let end = pumped(fd, number, onto <= STANDARD, "posix_spawn");
            known.pumped.extend(end.map(|end| (number, end)));
            end.unwrap_or(fd)
        });
    }
    // SAFETY: `actions` has been initialised: the program's duty by posix_spawn_file_actions_adddup2(3).
    unsafe { libc_next::posix_spawn_file_actions_adddup2(actions, source, onto) }
}

/// # Safety
/// As `posix_spawn_file_actions_addclose`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_addclose(actions: *mut posix_spawn_file_actions_t, fd: c_int) -> c_int {
    if is_used() {
        note(actions, |known| known.replaced.push(fd));
    }
    // SAFETY: `actions` has been initialised: the program's duty by posix_spawn_file_actions_addclose(3).
    unsafe { libc_next::posix_spawn_file_actions_addclose(actions, fd) }
}

/// # Safety
/// As `posix_spawn_file_actions_addopen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_addopen(
    actions: *mut posix_spawn_file_actions_t,
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    if is_used() {
        note(actions, |known| known.replaced.push(fd));
    }
    // SAFETY: `actions` has been initialised, and `path` is a C string: the program's duty by posix_spawn_file_actions_addopen(3).
    unsafe { libc_next::posix_spawn_file_actions_addopen(actions, fd, path, flags, mode) }
}

/// # Safety
/// As `posix_spawn_file_actions_addclosefrom_np`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_addclosefrom_np(
    actions: *mut posix_spawn_file_actions_t,
    first: c_int,
) -> c_int {
    if is_used() {
        note(actions, |known| known.closed_from = known.closed_from.min(first));
    }
    // SAFETY: `actions` has been initialised: the program's duty by posix_spawn_file_actions_addclosefrom_np(3).
    unsafe { libc_next::posix_spawn_file_actions_addclosefrom_np(actions, first) }
}

/// # Safety
/// As `posix_spawn_file_actions_destroy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_destroy(actions: *mut posix_spawn_file_actions_t) -> c_int {
    forget(actions);
    // SAFETY: `actions` has been initialised: the program's duty by posix_spawn_file_actions_destroy(3).
    unsafe { libc_next::posix_spawn_file_actions_destroy(actions) }
}

/// What the program at `path` is to join by, if it inherits something.
fn prepare(path: impl FnOnce() -> Option<PathBuf>, actions: *const posix_spawn_file_actions_t) -> Option<Offer> {
    let mut inherited = if shared().is_some() { inherited() } else { Vec::new() };
    if !actions.is_null() {
        let is_kept = |fd: RawFd, known: &Actions| !known.replaced.contains(&fd) && fd < known.closed_from;
        // By a line that is closed nobody joins.
        let is_closed = note(actions, |known| {
            inherited.retain(|(fd, _)| is_kept(*fd, known));
            known.closed_from < RawFd::MAX
        });
        if is_closed && !inherited.is_empty() {
            explain(format_args!("posix_spawn: it closes what it would join by: nothing is carried over"));
            return None;
        }
    }
    if inherited.is_empty() && !is_explaining() {
        return None;
    }
    let path = path()?;
    if !target::loads_libraries(&path)? {
        explain(format_args!("posix_spawn {}: {}: nothing is carried over", path.display(), target::NOT_LOADED));
        return None;
    }
    offered("posix_spawn", &path, &inherited)
}

/// Spawns by `call`, which is given the environment; what it says.
///
/// # Safety
/// `given` is an environment, or null.
unsafe fn spawn(
    path: impl FnOnce() -> Option<PathBuf>,
    actions: *const posix_spawn_file_actions_t,
    given: *const *mut c_char,
    call: impl FnOnce(*const *mut c_char) -> c_int,
) -> c_int {
    // SAFETY: `given` is an environment, or null: this function's condition.
    let told = unsafe { runs::environment(given.cast()) };
    let given = told.as_ref().map_or(given, |told| told.pointers.as_ptr().cast());
    let Some(offer) = prepare(path, actions) else { return call(given) };
    // SAFETY: `given` is an environment, or null: this function's condition. Otherwise it is the array made here.
    let environment =
        unsafe { environment(given.cast(), &[(crate::lifecycle::environment::JOINS, offer.value(false))]) };
    let status = call(environment.pointers.as_ptr().cast());
    // The program has the line, if there is one.
    offer.withdraw();
    status
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    process: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: *const *mut c_char,
    given: *const *mut c_char,
) -> c_int {
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe {
        let call = |given| libc_next::posix_spawn(process, path, actions, attributes, arguments, given);
        spawn(|| path_of(path), actions, given, call)
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    process: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    arguments: *const *mut c_char,
    given: *const *mut c_char,
) -> c_int {
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe {
        let call = |given| libc_next::posix_spawnp(process, file, actions, attributes, arguments, given);
        spawn(|| path_of(file).map(|file| target::find(&file)), actions, given, call)
    }
}
