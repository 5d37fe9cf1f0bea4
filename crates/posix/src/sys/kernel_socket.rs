//! What the kernel says of a socket that it has at a descriptor.

use crate::sys::{address, libc_next};
use libc::{c_int, sockaddr_storage, socklen_t};
use std::mem::MaybeUninit;
use std::net::SocketAddr;

/// A number the kernel has of a socket; `None`: it is none.
pub(crate) fn kernel_option(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe { libc_next::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    (status == 0).then_some(value)
}

/// An option that is a structure; `None`: it is not that long.
pub(crate) fn kernel_structure<T: Copy>(fd: c_int, level: c_int, name: c_int) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe { libc_next::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut length) };
    // SAFETY: the structure is plain numbers, and it was zeroed at first.
    (status == 0 && length as usize == size_of::<T>()).then(|| unsafe { value.assume_init() })
}

/// The address the kernel has bound it to.
pub(crate) fn kernel_name(fd: c_int) -> Option<SocketAddr> {
    let mut storage = MaybeUninit::<sockaddr_storage>::zeroed();
    let mut length = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status = unsafe { libc_next::getsockname(fd, storage.as_mut_ptr().cast(), &raw mut length) };
    // SAFETY: zeroed at first, so all of it is readable.
    (status == 0).then(|| unsafe { address::read(storage.as_ptr().cast(), length) }).flatten()
}

pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: the call takes no pointers.
    unsafe { libc_next::fcntl64(fd, libc::F_GETFL, 0) & libc::O_NONBLOCK != 0 }
}

pub(crate) fn set_nonblocking(fd: c_int, nonblocking: bool) {
    // SAFETY: the call takes no pointers.
    unsafe {
        let flags = libc_next::fcntl64(fd, libc::F_GETFL, 0) & !libc::O_NONBLOCK;
        libc_next::fcntl64(
            fd,
            libc::F_SETFL,
            (flags | if nonblocking { libc::O_NONBLOCK } else { 0 }) as libc::c_ulong,
        );
    }
}
