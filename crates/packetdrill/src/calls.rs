//! Calls on sockets: those of the C library's names, which are ours in this process.

use libc::{
    c_int, c_uint, c_ulong, c_void, epoll_event, iovec, loff_t, msghdr, nfds_t, pollfd, size_t, sockaddr, socklen_t,
    ssize_t,
};

macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// As the function of that name.
        pub(crate) unsafe extern "C" fn $name(_: *mut c_void, $($argument: $type),*) -> $result {
            // SAFETY: the arguments are what the function of that name demands: packetdrill gives them, as this function's condition says.
            unsafe { libc::$name($($argument),*) }
        }
    )*};
}

calls! {
    bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int, peer: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    send(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int, peer: *const sockaddr, length: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int;
    close(fd: c_int) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    epoll_create(size: c_int) -> c_int;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int;
    pipe(ends: *mut c_int) -> c_int;
}

/// The first has the stack made: the script's settings (`sysctl`) are in place by now.
///
/// # Safety
/// As `socket`.
pub(crate) unsafe extern "C" fn socket(_: *mut c_void, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    qanat_posix::script::begin();
    // SAFETY: it takes no pointers.
    unsafe { libc::socket(domain, kind, protocol) }
}

/// An offset that the script has as `NULL` packetdrill hands over as a number that is zero, which is what no offset is as well:
/// neither end is at any other in its scripts.
///
/// # Safety
/// As `splice`.
pub(crate) unsafe extern "C" fn splice(
    _: *mut c_void,
    from: c_int,
    from_offset: *mut loff_t,
    to: c_int,
    to_offset: *mut loff_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the offsets are null or valid: the program's duty by splice(2).
    let given = |offset: *mut loff_t| match unsafe { offset.as_ref() } {
        Some(0) => std::ptr::null_mut(),
        _ => offset,
    };
    // SAFETY: the offsets are null or valid: the program's duty by splice(2).
    unsafe { libc::splice(from, given(from_offset), to, given(to_offset), count, flags) }
}
