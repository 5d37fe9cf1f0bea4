//! Connections of ours that go to a program which is not, by `exec`, `posix_spawn` or a Unix socket: each is [pumped](crate::pump).

use super::give_int;
use crate::descriptor::{self, DESCRIPTORS_MAX, Entry};
use crate::explain::explain;
use crate::lock::{lock, shared};
use crate::pump;
use crate::real;
use libc::{c_char, c_int, cmsghdr, msghdr, posix_spawn_file_actions_t};
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

/// Standard input, output and error.
const STANDARD: c_int = 2;

/// A descriptor as good as connection `number`, which is `fd` here; `None`: it is none that can be pumped.
fn pumped(fd: c_int, number: u32, takes: bool, how: &str) -> Option<RawFd> {
    let is_connection = lock().is_ok_and(|guard| {
        let socket = guard.sockets.get(number);
        socket.is_some_and(|socket| socket.is_connection() && socket.peer.is_some())
    });
    let end = if is_connection { pump::start(fd, number, takes).ok() } else { None };
    match end {
        Some(_) => explain(format_args!("fd {fd}: {how}: a connection of ours, which a process pumps to the kernel's")),
        None => explain(format_args!("fd {fd}: {how}: not carried over")),
    }
    end
}

/// Puts what a program that is to be executed can use in the places of what it can't.
fn before_exec() {
    if shared().is_none() {
        return;
    }
    let mut made: Vec<(u32, Option<RawFd>)> = Vec::new();
    for fd in 0..DESCRIPTORS_MAX as c_int {
        let Entry::Socket(number) = descriptor::get(fd) else { continue };
        // SAFETY: takes no pointers.
        let flags = unsafe { real::fcntl64(fd, libc::F_GETFD, 0) };
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
            continue;
        }
        let end = match made.iter().find(|(other, _)| *other == number) {
            Some((_, end)) => *end,
            None => {
                let end = pumped(fd, number, fd <= STANDARD, "exec");
                made.push((number, end));
                end
            }
        };
        let Some(end) = end else { continue };
        let Ok(mut guard) = lock() else { return };
        guard.forget(fd, number);
        drop(guard);
        // SAFETY: takes no pointers.
        unsafe { real::dup2(end, fd) };
    }
}

macro_rules! exec {
    ($($name:ident($first:ident: $type:ty $(, $argument:ident: $rest:ty)*);)*) => {$(
        /// # Safety
        /// As the C library's.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($first: $type $(, $argument: $rest)*) -> c_int {
            before_exec();
            // SAFETY: as the caller says.
            unsafe { real::$name($first $(, $argument)*) }
        }
    )*};
}

exec! {
    execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char);
    execv(path: *const c_char, arguments: *const *const c_char);
    execvp(file: *const c_char, arguments: *const *const c_char);
    execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char);
    fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char);
}

/// Descriptors that stand for connections in the actions of programs to be spawned: the actions, the socket, the descriptor.
static SPAWNED: Mutex<Vec<(usize, u32, RawFd)>> = Mutex::new(Vec::new());

/// # Safety
/// As `posix_spawn_file_actions_adddup2`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut posix_spawn_file_actions_t,
    fd: c_int,
    onto: c_int,
) -> c_int {
    let mut source = fd;
    if let Entry::Socket(number) = descriptor::get(fd) {
        let mut spawned = SPAWNED.lock().unwrap_or_else(PoisonError::into_inner);
        let known = spawned.iter().find(|(other, socket, _)| (*other, *socket) == (actions.addr(), number));
        source = match known {
            Some((_, _, end)) => *end,
            None => match pumped(fd, number, onto <= STANDARD, "posix_spawn") {
                Some(end) => {
                    spawned.push((actions.addr(), number, end));
                    end
                }
                None => fd,
            },
        };
    }
    // SAFETY: as the caller says.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, source, onto) }
}

/// # Safety
/// As `posix_spawn_file_actions_destroy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn_file_actions_destroy(actions: *mut posix_spawn_file_actions_t) -> c_int {
    let mut spawned = SPAWNED.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, _, end) in spawned.extract_if(.., |(other, _, _)| *other == actions.addr()) {
        // SAFETY: ours.
        unsafe { real::close(end) };
    }
    drop(spawned);
    // SAFETY: as the caller says.
    unsafe { real::posix_spawn_file_actions_destroy(actions) }
}

/// Where the descriptors of a control message that hands on some begin and end, bytes from the buffer's start.
///
/// # Safety
/// The message's control buffer is readable, or null.
unsafe fn rights(message: &msghdr) -> Option<std::ops::Range<usize>> {
    const HEAD: usize = size_of::<cmsghdr>();
    let room = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    let mut at = 0;
    while at + HEAD <= room {
        // SAFETY: within the buffer; nothing needs alignment.
        let header = unsafe { message.msg_control.byte_add(at).cast::<cmsghdr>().read_unaligned() };
        let end = at.checked_add(header.cmsg_len).filter(|end| header.cmsg_len >= HEAD && *end <= room)?;
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            return Some(at + HEAD..end);
        }
        at += header.cmsg_len.next_multiple_of(size_of::<usize>());
    }
    None
}

/// Sends a message over a socket of the kernel's that hands on connections of ours. `None`: it does not.
///
/// # Safety
/// As `sendmsg`.
pub(super) unsafe fn send_rights(fd: c_int, message: &msghdr, flags: c_int) -> Option<libc::ssize_t> {
    shared()?;
    // SAFETY: as the caller says.
    let place = unsafe { rights(message) }?;
    // SAFETY: within the buffer, as has been seen.
    let control = unsafe { std::slice::from_raw_parts(message.msg_control.cast::<u8>(), message.msg_controllen) };
    let mut control = control.to_vec();
    let mut made: Vec<(u32, RawFd)> = Vec::new();
    for bytes in control.get_mut(place)?.chunks_exact_mut(size_of::<c_int>()) {
        let handed = c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let Entry::Socket(number) = descriptor::get(handed) else { continue };
        let end = match made.iter().find(|(other, _)| *other == number) {
            Some((_, end)) => *end,
            None => {
                let Some(end) = pumped(handed, number, false, "sendmsg") else { continue };
                made.push((number, end));
                end
            }
        };
        bytes.copy_from_slice(&end.to_ne_bytes());
    }
    if made.is_empty() {
        return None;
    }
    let mut copy = *message;
    copy.msg_control = control.as_mut_ptr().cast();
    // SAFETY: as the caller says; the copy's buffer is as long.
    let sent = unsafe { real::sendmsg(fd, &raw const copy, flags) };
    let error = real::errno();
    for (_, end) in made {
        // SAFETY: ours; who receives has a copy.
        unsafe { real::close(end) };
    }
    if sent < 0 {
        return Some(give_int(Err(error)) as libc::ssize_t);
    }
    Some(sent)
}
