//! The network layer's way out: IP and Ethernet headers, next hop, neighbour, device.

use crate::config::{Config, DuplicateAddressDetection};
use crate::counters::Counters;
use crate::ip::formed_address::Autoconfigured;
use crate::ip::identification::Identifications;
use crate::ip::multicast_listener::MulticastListener;
use crate::ip::neighbour::{NeighbourHint, Neighbours, Pending, RETRANSMIT, Resolution, Retry};
use crate::ip::own_address::{AddressState, Claim, Detection, Trial};
use crate::ip::packet::{IpMeta, Link, prepend_ethernet};
use crate::ip::path::{AddressPair, Path, Paths};
use crate::ip::routes::Routes;
use crate::ip::vlan;
use crate::rate_limit::RateLimiter;
use crate::secret::Secret;
use crate::tables::answer_limit::AnswerLimit;
use crate::tables::wheel::Wheel;
use qanat_nic::{ChecksumOffload, Frame, Time, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::ethernet::{EtherType, MacAddress};
use qanat_wire::ip::Protocol;
use qanat_wire::vlan::TAG_LENGTH;
use qanat_wire::{ethernet, ipv4, udp};
use std::net::{IpAddr, Ipv4Addr};

/// Neighbours kept.
const NEIGHBOURS_MAX: u32 = 1_024;
/// Requests for neighbours per second: more would be a scan on somebody's behalf.
const NEIGHBOUR_REQUESTS_PER_SECOND: u32 = 200;
/// ICMP errors to one peer in a second, at least (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 (f)).
const ICMP_ERRORS_LEAST: u16 = 16;
/// Echo replies to one peer in a second, at least.
const ECHO_REPLIES_LEAST: u16 = 256;
/// Room for the largest headers we write: Ethernet with a VLAN tag, IPv6, TCP with all options.
const HEADERS_MAX: usize = 14 + TAG_LENGTH + 40 + 60;

/// Addresses, neighbours and limits of the network layer.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Network {
    pub(crate) link: Link,
    pub(crate) routes: Routes,
    pub(crate) neighbours: Neighbours,
    pub(crate) paths: Paths,
    pub(crate) counters: Counters,
    /// Own addresses are the kernel's too.
    pub(crate) shared_address: bool,
    /// Neighbours are learnt from what they send. Those that are known are not asked again.
    pub(crate) neighbours_by_traffic: bool,
    /// Neighbours whose confirmation is overdue are asked: the answer comes here.
    asks_again: bool,
    pub(super) icmp_errors: AnswerLimit,
    pub(super) echo_replies: AnswerLimit,
    pub(super) identifications: Identifications,
    /// The neighbour that the last packet outside of a connection went to: as a rule the next one's too.
    last_hint: NeighbourHint,
    /// Bytes of the train that is being sent, as far as they can't be lent.
    #[serde(skip)]
    pub(crate) train_scratch: Vec<u8>,
    /// A neighbour's address became known since [`take_resolved`](Network::take_resolved).
    resolved: bool,
    /// IPv4 addresses on trial, or being announced.
    pub(super) claims: Vec<Claim>,
    /// When an own IPv4 address was last defended.
    pub(super) defended_at: Option<Time>,
    /// IPv6 addresses on trial.
    pub(super) detections: Vec<Detection>,
    pub(super) trial: Trial,
    /// Own addresses or routers need attention now and then: false for most, and then costs nothing.
    manages_addresses: bool,
    pub(crate) autoconfigured: Autoconfigured,
    pub(super) listener: MulticastListener,
    pub(super) retries: Wheel<NeighbourHint>,
    pub(super) request_limit: RateLimiter,
}

fn multicast_mac(address: IpAddr) -> Option<MacAddress> {
    match address {
        IpAddr::V4(v4) if v4.is_multicast() => Some(MacAddress::for_ipv4_multicast(v4)),
        IpAddr::V6(v6) if v6.is_multicast() => Some(MacAddress::for_ipv6_multicast(v6)),
        _ => None,
    }
}

