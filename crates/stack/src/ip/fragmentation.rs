//! IP fragmentation at the source (RFC 791 section 2.3, RFC 8200 section 4.5): datagrams larger than the link's MTU.
//!
//! Only two things leave in fragments: what [`Stack::send_in_fragments`](crate::Stack::send_in_fragments) sends, and answers to echo
//! requests that came in fragments. TCP never needs any. Either all of a datagram's fragments leave, in order, or none.

use crate::ip::network::Network;
use crate::ip::packet::IpMeta;
use qanat_nic::{Frame, Time, TransmitOptions, Vnic};
use qanat_wire::ethernet::EtherType;
use qanat_wire::ip::Protocol;
use qanat_wire::ipv4;
use qanat_wire::ipv6_extension::{FRAGMENT_HEADER_LENGTH, Fragment};
use std::net::IpAddr;

/// Copies bytes `at` and following of `parts` in turn to `target`.
fn copy_from(parts: [&[u8]; 2], at: usize, target: &mut [u8]) -> Option<()> {
    let [head, tail] = parts;
    let (of_head, of_tail) = target.split_at_mut(target.len().min(head.len().saturating_sub(at)));
    of_head.copy_from_slice(head.get(at.min(head.len())..)?.get(..of_head.len())?);
    let from = (at + of_head.len()).saturating_sub(head.len());
    of_tail.copy_from_slice(tail.get(from..)?.get(..of_tail.len())?);
    Some(())
}

impl Network {
    /// Sends a layer-4 packet (complete with checksum), which is `parts` one after the other, in as many fragments as it
    /// takes; `false`: there is not room for all of them, and none was sent.
    pub(crate) fn send_fragments(&mut self, now: Time, vnic: &mut dyn Vnic, meta: IpMeta, parts: [&[u8]; 2]) -> bool {
        let Some(frames) = self.fragments(vnic, &meta, parts).filter(|frames| frames.len() <= vnic.transmit_room())
        else {
            self.counters.ip_fragmentation_failed += 1;
            return false;
        };
        self.counters.ip_fragments_sent += frames.len() as u64;
        for packet in frames {
            self.send_packet(now, vnic, meta, packet, TransmitOptions::default());
        }
        true
    }

    fn fragments(&mut self, vnic: &dyn Vnic, meta: &IpMeta, parts: [&[u8]; 2]) -> Option<Vec<(Frame, EtherType)>> {
        let identification = self.identifications.next(meta);
        let all = parts[0].len() + parts[1].len();
        let headers = meta.header_length() + if meta.source.is_ipv4() { 0 } else { FRAGMENT_HEADER_LENGTH };
        let mut frames = Vec::new();
        let mut offset = 0;
        while offset < all {
            let mut frame = self.frame(vnic)?;
            // One frame each, however many the device takes for a packet.
            let room = usize::from(self.link.mtu).saturating_sub(headers).min(frame.tailroom()) & !7;
            let length = room.min(all - offset);
            if length == 0 {
                return None;
            }
            copy_from(parts, offset, frame.append(length)?)?;
            let ethertype = prepend(meta, &mut frame, identification, (offset, offset + length < all))?;
            frames.push((frame, ethertype));
            offset += length;
        }
        Some(frames)
    }
}

/// Puts the headers of a fragment before its payload: where that belongs, and whether further ones follow.
fn prepend(
    meta: &IpMeta,
    frame: &mut Frame,
    identification: u32,
    (offset, more_fragments): (usize, bool),
) -> Option<EtherType> {
    let payload_length = frame.len();
    match (meta.source, meta.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Header {
                source,
                destination,
                protocol: meta.protocol,
                payload_length,
                ttl: meta.hop_limit,
                identification: identification as u16,
                dont_fragment: false,
                ecn: meta.ecn,
                dscp: 0,
            };
            header.emit_fragment(frame.prepend(ipv4::HEADER_LENGTH)?, offset, more_fragments).ok()?;
            Some(EtherType::IPV4)
        }
        (IpAddr::V6(_), IpAddr::V6(_)) => {
            let fragment = Fragment { next_header: meta.protocol, offset, more_fragments, identification };
            fragment.emit(frame.prepend(FRAGMENT_HEADER_LENGTH)?).ok()?;
            let meta = IpMeta { protocol: Protocol::FRAGMENT, ..*meta };
            meta.prepend(frame, payload_length + FRAGMENT_HEADER_LENGTH)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_one_sequence() {
        let (head, tail) = ([0, 1, 2], [3, 4, 5, 6, 7]);
        for at in 0..8 {
            for length in 0..=8 - at {
                let mut target = vec![0; length];
                assert!(copy_from([&head, &tail], at, &mut target).is_some());
                assert!((at..).zip(&target).all(|(expected, found)| expected == usize::from(*found)), "{at} {length}");
            }
        }
        assert!(copy_from([&head, &tail], 7, &mut [0; 2]).is_none());
    }
}
