//! `write` and `send` in all their forms.

use crate::calls::interfaces::netlink;
use crate::calls::open::{adopt_for_sending, errno_of_command};
use crate::calls::transfer::control_messages::wanted;
use crate::calls::transfer::receive::{check, slice, told_later};
use crate::calls::{give, give_int};
use crate::lifecycle::away::socket_of;
use crate::sockets::messages::Wanted;
use crate::sockets::socket::{Begun, Kind, Socket};
use crate::sys::address;
use crate::sys::libc_next;
use crate::sys::wishes::is_on_link;
use crate::world::lock::{Guard, lock};
use crate::world::state::World;
use crate::world::wait::{block, block_for_rest};
use libc::{c_int, c_uint, c_void, iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use qanat::nic::breakdown::{self, Phase};
use qanat::{CommandError, ConnectionId, Time, UdpSocketId};
use std::net::SocketAddr;

/// Bytes of one call that are copied at a time.
const PIECE_MAX: usize = 64 * 1024;

/// Bytes of the vectors from `at` on, at most `most`, in memory of the arena.
///
/// # Safety
/// The vectors are readable; the lock is held.
unsafe fn gather(vectors: &[iovec], at: usize, most: usize) -> Vec<u8> {
    let _copying = breakdown::span(Phase::CopyIn);
    let mut bytes = Vec::with_capacity(most);
    let mut skip = at;
    for vector in vectors {
        if skip >= vector.iov_len {
            skip -= vector.iov_len;
            continue;
        }
        let count = (vector.iov_len - skip).min(most - bytes.len());
        // SAFETY: as the caller says.
        let part = unsafe { std::slice::from_raw_parts(vector.iov_base.cast::<u8>().add(skip), count) };
        bytes.extend_from_slice(part);
        skip = 0;
        if bytes.len() == most {
            break;
        }
    }
    bytes
}

/// Gives the stack as much as it takes of the vectors from `at` on. `None`: nothing now.
///
/// # Safety
/// The vectors are readable.
unsafe fn push(
    world: &mut World,
    now: Time,
    number: u32,
    (vectors, flags): (&[iovec], c_int),
    (at, all): (usize, usize),
) -> Option<Result<usize, i32>> {
    let Some(socket) = world.sockets.get_mut(number) else { return Some(Err(libc::EBADF)) };
    if socket.error != 0 {
        return Some(Err(socket.take_error()));
    }
    let Kind::Stream(stream) = &mut socket.kind else { return Some(Err(libc::EPIPE)) };
    let Some(connection) = stream.connection.filter(|_| !stream.write_shut) else { return Some(Err(libc::EPIPE)) };
    if stream.is_connecting {
        return None;
    }
    let more = flags & libc::MSG_MORE != 0;
    if (more || stream.more) && at < all {
        stream.more = more;
        let _ = world.stack.set_more(now, connection, more);
    }
    let mut done = 0;
    let _stack = breakdown::span(Phase::StackOut);
    while at + done < all {
        let room = world.room(now, number, done > 0);
        if room == 0 {
            break;
        }
        let Some(stream) = world.sockets.stream_mut(number) else { break };
        let length = (all - at - done).min(room).min(PIECE_MAX);
        // SAFETY: as the caller says.
        let bytes = unsafe { gather(vectors, at + done, length) };
        match world.stack.send_owned(now, connection, bytes.into()) {
            Ok(()) => {
                stream.sent(length);
                if flags & libc::MSG_OOB != 0 {
                    // As Linux: the last byte that has been given so far is the one.
                    let _ = world.stack.mark_urgent(now, connection);
                }
            }
            Err(CommandError::Full) => break,
            Err(error) if done == 0 => return Some(Err(errno_of_command(error))),
            Err(_) => break,
        }
        done += length;
    }
    if flags & libc::MSG_EOR != 0 && all > 0 && at + done == all {
        let _ = world.stack.end_record(now, connection);
    }
    world.note_unsent(now, number);
    if done == 0 && at < all { None } else { Some(Ok(done)) }
}

impl World {
    /// Bytes that stream `number` takes now; `goes_on`: of a call that has given some already. With a mark
    /// (`TCP_NOTSENT_LOWAT`) as Linux: a call begins below it, and fills the buffers it has begun.
    fn room(&mut self, now: Time, number: u32, goes_on: bool) -> usize {
        self.note_unsent(now, number);
        let Some(stream) = self.sockets.stream_mut(number) else { return 0 };
        if stream.unsent_mark == 0 || stream.room() == 0 {
            return stream.room();
        }
        if !goes_on && !stream.is_below_mark() {
            return 0;
        }
        let info = stream.connection.and_then(|connection| self.stack.connection_info(connection));
        let goal = info.map_or(1, |(_, _, info)| {
            let segment = u32::from(info.maximum_segment.max(1));
            ((info.send_window / 2).min(PIECE_MAX as u32) / segment).max(1) * segment
        });
        let most = u64::from(stream.unsent_mark).next_multiple_of(goal.into());
        stream.room().min(usize::try_from(most.saturating_sub(stream.unsent)).unwrap_or(usize::MAX))
    }

    /// With a mark, and much that seems unsent: what can leave need not wait for others, and the rest is watched.
    fn note_unsent(&mut self, now: Time, number: u32) {
        let Some(stream) = self.sockets.stream_mut(number).filter(|stream| stream.unsent_mark > 0) else { return };
        if !stream.is_well_below_mark() {
            self.leave(now);
        }
        self.sockets.watch_unsent(number, &self.stack);
    }
}

/// Sends on a stream, waiting if that is wanted.
///
/// # Safety
/// The vectors are readable.
unsafe fn send_stream(guard: Guard, number: u32, vectors: &[iovec], flags: c_int) -> Result<isize, i32> {
    // SAFETY: as the caller says.
    unsafe { go_on(guard, number, vectors, flags, 0) }
}

/// Gives the stack, at once, the first `count` bytes of what is sent; how many those are.
///
/// # Safety
/// The vectors are readable.
pub(in crate::calls) unsafe fn give_to(
    guard: &mut Guard,
    number: u32,
    connection: ConnectionId,
    vectors: &[iovec],
    count: usize,
) -> usize {
    let now = guard.clock_now();
    // SAFETY: as the caller says.
    let bytes = unsafe { gather(vectors, 0, count) };
    if count == 0 || guard.stack.send_owned(now, connection, bytes.into()).is_err() {
        return 0;
    }
    if let Some(stream) = guard.sockets.stream_mut(number) {
        stream.sent(count);
    }
    count
}

/// As [`send_stream`], but for the first `before` bytes, which have been given already.
///
/// # Safety
/// The vectors are readable.
pub(in crate::calls) unsafe fn go_on(
    mut guard: Guard,
    number: u32,
    vectors: &[iovec],
    flags: c_int,
    before: usize,
) -> Result<isize, i32> {
    let all: usize = vectors.iter().map(|vector| vector.iov_len).sum();
    if before > 0 && before == all {
        return Ok(all as isize);
    }
    let what = (vectors, flags);
    let mut now = guard.clock_now();
    // SAFETY: as the caller says.
    let mut first = unsafe { push(&mut guard, now, number, what, (before, all)) };
    if first.is_none() {
        now = guard.drive_now();
        // SAFETY: as the caller says.
        first = unsafe { push(&mut guard, now, number, what, (before, all)) };
    }
    guard.sent(now);
    let socket = guard.sockets.get(number).ok_or(libc::EBADF)?;
    let waits = !socket.is_nonblocking && flags & libc::MSG_DONTWAIT == 0;
    let timeout = socket.send_timeout;
    drop(guard);
    let mut done = match first {
        Some(Ok(done)) => before + done,
        Some(Err(error)) => return Err(error),
        None if waits || before > 0 => before,
        None => return Err(libc::EAGAIN),
    };
    while waits && done < all {
        let attempt = |guard: &mut Guard| {
            let now = guard.clock_now();
            // SAFETY: as the caller says.
            let pushed = unsafe { push(guard, now, number, what, (done, all)) };
            if pushed.is_some() {
                guard.sent(now);
            }
            pushed
        };
        let more = match done {
            0 => block(number, timeout, None, attempt),
            _ => block_for_rest(number, timeout, attempt),
        };
        match more {
            Ok(more) => done += more,
            // What went before counts; the next call is told.
            Err(error) if done > 0 => {
                told_later(number, error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(done as isize)
}

fn broken_pipe(error: i32, flags: c_int) -> i32 {
    if error == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: to this thread, as the kernel does.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    error
}

/// Who sends, or has sent, something.
enum Way {
    /// So many bytes.
    Ours(isize),
    /// It is not for where the VNIC leads.
    Kernel,
}

/// The longest datagram to `peer`, bytes behind the UDP header.
fn longest_datagram(peer: SocketAddr) -> usize {
    if peer.is_ipv4() { 65_507 } else { 65_527 }
}

/// Whether datagrams of socket `number` can go to `to`, or to its peer; which that is. `None`: the kernel's can.
fn route(guard: &mut Guard, number: u32, to: Option<SocketAddr>, wanted: Wanted) -> Result<Option<SocketAddr>, i32> {
    let world = &mut **guard;
    let socket = world.sockets.get_mut(number).ok_or(libc::EBADF)?;
    if socket.error != 0 {
        return Err(socket.take_error());
    }
    let peer = to.or(socket.peer).ok_or(libc::EDESTADDRREQ)?;
    let (is_dual, family) = (socket.is_dual, socket.family);
    let (is_allowed, only_six) = (socket.may_send_to(peer), socket.options.v6_only);
    let Kind::Datagram(datagram) = &socket.kind else { return Err(libc::EOPNOTSUPP) };
    if datagram.write_shut {
        return Err(libc::EPIPE);
    }
    if family == libc::AF_INET && peer.is_ipv6() || family == libc::AF_INET6 && only_six && peer.is_ipv4() {
        return Err(libc::ENETUNREACH);
    }
    if !is_allowed {
        return Err(libc::EACCES);
    }
    let is_own = world.addresses.iter().any(|(own, _)| *own == peer.ip());
    if is_dual && (!is_on_link(peer.ip()) || is_own) {
        return Ok(None);
    }
    if datagram.sockets.is_empty() {
        crate::calls::bind::rebind(guard, number)?;
    }
    if wanted.source.is_some_and(|source| !guard.is_own(source)) {
        return Err(if family == libc::AF_INET { libc::ENETUNREACH } else { libc::EINVAL });
    }
    Ok(Some(peer))
}

/// Sends a datagram of ours.
///
/// # Safety
/// The vectors are readable.
unsafe fn send_datagram(
    mut guard: Guard,
    number: u32,
    vectors: &[iovec],
    to: Option<SocketAddr>,
    wanted: Wanted,
) -> Result<Way, i32> {
    match route(&mut guard, number, to, wanted)? {
        // SAFETY: as the caller says.
        Some(peer) => unsafe { emit(&mut guard, number, vectors, (peer, wanted)) },
        None => Ok(Way::Kernel),
    }
}

/// Sends a datagram to `peer`, which [`route`] has found.
///
/// # Safety
/// The vectors are readable.
unsafe fn emit(
    guard: &mut Guard,
    number: u32,
    vectors: &[iovec],
    (peer, wanted): (SocketAddr, Wanted),
) -> Result<Way, i32> {
    let now = guard.clock_now();
    let world = &mut **guard;
    let Some(Socket { kind: Kind::Datagram(datagram), options, .. }) = world.sockets.get(number) else {
        return Err(libc::EBADF);
    };
    let segment = wanted.segment.or(options.segment);
    let dont_fragment = wanted.dont_fragment.unwrap_or(options.dont_fragment);
    // Two of both families: the second is IPv4's.
    let id = match (datagram.sockets.as_slice(), peer.is_ipv4()) {
        ([_, four], true) => *four,
        ([one, ..], _) => *one,
        ([], _) => return Err(libc::EBADF),
    };
    let all: usize = vectors.iter().map(|vector| vector.iov_len).sum();
    if all > longest_datagram(peer) {
        return Err(libc::EMSGSIZE);
    }
    let mtu = usize::from(world.vnic.mtu());
    let headers = if peer.is_ipv4() { 28 } else { 48 };
    if dont_fragment && segment.unwrap_or(all).min(all) + headers > mtu {
        return Err(libc::EMSGSIZE);
    }
    if segment.is_none_or(|segment| segment >= all) && all + headers > mtu {
        // SAFETY: as the caller says.
        let bytes = unsafe { gather(vectors, 0, all) };
        send_in_fragments(guard, now, (id, peer), &bytes)?;
        return Ok(Way::Ours(all as isize));
    }
    let stack_out = breakdown::span(Phase::StackOut);
    let sent = match vectors {
        _ if segment.is_some_and(|segment| segment < all) => {
            // SAFETY: as the caller says.
            let bytes = unsafe { gather(vectors, 0, all) };
            let mut pieces = bytes.chunks(segment.unwrap_or(all).max(1));
            pieces.try_for_each(|piece| world.stack.send_to(now, world.vnic.get(), id, peer, piece))
        }
        // SAFETY: as the caller says.
        [one] if one.iov_len > 0 => unsafe {
            let bytes = std::slice::from_raw_parts(one.iov_base.cast::<u8>(), one.iov_len);
            world.stack.send_to(now, world.vnic.get(), id, peer, bytes)
        },
        vectors => {
            // SAFETY: as the caller says.
            let bytes = unsafe { gather(vectors, 0, all) };
            world.stack.send_to(now, world.vnic.get(), id, peer, &bytes)
        }
    };
    drop(stack_out);
    sent.map_err(errno_of_command)?;
    guard.sent(now);
    Ok(Way::Ours(all as isize))
}

/// Begins a datagram that others go on with (`MSG_MORE`, `UDP_CORK`).
///
/// # Safety
/// The vectors are readable.
unsafe fn begin(
    mut guard: Guard,
    number: u32,
    vectors: &[iovec],
    (to, wanted): (Option<SocketAddr>, Wanted),
) -> Result<Way, i32> {
    let Some(peer) = route(&mut guard, number, to, wanted)? else { return Ok(Way::Kernel) };
    if let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get_mut(number) {
        datagram.begun = Some(Box::new(Begun { bytes: Vec::new(), peer, wanted }));
    }
    // SAFETY: as the caller says.
    unsafe { join(guard, number, vectors, true) }
}

/// Goes on with the datagram that socket `number` has begun; `more`: others do, else it leaves. What can't leave whole is
/// dropped whole, as on Linux.
///
/// # Safety
/// The vectors are readable.
unsafe fn join(mut guard: Guard, number: u32, vectors: &[iovec], more: bool) -> Result<Way, i32> {
    let all: usize = vectors.iter().map(|vector| vector.iov_len).sum();
    let mtu = usize::from(guard.vnic.mtu());
    let Some(Socket { kind: Kind::Datagram(datagram), options, .. }) = guard.sockets.get_mut(number) else {
        return Err(libc::EBADF);
    };
    let begun = datagram.begun.as_mut().ok_or(libc::EBADF)?;
    let headers = if begun.peer.is_ipv4() { 28 } else { 48 };
    let is_whole = begun.wanted.dont_fragment.unwrap_or(options.dont_fragment);
    let most = longest_datagram(begun.peer).min(if is_whole { mtu.saturating_sub(headers) } else { usize::MAX });
    if begun.bytes.len().saturating_add(all) > most {
        datagram.begun = None;
        return Err(libc::EMSGSIZE);
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { gather(vectors, 0, all) };
    begun.bytes.extend_from_slice(&bytes);
    if !more {
        end(&mut guard, number)?;
    }
    Ok(Way::Ours(all as isize))
}

/// Has the datagram leave that socket `number` has begun, if it has.
pub(in crate::calls) fn end(guard: &mut Guard, number: u32) -> Result<(), i32> {
    let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get_mut(number) else { return Ok(()) };
    let Some(begun) = datagram.begun.take() else { return Ok(()) };
    let whole = one(begun.bytes.as_ptr().cast(), begun.bytes.len());
    // SAFETY: so many readable bytes.
    unsafe { emit(guard, number, &whole, (begun.peer, begun.wanted)) }.map(|_| ())
}

/// Sends a datagram that is longer than the link's MTU. One that the device has no room for, even when it has taken all that
/// waited, is lost, as any other is.
fn send_in_fragments(
    guard: &mut Guard,
    now: Time,
    (id, peer): (UdpSocketId, SocketAddr),
    bytes: &[u8],
) -> Result<(), i32> {
    let send = |world: &mut World| world.stack.send_in_fragments(now, world.vnic.get(), id, peer, bytes);
    let mut sent = send(guard);
    if sent == Err(CommandError::Full) {
        guard.leave(now);
        sent = send(guard);
    }
    if sent != Err(CommandError::Full) {
        sent.map_err(errno_of_command)?;
    }
    guard.sent(now);
    // Dozens of frames need not wait for others.
    guard.leave(now);
    Ok(())
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

fn one(buffer: *const c_void, count: size_t) -> [iovec; 1] {
    [iovec { iov_base: buffer.cast_mut(), iov_len: count }]
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
