//! Connections.

use super::guard::{Qanat, bytes, enter, put, read, wanted};
use crate::address::Address;
use crate::lent::{Release, lend};
use crate::native::Native;
use crate::status::{Code, Refused};
use qanat::{
    Bytes, CommandError, Commands, CongestionAlgorithm, ConnectOptions, ConnectionId, FastOpenRequest, Keepalive,
    ListenOptions, ListenerId, Setting,
};
use std::ffi::c_void;
use std::net::SocketAddr;
use std::time::Duration;

/// A value that is none: for `qanat_set`.
pub const NONE: u64 = u64::MAX;

/// An address that has to be one.
///
/// # Safety
/// It is null, or to an address.
pub(super) unsafe fn socket_address(address: *const Address) -> Result<SocketAddr, Refused> {
    // SAFETY: the caller's promise.
    let address = unsafe { read(address, "address: a null pointer") }?;
    address.to_socket().ok_or(Refused::Argument("address: its family is neither 4 nor 6"))
}

/// Accepts connections at an own address and port (`0.0.0.0`: all of IPv4). QANAT_EVENT_ACCEPTED tells of each. `backlog`: half-open
/// connections at most; 0: only the stack's limit. `listener` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_listen(
    qanat: *mut Qanat,
    local: *const Address,
    backlog: usize,
    listener: *mut u64,
) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let local = socket_address(local)?;
            let made = native.command(|context| context.listen(local, ListenOptions { backlog }))?;
            put(listener, made.to_token());
            Ok(())
        })
    }
}

/// Stops accepting. Connections that were accepted go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_close_listener(qanat: *mut Qanat, listener: u64) -> Code {
    let listener = ListenerId::from_token(listener);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.close_listener(listener))?)) }
}

/// TCP Fast Open (RFC 7413) of a connection that is made: what is sent at once leaves with the SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum FastOpen {
    /// Not.
    No = 0,
    /// If the server has given a cookie before; if not, one is asked for.
    WithCookie = 1,
    /// Without one: the server is known to accept that.
    WithoutCookie = 2,
}

/// Connects to a peer. The connection begins here: QANAT_EVENT_CONNECTED follows, or QANAT_EVENT_CLOSED. `local`: an own address and port, or null for any. `fast_open`: a
/// `qanat_fast_open`. What is sent before the connection is established leaves when it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_connect(
    qanat: *mut Qanat,
    peer: *const Address,
    local: *const Address,
    fast_open: u32,
    connection: *mut u64,
) -> Code {
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            wanted(connection, "connection: a null pointer")?;
            let peer = socket_address(peer)?;
            let local = if local.is_null() { None } else { Some(socket_address(local)?) };
            let fast_open = match fast_open {
                number if number == FastOpen::No as u32 => FastOpenRequest::No,
                number if number == FastOpen::WithCookie as u32 => FastOpenRequest::WithCookie,
                number if number == FastOpen::WithoutCookie as u32 => FastOpenRequest::WithoutCookie,
                _ => return Err(Refused::Argument("fast_open: there is none of this number")),
            };
            let options = ConnectOptions { local, fast_open, ..ConnectOptions::default() };
            put(connection, native.connect(peer, options)?.to_token());
            Ok(())
        })
    }
}

/// Resets a connection that was just accepted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_refuse(qanat: *mut Qanat, connection: u64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.refuse(connection))?)) }
}

/// Sends bytes after those that were given before. They are copied: the program may change its own at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_send(qanat: *mut Qanat, connection: u64, data: *const u8, length: usize) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let copy = Bytes::copy_from_slice(bytes(data, length)?);
            native.send(connection, copy)
        })
    }
}

/// Sends bytes without a copy: they are lent until `release` is called with `state`, once, also if the call is refused. Until
/// then they may not change. `release` may be null if they never do, as constants. It is called from within this or another call, and
/// must not call anything of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_lend(
    qanat: *mut Qanat,
    connection: u64,
    data: *const u8,
    length: usize,
    release: Release,
    state: *mut c_void,
) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says, and as this function does.
    let data = unsafe { bytes(data, length) };
    let given = *data.as_ref().unwrap_or(&b"".as_slice());
    // SAFETY: the same. What can't be is none, and is released all the same.
    let lent = unsafe { lend(given.as_ptr(), given.len(), release, state) };
    // If it is refused, it is released within the call, too.
    let send = |native: &mut Native| {
        let lent = lent;
        data?;
        native.send(connection, lent)
    };
    // SAFETY: the same.
    unsafe { enter(qanat, send) }
}

