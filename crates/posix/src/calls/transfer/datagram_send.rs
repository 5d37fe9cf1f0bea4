//! Sending datagrams.

use crate::calls::ports::rebind;
use crate::calls::transfer::vectors::{Source, one};
use crate::sockets::messages::Wanted;
use crate::sockets::socket::{Begun, Kind, Socket, errno_of_command};
use crate::sys::wishes::is_on_link;
use crate::world::lock::Guard;
use crate::world::state::World;
use qanat::{CommandError, Time, UdpSocketId};
use qanat_nic::breakdown::{self, Phase};
use rustix::io::Errno;
use std::net::SocketAddr;

/// Whether we or the kernel send something.
pub(super) enum Way {
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
fn route(guard: &mut Guard, number: u32, to: Option<SocketAddr>, wanted: Wanted) -> Result<Option<SocketAddr>, Errno> {
    let world = &mut **guard;
    let socket = world.sockets.get_mut(number).ok_or(Errno::BADF)?;
    if let Some(error) = socket.take_error() {
        return Err(error);
    }
    let peer = to.or(socket.peer).ok_or(Errno::DESTADDRREQ)?;
    let (is_dual, family) = (socket.is_dual, socket.family);
    let (is_allowed, only_six) = (socket.may_send_to(peer), socket.options.v6_only);
    let Kind::Datagram(datagram) = &socket.kind else { return Err(Errno::OPNOTSUPP) };
    if datagram.write_shut {
        return Err(Errno::PIPE);
    }
    if family == libc::AF_INET && peer.is_ipv6() || family == libc::AF_INET6 && only_six && peer.is_ipv4() {
        return Err(Errno::NETUNREACH);
    }
    if !is_allowed {
        return Err(Errno::ACCESS);
    }
    let is_own = world.addresses.iter().any(|(own, _)| *own == peer.ip());
    if is_dual && (!is_on_link(peer.ip()) || is_own) {
        return Ok(None);
    }
    if datagram.sockets.is_empty() {
        rebind(guard, number)?;
    }
    if wanted.source.is_some_and(|source| !guard.is_own(source)) {
        return Err(if family == libc::AF_INET { Errno::NETUNREACH } else { Errno::INVAL });
    }
    Ok(Some(peer))
}

/// Sends a datagram of ours.
pub(super) fn send_datagram(
    mut guard: Guard,
    number: u32,
    source: Source<'_>,
    to: Option<SocketAddr>,
    wanted: Wanted,
) -> Result<Way, Errno> {
    match route(&mut guard, number, to, wanted)? {
        Some(peer) => emit(&mut guard, number, source, (peer, wanted)),
        None => Ok(Way::Kernel),
    }
}

/// Sends a datagram to `peer`, which [`route`] has found.
fn emit(
    guard: &mut Guard,
    number: u32,
    source: Source<'_>,
    (peer, wanted): (SocketAddr, Wanted),
) -> Result<Way, Errno> {
    let now = guard.clock_now();
    let world = &mut **guard;
    let Some(Socket { kind: Kind::Datagram(datagram), options, .. }) = world.sockets.get(number) else {
        return Err(Errno::BADF);
    };
    let segment = wanted.segment.or(options.segment);
    let dont_fragment = wanted.dont_fragment.unwrap_or(options.dont_fragment);
    // Two of both families: the second is IPv4's.
    let id = match (datagram.sockets.as_slice(), peer.is_ipv4()) {
        ([_, four], true) => *four,
        ([one, ..], _) => *one,
        ([], _) => return Err(Errno::BADF),
    };
    let all = source.length();
    if all > longest_datagram(peer) {
        return Err(Errno::MSGSIZE);
    }
    let mtu = usize::from(world.vnic.mtu());
    let headers = if peer.is_ipv4() { 28 } else { 48 };
    if dont_fragment && segment.unwrap_or(all).min(all) + headers > mtu {
        return Err(Errno::MSGSIZE);
    }
    if segment.is_none_or(|segment| segment >= all) && all + headers > mtu {
        let bytes = source.gather(0, all);
        send_in_fragments(guard, now, (id, peer), &bytes)?;
        return Ok(Way::Ours(all as isize));
    }
    let stack_out = breakdown::span(Phase::StackOut);
    let sent = match source.single() {
        _ if segment.is_some_and(|segment| segment < all) => {
            let bytes = source.gather(0, all);
            let mut pieces = bytes.chunks(segment.unwrap_or(all).max(1));
            pieces.try_for_each(|piece| world.stack.send_to(now, world.vnic.get(), id, peer, piece))
        }
        Some(bytes) => world.stack.send_to(now, world.vnic.get(), id, peer, bytes),
        None => {
            let bytes = source.gather(0, all);
            world.stack.send_to(now, world.vnic.get(), id, peer, &bytes)
        }
    };
    drop(stack_out);
    sent.map_err(errno_of_command)?;
    guard.sent(now);
    Ok(Way::Ours(all as isize))
}

/// Begins a datagram that others go on with (`MSG_MORE`, `UDP_CORK`).
pub(super) fn begin(
    mut guard: Guard,
    number: u32,
    source: Source<'_>,
    (to, wanted): (Option<SocketAddr>, Wanted),
) -> Result<Way, Errno> {
    let Some(peer) = route(&mut guard, number, to, wanted)? else { return Ok(Way::Kernel) };
    if let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get_mut(number) {
        datagram.begun = Some(Box::new(Begun { bytes: Vec::new(), peer, wanted }));
    }
    join(guard, number, source, true)
}

/// Goes on with the datagram that socket `number` has begun; `more`: others do, else it leaves. What can't leave whole is
/// dropped whole, as on Linux.
pub(super) fn join(mut guard: Guard, number: u32, source: Source<'_>, more: bool) -> Result<Way, Errno> {
    let all = source.length();
    let mtu = usize::from(guard.vnic.mtu());
    let Some(Socket { kind: Kind::Datagram(datagram), options, .. }) = guard.sockets.get_mut(number) else {
        return Err(Errno::BADF);
    };
    let begun = datagram.begun.as_mut().ok_or(Errno::BADF)?;
    let headers = if begun.peer.is_ipv4() { 28 } else { 48 };
    let is_whole = begun.wanted.dont_fragment.unwrap_or(options.dont_fragment);
    let most = longest_datagram(begun.peer).min(if is_whole { mtu.saturating_sub(headers) } else { usize::MAX });
    if begun.bytes.len().saturating_add(all) > most {
        datagram.begun = None;
        return Err(Errno::MSGSIZE);
    }
    let bytes = source.gather(0, all);
    begun.bytes.extend_from_slice(&bytes);
    if !more {
        end(&mut guard, number)?;
    }
    Ok(Way::Ours(all as isize))
}

/// Has the datagram leave that socket `number` has begun, if it has.
pub(in crate::calls) fn end(guard: &mut Guard, number: u32) -> Result<(), Errno> {
    let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get_mut(number) else { return Ok(()) };
    let Some(begun) = datagram.begun.take() else { return Ok(()) };
    let whole = one(begun.bytes.as_ptr().cast(), begun.bytes.len());
    // SAFETY: the part is `begun.bytes`, which outlives the call.
    let source = unsafe { Source::new(&whole) };
    emit(guard, number, source, (begun.peer, begun.wanted)).map(|_| ())
}

/// Sends a datagram that is longer than the link's MTU. One that the device has no room for, even when it has taken all that
/// waited, is lost, as any other is.
fn send_in_fragments(
    guard: &mut Guard,
    now: Time,
    (id, peer): (UdpSocketId, SocketAddr),
    bytes: &[u8],
) -> Result<(), Errno> {
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
