//! How a net core's socket is reached, and how a net core is asked how it is.

use crate::split::handshake::{MESSAGE_BYTES_MAX, NetCoreStatus, Reply, Wish};
use qanat_control::protocol::{Fault, receive, send};
use qanat_nic::foreign::refuse_rights;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

fn address_of(path: &Path) -> io::Result<SocketAddrUnix> {
    Ok(match path.to_str().and_then(|text| text.strip_prefix('@')) {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
        None => SocketAddrUnix::new(path)?,
    })
}

/// Connects to a net core's socket: a path, or with a leading `@` a name of Linux' abstract space.
///
/// # Errors
/// What the system says.
pub(crate) fn dial(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address_of(path)?)?;
    Ok(socket)
}

/// How long a net core that is asked how it is may take.
const ASKED_PATIENCE: Duration = Duration::from_secs(2);

/// Asks the net core at `path` how it is. Anybody may be there to answer. So the wait is short, only words are taken, and
/// none of them does anything to a terminal.
///
/// # Errors
/// What the system says, or that it does not answer.
pub fn ask_status(path: &Path) -> io::Result<NetCoreStatus> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let _ = refuse_rights(socket.as_fd());
    for which in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, which, Some(ASKED_PATIENCE))?;
    }
    connect(&socket, &address_of(path)?)?;
    let fault = |fault: Fault| io::Error::other(fault.to_string());
    send(socket.as_fd(), Wish::Status, &[]).map_err(fault)?;
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let mut reply = receive::<serde_json::Value>(socket.as_fd(), &mut buffer).map_err(fault)?.0;
    without_controls(&mut reply);
    match serde_json::from_value(reply).map_err(io::Error::other)? {
        Reply::Status(status) => Ok(status),
        Reply::Refused(why) => Err(io::Error::other(why)),
        Reply::Attached(_) | Reply::Ended(_) => Err(io::Error::other("an answer to another question")),
    }
}

/// Takes what a terminal would act on out of all words.
fn without_controls(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => text.retain(|letter| !letter.is_control()),
        serde_json::Value::Array(values) => values.iter_mut().for_each(without_controls),
        serde_json::Value::Object(fields) => fields.values_mut().for_each(without_controls),
        _ => {}
    }
}
