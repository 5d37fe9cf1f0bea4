//! The stand-in: what the kernel has at the number of an accepted connection until the program asks it for more. One file stands in for all
//! of them. A kernel socket for each would cost more than all the stack's work for a short connection.

use crate::lifecycle::detached::socket_of;
use crate::sockets::settings::{KEEP_COUNT, KEEP_IDLE, KEEP_INTERVAL};
use crate::sockets::socket::Socket;
use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::sys::wakers::out_of_the_way;
use crate::world::lock::{Guard, lock};
use libc::{c_int, socklen_t};
use qanat_launch::support::TCP_NOTSENT_LOWAT;
use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

/// This process's, and that of its children; never connected to anything.
static FILE: AtomicI32 = AtomicI32::new(-1);

/// The file, made when it is needed first. The lock is held, so nobody else makes it.
fn file(_: &Guard) -> Result<c_int, Errno> {
    let file = FILE.load(Ordering::Relaxed);
    if file >= 0 {
        return Ok(file);
    }
    // SAFETY: the call takes no pointers.
    let made = unsafe { libc_next::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    // A deputy may make none: nobody asks the kernel anything of what stands in there.
    let file = if made < 0 { crate::sys::wakers::new_event()? } else { out_of_the_way(made) };
    descriptor::set(file, Entry::Own);
    FILE.store(file, Ordering::Relaxed);
    Ok(file)
}

/// Gives connection `number` a descriptor.
///
/// # Errors
/// Out of descriptors.
pub(super) fn describe(guard: &Guard, number: u32, is_closed_by_exec: bool) -> Result<c_int, Errno> {
    let command = if is_closed_by_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: the call takes no pointers.
    let new = unsafe { libc_next::fcntl64(file(guard)?, command, 0) };
    if new < 0 {
        return Err(libc_next::errno());
    }
    if !descriptor::set_stand_in(new, number) {
        // SAFETY: the descriptor was made just now, and nobody else owns it.
        unsafe { libc_next::close(new) };
        return Err(Errno::MFILE);
    }
    Ok(new)
}

/// What `fd` is in the kernel is about to be asked for something, or changed: from now on it is a socket of its own, with what
/// has been set so far.
///
/// # Errors
/// Out of descriptors.
pub(super) fn replace(fd: c_int) -> Result<(), Errno> {
    if !descriptor::is_stand_in(fd) {
        return Ok(());
    }
    // The lock is held until this is done. A thread that closes `fd` meanwhile waits, and closes the new file.
    let guard = lock()?;
    let Some(number) = socket_of(fd).filter(|_| descriptor::is_stand_in(fd)) else { return Ok(()) };
    let Some(socket) = guard.sockets.get(number) else { return Ok(()) };
    // SAFETY: the call takes no pointers.
    let own = unsafe { libc_next::socket(socket.family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if own < 0 {
        return Err(libc_next::errno());
    }
    copy_to_kernel(own, socket);
    // SAFETY: the call takes no pointers.
    let status = unsafe {
        let is_closed_by_exec = libc_next::fcntl64(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
        let status = libc_next::dup3(own, fd, if is_closed_by_exec { libc::O_CLOEXEC } else { 0 });
        libc_next::close(own);
        status
    };
    if status < 0 {
        return Err(libc_next::errno());
    }
    descriptor::set(fd, Entry::Socket(number));
    Ok(())
}

/// Sets on the kernel's socket of an accepted connection what its listener had, for programs that ask.
fn copy_to_kernel(fd: c_int, socket: &Socket) {
    let set = |level: c_int, name: c_int, value: u32| {
        let bytes = value.to_ne_bytes();
        // SAFETY: the pointer is to as many readable bytes as the length says.
        unsafe { libc_next::setsockopt(fd, level, name, bytes.as_ptr().cast(), bytes.len() as socklen_t) };
    };
    let options = &socket.options;
    for (is_set, level, name) in [
        (options.no_delay, libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (options.cork, libc::IPPROTO_TCP, libc::TCP_CORK),
        (options.keepalive, libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        (options.reuse_address, libc::SOL_SOCKET, libc::SO_REUSEADDR),
        (options.reuse_port, libc::SOL_SOCKET, libc::SO_REUSEPORT),
        (options.urgent_inline, libc::SOL_SOCKET, libc::SO_OOBINLINE),
    ] {
        if is_set {
            set(level, name, 1);
        }
    }
    for (value, default, name) in [
        (options.keep_idle_s, KEEP_IDLE.as_secs() as u32, libc::TCP_KEEPIDLE),
        (options.keep_interval_s, KEEP_INTERVAL.as_secs() as u32, libc::TCP_KEEPINTVL),
        (options.keep_count, KEEP_COUNT, libc::TCP_KEEPCNT),
    ] {
        if let Some(value) = value.filter(|value| *value != default) {
            set(libc::IPPROTO_TCP, name, value);
        }
    }
    if options.unsent_mark > 0 {
        set(libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT, options.unsent_mark);
    }
    if let Some(time) = options.user_timeout {
        set(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, time.as_millis() as u32);
    }
    if let Some(algorithm) = options.congestion {
        let name = algorithm.name();
        // SAFETY: the pointer is to as many readable bytes as the length says.
        unsafe {
            libc_next::setsockopt(
                fd,
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                name.as_ptr().cast(),
                name.len() as socklen_t,
            )
        };
    }
    if let Some(time) = socket.linger {
        let linger = libc::linger { l_onoff: 1, l_linger: time.as_secs() as c_int };
        let length = size_of::<libc::linger>() as socklen_t;
        // SAFETY: the pointer is to as many readable bytes as the length says.
        unsafe { libc_next::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, (&raw const linger).cast(), length) };
    }
    for (time, name) in [(socket.receive_timeout, libc::SO_RCVTIMEO), (socket.send_timeout, libc::SO_SNDTIMEO)] {
        if let Some(time) = time {
            let time = libc::timeval { tv_sec: time.as_secs() as i64, tv_usec: i64::from(time.subsec_micros()) };
            let length = size_of::<libc::timeval>() as socklen_t;
            // SAFETY: the pointer is to as many readable bytes as the length says.
            unsafe { libc_next::setsockopt(fd, libc::SOL_SOCKET, name, (&raw const time).cast(), length) };
        }
    }
}
