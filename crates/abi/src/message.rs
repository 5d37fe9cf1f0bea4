//! Events and commands as messages of 32 bytes.
//!
//! ```text
//!   byte 0     1       2…3     4…7       8…15              16…31
//!   kind     flags    short    word     id or two words    address, or more words
//! ```
//! Words are little-endian. The flags' top bit is the ring's. Decoding checks everything that can be checked without knowing the
//! objects. An unknown kind, a flag that means nothing or a length beyond its bounds is a [`BadMessage`], and its sender is cut off.

use crate::ring::Words;
use qanat_api::{Setting, SettingWords};
use qanat_wire::ethernet::MacAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Frames a [`Command::Release`] names at most.
pub const RELEASES_MAX: usize = 6;

/// A slot and its generation: a connection, a listener, a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Id {
    /// Slot, dense from zero.
    pub slot: u32,
    /// Which of the slot's tenants.
    pub generation: u32,
}

/// Bytes of receive memory lent to the service: a window of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The frame's number.
    pub frame: u32,
    /// First byte, from the frame's start.
    pub start: u16,
    /// Bytes.
    pub length: u16,
}

/// A range of the service's transmit memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// Net core to service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer completed a handshake.
    Accepted {
        /// The new connection.
        connection: Id,
        /// Slot of the listener.
        listener: u16,
        /// From where.
        peer: SocketAddr,
    },
    /// A connect succeeded.
    Connected {
        /// Which.
        connection: Id,
    },
    /// Bytes of a stream.
    Data {
        /// Of which.
        connection: Id,
        /// Where they are.
        window: Window,
        /// Bytes acknowledged before, as [`Event::Acked`] says; 0: none. Most that comes acknowledges something.
        acked: u32,
    },
    /// Bytes acknowledged; their memory is the service's again.
    Acked {
        /// On which.
        connection: Id,
        /// How many more.
        bytes: u32,
    },
    /// FIN from the peer.
    PeerClosed {
        /// On which.
        connection: Id,
    },
    /// The connection is gone.
    Closed {
        /// Which.
        connection: Id,
        /// `CloseReason` by number.
        why: u8,
    },
    /// An address of ours is somebody else's.
    AddressConflict {
        /// Which.
        address: IpAddr,
        /// The Ethernet address of the host that has it.
        holder: MacAddress,
    },
    /// A datagram.
    Datagram {
        /// Slot of the socket.
        socket: u16,
        /// From where.
        peer: SocketAddr,
        /// The payload.
        window: Window,
    },
    /// The outcome of the command that asked for one.
    Answer {
        /// The command's number.
        request: u32,
        /// 0: done; else a `CommandError` by number.
        error: u8,
        /// The new object.
        id: Id,
    },
    /// The connection just accepted was another service's, which gave it up: so many bytes of that one's are still to be
    /// acknowledged. Of no connection (all ones): how many others share a listener.
    Moved {
        /// Which.
        connection: Id,
        /// Bytes, or services.
        unacknowledged: u32,
    },
}

/// Service to net core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Accept connections; answered.
    Listen {
        /// Number of the answer.
        request: u32,
        /// Where.
        local: SocketAddr,
        /// Half-open connections; 0: the stack's limit.
        backlog: u32,
    },
    /// Open a UDP socket; answered.
    BindUdp {
        /// Number of the answer.
        request: u32,
        /// Where.
        local: SocketAddr,
    },
    /// The local address of the next [`Command::Connect`].
    ConnectFrom {
        /// Where from.
        local: SocketAddr,
    },
    /// Start a connection; answered.
    Connect {
        /// Number of the answer.
        request: u32,
        /// Where to.
        peer: SocketAddr,
    },
    /// Accept no more.
    CloseListener {
        /// Which.
        listener: Id,
    },
    /// Close a UDP socket.
    CloseUdp {
        /// Which.
        socket: Id,
    },
    /// Send bytes of transmit memory, which stay as they are until acknowledged, or until the connection is gone.
    Send {
        /// On which connection.
        connection: Id,
        /// The bytes.
        range: Range,
        /// A frame of the same stream given back before, as by [`Command::Consume`]: an answer means that the question was read.
        consumed: Option<u32>,
    },
    /// Send a datagram. The bytes are done with when the command is.
    SendTo {
        /// Slot of the socket.
        socket: u16,
        /// Where to.
        peer: SocketAddr,
        /// First byte in transmit memory.
        offset: u32,
        /// Bytes.
        length: u16,
    },
    /// Send a datagram's payload on, in the frame it came in, which is given back.
    SendChunkTo {
        /// Slot of the socket.
        socket: u16,
        /// Where to.
        peer: SocketAddr,
        /// What of the frame; within what was lent.
        window: Window,
    },
    /// Give a frame of a stream back: the receive window opens.
    Consume {
        /// Which stream's.
        connection: Id,
        /// The frame.
        frame: u32,
    },
    /// Give frames back.
    Release {
        /// How many of them count.
        count: u8,
        /// Which.
        frames: [u32; RELEASES_MAX],
    },
    /// FIN after what was sent.
    Shutdown {
        /// On which.
        connection: Id,
    },
    /// FIN after what was sent; receive no more.
    Close {
        /// Which.
        connection: Id,
    },
    /// RST.
    Abort {
        /// Which.
        connection: Id,
    },
    /// Change how a connection behaves.
    Set {
        /// Which.
        connection: Id,
        /// How.
        setting: Setting,
    },
    /// Give a connection up to another service that shares its listener, with what was received and not yet looked at. Of no
    /// connection (all ones): ask how many others there are.
    Yield {
        /// Which.
        connection: Id,
    },
}

