//! `memif`: a network card made of memory between two processes, no kernel on the path (the shared-memory packet
//! interface of FD.io, version 2, as spoken by VPP's and DPDK's drivers).
//!
//! ```text
//!   slave                                                               master
//!   frames in region 1…, rings in region 0: memory files of its own,    maps them
//!   their size sealed                 ── Unix socket: descriptors ──▶
//!   transmit(frame) ─descriptor→ ring to master: head ───────────▶ copied into a frame of its own, tail back
//!   empty frames    ─descriptor→ ring to slave:  head ───────────▶ copied into by transmit, tail back
//! ```
//!
//! The slave owns all shared memory, and its frames live in it: it sends and receives without copying. The master copies
//! each packet once, out of the peer's region or into it; its frames are private.
//!
//! **Who trusts whom.** Neither end can make the other touch memory that isn't shared, crash it, or stop it: every index,
//! offset and length is copied before it is checked, regions that could shrink are refused, and who breaks the rules is
//! cut off ([`Violation`]). But a master can, at any time, rewrite any packet in the slave's region, those being worked
//! on included. A slave should therefore only connect to whom it would trust with its traffic; a master need not trust
//! its slaves.
//!
//! No checksum offload but by agreement ([`MemifConfig::checksums`]), no scatter-gather out; packets in several pieces are received as several frames.

mod control;
mod handshake;
mod link;
pub mod message;
mod queue;
mod shared;
#[cfg(test)]
mod tests;

pub use link::MemifLink;
pub use queue::{Memif, MemifOpener};

use crate::left_socket::is_left_behind;
use crate::plan::MemoryPlan;
use qanat_wire::ethernet::MacAddress;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most queues of a connection.
pub const QUEUES_MAX: u16 = 64;

/// A connection's properties.
#[derive(Clone, Debug)]
pub struct MemifConfig {
    /// The Unix socket: the master listens on it, the slave connects.
    pub socket: PathBuf,
    /// Number of the interface behind the socket.
    pub id: u32,
    /// What the slave must know, at most 24 bytes.
    pub secret: Option<String>,
    /// Own Ethernet address: memif has none.
    pub mac: MacAddress,
    /// Largest layer-3 packet, bytes.
    pub mtu: u16,
    /// Queues (rings in each direction): as slave so many, as master at most so many.
    pub queues: u16,
    /// Descriptors of a ring, as a power of two; the slave's choice. Their buffers are used in turn: with large packets take few,
    /// for 32 of 64 KiB stay in a cache that 1,024 never do.
    pub log2_ring_size: u8,
    /// Packets carry checksums, and are checked. Without, which both ends must be: what is sent is summed by nobody, as between
    /// the two ends of Linux' loopback, and what comes is not checked. For a peer of this project's that sends it no further.
    pub checksums: bool,
    /// Sleep on interrupts; without it the queue must be polled.
    pub interrupts: bool,
    /// Frames of each queue.
    pub memory: MemoryPlan,
    /// How long a peer may take for its part of the handshake.
    pub handshake_timeout: Duration,
}

impl MemifConfig {
    /// Interface 0 behind `socket`: MTU 1500, one queue, rings of 1024 descriptors, interrupts.
    pub fn new(socket: impl Into<PathBuf>, mac: MacAddress) -> MemifConfig {
        MemifConfig {
            socket: socket.into(),
            id: 0,
            secret: None,
            mac,
            mtu: 1_500,
            queues: 1,
            log2_ring_size: 10,
            checksums: true,
            interrupts: true,
            memory: MemoryPlan::default(),
            handshake_timeout: Duration::from_secs(5),
        }
    }
}

/// Why there is no connection. The text names the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum MemifError {
    /// The socket can't be listened on or connected to.
    Socket {
        /// Its path.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// Another program listens on the socket.
    Occupied {
        /// Its path.
        path: PathBuf,
    },
    /// The peer did something that is not allowed, or not supported.
    Refused {
        /// What.
        what: String,
    },
    /// The peer ended it.
    Disconnected {
        /// Its reason.
        reason: String,
    },
    /// The peer hung up.
    Gone,
    /// The peer, or any peer, took too long.
    Silent,
    /// The master has fewer rings.
    TooFewQueues {
        /// Wanted.
        wanted: u16,
        /// Offered.
        available: u16,
    },
    /// A setting makes no sense.
    Invalid {
        /// What and why.
        reason: String,
    },
    /// Anything else the system said.
    System {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl MemifError {
    fn refused(what: impl Into<String>) -> MemifError {
        MemifError::Refused { what: what.into() }
    }

    fn system(what: &'static str, source: io::Error) -> MemifError {
        MemifError::System { what, source }
    }
}

impl fmt::Display for MemifError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemifError::Socket { path, what, source } => {
                write!(f, "memif socket {}: {what}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        f.write_str("; start the other end, the master, first")
                    }
                    _ => Ok(()),
                }
            }
            MemifError::Occupied { path } => write!(
                f,
                "memif socket {}: another program listens there: stop it, or choose another socket",
                path.display()
            ),
            MemifError::Refused { what } => write!(f, "the memif peer was refused: {what}"),
            MemifError::Disconnected { reason } => write!(f, "the memif peer disconnected: {reason}"),
            MemifError::Gone => f.write_str("the memif peer hung up"),
            MemifError::Silent => f.write_str("the memif peer did not answer in time"),
            MemifError::TooFewQueues { wanted, available } => {
                write!(f, "the memif master offers {available} queues, not {wanted}: ask for fewer")
            }
            MemifError::Invalid { reason } => f.write_str(reason),
            MemifError::System { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for MemifError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            MemifError::Socket { source, .. } | MemifError::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// How a connected peer broke the rules: it is cut off, at once and for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// A ring position moved back, or past what it may reach.
    Index,
    /// A descriptor names a region there isn't.
    Region,
    /// A descriptor reaches beyond its region, or a packet beyond its buffer.
    Extent,
    /// A packet of more pieces than any packet has, or without an end.
    Chain,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Violation::Index => "it moved a ring position out of range",
            Violation::Region => "it named a region there isn't",
            Violation::Extent => "it named bytes beyond a buffer",
            Violation::Chain => "it sent a packet without an end",
        })
    }
}

