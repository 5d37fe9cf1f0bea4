//! `listen`, `accept`, `connect`, and the names of sockets: decides whether a socket is ours or the kernel's.

use super::give_int;
use super::option_notes::{self, Note};
use crate::calls::adopt::adopt;
use crate::calls::bind::bind_ours;
use crate::calls::nature::{Nature, nature};
use crate::calls::ports::free_port;
use crate::lifecycle::attach::{attach, attach_to_send, lacks_named_address};
use crate::lifecycle::detached::channel::Operation;
use crate::lifecycle::detached::socket_of;
use crate::sockets::socket::{Kind, Listener, Socket, Stream, errno_of_command};
use crate::sys::address;
use crate::sys::descriptor::{self};
use crate::sys::explain::explain;
use crate::sys::kernel_socket::{is_nonblocking, kernel_name, set_nonblocking};
use crate::sys::libc_next;
use crate::sys::wishes::is_on_link;
use crate::world::fallback_log::{note, tell_once};
use crate::world::fallbacks::{Call, Why};
use crate::world::lock::{Guard, lock};
use crate::world::wait::block;
use libc::{c_int, sockaddr, socklen_t};
use qanat::{ConnectOptions, ConnectionId, ListenOptions};
use qanat_stack::FastOpenRequest;
use rustix::io::Errno;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Connections that wait to be accepted, whatever a program asks for; as Linux' `somaxconn`.
const BACKLOG_MAX: usize = 4_096;

#[unsafe(no_mangle)]
pub(super) extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if descriptor::is_remote(fd)
        || crate::sys::this_process::departure::is_detached() && nature(fd).is_some_and(|nature| nature.is_stream)
    {
        return crate::calls::remote::client::listen(fd, backlog);
    }
    give_int(listen_on(fd, backlog))
}

fn listen_on(fd: c_int, backlog: c_int) -> Result<i32, Errno> {
    let backlog = (backlog.max(0) as usize).clamp(1, BACKLOG_MAX);
    if let Some(number) = socket_of(fd) {
        let mut guard = lock()?;
        let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
        return match &mut socket.kind {
            Kind::Bound => listen_ours(&mut guard, number, backlog).map(|()| 0),
            Kind::Listener(listener) if listener.listeners.is_empty() => {
                // It was shut.
                let (listener, is_dual) = (std::mem::replace(&mut socket.kind, Kind::Bound), socket.is_dual);
                if let Err(error) = listen_ours(&mut guard, number, backlog) {
                    if let Some(socket) = guard.sockets.get_mut(number) {
                        socket.kind = listener;
                    }
                    return Err(error);
                }
                if is_dual {
                    // SAFETY: the call takes no pointers.
                    unsafe { libc_next::listen(fd, backlog as c_int) };
                }
                Ok(0)
            }
            Kind::Listener(listener) => {
                listener.backlog = backlog;
                let world = &mut *guard;
                world.sockets.hold_if_full(number, &mut world.stack);
                Ok(0)
            }
            Kind::Stream(_) => Err(Errno::INVAL),
            Kind::Datagram(_) => Err(Errno::OPNOTSUPP),
        };
    }
    // SAFETY: the call takes no pointers.
    if unsafe { libc_next::listen(fd, backlog as c_int) } != 0 {
        return Err(libc_next::errno());
    }
    let may_be_ours = |nature: &Nature| nature.is_stream && crate::sys::wishes::wishes().is_some();
    let Some(nature) = nature(fd).filter(may_be_ours) else { return Ok(0) };
    let Some(local) = kernel_name(fd).filter(|local| local.ip().is_unspecified()) else {
        if let Some(local) = kernel_name(fd) {
            note(fd, Call::Listen, local, if local.ip().is_loopback() { Why::Loopback } else { Why::Bound });
        }
        return Ok(0);
    };
    if !attach(None) {
        note(fd, Call::Listen, local, Why::NoCard);
        return if lacks_named_address() { Err(Errno::ADDRNOTAVAIL) } else { Ok(0) };
    }
    let mut guard = lock()?;
    let mut socket = Socket::new(nature.family, local, Kind::Bound);
    socket.is_dual = true;
    let was_nonblocking = is_nonblocking(fd);
    let number = adopt(&mut guard, fd, socket, None)?;
    // A thread that waits to accept waits here, for both.
    set_nonblocking(fd, true);
    if let Some(socket) = guard.sockets.get_mut(number) {
        socket.is_nonblocking = was_nonblocking;
    }
    if let Err(error) = listen_ours(&mut guard, number, backlog) {
        guard.forget(fd, number);
        drop(guard);
        set_nonblocking(fd, was_nonblocking);
        note(fd, Call::Listen, local, if error == Errno::ADDRNOTAVAIL { Why::NoAddress } else { Why::Refused });
    }
    Ok(0)
}

