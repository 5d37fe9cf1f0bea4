//! The stack as a whole: its state, its clockwork, and the commands that concern no single protocol.

use crate::config::Config;
use crate::counters::Counters;
use crate::ip::network::Network;
use crate::ip::reassembly::Reassembly;
use crate::secret::Secret;
use crate::snapshot::{self, Fault};
use crate::tables::slab::Slab;
use crate::tables::wheel::{Wheel, WheelHandle};
use crate::transport::tables::Transport;
use crate::transport::udp_socket::{UdpError, UdpSocket};
use qanat_api::{CommandError, Event, TimerId};
use qanat_nic::{Frame, ReceiveChecksum, Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

/// 2^20 ns ≈ 1.05 ms: finer than any protocol timer needs, coarse enough to share slots.
pub(crate) const TICK_SHIFT: u32 = 20;

/// Batches of [`Stack::transmit_last`]: of 32 frames each, the least that a device takes at once, a reset for every connection.
const LAST_BATCHES_MAX: usize = 1_024;

/// What a timer of the stack is for.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) enum TimerKind {
    Connection { slot: u32, generation: u32 },
    HalfOpen { slot: u32, generation: u32 },
    TimeWait { slot: u32, generation: u32 },
    Service { slot: u32, generation: u32 },
}

/// A service's timer.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct ServiceTimer {
    token: u64,
    handle: WheelHandle,
}

/// One stack: one thread, one queue pair.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Stack {
    pub(crate) secret: Secret,
    pub(crate) network: Network,
    pub(crate) transport: Transport,
    pub(crate) udp_sockets: Slab<UdpSocket>,
    pub(crate) reassembly: Reassembly,
    /// Datagrams that came back, as ICMP says, if somebody wants to know.
    pub(crate) udp_errors: VecDeque<UdpError>,
    pub(crate) tells_udp_errors: bool,
    pub(crate) events: VecDeque<Event>,
    /// See [`lost_address`](Stack::lost_address).
    pub(crate) lost_address: Option<(IpAddr, MacAddress)>,
    pub(crate) wheel: Wheel<TimerKind>,
    pub(crate) service_timers: Slab<ServiceTimer>,
    pub(crate) receive_checksum: ReceiveChecksum,
    /// Frames taken at once.
    pub(crate) receive_batch: usize,
    /// Frames of the batch being worked on, and of the packet being worked on: kept for their capacity.
    #[serde(skip)]
    pub(crate) batch: Vec<Frame>,
    #[serde(skip)]
    pub(crate) tail: Vec<Frame>,
}

impl Stack {
    /// A stack over `vnic`. `entropy` seeds ISNs, ports and hashes; it has no default, so that nothing is predictable
    /// by accident.
    pub fn new(config: Config, entropy: [u8; 32], vnic: &dyn Vnic, now: Time) -> Stack {
        let secret = Secret::new(entropy);
        let timers = config.connections_max + config.half_open_max + config.time_wait_max + config.timers_max;
        Stack {
            network: Network::new(vnic, &config, &secret, now),
            transport: Transport::new(&config, vnic, &secret),
            udp_sockets: Slab::new(config.udp_sockets_max),
            reassembly: Reassembly::new(),
            udp_errors: VecDeque::new(),
            tells_udp_errors: config.udp_errors,
            events: VecDeque::with_capacity(1_024),
            lost_address: None,
            wheel: Wheel::new(timers, TICK_SHIFT, now),
            service_timers: Slab::new(config.timers_max),
            receive_checksum: vnic.capabilities().receive_checksum,
            receive_batch: config.receive_batch.max(qanat_nic::PACKET_FRAMES_MAX),
            batch: Vec::with_capacity(128),
            tail: Vec::with_capacity(32),
            secret,
        }
    }

    /// Tells the link's others of our IPv4 addresses: for a stack in place of another, or one that was waited for.
    pub fn announce(&mut self, vnic: &mut dyn Vnic) {
        self.network.announce(vnic);
        vnic.flush();
    }

    /// The next event, if any.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Events not yet taken.
    #[inline]
    pub fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Handles timers that are due and sends everything that may be sent, then rings the device's doorbell once. To be
    /// called after each batch of events, and at [`next_deadline`](Stack::next_deadline).
    pub fn transmit(&mut self, now: Time, vnic: &mut dyn Vnic) {
        self.poll_timers(now);
        self.network.counters.ip_reassembly_dropped += self.reassembly.expire(now) as u64;
        let transport = &mut self.transport;
        self.network.poll_neighbours(now, vnic, |address| transport.neighbour_failed(address));
        if !self.network.autoconfigured.lost.is_empty() {
            self.drop_lost_addresses(now);
        }
        self.output_connections(now, vnic);
        vnic.flush();
    }

    /// Sends everything that may be sent, in as many batches as it takes. This is for a caller that does not come back: events are
    /// lost. It ends when the device takes nothing more.
    pub fn transmit_last(&mut self, now: Time, vnic: &mut dyn Vnic) {
        for _ in 0..LAST_BATCHES_MAX {
            self.transmit(now, vnic);
            self.events.clear();
            if !self.has_output() {
                return;
            }
        }
    }

