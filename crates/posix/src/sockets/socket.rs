//! A socket of ours: an open file description, as POSIX calls it, that descriptors of one or several processes refer to.

use crate::sys::wakers::Waker;
use libc::{c_int, c_short};
use qanat::{Chunk, CloseReason, CommandError, CongestionAlgorithm, ConnectionId, ListenerId, UdpSocketId};
use qanat_stack::UdpError;
use qanat_stack::tcp::CookieKeys;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Bytes given to the stack and not yet acknowledged, at most.
pub(crate) const SEND_BYTES_MAX: usize = 1 << 20;
/// Calls whose bytes are not yet acknowledged, at most: below the stack's own limit.
const SEND_PIECES_MAX: usize = 1_000;
/// Datagrams not yet read, at most.
const DATAGRAMS_MAX: usize = 1_024;

/// Which of an instance's interests, as long as it is there.
pub(crate) type Place = u32;

pub(crate) struct Socket {
    /// Descriptors, of all processes.
    pub(crate) references: u32,
    pub(crate) family: c_int,
    pub(crate) is_nonblocking: bool,
    /// The descriptor's socket in the kernel is bound as well, and listens if this one does.
    pub(crate) is_dual: bool,
    /// What `SO_ERROR` will say.
    pub(crate) error: Option<Errno>,
    /// An attempt to connect has failed, and `connect` has not told yet: until then nothing can be sent or received.
    pub(crate) has_failed: bool,
    pub(crate) receive_timeout: Option<Duration>,
    pub(crate) send_timeout: Option<Duration>,
    /// The process or thread that gets `SIGURG` (`F_SETOWN`).
    pub(crate) owner: Owner,
    /// `SO_LINGER`.
    pub(crate) linger: Option<Duration>,
    pub(crate) options: Options,
    pub(crate) local: SocketAddr,
    pub(crate) peer: Option<SocketAddr>,
    /// Where it is connected to as soon as something is sent (`TCP_FASTOPEN_CONNECT`); until then it is bound.
    pub(crate) deferred: Option<SocketAddr>,
    /// Instances of `epoll` that look at it, and which of their interests it is.
    pub(crate) watchers: Vec<(u32, Place)>,
    /// Threads that wait for it.
    pub(crate) waiters: Vec<Waker>,
    pub(crate) kind: Kind,
}

/// What programs set on a socket and the stack must be told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) no_delay: bool,
    pub(crate) cork: bool,
    pub(crate) keepalive: bool,
    pub(crate) keep_idle_s: Option<u32>,
    pub(crate) keep_interval_s: Option<u32>,
    pub(crate) keep_count: Option<u32>,
    pub(crate) user_timeout: Option<Duration>,
    /// How congestion is controlled, if the program has said it.
    pub(crate) congestion: Option<CongestionAlgorithm>,
    pub(crate) v6_only: bool,
    /// What is told beside what is received.
    pub(crate) control_messages: crate::sockets::messages::Asked,
    /// `IP_RECVERR`: what ICMP says of datagrams is received like them.
    pub(crate) receive_errors: bool,
    /// `IP_MTU_DISCOVER`, `IPV6_DONTFRAG`: what does not fit the path whole is refused.
    pub(crate) dont_fragment: bool,
    /// `UDP_SEGMENT`: what is sent at once is several datagrams of this length.
    pub(crate) segment: Option<usize>,
    /// The program has bound it.
    pub(crate) has_bound: bool,
    /// The program named its port.
    pub(crate) names_port: bool,
    /// `SO_BROADCAST`.
    pub(crate) broadcast: bool,
    /// `SO_RCVLOWAT`: bytes below which a stream is not readable; 0 is as good as 1.
    pub(crate) low_water: usize,
    /// `TCP_DEFER_ACCEPT`: connections are accepted when they have data.
    pub(crate) defer_accept: bool,
    /// `SO_SNDBUF` of a stream and `SO_RCVBUF`, bytes, if the program has set them.
    pub(crate) send_room: Option<usize>,
    pub(crate) receive_room: Option<usize>,
    /// `TCP_NOTSENT_LOWAT`: see [`Stream::unsent_mark`].
    pub(crate) unsent_mark: u32,
    /// `TCP_SYNCNT`.
    pub(crate) syn_retransmissions: Option<u8>,
    pub(crate) fast_open: FastOpen,
    /// `UDP_CORK`: what is sent is joined into one datagram.
    pub(crate) joins: bool,
    /// `TCP_MAXSEG`, if the program has set it.
    pub(crate) maximum_segment: Option<u16>,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
    /// `SO_OOBINLINE`: an urgent byte is read like any other.
    pub(crate) urgent_inline: bool,
}

