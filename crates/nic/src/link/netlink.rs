//! Netlink (RFC 3549), as much as a virtual NIC needs: build a request, send it, read the answers.

use crate::base::errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RawProtocol, RecvFlags, SendFlags, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const HEADER: usize = 16;
/// More datagrams than any dump here has; ends a loop on a kernel that never says "done".
const DATAGRAMS_MAX: usize = 4096;
const ANSWER_BYTES_MAX: usize = 64 * 1024;

const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLM_F_CAPPED: u16 = 0x100;

/// A request being built.
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of `kind` (`RTM_…`) with extra `flags` and the kind's fixed header.
    pub(crate) fn new(kind: u16, flags: i32, header: &[u8]) -> Message {
        let flags = (libc::NLM_F_REQUEST | flags) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(1u32.to_ne_bytes()); // sequence number: one request per socket
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(header);
        let mut message = Message { bytes };
        message.pad();
        message
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Appends an attribute.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        self.bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.pad();
        self
    }

    /// Appends an attribute that holds `header` and what `build` appends.
    pub(crate) fn nest(mut self, kind: u16, header: &[u8], build: impl FnOnce(Message) -> Message) -> Message {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(header);
        self.pad();
        let mut message = build(self);
        let length = (message.bytes.len() - start) as u16;
        message.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        message
    }

    fn finish(mut self) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes
    }
}

/// Sends a route request in the calling thread's namespace; returns the answers' payloads (after the netlink header).
pub(crate) fn request(message: Message) -> Result<Vec<Vec<u8>>, Refusal> {
    request_by(&open(libc::NETLINK_ROUTE)?, message)
}

/// Sends a request by a socket of [`open`], in its namespace.
pub(crate) fn request_by(socket: &OwnedFd, message: Message) -> Result<Vec<Vec<u8>>, Refusal> {
    // Drivers look at their devices while they send.
    errno::kept(|| exchange(socket, message))
}

fn exchange(socket: &OwnedFd, message: Message) -> Result<Vec<Vec<u8>>, Refusal> {
    let bytes = message.finish();
    rustix::net::send(socket, &bytes, SendFlags::empty()).map_err(io::Error::from)?;
    let mut answers = Vec::new();
    let mut buffer = vec![0u8; ANSWER_BYTES_MAX];
    for _ in 0..DATAGRAMS_MAX {
        let (length, _) = rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()).map_err(io::Error::from)?;
        if read_datagram(buffer.get(..length).unwrap_or(&[]), &mut answers)? {
            return Ok(answers);
        }
    }
    Err(io::Error::other("netlink: the answer has no end").into())
}

/// A socket of a netlink `protocol` in the calling thread's namespace, which it stays in.
pub(crate) fn open(protocol: i32) -> io::Result<OwnedFd> {
    let protocol = u32::try_from(protocol).ok().and_then(RawProtocol::new).map(Protocol::from_raw);
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    // Failure only costs the time limit.
    let _ = set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(5)));
    for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
        let on = 1i32;
        // SAFETY: the option's value is live for the call, with its length. Failure only costs the better error text.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const on).cast(), 4) };
    }
    Ok(socket)
}

/// Collects a datagram's answers; true when the last has come.
fn read_datagram(mut rest: &[u8], answers: &mut Vec<Vec<u8>>) -> Result<bool, Refusal> {
    while let Some(length) = u32_at(rest, 0).map(|length| length as usize) {
        let Some(message) = rest.get(..length).filter(|_| length >= HEADER) else {
            return Err(io::Error::other("netlink: truncated answer").into());
        };
        let flags = u16_at(message, 6).unwrap_or(0);
        let payload = &message[HEADER..];
        match i32::from(u16_at(message, 4).unwrap_or(0)) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                return match u32_at(payload, 0).unwrap_or(0) as i32 {
                    0 => Ok(true),
                    code => Err(explain(-code, flags, payload)),
                };
            }
            libc::NLMSG_NOOP => {}
            _ => answers.push(payload.to_vec()),
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    Ok(false)
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Refusal {
    source: io::Error,
    /// The kernel's explanation; empty if it gave none.
    words: String,
}

impl Refusal {
    /// The error number, 0 if there is none.
    pub(crate) fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

impl From<io::Error> for Refusal {
    fn from(source: io::Error) -> Refusal {
        Refusal { source, words: String::new() }
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        match refusal.words.is_empty() {
            true => refusal.source,
            false => io::Error::new(refusal.source.kind(), format!("{} ({})", refusal.source, refusal.words)),
        }
    }
}

/// The error of an acknowledgement.
fn explain(errno: i32, flags: u16, payload: &[u8]) -> Refusal {
    let attributes = match flags & NLM_F_CAPPED != 0 {
        true => payload.get(4 + HEADER..),
        false => payload.get(4 + (u32_at(payload, 4).unwrap_or(0) as usize).next_multiple_of(4)..),
    };
    let words = attributes.filter(|_| flags & NLM_F_ACK_TLVS != 0).and_then(|bytes| find(bytes, NLMSGERR_ATTR_MSG));
    Refusal { source: io::Error::from_raw_os_error(errno), words: words.map(text).unwrap_or_default() }
}

/// The attributes in `bytes`: kind (without flags) and value.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u16_at(rest, 0)? as usize;
        let kind = u16_at(rest, 2)? & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The first attribute of `kind`.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    bytes.get(offset..)?.first_chunk().map(|word| u16::from_ne_bytes(*word))
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// A NUL-terminated string.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(&[])).into_owned()
}

/// `struct ifinfomsg`.
pub(super) fn interface_header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&change.to_ne_bytes());
    header
}

/// An interface's name as an attribute: with a NUL byte at its end.
pub(super) fn name_bytes(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_attributes_read_back() {
        let message = Message::new(16, 0, &[7; 16])
            .attribute(3, b"odd\0")
            .nest(18, &[], |inner| inner.attribute(1, b"veth").attribute(2, &[1]))
            .finish();
        assert_eq!(u32_at(&message, 0), Some(message.len() as u32));
        let body = &message[HEADER + 16..];
        assert_eq!(find(body, 3).map(text).as_deref(), Some("odd"));
        let nested = find(body, 18).unwrap();
        assert_eq!(attributes(nested).collect::<Vec<_>>(), [(1, b"veth".as_slice()), (2, [1].as_slice())]);
    }

    #[test]
    fn garbage_ends() {
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[255; 7]).count(), 0);
        assert!(read_datagram(&[8, 0, 0, 0, 0, 0, 0, 0], &mut Vec::new()).is_err());
        assert!(!read_datagram(&[1, 2], &mut Vec::new()).unwrap());
    }
}
