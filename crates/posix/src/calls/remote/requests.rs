//! The deputy's side: calls for a process that has [left](crate::lifecycle::detached) the world, made by the same functions as the process's
//! own would be.

use crate::calls::waiting::poll;
use crate::calls::{bind, close as closing, control as controls, open, options};
use crate::lifecycle::detached::channel::is_about_number;
use crate::lifecycle::detached::socket_of;
use crate::lifecycle::pump;
use crate::sys::address;
use crate::sys::descriptor;
use crate::sys::libc_next;
use crate::world::lock::lock;
use libc::{c_int, c_ulong, pollfd, sockaddr_storage, socklen_t};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// Waits for any of these, ours or the kernel's.
///
/// # Errors
/// As `poll`.
pub(crate) fn wait(set: &mut [pollfd]) -> Result<c_int, Errno> {
    // SAFETY: the slice has as many entries as its length says.
    let ready = unsafe { poll::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, -1) };
    match ready {
        0.. => Ok(ready),
        _ if libc_next::errno() == Errno::INTR => Ok(0),
        _ => Err(libc_next::errno()),
    }
}

/// As [`wait`], now.
///
/// # Errors
/// As `poll`.
pub(crate) fn look(set: &mut [pollfd]) -> Result<c_int, Errno> {
    // SAFETY: the slice has as many entries as its length says.
    let ready = unsafe { poll::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, 0) };
    if ready < 0 { Err(libc_next::errno()) } else { Ok(ready) }
}

pub(crate) fn close(fd: c_int) -> c_int {
    closing::close(fd)
}

pub(crate) fn shutdown(fd: c_int, how: c_int) -> c_int {
    closing::shutdown(fd, how)
}

pub(crate) fn listen(fd: c_int, backlog: c_int) -> c_int {
    open::listen(fd, backlog)
}

pub(crate) fn duplicate(old: c_int, new: c_int) -> c_int {
    if new < 0 || descriptor::get(new) != descriptor::Entry::Kernel {
        return crate::calls::give_int(Err(Errno::BADF));
    }
    closing::dup3(old, new, libc::O_CLOEXEC)
}

/// `F_GETFL` and `F_SETFL`; nothing else is anybody else's business.
pub(crate) fn flags(fd: c_int, command: c_int, argument: u64) -> c_int {
    match command {
        libc::F_GETFL | libc::F_SETFL => controls::fcntl64(fd, command, argument as c_ulong),
        _ => crate::calls::give_int(Err(Errno::INVAL)),
    }
}

/// An `ioctl` with a number for an argument.
///
/// # Errors
/// As `ioctl`.
pub(crate) fn control(fd: c_int, request: u64, value: c_int) -> Result<c_int, Errno> {
    let mut value = value;
    if !is_about_number(request) {
        return Err(Errno::OPNOTSUPP);
    }
    // SAFETY: the pointer is to a writable number.
    let status = unsafe { controls::ioctl(fd, request as c_ulong, (&raw mut value).expose_provenance() as c_ulong) };
    if status < 0 { Err(libc_next::errno()) } else { Ok(value) }
}

/// Binds `fd` to an address as a program gives it; `real_bind`: the kernel's part.
///
/// # Errors
/// As `bind`.
pub(crate) fn bind(fd: c_int, bytes: &[u8], real_bind: impl FnOnce() -> Result<c_int, Errno>) -> Result<c_int, Errno> {
    let mut storage = MaybeUninit::<sockaddr_storage>::zeroed();
    let length = bytes.len().min(size_of::<sockaddr_storage>());
    // SAFETY: the bytes are within both buffers.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.as_mut_ptr().cast(), length) };
    // SAFETY: so many bytes, the rest zeroed.
    unsafe { bind::bind_by(fd, storage.as_ptr().cast(), length as socklen_t, real_bind) }
}

/// An address as a call writes it.
fn written(address: SocketAddr, family: c_int, room: usize) -> Vec<u8> {
    let (storage, length) = address::encode(address, family);
    let pointer = (&raw const storage).cast::<u8>();
    // SAFETY: the structure is plain numbers, and all of them have been written.
    let bytes = unsafe { std::slice::from_raw_parts(pointer, length.min(size_of_val(&storage))) };
    bytes.get(..room.min(bytes.len())).unwrap_or_default().to_vec()
}

/// `getsockname`, or of the peer `getpeername`.
///
/// # Errors
/// As these.
pub(crate) fn name(fd: c_int, room: usize, of_peer: bool) -> Result<Vec<u8>, Errno> {
    let mut storage = MaybeUninit::<sockaddr_storage>::zeroed();
    let mut length = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe {
        if of_peer {
            open::getpeername(fd, storage.as_mut_ptr().cast(), &raw mut length)
        } else {
            open::getsockname(fd, storage.as_mut_ptr().cast(), &raw mut length)
        }
    };
    if status < 0 {
        return Err(libc_next::errno());
    }
    let length = room.min(length as usize).min(size_of::<sockaddr_storage>());
    // SAFETY: the structure was zeroed at first, which is a valid value.
    Ok(unsafe { std::slice::from_raw_parts(storage.as_ptr().cast::<u8>(), length) }.to_vec())
}

/// # Errors
/// As `getsockopt`.
pub(crate) fn option(fd: c_int, level: c_int, name: c_int, room: usize) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0u8; room];
    let mut length = room as socklen_t;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe { options::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut length) };
    if status < 0 {
        return Err(libc_next::errno());
    }
    value.truncate(length as usize);
    Ok(value)
}

pub(crate) fn set_option(fd: c_int, level: c_int, name: c_int, value: &[u8]) -> c_int {
    // SAFETY: the pointer is to as many readable bytes as the length says.
    unsafe { options::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as socklen_t) }
}

/// A connection that waits at listener `fd` is pumped to `end`: the peer's address.
///
/// # Errors
/// As `accept` of one that does not wait.
pub(crate) fn accept(fd: c_int, end: OwnedFd, room: usize) -> Result<Vec<u8>, Errno> {
    let number = socket_of(fd).ok_or(Errno::BADF)?;
    let (new, peer, family) = open::accept_at_once(number)?;
    let connection = socket_of(new).ok_or(Errno::BADF)?;
    let started = pump::start_with(connection, true, &end);
    closing::close(new);
    started.map(|()| written(peer, family, room))
}

/// Connection `fd` is pumped to `end`.
///
/// # Errors
/// `EOPNOTSUPP`: it is none.
pub(crate) fn pump(fd: c_int, end: OwnedFd) -> Result<(), Errno> {
    let number = socket_of(fd).ok_or(Errno::BADF)?;
    let is_connection =
        lock()?.sockets.get(number).is_some_and(|socket| socket.is_connection() && socket.peer.is_some());
    if !is_connection {
        return Err(Errno::OPNOTSUPP);
    }
    pump::start_with(number, false, &end)
}
