//! `bind`: where it is decided whose an address is.

use super::give_int;
use super::options;
use crate::calls::open::{adopt, errno_of_command};
use crate::lifecycle::attach::{attach, lacks_named_address};
use crate::lifecycle::away::socket_of;
use crate::sockets::socket::{Datagram, Kind, Socket};
use crate::sys::address;
use crate::sys::explain::explain;
use crate::sys::kernel_socket::{kernel_name, kernel_option};
use crate::sys::libc_next;
use crate::sys::wishes::is_on_link;
use crate::world::fallback_log::note;
use crate::world::fallbacks::{Call, Why};
use crate::world::lock::{Guard, lock};
use libc::{c_int, sockaddr, socklen_t};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// What a socket is, and whether it may become ours.
pub(super) struct Nature {
    pub(super) family: c_int,
    pub(super) is_stream: bool,
}

impl Nature {
    /// Whether such a socket could send to `peer`, given as an address of `family`; what it can't, the kernel refuses best.
    pub(super) fn reaches(&self, fd: c_int, peer: SocketAddr, family: c_int) -> bool {
        if self.family == libc::AF_INET {
            return family == libc::AF_INET;
        }
        let is_only_six = || kernel_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
        peer.is_ipv6() || (family == libc::AF_INET6 || !self.is_stream) && !is_only_six()
    }
}

pub(super) fn nature(fd: c_int) -> Option<Nature> {
    let family = kernel_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    let protocol = kernel_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
    if family != libc::AF_INET && family != libc::AF_INET6 {
        return None;
    }
    match protocol {
        libc::IPPROTO_TCP => Some(Nature { family, is_stream: true }),
        libc::IPPROTO_UDP => Some(Nature { family, is_stream: false }),
        _ => None,
    }
}

/// # Safety
/// As `bind`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    if crate::sys::this_process::departure::is_away()
        && nature(fd).is_some()
        && !address.is_null()
        && length <= ADDRESS_MAX
    {
        // SAFETY: as the caller says.
        return unsafe { crate::calls::remote::away::bind(fd, address, length) };
    }
    let real_bind = || {
        super::option_notes::forget(fd);
        // SAFETY: as the caller says.
        let status = unsafe { libc_next::bind(fd, address, length) };
        if status == 0 { Ok(0) } else { Err(libc_next::errno()) }
    };
    // SAFETY: as the caller says.
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
    real_bind: impl FnOnce() -> Result<i32, i32>,
) -> Result<i32, i32> {
    if socket_of(fd).is_some() {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    let wanted = unsafe { address::read(address, length) };
    let Some((wanted, nature)) = wanted.filter(|_| crate::sys::wishes::wishes().is_some()).zip(nature(fd)) else {
        return real_bind();
    };
    // SAFETY: it was long enough for an address.
    let given_family = c_int::from(unsafe { address.read_unaligned() }.sa_family);
    bind_inet(fd, wanted, &nature, given_family, real_bind)
}

fn bind_inet(
    fd: c_int,
    wanted: SocketAddr,
    nature: &Nature,
    given_family: c_int,
    real_bind: impl FnOnce() -> Result<i32, i32>,
) -> Result<i32, i32> {
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
            return Err(libc::EADDRINUSE);
        }
        let bound = real_bind();
        if bound.is_ok() && nature.is_stream {
            BOUND_TO_ALL.lock().unwrap_or_else(PoisonError::into_inner).insert(fd);
        }
        let is_refused = matches!(bound, Err(libc::EADDRINUSE | libc::EACCES));
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
            return if lacks_named_address() { Err(libc::EADDRNOTAVAIL) } else { bound };
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
            // Who asks for it is let bind an address that is nobody's.
            let is_let = kernel_option(fd, libc::IPPROTO_IP, libc::IP_FREEBIND) == Some(1);
            let bound =
                if is_let && is_on_link(ip) && !is_the_kernels(ip) { Err(libc::EADDRNOTAVAIL) } else { real_bind() };
            let is_foreign = bound == Err(libc::EADDRNOTAVAIL);
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
    // SAFETY: so many readable bytes; the descriptor is this function's.
    unsafe {
        let probe = libc_next::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let status = libc_next::bind(probe, (&raw const any).cast(), length as socklen_t);
        libc_next::close(probe);
        status == 0
    }
}

/// Binds one to the VNIC's address.
pub(super) fn bind_ours(fd: c_int, local: SocketAddr, nature: &Nature, is_dual: bool) -> Result<(), i32> {
    let mut guard = lock()?;
    let names_port = local.port() != 0;
    let local = if names_port { local } else { SocketAddr::new(local.ip(), free_port(&guard)) };
    let kind = if nature.is_stream { Kind::Bound } else { Kind::Datagram(Datagram::default()) };
    let mut socket = Socket::new(nature.family, local, kind);
    (socket.is_dual, socket.options.has_bound, socket.options.names_port) = (is_dual, true, names_port);
    options::read_all(fd, &mut socket);
    if guard.sockets.iter().any(|other| excludes(other, &socket)) || is_held_by_kernel(fd, &socket) {
        return Err(libc::EADDRINUSE);
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

/// The stack's sockets for `local`: two where an unspecified IPv6 address stands for both families.
fn open_datagrams(guard: &mut Guard, local: SocketAddr, socket: &Socket) -> Result<Vec<qanat::UdpSocketId>, i32> {
    let v6_only = socket.options.v6_only;
    // Who may share shares the stack's socket.
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

/// Streams that the kernel has bound to all addresses: they may yet become ours, and keep others from their ports.
static BOUND_TO_ALL: Mutex<BTreeSet<c_int>> = Mutex::new(BTreeSet::new());

/// Whether a stream that is the kernel's so far keeps `new`, of descriptor `fd`, from its port.
fn is_held_by_kernel(fd: c_int, new: &Socket) -> bool {
    if !matches!(new.kind, Kind::Bound) {
        return false;
    }
    let bound = BOUND_TO_ALL.lock().unwrap_or_else(PoisonError::into_inner);
    bound.iter().filter(|other| **other != fd && socket_of(**other).is_none()).any(|other| {
        let Some(local) = kernel_name(*other).filter(|local| local.ip().is_unspecified()) else { return false };
        let family = kernel_option(*other, libc::SOL_SOCKET, libc::SO_DOMAIN).unwrap_or(libc::AF_INET);
        let mut held = Socket::new(family, local, Kind::Bound);
        options::read_all(*other, &mut held);
        excludes(&held, new)
    })
}

/// A descriptor of the kernel's is closed.
pub(super) fn closed(fd: c_int) {
    if let Ok(mut bound) = BOUND_TO_ALL.try_lock() {
        bound.remove(&fd);
    }
}

/// Whether one of ours keeps a socket that is about to be bound to all addresses in the kernel from its port.
fn is_held_by_ours(fd: c_int, local: SocketAddr, nature: &Nature) -> bool {
    let Ok(guard) = lock() else { return false };
    let kind = if nature.is_stream { Kind::Bound } else { Kind::Datagram(Datagram::default()) };
    let mut new = Socket::new(nature.family, local, kind);
    options::read_all(fd, &mut new);
    guard.sockets.iter().any(|other| excludes(other, &new))
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
pub(super) fn rebind(guard: &mut Guard, number: u32) -> Result<(), i32> {
    let Some(Socket { kind: Kind::Datagram(datagram), .. }) = guard.sockets.get(number) else { return Ok(()) };
    if !datagram.sockets.is_empty() {
        return Ok(());
    }
    let port = free_port(guard);
    let socket = guard.sockets.get_mut(number).ok_or(libc::EBADF)?;
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
