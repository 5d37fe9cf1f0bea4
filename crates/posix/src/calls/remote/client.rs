//! Calls on sockets of a world that this process has [left](crate::lifecycle::detached). It asks its deputy, and takes only numbers and
//! addresses from it.

use crate::calls::give_int;
use crate::lifecycle::detached::channel::{self, Operation};
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::{explain, warn};
use crate::sys::libc_next;
use crate::sys::program_memory::{Payload, is_nowhere};
use crate::sys::sleep::{readable, sleep};
use libc::{c_int, c_ulong, c_void, pollfd, sigset_t, sockaddr, socklen_t};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::time::{Duration, Instant};

/// # Safety
/// As `bind`.
pub(in crate::calls) unsafe fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    let wanted = Payload::Program { start: address.cast(), length: length as usize };
    give_int(channel::bind(fd, wanted, || {
        // SAFETY: only the kernel reads the address, and checks that it is there.
        let status = unsafe { libc_next::bind(fd, address, length) };
        if status == 0 { Ok(0) } else { Err(libc_next::errno()) }
    }))
}

pub(in crate::calls) fn listen(fd: c_int, backlog: c_int) -> c_int {
    let outcome = channel::listen(fd, backlog);
    if outcome.is_ok() && descriptor::get(fd) == Entry::Remote {
        explain(format_args!("fd {fd}: listen: ours, at a card of fewer rights"));
    }
    give_int(outcome)
}

/// Writes an address, or an option's value, as calls do.
///
/// # Safety
/// `length` is null or readable and writable, `into` has so many writable bytes.
unsafe fn write_out(bytes: &[u8], into: *mut c_void, length: *mut socklen_t) {
    // SAFETY: `length` is null or readable and writable, `into` has so many writable bytes: this function's condition.
    unsafe {
        if into.is_null() || length.is_null() {
            return;
        }
        let count = bytes.len().min(*length as usize);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast(), count);
        *length = bytes.len() as socklen_t;
    }
}

/// # Safety
/// As `accept4`.
pub(in crate::calls) unsafe fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let waits = channel::flags(fd, libc::F_GETFL, 0).is_ok_and(|set| set & libc::O_NONBLOCK == 0);
    loop {
        match channel::accept(fd, size_of::<libc::sockaddr_in6>()) {
            Ok((end, peer)) => {
                // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by accept4(2).
                unsafe { write_out(&peer, address.cast(), length) };
                return give_int(given(end, flags));
            }
            Err(Errno::AGAIN) => {}
            Err(error) => return give_int(Err(error)),
        }
        // The kernel's half, if it has one.
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by accept4(2).
        let new = unsafe { libc_next::accept4(fd, address, length, flags) };
        let is_over = new >= 0 || !matches!(libc_next::errno(), Errno::AGAIN | Errno::INVAL);
        if is_over {
            return new;
        }
        if !waits {
            return give_int(Err(Errno::AGAIN));
        }
        let mut set = [pollfd { fd, events: libc::POLLIN, revents: 0 }];
        if let Err(error) = wait(&mut set, None, std::ptr::null()) {
            return give_int(Err(error));
        }
    }
}

/// The end of a pumped connection as `accept4` gives one: at the lowest number.
fn given(end: std::os::fd::OwnedFd, flags: c_int) -> Result<c_int, Errno> {
    if flags & libc::SOCK_NONBLOCK != 0 {
        rustix::io::ioctl_fionbio(&end, true)?;
    }
    if flags & libc::SOCK_CLOEXEC == 0 {
        rustix::io::fcntl_setfd(&end, rustix::io::FdFlags::empty())?;
    }
    Ok(end.into_raw_fd())
}

/// # Safety
/// As `getsockname` and `getpeername`.
pub(in crate::calls) unsafe fn name(
    operation: Operation,
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let asked = channel::name(operation, fd, size_of::<libc::sockaddr_in6>());
    give_int(asked.map(|name| {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getsockname(2).
        unsafe { write_out(&name, address.cast(), length) };
        0
    }))
}

/// # Safety
/// As `getsockopt`.
pub(in crate::calls) unsafe fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    if is_nowhere(length) {
        return give_int(Err(Errno::FAULT));
    }
    // SAFETY: `length` is readable: the program's duty by getsockopt(2).
    let room = unsafe { length.read() } as usize;
    give_int(channel::option(fd, level, name, room).and_then(|bytes| {
        if is_nowhere(value) && room > 0 && !bytes.is_empty() {
            return Err(Errno::FAULT);
        }
        // SAFETY: `length` is writable and says how many writable bytes `value` has: the program's duty by getsockopt(2).
        unsafe { write_out(&bytes, value, length) };
        Ok(0)
    }))
}

