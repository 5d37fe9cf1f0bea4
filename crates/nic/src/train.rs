//! Trains: TCP segments of one connection that follow each other and have the same headers but for their place in the stream. They leave
//! as one packet with one header, and whoever needs segments cuts it (TCP segmentation offload).

use crate::checksum::ChecksumOffload;
use qanat_wire::checksum;
use std::io::IoSlice;

/// Payload bytes of a train at most: an IP packet has 65,535 bytes, of which an IPv6 header and a TCP header with all options take 100.
pub const TRAIN_BYTES_MAX: u32 = 65_535 - 100;
/// Pieces of payload that a train has at most.
pub const TRAIN_PIECES_MAX: usize = 64;

/// Segments that leave as one packet.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// Ethernet, IP and TCP headers, as of the first segment. The lengths are the whole packet's, as is the pseudo-header's sum in the
    /// checksum field; PSH and FIN are the last segment's.
    pub headers: &'a [u8],
    /// The bytes behind them, in at most [`TRAIN_PIECES_MAX`] pieces.
    pub payload: &'a [IoSlice<'a>],
    /// Payload bytes of each segment; the last one may have fewer.
    pub segment_bytes: u16,
    /// Where the checksum of the packet, and of each segment, goes.
    pub checksum: ChecksumOffload,
    /// The headers are IPv6's.
    pub is_v6: bool,
}

impl Train<'_> {
    /// Payload bytes.
    pub fn payload_length(&self) -> usize {
        self.payload.iter().map(|piece| piece.len()).sum()
    }

    /// Segments it is to be cut into.
    pub fn segment_count(&self) -> usize {
        self.payload_length().div_ceil(usize::from(self.segment_bytes).max(1))
    }
}

/// A device that takes trains.
pub trait TransmitTrains {
    /// Sends a train at once, behind everything that is queued. Its bytes are the caller's again when this returns. A train that the
    /// device does not take is lost, and counted as `transmit_lost`.
    fn transmit_train(&mut self, train: &Train<'_>);
}

const FIN: u8 = 1;
const PSH: u8 = 8;

impl Train<'_> {
    /// Cuts it as the kernel does (`tcp_gso_segment`), but leaves the identification of IPv4 as it is: calls `each` with every segment, from
    /// its Ethernet header on. A train whose headers are not what they are said to be has no segments.
    pub fn cut(&self, mut each: impl FnMut(&[u8])) {
        let payload: Vec<u8> = self.payload.iter().flat_map(|piece| piece.iter().copied()).collect();
        let count = self.segment_count();
        for (index, part) in payload.chunks(usize::from(self.segment_bytes).max(1)).enumerate() {
            let mut segment = [self.headers, part].concat();
            let headers = segment.split_at_mut(self.headers.len()).0;
            let place = Place { index, is_last: index + 1 == count, length: part.len(), whole: payload.len() };
            if self.cut_headers(headers, place).is_some() {
                each(&segment);
            }
        }
    }

    /// Makes the headers of the train those of a segment.
    fn cut_headers(&self, headers: &mut [u8], place: Place) -> Option<()> {
        let tcp = usize::from(self.checksum.start);
        let ip = tcp.checked_sub(if self.is_v6 { 40 } else { 20 })?;
        let tcp_header = headers.len().checked_sub(tcp)?;
        let (before, after) = ((tcp_header + place.whole) as u16, (tcp_header + place.length) as u16);
        // The field holds the pseudo-header's sum, in which the length is another now (RFC 1624).
        let field = tcp + usize::from(self.checksum.offset);
        let sum = u16::from_be_bytes(*headers.get(field..)?.first_chunk()?);
        put(headers, field, checksum::fold_u32(u32::from(sum) + u32::from(!before) + u32::from(after)))?;
        if self.is_v6 {
            put(headers, ip + 4, after)?;
        } else {
            put(headers, ip + 2, (tcp - ip) as u16 + after)?;
            put(headers, ip + 10, 0)?;
            let sum = checksum::finish(checksum::sum(headers.get(ip..tcp)?));
            put(headers, ip + 10, sum)?;
        }
        let sequence: &mut [u8; 4] = headers.get_mut(tcp + 4..)?.first_chunk_mut()?;
        let first = u32::from_be_bytes(*sequence);
        *sequence = first.wrapping_add(place.index as u32 * u32::from(self.segment_bytes)).to_be_bytes();
        let flags = headers.get_mut(tcp + 13)?;
        if !place.is_last {
            *flags &= !(FIN | PSH);
        }
        Some(())
    }
}

