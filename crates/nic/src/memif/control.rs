//! The Unix socket: whole messages, with the descriptors that come with them, within a deadline.

use super::error::MemifError;
use super::message::{MESSAGE_LENGTH, Message};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// Descriptors taken with one message; the protocol sends at most one, more are a lie.
const DESCRIPTORS_MAX: usize = 4;

/// Bytes of a socket's path at most (`sun_path`, with a NUL behind it).
const PATH_MAX: usize = 107;

/// A message and the descriptor that came with it.
pub(super) struct Received {
    pub(super) message: Message,
    descriptors: Vec<OwnedFd>,
}

impl Received {
    /// The one descriptor the message must bring.
    pub(super) fn descriptor(&mut self) -> Result<OwnedFd, MemifError> {
        match (self.descriptors.pop(), self.descriptors.is_empty()) {
            (Some(descriptor), true) => Ok(descriptor),
            _ => Err(MemifError::refused("a message without its one descriptor")),
        }
    }
}

/// One end of an established connection.
pub(super) struct Channel {
    socket: OwnedFd,
}

/// A new SOCK_SEQPACKET socket.
pub(super) fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// `path` as an address of a Unix socket.
pub(super) fn address(path: &Path) -> Result<SocketAddrUnix, MemifError> {
    let is_path = (1..=PATH_MAX).contains(&path.as_os_str().len());
    let address = is_path.then(|| SocketAddrUnix::new(path).ok()).flatten();
    address.ok_or_else(|| {
        let reason = format!("socket path {}: must have 1 to {PATH_MAX} bytes", path.display());
        MemifError::Invalid { reason }
    })
}

/// Waits until `fd` has one of `events`, at most until `deadline`; whether it has.
pub(super) fn wait_for(fd: BorrowedFd<'_>, events: PollFlags, deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A wait too long for the system's clock is a wait for ever.
        let timeout = rest.and_then(|rest| Timespec::try_from(rest).ok());
        match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, events)], timeout.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Channel {
    pub(super) fn new(socket: OwnedFd) -> Channel {
        Channel { socket }
    }

    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Sends a message, with a descriptor if given. Never blocks for long: a peer that doesn't read is a failed peer.
    pub(super) fn send(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> Result<(), MemifError> {
        let bytes = message.emit();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let rights = descriptor.as_slice();
        if !rights.is_empty() {
            // There is room for one.
            control.push(SendAncillaryMessage::ScmRights(rights));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            // A message goes whole or not at all.
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(MemifError::Gone),
            Err(error) => Err(MemifError::system("send a message to the peer", error.into())),
        }
    }

    /// Receives the next message. `None` as deadline: waits for ever.
    pub(super) fn receive(&self, deadline: Option<Instant>) -> Result<Received, MemifError> {
        let system = |error| MemifError::system("receive a message from the peer", error);
        loop {
            let readable = wait_for(self.socket.as_fd(), PollFlags::IN, deadline).map_err(system)?;
            if !readable {
                return Err(MemifError::Silent);
            }
            let mut bytes = [0u8; MESSAGE_LENGTH + 1];
            match self.receive_bytes(&mut bytes) {
                Ok((0, _)) => return Err(MemifError::Gone),
                Ok((length, descriptors)) => {
                    let message = Message::parse(bytes.get(..length).unwrap_or_default())
                        .map_err(|malformed| MemifError::refused(malformed.to_string()))?;
                    return Ok(Received { message, descriptors });
                }
                // A reset is told once, before what the peer said last: that comes now, and then the end.
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNRESET) => {}
                Err(error) => return Err(system(error.into())),
            }
        }
    }

    /// One message's bytes, and every descriptor that came with it, owned.
    fn receive_bytes(&self, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
        // The kernel closes what does not fit.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let length = rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?.bytes;
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        Ok((length, descriptors))
    }
}

/// Whether `fd` is an eventfd: writing to anything else a peer may have sent could block, or do harm.
pub(super) fn is_event_fd(fd: &OwnedFd) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
    name.is_ok_and(|name| name.as_os_str().as_bytes() == b"anon_inode:[eventfd]")
}

/// Rings an eventfd. The peer shares its file description and may have made it block, so it is written only while it
/// takes a write; a full one is readable anyway.
pub(super) fn ring(fd: &OwnedFd) {
    let writable = wait_for(fd.as_fd(), PollFlags::OUT, Some(Instant::now()));
    if matches!(writable, Ok(true)) {
        // A full one is readable anyway.
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

/// Silences an eventfd; never blocks, whatever the peer made of the file description.
pub(super) fn silence(fd: &OwnedFd) {
    let mut count = [0; 8];
    // At the file's own position, which an eventfd has none of.
    let _ = rustix::io::preadv2(fd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}
