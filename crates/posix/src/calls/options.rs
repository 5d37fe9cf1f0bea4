//! Options of sockets. The kernel's socket of the same descriptor checks and keeps them, so that what Linux refuses is refused
//! here too; the stack is told of those that mean something to it.

use super::give_int;
use super::option_notes::{self, Note};
use crate::lifecycle::detached::socket_of;
use crate::sockets::epoll::Change;
use crate::sockets::settings::keepalive;
use crate::sockets::socket::{Kind, Options, Socket};
use crate::sys::descriptor;
use crate::sys::explain::explain;
use crate::sys::kernel_socket::{kernel_option, kernel_structure};
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::world::lock::{Guard, lock};
use libc::{c_int, c_void, socklen_t};
use qanat::{CongestionAlgorithm, Setting};
use qanat_launch::support::{OPTIONS, Row, Support, TCP_NOTSENT_LOWAT, UDP_CORK, UDP_SEGMENT};
use rustix::io::Errno;
use std::ffi::CStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

fn time_limit(fd: c_int, name: c_int) -> Option<Duration> {
    let time: libc::timeval = kernel_structure(fd, libc::SOL_SOCKET, name)?;
    let time = Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec.max(0) as u64);
    Some(time).filter(|time| !time.is_zero())
}

/// Reads what was set on the kernel's socket: with a note only that, since all else is as on any new one.
pub(super) fn read_set(fd: c_int, socket: &mut Socket, note: Option<Note>) {
    let Some((note, new)) = note.and_then(|note| Some((note, of_new(socket.family)?))) else {
        return read_all(fd, socket);
    };
    socket.is_nonblocking = note.is_nonblocking();
    socket.options = new;
    for (level, name) in note.set() {
        read(fd, socket, level, name);
    }
}

/// The options of a new socket of TCP, as this machine has them; no time is limited there, and nothing lingers.
fn of_new(family: c_int) -> Option<Options> {
    static OF_NEW: [OnceLock<Option<Options>>; 2] = [const { OnceLock::new() }; 2];
    let make = || {
        // SAFETY: the call takes no pointers.
        let new = unsafe { libc_next::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        if new < 0 {
            return None;
        }
        let mut socket = Socket::new(family, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), Kind::Bound);
        read_all(new, &mut socket);
        // SAFETY: the descriptor was made just now, and nobody else owns it.
        unsafe { libc_next::close(new) };
        Some(socket.options)
    };
    *OF_NEW[usize::from(family == libc::AF_INET6)].get_or_init(make)
}

/// Reads everything that was set on the kernel's socket.
pub(super) fn read_all(fd: c_int, socket: &mut Socket) {
    socket.is_nonblocking = crate::sys::kernel_socket::is_nonblocking(fd);
    socket.owner = super::owner::owner(fd);
    let is_stream = !matches!(socket.kind, Kind::Datagram(_));
    for (_, (level, name)) in option_notes::followed() {
        let is_of_it = match (level, name) {
            // A socket has one that nobody has set. It is the kernel's, and says nothing of ours.
            (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => false,
            (libc::IPPROTO_TCP, _) => is_stream,
            (libc::IPPROTO_UDP, _) => !is_stream,
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => socket.family == libc::AF_INET6,
            (libc::IPPROTO_IP, _) => !is_stream && socket.family == libc::AF_INET,
            (libc::IPPROTO_IPV6, _) => !is_stream && socket.family == libc::AF_INET6,
            _ => true,
        };
        if is_of_it {
            read(fd, socket, level, name);
        }
    }
}

/// Which buffers' sizes the program has set (Linux 5.17).
const SO_BUF_LOCK: c_int = 72;

/// Linux' `TCP_CA_NAME_MAX`.
const CONGESTION_NAME_BYTES: usize = 16;

/// What the kernel says of a socket that is connected to nothing if nobody has set it.
const MSS_UNSET: c_int = 536;

/// What so many milliseconds mean; none are no time-out.
fn user_timeout(milliseconds: u32) -> Option<Duration> {
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds.into()))
}

