//! `read` and `recv` in all their forms.

use crate::calls::give;
use crate::calls::interfaces::netlink;
use crate::calls::transfer::control_messages::{Metadata, tell};
use crate::calls::transfer::stream_send::told_later;
use crate::calls::transfer::vectors::{Target, one};
use crate::lifecycle::detached::socket_of;
use crate::sockets::socket::{Kind, Socket, Urgent};
use crate::sys::address;
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::world::lock::{Guard, lock};
use crate::world::state::World;
use crate::world::wait::{block, block_for_rest};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use qanat_nic::breakdown;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::time::Duration;

/// What was received.
#[derive(Clone, Copy, Default)]
pub(in crate::calls) struct Received {
    pub(in crate::calls) length: usize,
    /// Of a datagram: its sender, and its socket's family.
    from: Option<(SocketAddr, c_int)>,
    /// Of a datagram: more than fitted.
    is_cut: bool,
    /// Its whole length.
    whole: usize,
    /// What is to be told beside it.
    metadata: Option<Metadata>,
    /// An urgent byte comes next, or this is one: reading stops here.
    is_at_mark: bool,
}

/// Takes what there is, without waiting. `None`: nothing.
fn take(world: &mut World, number: u32, target: Target<'_>, flags: c_int) -> Option<Result<Received, Errno>> {
    let Some(socket) = world.sockets.get_mut(number) else { return Some(Err(Errno::BADF)) };
    let room = target.length();
    match &mut socket.kind {
        Kind::Bound if socket.deferred.is_some() => None,
        Kind::Bound if socket.has_failed => Some(match socket.take_error() {
            None => Ok(Received::default()),
            Some(error) => Err(error),
        }),
        Kind::Bound | Kind::Listener(_) => Some(Err(Errno::NOTCONN)),
        Kind::Stream(_) => take_stream(world, number, target, room, flags),
        Kind::Datagram(datagram) => {
            let peek = flags & libc::MSG_PEEK != 0;
            let family = socket.family;
            let Some((peer, chunk)) = datagram.queue.front() else {
                let (is_over, is_nonblocking) = (datagram.read_shut, socket.is_nonblocking);
                return match socket.take_error() {
                    // A caller that does not wait is told that there is nothing, as on Linux.
                    None if is_over && !is_nonblocking && flags & libc::MSG_DONTWAIT == 0 => {
                        Some(Ok(Received::default()))
                    }
                    None => None,
                    Some(error) => Some(Err(error)),
                };
            };
            // A datagram's bytes are written whatever the flags. Only a stream discards.
            if let Err(error) = target.check() {
                if !peek {
                    datagram.pop();
                }
                return Some(Err(error));
            }
            let length = target.scatter(0, chunk.bytes());
            let whole = chunk.len();
            let from = Some((*peer, family));
            let mut received = Received { length, from, is_cut: whole > room, whole, ..Received::default() };
            if socket.options.control_messages.any() {
                let taken = if peek { datagram.queue.pop_front() } else { datagram.pop() };
                if let Some((peer, chunk)) = taken {
                    let (own, chunk) = (socket.local, chunk);
                    let (metadata, chunk) = Metadata::of_datagram(&world.addresses, own, peer, chunk);
                    received.metadata = Some(metadata);
                    if peek && let Some(Socket { kind: Kind::Datagram(datagram), .. }) = world.sockets.get_mut(number) {
                        datagram.queue.push_front((peer, chunk));
                    }
                }
            } else if !peek {
                // Its frame goes back to the device.
                datagram.pop();
            }
            Some(Ok(received))
        }
    }
}