impl Options {
    /// What `SO_RCVBUF` lets a stream's window be: half of what the kernel says of it, as there.
    pub(crate) fn receive_window(&self) -> Option<u32> {
        self.receive_room.map(|room| u32::try_from(room / 2).unwrap_or(u32::MAX))
    }
}

/// TCP Fast Open (RFC 7413), as the program has set it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FastOpen {
    /// `TCP_FASTOPEN`: connections of a listener whose handshake is not over, at most.
    pub(crate) queue: u32,
    /// `TCP_FASTOPEN_CONNECT`: the SYN goes with what is sent first.
    pub(crate) connects: bool,
    /// `TCP_FASTOPEN_NO_COOKIE`.
    pub(crate) without_cookie: bool,
    /// `TCP_FASTOPEN_KEY`.
    pub(crate) keys: Option<CookieKeys>,
}

/// The process or thread that gets a socket's signals, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Nobody,
    /// A process, or, negative, a group of them.
    Process(libc::pid_t),
    Thread(libc::pid_t),
}

impl Owner {
    /// Says that urgent data is on its way.
    fn signal(self) {
        // A process that has ended is not told.
        match self {
            Owner::Nobody => {}
            // SAFETY: the call takes no pointers.
            Owner::Process(process) => _ = unsafe { libc::kill(process, libc::SIGURG) },
            // SAFETY: the call takes no pointers.
            Owner::Thread(thread) => _ = unsafe { libc::syscall(libc::SYS_tkill, thread, libc::SIGURG) },
        }
    }
}

pub(crate) enum Kind {
    /// TCP, bound.
    Bound,
    Listener(Listener),
    Stream(Stream),
    Datagram(Datagram),
}

pub(crate) struct Listener {
    pub(crate) listeners: Vec<ListenerId>,
    /// Sockets of connections not yet accepted.
    pub(crate) pending: VecDeque<u32>,
    pub(crate) backlog: usize,
}

impl Listener {
    /// Whether one more connection may wait, or would be among `more` too many. As Linux counts: one more than was asked for.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.pending.len() <= self.backlog + more
    }
}

#[derive(Default)]
pub(crate) struct Stream {
    /// `None`: over.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) is_connecting: bool,
    pub(crate) chunks: VecDeque<Chunk>,
    /// Bytes of the first chunk already read.
    pub(crate) front_read: usize,
    /// Bytes in `chunks` not yet read.
    pub(crate) unread: usize,
    pub(crate) urgent: Option<Urgent>,
    /// Bytes sent and not acknowledged, in all and by call.
    pub(crate) unacknowledged: usize,
    pub(crate) pieces: VecDeque<usize>,
    /// The last call said that more would follow (`MSG_MORE`).
    pub(crate) more: bool,
    /// FIN came.
    pub(crate) peer_closed: bool,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    /// `connect` has said that it is there.
    pub(crate) is_reported: bool,
    /// The listener that has it as soon as there are data, by `TCP_DEFER_ACCEPT`.
    pub(crate) deferred_by: Option<u32>,
    /// Bytes given to the stack and not yet acknowledged, at most, if the program has set it.
    pub(crate) send_room: Option<usize>,
    /// `TCP_NOTSENT_LOWAT`: with so many bytes not sent nothing is taken, with half as many it is not writable; 0: no mark.
    pub(crate) unsent_mark: u32,
    /// Bytes given to the stack and, as far as is known here, not sent; counted only with a mark.
    pub(crate) unsent: u64,
    /// Those were too many when they were counted last. When they no longer are, the threads that wait are told.
    pub(crate) is_held_back: bool,
}