/// How congestion is controlled on the kernel's socket, if it is so here, too.
fn congestion(fd: c_int) -> Option<CongestionAlgorithm> {
    let name: [u8; CONGESTION_NAME_BYTES] = kernel_structure(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION)?;
    CongestionAlgorithm::of_name(CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?)
}

/// Reads one of them from the kernel's socket; whether it is one.
fn read(fd: c_int, socket: &mut Socket, level: c_int, name: c_int) -> bool {
    let number = || kernel_option(fd, level, name);
    let flag = || number().unwrap_or(0) != 0;
    let count = || number().and_then(|count| u32::try_from(count).ok());
    let options: &mut Options = &mut socket.options;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => socket.receive_timeout = time_limit(fd, name),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => socket.send_timeout = time_limit(fd, name),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let linger: Option<libc::linger> = kernel_structure(fd, level, name);
            let linger = linger.filter(|linger| linger.l_onoff != 0);
            socket.linger = linger.map(|linger| Duration::from_secs(linger.l_linger.max(0) as u64));
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keepalive = flag(),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = flag(),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => options.cork = flag(),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => options.keep_idle_s = count(),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => options.keep_interval_s = count(),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => options.keep_count = count(),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => options.user_timeout = count().and_then(user_timeout),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => options.congestion = congestion(fd),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => {
            options.v6_only = socket.family == libc::AF_INET6 && flag();
        }
        // A socket of both families has both levels' options; those of its own tell.
        (libc::IPPROTO_IP, _) if socket.family == libc::AF_INET6 => return true,
        (libc::IPPROTO_IPV6, _) if socket.family == libc::AF_INET => return true,
        (libc::IPPROTO_IP, libc::IP_PKTINFO) | (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) => {
            options.control_messages.packet_info = flag();
        }
        (libc::IPPROTO_IP, libc::IP_RECVTTL) | (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT) => {
            options.control_messages.hop_limit = flag();
        }
        (libc::IPPROTO_IP, libc::IP_RECVTOS) | (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS) => {
            options.control_messages.traffic_class = flag();
        }
        (libc::IPPROTO_IP, libc::IP_RECVORIGDSTADDR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR) => {
            options.control_messages.destination = flag();
        }
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            options.receive_errors = flag();
        }
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)
        | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER | libc::IPV6_DONTFRAG) => {
            let is_six = level == libc::IPPROTO_IPV6;
            let discovers = if is_six { libc::IPV6_MTU_DISCOVER } else { libc::IP_MTU_DISCOVER };
            let discovers = kernel_option(fd, level, discovers);
            let is_refused = is_six && kernel_option(fd, level, libc::IPV6_DONTFRAG) == Some(1);
            options.dont_fragment =
                is_refused || matches!(discovers, Some(libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE));
        }
        (libc::SOL_SOCKET, libc::SO_TIMESTAMP) => options.control_messages.timestamp = flag(),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => options.control_messages.timestamp_ns = flag(),
        (libc::IPPROTO_UDP, UDP_SEGMENT) => options.segment = count().map(|length| length as usize).filter(|l| *l > 0),
        (libc::IPPROTO_UDP, UDP_CORK) => options.joins = flag(),
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse_address = flag(),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => options.reuse_port = flag(),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.urgent_inline = flag(),
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => options.broadcast = flag(),
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => options.low_water = count().unwrap_or(1) as usize,
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
            // The kernel says twice what the program did.
            let set = kernel_option(fd, libc::SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
            let size = count().map(|size| size as usize);
            if name == libc::SO_SNDBUF {
                options.send_room = size.map(|size| size / 2).filter(|_| set & 1 != 0);
                if let Kind::Stream(stream) = &mut socket.kind {
                    stream.send_room = socket.options.send_room;
                }
            } else {
                options.receive_room = size.filter(|_| set & 2 != 0);
            }
        }
        (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) => options.defer_accept = flag(),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {
            options.maximum_segment =
                number().filter(|most| *most != MSS_UNSET).and_then(|most| u16::try_from(most).ok());
        }
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => {
            let set = count().filter(|count| Some(*count) != crate::world::sysctl::syn_retries());
            options.syn_retransmissions = set.and_then(|count| u8::try_from(count).ok());
        }
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => options.fast_open.queue = count().unwrap_or(0),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT) => options.fast_open.connects = flag(),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_NO_COOKIE) => options.fast_open.without_cookie = flag(),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_KEY) => options.fast_open.keys = super::fast_open_settings::keys(fd),
        (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => {
            // What is none here is more than there can ever be.
            options.unsent_mark = count().unwrap_or(0);
            if let Kind::Stream(stream) = &mut socket.kind {
                stream.unsent_mark = socket.options.unsent_mark;
            }
        }
        (libc::IPPROTO_TCP, libc::TCP_INQ) => options.control_messages.in_queue = flag(),
        _ => return false,
    }
    true
}

