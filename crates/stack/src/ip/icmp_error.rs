//! Why packets did not arrive, in the words of ICMP and of a service.

use crate::ip::own_address::LostAddress;
use crate::ip::packet::IpMeta;
use qanat_api::CloseReason;
use qanat_wire::{icmpv4, icmpv6};

/// Why a packet of ours did not arrive, as far as it matters to transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IcmpError {
    /// The packet was larger than a link on its way: the largest IP packet that fits, bytes.
    PacketTooBig(u32),
    /// It could not be delivered. `hard`: nor will it be (port or protocol unreachable, administratively prohibited: RFC
    /// 1122 section 4.2.3.9); otherwise it may be in a while.
    Unreachable {
        /// The reason for the service.
        why: CloseReason,
        /// See above.
        hard: bool,
    },
}

pub(super) const fn hard(why: CloseReason) -> IcmpError {
    IcmpError::Unreachable { why, hard: true }
}

pub(super) const fn soft(why: CloseReason) -> IcmpError {
    IcmpError::Unreachable { why, hard: false }
}

/// RFC 792, RFC 1122 section 3.2.2.1, RFC 1812 section 5.2.7.1.
pub(super) fn reason_v4(code: icmpv4::UnreachableCode) -> IcmpError {
    use icmpv4::UnreachableCode as Code;
    match code {
        Code::PORT => hard(CloseReason::Refused),
        Code::PROTOCOL => hard(CloseReason::ProtocolUnreachable),
        Code::NETWORK_PROHIBITED | Code::HOST_PROHIBITED | Code::PROHIBITED => hard(CloseReason::Prohibited),
        // Network: unreachable, unknown, or for this type of service.
        Code(0 | 6 | 11) => soft(CloseReason::NetworkUnreachable),
        // Precedence.
        Code(14 | 15) => soft(CloseReason::Prohibited),
        _ => soft(CloseReason::Unreachable),
    }
}

/// RFC 4443 section 3.1.
pub(super) fn reason_v6(code: icmpv6::UnreachableCode) -> IcmpError {
    use icmpv6::UnreachableCode as Code;
    match code {
        Code::PORT => hard(CloseReason::Refused),
        Code::PROHIBITED => hard(CloseReason::Prohibited),
        Code::NO_ROUTE => soft(CloseReason::NetworkUnreachable),
        // Policy of the source address, rejected route.
        Code(5 | 6) => soft(CloseReason::Prohibited),
        _ => soft(CloseReason::Unreachable),
    }
}

/// What of an ICMP message concerns those above.
pub(crate) enum IcmpNews<'m> {
    /// Something did not arrive, whose beginning is quoted.
    Undelivered {
        error: IcmpError,
        /// What it was, as it was sent.
        quoted: IpMeta,
        /// Its first layer-4 bytes.
        payload: &'m [u8],
    },
    /// One of our addresses is another's.
    AddressLost(LostAddress),
}
