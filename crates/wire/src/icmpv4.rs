//! ICMP for IPv4 (RFC 792; next-hop MTU: RFC 1191).

use crate::{Error, checksum, field};

/// Bytes before the data or the quoted packet.
pub const HEADER_LENGTH: usize = 8;

/// Bytes of an error message's IP packet that must not be exceeded (RFC 1812, section 4.3.2.3).
pub const ERROR_PACKET_LENGTH_MAX: usize = 576;

const ECHO_REPLY: u8 = 0;
const DESTINATION_UNREACHABLE: u8 = 3;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// Why a destination is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnreachableCode(pub u8);

impl UnreachableCode {
    /// No route to the network.
    pub const NETWORK: UnreachableCode = UnreachableCode(0);
    /// The host doesn't answer.
    pub const HOST: UnreachableCode = UnreachableCode(1);
    /// The host doesn't speak the protocol.
    pub const PROTOCOL: UnreachableCode = UnreachableCode(2);
    /// Nobody has the port.
    pub const PORT: UnreachableCode = UnreachableCode(3);
    /// Too long for the next hop, and must not be fragmented.
    pub const FRAGMENTATION_NEEDED: UnreachableCode = UnreachableCode(4);
    /// A source route failed.
    pub const SOURCE_ROUTE_FAILED: UnreachableCode = UnreachableCode(5);
    /// Communication with the network is prohibited.
    pub const NETWORK_PROHIBITED: UnreachableCode = UnreachableCode(9);
    /// Communication with the host is prohibited.
    pub const HOST_PROHIBITED: UnreachableCode = UnreachableCode(10);
    /// A filter prohibits it.
    pub const PROHIBITED: UnreachableCode = UnreachableCode(13);
}

/// Which time was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeExceededCode(pub u8);

impl TimeExceededCode {
    /// TTL reached zero in transit.
    pub const IN_TRANSIT: TimeExceededCode = TimeExceededCode(0);
    /// Fragments were missing for too long.
    pub const REASSEMBLY: TimeExceededCode = TimeExceededCode(1);
}

/// A view of a message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    header: &'a [u8; HEADER_LENGTH],
    payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// `bytes`: an IPv4 packet's payload.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, Error> {
        let (header, payload) = bytes.split_first_chunk().ok_or(Error::Truncated)?;
        Ok(Message { header, payload })
    }

    /// Type and code together decide what a message is; see [`Header::parse`].
    #[inline(always)]
    pub fn message_type(&self) -> u8 {
        field::u8_at::<0, _>(self.header)
    }

    /// Code.
    #[inline(always)]
    pub fn code(&self) -> u8 {
        field::u8_at::<1, _>(self.header)
    }

    /// The checksum as it stands.
    #[inline(always)]
    pub fn checksum(&self) -> u16 {
        field::u16_at::<2, _>(self.header)
    }

    /// Whether the checksum is right.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        checksum::is_valid(checksum::combine(checksum::sum(self.header), checksum::sum(self.payload)))
    }

    /// An error: it must not be answered with another, and [`payload`](Message::payload) quotes the packet it is about
    /// (see [`crate::ipv4::Packet::parse_quoted`]).
    #[inline]
    pub fn is_error(&self) -> bool {
        // Source quench (4) is deprecated (RFC 6633) yet an error.
        matches!(self.message_type(), DESTINATION_UNREACHABLE | 4 | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }

    /// Echo data, or the beginning of the packet an error is about.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A message without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Asks for the payload back.
    EchoRequest {
        /// Which series of requests.
        identifier: u16,
        /// Which of it.
        sequence: u16,
    },
    /// Gives it.
    EchoReply {
        /// From the request.
        identifier: u16,
        /// From the request.
        sequence: u16,
    },
    /// The quoted packet didn't arrive.
    DestinationUnreachable {
        /// Why.
        code: UnreachableCode,
        /// With [`UnreachableCode::FRAGMENTATION_NEEDED`] the next hop's MTU, bytes; 0 from old routers.
        next_hop_mtu: u16,
    },
    /// The quoted packet was on its way for too long.
    TimeExceeded {
        /// Which limit.
        code: TimeExceededCode,
    },
    /// A field of the quoted packet's header is wrong.
    ParameterProblem {
        /// 0: the pointer counts; 1: an option is missing.
        code: u8,
        /// Offset of the wrong byte.
        pointer: u8,
    },
    /// Anything else.
    Other {
        /// Type.
        message_type: u8,
        /// Code.
        code: u8,
        /// The header's last four bytes.
        rest: [u8; 4],
    },
}

impl Header {
    /// The header of a view.
    pub fn parse(message: &Message<'_>) -> Header {
        let (header, code) = (message.header, message.code());
        let (identifier, sequence) = (field::u16_at::<4, _>(header), field::u16_at::<6, _>(header));
        match message.message_type() {
            ECHO_REQUEST if code == 0 => Header::EchoRequest { identifier, sequence },
            ECHO_REPLY if code == 0 => Header::EchoReply { identifier, sequence },
            DESTINATION_UNREACHABLE => {
                Header::DestinationUnreachable { code: UnreachableCode(code), next_hop_mtu: sequence }
            }
            TIME_EXCEEDED => Header::TimeExceeded { code: TimeExceededCode(code) },
            PARAMETER_PROBLEM => Header::ParameterProblem { code, pointer: field::u8_at::<4, _>(header) },
            message_type => Header::Other { message_type, code, rest: field::array_at::<4, 4, _>(header) },
        }
    }

    /// Type, code and the last four bytes.
    fn parts(&self) -> (u8, u8, [u8; 4]) {
        let pair = |a: u16, b: u16| {
            let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
            [a, b, c, d]
        };
        match *self {
            Header::EchoRequest { identifier, sequence } => (ECHO_REQUEST, 0, pair(identifier, sequence)),
            Header::EchoReply { identifier, sequence } => (ECHO_REPLY, 0, pair(identifier, sequence)),
            Header::DestinationUnreachable { code, next_hop_mtu } => {
                (DESTINATION_UNREACHABLE, code.0, pair(0, next_hop_mtu))
            }
            Header::TimeExceeded { code } => (TIME_EXCEEDED, code.0, [0; 4]),
            Header::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code, [pointer, 0, 0, 0]),
            Header::Other { message_type, code, rest } => (message_type, code, rest),
        }
    }

    /// Writes the header and `payload` behind it, with the checksum: `HEADER_LENGTH + payload.len()` bytes.
    pub fn emit(&self, bytes: &mut [u8], payload: &[u8]) -> Result<usize, Error> {
        let (header, rest) = bytes.split_first_chunk_mut::<HEADER_LENGTH>().ok_or(Error::NoRoom)?;
        let place = rest.get_mut(..payload.len()).ok_or(Error::NoRoom)?;
        let payload_sum = checksum::copy_and_sum(payload, place);
        let (message_type, code, last) = self.parts();
        field::put_array_at::<0, 4, _>(header, [message_type, code, 0, 0]);
        field::put_array_at::<4, 4, _>(header, last);
        let sum = checksum::combine(checksum::sum(header), payload_sum);
        field::put_u16_at::<2, _>(header, checksum::finish(sum));
        Ok(HEADER_LENGTH + payload.len())
    }
}