fn take_stream(
    world: &mut World,
    number: u32,
    target: Target<'_>,
    room: usize,
    flags: c_int,
) -> Option<Result<Received, Errno>> {
    let socket: &mut Socket = world.sockets.get_mut(number)?;
    let Kind::Stream(stream) = &mut socket.kind else { return None };
    if stream.is_connecting {
        return None;
    }
    let discards = flags & libc::MSG_TRUNC != 0;
    let waits = !socket.is_nonblocking && flags & libc::MSG_DONTWAIT == 0;
    // A read stops before an urgent byte, and the next one passes it over (RFC 6093 section 3.3, as Linux).
    let is_inline = socket.options.urgent_inline;
    let (passed_over, limit) = match stream.urgent {
        Some(urgent) if urgent.ahead > 0 => (0, urgent.ahead),
        Some(_) if !is_inline => (stream.unread.min(1), usize::MAX),
        _ => (0, usize::MAX),
    };
    let unread = stream.unread - passed_over;
    let is_little = unread > 0 && unread < socket.options.low_water.min(room).min(limit) && waits;
    if is_little && !stream.is_at_end() {
        return None;
    }
    let is_peek = flags & libc::MSG_PEEK != 0;
    if passed_over > 0
        && !is_peek
        && let Some(chunk) = stream.passed(passed_over)
        && let Some(connection) = stream.connection
    {
        world.stack.consume(qanat_nic::Clock::now(&world.clock), connection, chunk);
    }
    if unread == 0 {
        if let Some(error) = socket.take_error() {
            return Some(Err(error));
        }
        let Kind::Stream(stream) = &socket.kind else { return None };
        return stream.is_at_end().then(|| Ok(Received::default()));
    }
    if room == 0 {
        return Some(Ok(Received::default()));
    }
    let mut length = 0;
    let peeks_at_all = libc::MSG_PEEK | libc::MSG_WAITALL;
    if flags & peeks_at_all == peeks_at_all
        && unread < room.min(limit)
        && !stream.is_at_end()
        && flags & libc::MSG_DONTWAIT == 0
    {
        return None;
    }
    let room = room.min(limit);
    if is_peek {
        let mut front = stream.front_read + passed_over;
        for chunk in &stream.chunks {
            let Some(bytes) = chunk.bytes().get(front..) else {
                front -= chunk.len();
                continue;
            };
            front = 0;
            let bytes = bytes.get(..room - length).unwrap_or(bytes);
            let copied = if discards { bytes.len() } else { target.scatter(length, bytes) };
            length += copied;
            if copied < bytes.len() {
                break;
            }
        }
        let metadata = Metadata::of_stream(socket, length);
        return Some(Ok(Received { length, metadata, ..Received::default() }));
    }
    while length < room {
        let Some(chunk) = stream.chunks.front() else { break };
        let bytes = chunk.bytes().get(stream.front_read..).unwrap_or_default();
        let bytes = bytes.get(..room - length).unwrap_or(bytes);
        let copied = match discards {
            true => bytes.len(),
            false => target.scatter(length, bytes),
        };
        length += copied;
        let Some(chunk) = stream.passed(copied) else { break };
        if let Some(connection) = stream.connection {
            world.stack.consume(qanat_nic::Clock::now(&world.clock), connection, chunk);
        }
    }
    let is_at_mark = stream.is_at_mark();
    let metadata = world.sockets.get(number).and_then(|socket| Metadata::of_stream(socket, length));
    Some(Ok(Received { length, metadata, is_at_mark, ..Received::default() }))
}

/// Takes an urgent byte apart from the rest.
fn take_urgent(number: u32, target: Target<'_>, flags: c_int) -> Result<Received, Errno> {
    let mut guard = lock()?;
    guard.drive_now();
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    let is_inline = socket.options.urgent_inline;
    let Kind::Stream(stream) = &mut socket.kind else { return Err(Errno::NOTCONN) };
    let urgent = stream.urgent.filter(|urgent| !is_inline && !urgent.is_read).ok_or(Errno::INVAL)?;
    let Some(byte) = stream.byte_at(urgent.ahead) else {
        return if stream.is_at_end() { Ok(Received::default()) } else { Err(Errno::AGAIN) };
    };
    if flags & libc::MSG_PEEK == 0 {
        stream.urgent = Some(Urgent { is_read: true, ..urgent });
    }
    let length = target.scatter(0, &[byte]);
    Ok(Received { length, is_cut: length == 0, is_at_mark: true, ..Received::default() })
}