/// A connection, its queues not yet opened.
#[derive(Debug)]
pub struct MemifDevice {
    link: MemifLink,
    openers: Vec<MemifOpener>,
}

impl MemifDevice {
    fn new(link: MemifLink, queues: Vec<queue::QueueParts>, config: &MemifConfig) -> MemifDevice {
        let openers = queues.into_iter().map(|parts| MemifOpener::new(parts, link.clone(), config)).collect();
        MemifDevice { link, openers }
    }

    /// The connection's fate.
    pub fn link(&self) -> &MemifLink {
        &self.link
    }

    /// The queues, each to be opened on the thread that will use it.
    pub fn into_openers(self) -> Vec<MemifOpener> {
        self.openers
    }

    /// Opens the first queue on this thread.
    ///
    /// # Errors
    /// Those of [`MemifOpener::open`].
    pub fn open(self) -> Result<Memif, MemifError> {
        match self.openers.into_iter().next() {
            Some(opener) => opener.open(),
            None => Err(MemifError::refused("no queue")),
        }
    }
}

/// A master's socket. Removed when dropped.
#[derive(Debug)]
pub struct MemifListener {
    config: MemifConfig,
    socket: OwnedFd,
}

impl MemifListener {
    /// Listens on the configured socket. One that a program left behind is replaced.
    ///
    /// # Errors
    /// [`MemifError::Occupied`], [`MemifError::Socket`], [`MemifError::Invalid`].
    pub fn bind(config: MemifConfig) -> Result<MemifListener, MemifError> {
        handshake::check_config(&config)?;
        let path = &config.socket;
        let fail = |what, source| MemifError::Socket { path: path.clone(), what, source };
        let (address, length) = control::address(path)?;
        let socket = control::new_socket().map_err(|error| fail("make it", error))?;
        let bind = || {
            // SAFETY: a live address of the length given.
            match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        let mut bound = bind();
        if bound.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse) {
            if dial(path).is_ok() {
                return Err(MemifError::Occupied { path: path.clone() });
            }
            if is_left_behind(path) {
                bound = std::fs::remove_file(path).and_then(|()| bind());
            }
        }
        bound.map_err(|error| fail("bind to it", error))?;
        // SAFETY: takes no pointers.
        if unsafe { libc::listen(socket.as_raw_fd(), 16) } != 0 {
            return Err(fail("listen on it", io::Error::last_os_error()));
        }
        Ok(MemifListener { config, socket })
    }

    /// Waits for a slave, at most `timeout`, and shakes hands with it. A listener may accept again and again; while a
    /// connection lasts whoever else connects waits.
    ///
    /// # Errors
    /// [`MemifError::Silent`] if nobody came; else what was wrong with who came: the caller may try the next.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<MemifDevice, MemifError> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        if !handshake::await_peer(&self.socket, deadline)? {
            return Err(MemifError::Silent);
        }
        // SAFETY: no address is asked for.
        let fd = unsafe {
            libc::accept4(
                self.socket.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        };
        if fd < 0 {
            return Err(MemifError::system("accept a memif peer", io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor that nobody else owns.
        handshake::greet(unsafe { OwnedFd::from_raw_fd(fd) }, &self.config)
    }

    /// A descriptor that polls readable when a slave waits.
    pub fn doorbell(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for MemifListener {
    fn drop(&mut self) {
        // Gone already, or not ours any more: nothing to be done.
        let _ = std::fs::remove_file(&self.config.socket);
    }
}

fn dial(path: &Path) -> Result<OwnedFd, MemifError> {
    let (address, length) = control::address(path)?;
    let fail = |what, source| MemifError::Socket { path: path.to_owned(), what, source };
    let socket = control::new_socket().map_err(|error| fail("make it", error))?;
    // SAFETY: a live address of the length given.
    if unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
        return Err(fail("connect to it", io::Error::last_os_error()));
    }
    Ok(socket)
}

/// Connects to a master as its slave, trying for `patience` while nobody listens.
///
/// # Errors
/// [`MemifError::Socket`] if there is no master; else what was wrong with it.
pub fn connect(config: &MemifConfig, patience: Duration) -> Result<MemifDevice, MemifError> {
    handshake::check_config(config)?;
    let deadline = Instant::now() + patience;
    loop {
        match dial(&config.socket) {
            Ok(socket) => return handshake::introduce(socket, config),
            Err(MemifError::Socket { source, .. })
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}
