//! The C library's own functions, behind ours of the same names.

use libc::{
    FILE, c_char, c_int, c_uint, c_ulong, c_void, epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pid_t,
    pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};
use rustix::io::Errno;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next definition of `name` after this library's.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        // The program could not have been linked without it.
        // SAFETY: the call ends the process.
        unsafe { libc::abort() };
    }
    found
}

macro_rules! real {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// The C library's.
        ///
        /// # Safety
        /// As that function demands.
        #[inline]
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            let mut found = FOUND.load(Ordering::Relaxed);
            if found.is_null() {
                const NAME: &[u8] = concat!(stringify!($name), "\0").as_bytes();
                found = next(CStr::from_bytes_with_nul(NAME).unwrap_or_default());
                FOUND.store(found, Ordering::Relaxed);
            }
            // SAFETY: the C library's function of that name has this signature.
            let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(found) };
            // SAFETY: the arguments are what that function demands: this function's condition.
            unsafe { function($($argument),*) }
        }
    )*};
}

real! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int;
    dup2(fd: c_int, onto: c_int) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int;
    ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int;
    read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
    write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t;
    send(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int, address: *const sockaddr, length: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile64(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, count: size_t, flags: c_uint) -> ssize_t;
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *mut timeval) -> c_int;
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int;
    sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    posix_spawn_file_actions_adddup2(actions: *mut libc::posix_spawn_file_actions_t, fd: c_int, onto: c_int) -> c_int;
    posix_spawn(process: *mut pid_t, path: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    posix_spawnp(process: *mut pid_t, file: *const c_char, actions: *const libc::posix_spawn_file_actions_t, attributes: *const libc::posix_spawnattr_t, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    posix_spawn_file_actions_init(actions: *mut libc::posix_spawn_file_actions_t) -> c_int;
    posix_spawn_file_actions_addclose(actions: *mut libc::posix_spawn_file_actions_t, fd: c_int) -> c_int;
    posix_spawn_file_actions_addopen(actions: *mut libc::posix_spawn_file_actions_t, fd: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    posix_spawn_file_actions_addclosefrom_np(actions: *mut libc::posix_spawn_file_actions_t, first: c_int) -> c_int;
    posix_spawn_file_actions_destroy(actions: *mut libc::posix_spawn_file_actions_t) -> c_int;
    setuid(user: libc::uid_t) -> c_int;
    setgid(group: libc::gid_t) -> c_int;
    seteuid(user: libc::uid_t) -> c_int;
    setegid(group: libc::gid_t) -> c_int;
    setreuid(user: libc::uid_t, effective: libc::uid_t) -> c_int;
    setregid(group: libc::gid_t, effective: libc::gid_t) -> c_int;
    setresuid(user: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int;
    setresgid(group: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) -> c_int;
    setgroups(count: size_t, groups: *const libc::gid_t) -> c_int;
    capset(head: *mut c_void, sets: *const c_void) -> c_int;
    chroot(path: *const c_char) -> c_int;
    unshare(flags: c_int) -> c_int;
    setns(fd: c_int, kind: c_int) -> c_int;
    prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int;
    clone(function: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut c_void, local: *mut c_void, child: *mut c_void) -> c_int;
    fork() -> pid_t;
    getifaddrs(list: *mut *mut libc::ifaddrs) -> c_int;
    freeifaddrs(list: *mut libc::ifaddrs) -> ();
    if_nametoindex(name: *const c_char) -> c_uint;
    if_indextoname(index: c_uint, name: *mut c_char) -> *mut c_char;
    if_nameindex() -> *mut libc::if_nameindex;
    daemon(no_chdir: c_int, no_close: c_int) -> c_int;
    vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
}

/// The C library's `fork` that calls nothing of the program's; `None`: it is too old to have one (before 2.34).
pub(crate) fn quiet_fork() -> Option<unsafe extern "C" fn() -> pid_t> {
    static FOUND: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    // SAFETY: the name is a C string.
    let place = *FOUND.get_or_init(|| unsafe { libc::dlsym(libc::RTLD_NEXT, c"_Fork".as_ptr()) }.expose_provenance());
    // SAFETY: the C library's function of that name has this signature.
    (place != 0).then(|| unsafe { std::mem::transmute(std::ptr::with_exposed_provenance::<c_void>(place)) })
}

/// The highest number of an error that the kernel gives.
const ERROR_MAX: i64 = 4_095;

/// The error with this number. What is none (a number that a process of fewer rights sent, or 0) becomes `EIO`.
pub(crate) fn error_of(number: i64) -> Errno {
    if (1..=ERROR_MAX).contains(&number) { Errno::from_raw_os_error(number as i32) } else { Errno::IO }
}

/// What the call that has just failed has set.
pub(crate) fn errno() -> Errno {
    error_of(raw_errno().into())
}

/// The number itself, which is to be there [again](set_raw_errno) after other calls; 0: no call has failed yet.
pub(crate) fn raw_errno() -> i32 {
    // SAFETY: the pointer is to this thread's own `errno`.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
pub(crate) fn set_raw_errno(number: i32) {
    // SAFETY: the pointer is to this thread's own `errno`.
    unsafe { *libc::__errno_location() = number };
}

/// Sets it, of a call that fails.
pub(crate) fn set_errno(errno: Errno) {
    set_raw_errno(errno.raw_os_error());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_no_errors_are_one() {
        for number in [0, -1, 4_096, 70_000, i64::MIN, i64::MAX] {
            assert_eq!(error_of(number), Errno::IO, "{number}");
        }
        assert_eq!(error_of(libc::EAGAIN.into()), Errno::AGAIN);
        assert_eq!(error_of(ERROR_MAX).raw_os_error(), 4_095);
    }
}
