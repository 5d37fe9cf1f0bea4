//! Messages and the descriptors beside them, sent and received.

use qanat_nic::DESCRIPTORS_REMEDY;
use qanat_nic::foreign::{Head, head};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use thiserror::Error;

/// Version of this protocol: 2 since filters are ranges and masks, and cards have providers; 3 since refusals have causes. A daemon answers requests of
/// its own version only; others it tells so, in their version, which is all that versions have in common.
pub const VERSION: u16 = 3;

/// Bytes of a message at most.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Bytes of an answer at most: a status of many VNICs is long.
pub const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// Descriptors beside a message at most: a queue's socket, and the two of its injector. An earlier daemon's were four.
pub const DESCRIPTORS_MAX: usize = 5;

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/qanat/control.sock";

/// A message with its version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope<T> {
    /// [`VERSION`].
    pub version: u16,
    /// What is said.
    pub body: T,
}

/// Why a message could not be had.
#[derive(Debug, Error)]
pub enum Fault {
    /// Nothing there now.
    #[error("no message")]
    Empty,
    /// The other side has closed.
    #[error("closed by the other side")]
    Closed,
    /// The other side does not keep to the protocol.
    #[error("not the control protocol: {0}")]
    Broken(String),
    /// The other side speaks this version of it.
    #[error("version {0} of the control protocol, not {VERSION}")]
    Version(u16),
    /// So many bytes are more than one message holds; nothing was sent.
    #[error("{0} bytes in one message")]
    TooLong(usize),
    /// This process may have no more descriptors, and some came beside the message.
    #[error("a descriptor came that this process has no room for: raise its limit, {DESCRIPTORS_REMEDY}")]
    NoRoom,
    /// What the system says.
    #[error(transparent)]
    System(std::io::Error),
}

/// What is wrong if daemon and program speak different versions, and the remedy. Cards are not affected: they go on.
pub fn mismatch(daemon: u16, program: u16) -> String {
    let remedy = match daemon < program {
        true => {
            "restart the daemon with the program's version of qanat: `systemctl reload qanatd`, or HUP; cards go on"
        }
        false => "start the program anew with the daemon's version of qanat",
    };
    format!("the daemon speaks version {daemon} of the control protocol, the program {program}: {remedy}")
}

/// Sends one message. Never blocks if the socket does not.
///
/// # Errors
/// [`Fault`].
pub fn send<T: Serialize>(socket: BorrowedFd<'_>, body: T, descriptors: &[BorrowedFd<'_>]) -> Result<(), Fault> {
    send_in(VERSION, socket, body, descriptors)
}

/// As [`send`], to one who speaks another version.
///
/// # Errors
/// [`Fault`].
pub fn send_in<T: Serialize>(
    version: u16,
    socket: BorrowedFd<'_>,
    body: T,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Fault> {
    let text = serde_json::to_vec(&Envelope { version, body }).map_err(|e| Fault::Broken(e.to_string()))?;
    if text.len() > ANSWER_BYTES_MAX {
        return Err(Fault::TooLong(text.len()));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Fault::Broken(format!("{} descriptors in one message", descriptors.len())));
    }
    match sendmsg(socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(()),
        Err(Errno::MSGSIZE) => Err(Fault::TooLong(text.len())),
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Fault::Closed),
        Err(error) => Err(Fault::System(error.into())),
    }
}