fn listen_ours(guard: &mut Guard, number: u32, backlog: usize) -> Result<(), Errno> {
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let (local, v6_only, is_dual) = (socket.local, socket.options.v6_only, socket.is_dual);
    // `[::]` is both families', which the stack knows too; IPv6 alone is every own address of that family.
    let mut locals = vec![local];
    if local.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && v6_only {
        let own = guard.addresses.iter().filter(|(address, _)| address.is_ipv6());
        locals = own.map(|(address, _)| SocketAddr::new(*address, local.port())).collect();
    }
    let (reuse_port, maximum_segment) = (socket.options.reuse_port, socket.options.maximum_segment);
    let receive_window = socket.options.receive_window();
    let sharer = guard.sockets.iter().find_map(|other| match &other.kind {
        Kind::Listener(listener) if other.local == local && other.options.reuse_port && reuse_port => {
            Some(listener.listeners.clone())
        }
        _ => None,
    });
    let mut listeners = sharer.clone().unwrap_or_default();
    for local in locals.into_iter().filter(|_| sharer.is_none()) {
        match guard.stack.listen(local, ListenOptions { backlog: 0 }) {
            Ok(id) => {
                let _ = guard.stack.set_maximum_segment(id, maximum_segment);
                let _ = guard.stack.set_receive_window(id, receive_window);
                listeners.push(id);
            }
            Err(error) => {
                for id in listeners {
                    let _ = guard.stack.close_listener(id);
                }
                return Err(errno_of_command(error));
            }
        }
    }
    if listeners.is_empty() {
        return Err(Errno::ADDRNOTAVAIL);
    }
    let world = &mut **guard;
    for id in &listeners {
        world.sockets.own_listener(*id, number, &mut world.stack);
    }
    if let Some(socket) = guard.sockets.get_mut(number) {
        socket.kind = Kind::Listener(Listener { listeners, pending: std::collections::VecDeque::new(), backlog });
    }
    super::fast_open_settings::set_listener(&mut *guard, number);
    let also = if is_dual { ", and the kernel's for its own addresses" } else { "" };
    explain(format_args!("listen {local}: ours{also}"));
    Ok(())
}

/// # Safety
/// As `accept`.
#[unsafe(no_mangle)]
unsafe extern "C" fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by accept(2).
    unsafe { accept4(fd, address, length, 0) }
}

/// # Safety
/// As `accept4`.
#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
    if descriptor::is_remote(fd) {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by accept4(2).
        return unsafe { crate::calls::remote::client::accept4(fd, address, length, flags) };
    }
    let Some(number) = socket_of(fd) else {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by accept4(2).
        return unsafe { libc_next::accept4(fd, address, length, flags) };
    };
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return give_int(Err(Errno::INVAL));
    }
    give_int(accept_ours(fd, number, flags, |kernel| {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by accept4(2).
        unsafe {
            match kernel {
                None => {
                    let new = libc_next::accept4(fd, address, length, flags);
                    if new < 0 { Err(libc_next::errno()) } else { Ok(new) }
                }
                Some((peer, family)) => {
                    address::write(peer, family, address, length);
                    Ok(0)
                }
            }
        }
    }))
}