impl Network {
    /// Whether the state that was read from a snapshot is consistent.
    pub(crate) fn is_sound(&mut self) -> bool {
        self.retries.is_sound() && self.neighbours.is_sound() && self.paths.is_sound()
    }

    pub(crate) fn new(vnic: &dyn Vnic, config: &Config, secret: &Secret, now: Time) -> Network {
        let key = secret.neighbour_key();
        let capabilities = vnic.capabilities();
        let vlan = vlan::identifier(config.vlan);
        let link = Link {
            mac: capabilities.mac,
            mtu: capabilities.mtu,
            headroom: (usize::from(capabilities.transmit_headroom) + HEADERS_MAX).next_multiple_of(64),
            device_headroom: u32::from(capabilities.transmit_headroom),
            datagram_max: usize::from(capabilities.mtu).saturating_sub(ipv4::HEADER_LENGTH + udp::HEADER_LENGTH),
            offload: capabilities.transmit_checksum,
            buffers_max: usize::from(capabilities.transmit_buffers_max.max(1)),
            vlan,
            header_length: ethernet::HEADER_LENGTH + if vlan == 0 { 0 } else { TAG_LENGTH },
        };
        let mut network = Network {
            link,
            routes: Routes::new(config, now),
            claims: Vec::new(),
            defended_at: None,
            detections: Vec::new(),
            manages_addresses: config.duplicate_address_detection != DuplicateAddressDetection::Off
                || config.wants_router_advertisements()
                || config.multicast_listener_reports,
            trial: Trial { mode: config.duplicate_address_detection, key: key.0 },
            autoconfigured: Autoconfigured::new(config.autoconfiguration.filter(|_| !config.shared_address)),
            listener: MulticastListener::new(config.multicast_listener_reports && !config.shared_address, key.1),
            neighbours: Neighbours::new(NEIGHBOURS_MAX, key),
            // Of tagged frames nothing is remembered: the tag is looked at for each.
            paths: Paths::new(
                if vlan == 0 { config.remembered_paths_max } else { 0 },
                key.0.rotate_left(32) ^ key.1,
                link.mac,
            ),
            counters: Counters::default(),
            shared_address: config.shared_address,
            neighbours_by_traffic: config.neighbours_by_traffic || config.shared_address,
            // Of a card's queues the one that asked has the answer.
            asks_again: !config.shared_address && (!config.neighbours_by_traffic || config.queue_share.is_some()),
            icmp_errors: AnswerLimit::new(ICMP_ERRORS_LEAST, secret.answer_key(1)),
            echo_replies: AnswerLimit::new(ECHO_REPLIES_LEAST, secret.answer_key(2)),
            identifications: Identifications::new(key),
            last_hint: NeighbourHint::default(),
            train_scratch: Vec::new(),
            resolved: false,
            // An entry lives until its timer fires, so an evicted neighbour's may still be there: twice the room.
            retries: Wheel::new(NEIGHBOURS_MAX as usize * 2, 20, now),
            request_limit: RateLimiter::new(NEIGHBOUR_REQUESTS_PER_SECOND, now),
        };
        network.start_claims(now);
        network.start_detection(now);
        network
    }

    /// An empty frame with room for headers.
    #[inline]
    pub(crate) fn frame(&mut self, vnic: &dyn Vnic) -> Option<Frame> {
        let frame = vnic.transmit_pool().allocate(self.link.headroom);
        if frame.is_none() {
            self.counters.transmit_no_buffer += 1;
        }
        frame
    }

