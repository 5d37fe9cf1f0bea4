//! Sockets, made and set.

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getpeername, listen, socket_with};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Memory that the kernel keeps datagrams in until they are taken. It gives less if `net.core.rmem_max` says so.
const DATAGRAMS_BYTES: usize = 4 << 20;
/// Connections that nobody has taken yet, if it is not said how many. The kernel has its own limit (`net.core.somaxconn`).
const BACKLOG: i32 = 4_096;

fn socket_for(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if address.is_ipv6() {
        // Another socket has IPv4.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

/// Whether this machine speaks IPv6.
pub fn has_six() -> bool {
    let any = SocketAddr::from(([0_u16; 8], 0));
    socket_for(any, SocketType::STREAM).is_ok_and(|socket| bind(&socket, &any).is_ok())
}

/// Whether a port is of one process alone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum PortUse {
    /// Nobody else may bind it.
    #[default]
    Alone,
    /// So may other processes of the same user that say this, too. The kernel spreads connections and datagrams over them by a hash of both
    /// ends (`SO_REUSEPORT`).
    Shared,
}

impl PortUse {
    fn apply(self, socket: &OwnedFd) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseport(socket, self == PortUse::Shared)?)
    }
}

/// A socket that connections come to. Those that it accepts send at once what they are given (`TCP_NODELAY`).
///
/// # Errors
/// What the kernel says.
pub fn listening_socket(local: SocketAddr, backlog: usize, port_use: PortUse) -> io::Result<OwnedFd> {
    let socket = socket_for(local, SocketType::STREAM)?;
    port_use.apply(&socket)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    bind(&socket, &local)?;
    listen(&socket, i32::try_from(backlog).ok().filter(|backlog| *backlog > 0).unwrap_or(BACKLOG))?;
    Ok(socket)
}

/// A socket for datagrams. If it has all of the machine's addresses, the kernel says which of them a datagram came to.
///
/// # Errors
/// What the kernel says.
pub fn datagram_socket(local: SocketAddr, port_use: PortUse) -> io::Result<OwnedFd> {
    let socket = socket_for(local, SocketType::DGRAM)?;
    port_use.apply(&socket)?;
    // A wish: what there is does.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, DATAGRAMS_BYTES);
    match local.ip() {
        IpAddr::V4(address) if address.is_unspecified() => {
            set_number(socket.as_fd(), libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
        }
        IpAddr::V6(address) if address.is_unspecified() => {
            set_number(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        }
        _ => {}
    }
    bind(&socket, &local)?;
    Ok(socket)
}

/// A socket that is to be connected to `peer`, from `local` if that is said.
///
/// # Errors
/// What the kernel says.
pub fn connecting_socket(peer: SocketAddr, local: Option<SocketAddr>) -> io::Result<OwnedFd> {
    let socket = socket_for(peer, SocketType::STREAM)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(local) = local {
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &local)?;
    }
    Ok(socket)
}

/// Who is at a connection's other end; `None`: it is gone already.
pub fn peer_of(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    getpeername(socket).ok().flatten()?.try_into().ok()
}

/// When this socket is closed its peer is sent a reset.
pub fn reset_on_close(socket: BorrowedFd<'_>) {
    // It can't fail for a socket of TCP; if it did, the peer would be sent a FIN.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

/// How a connection of the kernel's behaves: what has a counterpart in tcp(7) and socket(7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketOption {
    /// `TCP_NODELAY`.
    NoDelay(bool),
    /// `SO_KEEPALIVE` with idle time, interval and probes, or none.
    Keepalive(Option<(Duration, Duration, u8)>),
    /// `TCP_USER_TIMEOUT`; `None`: none.
    UserTimeout(Option<Duration>),
    /// `SO_MAX_PACING_RATE`, bytes a second; `None`: no limit.
    PacingRate(Option<u64>),
    /// `TCP_SYNCNT`.
    SynRetransmissions(u8),
    /// `TCP_WINDOW_CLAMP`, bytes.
    WindowClamp(u32),
    /// `TCP_CONGESTION`: an algorithm by the kernel's name.
    Congestion(&'static str),
}

/// Sets it.
///
/// # Errors
/// What the kernel says.
pub fn set_option(socket: BorrowedFd<'_>, option: SocketOption) -> io::Result<()> {
    match option {
        SocketOption::NoDelay(on) => sockopt::set_tcp_nodelay(socket, on)?,
        SocketOption::Keepalive(None) => sockopt::set_socket_keepalive(socket, false)?,
        SocketOption::Keepalive(Some((idle, interval, probes))) => {
            // Whole seconds, of which there is at least one.
            let whole = |time: Duration| time.max(Duration::from_secs(1));
            sockopt::set_tcp_keepidle(socket, whole(idle))?;
            sockopt::set_tcp_keepintvl(socket, whole(interval))?;
            sockopt::set_tcp_keepcnt(socket, probes.max(1).into())?;
            sockopt::set_socket_keepalive(socket, true)?;
        }
        SocketOption::UserTimeout(time) => {
            let milliseconds = time.map_or(0, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1));
            sockopt::set_tcp_user_timeout(socket, milliseconds)?;
        }
        SocketOption::PacingRate(rate) => {
            let rate = rate.and_then(|rate| u32::try_from(rate).ok()).unwrap_or(u32::MAX);
            set_number(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate as i32)?;
        }
        SocketOption::SynRetransmissions(most) => {
            set_number(socket, libc::IPPROTO_TCP, libc::TCP_SYNCNT, most.max(1).into())?;
        }
        SocketOption::WindowClamp(most) => {
            let most = i32::try_from(most).unwrap_or(i32::MAX);
            set_number(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, most)?;
        }
        SocketOption::Congestion(name) => sockopt::set_tcp_congestion(socket, name)?,
    }
    Ok(())
}

/// Sets an option that is a number.
fn set_number(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the value is as long as is said, and the kernel copies it.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
