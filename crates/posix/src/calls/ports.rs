//! Ports of ours, and the stack's datagram sockets that use them.

use crate::sockets::socket::{Datagram, Kind, Socket, errno_of_command};
use crate::sys::address;
use crate::world::lock::Guard;
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The stack's sockets for `local`: two where an unspecified IPv6 address stands for both families.
pub(super) fn open_datagrams(
    guard: &mut Guard,
    local: SocketAddr,
    socket: &Socket,
) -> Result<Vec<qanat::UdpSocketId>, Errno> {
    let v6_only = socket.options.v6_only;
    // Sockets that may share a port share the stack's socket.
    let sharer = guard.sockets.iter().find_map(|other| match &other.kind {
        Kind::Datagram(datagram) if other.local == local => Some(datagram.sockets.clone()),
        _ => None,
    });
    if let Some(shared) = sharer {
        return Ok(shared);
    }
    let first = guard.stack.bind_udp(local).map_err(errno_of_command)?;
    let mut ids = vec![first];
    if local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !v6_only {
        let four = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), local.port());
        ids.extend(guard.stack.bind_udp(four));
    }
    Ok(ids)
}

/// A datagram socket that had no port of its own choice is bound to nothing again.
pub(super) fn unbind(guard: &mut Guard, number: u32) {
    let Some(socket) = guard.sockets.get_mut(number) else { return };
    let unspecified = address::unspecified_like(socket.local);
    let ip = if socket.options.has_bound { socket.local.ip() } else { unspecified };
    socket.local = SocketAddr::new(ip, 0);
    let Kind::Datagram(datagram) = &mut socket.kind else { return };
    for id in std::mem::take(&mut datagram.sockets) {
        if guard.sockets.disown_datagrams(id, number) {
            let _ = guard.stack.close_udp(id);
        }
    }
}

/// A datagram socket that is bound to nothing gets a port.
pub(super) fn rebind(guard: &mut Guard, number: u32) -> Result<(), Errno> {
    let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get(number) else { return Ok(()) };
    if !datagram.sockets.is_empty() {
        return Ok(());
    }
    let port = free_port(guard);
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    socket.local.set_port(port);
    let (family, options) = (socket.family, socket.options);
    let mut like = Socket::new(family, socket.local, Kind::Datagram(Datagram::default()));
    like.options = options;
    let ids = open_datagrams(guard, like.local, &like)?;
    for id in &ids {
        guard.sockets.own_datagrams(*id, number);
    }
    if let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get_mut(number) {
        datagram.sockets = ids;
    }
    Ok(())
}

/// A port nobody of ours has.
pub(super) fn free_port(guard: &Guard) -> u16 {
    let random = qanat::entropy().map_or(0, |[a, b, ..]| u16::from_le_bytes([a, b]));
    let candidates = (0..28_000u16).map(|step| 32_768 + (random.wrapping_add(step)) % 28_000);
    let is_free = |port: &u16| !guard.sockets.iter().any(|socket| socket.local.port() == *port);
    candidates.into_iter().find(is_free).unwrap_or(0)
}