impl Id {
    /// Of nothing.
    pub const NONE: Id = Id { slot: u32::MAX, generation: u32::MAX };
}

/// What is not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of kind {kind} that says nothing")]
pub struct BadMessage {
    /// Its first byte.
    pub kind: u8,
}

/// What goes through a ring.
pub trait Message: Sized {
    /// As it lies in a slot.
    fn encode(&self) -> Words;
    /// Checked.
    ///
    /// # Errors
    /// [`BadMessage`].
    fn decode(words: Words) -> Result<Self, BadMessage>;
}

const FLAG: u8 = 1;

/// The fields every message has room for.
#[derive(Clone, Copy)]
struct Raw {
    kind: u8,
    flags: u8,
    short: u16,
    word: u32,
    /// Words 1 to 3.
    rest: [u64; 3],
}

impl Raw {
    fn of(kind: u8) -> Raw {
        Raw { kind, flags: 0, short: 0, word: 0, rest: [0; 3] }
    }

    fn with_id(mut self, id: Id) -> Raw {
        self.rest[0] = u64::from(id.slot) | u64::from(id.generation) << 32;
        self
    }

    fn with_window(mut self, window: Window) -> Raw {
        self.word = window.frame;
        self.rest[0] |= u64::from(window.start) << 16 | u64::from(window.length) << 32;
        self
    }

    /// The address in the last two words; its family in the flags.
    fn with_address(mut self, address: IpAddr) -> Raw {
        let bytes = match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()),
            IpAddr::V6(v6) => {
                self.flags |= FLAG;
                v6.to_bits()
            }
        };
        (self.rest[1], self.rest[2]) = (bytes as u64, (bytes >> 64) as u64);
        self
    }

    fn words(self) -> Words {
        let first = u64::from(self.kind)
            | u64::from(self.flags) << 8
            | u64::from(self.short) << 16
            | u64::from(self.word) << 32;
        [first, self.rest[0], self.rest[1], self.rest[2]]
    }

    fn read(words: Words) -> Raw {
        let first = words[0];
        Raw {
            kind: first as u8,
            flags: (first >> 8) as u8,
            short: (first >> 16) as u16,
            word: (first >> 32) as u32,
            rest: [words[1], words[2], words[3]],
        }
    }

    fn id(&self) -> Id {
        Id { slot: self.rest[0] as u32, generation: (self.rest[0] >> 32) as u32 }
    }

    fn window(&self) -> Window {
        Window { frame: self.word, start: (self.rest[0] >> 16) as u16, length: (self.rest[0] >> 32) as u16 }
    }

    fn bad(&self) -> BadMessage {
        BadMessage { kind: self.kind }
    }

    fn flag(&self) -> Result<bool, BadMessage> {
        if self.flags > FLAG { Err(self.bad()) } else { Ok(self.flags == FLAG) }
    }

    fn address(&self) -> Result<IpAddr, BadMessage> {
        let bits = u128::from(self.rest[1]) | u128::from(self.rest[2]) << 64;
        match self.flag()? {
            true => Ok(Ipv6Addr::from_bits(bits).into()),
            false => u32::try_from(bits).map(|bits| Ipv4Addr::from_bits(bits).into()).map_err(|_| self.bad()),
        }
    }
}

