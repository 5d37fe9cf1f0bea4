//! ICMP for IPv4 (RFC 792; next-hop MTU: RFC 1191).

use crate::icmp::{self, pair};
pub use crate::icmp::{HEADER_LENGTH, TimeExceededCode};
use crate::{Error, checksum};

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

/// ICMP for IPv4, as a [`Message`]'s protocol.
#[derive(Clone, Copy, Debug)]
pub struct V4;

/// A view of a message.
pub type Message<'a> = icmp::Message<'a, V4>;

impl icmp::Message<'_, V4> {
    /// Whether the checksum is right.
    #[inline]
    pub fn checksum_is_valid(&self) -> bool {
        checksum::is_valid(self.sum())
    }

    /// An error: it must not be answered with another, and [`payload`](icmp::Message::payload) quotes the packet it is about
    /// (see [`crate::ipv4::Packet::parse_quoted`]).
    #[inline]
    pub fn is_error(&self) -> bool {
        // Source quench (4) is deprecated (RFC 6633), and yet an error.
        matches!(self.message_type(), DESTINATION_UNREACHABLE | 4 | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
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
        let (code, (identifier, sequence)) = (message.code(), message.echo());
        match message.message_type() {
            ECHO_REQUEST if code == 0 => Header::EchoRequest { identifier, sequence },
            ECHO_REPLY if code == 0 => Header::EchoReply { identifier, sequence },
            DESTINATION_UNREACHABLE => {
                Header::DestinationUnreachable { code: UnreachableCode(code), next_hop_mtu: sequence }
            }
            TIME_EXCEEDED => Header::TimeExceeded { code: TimeExceededCode(code) },
            PARAMETER_PROBLEM => Header::ParameterProblem { code, pointer: message.rest()[0] },
            message_type => Header::Other { message_type, code, rest: message.rest() },
        }
    }

    /// Type, code and the last four bytes.
    fn parts(&self) -> (u8, u8, [u8; 4]) {
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
        icmp::emit(self.parts(), bytes, payload, 0)
    }
}
