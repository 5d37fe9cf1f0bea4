//! From TCP segment to frame: headers written once, the payload copied from its owner or already in place.

use crate::ip::network::Network;
use crate::ip::packet::{IpMeta, Link, prepend_ethernet};
use crate::tables::flow::FlowKey;
use crate::tcp::{Emitter, PieceRange, SegmentPayload};
use qanat_nic::{
    ChecksumOffload, Frame, TRAIN_BYTES_MAX, TRAIN_PIECES_MAX, Train, TransmitBuffer, TransmitOptions, Vnic,
};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::ip::{Ecn, Protocol};
use qanat_wire::{checksum, tcp};
use std::io::IoSlice;

/// The way out of one connection's segments.
pub(crate) struct SegmentEmitter<'a> {
    pub(crate) network: &'a mut Network,
    pub(crate) vnic: &'a mut dyn Vnic,
    pub(crate) meta: IpMeta,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
    /// The next hop's address.
    pub(crate) mac: MacAddress,
    /// Frames the device certainly takes.
    pub(crate) room: usize,
    /// For the headers of the train that was begun.
    train_frame: Option<Frame>,
}

/// The way out of segments that nobody can take: their next hop doesn't answer. They count as sent and lost, so that the
/// connection's own time-outs go on and end it.
pub(crate) struct LosingEmitter<'a> {
    /// Segments lost.
    pub(crate) lost: &'a mut u64,
}

impl Emitter for LosingEmitter<'_> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn emit(&mut self, _header: &tcp::Header, _payload: SegmentPayload<'_>, _ecn: Ecn) -> bool {
        *self.lost += 1;
        true
    }
}

/// Everything around a segment's payload.
struct Headers<'a> {
    link: Link,
    meta: IpMeta,
    mac: MacAddress,
    ports: [u8; 4],
    segment: &'a tcp::Header,
    payload_length: usize,
}

impl Headers<'_> {
    /// Writes TCP, IP and Ethernet headers before the data of `frame`, the packet's first (or only) one.
    #[inline]
    fn write(&self, frame: &mut Frame, payload_sum: u16) -> Option<TransmitOptions> {
        let header_length = self.segment.header_length();
        let length = header_length + self.payload_length;
        let bytes = frame.prepend(header_length)?;
        self.segment.emit(bytes).ok()?;
        bytes.get_mut(..4)?.copy_from_slice(&self.ports);
        let pseudo = self.meta.pseudo_header_sum(length);
        let checksum = if self.link.offload {
            tcp::write_partial_checksum(bytes, pseudo).ok()?;
            let start = (self.link.header_length + self.meta.header_length()) as u16;
            Some(ChecksumOffload { start, offset: tcp::CHECKSUM_OFFSET as u16 })
        } else {
            tcp::write_checksum(bytes, pseudo, payload_sum).ok()?;
            None
        };
        let ethertype = self.meta.prepend(frame, length)?;
        prepend_ethernet(frame, &self.link, self.mac, ethertype)?;
        Some(TransmitOptions { continues: false, checksum })
    }
}

impl<'a> SegmentEmitter<'a> {
    /// For the connection with `key`, whose next hop is at `mac`; the device takes `room` frames.
    #[inline]
    pub(crate) fn new(
        network: &'a mut Network,
        vnic: &'a mut dyn Vnic,
        key: &FlowKey,
        mac: MacAddress,
        room: usize,
    ) -> SegmentEmitter<'a> {
        let meta =
            IpMeta { ecn: Ecn::NotCapable, ..IpMeta::new(key.local_address(), key.remote_address(), Protocol::TCP) };
        let (local_port, remote_port) = (key.local_port(), key.remote_port());
        SegmentEmitter { network, vnic, meta, local_port, remote_port, mac, room, train_frame: None }
    }
}

