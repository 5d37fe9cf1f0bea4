//! `exec`: if the new program loads this library, it [joins](crate::lifecycle::join) with the sockets it inherits. Otherwise its connections
//! are [pumped](crate::lifecycle::pump). A connection that is standard input, output or error is always pumped, because programs read and
//! write those without the C library's functions for sockets.

use crate::calls::stand_in;
use crate::lifecycle::environment::environment;
use crate::lifecycle::join::{Offer, offer};
use crate::lifecycle::pumped::{self, STANDARD, is_connection};
use crate::sys::descriptor::{self, DESCRIPTORS_MAX, Entry};
use crate::sys::explain::{explain, is_explaining};
use crate::sys::libc_next;
use crate::sys::target;
use crate::world::lock::shared;
use crate::world::processes::is_first;
use crate::world::runs;
use libc::{c_char, c_int};
use std::ffi::{CStr, OsStr};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The descriptors of ours that a program executed now inherits.
pub(in crate::calls) fn inherited() -> Vec<(RawFd, Entry)> {
    let is_kept = |fd: &RawFd| {
        // SAFETY: the call takes no pointers.
        let flags = unsafe { libc_next::fcntl64(*fd, libc::F_GETFD, 0) };
        flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    let all = (0..DESCRIPTORS_MAX as RawFd).map(|fd| (fd, descriptor::get(fd)));
    let ours = all.filter(|(_, entry)| matches!(entry, Entry::Socket(_) | Entry::Epoll(_)));
    // Another program has another file to stand in.
    ours.filter(|(fd, _)| is_kept(fd) && stand_in::replace(*fd).is_ok()).collect()
}

/// Makes ready for the program at `path`; what it is to join by, if it is to.
fn prepare(path: impl FnOnce() -> Option<PathBuf>) -> Option<Offer> {
    let inherited = if shared().is_some() { inherited() } else { Vec::new() };
    let stays = shared().is_some() && is_first();
    if inherited.is_empty() && !stays && !is_explaining() {
        return None;
    }
    let path = path()?;
    // What isn't there, the kernel refuses.
    if !target::loads_libraries(&path)? {
        explain(format_args!("exec {}: {}", path.display(), target::NOT_LOADED));
        pumped::put(&inherited);
        return None;
    }
    let (standard, others): (Vec<_>, Vec<_>) = inherited
        .into_iter()
        .partition(|(fd, entry)| *fd <= STANDARD && matches!(entry, Entry::Socket(number) if is_connection(*number)));
    pumped::put(&standard);
    let offer = if others.is_empty() && stays { offer(&[]) } else { offered("exec", &path, &others) };
    if offer.is_none() {
        pumped::put(&others);
    }
    offer
}

/// What the program at `path`, started by `call`, joins by with those descriptors; `None`: there are none, or it can't be had.
pub(in crate::calls) fn offered(call: &str, path: &Path, inherited: &[(RawFd, Entry)]) -> Option<Offer> {
    if inherited.is_empty() {
        return None;
    }
    let offer = offer(inherited)?;
    let fds: Vec<String> = inherited.iter().map(|(fd, _)| fd.to_string()).collect();
    explain(format_args!("{call} {}: joins, with fd {}", path.display(), fds.join(", ")));
    Some(offer)
}

/// # Safety
/// A string, or null.
pub(in crate::calls) unsafe fn path_of(text: *const c_char) -> Option<PathBuf> {
    // SAFETY: `text` is null or a C string: this function's condition.
    let text = unsafe { text.as_ref().map(|text| CStr::from_ptr(text)) }?;
    Some(PathBuf::from(OsStr::from_bytes(text.to_bytes())))
}

/// Executes by `call`, which is given the environment; what it says.
///
/// # Safety
/// `given` is an environment, or null.
unsafe fn execute(
    path: impl FnOnce() -> Option<PathBuf>,
    given: *const *const c_char,
    call: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    if crate::sys::this_process::departure::is_detached() {
        // SAFETY: `given` is an environment, or null: this function's condition.
        return unsafe { execute_detached(path, given, call) };
    }
    // SAFETY: `given` is an environment, or null: this function's condition.
    let told = unsafe { runs::environment(given) };
    let given = told.as_ref().map_or(given, |told| told.pointers.as_ptr());
    let Some(offer) = prepare(path) else { return call(given) };
    // SAFETY: `given` is an environment, or null: this function's condition. Otherwise it is the array made here.
    let environment = unsafe { environment(given, &offer.variables()) };
    offer.hand_on(true);
    let status = call(environment.pointers.as_ptr());
    let error = libc_next::raw_errno();
    offer.hand_on(false);
    offer.withdraw();
    libc_next::set_raw_errno(error);
    status
}

/// As [`execute`], by a process that has left its world: so has the new program.
///
/// # Safety
/// As there.
unsafe fn execute_detached(
    path: impl FnOnce() -> Option<PathBuf>,
    given: *const *const c_char,
    call: impl FnOnce(*const *const c_char) -> c_int,
) -> c_int {
    if !is_first() && crate::lifecycle::detached::has_nothing_to_hand_on() {
        return call(given);
    }
    let loads = path().and_then(|path| target::loads_libraries(&path)).unwrap_or(false);
    crate::lifecycle::detached::channel::hang_up();
    let Some(text) = crate::lifecycle::detached::text().filter(|_| loads) else {
        explain(format_args!("exec: sockets of a card of fewer rights are not carried over"));
        return call(given);
    };
    let own: Vec<RawFd> = descriptor::all().filter(|(_, entry)| *entry == Entry::Own).map(|(fd, _)| fd).collect();
    let set_flag = |flag: c_int| {
        for fd in &own {
            // SAFETY: the call takes no pointers.
            unsafe { libc_next::fcntl64(*fd, libc::F_SETFD, flag as libc::c_ulong) };
        }
    };
    // SAFETY: `given` is an environment, or null: this function's condition.
    let environment = unsafe { environment(given, &[(crate::lifecycle::environment::DETACHED, text)]) };
    set_flag(0);
    let status = call(environment.pointers.as_ptr());
    let error = libc_next::raw_errno();
    set_flag(libc::FD_CLOEXEC);
    libc_next::set_raw_errno(error);
    status
}

type Strings = *const *const c_char;

unsafe extern "C" {
    static environ: Strings;
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, arguments: Strings, given: Strings) -> c_int {
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe { execute(|| path_of(path), given, |given| libc_next::execve(path, arguments, given)) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe { execve(path, arguments, environ) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, arguments: Strings, given: Strings) -> c_int {
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe {
        let path = || path_of(file).map(|file| target::find(&file));
        execute(path, given, |given| libc_next::execvpe(file, arguments, given))
    }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe { execvpe(file, arguments, environ) }
}

/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(fd: c_int, arguments: Strings, given: Strings) -> c_int {
    let path = || Some(Path::new("/proc/self/fd").join(fd.to_string()));
    // SAFETY: paths are C strings, and arguments and environments end with a null pointer: the program's duty by the function's manual
    // page.
    unsafe { execute(path, given, |given| libc_next::fexecve(fd, arguments, given)) }
}

/// # Safety
/// `arguments` are those of `execle`: a null pointer ends them, and the environment follows.
unsafe extern "C" fn execle_with(path: *const c_char, arguments: Strings) -> c_int {
    let mut last = arguments;
    // SAFETY: a null pointer ends the arguments, and the environment is behind it: the program's duty by execle(3).
    unsafe {
        while !(*last).is_null() {
            last = last.add(1);
        }
        execve(path, arguments, last.add(1).cast::<Strings>().read())
    }
}

/// A function with any number of arguments, all pointers.
macro_rules! any_number {
    ($($name:ident by $function:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() -> c_int {
            crate::arch::as_array!($function)
        }
    )*};
}

any_number! {
    execl by execv;
    execlp by execvp;
    execle by execle_with;
}
