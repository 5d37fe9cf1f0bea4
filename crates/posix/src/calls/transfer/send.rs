//! `write` and `send` in all their forms.

use crate::calls::interfaces::netlink;
use crate::calls::open::adopt_for_sending;
use crate::calls::transfer::control_messages::wanted;
use crate::calls::transfer::datagram_send::{Way, begin, join, send_datagram};
use crate::calls::transfer::stream_send::send_stream;
use crate::calls::transfer::vectors::{check, one, slice};
use crate::calls::{give, give_int};
use crate::lifecycle::detached::socket_of;
use crate::sockets::messages::Wanted;
use crate::sockets::socket::{Kind, Socket};
use crate::sys::address;
use crate::sys::libc_next;
use crate::world::lock::{Guard, lock};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use qanat::nic::breakdown::{self};

fn broken_pipe(error: i32, flags: c_int) -> i32 {
    if error == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: to this thread, as the kernel does.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    error
}

/// Sends bytes of a file: on a stream, or as a datagram to where the socket is connected.
///
/// # Safety
/// The vectors are readable.
pub(in crate::calls) unsafe fn send_bytes(number: u32, vectors: &[iovec]) -> Result<isize, i32> {
    // SAFETY: as the caller says.
    match unsafe { send_by_kind(lock()?, number, vectors, 0, Destination::NONE, Wanted::default()) } {
        Ok(Way::Ours(length)) => Ok(length),
        Ok(Way::Kernel) => Err(libc::EINVAL),
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
}

/// Sends on whatever `number` is.
///
/// # Safety
/// The vectors are readable; `to` as for [`address::read`].
unsafe fn send_ours(
    number: u32,
    vectors: &[iovec],
    flags: c_int,
    to: Destination,
    wanted: Wanted,
    kernel: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let _call = breakdown::call();
    // SAFETY: as the caller says.
    match lock().and_then(|guard| unsafe { send_by_kind(guard, number, vectors, flags, to, wanted) }) {
        Ok(Way::Kernel) => kernel(),
        Ok(Way::Ours(length)) => length,
        Err(error) => give(Err(broken_pipe(error, flags))),
    }
}

/// # Safety
/// As [`send_ours`].
unsafe fn send_by_kind(
    mut guard: Guard,
    number: u32,
    vectors: &[iovec],
    flags: c_int,
    to: Destination,
    wanted: Wanted,
) -> Result<Way, i32> {
    let socket = guard.sockets.get_mut(number).ok_or(libc::EBADF)?;
    match &socket.kind {
        Kind::Datagram(_) if flags & libc::MSG_OOB != 0 && socket.family == libc::AF_INET => Err(libc::EOPNOTSUPP),
        Kind::Datagram(datagram) => {
            let joins = flags & libc::MSG_MORE != 0 || socket.options.joins;
            let goes_on = datagram.begun.is_some();
            // As Linux: what goes on goes where it began, and over IPv4 nobody looks at what else is said.
            let is_unread = goes_on && socket.family == libc::AF_INET;
            // SAFETY: as the caller says.
            let read = || unsafe { address::destination(to.address, to.length, socket.family) };
            let to = if is_unread { None } else { read()? };
            check(vectors)?;
            // SAFETY: as the caller says.
            unsafe {
                match (goes_on, joins) {
                    (true, _) => join(guard, number, vectors, joins),
                    (false, true) => begin(guard, number, vectors, (to, wanted)),
                    (false, false) => send_datagram(guard, number, vectors, to, wanted),
                }
            }
        }
        Kind::Stream(_) => {
            check(vectors)?;
            // SAFETY: as the caller says.
            unsafe { send_stream(guard, number, vectors, flags) }.map(Way::Ours)
        }
        Kind::Bound if socket.deferred.is_some() => {
            check(vectors)?;
            let peer = socket.deferred.ok_or(libc::EPIPE)?;
            // SAFETY: as the caller says.
            unsafe { crate::calls::fast_open::open_with(guard, number, peer, vectors, flags) }.map(Way::Ours)
        }
        Kind::Bound if socket.has_failed && socket.error != 0 => Err(socket.take_error()),
        Kind::Bound | Kind::Listener(_) => Err(libc::EPIPE),
    }
}

/// # Safety
/// As `write`.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    match socket_of(fd) {
        // SAFETY: as the caller says.
        None => unsafe {
            netlink::sends_part(fd, buffer, count);
            libc_next::write(fd, buffer, count)
        },
        // SAFETY: as the caller says.
        Some(number) => unsafe {
            send_ours(number, &one(buffer, count), 0, Destination::NONE, Wanted::default(), || {
                libc_next::write(fd, buffer, count)
            })
        },
    }
}

