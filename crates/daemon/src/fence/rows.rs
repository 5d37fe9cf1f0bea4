//! Rows of the fence's tables, as bytes. Layouts: twin of `bpf/fence.h`.

use qanat_control::filter::{Filter, Rate, Span};
use serde::{Deserialize, Serialize};

/// Bytes of a filter's row.
pub(crate) const FILTER_BYTES: usize = 192;
/// Bytes of a VNIC's row.
pub(crate) const VNIC_BYTES: usize = 48;
/// A frame costs a wire this much beyond its bytes.
const FRAME_OVERHEAD: u64 = 24;
/// In place of a queue's number: by the flow's hash.
const SPREAD_QUEUE: u8 = 255;
/// In place of a protocol's number.
const NOT_IP: u16 = 0x100;
const FILTER_GRANTED: u8 = 1;
const FILTER_DIVERTED: u8 = 2;
const FILTER_ASKED: u8 = 4;
/// In place of protocols' numbers: no packet that has a service.
const NO_SERVICE: u16 = 0x1ff;

/// A row of the table of VNICs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct VnicRow {
    /// Ethernet address of the application's end.
    pub mac: [u8; 6],
    /// Of the kernel's end.
    pub host_mac: [u8; 6],
    /// `FLAG_…`.
    pub flags: u32,
    /// Transmit and receive: first filter and count.
    pub filters: [(u16, u16); 2],
    /// Counts changes of filters.
    pub generation: u32,
    /// Transmit and receive: rows of limits, the VNIC's own and its owner's; 0: none.
    pub limits: [[u32; 2]; 2],
    /// Queues, from 0, that share what no filter gives to one.
    #[serde(default)]
    pub spread: u8,
}

impl VnicRow {
    pub(crate) fn encode(&self) -> [u8; VNIC_BYTES] {
        let mut row = [0; VNIC_BYTES];
        row[..6].copy_from_slice(&self.mac);
        row[6..12].copy_from_slice(&self.host_mac);
        let range = |(first, count): (u16, u16)| u32::from(first) << 16 | u32::from(count);
        let [[one, two], [three, four]] = self.limits;
        let words =
            [self.flags, range(self.filters[0]), range(self.filters[1]), self.generation, one, two, three, four];
        for (target, word) in row[12..44].chunks_exact_mut(4).zip(words) {
            target.copy_from_slice(&word.to_ne_bytes());
        }
        row[44] = self.spread;
        row
    }
}

/// A row of the table of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRow {
    /// What it covers.
    pub filter: Filter,
    /// The queue that receives it; `None`: by the flow.
    pub queue: Option<u8>,
    /// Counts for addresses the VNIC has not.
    pub is_granted: bool,
    /// What it covers is another VNIC's.
    pub diverted: Option<u16>,
    /// It covers no service, but what has none.
    pub link: Option<LinkScope>,
}

/// What a row of a rule's peers covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkScope {
    /// ICMP, and questions for neighbours.
    All,
    /// Questions for neighbours.
    Questions,
}

impl From<Filter> for FilterRow {
    fn from(filter: Filter) -> FilterRow {
        FilterRow { filter, queue: None, is_granted: false, diverted: None, link: None }
    }
}

struct Writer<'a> {
    rest: &'a mut [u8],
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        let rest = std::mem::take(&mut self.rest);
        if let Some((target, after)) = rest.split_first_chunk_mut::<N>() {
            *target = bytes;
            self.rest = after;
        }
    }

    fn put_halves(&mut self, number: u128) {
        self.put(((number >> 64) as u64).to_ne_bytes());
        self.put((number as u64).to_ne_bytes());
    }

    fn put_ranges(&mut self, ranges: &[(u16, u16)]) {
        for (first, last) in ranges {
            self.put(first.to_ne_bytes());
            self.put(last.to_ne_bytes());
        }
    }
}

impl FilterRow {
    pub(crate) fn encode(&self) -> [u8; FILTER_BYTES] {
        let mut row = [0; FILTER_BYTES];
        let mut writer = Writer { rest: &mut row };
        let FilterRow { filter, queue, is_granted, diverted, link } = *self;
        for Span { first, last, mask, value } in [filter.local.span(), filter.peer.span()] {
            [first, last, mask, value].into_iter().for_each(|number| writer.put_halves(number));
        }
        let Span { first, last, mask, value } = filter.macs.span();
        [first, last, mask, value].into_iter().for_each(|number| writer.put((number as u64).to_ne_bytes()));
        let service = filter.service;
        // At the IP level what is no IP has no protocol that fits; at the Ethernet level the type alone decides.
        let protocols = match filter.types {
            _ if link.is_some() => (NO_SERVICE, NO_SERVICE),
            None => (u16::from(service.protocol_first), u16::from(service.protocol_last)),
            Some(_) => (0, NOT_IP),
        };
        let types = filter.types.map_or((0, u16::MAX), |types| (types.first, types.last));
        let ports = [service.ports, filter.peer_ports].map(|ports| (ports.first, ports.last));
        writer.put_ranges(&ports);
        writer.put_ranges(&[protocols, types, filter.vlan.outer, filter.vlan.inner]);
        let granted = if is_granted { FILTER_GRANTED } else { 0 };
        let elsewhere = if diverted.is_some() { FILTER_DIVERTED } else { 0 };
        let asked = if link == Some(LinkScope::Questions) { FILTER_ASKED } else { 0 };
        writer.put([queue.unwrap_or(SPREAD_QUEUE), granted | elsewhere | asked]);
        writer.put(diverted.unwrap_or(0).to_ne_bytes());
        row
    }
}

/// Costs and tolerances in sixteenths of a nanosecond; per byte in 16.16 fixed point.
pub(crate) fn encode_rate(rate: Rate, mtu: u32) -> [u64; 6] {
    const SECOND: u128 = 16_000_000_000;
    let frame = u64::from(mtu) + 14 + FRAME_OVERHEAD;
    let bounded = |value: u128| u64::try_from(value).unwrap_or(u64::MAX >> 20);
    let (mut per_byte, mut per_packet, mut bits, mut packets) = (0, 0, 0, 0);
    if rate.bits_per_s > 0 {
        per_byte = bounded(((SECOND * 8) << 16) / u128::from(rate.bits_per_s.max(1_000))).max(1);
        let burst = if rate.burst_bytes > 0 { rate.burst_bytes } else { rate.bits_per_s / 800 };
        bits = bounded((u128::from(burst.max(4 * frame)) * u128::from(per_byte)) >> 16);
    }
    if rate.packets_per_s > 0 {
        per_packet = bounded(SECOND / u128::from(rate.packets_per_s)).max(1);
        let burst = if rate.burst_packets > 0 { rate.burst_packets } else { rate.packets_per_s / 100 };
        // Frames of the longest packet, if it is a train.
        let least = u64::from(mtu / 512).max(4);
        packets = bounded(u128::from(burst.max(least)) * u128::from(per_packet));
    }
    [per_byte, per_packet, bits, packets, 0, 0]
}