/// Receives, waiting if that is wanted.
pub(in crate::calls) fn receive(fd: c_int, number: u32, target: Target<'_>, flags: c_int) -> Result<Received, Errno> {
    let _call = breakdown::call();
    if flags & libc::MSG_OOB != 0 && lock()?.sockets.get(number).is_some_and(Socket::is_connection) {
        target.check()?;
        return take_urgent(number, target, flags);
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        return receive_error(number, target);
    }
    if flags & libc::MSG_TRUNC == 0 {
        target.check()?;
    }
    let mut guard = lock()?;
    let first = match take(&mut guard, number, target, flags) {
        None if !guard.has_more() => {
            let now = guard.look_now();
            guard.leave_together(now);
            take(&mut guard, number, target, flags)
        }
        first => first,
    };
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let waits = !socket.is_nonblocking && flags & libc::MSG_DONTWAIT == 0;
    let (timeout, is_dual, family) = (socket.receive_timeout, socket.is_dual, socket.family);
    let is_stream = matches!(socket.kind, Kind::Stream(_));
    drop(guard);
    let mut received = match first {
        Some(received) => received?,
        None if is_dual && !is_stream => {
            return receive_dual((fd, family), number, target, flags, waits.then_some(timeout));
        }
        None if !waits => return Err(Errno::AGAIN),
        None => block(number, timeout, None, |guard: &mut Guard| take(guard, number, target, flags))?,
    };
    let all = target.length();
    let wants_all = flags & libc::MSG_WAITALL != 0 && flags & libc::MSG_PEEK == 0 && is_stream && waits;
    while wants_all && received.length < all && received.length > 0 && !received.is_at_mark {
        let rest = target.rest(received.length);
        let more = block_for_rest(number, timeout, |guard: &mut Guard| take(guard, number, rest.target(), flags));
        match more {
            Ok(more) if more.length > 0 => {
                received.length += more.length;
                received.is_at_mark = more.is_at_mark;
            }
            Err(error) => {
                told_later(number, error);
                break;
            }
            Ok(_) => break,
        }
    }
    Ok(received)
}

/// What ICMP said of a datagram that was sent.
fn receive_error(number: u32, target: Target<'_>) -> Result<Received, Errno> {
    let mut guard = lock()?;
    guard.drive_now();
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    let Kind::Datagram(datagram) = &mut socket.kind else { return Err(Errno::AGAIN) };
    let error = datagram.errors.pop_front().ok_or(Errno::AGAIN)?;
    // The next one's, as Linux has it.
    socket.error = datagram.errors.front().and_then(|next| crate::sockets::socket::errno_of(next.why));
    let whole = error.payload.len();
    target.check()?;
    let length = target.scatter(0, &error.payload);
    let metadata = Some(Metadata::Error { peer: error.peer, why: error.why });
    let from = Some((error.peer, socket.family));
    Ok(Received { length, from, is_cut: length < whole, whole, metadata, is_at_mark: false })
}

/// A datagram from either: the kernel's socket of the same number, of `family`, is asked too. `waits`: for so long, if at all.
fn receive_dual(
    (fd, family): (c_int, c_int),
    number: u32,
    target: Target<'_>,
    flags: c_int,
    waits: Option<Option<Duration>>,
) -> Result<Received, Errno> {
    let from_kernel = || -> Option<Result<Received, Errno>> {
        let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
        // SAFETY: a zeroed message is valid.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = storage.as_mut_ptr().cast();
        message.msg_namelen = size_of::<libc::sockaddr_storage>() as socklen_t;
        message.msg_iov = target.parts().as_ptr().cast_mut();
        message.msg_iovlen = target.parts().len();
        // SAFETY: the name is this function's own, the parts are writable (as `Target` promises), and there is no control buffer.
        let length = unsafe { libc_next::recvmsg(fd, &raw mut message, flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC) };
        if length < 0 {
            let error = libc_next::errno();
            return (error != Errno::AGAIN).then_some(Err(error));
        }
        let room = target.length();
        let whole = length as usize;
        // SAFETY: zeroed at first, so all of it is readable.
        let peer = unsafe { address::read(storage.as_ptr().cast(), message.msg_namelen) };
        let from = peer.map(|peer| (peer, family));
        Some(Ok(Received { length: whole.min(room), from, is_cut: whole > room, whole, ..Received::default() }))
    };
    match (from_kernel(), waits) {
        (Some(received), _) => received,
        (None, None) => Err(Errno::AGAIN),
        (None, Some(timeout)) => block(number, timeout, Some(fd), |guard: &mut Guard| {
            take(guard, number, target, flags).or_else(from_kernel)
        }),
    }
}

/// As `recv` and its kin give a length: a datagram's whole one if `MSG_TRUNC` asks for it.
fn length_of(received: Received, flags: c_int) -> isize {
    let whole = flags & libc::MSG_TRUNC != 0 && received.whole > received.length;
    (if whole { received.whole } else { received.length }) as isize
}