    /// When [`transmit`](Stack::transmit) must be called at the latest; `None`: not before the next frame or command.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.has_output() || !self.events.is_empty() {
            return Some(Time::ZERO);
        }
        [self.wheel.next_deadline(), self.network.next_deadline(), self.reassembly.next_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn poll_timers(&mut self, now: Time) {
        // Bounded: each pop removes an entry, and a re-inserted one is never due at `now` again.
        while let Some(kind) = self.wheel.pop_expired(now) {
            match kind {
                TimerKind::Connection { slot, generation } => self.connection_timer(now, slot, generation),
                TimerKind::HalfOpen { slot, generation } => self.half_open_timer(now, slot, generation),
                TimerKind::TimeWait { slot, generation } => self.time_wait_timer(now, slot, generation),
                TimerKind::Service { slot, generation } => {
                    if self.service_timers.get(slot as usize, generation).is_some()
                        && let Some(timer) = self.service_timers.remove(slot)
                    {
                        let id = TimerId::new(slot, generation);
                        self.events.push_back(Event::Timer { id, token: timer.token });
                    }
                }
            }
        }
    }

    /// Asks for an [`Event::Timer`] with `token` after `after`.
    ///
    /// # Errors
    /// [`CommandError::Full`].
    pub fn set_timer(&mut self, now: Time, after: Duration, token: u64) -> Result<TimerId, CommandError> {
        let (slot, generation) = self.service_timers.next_key().ok_or(CommandError::Full)?;
        let handle =
            self.wheel.insert(now + after, TimerKind::Service { slot, generation }).ok_or(CommandError::Full)?;
        self.service_timers.insert(ServiceTimer { token, handle }).map_err(|_| CommandError::Full)?;
        Ok(TimerId::new(slot, generation))
    }

    /// Forgets a timer. Gives whether it was still pending.
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        if self.service_timers.get(timer.index(), timer.generation()).is_none() {
            return false;
        }
        match self.service_timers.remove(timer.index() as u32) {
            Some(removed) => self.wheel.cancel(removed.handle),
            None => false,
        }
    }

    /// What happened below TCP since the start.
    pub fn counters(&self) -> &Counters {
        &self.network.counters
    }

    /// Neighbours known or asked for.
    pub fn neighbours(&self) -> impl Iterator<Item = (IpAddr, Option<MacAddress>)> {
        self.network.neighbours.iter()
    }

    /// As [`snapshot::write`].
    ///
    /// # Errors
    /// A connection sends what can't be written, a range of a [`Source`](crate::Source).
    pub fn part(&self) -> Result<Vec<u8>, Fault> {
        snapshot::write(self)
    }

    /// The stack that [`part`](Stack::part) wrote, and the bytes that follow it.
    ///
    /// # Errors
    /// Bytes that no stack wrote.
    pub fn resume(bytes: &[u8]) -> Result<(Stack, &[u8]), Fault> {
        let (mut stack, rest) = snapshot::read::<Stack>(bytes)?;
        if !stack.is_sound() {
            return Err(Fault::SerdeDeCustom);
        }
        Ok((stack, rest))
    }

    /// Whether tables are what they should be; they get back the room that they have from the start.
    fn is_sound(&mut self) -> bool {
        let timers = self.transport.are_sound() && self.udp_sockets.is_sound() && self.service_timers.is_sound();
        timers && self.wheel.is_sound() && self.network.is_sound()
    }

    /// Objects held now, for conservation checks: all zero but for listeners and sockets once everything is closed.
    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.transport.connection_count(),
            half_open: self.transport.half_open_count(),
            time_wait: self.transport.time_wait_count(),
            flows: self.transport.flow_count(),
            timers: self.wheel.len(),
            service_timers: self.service_timers.len(),
            udp_sockets: self.udp_sockets.len(),
            neighbours: self.network.neighbours.len(),
            pending_frames: self.network.neighbours.pending_count(),
            reassembling: self.reassembly.len(),
            events: self.events.len(),
        }
    }
}

/// Objects a stack holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections beyond SYN-RECEIVED and before TIME-WAIT.
    pub connections: usize,
    /// Connections in SYN-RECEIVED.
    pub half_open: usize,
    /// Connections in TIME-WAIT.
    pub time_wait: usize,
    /// Entries of the flow table: the sum of the three.
    pub flows: usize,
    /// Entries of the timing wheel.
    pub timers: usize,
    /// Timers set by the service.
    pub service_timers: usize,
    /// UDP sockets.
    pub udp_sockets: usize,
    /// Neighbour entries.
    pub neighbours: usize,
    /// Frames waiting for a neighbour.
    pub pending_frames: usize,
    /// Datagrams waiting for fragments.
    pub reassembling: usize,
    /// Events not yet taken.
    pub events: usize,
}
