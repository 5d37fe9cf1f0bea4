//! `write` and `send` in all their forms.

use crate::calls::interfaces::netlink;
use crate::calls::open::adopt_for_sending;
use crate::calls::transfer::control_messages::wanted;
use crate::calls::transfer::datagram_send::{Way, begin, join, send_datagram};
use crate::calls::transfer::stream_send::send_stream;
use crate::calls::transfer::vectors::{Source, one};
use crate::calls::{give, give_int};
use crate::lifecycle::detached::socket_of;
use crate::sockets::messages::Wanted;
use crate::sockets::socket::{Kind, Socket};
use crate::sys::address;
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::world::lock::{Guard, lock};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use qanat_nic::breakdown;
use rustix::io::Errno;
use std::net::SocketAddr;

fn broken_pipe(error: Errno, flags: c_int) -> Errno {
    if error == Errno::PIPE && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: the call takes no pointers; it signals this thread, as the kernel does.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    error
}

/// Sends bytes of a file: on a stream, or as a datagram to where the socket is connected.
pub(in crate::calls) fn send_bytes(number: u32, source: Source<'_>) -> Result<isize, Errno> {
    match send_by_kind(lock()?, number, source, 0, Destination::NONE, Wanted::default()) {
        Ok(Way::Ours(length)) => Ok(length),
        Ok(Way::Kernel) => Err(Errno::INVAL),
        Err(error) => Err(broken_pipe(error, 0)),
    }
}

/// Where a call says a datagram is to go, as the program has it.
#[derive(Clone, Copy)]
struct Destination {
    address: *const sockaddr,
    length: socklen_t,
}

impl Destination {
    /// It says nothing.
    const NONE: Destination = Destination { address: std::ptr::null(), length: 0 };

    /// # Safety
    /// `address` is null or has `length` readable bytes as long as the call runs.
    unsafe fn new(address: *const sockaddr, length: socklen_t) -> Destination {
        Destination { address, length }
    }

    /// As a socket of `family` reads it; see [`address::destination`].
    fn read(self, family: c_int) -> Result<Option<SocketAddr>, Errno> {
        // SAFETY: `address` is null or has `length` readable bytes: what `new` demands.
        unsafe { address::destination(self.address, self.length, family) }
    }
}

/// Sends on whatever `number` is.
fn send_ours(
    number: u32,
    source: Source<'_>,
    flags: c_int,
    to: Destination,
    wanted: Wanted,
    kernel: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let _call = breakdown::call();
    match lock().and_then(|guard| send_by_kind(guard, number, source, flags, to, wanted)) {
        Ok(Way::Kernel) => kernel(),
        Ok(Way::Ours(length)) => length,
        Err(error) => give(Err(broken_pipe(error, flags))),
    }
}

fn send_by_kind(
    mut guard: Guard,
    number: u32,
    source: Source<'_>,
    flags: c_int,
    to: Destination,
    wanted: Wanted,
) -> Result<Way, Errno> {
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    match &socket.kind {
        Kind::Datagram(_) if flags & libc::MSG_OOB != 0 && socket.family == libc::AF_INET => Err(Errno::OPNOTSUPP),
        Kind::Datagram(datagram) => {
            let joins = flags & libc::MSG_MORE != 0 || socket.options.joins;
            let goes_on = datagram.begun.is_some();
            // As Linux: what goes on goes where it began, and over IPv4 nobody looks at what else is said.
            let is_unread = goes_on && socket.family == libc::AF_INET;
            let to = if is_unread { None } else { to.read(socket.family)? };
            source.check()?;
            match (goes_on, joins) {
                (true, _) => join(guard, number, source, joins),
                (false, true) => begin(guard, number, source, (to, wanted)),
                (false, false) => send_datagram(guard, number, source, to, wanted),
            }
        }
        Kind::Stream(_) => {
            source.check()?;
            send_stream(guard, number, source, flags).map(Way::Ours)
        }
        Kind::Bound if socket.deferred.is_some() => {
            source.check()?;
            let peer = socket.deferred.ok_or(Errno::PIPE)?;
            crate::calls::fast_open::open_with(guard, number, peer, source, flags).map(Way::Ours)
        }
        Kind::Bound if socket.has_failed => Err(socket.take_error().unwrap_or(Errno::PIPE)),
        Kind::Bound | Kind::Listener(_) => Err(Errno::PIPE),
    }
}

/// # Safety
/// As `write`.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    match socket_of(fd) {
        // SAFETY: `buffer` has `count` readable bytes: the program's duty by write(2).
        None => unsafe {
            netlink::sends_part(fd, buffer, count);
            libc_next::write(fd, buffer, count)
        },
        Some(number) => {
            let part = one(buffer, count);
            // SAFETY: `buffer` has `count` readable bytes: the program's duty by write(2).
            let source = unsafe { Source::new(&part) };
            // SAFETY: as above.
            let kernel = || unsafe { libc_next::write(fd, buffer, count) };
            send_ours(number, source, 0, Destination::NONE, Wanted::default(), kernel)
        }
    }
}

/// # Safety
/// As `writev`.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let Some(number) = socket_of(fd) else {
        // SAFETY: `vectors` points to `count` parts that are readable: the program's duty by writev(2).
        return unsafe { libc_next::writev(fd, vectors, count) };
    };
    // SAFETY: `vectors` points to `count` parts that are readable: the program's duty by writev(2).
    let source = match unsafe { Source::from_call(vectors, count as usize, Errno::INVAL) } {
        Ok(source) => source,
        Err(error) => return give(Err(error)),
    };
    // SAFETY: as above.
    let kernel = || unsafe { libc_next::writev(fd, vectors, count) };
    send_ours(number, source, 0, Destination::NONE, Wanted::default(), kernel)
}