/// With the port in `short`.
fn at(raw: Raw, address: SocketAddr) -> Raw {
    Raw { short: address.port(), ..raw.with_address(address.ip()) }
}

/// With the slot in `short`, and the port below the rest.
fn of_socket(raw: Raw, slot: u16, address: SocketAddr) -> Raw {
    let mut raw = raw.with_address(address.ip());
    raw.short = slot;
    raw.rest[0] |= u64::from(address.port());
    raw
}

impl Event {
    /// Frame and start of the bytes that a message tells of, if it is of some: to ask for them before it is taken.
    #[inline]
    pub fn bytes_of(words: Words) -> Option<(u32, u16)> {
        let raw = Raw::read(words);
        match raw.kind {
            3 => Some((raw.word, raw.rest[1] as u16)),
            8 => Some((raw.word, raw.window().start)),
            _ => None,
        }
    }
}

impl Message for Event {
    #[inline]
    fn encode(&self) -> Words {
        match *self {
            Event::Accepted { connection, listener, peer } => {
                Raw { word: listener.into(), ..at(Raw::of(1).with_id(connection), peer) }
            }
            Event::Connected { connection } => Raw::of(2).with_id(connection),
            Event::Data { connection, window, acked } => {
                let mut raw = Raw { word: window.frame, ..Raw::of(3).with_id(connection) };
                raw.rest[1] = u64::from(window.start) | u64::from(window.length) << 16 | u64::from(acked) << 32;
                raw
            }
            Event::Acked { connection, bytes } => Raw { word: bytes, ..Raw::of(4).with_id(connection) },
            Event::PeerClosed { connection } => Raw::of(5).with_id(connection),
            Event::Closed { connection, why } => Raw { short: why.into(), ..Raw::of(6).with_id(connection) },
            Event::AddressConflict { address, holder } => {
                let mut raw = Raw::of(7).with_address(address);
                raw.rest[0] = holder.to_bits();
                raw
            }
            Event::Datagram { socket, peer, window } => of_socket(Raw::of(8).with_window(window), socket, peer),
            Event::Answer { request, error, id } => {
                Raw { word: request, short: error.into(), ..Raw::of(9).with_id(id) }
            }
            Event::Moved { connection, unacknowledged } => {
                Raw { word: unacknowledged, ..Raw::of(10).with_id(connection) }
            }
        }
        .words()
    }

    #[inline]
    fn decode(words: Words) -> Result<Event, BadMessage> {
        let raw = Raw::read(words);
        let connection = raw.id();
        let small = |value: u16| u8::try_from(value).map_err(|_| raw.bad());
        Ok(match raw.kind {
            1 => Event::Accepted {
                connection,
                listener: u16::try_from(raw.word).map_err(|_| raw.bad())?,
                peer: SocketAddr::new(raw.address()?, raw.short),
            },
            2 => Event::Connected { connection },
            3 => {
                let (start, length) = (raw.rest[1] as u16, (raw.rest[1] >> 16) as u16);
                let window = Window { frame: raw.word, start, length };
                Event::Data { connection, window, acked: (raw.rest[1] >> 32) as u32 }
            }
            4 => Event::Acked { connection, bytes: raw.word },
            5 => Event::PeerClosed { connection },
            6 => Event::Closed { connection, why: small(raw.short)? },
            7 => {
                let holder = MacAddress::from_bits(raw.rest[0]).ok_or_else(|| raw.bad())?;
                Event::AddressConflict { address: raw.address()?, holder }
            }
            8 => Event::Datagram {
                socket: raw.short,
                peer: SocketAddr::new(raw.address()?, raw.rest[0] as u16),
                window: raw.window(),
            },
            9 => Event::Answer { request: raw.word, error: small(raw.short)?, id: connection },
            10 => Event::Moved { connection, unacknowledged: raw.word },
            _ => return Err(raw.bad()),
        })
    }
}

