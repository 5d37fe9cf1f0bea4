//! Trains: TCP segments of one connection that follow each other and have the same headers but for their place in the stream. They leave
//! as one packet with one header, and whoever needs segments cuts it (TCP segmentation offload).

use super::header::{Header, Segmentation};
use crate::vnic::ChecksumOffload;
use qanat_wire::checksum;

/// Largest IP packet, bytes.
const PACKET_MAX: usize = 65_535;
/// Ethernet header with a VLAN tag, IPv6 header, TCP header with all options: no train has longer headers.
pub(super) const HEADERS_MAX: usize = 18 + 40 + 60;

const TAGGED: u16 = 0x8100;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const FIN: u8 = 1;
const PSH: u8 = 8;
const ACK: u8 = 16;
/// Of the field from the beginning of the TCP header.
const CHECKSUM: usize = 16;

/// A segment that a train may consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Where the IP header begins.
    ip: usize,
    /// Where the TCP header begins.
    tcp: usize,
    is_v6: bool,
    /// Bytes of all headers.
    pub(super) header_length: usize,
    /// Bytes of data.
    pub(super) payload: usize,
    sequence: u32,
    flags: u8,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

impl Segment {
    /// Reads the headers of a packet of `length` bytes, of which `bytes` are the first, and whose checksum is left to the device. `None`:
    /// nothing can be joined to it.
    pub(super) fn read(bytes: &[u8], length: usize, offload: ChecksumOffload) -> Option<Segment> {
        let ip = if u16_at(bytes, 12)? == TAGGED { 18 } else { 14 };
        let (tcp, is_v6) = match (u16_at(bytes, ip - 2)?, *bytes.get(ip)?) {
            // Neither options nor fragments.
            (IPV4, 0x45) if bytes.get(ip + 9) == Some(&TCP) && u16_at(bytes, ip + 6)? & 0x3fff == 0 => (ip + 20, false),
            (IPV6, first) if first >> 4 == 6 && bytes.get(ip + 6) == Some(&TCP) => (ip + 40, true),
            _ => return None,
        };
        let flags = *bytes.get(tcp + 13)?;
        let header_length = tcp + usize::from(*bytes.get(tcp + 12)? >> 4) * 4;
        let payload = length.checked_sub(header_length)?;
        let is_plain = flags & ACK != 0 && flags & !(ACK | PSH | FIN) == 0;
        let is_whole = bytes.len() >= header_length && header_length >= tcp + 20 && payload > 0;
        let is_tcps = usize::from(offload.start) == tcp && usize::from(offload.offset) == CHECKSUM;
        let sequence = u32_at(bytes, tcp + 4)?;
        let segment = Segment { ip, tcp, is_v6, header_length, payload, sequence, flags };
        (is_plain && is_whole && is_tcps).then_some(segment)
    }

    /// Whether `next` goes on where a train ends that begins with this segment and has so many bytes of data.
    pub(super) fn goes_on(&self, headers: &[u8], data: usize, next: &Segment, next_headers: &[u8]) -> bool {
        let Segment { ip, tcp, header_length, is_v6, .. } = *self;
        let is_equal = |from: usize, to: usize| headers.get(from..to) == next_headers.get(from..to);
        // What differs: lengths, the identification and checksum of IPv4; of TCP the sequence number, flags, and checksum.
        let ip_is_equal = match is_v6 {
            true => is_equal(ip, ip + 4) && is_equal(ip + 6, tcp),
            false => is_equal(ip, ip + 2) && is_equal(ip + 6, ip + 10) && is_equal(ip + 12, tcp),
        };
        (next.ip, next.tcp, next.header_length, next.is_v6) == (ip, tcp, header_length, is_v6)
            && next.sequence == self.sequence.wrapping_add(data as u32)
            && next.payload <= self.payload
            && header_length - ip + data + next.payload <= PACKET_MAX
            && is_equal(tcp + 18, header_length)
            && is_equal(tcp + 8, tcp + 13)
            && is_equal(tcp + 14, tcp + 16)
            && is_equal(tcp, tcp + 4)
            && ip_is_equal
            && is_equal(0, ip)
    }

    /// Whether nothing may follow it in a train that begins with `first`: it is short, or ends something.
    pub(super) fn is_last(&self, first: &Segment) -> bool {
        self.payload < first.payload || self.flags & (FIN | PSH) != 0
    }

