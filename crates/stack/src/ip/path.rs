//! Remembered paths: what was decided about a pair of addresses, so that the next packet between them needs no deciding.
//!
//! Whether an address is ours, where a packet to the other goes next, which Ethernet address that has, which socket a port
//! belongs to: it is the same for packet after packet, and finding out costs several times what the packet's own headers do.
//! So the answers are kept, in a table of fixed size, each pair of addresses in the one place its keyed hash names. This is
//! a cache and decides nothing:
//!
//! * An entry is made only from what the slow way (`input`, `routes`, `neighbour`, `udp`) has just decided for a packet, and
//!   holds nothing that a packet said of itself. A forger can push entries out, which costs the next packet the slow way.
//! * It counts only while nothing it was made from has changed: addresses, neighbours and sockets each count their changes,
//!   and an entry bears the sum at its making ([`Network::version`](crate::ip::network::Network::version)).
//! * A neighbour's address counts until its confirmation is due ([`Neighbours::fresh_until`]): then the slow way asks again.
//! * What is in any way unusual (options, fragments, tags, several frames, a wrong checksum) goes the slow way, which also
//!   counts the losses.
//!
//! IPv4 only, so far; IPv6 goes the slow way.
//!
//! [`Neighbours::fresh_until`]: crate::ip::neighbour::Neighbours::fresh_until

use crate::ip::neighbour::NeighbourHint;
use crate::ip::packet::HOP_LIMIT;
use qanat_api::UdpSocketId;
use qanat_nic::Time;
use qanat_wire::ethernet::{self, MacAddress};
use qanat_wire::ip::Protocol;
use qanat_wire::{checksum, field, ipv4, udp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::net::Ipv4Addr;

/// Two IPv4 addresses as they stand in the header of a received packet, sender first, in native order: the key of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddressPair(u64);

impl AddressPair {
    /// From the last eight bytes of a received header.
    #[inline(always)]
    pub(crate) fn received(raw: u64) -> AddressPair {
        AddressPair(raw)
    }

    #[inline(always)]
    pub(crate) fn new(remote: Ipv4Addr, local: Ipv4Addr) -> AddressPair {
        let [remote, local] = [remote, local].map(|address| u64::from(u32::from_ne_bytes(address.octets())));
        AddressPair(if cfg!(target_endian = "little") { local << 32 | remote } else { remote << 32 | local })
    }

    /// The sender's address.
    #[inline(always)]
    pub(crate) fn remote(self) -> Ipv4Addr {
        let raw = if cfg!(target_endian = "little") { self.0 as u32 } else { (self.0 >> 32) as u32 };
        Ipv4Addr::from(raw.to_ne_bytes())
    }

    /// The last eight bytes of a header to send: this side first.
    #[inline(always)]
    fn sent(self) -> u64 {
        self.0.rotate_left(32)
    }

    /// The sum of the four 16-bit words, unfolded.
    fn sum(self) -> u32 {
        (0..4).map(|word| (self.0 >> (16 * word)) as u32 & 0xffff).sum()
    }
}

/// What is known of a pair of addresses.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Path {
    addresses: AddressPair,
    /// [`Network::version`](crate::ip::network::Network::version) when it was made; 0: none.
    version: u64,
    /// Until when `ethernet` may be used; [`Time::ZERO`]: never.
    fresh_until: Time,
    /// The neighbour that `ethernet` was learnt from.
    hint: NeighbourHint,
    /// The socket of the datagrams that are taken.
    socket: UdpSocketId,
    /// The Ethernet addresses of a packet to send: the first eight bytes,
    ethernet: u64,
    /// and the last four.
    ethernet_rest: u32,
    /// The sum of the addresses' words, in native order, folded.
    sum: u16,
    /// IPv4's checksum of a packet to send, if it had no bytes.
    header_checksum: u16,
    /// Datagrams from this sender are taken that are for this port, as it stands in a header, if [`DELIVERS`] is set.
    takes: u32,
    /// Each packet confirms its sender's Ethernet address: neighbours are learnt from what they send.
    confirms: bool,
    /// What `socket` sends back leaves with the address it came to.
    answers: bool,
}

/// In [`Path::takes`].
const DELIVERS: u32 = 1 << 16;