/// Receives one message of at most `buffer`'s length, and the descriptors beside it, closed on exec.
///
/// # Errors
/// [`Fault`].
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(T, Vec<OwnedFd>), Fault> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut was_reset = false;
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            // A process stopped and continued while it waits.
            Err(Errno::INTR) => {}
            // The other side closed without reading all. The kernel tells that once, before what was said until then.
            Err(Errno::CONNRESET) if !was_reset => was_reset = true,
            other => break other,
        }
    };
    let received = match received {
        Ok(received) => received,
        Err(Errno::AGAIN) => return Err(Fault::Empty),
        Err(Errno::CONNRESET | Errno::NOTCONN) => return Err(Fault::Closed),
        Err(error) => return Err(Fault::System(error.into())),
    };
    // Collected first: whatever is wrong with the message, its descriptors are closed here.
    let mut descriptors = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    // The kernel closes what finds no number in this process.
    if received.flags.contains(ReturnFlags::CTRUNC) && descriptors.len() < DESCRIPTORS_MAX {
        return Err(Fault::NoRoom);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Fault::Broken("a message too long, or with too many descriptors".to_owned()));
    }
    let text = buffer.get(..received.bytes).unwrap_or(&[]);
    if text.is_empty() {
        // A packet without bytes reads as the end does; either way there is no more to say.
        return Err(Fault::Closed);
    }
    Ok((understand(text)?, descriptors))
}

/// A message that waits at a socket.
#[derive(Debug)]
pub struct Glance<T> {
    /// What it says.
    pub said: Result<T, Fault>,
    /// There are descriptors beside it.
    pub has_rights: bool,
}

/// Looks at the next message of a socket whose other end nobody trusts. It stays where it is, with the descriptors beside it:
/// who receives these may have to wait for them to be closed.
///
/// # Errors
/// [`Fault`].
pub fn glance<T: DeserializeOwned>(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Glance<T>, Fault> {
    match head(socket, buffer).map_err(Fault::System)? {
        Head::Nothing => Err(Fault::Empty),
        Head::End => Err(Fault::Closed),
        Head::Message { is_longer: true, has_rights, .. } => {
            Ok(Glance { said: Err(Fault::Broken("a message too long".to_owned())), has_rights })
        }
        Head::Message { bytes, has_rights, .. } => {
            Ok(Glance { said: understand(buffer.get(..bytes).unwrap_or(&[])), has_rights })
        }
    }
}

/// What a message's text says.
///
/// # Errors
/// [`Fault::Broken`].
pub fn understand<T: DeserializeOwned>(text: &[u8]) -> Result<T, Fault> {
    let envelope: Envelope<serde_json::Value> =
        serde_json::from_slice(text).map_err(|error| Fault::Broken(error.to_string()))?;
    if envelope.version != VERSION {
        return Err(Fault::Version(envelope.version));
    }
    let body = serde_json::from_value(envelope.body).map_err(|error| Fault::Broken(error.to_string()))?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Answer;
    use crate::protocol::Request;
    use std::os::fd::AsFd;

    #[test]
    fn messages_the_fuzzer_starts_from_are_of_this_version() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/control");
        let mut requests = 0;
        for entry in std::fs::read_dir(corpus).unwrap().flatten() {
            let text = std::fs::read(entry.path()).unwrap();
            match understand::<Request>(&text) {
                Ok(_) => requests += 1,
                Err(fault) => assert!(!matches!(fault, Fault::Version(_)), "{:?}: {fault}", entry.path()),
            }
        }
        assert!(requests >= 6, "{requests} of them are requests");
    }

    #[test]
    fn the_last_word_of_who_has_not_read_all_is_heard() {
        let kind = rustix::net::SocketType::SEQPACKET;
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (client, daemon) = rustix::net::socketpair(rustix::net::AddressFamily::UNIX, kind, flags, None).unwrap();
        send(client.as_fd(), Request::Limits, &[]).unwrap();
        send(daemon.as_fd(), Answer::Refused("no time for that".into()), &[]).unwrap();
        drop(daemon);
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let heard = receive::<Answer>(client.as_fd(), &mut buffer);
        assert!(matches!(&heard, Ok((Answer::Refused(why), _)) if why.text == "no time for that"), "{heard:?}");
        assert!(matches!(receive::<Answer>(client.as_fd(), &mut buffer), Err(Fault::Closed)));
    }

    #[test]
    fn a_mismatch_names_both_versions_and_who_is_to_be_started_anew() {
        assert!(mismatch(1, 2).contains("version 1") && mismatch(1, 2).contains("restart the daemon"));
        assert!(mismatch(2, 1).contains("the program 1: start the program anew"));
    }
}