    /// Makes `headers`, those of this segment, the ones of a train of `data` bytes that it begins and `last` ends; returns what the
    /// device is told of it.
    pub(super) fn lead(&self, headers: &mut [u8], data: usize, last: &Segment) -> Option<Header> {
        let Segment { ip, tcp, header_length, .. } = *self;
        let tcp_header = header_length - tcp;
        *headers.get_mut(tcp + 13)? |= last.flags;
        // The field holds the pseudo-header's sum, in which the length is another now (RFC 1624).
        let (before, after) = ((tcp_header + self.payload) as u16, (tcp_header + data) as u16);
        let sum = u64::from(u16_at(headers, tcp + CHECKSUM)?) + u64::from(!before) + u64::from(after);
        let sum = checksum::fold_u32(sum as u32);
        *headers.get_mut(tcp + CHECKSUM..)?.first_chunk_mut()? = sum.to_be_bytes();
        if self.is_v6 {
            *headers.get_mut(ip + 4..)?.first_chunk_mut()? = after.to_be_bytes();
        } else {
            let total = (header_length - ip + data) as u16;
            *headers.get_mut(ip + 2..)?.first_chunk_mut()? = total.to_be_bytes();
            *headers.get_mut(ip + 10..)?.first_chunk_mut()? = [0; 2];
            let sum = checksum::finish(checksum::sum(headers.get(ip..tcp)?));
            *headers.get_mut(ip + 10..)?.first_chunk_mut()? = sum.to_be_bytes();
        }
        let kind = if self.is_v6 { Segmentation::TcpV6 } else { Segmentation::TcpV4 };
        Some(Header {
            checksum: Some(ChecksumOffload { start: tcp as u16, offset: CHECKSUM as u16 }),
            segmentation: Some((kind, self.payload as u16, header_length as u16)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPTIONS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];

    /// How the headers of a stream's segments are.
    #[derive(Clone, Copy, Debug)]
    struct Shape {
        is_v6: bool,
        is_tagged: bool,
        has_options: bool,
    }

    fn offload(shape: Shape) -> ChecksumOffload {
        let ip = if shape.is_tagged { 18 } else { 14 };
        ChecksumOffload { start: ip + if shape.is_v6 { 40 } else { 20 }, offset: 16 }
    }

    fn put(bytes: &mut [u8], at: usize, value: u16) {
        bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// The pseudo-header's sum of a packet, without help of what is tested.
    fn pseudo(bytes: &[u8], ip: usize, tcp: usize, is_v6: bool, length: usize) -> u16 {
        let addresses = if is_v6 { ip + 8..tcp } else { ip + 12..tcp };
        let sum = u64::from(checksum::sum(&bytes[addresses])) + 6 + length as u64;
        checksum::fold_u32(sum as u32)
    }

    fn segment(shape: Shape, sequence: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let tcp = usize::from(offload(shape).start);
        let ip = tcp - if shape.is_v6 { 40 } else { 20 };
        let options = if shape.has_options { &OPTIONS[..] } else { &[] };
        let mut bytes = vec![2; tcp + 20];
        let tcp_length = 20 + options.len() + data.len();
        if shape.is_tagged {
            put(&mut bytes, 12, TAGGED);
        }
        put(&mut bytes, ip - 2, if shape.is_v6 { IPV6 } else { IPV4 });
        if shape.is_v6 {
            bytes[ip] = 0x60;
            put(&mut bytes, ip + 4, tcp_length as u16);
            bytes[ip + 6] = TCP;
        } else {
            bytes[ip] = 0x45;
            put(&mut bytes, ip + 2, (20 + tcp_length) as u16);
            // An identification of each packet's own.
            put(&mut bytes, ip + 4, sequence as u16);
            put(&mut bytes, ip + 6, 0x4000);
            bytes[ip + 9] = TCP;
            put(&mut bytes, ip + 10, 0);
            let sum = checksum::finish(checksum::sum(&bytes[ip..tcp]));
            put(&mut bytes, ip + 10, sum);
        }
        bytes[tcp + 4..tcp + 8].copy_from_slice(&sequence.to_be_bytes());
        (bytes[tcp + 12], bytes[tcp + 13]) = ((((20 + options.len()) / 4) << 4) as u8, flags);
        let sum = pseudo(&bytes, ip, tcp, shape.is_v6, tcp_length);
        put(&mut bytes, tcp + 16, sum);
        bytes.extend_from_slice(options);
        bytes.extend_from_slice(data);
        bytes
    }

    /// Cuts a train as the kernel does (`tcp_gso_segment`): the identification of IPv4 counts up, FIN and PSH are the last one's.
    fn cut(shape: Shape, headers: &[u8], data: &[u8], size: usize) -> Vec<Vec<u8>> {
        let tcp = usize::from(offload(shape).start);
        let first = u32_at(headers, tcp + 4).unwrap();
        let flags = headers[tcp + 13];
        let count = data.len().div_ceil(size);
        let one = |(number, part): (usize, &[u8])| {
            let flags = if number + 1 == count { flags } else { flags & !(FIN | PSH) };
            segment(shape, first.wrapping_add((number * size) as u32), flags, part)
        };
        data.chunks(size).enumerate().map(one).collect()
    }

    /// Joins what can be joined: lists of packets, with what the device is told of each list.
    fn join(packets: &[Vec<u8>], offload: ChecksumOffload) -> Vec<(Vec<u8>, Option<Header>, usize)> {
        let mut trains = Vec::new();
        let mut at = 0;
        while at < packets.len() {
            let (first, mut count) = (&packets[at], 1);
            let Some(lead) = Segment::read(first, first.len(), offload) else {
                trains.push((first.clone(), None, 1));
                at += 1;
                continue;
            };
            let (mut data, mut last) = (first[lead.header_length..].to_vec(), lead);
            while !last.is_last(&lead)
                && let Some(next) = packets.get(at + count)
                && let Some(follower) = Segment::read(next, next.len(), offload)
                && lead.goes_on(first, data.len(), &follower, next)
            {
                data.extend_from_slice(&next[follower.header_length..]);
                (last, count) = (follower, count + 1);
            }
            let mut headers = first[..lead.header_length].to_vec();
            let said = (count > 1).then(|| lead.lead(&mut headers, data.len(), &last).unwrap());
            trains.push(([headers, data].concat(), said, count));
            at += count;
        }
        trains
    }

    proptest! {
        /// Whatever is joined and cut again is what it was, and a stream that goes on is joined.
        #[test]
        fn what_is_joined_is_cut_to_what_it_was(
            (is_v6, is_tagged, has_options) in any::<(bool, bool, bool)>(),
            size in 1usize..1_460,
            count in 1usize..80,
            tail in 1usize..1_460,
            first in any::<u32>(),
            last_flags in prop_oneof![Just(ACK), Just(ACK | PSH), Just(ACK | PSH | FIN)],
        ) {
            let shape = Shape { is_v6, is_tagged, has_options };
            let stream: Vec<u8> = (0..size * count + tail.min(size)).map(|at| at as u8).collect();
            let total = stream.len().div_ceil(size);
            let packets: Vec<Vec<u8>> = stream.chunks(size).enumerate().map(|(number, data)| {
                let flags = if number + 1 == total { last_flags } else { ACK };
                segment(shape, first.wrapping_add((number * size) as u32), flags, data)
            }).collect();
            let offload = offload(shape);
            let trains = join(&packets, offload);
            let most = (PACKET_MAX - 40 - 20 - 12) / size;
            prop_assert!(trains.len() <= total.div_ceil(most), "{} trains of {} packets", trains.len(), total);
            let mut at = 0;
            for (train, said, count) in trains {
                let expected = &packets[at..at + count];
                at += count;
                let Some(said) = said else {
                    prop_assert_eq!(&train, &expected[0]);
                    continue;
                };
                let (kind, cut_size, header_length) = said.segmentation.unwrap();
                prop_assert_eq!(kind == Segmentation::TcpV6, is_v6);
                prop_assert_eq!(said.checksum, Some(offload));
                let (headers, data) = train.split_at(usize::from(header_length));
                let (ip, tcp) = (if is_tagged { 18 } else { 14 }, usize::from(offload.start));
                if !is_v6 {
                    prop_assert_eq!(checksum::sum(&headers[ip..tcp]), 0xffff);
                    prop_assert_eq!(usize::from(u16_at(headers, ip + 2).unwrap()), train.len() - ip);
                }
                prop_assert_eq!(u16_at(headers, tcp + 16), Some(pseudo(headers, ip, tcp, is_v6, train.len() - tcp)));
                prop_assert_eq!(cut(shape, headers, data, usize::from(cut_size)), expected);
            }
        }

        /// One byte of a header that differs, lengths and the rest of what may differ apart, parts two segments.
        #[test]
        fn what_differs_is_not_joined((is_v6, is_tagged, has_options) in any::<(bool, bool, bool)>(), at in 0usize..100, bit in 0u8..8) {
            let shape = Shape { is_v6, is_tagged, has_options };
            let one = segment(shape, 100, ACK, &[1; 50]);
            let mut other = segment(shape, 150, ACK, &[2; 50]);
            let (tcp, headers) = (usize::from(offload(shape).start), other.len() - 50);
            let ip = tcp - if is_v6 { 40 } else { 20 };
            // A length, or the identification.
            let may_differ = ip + 4..ip + 6;
            let free = |at: usize| may_differ.contains(&at) || (!is_v6 && (ip + 10..ip + 12).contains(&at)) || (tcp + 16..tcp + 18).contains(&at)
                || (!is_v6 && (ip + 2..ip + 4).contains(&at))
                || at == tcp + 13 && 1 << bit & (FIN | PSH) != 0;
            prop_assume!(at < headers && !free(at));
            other[at] ^= 1 << bit;
            prop_assert_eq!(join(&[one, other], offload(shape)).len(), 2);
        }

        #[test]
        fn garbage_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), start in any::<u16>()) {
            let _ = Segment::read(&bytes, bytes.len(), ChecksumOffload { start, offset: 16 });
        }
    }
}
