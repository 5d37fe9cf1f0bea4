//! The messages two ends exchange over their Unix socket: 128 bytes each, packed, in the machine's byte order.
//!
//! ```text
//!   master                    slave
//!     HELLO     ───────────▶          what it bears: versions, regions, rings
//!               ◀───────────  INIT    which interface, secret
//!     ACK       ───────────▶
//!               ◀───────────  ADD_REGION + descriptor, ADD_RING + eventfd, … each answered by ACK
//!               ◀───────────  CONNECT
//!     CONNECTED ───────────▶
//!               ◀── either ─  DISCONNECT
//! ```

/// Length of every message.
pub const MESSAGE_LENGTH: usize = 128;
/// The one version there is: 2.0.
pub const VERSION: u16 = 2 << 8;
/// Length of names.
const NAME_LENGTH: usize = 32;
/// Length of the secret.
pub const SECRET_LENGTH: usize = 24;
const REASON_LENGTH: usize = 96;
/// Interface mode: Ethernet frames.
const MODE_ETHERNET: u8 = 0;
/// [`AddRing::to_master`] on the wire.
const FLAG_TO_MASTER: u16 = 1;

/// What a master bears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Its name.
    pub name: String,
    /// Lowest version it speaks.
    pub version_min: u16,
    /// Highest version.
    pub version_max: u16,
    /// Highest region index.
    pub region_max: u16,
    /// Highest index of a ring from master to slave.
    pub to_slave_ring_max: u16,
    /// Highest index of a ring from slave to master.
    pub to_master_ring_max: u16,
    /// Most descriptors of a ring, as a power of two.
    pub log2_ring_size_max: u8,
}

/// Which interface a slave wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Init {
    /// Version it speaks.
    pub version: u16,
    /// Interface behind the socket.
    pub id: u32,
    /// 0: Ethernet; 1: IP; 2: punt/inject.
    pub mode: u8,
    /// Zeros: none.
    pub secret: [u8; SECRET_LENGTH],
    /// Its name.
    pub name: String,
}

impl Init {
    /// Whether frames are Ethernet's.
    pub fn is_ethernet(&self) -> bool {
        self.mode == MODE_ETHERNET
    }
}

/// A ring, in a region announced before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddRing {
    /// From slave to master, or the other way.
    pub to_master: bool,
    /// Number among the rings of its direction.
    pub index: u16,
    /// Its region.
    pub region: u16,
    /// Bytes from the region's start.
    pub offset: u32,
    /// Descriptors, as a power of two.
    pub log2_size: u8,
    /// Bytes of private headers before each packet.
    pub private_header_length: u16,
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The last one was taken.
    Ack,
    /// See [`Hello`].
    Hello(Hello),
    /// See [`Init`].
    Init(Init),
    /// A region of memory; its descriptor comes with the message.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its length in bytes.
        length: u64,
    },
    /// See [`AddRing`]; the ring's eventfd comes with the message.
    AddRing(AddRing),
    /// All is announced. The slave's name for the interface.
    Connect(String),
    /// Packets may flow. The master's name for the interface.
    Connected(String),
    /// The end, and why.
    Disconnect {
        /// A number.
        code: u32,
        /// Words.
        reason: String,
    },
}

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// They are not 128 bytes.
    #[error("a message of {0} bytes instead of {MESSAGE_LENGTH}")]
    Length(usize),
    /// The type is unknown.
    #[error("a message of unknown type {0}")]
    Type(u16),
}

struct Reader<'a>(&'a [u8; MESSAGE_LENGTH]);

impl Reader<'_> {
    /// `N` bytes at `at`: a constant of the layout, within the message.
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0.get(at + index).copied().unwrap_or(0))
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    /// Text to its first NUL, what a terminal could take amiss replaced.
    fn text<const N: usize>(&self, at: usize) -> String {
        let bytes: [u8; N] = self.bytes(at);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(N);
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
    }
}

struct Writer([u8; MESSAGE_LENGTH]);

impl Writer {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(target) = self.0.get_mut(at..at + bytes.len()) {
            target.copy_from_slice(bytes);
        }
    }

    /// Text and a NUL in `room` bytes.
    fn text(&mut self, at: usize, text: &str, room: usize) {
        let bytes = text.as_bytes();
        self.put(at, bytes.get(..bytes.len().min(room - 1)).unwrap_or_default());
    }
}

