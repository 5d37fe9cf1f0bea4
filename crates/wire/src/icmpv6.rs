//! ICMP for IPv6 (RFC 4443). Neighbor discovery: [`crate::neighbor_discovery`].

use crate::icmp::{self, pair};
pub use crate::icmp::{HEADER_LENGTH, TimeExceededCode};
use crate::{Error, checksum, field};

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
pub(crate) const ROUTER_SOLICITATION: u8 = 133;
pub(crate) const ROUTER_ADVERTISEMENT: u8 = 134;
pub(crate) const NEIGHBOR_SOLICITATION: u8 = 135;
pub(crate) const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Why a destination is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnreachableCode(pub u8);

impl UnreachableCode {
    /// No route.
    pub const NO_ROUTE: UnreachableCode = UnreachableCode(0);
    /// A filter prohibits it.
    pub const PROHIBITED: UnreachableCode = UnreachableCode(1);
    /// Beyond the scope of the source address.
    pub const BEYOND_SCOPE: UnreachableCode = UnreachableCode(2);
    /// The host doesn't answer.
    pub const ADDRESS: UnreachableCode = UnreachableCode(3);
    /// Nobody has the port.
    pub const PORT: UnreachableCode = UnreachableCode(4);
}

/// What is wrong with a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParameterProblemCode(pub u8);

impl ParameterProblemCode {
    /// A field is wrong.
    pub const HEADER_FIELD: ParameterProblemCode = ParameterProblemCode(0);
    /// A next header is unknown.
    pub const NEXT_HEADER: ParameterProblemCode = ParameterProblemCode(1);
    /// An option is unknown.
    pub const OPTION: ParameterProblemCode = ParameterProblemCode(2);
}

/// ICMPv6, as a [`Message`]'s protocol.
#[derive(Clone, Copy, Debug)]
pub struct V6;

/// A view of a message.
pub type Message<'a> = icmp::Message<'a, V6>;

impl icmp::Message<'_, V6> {
    /// Whether the checksum is right. `pseudo_header_sum`: see [`checksum::pseudo_header_v6`], over
    /// [`length`](icmp::Message::length).
    #[inline]
    pub fn checksum_is_valid(&self, pseudo_header_sum: u16) -> bool {
        checksum::is_valid(checksum::combine(pseudo_header_sum, self.sum()))
    }

    /// An error (types below 128): it must not be answered with another, and [`payload`](icmp::Message::payload) quotes the
    /// packet it is about (see [`crate::ipv6::Packet::parse_quoted`]).
    #[inline(always)]
    pub fn is_error(&self) -> bool {
        self.message_type() < 128
    }
}

/// A message without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// The quoted packet didn't arrive.
    DestinationUnreachable {
        /// Why.
        code: UnreachableCode,
    },
    /// The quoted packet is too long for the next hop.
    PacketTooBig {
        /// The next hop's MTU, bytes.
        mtu: u32,
    },
    /// The quoted packet was on its way for too long.
    TimeExceeded {
        /// Which limit.
        code: TimeExceededCode,
    },
    /// A field of the quoted packet's headers is wrong.
    ParameterProblem {
        /// What about it.
        code: ParameterProblemCode,
        /// Offset of the wrong byte in the quoted packet.
        pointer: u32,
    },
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
    /// Anything else, neighbor discovery included.
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
        let (header, code, (identifier, sequence)) = (message.header, message.code(), message.echo());
        match message.message_type() {
            DESTINATION_UNREACHABLE => Header::DestinationUnreachable { code: UnreachableCode(code) },
            // The code is to be ignored (RFC 4443, section 3.2).
            PACKET_TOO_BIG => Header::PacketTooBig { mtu: field::u32_at::<4, _>(header) },
            TIME_EXCEEDED => Header::TimeExceeded { code: TimeExceededCode(code) },
            PARAMETER_PROBLEM => {
                Header::ParameterProblem { code: ParameterProblemCode(code), pointer: field::u32_at::<4, _>(header) }
            }
            ECHO_REQUEST if code == 0 => Header::EchoRequest { identifier, sequence },
            ECHO_REPLY if code == 0 => Header::EchoReply { identifier, sequence },
            message_type => Header::Other { message_type, code, rest: message.rest() },
        }
    }

    /// Type, code and the last four bytes.
    fn parts(&self) -> (u8, u8, [u8; 4]) {
        match *self {
            Header::DestinationUnreachable { code } => (DESTINATION_UNREACHABLE, code.0, [0; 4]),
            Header::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Header::TimeExceeded { code } => (TIME_EXCEEDED, code.0, [0; 4]),
            Header::ParameterProblem { code, pointer } => (PARAMETER_PROBLEM, code.0, pointer.to_be_bytes()),
            Header::EchoRequest { identifier, sequence } => (ECHO_REQUEST, 0, pair(identifier, sequence)),
            Header::EchoReply { identifier, sequence } => (ECHO_REPLY, 0, pair(identifier, sequence)),
            Header::Other { message_type, code, rest } => (message_type, code, rest),
        }
    }

    /// Writes the header and `payload` behind it, with the checksum: `HEADER_LENGTH + payload.len()` bytes, over which
    /// `pseudo_header_sum` is.
    pub fn emit(&self, bytes: &mut [u8], payload: &[u8], pseudo_header_sum: u16) -> Result<usize, Error> {
        icmp::emit(self.parts(), bytes, payload, pseudo_header_sum)
    }
}