const _: () = assert!(size_of::<Path>() == 64, "one cache line");
/// All headers of a datagram over IPv4 without options, untagged.
pub(crate) const HEADERS: usize = ethernet::HEADER_LENGTH + ipv4::HEADER_LENGTH + udp::HEADER_LENGTH;
/// Largest table.
const ENTRIES_MAX: usize = 1 << 20;

/// Ethernet's type, and IPv4's version and service.
const TYPE_AND_VERSION: u32 = u32::from_ne_bytes([0x08, 0, 0x45, 0]);
/// The next eight bytes: length; no identification (RFC 6864 section 4.1), "don't fragment"; hops and protocol.
const LENGTH_TO_PROTOCOL: [u8; 8] = [0, 0, 0, 0, 0x40, 0, HOP_LIMIT, Protocol::UDP.0];
/// Their sum.
const HEADER_SUM: u32 = u16::from_ne_bytes([0x45, 0]) as u32
    + u16::from_ne_bytes([0x40, 0]) as u32
    + u16::from_ne_bytes([HOP_LIMIT, Protocol::UDP.0]) as u32;

impl Path {
    const NONE: Path = Path {
        addresses: AddressPair(0),
        version: 0,
        fresh_until: Time::ZERO,
        hint: NeighbourHint::NONE,
        socket: UdpSocketId::new(0, 0),
        ethernet: 0,
        ethernet_rest: 0,
        sum: 0,
        header_checksum: 0,
        takes: 0,
        confirms: false,
        answers: false,
    };

    fn new(addresses: AddressPair, version: u64) -> Path {
        let sum = checksum::fold_u32(addresses.sum());
        let header_checksum = checksum::finish(checksum::fold_u32(u32::from(sum) + HEADER_SUM));
        Path { addresses, version, sum, header_checksum, ..Path::NONE }
    }

    /// Whether a datagram to a port, as it stands in its header, is taken.
    #[inline(always)]
    pub(crate) fn takes(&self, raw_port: u16) -> bool {
        self.takes ^ u32::from(raw_port) == DELIVERS
    }

    /// The socket of the datagrams that are taken.
    #[inline(always)]
    pub(crate) fn socket(&self) -> UdpSocketId {
        self.socket
    }

    /// See the fields.
    #[inline(always)]
    pub(crate) fn confirms(&self) -> Option<NeighbourHint> {
        self.confirms.then_some(self.hint)
    }

    /// The sum of the addresses, in native order, folded.
    #[inline(always)]
    pub(crate) fn sum(&self) -> u64 {
        u64::from(self.sum)
    }

    /// Whether this is the way from `socket` back to `remote`, in this `version`.
    #[inline(always)]
    pub(crate) fn leads_back(&self, socket: UdpSocketId, remote: Ipv4Addr, version: u64) -> bool {
        self.answers && self.version == version && self.socket == socket && self.addresses.remote() == remote
    }

    /// The port datagrams are taken for, as it stands in a header.
    #[inline(always)]
    pub(crate) fn raw_port(&self) -> u16 {
        self.takes as u16
    }

    /// Writes Ethernet and IPv4 header of a UDP datagram; `total_length`: of the IPv4 packet.
    #[inline(always)]
    pub(crate) fn write_headers(&self, header: &mut [u8; HEADERS], total_length: u16) {
        let [high, low] = total_length.to_be_bytes();
        let length = u64::from_ne_bytes([high, low, 0, 0, 0, 0, 0, 0]);
        field::put_raw_u64_at::<0, _>(header, self.ethernet);
        field::put_raw_u32_at::<8, _>(header, self.ethernet_rest);
        field::put_raw_u32_at::<12, _>(header, TYPE_AND_VERSION);
        field::put_raw_u64_at::<16, _>(header, length | u64::from_ne_bytes(LENGTH_TO_PROTOCOL));
        field::put_raw_u16_at::<24, _>(header, checksum::subtract(self.header_checksum, total_length.to_be()));
        field::put_raw_u64_at::<26, _>(header, self.addresses.sent());
    }

    /// Whether an Ethernet address, the first of eight bytes in native order, is the one packets are sent to.
    #[inline(always)]
    pub(crate) fn is_mac(&self, raw: u64) -> bool {
        mac_word(self.ethernet) == mac_word(raw)
    }