/// Sends a block that was filled and sealed, without a copy if the stack can reach it. The block stays lent: it may be sent again, on
/// other connections, too, until it is released. Then it goes when the last byte was acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_send_block(qanat: *mut Qanat, connection: u64, block: u64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| native.send_block(connection, block)) }
}

/// Bytes that would be sent at once if they were given now; less than 0: so many wait already. QANAT_STATUS_UNSUPPORTED: this placement
/// does not know, or the connection is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_send_room(qanat: *mut Qanat, connection: u64, room: *mut i64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            wanted(room, "room: a null pointer")?;
            let known = native.command(|context| context.send_room(connection)).ok_or(CommandError::Unsupported)?;
            put(room, known);
            Ok(())
        })
    }
}

/// Sends FIN after everything that was given. Receiving goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_shutdown(qanat: *mut Qanat, connection: u64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.shutdown(connection))?)) }
}

/// Sends everything that was given, then FIN, and receives no more. QANAT_EVENT_CLOSED follows. A connection that is not established yet ends at
/// once, and what was given to it may be lost (RFC 9293 section 3.10.4): shut it down instead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_close(qanat: *mut Qanat, connection: u64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.close(connection))?)) }
}

/// Sends RST. QANAT_EVENT_CLOSED follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_abort(qanat: *mut Qanat, connection: u64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.abort(connection))?)) }
}

/// What of a connection can be set. QANAT_NONE means none, where there may be none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum SettingKind {
    /// 1: small segments leave at once (Nagle's algorithm is off). 0: they wait.
    NoDelay = 0,
    /// 1: what does not fill a segment is held back until this is 0 again.
    Cork = 1,
    /// Nanoseconds that what was sent may stay unacknowledged; or none.
    UserTimeout = 2,
    /// Bytes a second at most; or none.
    PacingRate = 3,
    /// The receive window at most, in bytes; or none.
    ReceiveWindowMax = 4,
    /// Congestion control: 0 is CUBIC, 1 NewReno, 2 BBR.
    Congestion = 5,
}

fn setting(kind: u32, value: u64) -> Result<Setting, Refused> {
    let given = (value != NONE).then_some(value);
    Ok(match kind {
        number if number == SettingKind::NoDelay as u32 => Setting::NoDelay(value != 0),
        number if number == SettingKind::Cork as u32 => Setting::Cork(value != 0),
        number if number == SettingKind::UserTimeout as u32 => Setting::UserTimeout(given.map(Duration::from_nanos)),
        number if number == SettingKind::PacingRate as u32 => Setting::PacingRate(given),
        number if number == SettingKind::ReceiveWindowMax as u32 => {
            Setting::ReceiveWindowMax(given.map(|most| u32::try_from(most).unwrap_or(u32::MAX)))
        }
        number if number == SettingKind::Congestion as u32 => {
            let algorithm = match value {
                0 => CongestionAlgorithm::Cubic,
                1 => CongestionAlgorithm::NewReno,
                2 => CongestionAlgorithm::Bbr,
                _ => return Err(Refused::Argument("value: there is no such congestion control")),
            };
            Setting::Congestion(algorithm)
        }
        _ => return Err(Refused::Argument("setting: there is none of this number")),
    })
}

/// Changes how a connection behaves: a `qanat_setting` and its value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_set(qanat: *mut Qanat, connection: u64, kind: u32, value: u64) -> Code {
    let connection = ConnectionId::from_token(connection);
    // SAFETY: the program's promise, as the module says.
    unsafe {
        enter(qanat, |native| {
            let setting = setting(kind, value)?;
            Ok(native.command(|context| context.set(connection, setting))?)
        })
    }
}

/// Has an idle peer asked whether it is there (RFC 9293 section 3.8.4): after `idle_ms`, then every `interval_ms`, `probes` times.
/// `probes` 0: not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qanat_set_keepalive(
    qanat: *mut Qanat,
    connection: u64,
    idle_ms: u32,
    interval_ms: u32,
    probes: u8,
) -> Code {
    let connection = ConnectionId::from_token(connection);
    let times = Keepalive {
        idle: Duration::from_millis(idle_ms.into()),
        interval: Duration::from_millis(interval_ms.into()),
        probes_max: probes,
    };
    let setting = Setting::Keepalive((probes > 0).then_some(times));
    // SAFETY: the program's promise, as the module says.
    unsafe { enter(qanat, |native| Ok(native.command(|context| context.set(connection, setting))?)) }
}