    /// Hands a finished frame to the device.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, vnic: &mut dyn Vnic, buffer: TransmitBuffer, options: TransmitOptions) -> bool {
        match vnic.transmit(buffer, options) {
            Ok(()) => {
                self.counters.transmit_frames += 1;
                true
            }
            Err(unsent) => {
                // Here, and not after the match: it is an enumeration, whose end costs even where nothing came back.
                drop(unsent);
                self.counters.transmit_ring_full += 1;
                false
            }
        }
    }

    /// Sends a layer-4 packet (complete with checksum, in one frame) to its next hop, or keeps it until the neighbour
    /// answers.
    pub(crate) fn send(&mut self, now: Time, vnic: &mut dyn Vnic, meta: IpMeta, frame: Frame) {
        self.send_with(now, vnic, meta, frame, None);
    }

    /// As [`send`](Network::send), but the device puts the layer-4 checksum at `checksum_offset`.
    pub(crate) fn send_with(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        mut frame: Frame,
        checksum_offset: Option<u16>,
    ) {
        let length = frame.len();
        let Some(ethertype) = meta.prepend(&mut frame, length) else { return };
        let start = (self.link.header_length + meta.header_length()) as u16;
        let checksum = checksum_offset.map(|offset| ChecksumOffload { start, offset });
        self.send_packet(now, vnic, meta, (frame, ethertype), TransmitOptions { continues: false, checksum });
    }

    /// Sends an IP packet to its next hop, or keeps it until the neighbour answers.
    #[inline]
    pub(crate) fn send_packet(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        meta: IpMeta,
        (mut frame, ethertype): (Frame, EtherType),
        options: TransmitOptions,
    ) {
        if let Some(mac) = multicast_mac(meta.destination) {
            if prepend_ethernet(&mut frame, &self.link, mac, ethertype).is_some() {
                self.transmit(vnic, TransmitBuffer::Owned(frame), options);
            }
            return;
        }
        let Some(next_hop) = self.routes.next_hop(meta.destination) else {
            self.counters.ip_no_route += 1;
            return;
        };
        let (mac, hint) = self.resolve(now, vnic, next_hop, self.last_hint);
        self.last_hint = hint;
        if prepend_ethernet(&mut frame, &self.link, mac.unwrap_or_default(), ethertype).is_none() {
            return;
        }
        match mac {
            Some(mac) => {
                // Not for what strangers can have us send without a socket: a flood must not push others out.
                if let (IpAddr::V4(local), IpAddr::V4(remote), Protocol::UDP) =
                    (meta.source, meta.destination, meta.protocol)
                {
                    self.remember_path(now, AddressPair::new(remote, local), hint, mac);
                }
                self.transmit(vnic, TransmitBuffer::Owned(frame), options);
            }
            None => self.wait(hint, frame, options),
        }
    }

    /// Keeps a finished frame, but for its Ethernet destination, until the neighbour answers.
    fn wait(&mut self, hint: NeighbourHint, frame: Frame, options: TransmitOptions) {
        if self.neighbours.wait(hint, Pending { frame, options }).is_some() {
            self.counters.neighbour_pending_dropped += 1;
        }
    }

    /// The Ethernet address of a next hop; asks for it if unknown or overdue for confirmation.
    #[inline]
    pub(crate) fn resolve(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        next_hop: IpAddr,
        hint: NeighbourHint,
    ) -> (Option<MacAddress>, NeighbourHint) {
        match self.neighbours.resolve(now, next_hop, hint) {
            Resolution::Known { mac, hint, refresh } => {
                if refresh && self.asks_again {
                    self.ask(now, vnic, next_hop, Some(mac));
                    self.retries.insert(now + RETRANSMIT, hint);
                }
                (Some(mac), hint)
            }
            Resolution::Unknown { hint, ask } => {
                if ask {
                    self.ask(now, vnic, next_hop, None);
                    self.retries.insert(now + RETRANSMIT, hint);
                }
                (None, hint)
            }
        }
    }

    /// A neighbour told its address: enters it and sends what waited for it.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        address: IpAddr,
        mac: MacAddress,
        solicited: bool,
        create: bool,
    ) {
        // An address of ours that is somebody else's is a neighbour's after all.
        let is_ours = self.routes.state(address).is_some_and(|state| state != AddressState::Duplicate);
        if !mac.is_unicast() || !self.routes.is_on_link(address) || is_ours {
            return;
        }
        self.resolved = true;
        for Pending { mut frame, options } in self.neighbours.learn(now, address, mac, solicited, create) {
            if let Some(destination) = frame.bytes_mut().get_mut(..6) {
                destination.copy_from_slice(&mac.0);
                self.transmit(vnic, TransmitBuffer::Owned(frame), options);
            }
        }
    }

    /// Whether a neighbour's address may have become known since the last call.
    pub(crate) fn take_resolved(&mut self) -> bool {
        std::mem::take(&mut self.resolved)
    }

    /// Repeats requests that are due; gives up on neighbours that stay silent, and calls `failed` with each.
    pub(crate) fn poll_neighbours(&mut self, now: Time, vnic: &mut dyn Vnic, mut failed: impl FnMut(IpAddr)) {
        if self.manages_addresses {
            self.poll_addresses(now, vnic);
        }
        while let Some(hint) = self.retries.pop_expired(now) {
            match self.neighbours.retry(hint) {
                Retry::Nothing => {}
                Retry::Ask(address, mac) => {
                    self.ask(now, vnic, address, mac);
                    self.retries.insert(now + RETRANSMIT, hint);
                }
                Retry::Failed(address, lost) => {
                    self.counters.neighbour_failed += 1;
                    self.counters.neighbour_pending_dropped += lost as u64;
                    if let IpAddr::V6(router) = address {
                        self.routes.routers.failed(router);
                    }
                    failed(address);
                }
            }
        }
    }

    /// What own addresses and routers need, if it is time.
    fn poll_addresses(&mut self, now: Time, vnic: &mut dyn Vnic) {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        if is_due(self.autoconfigured.next_deadline()) {
            self.poll_autoconfiguration(now, vnic);
        }
        if !self.claims.is_empty() {
            self.poll_claims(now, vnic);
        }
        if !self.detections.is_empty() {
            self.poll_detection(now, vnic);
        }
        if is_due(self.routes.routers.next_deadline()) {
            self.poll_routers(now, vnic);
        }
        if is_due(self.listener.next_deadline()) {
            self.poll_listener(now, vnic);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        if !self.manages_addresses {
            return self.retries.next_deadline();
        }
        let deadlines = [
            self.retries.next_deadline(),
            self.claim_deadline(),
            self.detection_deadline(),
            self.routes.routers.next_deadline(),
            self.autoconfigured.next_deadline(),
            self.listener.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Whether a packet is for us and from a possible source (RFC 1122 section 3.2.1.3); counts it if not.
    pub(crate) fn accepts(&mut self, meta: &IpMeta) -> bool {
        let unspecified_source = meta.source.is_unspecified() && meta.protocol != Protocol::ICMPV6;
        if unspecified_source
            || meta.source.is_multicast()
            || meta.source.is_loopback()
            || self.routes.is_broadcast(meta.source)
        {
            self.counters.ip_martian += 1;
            return false;
        }
        let destination = meta.destination;
        let multicast_v6 = destination.is_ipv6() && destination.is_multicast() && meta.protocol == Protocol::ICMPV6;
        if !self.routes.is_usable(destination) && !multicast_v6 {
            self.counters.ip_not_ours += 1;
            return false;
        }
        true
    }

    /// Changes whenever something does that a path was made from.
    #[inline(always)]
    pub(crate) fn version(&self) -> u64 {
        self.paths.version + self.routes.version + self.neighbours.version
    }

    /// The path a packet from `local` to `remote` takes, if it is known and may be used without asking anybody.
    #[inline(always)]
    pub(crate) fn path_to(&self, now: Time, remote: Ipv4Addr, local: Ipv4Addr) -> Option<&Path> {
        self.paths.get(AddressPair::new(remote, local), self.version()).filter(|path| path.leads_out(now))
    }

    /// Remembers where the packet just sent went: to the neighbour of `hint`, which has `mac`.
    pub(crate) fn remember_path(&mut self, now: Time, addresses: AddressPair, hint: NeighbourHint, mac: MacAddress) {
        let Some(fresh_until) = self.neighbours.fresh_until(now, hint) else { return };
        let Link { mac: source, .. } = self.link;
        let header = ethernet::Header { destination: mac, source, ethertype: EtherType::IPV4 };
        let mut bytes = [0; ethernet::HEADER_LENGTH];
        if header.emit(&mut bytes).is_ok() {
            self.paths.remember_neighbour(addresses, self.version(), hint, bytes, fresh_until);
        }
    }
}
