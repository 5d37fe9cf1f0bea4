//! What goes around a layer-4 packet, and where its parts are in one that came.

use crate::ip::vlan;
use qanat_nic::{Frame, ReceiveChecksum};
use qanat_wire::ethernet::{EtherType, MacAddress};
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::{checksum, ethernet, ipv4, ipv6};
use std::net::IpAddr;

/// Hop limit of what we send (RFC 1700).
pub(crate) const HOP_LIMIT: u8 = 64;

/// What of the device matters to every packet. Constant while it is open.
#[derive(Clone, Copy, serde::Serialize, serde::Deserialize)]
pub(crate) struct Link {
    pub(crate) mac: MacAddress,
    pub(crate) mtu: u16,
    /// Headroom of a fresh frame: the device's share and the headers.
    pub(crate) headroom: usize,
    /// The device's share of it.
    pub(crate) device_headroom: u32,
    /// Payload bytes of the largest datagram over IPv4.
    pub(crate) datagram_max: usize,
    /// The device fills in layer-4 checksums.
    pub(crate) offload: bool,
    /// Frames per packet.
    pub(crate) buffers_max: usize,
    /// 802.1Q identifier of our frames; 0: untagged.
    pub(crate) vlan: u16,
    /// Bytes before the IP header of what we send.
    pub(crate) header_length: usize,
}

/// What goes around a layer-4 packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpMeta {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: Protocol,
    pub(crate) ecn: Ecn,
    pub(crate) hop_limit: u8,
}

impl IpMeta {
    pub(crate) fn new(source: IpAddr, destination: IpAddr, protocol: Protocol) -> IpMeta {
        IpMeta { source, destination, protocol, ecn: Ecn::NotCapable, hop_limit: HOP_LIMIT }
    }

    /// The pseudo-header's sum for `length` bytes of layer 4.
    #[inline]
    pub(crate) fn pseudo_header_sum(&self, length: usize) -> u16 {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                checksum::pseudo_header_v4(source, destination, self.protocol, length)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                checksum::pseudo_header_v6(source, destination, self.protocol, length)
            }
            // Never built: both addresses come from one packet or one route.
            _ => 0,
        }
    }

    /// Bytes of the IP header.
    #[inline]
    pub(crate) fn header_length(&self) -> usize {
        match self.source {
            IpAddr::V4(_) => ipv4::HEADER_LENGTH,
            IpAddr::V6(_) => ipv6::HEADER_LENGTH,
        }
    }

    /// Puts the IP header before the frame's data; the packet's payload is `payload_length` bytes, of which the frame
    /// may hold only the first part.
    #[inline]
    pub(crate) fn prepend(&self, frame: &mut Frame, payload_length: usize) -> Option<EtherType> {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Header {
                    source,
                    destination,
                    protocol: self.protocol,
                    payload_length,
                    ttl: self.hop_limit,
                    // Atomic datagrams need no identification (RFC 6864 section 4.1).
                    identification: 0,
                    dont_fragment: true,
                    ecn: self.ecn,
                    dscp: 0,
                };
                header.emit(frame.prepend(ipv4::HEADER_LENGTH)?).ok()?;
                Some(EtherType::IPV4)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Header {
                    source,
                    destination,
                    next_header: self.protocol,
                    payload_length,
                    hop_limit: self.hop_limit,
                    flow_label: 0,
                    ecn: self.ecn,
                    dscp: 0,
                };
                header.emit(frame.prepend(ipv6::HEADER_LENGTH)?).ok()?;
                Some(EtherType::IPV6)
            }
            _ => None,
        }
    }
}

/// Puts the Ethernet header before the frame's data.
#[inline]
pub(crate) fn prepend_ethernet(
    frame: &mut Frame,
    link: &Link,
    destination: MacAddress,
    mut ethertype: EtherType,
) -> Option<()> {
    if link.vlan != 0 {
        vlan::prepend(frame, link.vlan, ethertype)?;
        ethertype = EtherType::VLAN;
    }
    let header = ethernet::Header { destination, source: link.mac, ethertype };
    header.emit(frame.prepend(ethernet::HEADER_LENGTH)?).ok()?;
    Some(())
}

/// Where the parts of a received packet are, bytes from the start of its (first) frame.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    pub(crate) meta: IpMeta,
    pub(crate) source_mac: MacAddress,
    pub(crate) ip_offset: usize,
    pub(crate) layer4_offset: usize,
    /// Layer-4 bytes in the first frame.
    pub(crate) layer4_length: usize,
    /// Layer-4 bytes in all frames.
    pub(crate) total_length: usize,
}

impl Received {
    /// The IP packet as it came, for an ICMP error to quote. A reassembled one gives `None`.
    pub(crate) fn packet<'a>(&self, frame: &'a Frame) -> Option<&'a [u8]> {
        let whole = self.ip_offset < self.layer4_offset;
        frame.bytes().get(self.ip_offset..self.layer4_offset + self.layer4_length).filter(|_| whole)
    }

    /// The layer-4 bytes of the first frame.
    pub(crate) fn layer4<'a>(&self, frame: &'a Frame) -> &'a [u8] {
        frame.bytes().get(self.layer4_offset..self.layer4_offset + self.layer4_length).unwrap_or(&[])
    }
}

/// Whether a layer-4 checksum field need not be right: the device saw to it, or a peer on this machine left it to its own.
#[inline(always)]
pub(crate) fn checksum_may_be_partial(
    receive_checksum: ReceiveChecksum,
    field: u16,
    pseudo_header_sum: impl FnOnce() -> u16,
) -> bool {
    match receive_checksum {
        ReceiveChecksum::Verify => false,
        ReceiveChecksum::AcceptPartial => field == pseudo_header_sum(),
        ReceiveChecksum::Trust => true,
    }
}