/// # Safety
/// As `setsockopt`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    if descriptor::is_remote(fd) {
        // SAFETY: `value` has `length` readable bytes: the program's duty by setsockopt(2).
        return unsafe { crate::calls::remote::client::setsockopt(fd, level, name, value, length) };
    }
    if level == libc::IPPROTO_TCP
        && matches!(name, libc::TCP_FASTOPEN | libc::TCP_FASTOPEN_CONNECT | libc::TCP_FASTOPEN_NO_COOKIE)
        && let Some(number) = socket_of(fd)
        && lock().is_ok_and(|guard| guard.sockets.get(number).is_some_and(Socket::is_connection))
    {
        // The kernel's socket does not know that it is too late.
        return give_int(Err(Errno::INVAL));
    }
    if let Some(number) = socket_of(fd).filter(|_| descriptor::is_stand_in(fd)) {
        // SAFETY: `value` has `length` readable bytes: the program's duty by setsockopt(2).
        if let Some(status) = unsafe { set_flag(number, (level, name), value.cast(), length) } {
            return give_int(status);
        }
        if let Err(error) = super::stand_in::replace(fd) {
            return give_int(Err(error));
        }
    }
    let row = OPTIONS.iter().find(|row| (row.level, row.option) == (level, name));
    let is_ours = socket_of(fd).is_some();
    if let Some(Row { support: Support::Refused(error), names: (level, option), .. }) = row.filter(|_| is_ours) {
        explain(format_args!("fd {fd}: {level} {option}: refused"));
        return give_int(Err(libc_next::error_of((*error).into())));
    }
    // SAFETY: `value` has `length` readable bytes: the program's duty by setsockopt(2).
    let status = unsafe { libc_next::setsockopt(fd, level, name, value, length) };
    if status == 0 && is_ours {
        match row {
            Some(Row { support: Support::NoEffect, names: (level, option), .. }) => {
                explain(format_args!("fd {fd}: {level} {option}: kept, without effect"));
            }
            None => explain(format_args!("fd {fd}: option {name} of level {level}: the kernel's, without effect here")),
            _ => {}
        }
    }
    if status != 0 {
        return status;
    }
    let Some(number) = socket_of(fd) else {
        option_notes::has_set(fd, level, name);
        return status;
    };
    give_int(set(fd, number, level, name))
}

/// The flags that servers set on each connection.
fn flag(options: &mut Options, option: (c_int, c_int)) -> Option<&mut bool> {
    match option {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(&mut options.no_delay),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(&mut options.cork),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Some(&mut options.keepalive),
        _ => None,
    }
}

/// Sets one of them as Linux does, without a kernel's socket. `None`: it is none of them.
///
/// # Safety
/// `value` is null or has `length` readable bytes.
unsafe fn set_flag(
    number: u32,
    option: (c_int, c_int),
    value: *const c_int,
    length: socklen_t,
) -> Option<Result<i32, Errno>> {
    flag(&mut Options::default(), option)?;
    if (length as usize) < size_of::<c_int>() || length > c_int::MAX as socklen_t {
        return Some(Err(Errno::INVAL));
    }
    if is_nowhere(value) {
        return Some(Err(Errno::FAULT));
    }
    // SAFETY: `value` is null or has `length` readable bytes: this function's condition. The length has been checked above.
    let value = unsafe { value.read_unaligned() } != 0;
    let set = || {
        let mut guard = lock()?;
        let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
        if let Some(flag) = flag(&mut socket.options, option) {
            *flag = value;
        }
        tell_stack(&mut guard, number, option)
    };
    Some(set())
}