/// Accepts one. `tell`: writes the peer's address, or (of `None`) asks the kernel for one of its own.
fn accept_ours(
    fd: c_int,
    number: u32,
    flags: c_int,
    mut tell: impl FnMut(Option<(SocketAddr, c_int)>) -> Result<c_int, Errno>,
) -> Result<c_int, Errno> {
    enum Accepted {
        Ours(u32, SocketAddr, c_int),
        Kernels(c_int),
    }
    let mut attempt = |guard: &mut Guard| -> Option<Result<Accepted, Errno>> {
        let Some(socket) = guard.sockets.get_mut(number) else { return Some(Err(Errno::BADF)) };
        let (family, is_dual) = (socket.family, socket.is_dual);
        let Kind::Listener(listener) = &mut socket.kind else {
            let is_datagram = matches!(socket.kind, Kind::Datagram(_));
            return Some(Err(if is_datagram { Errno::OPNOTSUPP } else { Errno::INVAL }));
        };
        if listener.listeners.is_empty() {
            // Shut down.
            return Some(Err(Errno::INVAL));
        }
        if let Some(child) = listener.pending.pop_front() {
            if listener.pending.len() == listener.backlog {
                // It was full.
                let world = &mut **guard;
                world.sockets.hold_if_full(number, &mut world.stack);
            }
            let peer = guard.sockets.get(child).and_then(|socket| socket.peer)?;
            return Some(Ok(Accepted::Ours(child, peer, family)));
        }
        match is_dual.then(|| tell(None)) {
            Some(Ok(new)) => Some(Ok(Accepted::Kernels(new))),
            _ => None,
        }
    };
    let mut guard = lock()?;
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let (is_nonblocking, timeout, is_dual) = (socket.is_nonblocking, socket.receive_timeout, socket.is_dual);
    let first = attempt(&mut guard).or_else(|| {
        guard.drive_now();
        attempt(&mut guard)
    });
    drop(guard);
    let accepted = match first {
        Some(accepted) => accepted?,
        None if is_nonblocking => return Err(Errno::AGAIN),
        None => block(number, timeout, is_dual.then_some(fd), attempt)?,
    };
    let (child, peer, family) = match accepted {
        Accepted::Kernels(new) => return Ok(new),
        Accepted::Ours(child, peer, family) => (child, peer, family),
    };
    let mut guard = lock()?;
    let new = match super::stand_in::describe(&guard, child, flags & libc::SOCK_CLOEXEC != 0) {
        Ok(new) => new,
        Err(error) => {
            if let Some(Socket { kind: Kind::Listener(listener), .. }) = guard.sockets.get_mut(number) {
                listener.pending.push_front(child);
            }
            return Err(error);
        }
    };
    if let Some(socket) = guard.sockets.get_mut(child) {
        socket.references = 1;
        socket.is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    }
    drop(guard);
    tell(Some((peer, family)))?;
    Ok(new)
}

/// A connection that waits at a listener of ours has a descriptor from now on: it, the peer and the family.
///
/// # Errors
/// `EAGAIN`: none waits; else as `accept`.
pub(super) fn accept_at_once(number: u32) -> Result<(c_int, SocketAddr, c_int), Errno> {
    let mut guard = lock()?;
    guard.drive_now();
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    let family = socket.family;
    let Kind::Listener(listener) = &mut socket.kind else { return Err(Errno::INVAL) };
    if listener.listeners.is_empty() {
        return Err(Errno::INVAL);
    }
    let child = listener.pending.pop_front().ok_or(Errno::AGAIN)?;
    if listener.pending.len() == listener.backlog {
        let world = &mut *guard;
        world.sockets.hold_if_full(number, &mut world.stack);
    }
    let peer = guard.sockets.get(child).and_then(|socket| socket.peer).ok_or(Errno::CONNABORTED)?;
    let new = super::stand_in::describe(&guard, child, true)?;
    if let Some(socket) = guard.sockets.get_mut(child) {
        socket.references = 1;
    }
    Ok((new, peer, family))
}

/// # Safety
/// As `connect`.
#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: `address` has `length` readable bytes: the program's duty by connect(2).
    let peer = unsafe { address::read(address, length) };
    let real_connect = || {
        option_notes::forget(fd);
        // SAFETY: `address` has `length` readable bytes: the program's duty by connect(2).
        unsafe { libc_next::connect(fd, address, length) }
    };
    if let Some(number) = socket_of(fd) {
        return give_int(connect_again(number, peer));
    }
    // SAFETY: `address` has `length` readable bytes: the program's duty by connect(2).
    match unsafe { reached(fd, address, length) } {
        Some((peer, nature, note, port)) => give_int(connect_ours(fd, peer, (&nature, note), port)),
        None => real_connect(),
    }
}

