//! TCP Fast Open (RFC 7413): `MSG_FASTOPEN`, and what `TCP_FASTOPEN_CONNECT` has deferred.

use crate::calls::fast_open_settings::request;
use crate::calls::open::{adopt_to_connect, reached, start, wait_for_connection};
use crate::calls::transfer::stream_send::{give_to, go_on};
use crate::calls::transfer::vectors::Source;
use crate::lifecycle::detached::socket_of;
use crate::sockets::socket::Kind;
use crate::sys::address;
use crate::world::lock::{Guard, lock};
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;
use std::net::SocketAddr;

/// Connects `number` to `peer` with the beginning of the data on the SYN, if that can be; and sends the rest as far as it is
/// waited for.
///
/// # Errors
/// As `connect` and `send`; `EINPROGRESS`: nothing of the data was taken, and the connection is under way.
pub(super) fn open_with(
    mut guard: Guard,
    number: u32,
    peer: SocketAddr,
    source: Source<'_>,
    flags: c_int,
) -> Result<isize, Errno> {
    let request = request(&guard, number);
    let connection = start(&mut guard, number, peer, request)?;
    let room = guard.stack.syn_room(connection);
    let done = give_to(&mut guard, number, connection, source, room.min(source.length()));
    guard.drive_now();
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let waits = !socket.is_nonblocking && flags & libc::MSG_DONTWAIT == 0;
    let timeout = socket.send_timeout;
    drop(guard);
    if !waits {
        return if done > 0 { Ok(done as isize) } else { Err(Errno::INPROGRESS) };
    }
    match wait_for_connection(number, timeout) {
        Ok(_) => {}
        Err(Errno::INPROGRESS) if done > 0 => return Ok(done as isize),
        Err(error) => return Err(error),
    }
    go_on(lock()?, number, source, flags & !libc::MSG_FASTOPEN, done)
}

/// `sendto` with `MSG_FASTOPEN` on a stream. `None`: it is the kernel's, or no stream of ours.
///
/// # Safety
/// `to` is null or has `length` readable bytes.
pub(super) unsafe fn send(
    fd: c_int,
    source: Source<'_>,
    flags: c_int,
    (to, length): (*const sockaddr, socklen_t),
) -> Option<Result<isize, Errno>> {
    // SAFETY: `to` is null or has `length` readable bytes: this function's condition.
    let peer = unsafe { address::read(to, length) };
    // SAFETY: called only if `to` has the bytes of a family.
    let family = || c_int::from(unsafe { to.read_unaligned() }.sa_family);
    let is_nobody = !to.is_null() && length as usize >= size_of::<libc::sa_family_t>() && family() == libc::AF_UNSPEC;
    let is_off = is_nobody || !crate::world::sysctl::fast_open().client;
    let Some(number) = socket_of(fd) else {
        if is_off {
            return None;
        }
        // SAFETY: `to` has `length` readable bytes: this function's condition.
        let (peer, nature, note, port) = unsafe { reached(fd, to, length) }?;
        if !nature.is_stream {
            return None;
        }
        let adopt = || -> Result<isize, Errno> {
            source.check()?;
            let mut guard = lock()?;
            let number = adopt_to_connect(&mut guard, fd, peer, (&nature, note), port)?;
            open_with(guard, number, peer, source, flags)
        };
        return Some(adopt());
    };
    let mut guard = match lock() {
        Ok(guard) => guard,
        Err(error) => return Some(Err(error)),
    };
    let socket = guard.sockets.get_mut(number)?;
    let is_on_link = peer.is_some_and(|peer| crate::sys::wishes::is_on_link(peer.ip()));
    Some(match &mut socket.kind {
        Kind::Datagram(_) => return None,
        _ if is_off => Err(Errno::OPNOTSUPP),
        Kind::Bound if socket.deferred.is_some() || socket.has_failed => return None,
        Kind::Bound => match peer {
            None => Err(Errno::INVAL),
            Some(_) if !is_on_link => Err(Errno::NETUNREACH),
            Some(peer) => source.check().and_then(|()| open_with(guard, number, peer, source, flags)),
        },
        Kind::Stream(stream) if stream.is_connecting && stream.connection.is_some() => Err(Errno::ALREADY),
        Kind::Stream(stream) if stream.connection.is_some() && stream.is_reported => Err(Errno::ISCONN),
        // As by `connect`, a caller that did not wait is told once that the connection is there. What is sent now goes.
        Kind::Stream(stream) => {
            stream.is_reported = true;
            return None;
        }
        Kind::Listener(_) => Err(Errno::INVAL),
    })
}
