//! `bind`: decides whether an address is ours or the kernel's.

use super::give_int;
use super::{bound_to_all, options};
use crate::calls::adopt::adopt;
use crate::calls::nature::{Nature, nature};
use crate::calls::ports::{free_port, open_datagrams};
use crate::lifecycle::attach::{attach, lacks_named_address};
use crate::lifecycle::detached::socket_of;
use crate::sockets::socket::{Datagram, Kind, Socket};
use crate::sys::address;
use crate::sys::explain::explain;
use crate::sys::kernel_socket::{kernel_name, kernel_option};
use crate::sys::libc_next;
use crate::sys::wishes::is_on_link;
use crate::world::fallback_log::note;
use crate::world::fallbacks::{Call, Why};
use crate::world::lock::lock;
use libc::{c_int, sockaddr, socklen_t};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// # Safety
/// As `bind`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if crate::sys::this_process::departure::is_detached()
        && nature(fd).is_some()
        && !address.is_null()
        && length <= ADDRESS_MAX
    {
        // SAFETY: `address` has `length` readable bytes: the program's duty by bind(2).
        return unsafe { crate::calls::remote::client::bind(fd, address, length) };
    }
    let real_bind = || {
        super::option_notes::forget(fd);
        // SAFETY: `address` has `length` readable bytes: the program's duty by bind(2).
        let status = unsafe { libc_next::bind(fd, address, length) };
        if status == 0 { Ok(0) } else { Err(libc_next::errno()) }
    };
    // SAFETY: `address` has `length` readable bytes: the program's duty by bind(2).
    give_int(unsafe { bind_by(fd, address, length, real_bind) })
}

/// Bytes of an address at most.
const ADDRESS_MAX: socklen_t = size_of::<libc::sockaddr_storage>() as socklen_t;

/// As `bind`, whose part in the kernel is `real_bind`.
///
/// # Safety
/// As `bind`.
pub(super) unsafe fn bind_by(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
    real_bind: impl FnOnce() -> Result<i32, Errno>,
) -> Result<i32, Errno> {
    if socket_of(fd).is_some() {
        return Err(Errno::INVAL);
    }
    // SAFETY: `address` has `length` readable bytes: the program's duty by bind(2).
    let wanted = unsafe { address::read(address, length) };
    let Some((wanted, nature)) = wanted.filter(|_| crate::sys::wishes::wishes().is_some()).zip(nature(fd)) else {
        return real_bind();
    };
    // SAFETY: the length was found to be enough for an address.
    let given_family = c_int::from(unsafe { address.read_unaligned() }.sa_family);
    bind_inet(fd, wanted, &nature, given_family, real_bind)
}

fn bind_inet(
    fd: c_int,
    wanted: SocketAddr,
    nature: &Nature,
    given_family: c_int,
    real_bind: impl FnOnce() -> Result<i32, Errno>,
) -> Result<i32, Errno> {
    let ip = wanted.ip();
    let is_only_six = || kernel_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
    // What the kernel refuses for its family, it says best itself.
    if nature.family != given_family || ip.is_ipv4() && nature.family == libc::AF_INET6 && is_only_six() {
        return real_bind();
    }
    if ip.is_loopback() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) {
        // A stream says so again when it listens.
        if !nature.is_stream {
            note(fd, Call::Bind, wanted, if ip.is_loopback() { Why::Loopback } else { Why::Bound });
        }
        return real_bind();
    }
    let has_world = crate::world::lock::shared().is_some();
    if ip.is_unspecified() {
        if has_world && wanted.port() != 0 && is_held_by_ours(fd, wanted, nature) {
            return Err(Errno::ADDRINUSE);
        }
        let bound = real_bind();
        if bound.is_ok() && nature.is_stream {
            bound_to_all::note(fd);
        }
        let is_refused = matches!(bound, Err(Errno::ADDRINUSE | Errno::ACCESS));
        // A stream becomes ours when it listens or connects: what is bound to everything may do either.
        if bound.is_ok() && nature.is_stream || bound.is_err() && !is_refused {
            return bound;
        }
        let port = kernel_name(fd).filter(|_| bound.is_ok()).map_or(wanted.port(), |name| name.port());
        // Perhaps a client's: the card is not asked for yet, and it becomes ours with the first datagram that is for us.
        if wanted.port() == 0 && !has_world {
            return bound;
        }
        if !attach(None) {
            if bound.is_ok() {
                note(fd, Call::Bind, wanted, Why::NoCard);
            }
            return if lacks_named_address() { Err(Errno::ADDRNOTAVAIL) } else { bound };
        }
        let local = SocketAddr::new(ip, port);
        match bind_ours(fd, local, nature, bound.is_ok()) {
            Ok(()) => Ok(0),
            // The kernel's alone then.
            Err(error) => {
                if bound.is_ok() {
                    note(fd, Call::Bind, local, Why::Refused);
                }
                bound.or(Err(error))
            }
        }
    } else {
        let is_own = has_world && lock()?.is_own(ip);
        if !is_own {
            // With `IP_FREEBIND` a program may bind an address that nobody has.
            let is_let = kernel_option(fd, libc::IPPROTO_IP, libc::IP_FREEBIND) == Some(1);
            let bound =
                if is_let && is_on_link(ip) && !is_the_kernels(ip) { Err(Errno::ADDRNOTAVAIL) } else { real_bind() };
            let is_foreign = bound == Err(Errno::ADDRNOTAVAIL);
            if !is_foreign || has_world || !is_on_link(ip) || !attach(Some(ip)) {
                if is_foreign {
                    explain(format_args!(
                        "fd {fd}: bind {wanted}: nobody's: not an address of the kernel's, nor of the card's \
                         (`qanat run --address {ip}/LENGTH` gives it that one)"
                    ));
                }
                if bound.is_ok() && !nature.is_stream {
                    note(fd, Call::Bind, wanted, Why::Bound);
                }
                return bound;
            }
        }
        bind_ours(fd, wanted, nature, false).map(|()| 0)
    }
}