/// What is to be known of a socket of the kernel's to connect it by the card; `None`: the kernel does it.
///
/// # Safety
/// As `connect`.
pub(super) unsafe fn reached(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> Option<(SocketAddr, Nature, Option<Note>, Option<u16>)> {
    // SAFETY: `address` has `length` readable bytes: the program's duty by connect(2).
    let peer = unsafe { address::read(address, length) }.filter(|peer| peer.port() != 0)?;
    if !is_on_link(peer.ip()) {
        note(fd, Call::Connect, peer, if peer.ip().is_loopback() { Why::Loopback } else { Why::Elsewhere });
        return None;
    }
    let known = option_notes::note(fd);
    let by_note = known.map(|known| Nature { family: known.family(), is_stream: true });
    let nature = by_note.or_else(|| nature(fd))?;
    // SAFETY: the length was found to be enough for an address.
    let given_family = c_int::from(unsafe { address.read_unaligned() }.sa_family);
    if !nature.reaches(fd, peer, given_family) {
        return None;
    }
    if !attach_to_send() {
        note(fd, Call::Connect, peer, Why::NoCard);
        return None;
    }
    // What the program offers itself at our address, it reaches through the kernel.
    if lock().is_ok_and(|guard| guard.is_own(peer.ip())) {
        note(fd, Call::Connect, peer, Why::Own);
        return None;
    }
    let bound = if known.is_some() { None } else { kernel_name(fd).filter(|local| local.port() != 0) };
    if let Some(bound) = bound.filter(|bound| !bound.ip().is_unspecified()) {
        note(fd, Call::Connect, bound, Why::Bound);
        return None;
    }
    Some((peer, nature, known, bound.map(|bound| bound.port())))
}

fn connect_ours(
    fd: c_int,
    peer: SocketAddr,
    (nature, note): (&Nature, Option<Note>),
    port: Option<u16>,
) -> Result<i32, Errno> {
    let unspecified = address::unspecified_like(peer);
    if !nature.is_stream {
        let mut guard = lock()?;
        let local = SocketAddr::new(unspecified, port.unwrap_or_else(|| free_port(&guard)));
        drop(guard);
        bind_ours(fd, local, nature, port.is_some())?;
        guard = lock()?;
        if let Some(socket) = socket_of(fd).and_then(|number| guard.sockets.get_mut(number)) {
            socket.peer = Some(peer);
            (socket.options.has_bound, socket.options.names_port) = (port.is_some(), port.is_some());
        }
        return Ok(0);
    }
    let mut guard = lock()?;
    let number = adopt_to_connect(&mut guard, fd, peer, (nature, note), port)?;
    begin(guard, number, peer)
}

/// Makes a stream of the kernel's ours, to be connected to `peer`.
pub(super) fn adopt_to_connect(
    guard: &mut Guard,
    fd: c_int,
    peer: SocketAddr,
    (nature, note): (&Nature, Option<Note>),
    port: Option<u16>,
) -> Result<u32, Errno> {
    let unspecified = address::unspecified_like(peer);
    let local = SocketAddr::new(unspecified, port.unwrap_or(0));
    let number = adopt(guard, fd, Socket::new(nature.family, local, Kind::Bound), note)?;
    if let Some(socket) = guard.sockets.get_mut(number) {
        socket.options.has_bound = port.is_some();
    }
    explain(format_args!("fd {fd}: connect {peer}: ours"));
    Ok(number)
}

/// Starts a connection of a socket that is ours, and waits for it if that is wanted.
fn begin(mut guard: Guard, number: u32, peer: SocketAddr) -> Result<i32, Errno> {
    if super::fast_open_settings::defers(&mut guard, number, peer) {
        return Ok(0);
    }
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let request = if socket.options.fast_open.connects { FastOpenRequest::WithCookie } else { FastOpenRequest::No };
    start(&mut guard, number, peer, request)?;
    guard.drive_now();
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let (is_nonblocking, timeout) = (socket.is_nonblocking, socket.send_timeout);
    drop(guard);
    if is_nonblocking {
        return Err(Errno::INPROGRESS);
    }
    wait_for_connection(number, timeout)
}

/// Has the stack open a connection; nothing leaves yet.
pub(super) fn start(
    guard: &mut Guard,
    number: u32,
    peer: SocketAddr,
    fast_open: FastOpenRequest,
) -> Result<ConnectionId, Errno> {
    let now = guard.clock_now();
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    let (maximum_segment, receive_window) = (socket.options.maximum_segment, socket.options.receive_window());
    let has_name = socket.options.has_bound || socket.deferred.is_some();
    let local = Some(socket.local).filter(|local| local.port() != 0 && has_name);
    let options = ConnectOptions { local, maximum_segment, receive_window, fast_open };
    let connection = guard.stack.connect(now, peer, options).map_err(errno_of_command)?;
    let local = guard.stack.connection_info(connection).map(|(local, _, _)| local);
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    let (send_room, unsent_mark) = (socket.options.send_room, socket.options.unsent_mark);
    socket.kind = Kind::Stream(Stream { send_room, unsent_mark, ..Stream::new(connection, true) });
    (socket.peer, socket.has_failed, socket.deferred) = (Some(peer), false, None);
    socket.local = local.unwrap_or(socket.local);
    let ends = (socket.local, peer);
    let world = &mut **guard;
    world.sockets.own_connection(connection, number, ends);
    crate::sockets::settings::apply(world.sockets.get(number), &mut world.stack, now);
    Ok(connection)
}

pub(super) fn wait_for_connection(number: u32, timeout: Option<std::time::Duration>) -> Result<i32, Errno> {
    let outcome = block(number, timeout, None, |guard| {
        let Some(socket) = guard.sockets.get_mut(number) else { return Some(Err(Errno::BADF)) };
        match &mut socket.kind {
            Kind::Stream(stream) if stream.is_connecting => None,
            Kind::Stream(stream) => {
                stream.is_reported = true;
                Some(Ok(0))
            }
            _ => Some(Err(socket.tell_failure())),
        }
    });
    // A time-out leaves the attempt under way.
    if outcome == Err(Errno::AGAIN) { Err(Errno::INPROGRESS) } else { outcome }
}

/// `connect` on what is ours already.
fn connect_again(number: u32, peer: Option<SocketAddr>) -> Result<i32, Errno> {
    let mut guard = lock()?;
    let now = guard.drive_now();
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    match &mut socket.kind {
        Kind::Datagram(_) => {
            // Nobody, or somebody else: `AF_UNSPEC` has no address.
            let is_lost = peer.is_some_and(|peer| !is_on_link(peer.ip()));
            if is_lost {
                return Err(Errno::NETUNREACH);
            }
            if peer.is_some_and(|peer| !socket.may_send_to(peer)) {
                return Err(Errno::ACCESS);
            }
            socket.peer = peer;
            if peer.is_none() && !socket.options.names_port && !socket.is_dual {
                crate::calls::ports::unbind(&mut guard, number);
            } else {
                crate::calls::ports::rebind(&mut guard, number)?;
            }
            Ok(0)
        }
        Kind::Listener(_) => Err(Errno::ISCONN),
        Kind::Bound => {
            if socket.has_failed {
                return Err(socket.tell_failure());
            }
            let deferred = socket.deferred;
            // Nobody, and there is none.
            let Some(peer) = peer else {
                socket.deferred = None;
                return Ok(0);
            };
            if deferred.is_some() {
                return Err(Errno::ISCONN);
            }
            if !is_on_link(peer.ip()) {
                return Err(Errno::NETUNREACH);
            }
            begin(guard, number, peer)
        }
        // `AF_UNSPEC`: it is nobody's again.
        Kind::Stream(stream) if peer.is_none() => {
            let connection = stream.connection;
            (socket.kind, socket.peer, socket.error) = (Kind::Bound, None, None);
            if let Some(connection) = connection {
                guard.sockets.disown_connection(connection);
                let _ = guard.stack.abort(now, connection);
                guard.sent(now);
            }
            Ok(0)
        }
        Kind::Stream(stream) => match (stream.connection, stream.is_connecting) {
            (Some(_), true) if socket.is_nonblocking => Err(Errno::ALREADY),
            (Some(_), true) => {
                let timeout = socket.send_timeout;
                drop(guard);
                let outcome = wait_for_connection(number, timeout);
                if outcome == Err(Errno::INPROGRESS) { Err(Errno::ALREADY) } else { outcome }
            }
            (Some(_), false) if !std::mem::replace(&mut stream.is_reported, true) => Ok(0),
            (Some(_), false) => Err(Errno::ISCONN),
            (None, _) => Err(socket.take_error().unwrap_or(Errno::CONNABORTED)),
        },
    }
}

/// # Safety
/// As `getsockname`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    if descriptor::is_remote(fd) {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getsockname(2).
        return unsafe { crate::calls::remote::client::name(Operation::GetName, fd, address, length) };
    }
    let Some(number) = socket_of(fd) else {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getsockname(2).
        return unsafe { libc_next::getsockname(fd, address, length) };
    };
    let named = || -> Result<(SocketAddr, c_int), Errno> {
        let guard = lock()?;
        let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
        let mut local = socket.local;
        // A connected socket knows which of its addresses it speaks from.
        if let (true, Some(peer)) = (local.ip().is_unspecified(), socket.peer)
            && let Some((own, _)) = guard.addresses.iter().find(|(own, _)| own.is_ipv4() == peer.is_ipv4())
        {
            local.set_ip(*own);
        }
        Ok((local, socket.family))
    };
    give_int(named().map(|(local, family)| {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getsockname(2).
        unsafe { address::write(local, family, address, length) };
        0
    }))
}

