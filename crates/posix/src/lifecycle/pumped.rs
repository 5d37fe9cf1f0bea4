//! What a program that cannot use our sockets gets in their places.

use crate::lifecycle::pump;
use crate::sys::descriptor::Entry;
use crate::sys::explain::explain;
use crate::sys::libc_next;
use crate::world::lock::lock;
use libc::c_int;
use std::os::fd::RawFd;

/// Standard input, output and error.
pub(crate) const STANDARD: c_int = 2;

pub(crate) fn is_connection(number: u32) -> bool {
    lock().is_ok_and(|guard| {
        let socket = guard.sockets.get(number);
        socket.is_some_and(|socket| socket.is_connection() && socket.peer.is_some())
    })
}

/// A descriptor as good as connection `number`, which is `fd` here; `None`: it is none that can be pumped.
pub(crate) fn pumped(fd: c_int, number: u32, takes: bool, how: &str) -> Option<RawFd> {
    let end = if is_connection(number) { pump::start(number, takes).ok() } else { None };
    match end {
        Some(_) => explain(format_args!("fd {fd}: {how}: a connection of ours, which a process pumps to the kernel's")),
        None => explain(format_args!("fd {fd}: {how}: not carried over")),
    }
    end
}

/// Puts what a program that doesn't join can use in the places of what it can't.
pub(crate) fn put(fds: &[(RawFd, Entry)]) {
    let mut made: Vec<(u32, Option<RawFd>)> = Vec::new();
    for (fd, entry) in fds {
        let Entry::Socket(number) = *entry else { continue };
        let end = match made.iter().find(|(other, _)| *other == number) {
            Some((_, end)) => *end,
            None => {
                let end = pumped(*fd, number, *fd <= STANDARD, "exec");
                made.push((number, end));
                end
            }
        };
        let Some(end) = end else { continue };
        let Ok(mut guard) = lock() else { return };
        guard.forget(*fd, number);
        drop(guard);
        // SAFETY: the call takes no pointers.
        unsafe { libc_next::dup2(end, *fd) };
    }
}
