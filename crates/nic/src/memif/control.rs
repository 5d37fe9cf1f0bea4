//! The Unix socket: whole messages, with the descriptors that come with them, within a deadline.

use super::error::MemifError;
use super::message::{MESSAGE_LENGTH, Message};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Descriptors taken with one message; the protocol sends at most one, more are a lie.
const DESCRIPTORS_MAX: usize = 4;
/// Space for them, in the kernel's layout, aligned as it must be.
const CONTROL_WORDS: usize = 8;

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
pub(super) fn wait_for(fd: BorrowedFd<'_>, events: i16, deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let timeout_ms = match deadline {
            None => -1,
            // Rounded up: never a busy wait for the last millisecond.
            Some(deadline) => {
                let rest = deadline.saturating_duration_since(Instant::now()) + Duration::from_micros(999);
                i32::try_from(rest.as_millis()).unwrap_or(i32::MAX)
            }
        };
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        // SAFETY: one live pollfd.
        match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
            0 => return Ok(false),
            count if count > 0 => return Ok(true),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
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
        let mut bytes = message.emit();
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = [0u64; CONTROL_WORDS];
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        if let Some(descriptor) = descriptor {
            header.msg_control = control.as_mut_ptr().cast();
            // SAFETY: the control buffer has room for one header with one descriptor and is aligned for it; CMSG_FIRSTHDR
            // returns its start since msg_controllen is large enough.
            unsafe {
                header.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
                libc::CMSG_DATA(first).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
            }
        }
        // SAFETY: the header points to live buffers of the lengths it says.
        let sent = unsafe {
            libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        if sent == MESSAGE_LENGTH as isize {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Err(MemifError::Gone),
            _ => Err(MemifError::system("send a message to the peer", error)),
        }
    }

    /// Receives the next message. `None` as deadline: waits for ever.
    pub(super) fn receive(&self, deadline: Option<Instant>) -> Result<Received, MemifError> {
        let system = |error| MemifError::system("receive a message from the peer", error);
        loop {
            let readable = wait_for(std::os::fd::AsFd::as_fd(&self.socket), libc::POLLIN, deadline).map_err(system)?;
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
                Err(error) => match error.kind() {
                    // A reset is told once, before what the peer said last: that comes now, and then the end.
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionReset => {}
                    _ => return Err(system(error)),
                },
            }
        }
    }

    /// One message's bytes, and every descriptor that came with it, owned.
    fn receive_bytes(&self, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = [MaybeUninit::<u64>::zeroed(); CONTROL_WORDS];
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        // What doesn't fit is closed by the kernel.
        // SAFETY: pure arithmetic.
        let room = unsafe { libc::CMSG_SPACE((DESCRIPTORS_MAX * size_of::<i32>()) as u32) } as usize;
        header.msg_controllen = room.min(size_of_val(&control)) as _;
        // SAFETY: the header points to live buffers of the lengths it says.
        let length = unsafe {
            libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT)
        };
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut descriptors = Vec::new();
        // SAFETY: the kernel has filled the control buffer and set its length; the macros walk within it, and each
        // descriptor in it is new and nobody else's.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(&raw const header);
            while !next.is_null() {
                if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                    let length = ((*next).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                    for index in 0..(length / size_of::<i32>()).min(DESCRIPTORS_MAX) {
                        let fd = libc::CMSG_DATA(next).cast::<i32>().add(index).read_unaligned();
                        descriptors.push(OwnedFd::from_raw_fd(fd));
                    }
                }
                next = libc::CMSG_NXTHDR(&raw const header, next);
            }
        }
        Ok((length as usize, descriptors))
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
    let writable = wait_for(std::os::fd::AsFd::as_fd(fd), libc::POLLOUT, Some(Instant::now()));
    if matches!(writable, Ok(true)) {
        // A full one is readable anyway.
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

/// Silences an eventfd; never blocks, whatever the peer made of the file description.
pub(super) fn silence(fd: &OwnedFd) {
    let mut count = 0u64;
    let vector = libc::iovec { iov_base: (&raw mut count).cast(), iov_len: 8 };
    // SAFETY: reads 8 bytes into a live u64.
    unsafe { libc::preadv2(fd.as_raw_fd(), &raw const vector, 1, -1, libc::RWF_NOWAIT) };
}
