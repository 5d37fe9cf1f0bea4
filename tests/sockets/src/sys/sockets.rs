//! Making sockets, naming and connecting them, their options.

use super::base::*;
use crate::address::Address;
use std::ptr::null_mut;

pub fn socket(domain: i32, kind: i32, protocol: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::socket(domain, kind, protocol) })
}

/// A pair of Unix sockets.
pub fn socketpair(kind: i32) -> (Ret, Fd, Fd) {
    let mut both = [-1; 2];
    // SAFETY: room for two descriptors.
    let ret = Ret::of(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) });
    both.iter().filter(|fd| **fd >= 0).for_each(|fd| note_open(*fd));
    (ret, both[0], both[1])
}

pub fn bind(fd: Fd, address: &Address) -> Ret {
    // SAFETY: the address lives through the call and its length is true.
    Ret::of(unsafe { libc::bind(fd, address.bytes().as_ptr().cast(), length(address.bytes().len())) })
}

pub fn listen(fd: Fd, backlog: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::listen(fd, backlog) })
}

pub fn connect(fd: Fd, address: &Address) -> Ret {
    // SAFETY: the address lives through the call and its length is true.
    Ret::of(unsafe { libc::connect(fd, address.bytes().as_ptr().cast(), length(address.bytes().len())) })
}

pub fn accept(fd: Fd) -> Ret {
    // SAFETY: null addresses are allowed.
    Ret::opened(unsafe { libc::accept(fd, null_mut(), null_mut()) })
}

pub fn accept4(fd: Fd, flags: i32) -> Ret {
    // SAFETY: null addresses are allowed.
    Ret::opened(unsafe { libc::accept4(fd, null_mut(), null_mut(), flags) })
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

fn name(call: NameCall, fd: Fd, room: usize) -> (Ret, Address, usize) {
    let mut bytes = [0_u8; 128];
    let mut size = length(room.min(bytes.len()));
    // SAFETY: there are at least `size` bytes of room.
    let ret = Ret::of(unsafe { call(fd, bytes.as_mut_ptr().cast(), &raw mut size) });
    let true_length = size as usize;
    (ret, Address::of_bytes(&bytes[..true_length.min(room).min(128)]), true_length)
}

/// With the address and its true length, which may be more than the room.
pub fn accept_from(fd: Fd, room: usize) -> (Ret, Address, usize) {
    let (ret, address, size) = name(libc::accept, fd, room);
    if ret.is_ok() {
        note_open(ret.fd());
    }
    (ret, address, size)
}

pub fn getsockname(fd: Fd) -> (Ret, Address) {
    let (ret, address, _) = name(libc::getsockname, fd, 128);
    (ret, address)
}

pub fn getsockname_in(fd: Fd, room: usize) -> (Ret, Address, usize) {
    name(libc::getsockname, fd, room)
}

pub fn getpeername(fd: Fd) -> (Ret, Address) {
    let (ret, address, _) = name(libc::getpeername, fd, 128);
    (ret, address)
}

pub fn shutdown(fd: Fd, how: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::shutdown(fd, how) })
}

pub fn close(fd: Fd) -> Ret {
    note_closed(fd);
    // SAFETY: cases close what they opened, or a number nobody has.
    Ret::of(unsafe { libc::close(fd) })
}

/// The value's bytes, as long as the kernel says they are.
pub fn getsockopt(fd: Fd, level: i32, option: i32, room: usize) -> (Ret, Vec<u8>) {
    let mut bytes = vec![0_u8; room.max(1)];
    let mut size = length(room);
    // SAFETY: there are `size` bytes of room.
    let ret = Ret::of(unsafe { libc::getsockopt(fd, level, option, bytes.as_mut_ptr().cast(), &raw mut size) });
    bytes.truncate(size as usize);
    (ret, bytes)
}

pub fn setsockopt(fd: Fd, level: i32, option: i32, value: &[u8]) -> Ret {
    // SAFETY: the value lives through the call and its length is true.
    Ret::of(unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), length(value.len())) })
}