/// # Safety
/// As `read`.
#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    match socket_of(fd) {
        // SAFETY: `buffer` has `count` writable bytes: the program's duty by read(2).
        None => unsafe { netlink::received(fd, buffer.cast(), count, libc_next::read(fd, buffer, count), 0) },
        // As Linux says without looking.
        Some(_) if count == 0 => 0,
        Some(number) => {
            let part = one(buffer, count);
            // SAFETY: `buffer` has `count` writable bytes: the program's duty by read(2).
            let target = unsafe { Target::new(&part) };
            give(receive(fd, number, target, 0).map(|received| length_of(received, 0)))
        }
    }
}

/// # Safety
/// As `__read_chk`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, room: size_t) -> ssize_t {
    overflows(count, room);
    // SAFETY: `buffer` has `count` writable bytes: the program's duty by read(2).
    unsafe { read(fd, buffer, count) }
}

/// What the fortified forms are for.
pub(in crate::calls) fn overflows(count: size_t, room: size_t) {
    if count > room {
        // SAFETY: the call ends the process, as the C library's functions do.
        unsafe { libc::abort() };
    }
}

/// # Safety
/// As `readv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    let Some(number) = socket_of(fd) else {
        // SAFETY: `vectors` points to `count` parts that are writable: the program's duty by readv(2).
        return unsafe { libc_next::readv(fd, vectors, count) };
    };
    // SAFETY: `vectors` points to `count` parts that are writable: the program's duty by readv(2).
    let target = match unsafe { Target::from_call(vectors, count as usize, Errno::INVAL) } {
        Ok(target) => target,
        Err(error) => return give(Err(error)),
    };
    if target.parts().iter().all(|part| part.iov_len == 0) {
        return 0;
    }
    give(receive(fd, number, target, 0).map(|received| length_of(received, 0)))
}

/// # Safety
/// As `recv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
    match socket_of(fd) {
        // SAFETY: `buffer` has `count` writable bytes: the program's duty by recv(2).
        None => unsafe {
            netlink::received(fd, buffer.cast(), count, libc_next::recv(fd, buffer, count, flags), flags)
        },
        Some(number) => {
            let part = one(buffer, count);
            // SAFETY: `buffer` has `count` writable bytes: the program's duty by recv(2).
            let target = unsafe { Target::new(&part) };
            give(receive(fd, number, target, flags).map(|received| length_of(received, flags)))
        }
    }
}

/// # Safety
/// As `__recv_chk`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(fd: c_int, buffer: *mut c_void, count: size_t, room: size_t, flags: c_int) -> ssize_t {
    overflows(count, room);
    // SAFETY: `buffer` has `count` writable bytes: the program's duty by recv(2).
    unsafe { recv(fd, buffer, count, flags) }
}

/// # Safety
/// As `recvfrom`.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    flags: c_int,
    peer: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    let Some(number) = socket_of(fd) else {
        // SAFETY: `buffer` has `count` writable bytes, and `peer` as many as `length` says, or both are null: the program's duty by
        // recvfrom(2).
        let received = unsafe { libc_next::recvfrom(fd, buffer, count, flags, peer, length) };
        // SAFETY: as above.
        return unsafe { netlink::received(fd, buffer.cast(), count, received, flags) };
    };
    let part = one(buffer, count);
    // SAFETY: `buffer` has `count` writable bytes: the program's duty by recvfrom(2).
    let target = unsafe { Target::new(&part) };
    give(receive(fd, number, target, flags).map(|received| {
        // SAFETY: `peer` has as many writable bytes as `length` says, or they are null: the program's duty by recvfrom(2).
        unsafe { tell_peer(received, peer, length) };
        length_of(received, flags)
    }))
}

/// # Safety
/// As `__recvfrom_chk`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    room: size_t,
    flags: c_int,
    peer: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    overflows(count, room);
    // SAFETY: `buffer` has `count` writable bytes, and `peer` as many as `length` says, or both are null: the program's duty by
    // recvfrom(2).
    unsafe { recvfrom(fd, buffer, count, flags, peer, length) }
}