/// The kernel's socket has taken it.
fn set(fd: c_int, number: u32, level: c_int, name: c_int) -> Result<i32, Errno> {
    let mut guard = lock()?;
    let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
    if !read(fd, socket, level, name) {
        return Ok(0);
    }
    tell_stack(&mut guard, number, (level, name))
}

/// Tells the stack of what has been set.
fn tell_stack(guard: &mut Guard, number: u32, option: (c_int, c_int)) -> Result<i32, Errno> {
    let now = guard.clock_now();
    let world = &mut **guard;
    let socket = world.sockets.get(number).ok_or(Errno::BADF)?;
    let options = socket.options;
    if let (Kind::Listener(listener), (libc::IPPROTO_TCP, libc::TCP_MAXSEG)) = (&socket.kind, option) {
        for id in &listener.listeners {
            let _ = world.stack.set_maximum_segment(*id, options.maximum_segment);
        }
    }
    if let (Kind::Listener(listener), (libc::SOL_SOCKET, libc::SO_RCVBUF)) = (&socket.kind, option) {
        for id in &listener.listeners {
            let _ = world.stack.set_receive_window(*id, options.receive_window());
        }
    }
    if matches!(socket.kind, Kind::Listener(_)) {
        super::fast_open_settings::set_listener(world, number);
        return Ok(0);
    }
    if option == (libc::IPPROTO_UDP, UDP_CORK) && !options.joins {
        // As on Linux what comes of it is not told.
        let _ = crate::calls::transfer::datagram_send::end(guard, number);
        return Ok(0);
    }
    let Kind::Stream(stream) = &socket.kind else { return Ok(0) };
    let Some(connection) = stream.connection else { return Ok(0) };
    let stack = &mut world.stack;
    let setting = match option {
        (libc::IPPROTO_TCP, libc::TCP_SYNCNT) => Setting::SynRetransmissions(options.syn_retransmissions),
        (libc::IPPROTO_TCP, TCP_NOTSENT_LOWAT) => {
            world.sockets.watch_unsent(number, stack);
            world.sockets.notify(number, Change::OUT);
            world.sent(now);
            return Ok(0);
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => Setting::ReceiveWindowMax(options.receive_window()),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Setting::NoDelay(options.no_delay),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Setting::Cork(options.cork),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => Setting::UserTimeout(options.user_timeout),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let Some(algorithm) = options.congestion else {
                explain(format_args!("TCP_CONGESTION: this one is the kernel's alone: cubic, reno and bbr are here"));
                return Ok(0);
            };
            Setting::Congestion(algorithm)
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE)
        | (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {
            Setting::Keepalive(options.keepalive.then(|| keepalive(&options)))
        }
        _ => return Ok(0),
    };
    // A connection that has ended meanwhile has no settings.
    let _ = stack.set(now, connection, setting);
    world.sent(now);
    Ok(0)
}

/// # Safety
/// As `getsockopt`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    if descriptor::is_remote(fd) {
        // SAFETY: `length` is writable and says how many writable bytes `value` has: the program's duty by getsockopt(2).
        return unsafe { crate::calls::remote::client::getsockopt(fd, level, name, value, length) };
    }
    if let (libc::IPPROTO_IP, libc::IP_MTU) | (libc::IPPROTO_IPV6, libc::IPV6_MTU) = (level, name)
        && let Some(number) = socket_of(fd)
    {
        // SAFETY: `length` is writable and says how many writable bytes `value` has: the program's duty by getsockopt(2).
        return give_int(unsafe { path_mtu(number, value.cast(), length) });
    }
    if let Some(number) = socket_of(fd).filter(|_| descriptor::is_stand_in(fd)) {
        // SAFETY: `length` is writable and says how many writable bytes `value` has: the program's duty by getsockopt(2).
        if let Some(status) = unsafe { get_flag(number, (level, name), value.cast(), length) } {
            return give_int(status);
        }
        if let Err(error) = super::stand_in::replace(fd) {
            return give_int(Err(error));
        }
    }
    // SAFETY: `length` is writable and says how many writable bytes `value` has: the program's duty by getsockopt(2).
    let status = unsafe { libc_next::getsockopt(fd, level, name, value, length) };
    let Some(number) = socket_of(fd).filter(|_| status == 0) else { return status };
    let answer = match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => take_error(number),
        (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => lock().map(|guard| {
            let listens = |socket: &Socket| matches!(socket.kind, Kind::Listener(_));
            c_int::from(guard.sockets.get(number).is_some_and(listens))
        }),
        (libc::IPPROTO_TCP, libc::TCP_INFO) => {
            // SAFETY: the kernel has written as many bytes there.
            return give_int(unsafe { super::information::tell(number, value.cast(), *length as usize) });
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => lock().and_then(|guard| {
            let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
            let connection = if let Kind::Stream(stream) = &socket.kind { stream.connection } else { None };
            let info = connection.and_then(|connection| guard.stack.connection_info(connection));
            let unconnected = socket.options.maximum_segment.map_or(MSS_UNSET, c_int::from);
            Ok(info.map_or(unconnected, |(_, _, info)| c_int::from(info.maximum_segment)))
        }),
        _ => return status,
    };
    give_int(answer.map(|answer| {
        let bytes = answer.to_ne_bytes();
        // SAFETY: the kernel wrote so many bytes there, at most four.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), (*length as usize).min(bytes.len())) };
        0
    }))
}