/// # Safety
/// As `setsockopt`.
pub(in crate::calls) unsafe fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // What is no `int` is a negative length to Linux. That comes before what the pointer is.
    if length > c_int::MAX as socklen_t {
        return give_int(Err(Errno::INVAL));
    }
    let wanted = Payload::Program { start: value.cast(), length: length as usize };
    match channel::set_option(fd, level, name, wanted) {
        // What takes rights this process has and the deputy hasn't is the kernel's alone anyway.
        // SAFETY: only the kernel reads the value, and checks that it is there.
        Err(Errno::PERM) => unsafe { libc_next::setsockopt(fd, level, name, value, length) },
        outcome => give_int(outcome),
    }
}

pub(in crate::calls) fn shutdown(fd: c_int, how: c_int) -> c_int {
    give_int(channel::shutdown(fd, how))
}

pub(in crate::calls) fn close(fd: c_int) -> c_int {
    channel::close(fd);
    // SAFETY: the call takes no pointers.
    unsafe { libc_next::close(fd) }
}

pub(in crate::calls) fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    match command {
        libc::F_GETFL | libc::F_SETFL => give_int(channel::flags(fd, command, argument)),
        _ => {
            // SAFETY: `argument` is what `command` demands: the program's duty by fcntl(2).
            let result = unsafe { libc_next::fcntl64(fd, command, argument) };
            if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) && result >= 0 {
                channel::duplicate(fd, result);
            }
            result
        }
    }
}

/// # Safety
/// As `ioctl`.
pub(in crate::calls) unsafe fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    if !channel::is_about_number(request) {
        // SAFETY: `argument` is what `request` demands: the program's duty by ioctl(2). The kernel checks a pointer.
        return unsafe { libc_next::ioctl(fd, request, argument) };
    }
    let pointer = std::ptr::with_exposed_provenance_mut::<c_int>(argument as usize);
    if is_nowhere(pointer) {
        return give_int(Err(Errno::FAULT));
    }
    // SAFETY: the pointer is to a number, as these requests demand: the program's duty by ioctl(2).
    let value = unsafe { pointer.read_unaligned() };
    give_int(channel::control(fd, request, value).map(|answer| {
        if request != libc::FIONBIO {
            // SAFETY: as above, and the number may be written.
            unsafe { pointer.write_unaligned(answer) };
        }
        0
    }))
}

/// Whether `epoll_ctl` has to do with such a socket.
pub(in crate::calls) fn refuses_epoll(fd: c_int) -> bool {
    if !descriptor::is_remote(fd) {
        return false;
    }
    warn(format_args!(
        "fd {fd}: this process has given its virtual card over to one of fewer rights, and can't wait for this socket by epoll \
         (docs/posix.md, «Privileges»): EOPNOTSUPP"
    ));
    true
}

/// `poll` of a set with such sockets in it.
///
/// # Errors
/// As `poll`.
pub(in crate::calls) fn wait(
    set: &mut [pollfd],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<c_int, Errno> {
    let start = Instant::now();
    let theirs: Vec<(usize, (c_int, i16))> = set
        .iter()
        .enumerate()
        .filter(|(_, one)| descriptor::is_remote(one.fd))
        .map(|(at, one)| (at, (one.fd, one.events)))
        .collect();
    let asked: Vec<(c_int, i16)> = theirs.iter().map(|(_, one)| *one).collect();
    // The kernel is asked of these, too: a listener may have a half there.
    let mut fds: Vec<pollfd> = set.to_vec();
    loop {
        let ready = channel::poll(&asked)?;
        // SAFETY: the slice has as many entries as its length says.
        if unsafe { libc_next::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) } < 0 {
            return Err(libc_next::errno());
        }
        for (one, seen) in set.iter_mut().zip(&fds) {
            one.revents = if descriptor::is_remote(one.fd) { seen.revents & libc::POLLIN } else { seen.revents };
        }
        for ((at, (_, events)), ready) in theirs.iter().zip(&ready) {
            let told = events | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
            if let Some(one) = set.get_mut(*at) {
                one.revents |= ready & told;
            }
        }
        let count = set.iter().filter(|one| one.revents != 0).count();
        let rest = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        if count > 0 || rest == Some(Duration::ZERO) {
            return Ok(count as c_int);
        }
        let teller = channel::watch(&asked)?;
        let mut all = fds.clone();
        // Only a listener's kernel half can be ready; that of others says what nobody asked for.
        for one in all.iter_mut().filter(|one| descriptor::is_remote(one.fd)) {
            let listens =
                crate::sys::kernel_socket::kernel_option(one.fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(1);
            one.fd = if listens { one.fd } else { -1 };
        }
        all.push(readable(teller.as_raw_fd()));
        sleep(&mut all, rest, mask)?;
    }
}