/// Whether the kernel has this address: a socket may be bound to it.
fn is_the_kernels(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let (any, length) = address::encode(SocketAddr::new(ip, 0), family);
    // SAFETY: the pointer is to as many readable bytes as the length says; the descriptor is this function's.
    unsafe {
        let probe = libc_next::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let status = libc_next::bind(probe, (&raw const any).cast(), length as socklen_t);
        libc_next::close(probe);
        status == 0
    }
}

/// Binds one to the VNIC's address.
pub(super) fn bind_ours(fd: c_int, local: SocketAddr, nature: &Nature, is_dual: bool) -> Result<(), Errno> {
    let mut guard = lock()?;
    let names_port = local.port() != 0;
    let local = if names_port { local } else { SocketAddr::new(local.ip(), free_port(&guard)) };
    let kind = if nature.is_stream { Kind::Bound } else { Kind::Datagram(Datagram::default()) };
    let mut socket = Socket::new(nature.family, local, kind);
    (socket.is_dual, socket.options.has_bound, socket.options.names_port) = (is_dual, true, names_port);
    options::read_all(fd, &mut socket);
    if guard.sockets.iter().any(|other| excludes(other, &socket)) || is_held_by_kernel(fd, &socket) {
        return Err(Errno::ADDRINUSE);
    }
    if nature.is_stream {
        adopt(&mut guard, fd, socket, None)?;
        explain(format_args!("fd {fd}: bind {local}: ours"));
        return Ok(());
    }
    let ids = open_datagrams(&mut guard, local, &socket)?;
    if let Kind::Datagram(datagram) = &mut socket.kind {
        datagram.sockets.clone_from(&ids);
    }
    let number = adopt(&mut guard, fd, socket, None)?;
    for id in ids {
        guard.sockets.own_datagrams(id, number);
    }
    let also = if is_dual { ", and the kernel's for its own addresses" } else { "" };
    explain(format_args!("fd {fd}: bind UDP {local}: ours{also}"));
    Ok(())
}

/// Whether `bound` keeps `new` from its port, as Linux decides: sharers must all want to share, a listener's port is shared by
/// `SO_REUSEPORT` alone.
fn excludes(bound: &Socket, new: &Socket) -> bool {
    let is_stream = |socket: &Socket| !matches!(socket.kind, Kind::Datagram(_));
    let (one, other) = (bound.local, new.local);
    let any = |socket: &Socket| socket.local.ip().is_unspecified();
    // An unspecified IPv6 address is IPv4's too, unless it says otherwise.
    let families = |wide: &Socket, narrow: &Socket| {
        wide.local.is_ipv4() == narrow.local.is_ipv4() || wide.local.is_ipv6() && !wide.options.v6_only
    };
    let meets = one.ip() == other.ip() || any(bound) && families(bound, new) || any(new) && families(new, bound);
    let both = |wish: fn(&Socket) -> bool| wish(bound) && wish(new);
    let may_share = both(|socket| socket.options.reuse_port)
        || both(|socket| socket.options.reuse_address) && !matches!(bound.kind, Kind::Listener(_));
    is_stream(bound) == is_stream(new) && one.port() == other.port() && one.port() != 0 && meets && !may_share
}

/// Whether a stream that is the kernel's so far keeps `new`, of descriptor `fd`, from its port.
fn is_held_by_kernel(fd: c_int, new: &Socket) -> bool {
    if !matches!(new.kind, Kind::Bound) {
        return false;
    }
    bound_to_all::any_other(fd, |other| {
        if socket_of(other).is_some() {
            return false;
        }
        let Some(local) = kernel_name(other).filter(|local| local.ip().is_unspecified()) else { return false };
        let family = kernel_option(other, libc::SOL_SOCKET, libc::SO_DOMAIN).unwrap_or(libc::AF_INET);
        let mut held = Socket::new(family, local, Kind::Bound);
        options::read_all(other, &mut held);
        excludes(&held, new)
    })
}

/// Whether one of ours keeps a socket that is about to be bound to all addresses in the kernel from its port.
fn is_held_by_ours(fd: c_int, local: SocketAddr, nature: &Nature) -> bool {
    let Ok(guard) = lock() else { return false };
    let kind = if nature.is_stream { Kind::Bound } else { Kind::Datagram(Datagram::default()) };
    let mut new = Socket::new(nature.family, local, kind);
    options::read_all(fd, &mut new);
    guard.sockets.iter().any(|other| excludes(other, &new))
}