impl Message for Command {
    #[inline]
    fn encode(&self) -> Words {
        match *self {
            Command::Listen { request, local, backlog } => {
                let mut raw = Raw { word: request, ..at(Raw::of(1), local) };
                raw.rest[0] = backlog.into();
                raw
            }
            Command::BindUdp { request, local } => Raw { word: request, ..at(Raw::of(2), local) },
            Command::ConnectFrom { local } => at(Raw::of(3), local),
            Command::Connect { request, peer } => Raw { word: request, ..at(Raw::of(4), peer) },
            Command::CloseListener { listener } => Raw::of(5).with_id(listener),
            Command::CloseUdp { socket } => Raw::of(6).with_id(socket),
            Command::Send { connection, range, consumed } => {
                let flags = consumed.is_some().into();
                let mut raw = Raw { word: range.offset, flags, ..Raw::of(7).with_id(connection) };
                raw.rest[1] = u64::from(range.length) | u64::from(consumed.unwrap_or(0)) << 32;
                raw
            }
            Command::SendTo { socket, peer, offset, length } => {
                let mut raw = Raw { word: offset, ..of_socket(Raw::of(8), socket, peer) };
                raw.rest[0] |= u64::from(length) << 32;
                raw
            }
            Command::SendChunkTo { socket, peer, window } => of_socket(Raw::of(9).with_window(window), socket, peer),
            Command::Consume { connection, frame } => Raw { word: frame, ..Raw::of(10).with_id(connection) },
            Command::Release { count, frames } => {
                let pair = |index: usize| u64::from(frames[index]) | u64::from(frames[index + 1]) << 32;
                Raw { short: count.into(), rest: [pair(0), pair(2), pair(4)], ..Raw::of(11) }
            }
            Command::Shutdown { connection } => Raw::of(12).with_id(connection),
            Command::Close { connection } => Raw::of(13).with_id(connection),
            Command::Abort { connection } => Raw::of(14).with_id(connection),
            Command::Set { connection, setting } => {
                let SettingWords { kind, flag, values: [first, second] } = setting.to_words();
                let mut raw = Raw { short: kind, flags: flag.into(), ..Raw::of(15).with_id(connection) };
                (raw.rest[1], raw.rest[2]) = (first, second);
                raw
            }
            Command::Yield { connection } => Raw::of(16).with_id(connection),
        }
        .words()
    }

    #[inline]
    fn decode(words: Words) -> Result<Command, BadMessage> {
        let raw = Raw::read(words);
        let connection = raw.id();
        let place = || Ok(SocketAddr::new(raw.address()?, raw.short));
        let peer = || Ok(SocketAddr::new(raw.address()?, raw.rest[0] as u16));
        let small = |value: u16| u8::try_from(value).map_err(|_| raw.bad());
        let word = |value: u64| u32::try_from(value).map_err(|_| raw.bad());
        Ok(match raw.kind {
            1 => Command::Listen { request: raw.word, local: place()?, backlog: word(raw.rest[0])? },
            2 => Command::BindUdp { request: raw.word, local: place()? },
            3 => Command::ConnectFrom { local: place()? },
            4 => Command::Connect { request: raw.word, peer: place()? },
            5 => Command::CloseListener { listener: connection },
            6 => Command::CloseUdp { socket: connection },
            7 => {
                let consumed = raw.flag()?.then_some((raw.rest[1] >> 32) as u32);
                Command::Send { connection, range: Range { offset: raw.word, length: raw.rest[1] as u32 }, consumed }
            }
            8 => {
                let length = (raw.rest[0] >> 32) as u16;
                Command::SendTo { socket: raw.short, peer: peer()?, offset: raw.word, length }
            }
            9 => Command::SendChunkTo { socket: raw.short, peer: peer()?, window: raw.window() },
            10 => Command::Consume { connection, frame: raw.word },
            11 => {
                let [a, b, c] = raw.rest;
                let frames = [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32, c as u32, (c >> 32) as u32];
                let count = small(raw.short)?;
                if usize::from(count) > RELEASES_MAX {
                    return Err(raw.bad());
                }
                Command::Release { count, frames }
            }
            12 => Command::Shutdown { connection },
            13 => Command::Close { connection },
            14 => Command::Abort { connection },
            15 => {
                let words = SettingWords { kind: raw.short, flag: raw.flag()?, values: [raw.rest[1], raw.rest[2]] };
                Command::Set { connection, setting: Setting::from_words(words).ok_or(raw.bad())? }
            }
            16 => Command::Yield { connection },
            _ => return Err(raw.bad()),
        })
    }
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