impl SegmentEmitter<'_> {
    #[inline]
    fn headers<'h>(&self, segment: &'h tcp::Header, ecn: Ecn, payload_length: usize) -> Headers<'h> {
        let [a, b] = self.local_port.to_be_bytes();
        let [c, d] = self.remote_port.to_be_bytes();
        Headers {
            link: self.network.link,
            meta: IpMeta { ecn, ..self.meta },
            mac: self.mac,
            ports: [a, b, c, d],
            segment,
            payload_length,
        }
    }

    /// Sends a packet whose payload is copied: in one frame, or in as many as it takes.
    fn emit_copy(&mut self, headers: &Headers<'_>, payload: SegmentPayload<'_>) -> bool {
        let Some(mut frame) = self.network.frame(self.vnic) else { return false };
        let length = headers.payload_length;
        if length > frame.tailroom() {
            return self.emit_scattered(headers, payload, frame);
        }
        let mut sum = 0;
        if let SegmentPayload::Copy(range) | SegmentPayload::Ready { range, .. } = payload {
            let Some(bytes) = frame.append(length) else { return false };
            let fill = range.fill(bytes);
            if !headers.link.offload {
                sum = fill.sum.unwrap_or_else(|| checksum::sum(frame.bytes()));
            }
        }
        let Some(options) = headers.write(&mut frame, sum) else { return false };
        self.room = self.room.saturating_sub(1);
        self.network.transmit(self.vnic, TransmitBuffer::Owned(frame), options)
    }

    /// A payload larger than a frame (large MTU): headers and first part in `first`, the rest in further frames.
    fn emit_scattered(&mut self, headers: &Headers<'_>, payload: SegmentPayload<'_>, mut first: Frame) -> bool {
        let (SegmentPayload::Copy(range) | SegmentPayload::Ready { range, .. }) = payload else { return false };
        // Even, so that the parts' sums add up.
        let first_length = first.tailroom() & !1;
        // The device wants its room in each.
        let rest_headroom = self.network.link.device_headroom as usize;
        let rest_capacity = first.capacity().saturating_sub(rest_headroom) & !1;
        if rest_capacity == 0 {
            return false;
        }
        let rest_count = (headers.payload_length - first_length).div_ceil(rest_capacity);
        if self.room <= rest_count || rest_count >= self.network.link.buffers_max {
            return false;
        }
        let mut rest: Vec<Frame> = Vec::with_capacity(rest_count);
        let mut sum = 0;
        let mut position = 0;
        for index in 0..=rest_count {
            let capacity = if index == 0 { first_length } else { rest_capacity };
            let count = (headers.payload_length - position).min(capacity);
            let frame = if index == 0 {
                &mut first
            } else {
                let Some(frame) = self.vnic.transmit_pool().allocate(rest_headroom) else {
                    self.network.counters.transmit_no_buffer += 1;
                    return false;
                };
                rest.push(frame);
                let Some(frame) = rest.last_mut() else { return false };
                frame
            };
            let Some(bytes) = frame.append(count) else { return false };
            let fill = range.part(position as u32, count as u32).fill(bytes);
            if !headers.link.offload {
                sum = checksum::combine(sum, fill.sum.unwrap_or_else(|| checksum::sum(frame.bytes())));
            }
            position += count;
        }
        let Some(mut options) = headers.write(&mut first, sum) else { return false };
        self.room -= rest_count + 1;
        options.continues = !rest.is_empty();
        let mut sent = self.network.transmit(self.vnic, TransmitBuffer::Owned(first), options);
        let last = rest.len().saturating_sub(1);
        for (index, frame) in rest.into_iter().enumerate() {
            let options = TransmitOptions { continues: index < last, checksum: None };
            sent &= self.network.transmit(self.vnic, TransmitBuffer::Owned(frame), options);
        }
        sent
    }
}

impl Emitter for SegmentEmitter<'_> {
    fn room(&self) -> usize {
        self.room
    }

    fn emit(&mut self, header: &tcp::Header, payload: SegmentPayload<'_>, ecn: Ecn) -> bool {
        if self.room == 0 {
            self.network.counters.transmit_ring_full += 1;
            return false;
        }
        let headers = self.headers(header, ecn, payload.len());
        if let SegmentPayload::Ready { source, stamp, offset, .. } = payload {
            let mut options = None;
            let ready = source.ready(stamp, offset, &mut |frame, sum| {
                if frame.len() == headers.payload_length {
                    options = headers.write(frame, sum);
                }
            });
            if let (Some(frame), Some(options)) = (ready, options) {
                self.room -= 1;
                return self.network.transmit(self.vnic, TransmitBuffer::Shared(frame), options);
            }
        }
        self.emit_copy(&headers, payload)
    }

    fn begin_train(&mut self) -> u32 {
        if self.room < 2 || !self.network.link.offload || self.vnic.trains().is_none() {
            return 0;
        }
        self.train_frame = self.network.frame(self.vnic);
        if self.train_frame.is_some() { TRAIN_BYTES_MAX } else { 0 }
    }

    fn emit_train(&mut self, header: &tcp::Header, range: PieceRange<'_>, segment_bytes: u16, ecn: Ecn) {
        let segments = range.len().div_ceil(usize::from(segment_bytes).max(1));
        self.room = self.room.saturating_sub(segments);
        let mut frame = self.train_frame.take();
        let options = frame.as_mut().and_then(|frame| self.headers(header, ecn, range.len()).write(frame, 0));
        // The device may have changed since it was asked; what it doesn't take any more is lost, as on a wire.
        let (Some(frame), Some(TransmitOptions { checksum: Some(checksum), .. }), Some(trains)) =
            (frame, options, self.vnic.trains())
        else {
            self.network.counters.transmit_ring_full += segments as u64;
            return;
        };
        let mut pieces = [IoSlice::new(&[]); TRAIN_PIECES_MAX];
        let scratch = &mut self.network.train_scratch;
        // Allocates with the first train of all, once.
        scratch.resize(TRAIN_BYTES_MAX as usize, 0);
        let count = range.gather(scratch.get_mut(..range.len()).unwrap_or_default(), &mut pieces);
        let payload = pieces.get(..count).unwrap_or_default();
        let is_v6 = self.meta.source.is_ipv6();
        trains.transmit_train(&Train { headers: frame.bytes(), payload, segment_bytes, checksum, is_v6 });
        self.network.counters.transmit_frames += segments as u64;
    }
}