/// Writes the sender; of a stream it writes nothing, as Linux does.
///
/// # Safety
/// As for [`address::write`].
unsafe fn tell_peer(received: Received, peer: *mut sockaddr, length: *mut socklen_t) {
    if peer.is_null() || length.is_null() {
        return;
    }
    match received.from {
        // SAFETY: `length` is valid and says how many writable bytes `peer` has: this function's condition.
        Some((from, family)) => unsafe { address::write(from, family, peer, length) },
        // SAFETY: `length` is valid: this function's condition.
        None => unsafe { *length = 0 },
    }
}

/// # Safety
/// As `recvmsg`.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let Some(number) = socket_of(fd) else {
        // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
        let count = unsafe { libc_next::recvmsg(fd, message, flags) };
        // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2). The kernel has
        // filled it in.
        if let Some(message) = unsafe { message.as_ref() }.filter(|message| count >= 0 && message.msg_controllen > 0) {
            // SAFETY: as above.
            unsafe { crate::calls::program::hand_over::receive_rights(message) };
        }
        // SAFETY: as above.
        return unsafe { netlink::received_message(fd, message, count, flags) };
    };
    // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
    give(unsafe { receive_message(fd, number, message, flags) })
}

/// # Safety
/// As `recvmsg`.
unsafe fn receive_message(fd: c_int, number: u32, message: *mut msghdr, flags: c_int) -> Result<isize, Errno> {
    if is_nowhere(message) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
    let message = unsafe { &mut *message };
    // SAFETY: the message's parts are writable: the program's duty by recvmsg(2).
    let target = unsafe { Target::from_call(message.msg_iov, message.msg_iovlen, Errno::MSGSIZE) }?;
    let received = receive(fd, number, target, flags)?;
    // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
    unsafe { tell_peer(received, message.msg_name.cast(), &raw mut message.msg_namelen) };
    let told = libc::MSG_ERRQUEUE | if received.is_at_mark { libc::MSG_OOB } else { 0 };
    message.msg_flags = if received.is_cut { libc::MSG_TRUNC } else { 0 } | flags & told;
    // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
    unsafe { tell(number, received.metadata, message) };
    Ok(length_of(received, flags))
}

/// # Safety
/// As `recvmmsg`.
#[unsafe(no_mangle)]
pub(in crate::calls) unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    let Some(number) = socket_of(fd) else {
        // SAFETY: `messages` points to `count` messages that are writable with all that they point to, and `timeout` is null or valid:
        // the program's duty by recvmmsg(2).
        return unsafe { libc_next::recvmmsg(fd, messages, count, flags, timeout) };
    };
    // SAFETY: `messages` points to `count` messages that are writable with all that they point to, and `timeout` is null or valid: the
    // program's duty by recvmmsg(2).
    let limit = unsafe { timeout.as_ref() }.copied();
    if limit.is_some_and(|limit| limit.tv_sec < 0 || !(0..1_000_000_000).contains(&limit.tv_nsec)) {
        return crate::calls::give_int(Err(Errno::INVAL));
    }
    if is_nowhere(messages) && count > 0 {
        return crate::calls::give_int(Err(Errno::FAULT));
    }
    let start = std::time::Instant::now();
    let limit = limit.map(|limit| Duration::new(limit.tv_sec as u64, limit.tv_nsec as u32));
    let mut done = 0;
    let mut flags_now = flags & !libc::MSG_WAITFORONE;
    while done < count.min(1_024) {
        // SAFETY: `messages` points to `count` messages that are writable with all that they point to, and `timeout` is null or valid:
        // the program's duty by recvmmsg(2).
        let message = unsafe { &mut *messages.add(done as usize) };
        // SAFETY: `messages` points to `count` messages that are writable with all that they point to, and `timeout` is null or valid:
        // the program's duty by recvmmsg(2).
        match unsafe { receive_message(fd, number, &raw mut message.msg_hdr, flags_now) } {
            Ok(length) => message.msg_len = length as c_uint,
            Err(error) if done > 0 => {
                told_later(number, error);
                break;
            }
            Err(error) => return crate::calls::give_int(Err(error)),
        }
        done += 1;
        // Behind each, as the manual has it: a wait is not cut short by it.
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            break;
        }
        if flags & libc::MSG_WAITFORONE != 0 {
            flags_now |= libc::MSG_DONTWAIT;
        }
    }
    done as c_int
}
