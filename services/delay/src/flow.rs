//! What a frame belongs to, and whether its transport checksum is finished.
//!
//! A kernel sender on a veth device leaves the rest of a TCP or UDP checksum to a device that never does it: the field
//! holds only the pseudo-header's sum (the kernel's `CHECKSUM_PARTIAL`). Such a frame is forwarded with the same wish to the
//! next device, or finished here.

use qanat_nic::ChecksumOffload;
use qanat_wire::checksum;
use qanat_wire::ip::Protocol;

const ETHERNET_HEADER: usize = 14;
/// VLAN tags looked behind.
const TAGS_MAX: usize = 2;
/// IPv6 extension headers looked behind.
const EXTENSIONS_MAX: usize = 8;
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;
const SCTP: Protocol = Protocol(132);

/// What the emulator needs to know of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// The same for all packets of a flow, in both directions.
    pub(crate) hash: u64,
    /// Where the unfinished transport checksum is.
    pub(crate) unfinished: Option<Unfinished>,
    /// Whether something in the frame would catch a changed bit (no ARP).
    pub(crate) is_protected: bool,
}

/// A transport checksum that is only its pseudo-header's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) offload: ChecksumOffload,
    /// Where the transport's data ends in the frame.
    end: usize,
    is_udp: bool,
}

fn word(bytes: &[u8], offset: usize) -> Option<u16> {
    let field = bytes.get(offset..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*field))
}

/// Mixes two words (the finaliser of Stafford's variant 13 over their product with odd constants).
fn mix(hash: u64, word: u64) -> u64 {
    let mut mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn mix_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(hash, |hash, chunk| {
        let mut padded = [0; 8];
        padded.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        mix(hash, u64::from_le_bytes(padded))
    })
}

/// Hashes a pair of ends so that their order doesn't matter.
fn symmetric(seed: u64, kind: u64, one: u64, other: u64) -> u64 {
    mix(
        mix(seed, kind),
        one.wrapping_add(other) ^ one.wrapping_mul(other | 1).wrapping_add(other.wrapping_mul(one | 1)),
    )
}

impl Flow {
    /// Looks at a frame; `seed` decides which flows meet in a band. A frame of no known kind is a flow by its addresses.
    pub(crate) fn of(frame: &[u8], seed: u64) -> Flow {
        let mut at = ETHERNET_HEADER;
        let mut kind = word(frame, 12).unwrap_or(0);
        for _ in 0..TAGS_MAX {
            if !matches!(kind, 0x8100 | 0x88a8) {
                break;
            }
            kind = word(frame, at + 2).unwrap_or(0);
            at += 4;
        }
        let flow = match kind {
            IPV4 => ipv4(frame, at, seed),
            IPV6 => ipv6(frame, at, seed),
            _ => None,
        };
        flow.unwrap_or_else(|| {
            let address = |range| frame.get(range).map_or(0, |bytes| mix_bytes(seed, bytes));
            let hash = symmetric(seed, u64::from(kind), address(0..6), address(6..12));
            Flow { hash, unfinished: None, is_protected: kind != ARP }
        })
    }
}

fn ipv4(frame: &[u8], at: usize, seed: u64) -> Option<Flow> {
    let header = frame.get(at..)?.first_chunk::<20>()?;
    let header_length = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_length < 20 {
        return None;
    }
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let segment = Segment { protocol: Protocol(header[9]), start: at + header_length, end: at + total, is_fragment };
    Some(segment.flow(frame, seed, &header[12..20]))
}

fn ipv6(frame: &[u8], at: usize, seed: u64) -> Option<Flow> {
    let header = frame.get(at..)?.first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let end = at + 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    let (mut protocol, mut start, mut is_fragment) = (Protocol(header[6]), at + 40, false);
    for _ in 0..EXTENSIONS_MAX {
        let length = match protocol {
            Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol(60) => {
                8 + usize::from(*frame.get(start + 1).unwrap_or(&0)) * 8
            }
            Protocol::FRAGMENT => {
                is_fragment = true;
                8
            }
            _ => break,
        };
        protocol = Protocol(*frame.get(start)?);
        start += length;
    }
    let segment = Segment { protocol, start, end, is_fragment };
    Some(segment.flow(frame, seed, &header[8..40]))
}

/// What an IP packet carries: where in the frame, and of which protocol.
struct Segment {
    protocol: Protocol,
    start: usize,
    end: usize,
    is_fragment: bool,
}

impl Segment {
    /// `addresses`: the source's and the destination's, one after the other.
    fn flow(&self, frame: &[u8], seed: u64, addresses: &[u8]) -> Flow {
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        // Fragments but the first have no ports: all packets between their ends that are fragments are one flow.
        let has_ports = matches!(self.protocol, Protocol::TCP | Protocol::UDP | SCTP) && !self.is_fragment;
        let port = |offset| if has_ports { u64::from(word(frame, self.start + offset).unwrap_or(0)) } else { 0 };
        let one = mix(mix_bytes(seed, source), port(0));
        let other = mix(mix_bytes(seed, destination), port(2));
        let hash = symmetric(seed, u64::from(self.protocol.0), one, other);
        let unfinished = if has_ports { self.unfinished(frame, addresses) } else { None };
        Flow { hash, unfinished, is_protected: true }
    }