/// A byte that the peer has said is urgent (RFC 6093), until the program's reading has gone past it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Urgent {
    /// Bytes to be read before it.
    pub(crate) ahead: usize,
    /// It was read apart, by `MSG_OOB`.
    pub(crate) is_read: bool,
}

impl Stream {
    pub(crate) fn new(connection: ConnectionId, is_connecting: bool) -> Stream {
        // Of one that was accepted nobody need be told.
        Stream { connection: Some(connection), is_connecting, is_reported: !is_connecting, ..Stream::default() }
    }

    /// Bytes that may be given to the stack now.
    pub(crate) fn room(&self) -> usize {
        if self.pieces.len() >= SEND_PIECES_MAX { 0 } else { self.room_max().saturating_sub(self.unacknowledged) }
    }

    fn room_max(&self) -> usize {
        self.send_room.unwrap_or(SEND_BYTES_MAX)
    }

    /// Whether the mark lets the program give more.
    pub(crate) fn is_below_mark(&self) -> bool {
        self.unsent_mark == 0 || self.unsent < u64::from(self.unsent_mark)
    }

    /// Whether so little is unsent that a program is to be told to give more: as Linux (`tcp_stream_memory_free`) less than half
    /// the mark, so that it is not woken for a few bytes.
    pub(crate) fn is_well_below_mark(&self) -> bool {
        self.unsent_mark == 0 || self.unsent * 2 < u64::from(self.unsent_mark)
    }

    /// Notes how much is not sent. Returns whether threads that wait to write are to be told.
    pub(crate) fn count_unsent(&mut self, bytes: u64) -> bool {
        self.unsent = bytes;
        let is_held_back = !self.is_well_below_mark();
        std::mem::replace(&mut self.is_held_back, is_held_back) && !is_held_back
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.unacknowledged += bytes;
        if self.unsent_mark > 0 {
            self.unsent += bytes as u64;
        }
        self.pieces.push_back(bytes);
    }

    pub(crate) fn acknowledged(&mut self, mut bytes: usize) {
        self.unacknowledged = self.unacknowledged.saturating_sub(bytes);
        while let Some(first) = self.pieces.front_mut() {
            if *first > bytes {
                *first -= bytes;
                break;
            }
            bytes -= *first;
            self.pieces.pop_front();
        }
    }

    /// Whether an urgent byte has come that nobody has read apart.
    pub(crate) fn has_urgent(&self) -> bool {
        self.urgent.is_some_and(|urgent| !urgent.is_read && urgent.ahead < self.unread)
    }

    /// Whether all before the urgent byte has been read (`SIOCATMARK`).
    pub(crate) fn is_at_mark(&self) -> bool {
        self.urgent.is_some_and(|urgent| urgent.ahead == 0)
    }

    /// The unread byte behind `ahead` others.
    pub(crate) fn byte_at(&self, ahead: usize) -> Option<u8> {
        let mut at = self.front_read + ahead;
        for chunk in &self.chunks {
            if let Some(byte) = chunk.bytes().get(at) {
                return Some(*byte);
            }
            at -= chunk.len();
        }
        None
    }

    /// So many bytes were read, or passed over: the first chunk, if that was its end.
    pub(crate) fn passed(&mut self, bytes: usize) -> Option<Chunk> {
        self.unread -= bytes;
        self.front_read += bytes;
        self.urgent = self.urgent.and_then(|urgent| {
            let ahead = urgent.ahead.checked_sub(bytes)?;
            Some(Urgent { ahead, ..urgent })
        });
        if self.chunks.front().is_some_and(|chunk| self.front_read < chunk.len()) {
            return None;
        }
        self.front_read = 0;
        self.chunks.pop_front()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.peer_closed || self.read_shut || self.connection.is_none()
    }