impl Message {
    /// Reads one.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Message, Malformed> {
        let whole: &[u8; MESSAGE_LENGTH] = bytes.try_into().map_err(|_| Malformed::Length(bytes.len()))?;
        let reader = Reader(whole);
        Ok(match reader.u16(0) {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: reader.text::<NAME_LENGTH>(2),
                version_min: reader.u16(34),
                version_max: reader.u16(36),
                region_max: reader.u16(38),
                to_slave_ring_max: reader.u16(40),
                to_master_ring_max: reader.u16(42),
                log2_ring_size_max: whole[44],
            }),
            3 => Message::Init(Init {
                version: reader.u16(2),
                id: reader.u32(4),
                mode: whole[8],
                secret: reader.bytes(9),
                name: reader.text::<NAME_LENGTH>(33),
            }),
            4 => Message::AddRegion { index: reader.u16(2), length: u64::from_ne_bytes(reader.bytes(4)) },
            5 => Message::AddRing(AddRing {
                to_master: reader.u16(2) & FLAG_TO_MASTER != 0,
                index: reader.u16(4),
                region: reader.u16(6),
                offset: reader.u32(8),
                log2_size: whole[12],
                private_header_length: reader.u16(13),
            }),
            6 => Message::Connect(reader.text::<NAME_LENGTH>(2)),
            7 => Message::Connected(reader.text::<NAME_LENGTH>(2)),
            8 => Message::Disconnect { code: reader.u32(2), reason: reader.text::<REASON_LENGTH>(6) },
            other => return Err(Malformed::Type(other)),
        })
    }

    /// Writes it. Names longer than their field are cut.
    pub fn emit(&self) -> [u8; MESSAGE_LENGTH] {
        let mut writer = Writer([0; MESSAGE_LENGTH]);
        let kind: u16 = match self {
            Message::Ack => 1,
            Message::Hello(hello) => {
                writer.text(2, &hello.name, NAME_LENGTH);
                let numbers = [hello.version_min, hello.version_max, hello.region_max, hello.to_slave_ring_max];
                for (index, number) in numbers.into_iter().chain([hello.to_master_ring_max]).enumerate() {
                    writer.put(34 + 2 * index, &number.to_ne_bytes());
                }
                writer.put(44, &[hello.log2_ring_size_max]);
                2
            }
            Message::Init(init) => {
                writer.put(2, &init.version.to_ne_bytes());
                writer.put(4, &init.id.to_ne_bytes());
                writer.put(8, &[init.mode]);
                writer.put(9, &init.secret);
                writer.text(33, &init.name, NAME_LENGTH);
                3
            }
            Message::AddRegion { index, length } => {
                writer.put(2, &index.to_ne_bytes());
                writer.put(4, &length.to_ne_bytes());
                4
            }
            Message::AddRing(ring) => {
                writer.put(2, &u16::from(ring.to_master).to_ne_bytes());
                writer.put(4, &ring.index.to_ne_bytes());
                writer.put(6, &ring.region.to_ne_bytes());
                writer.put(8, &ring.offset.to_ne_bytes());
                writer.put(12, &[ring.log2_size]);
                writer.put(13, &ring.private_header_length.to_ne_bytes());
                5
            }
            Message::Connect(name) => {
                writer.text(2, name, NAME_LENGTH);
                6
            }
            Message::Connected(name) => {
                writer.text(2, name, NAME_LENGTH);
                7
            }
            Message::Disconnect { code, reason } => {
                writer.put(2, &code.to_ne_bytes());
                writer.text(6, reason, REASON_LENGTH);
                8
            }
        };
        writer.put(0, &kind.to_ne_bytes());
        writer.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Message> {
        vec![
            Message::Ack,
            Message::Hello(Hello {
                name: "m".to_owned(),
                version_min: VERSION,
                version_max: VERSION,
                region_max: 255,
                to_slave_ring_max: 3,
                to_master_ring_max: 4,
                log2_ring_size_max: 14,
            }),
            Message::Init(Init { version: VERSION, id: 7, mode: 0, secret: [9; SECRET_LENGTH], name: "s".to_owned() }),
            Message::AddRegion { index: 2, length: 1 << 33 },
            Message::AddRing(AddRing {
                to_master: true,
                index: 1,
                region: 0,
                offset: 16_512,
                log2_size: 10,
                private_header_length: 0,
            }),
            Message::Connect("one".to_owned()),
            Message::Connected("two".to_owned()),
            Message::Disconnect { code: 5, reason: "enough".to_owned() },
        ]
    }

    #[test]
    fn every_message_survives_the_wire() {
        for message in samples() {
            assert_eq!(Message::parse(&message.emit()), Ok(message));
        }
    }

    /// Offsets as FD.io's memif.h packs them.
    #[test]
    fn the_layout_is_the_one_others_use() {
        let [_, hello, init, region, ring, ..] = &samples()[..] else { unreachable!() };
        assert_eq!(hello.emit()[34..45], [0, 2, 0, 2, 255, 0, 3, 0, 4, 0, 14]);
        assert_eq!(init.emit()[..10], [3, 0, 0, 2, 7, 0, 0, 0, 0, 9]);
        assert_eq!(region.emit()[..12], [4, 0, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(ring.emit()[..15], [5, 0, 1, 0, 1, 0, 0, 0, 0x80, 0x40, 0, 0, 10, 0, 0]);
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(Message::parse(&[]), Err(Malformed::Length(0)));
        assert_eq!(Message::parse(&[1; 129]), Err(Malformed::Length(129)));
        assert_eq!(Message::parse(&[0; MESSAGE_LENGTH]), Err(Malformed::Type(0)));
        let mut escape = Message::Disconnect { code: 0, reason: "\x1b[2J".to_owned() }.emit();
        escape[127] = b'x';
        assert_eq!(
            Message::parse(&escape),
            Ok(Message::Disconnect { code: 0, reason: "?[2J".to_owned() }),
            "no control characters reach a terminal"
        );
    }
}