/// # Safety
/// As `getpeername`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
    if descriptor::is_remote(fd) {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getpeername(2).
        return unsafe { crate::calls::remote::client::name(Operation::GetPeer, fd, address, length) };
    }
    let Some(number) = socket_of(fd) else {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getpeername(2).
        return unsafe { libc_next::getpeername(fd, address, length) };
    };
    let named = || -> Result<(SocketAddr, c_int), Errno> {
        let guard = lock()?;
        let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
        let is_connected = match &socket.kind {
            Kind::Stream(stream) => stream.connection.is_some() && !stream.is_connecting,
            Kind::Datagram(_) => true,
            Kind::Bound | Kind::Listener(_) => false,
        };
        Ok((socket.peer.filter(|_| is_connected).ok_or(Errno::NOTCONN)?, socket.family))
    };
    give_int(named().map(|(peer, family)| {
        // SAFETY: `address` has as many writable bytes as `length` says, or both are null: the program's duty by getpeername(2).
        unsafe { address::write(peer, family, address, length) };
        0
    }))
}

/// A datagram socket that was the kernel's alone sends to where the VNIC leads: it is ours from now on too.
pub(super) fn adopt_for_sending(fd: c_int, peer: SocketAddr) -> Option<u32> {
    if !is_on_link(peer.ip()) || peer.port() == 0 {
        if !peer.ip().is_loopback() {
            tell_once(Call::Send, peer, Why::Elsewhere);
        }
        return None;
    }
    let nature = nature(fd).filter(|nature| !nature.is_stream)?;
    let given_family = if peer.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    if !nature.reaches(fd, peer, given_family) || !attach_to_send() || lock().ok()?.is_own(peer.ip()) {
        return None;
    }
    let bound = kernel_name(fd)?;
    if bound.port() == 0 {
        // Bound to nothing yet: the kernel finds a port for both.
        let (any, length) = address::encode(SocketAddr::new(bound.ip(), 0), nature.family);
        // SAFETY: the pointer is to as many readable bytes as the length says.
        if unsafe { libc_next::bind(fd, (&raw const any).cast(), length as socklen_t) } != 0 {
            return None;
        }
    }
    let bound = kernel_name(fd)?;
    if !bound.ip().is_unspecified() {
        return None;
    }
    let nonblocking = is_nonblocking(fd);
    bind_ours(fd, bound, &nature, true).ok()?;
    let number = socket_of(fd)?;
    if let Some(socket) = lock().ok()?.sockets.get_mut(number) {
        socket.is_nonblocking = nonblocking;
    }
    Some(number)
}