/// # Safety
/// As `writev`.
#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let Some(number) = socket_of(fd) else {
        // SAFETY: as the caller says.
        return unsafe { libc_next::writev(fd, vectors, count) };
    };
    // SAFETY: as the caller says.
    let Some(parts) = (unsafe { slice(vectors, count as usize) }) else { return give(Err(libc::EINVAL)) };
    // SAFETY: as the caller says.
    unsafe {
        send_ours(number, parts, 0, Destination::NONE, Wanted::default(), || libc_next::writev(fd, vectors, count))
    }
}

/// # Safety
/// As `send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, count: size_t, flags: c_int) -> ssize_t {
    match socket_of(fd) {
        // SAFETY: as the caller says.
        None => unsafe {
            netlink::sends_part(fd, buffer, count);
            libc_next::send(fd, buffer, count, flags)
        },
        // SAFETY: as the caller says.
        Some(number) => unsafe {
            send_ours(number, &one(buffer, count), flags, Destination::NONE, Wanted::default(), || {
                libc_next::send(fd, buffer, count, flags)
            })
        },
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
        // SAFETY: as the caller says.
        return unsafe { libc_next::sendto(fd, buffer, count, flags, peer, length) };
    }
    // SAFETY: as the caller says.
    let to = unsafe { address::read(peer, length) };
    if flags & libc::MSG_FASTOPEN != 0 {
        // SAFETY: as the caller says.
        if let Some(sent) = unsafe { crate::calls::fast_open::send(fd, &one(buffer, count), flags, (peer, length)) } {
            return give(sent.map_err(|error| broken_pipe(error, flags)));
        }
    }
    let number = socket_of(fd).or_else(|| adopt_for_sending(fd, to?));
    // SAFETY: as the caller says.
    let kernel = || unsafe {
        netlink::sends_part(fd, buffer, count);
        libc_next::sendto(fd, buffer, count, flags, peer, length)
    };
    match number {
        None => kernel(),
        // SAFETY: as the caller says.
        Some(number) => unsafe {
            let to = Destination { address: peer, length };
            send_ours(number, &one(buffer, count), flags, to, Wanted::default(), kernel)
        },
    }
}

/// # Safety
/// As `sendmsg`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the caller says.
    let kernel = || unsafe { libc_next::sendmsg(fd, message, flags) };
    if crate::sys::arena::is_inside() || crate::sys::wishes::wishes().is_none() {
        return kernel();
    }
    // SAFETY: as the caller says.
    let Some(parts) = (unsafe { message.as_ref() }) else { return kernel() };
    // SAFETY: as the caller says.
    let to = unsafe { address::read(parts.msg_name.cast(), parts.msg_namelen) };
    // SAFETY: as the caller says.
    if let (true, Some(vectors)) = (flags & libc::MSG_FASTOPEN != 0, unsafe { slice(parts.msg_iov, parts.msg_iovlen) })
    {
        let to = (parts.msg_name.cast_const().cast(), parts.msg_namelen);
        // SAFETY: as the caller says.
        if let Some(sent) = unsafe { crate::calls::fast_open::send(fd, vectors, flags, to) } {
            return give(sent.map_err(|error| broken_pipe(error, flags)));
        }
    }
    let Some(number) = socket_of(fd).or_else(|| adopt_for_sending(fd, to?)) else {
        // SAFETY: as the caller says.
        unsafe { netlink::sends_message(fd, parts) };
        // SAFETY: as the caller says.
        return unsafe { crate::calls::program::hand_over::send_rights(fd, parts, flags) }.unwrap_or_else(kernel);
    };
    // SAFETY: as the caller says.
    let Some(vectors) = (unsafe { slice(parts.msg_iov, parts.msg_iovlen) }) else { return give(Err(libc::EMSGSIZE)) };
    let to = Destination { address: parts.msg_name.cast(), length: parts.msg_namelen };
    let wanted = if parts.msg_control.is_null() {
        Ok(Wanted::default())
    } else {
        let is_datagram = !lock().is_ok_and(|guard| guard.sockets.get(number).is_some_and(Socket::is_connection));
        // SAFETY: as the caller says.
        unsafe { wanted(parts, is_datagram) }
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(error) => return give(Err(error)),
    };
    // SAFETY: as the caller says.
    unsafe { send_ours(number, vectors, flags, to, wanted, kernel) }
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
        // SAFETY: as the caller says.
        return unsafe { libc_next::sendmmsg(fd, messages, count, flags) };
    }
    let mut done = 0;
    while done < count.min(1_024) {
        // SAFETY: as the caller says.
        let message = unsafe { &mut *messages.add(done as usize) };
        // SAFETY: as the caller says.
        match unsafe { sendmsg(fd, &raw const message.msg_hdr, flags) } {
            -1 if done > 0 => break,
            -1 => return give_int(Err(libc_next::errno())),
            length => message.msg_len = length as c_uint,
        }
        done += 1;
    }
    done as c_int
}