    /// Whether [`write_headers`](Path::write_headers) may be used.
    #[inline(always)]
    pub(crate) fn leads_out(&self, now: Time) -> bool {
        now < self.fresh_until
    }
}

/// Of eight bytes in native order the first six, the only ones that matter, for comparison.
#[inline(always)]
pub(crate) fn mac_word(raw: u64) -> u64 {
    raw.to_le() << 16
}

/// The table.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Paths {
    #[serde(serialize_with = "write_size", deserialize_with = "read_size")]
    entries: Vec<Path>,
    /// Odd, and known to nobody else.
    multiplier: u64,
    mask: usize,
    /// Our Ethernet address, as of [`mac_word`].
    pub(crate) mac: u64,
    /// Changes that concern no other table: of sockets. From 1.
    pub(crate) version: u64,
}

/// A cache begins anew in another process, as large as it was here.
fn write_size<S: Serializer>(entries: &[Path], serializer: S) -> Result<S::Ok, S::Error> {
    entries.len().serialize(serializer)
}

fn read_size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Path>, D::Error> {
    Ok(vec![Path::NONE; usize::deserialize(deserializer)?.min(ENTRIES_MAX)])
}

impl Paths {
    /// Of one read from a snapshot.
    pub(crate) fn is_sound(&self) -> bool {
        self.mask == self.entries.len().saturating_sub(1)
    }

    /// Of at most `max` entries (rounded up to a power of two), 0: nothing is remembered.
    pub(crate) fn new(max: usize, key: u64, mac: MacAddress) -> Paths {
        let count = if max == 0 { 0 } else { max.clamp(2, ENTRIES_MAX).next_power_of_two() };
        let [a, b, c, d, e, f] = mac.0;
        let mac = mac_word(u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]));
        let mask = count.saturating_sub(1);
        Paths { entries: vec![Path::NONE; count], multiplier: key | 1, mask, mac, version: 1 }
    }

    #[inline(always)]
    fn index(&self, addresses: AddressPair) -> usize {
        (addresses.0.wrapping_mul(self.multiplier) >> 40) as usize & self.mask
    }

    /// What is known of the pair in this `version`.
    #[inline(always)]
    pub(crate) fn get(&self, addresses: AddressPair, version: u64) -> Option<&Path> {
        self.find(addresses, version).map(|(_, path)| path)
    }

    /// The same, and its place.
    #[inline(always)]
    pub(crate) fn find(&self, addresses: AddressPair, version: u64) -> Option<(usize, &Path)> {
        let index = self.index(addresses);
        let path = self.entries.get(index)?;
        (path.addresses == addresses && path.version == version).then_some((index, path))
    }

    /// What is at a place, whatever it is now.
    #[inline(always)]
    pub(crate) fn at(&self, index: usize) -> Option<&Path> {
        self.entries.get(index)
    }

    /// The place of the pair, another's entry or an outdated one there forgotten.
    fn enter(&mut self, addresses: AddressPair, version: u64) -> Option<&mut Path> {
        let index = self.index(addresses);
        let path = self.entries.get_mut(index)?;
        if path.addresses != addresses || path.version != version {
            *path = Path::new(addresses, version);
        }
        Some(path)
    }

    /// A datagram from `addresses.remote()` to `local_port` was found acceptable, and for `socket`.
    pub(crate) fn remember_socket(
        &mut self,
        addresses: AddressPair,
        version: u64,
        local_port: u16,
        socket: UdpSocketId,
        confirms: bool,
        answers: bool,
    ) {
        if let Some(path) = self.enter(addresses, version) {
            *path = Path { takes: u32::from(local_port.to_be()) | DELIVERS, socket, confirms, answers, ..*path };
        }
    }

    /// A packet to `addresses.remote()` goes to `mac`, which counts until `fresh_until`.
    pub(super) fn remember_neighbour(
        &mut self,
        addresses: AddressPair,
        version: u64,
        hint: NeighbourHint,
        header: [u8; ethernet::HEADER_LENGTH],
        fresh_until: Time,
    ) {
        if let Some(path) = self.enter(addresses, version) {
            let ethernet = field::raw_u64_at::<0, _>(&header);
            let ethernet_rest = field::raw_u32_at::<8, _>(&header);
            *path = Path { hint, ethernet, ethernet_rest, fresh_until, ..*path };
        }
    }
}