    /// As Linux tells: room for a third at least, so that a writer is not woken for every segment.
    pub(crate) fn is_writable(&self) -> bool {
        let has_room = self.room() >= self.room_max() / 3 && self.is_well_below_mark();
        self.write_shut || self.connection.is_none() || has_room
    }
}

#[derive(Default)]
pub(crate) struct Datagram {
    pub(crate) sockets: Vec<UdpSocketId>,
    pub(crate) queue: VecDeque<(SocketAddr, Chunk)>,
    /// What the queue would take of a receive buffer.
    queued: usize,
    pub(crate) read_shut: bool,
    pub(crate) write_shut: bool,
    /// What ICMP said of datagrams, if it was asked for (`IP_RECVERR`).
    pub(crate) errors: VecDeque<UdpError>,
    /// A datagram that is being put together (`MSG_MORE`, `UDP_CORK`).
    pub(crate) begun: Option<Box<Begun>>,
}

/// The beginning of a datagram.
pub(crate) struct Begun {
    /// At most as many as one may have.
    pub(crate) bytes: Vec<u8>,
    /// What was said with the first of them holds for all.
    pub(crate) peer: SocketAddr,
    pub(crate) wanted: crate::sockets::messages::Wanted,
}

/// What Linux counts for a datagram besides its bytes, about.
const DATAGRAM_OVERHEAD: usize = 768;

impl Datagram {
    /// Puts one with those to be read; whether there was room.
    pub(crate) fn push(&mut self, peer: SocketAddr, chunk: Chunk, room: Option<usize>) -> bool {
        let is_full = room.is_some_and(|room| self.queued > room);
        let has_room = self.queue.len() < DATAGRAMS_MAX && !is_full;
        if has_room {
            self.queued += chunk.len() + DATAGRAM_OVERHEAD;
            self.queue.push_back((peer, chunk));
        }
        has_room
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self) -> Option<(SocketAddr, Chunk)> {
        let first = self.queue.pop_front()?;
        self.queued = self.queued.saturating_sub(first.1.len() + DATAGRAM_OVERHEAD);
        Some(first)
    }
}

impl Socket {
    /// As [`Listener::has_room`]; of what is none, never.
    pub(crate) fn has_queue_room(&self, more: usize) -> bool {
        matches!(&self.kind, Kind::Listener(listener) if listener.has_room(more))
    }

    pub(crate) fn new(family: c_int, local: SocketAddr, kind: Kind) -> Socket {
        Socket {
            references: 0,
            family,
            is_nonblocking: false,
            is_dual: false,
            error: None,
            has_failed: false,
            receive_timeout: None,
            send_timeout: None,
            owner: Owner::Nobody,
            linger: None,
            options: Options::default(),
            local,
            peer: None,
            deferred: None,
            watchers: Vec::new(),
            waiters: Vec::new(),
            kind,
        }
    }

    /// What `poll` would say of it.
    pub(crate) fn readiness(&self) -> c_short {
        let mut ready = if self.error.is_some() { libc::POLLERR } else { 0 };
        match &self.kind {
            Kind::Bound if self.deferred.is_some() => ready |= libc::POLLOUT | libc::POLLWRNORM,
            Kind::Bound => {
                if self.has_failed {
                    ready |= libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP;
                }
                ready |= libc::POLLOUT | libc::POLLWRNORM | libc::POLLHUP;
            }
            Kind::Listener(listener) => {
                if !listener.pending.is_empty() {
                    ready |= libc::POLLIN | libc::POLLRDNORM;
                }
            }
            Kind::Stream(stream) => {
                if stream.is_connecting && stream.connection.is_some() {
                    return ready;
                }
                // An urgent byte that is next is passed over.
                let passed_over = usize::from(stream.is_at_mark() && !self.options.urgent_inline);
                if stream.unread >= self.options.low_water.max(1) + passed_over || stream.is_at_end() {
                    ready |= libc::POLLIN | libc::POLLRDNORM;
                }
                if stream.has_urgent() {
                    ready |= libc::POLLPRI;
                }
                if stream.is_at_end() {
                    ready |= libc::POLLRDHUP;
                }
                if stream.is_writable() {
                    ready |= libc::POLLOUT | libc::POLLWRNORM;
                }
                let is_shut = stream.write_shut && (stream.peer_closed || stream.read_shut);
                if stream.connection.is_none() || is_shut {
                    ready |= libc::POLLHUP;
                }
            }
            Kind::Datagram(datagram) => {
                ready |= libc::POLLOUT | libc::POLLWRNORM;
                if !datagram.queue.is_empty() || datagram.read_shut {
                    ready |= libc::POLLIN | libc::POLLRDNORM;
                }
                if !datagram.errors.is_empty() {
                    ready |= libc::POLLERR;
                }
                if datagram.read_shut {
                    ready |= libc::POLLRDHUP;
                }
                if datagram.read_shut && datagram.write_shut {
                    ready |= libc::POLLHUP;
                }
            }
        }
        ready
    }

