//! ARP for IPv4 over Ethernet (RFC 826).

use crate::ethernet::{EtherType, MacAddress};
use crate::{Error, field};
use std::net::Ipv4Addr;

/// Bytes of an ARP packet.
pub const PACKET_LENGTH: usize = 28;

/// Hardware type of Ethernet.
const HARDWARE_ETHERNET: u16 = 1;

/// What a packet asks or says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation(pub u16);

impl Operation {
    /// Who has the target address?
    pub const REQUEST: Operation = Operation(1);
    /// The sender has the sender address.
    pub const REPLY: Operation = Operation(2);
}

/// A view of an ARP packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: &'a [u8; PACKET_LENGTH],
}

impl<'a> Packet<'a> {
    /// Checks length, and that hardware and protocol are Ethernet and IPv4. Trailing padding is ignored.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let header: &[u8; PACKET_LENGTH] = bytes.first_chunk().ok_or(Error::Truncated)?;
        if field::u16_at::<0, _>(header) != HARDWARE_ETHERNET
            || field::u16_at::<2, _>(header) != EtherType::IPV4.0
            || field::array_at::<4, 2, _>(header) != [6, 4]
        {
            return Err(Error::BadValue);
        }
        Ok(Packet { header })
    }

    /// Request or reply.
    #[inline(always)]
    pub fn operation(&self) -> Operation {
        Operation(field::u16_at::<6, _>(self.header))
    }

    /// Sender's Ethernet address.
    #[inline(always)]
    pub fn sender_hardware(&self) -> MacAddress {
        MacAddress(field::array_at::<8, 6, _>(self.header))
    }

    /// Sender's IPv4 address.
    #[inline(always)]
    pub fn sender_protocol(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array_at::<14, 4, _>(self.header))
    }

    /// Target's Ethernet address; meaningless in a request.
    #[inline(always)]
    pub fn target_hardware(&self) -> MacAddress {
        MacAddress(field::array_at::<18, 6, _>(self.header))
    }

    /// Target's IPv4 address.
    #[inline(always)]
    pub fn target_protocol(&self) -> Ipv4Addr {
        Ipv4Addr::from(field::array_at::<24, 4, _>(self.header))
    }
}

/// An ARP packet's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Request or reply.
    pub operation: Operation,
    /// Sender's Ethernet address.
    pub sender_hardware: MacAddress,
    /// Sender's IPv4 address.
    pub sender_protocol: Ipv4Addr,
    /// Target's Ethernet address; zero in a request.
    pub target_hardware: MacAddress,
    /// Target's IPv4 address.
    pub target_protocol: Ipv4Addr,
}

impl Header {
    /// The fields of a view.
    #[inline]
    pub fn parse(packet: &Packet<'_>) -> Header {
        Header {
            operation: packet.operation(),
            sender_hardware: packet.sender_hardware(),
            sender_protocol: packet.sender_protocol(),
            target_hardware: packet.target_hardware(),
            target_protocol: packet.target_protocol(),
        }
    }

    /// The reply of `hardware` to this request.
    pub fn reply(&self, hardware: MacAddress) -> Header {
        Header {
            operation: Operation::REPLY,
            sender_hardware: hardware,
            sender_protocol: self.target_protocol,
            target_hardware: self.sender_hardware,
            target_protocol: self.sender_protocol,
        }
    }

    /// Writes [`PACKET_LENGTH`] bytes.
    pub fn emit(&self, bytes: &mut [u8]) -> Result<usize, Error> {
        let header: &mut [u8; PACKET_LENGTH] = bytes.first_chunk_mut().ok_or(Error::NoRoom)?;
        field::put_u16_at::<0, _>(header, HARDWARE_ETHERNET);
        field::put_u16_at::<2, _>(header, EtherType::IPV4.0);
        field::put_array_at::<4, 2, _>(header, [6, 4]);
        field::put_u16_at::<6, _>(header, self.operation.0);
        field::put_array_at::<8, 6, _>(header, self.sender_hardware.0);
        field::put_array_at::<14, 4, _>(header, self.sender_protocol.octets());
        field::put_array_at::<18, 6, _>(header, self.target_hardware.0);
        field::put_array_at::<24, 4, _>(header, self.target_protocol.octets());
        Ok(PACKET_LENGTH)
    }
}