/// What a connected socket's path takes, which the kernel's socket, connected to nothing, doesn't know.
///
/// # Safety
/// `value` and `length` are null, or `length` says how many writable bytes `value` has.
unsafe fn path_mtu(number: u32, value: *mut u8, length: *mut socklen_t) -> Result<i32, Errno> {
    let guard = lock()?;
    let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
    if socket.peer.is_none() {
        return Err(Errno::NOTCONN);
    }
    let answer = c_int::from(guard.vnic.mtu());
    drop(guard);
    // SAFETY: `value` and `length` are null, or `length` says how many writable bytes `value` has: this function's condition.
    unsafe { write_number(answer, value, length) }
}

/// Reads one of the flags that servers set on each connection, or the error, without a kernel's socket. `None`: it is none of
/// them.
///
/// # Safety
/// As of [`path_mtu`].
unsafe fn get_flag(
    number: u32,
    option: (c_int, c_int),
    value: *mut u8,
    length: *mut socklen_t,
) -> Option<Result<i32, Errno>> {
    let is_error = option == (libc::SOL_SOCKET, libc::SO_ERROR);
    if !is_error {
        flag(&mut Options::default(), option)?;
    }
    let look = || {
        if is_error {
            return take_error(number);
        }
        let mut guard = lock()?;
        let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
        Ok(c_int::from(flag(&mut socket.options, option).is_some_and(|flag| *flag)))
    };
    // SAFETY: `length` says how many writable bytes `value` has, or both are null: this function's condition.
    Some(look().and_then(|answer| unsafe { write_number(answer, value, length) }))
}

/// Answers as `getsockopt` does: as many bytes as there is room for.
///
/// # Safety
/// As of [`path_mtu`].
unsafe fn write_number(answer: c_int, value: *mut u8, length: *mut socklen_t) -> Result<i32, Errno> {
    if is_nowhere(value) || is_nowhere(length) {
        return Err(Errno::FAULT);
    }
    let bytes = answer.to_ne_bytes();
    // SAFETY: `length` says how many writable bytes `value` has, or both are null: this function's condition.
    unsafe {
        if *length > c_int::MAX as socklen_t {
            return Err(Errno::INVAL);
        }
        let count = (*length as usize).min(bytes.len());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value, count);
        *length = count as socklen_t;
    }
    Ok(0)
}

fn take_error(number: u32) -> Result<c_int, Errno> {
    let mut guard = lock()?;
    guard.drive_now();
    let error = guard.sockets.get_mut(number).ok_or(Errno::BADF)?.take_error();
    Ok(error.map_or(0, Errno::raw_os_error))
}