    pub(crate) fn is_connection(&self) -> bool {
        matches!(self.kind, Kind::Stream(_))
    }

    /// What `connect` says of an attempt that has failed; then it may be tried again.
    pub(crate) fn tell_failure(&mut self) -> Errno {
        self.has_failed = false;
        self.take_error().unwrap_or(Errno::CONNABORTED)
    }

    /// Whether datagrams may be sent to `peer`: to everybody only with leave (`SO_BROADCAST`).
    pub(crate) fn may_send_to(&self, peer: SocketAddr) -> bool {
        self.options.broadcast || !crate::sys::wishes::is_everybody(peer.ip())
    }

    /// The peer has said that the byte behind `ahead` further ones is urgent. Gives what of the stream is done with.
    pub(crate) fn urgent(&mut self, ahead: usize) -> Option<Chunk> {
        let (is_inline, owner) = (self.options.urgent_inline, self.owner);
        let Kind::Stream(stream) = &mut self.kind else { return None };
        // As Linux: one that reading has stopped at is passed over now, or it would be read as what it is not.
        let is_passed_over = stream.is_at_mark() && stream.unread > 0 && !is_inline;
        let done = if is_passed_over { stream.passed(1) } else { None };
        stream.urgent = Some(Urgent { ahead: stream.unread + ahead, is_read: false });
        owner.signal();
        done
    }

    /// Datagrams to be read behind the first.
    pub(crate) fn datagrams_behind(&self) -> usize {
        match &self.kind {
            Kind::Datagram(datagram) => datagram.queue.len().saturating_sub(1),
            _ => 0,
        }
    }

    /// Takes the pending error, as `SO_ERROR` does.
    pub(crate) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }
}

/// What a socket says of how its connection ended. `None`: it ended well.
pub(crate) fn errno_of(why: CloseReason) -> Option<Errno> {
    Some(match why {
        CloseReason::Finished => return None,
        CloseReason::ResetByPeer => Errno::CONNRESET,
        CloseReason::Aborted => Errno::CONNABORTED,
        CloseReason::TimedOut => Errno::TIMEDOUT,
        CloseReason::Refused => Errno::CONNREFUSED,
        CloseReason::NetworkUnreachable => Errno::NETUNREACH,
        CloseReason::ProtocolUnreachable => Errno::NOPROTOOPT,
        CloseReason::Unreachable | CloseReason::Prohibited | CloseReason::HopLimitExceeded => Errno::HOSTUNREACH,
    })
}

/// What a call says of a command that the stack refuses.
pub(crate) fn errno_of_command(error: CommandError) -> Errno {
    match error {
        CommandError::Stale => Errno::NOTCONN,
        CommandError::Full => Errno::NOBUFS,
        CommandError::InUse => Errno::ADDRINUSE,
        CommandError::Unreachable => Errno::NETUNREACH,
        CommandError::NotSending => Errno::PIPE,
        CommandError::TooLong => Errno::MSGSIZE,
        CommandError::Unsupported => Errno::OPNOTSUPP,
    }
}