/// # Safety
/// As `send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t {
    match socket_of(fd) {
        // SAFETY: `buffer` has `count` readable bytes: the program's duty by send(2).
        None => unsafe {
            netlink::sends_part(fd, buffer, count);
            libc_next::send(fd, buffer, count, flags)
        },
        Some(number) => {
            let part = one(buffer, count);
            // SAFETY: `buffer` has `count` readable bytes: the program's duty by send(2).
            let source = unsafe { Source::new(&part) };
            // SAFETY: as above.
            let kernel = || unsafe { libc_next::send(fd, buffer, count, flags) };
            send_ours(number, source, flags, Destination::NONE, Wanted::default(), kernel)
        }
    }
}

/// # Safety
/// As `sendto`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    flags: c_int,
    peer: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    // The library's own.
    if crate::sys::arena::is_inside() || crate::sys::wishes::wishes().is_none() {
        // SAFETY: `buffer` has `count` readable bytes, and `peer` is null or has `length`: the program's duty by sendto(2).
        return unsafe { libc_next::sendto(fd, buffer, count, flags, peer, length) };
    }
    let part = one(buffer, count);
    // SAFETY: `buffer` has `count` readable bytes: the program's duty by sendto(2).
    let source = unsafe { Source::new(&part) };
    // SAFETY: `peer` is null or has `length` readable bytes: the program's duty by sendto(2).
    let (to, destination) = unsafe { (address::read(peer, length), Destination::new(peer, length)) };
    if flags & libc::MSG_FASTOPEN != 0 {
        // SAFETY: as above.
        if let Some(sent) = unsafe { crate::calls::fast_open::send(fd, source, flags, (peer, length)) } {
            return give(sent.map_err(|error| broken_pipe(error, flags)));
        }
    }
    let number = socket_of(fd).or_else(|| adopt_for_sending(fd, to?));
    // SAFETY: `buffer` has `count` readable bytes, and `peer` is null or has `length`: the program's duty by sendto(2).
    let kernel = || unsafe {
        netlink::sends_part(fd, buffer, count);
        libc_next::sendto(fd, buffer, count, flags, peer, length)
    };
    match number {
        None => kernel(),
        Some(number) => send_ours(number, source, flags, destination, Wanted::default(), kernel),
    }
}

/// # Safety
/// As `sendmsg`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
    let kernel = || unsafe { libc_next::sendmsg(fd, message, flags) };
    if crate::sys::arena::is_inside() || crate::sys::wishes::wishes().is_none() {
        return kernel();
    }
    if is_nowhere(message) {
        return kernel();
    }
    // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
    let parts = unsafe { &*message };
    // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
    let to = unsafe { address::read(parts.msg_name.cast(), parts.msg_namelen) };
    // SAFETY: the message's parts are readable: the program's duty by sendmsg(2).
    let source = || unsafe { Source::from_call(parts.msg_iov, parts.msg_iovlen, Errno::MSGSIZE) };
    if flags & libc::MSG_FASTOPEN != 0
        && let Ok(source) = source()
    {
        let to = (parts.msg_name.cast_const().cast(), parts.msg_namelen);
        // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
        if let Some(sent) = unsafe { crate::calls::fast_open::send(fd, source, flags, to) } {
            return give(sent.map_err(|error| broken_pipe(error, flags)));
        }
    }
    let Some(number) = socket_of(fd).or_else(|| adopt_for_sending(fd, to?)) else {
        // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
        unsafe { netlink::sends_message(fd, parts) };
        // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
        return unsafe { crate::calls::program::hand_over::send_rights(fd, parts, flags) }.unwrap_or_else(kernel);
    };
    let source = match source() {
        Ok(source) => source,
        Err(error) => return give(Err(error)),
    };
    // SAFETY: the message's name has as many readable bytes as it says: the program's duty by sendmsg(2).
    let to = unsafe { Destination::new(parts.msg_name.cast(), parts.msg_namelen) };
    let wanted = if parts.msg_control.is_null() {
        Ok(Wanted::default())
    } else {
        let is_datagram = !lock().is_ok_and(|guard| guard.sockets.get(number).is_some_and(Socket::is_connection));
        // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
        unsafe { wanted(parts, is_datagram) }
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return give(Err(error)),
    };
    send_ours(number, source, flags, to, wanted, kernel)
}

/// # Safety
/// As `sendmmsg`.
#[unsafe(no_mangle)]
pub(in crate::calls) unsafe extern "C" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if socket_of(fd).is_none() && (count == 0 || crate::sys::wishes::wishes().is_none()) {
        // SAFETY: `messages` points to `count` messages that are readable with all that they point to: the program's duty by sendmmsg(2).
        return unsafe { libc_next::sendmmsg(fd, messages, count, flags) };
    }
    if is_nowhere(messages) && count > 0 {
        return give_int(Err(Errno::FAULT));
    }
    let mut done = 0;
    while done < count.min(1_024) {
        // SAFETY: `messages` points to `count` messages that are readable with all that they point to: the program's duty by sendmmsg(2).
        let message = unsafe { &mut *messages.add(done as usize) };
        // SAFETY: `messages` points to `count` messages that are readable with all that they point to: the program's duty by sendmmsg(2).
        match unsafe { sendmsg(fd, &raw const message.msg_hdr, flags) } {
            -1 if done > 0 => break,
            -1 => return give_int(Err(libc_next::errno())),
            length => message.msg_len = length as c_uint,
        }
        done += 1;
    }
    done as c_int
}