    /// Whether the checksum field holds just the pseudo-header's sum. A finished one that happens to be equal stays what
    /// it is when finished again.
    fn unfinished(&self, frame: &[u8], addresses: &[u8]) -> Option<Unfinished> {
        let (offset, header_length) = match self.protocol {
            Protocol::TCP => (16, 20),
            Protocol::UDP => (6, 8),
            _ => return None,
        };
        let length = self.end.checked_sub(self.start)?;
        if length < header_length || self.end > frame.len() {
            return None;
        }
        let field = word(frame, self.start + offset)?;
        let rest = checksum::combine(u16::from(self.protocol.0), u16::try_from(length).ok()?);
        if field != checksum::combine(checksum::sum(addresses), rest) {
            return None;
        }
        let offload = ChecksumOffload { start: u16::try_from(self.start).ok()?, offset: offset as u16 };
        Some(Unfinished { offload, end: self.end, is_udp: self.protocol == Protocol::UDP })
    }
}

impl Unfinished {
    /// Whether a device that sums to the end of the frame gets it right: nothing follows the transport's data.
    pub(crate) fn suits_device(&self, frame: &[u8]) -> bool {
        self.end == frame.len()
    }

    /// Writes the finished checksum.
    pub(crate) fn finish(&self, frame: &mut [u8]) {
        let start = usize::from(self.offload.start);
        let field = start + usize::from(self.offload.offset);
        let Some(data) = frame.get(start..self.end) else { return };
        // The field holds the pseudo-header's sum: it is summed with the rest.
        let value = match checksum::finish(checksum::sum(data)) {
            0 if self.is_udp => 0xffff, // RFC 768: 0 means none
            value => value,
        };
        if let Some(place) = frame.get_mut(field..field + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A UDP datagram of ten bytes in IPv4, its checksum unfinished.
    fn datagram(source: (u8, u16), destination: (u8, u16)) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, destination.0, 2, 0, 0, 0, 0, source.0, 8, 0];
        frame.extend([0x45, 0, 0, 38, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, source.0, 10, 0, 0, destination.0]);
        frame.extend(source.1.to_be_bytes());
        frame.extend(destination.1.to_be_bytes());
        frame.extend([0, 18]);
        let pseudo = checksum::combine(checksum::sum(&frame[26..34]), 17 + 18);
        frame.extend(pseudo.to_be_bytes());
        frame.extend(*b"qanat delay");
        frame.truncate(52);
        frame
    }

    #[test]
    fn both_directions_are_one_flow_and_others_are_not() {
        let hash = |source, destination, seed| Flow::of(&datagram(source, destination), seed).hash;
        assert_eq!(hash((1, 1_000), (2, 7), 5), hash((2, 7), (1, 1_000), 5));
        assert_ne!(hash((1, 1_000), (2, 7), 5), hash((1, 1_001), (2, 7), 5));
        assert_ne!(hash((1, 1_000), (2, 7), 5), hash((1, 7), (2, 1_000), 5));
        assert_ne!(hash((1, 1_000), (2, 7), 5), hash((1, 1_000), (2, 7), 6));
    }

    #[test]
    fn an_unfinished_checksum_is_found_and_finished() {
        let mut frame = datagram((1, 1_000), (2, 7));
        let unfinished = Flow::of(&frame, 1).unfinished.unwrap();
        assert_eq!(unfinished.offload, ChecksumOffload { start: 34, offset: 6 });
        assert!(unfinished.suits_device(&frame));
        unfinished.finish(&mut frame);
        let pseudo = checksum::combine(checksum::sum(&frame[26..34]), 17 + 18);
        assert!(checksum::is_valid(checksum::combine(pseudo, checksum::sum(&frame[34..]))));
        assert!(Flow::of(&frame, 1).unfinished.is_none());
        frame.extend([0; 8]);
        assert!(!unfinished.suits_device(&frame), "padded");
    }

    #[test]
    fn fragments_belong_together_and_arp_is_unprotected() {
        let (mut first, mut second) = (datagram((1, 1_000), (2, 7)), datagram((1, 9), (2, 9)));
        first[20] = 0x20;
        second[21] = 1;
        assert_eq!(Flow::of(&first, 1).hash, Flow::of(&second, 1).hash);
        assert!(Flow::of(&first, 1).unfinished.is_none());
        first[13] = 6;
        assert!(!Flow::of(&first, 1).is_protected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_flow(mut frame in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..5) {
            if let (Some(place), Some(value)) = (frame.get_mut(12..14), [IPV4, IPV6, ARP, 0x8100].get(kind)) {
                place.copy_from_slice(&value.to_be_bytes());
            }
            if let Some(version) = frame.get_mut(14) {
                *version = if kind == 0 { 0x45 } else { 0x60 };
            }
            let flow = Flow::of(&frame, 9);
            if let Some(unfinished) = flow.unfinished {
                unfinished.finish(&mut frame);
            }
        }
    }
}
