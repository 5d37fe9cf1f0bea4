//! Trains: TCP segments of one connection that follow each other and have the same headers but for their place in the stream. They leave
//! as one packet with one header, and whoever needs segments cuts it (TCP segmentation offload).

use crate::vnic::ChecksumOffload;
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