/// Where in a train a segment is.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
    is_last: bool,
    /// Its payload bytes.
    length: usize,
    /// The train's.
    whole: usize,
}

fn put(bytes: &mut [u8], at: usize, value: u16) -> Option<()> {
    *bytes.get_mut(at..)?.first_chunk_mut()? = value.to_be_bytes();
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ACK: u8 = 16;
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
            put(&mut bytes, 12, 0x8100);
        }
        put(&mut bytes, ip - 2, if shape.is_v6 { 0x86dd } else { 0x0800 });
        if shape.is_v6 {
            bytes[ip] = 0x60;
            put(&mut bytes, ip + 4, tcp_length as u16);
            bytes[ip + 6] = 6;
        } else {
            bytes[ip] = 0x45;
            put(&mut bytes, ip + 2, (20 + tcp_length) as u16);
            // Atomic datagrams have no identification (RFC 6864 section 4.1).
            put(&mut bytes, ip + 4, 0);
            put(&mut bytes, ip + 6, 0x4000);
            bytes[ip + 9] = 6;
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

    /// Cuts a train, without help of what is tested: FIN and PSH are the last one's.
    fn cut(shape: Shape, headers: &[u8], data: &[u8], size: usize) -> Vec<Vec<u8>> {
        let tcp = usize::from(offload(shape).start);
        let first = u32::from_be_bytes(*headers[tcp + 4..].first_chunk().unwrap());
        let flags = headers[tcp + 13];
        let count = data.len().div_ceil(size);
        let one = |(number, part): (usize, &[u8])| {
            let flags = if number + 1 == count { flags } else { flags & !(FIN | PSH) };
            segment(shape, first.wrapping_add((number * size) as u32), flags, part)
        };
        data.chunks(size).enumerate().map(one).collect()
    }

    proptest! {
        /// The segments of a train are those that would have been sent without it.
        #[test]
        fn segments_are_as_if_there_were_no_train(
            (is_v6, is_tagged, has_options) in any::<(bool, bool, bool)>(),
            size in 1usize..1_460,
            count in 1usize..45,
            tail in 1usize..1_460,
            first in any::<u32>(),
            cut_at in any::<u16>(),
            flags in prop_oneof![Just(ACK), Just(ACK | PSH), Just(ACK | PSH | FIN)],
        ) {
            let shape = Shape { is_v6, is_tagged, has_options };
            let data: Vec<u8> = (0..(size * count + tail.min(size)).min(TRAIN_BYTES_MAX as usize)).map(|at| at as u8).collect();
            let whole = segment(shape, first, flags, &data);
            let (headers, _) = whole.split_at(whole.len() - data.len());
            let (one, other) = data.split_at(usize::from(cut_at) % data.len());
            let payload = [IoSlice::new(one), IoSlice::new(other)];
            let train = Train { headers, payload: &payload, segment_bytes: size as u16, checksum: offload(shape), is_v6 };
            let mut segments = Vec::new();
            train.cut(|segment| segments.push(segment.to_vec()));
            prop_assert_eq!(segments.len(), train.segment_count());
            prop_assert_eq!(segments, cut(shape, headers, &data, size));
        }

        #[test]
        fn lying_headers_do_no_harm(
            headers in proptest::collection::vec(any::<u8>(), 0..120),
            (start, offset, segment_bytes, is_v6) in any::<(u16, u16, u16, bool)>(),
        ) {
            let payload = [IoSlice::new(&[1; 300])];
            let train = Train { headers: &headers, payload: &payload, segment_bytes, checksum: ChecksumOffload { start, offset }, is_v6 };
            train.cut(|_| {});
        }
    }
}
