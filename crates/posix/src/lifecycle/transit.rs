//! Sockets on their way between processes of one world, over Unix sockets. The message carries the descriptor's kernel socket, and the
//! receiver finds our socket by the cookie of that kernel socket.

use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::world::lock::lock;
use std::os::fd::RawFd;

/// The kernel's name for a socket, which no other ever has.
fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    let value = (&raw mut cookie).cast();
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe { libc_next::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, value, &raw mut length) };
    (status == 0).then_some(cookie)
}

/// `fd`, which is socket `number`, is about to be sent; what it is called on its way.
pub(crate) fn send(fd: RawFd, number: u32) -> Option<u64> {
    let cookie = cookie(fd)?;
    let mut guard = lock().ok()?;
    guard.expire_references();
    if guard.transit.is_full() {
        return None;
    }
    guard.refer(Entry::Socket(number));
    let since = guard.clock_now();
    guard.transit.push(cookie, number, since);
    Some(cookie)
}

/// It was not.
pub(crate) fn take_back(cookie: u64) {
    let Ok(mut guard) = lock() else { return };
    if let Some(number) = guard.transit.take(cookie) {
        guard.release(number);
    }
}

/// Whether `fd` is a socket of the Internet's protocols.
pub(crate) fn is_internet(fd: RawFd) -> bool {
    let family = crate::sys::kernel_socket::kernel_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    matches!(family, Some(libc::AF_INET | libc::AF_INET6))
}

/// `fd` has been received; whether it is one of ours, which it may be if there is a world.
pub(crate) fn receive(fd: RawFd) -> bool {
    if descriptor::get(fd) != Entry::Kernel {
        return false;
    }
    if crate::sys::this_process::departure::is_detached() {
        return is_internet(fd) && crate::lifecycle::detached::channel::arrived(fd);
    }
    let Ok(guard) = lock() else { return false };
    let is_empty = guard.transit.is_empty();
    drop(guard);
    let Some(cookie) = (!is_empty).then(|| cookie(fd)).flatten() else { return false };
    let Ok(mut guard) = lock() else { return false };
    let Some(number) = guard.transit.take(cookie) else { return false };
    if descriptor::set(fd, Entry::Socket(number)) {
        return true;
    }
    guard.release(number);
    false
}
