//! Datagrams over a virtual card, without a stack: headers from a template, the payload as the traffic has it.

use super::frame::{HEADERS_LENGTH, Headers};
use super::pace::Pace;
use super::traffic::{Incoming, Traffic};
use super::trips::{RoundTrips, TripFigures};
use super::window::{Phase, Window};
use crate::load::http::LoadError;
use qanat::{StopHandle, WaitSet};
use qanat_nic::{Clock, Frame, MonotonicClock, TransmitBuffer, TransmitOptions, Vnic};
use qanat_wire::arp;
use qanat_wire::ethernet::{self, EtherType, MacAddress};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// Frames taken, and sent, at once.
const BATCH: usize = 64;
const FRAME_HEADROOM: usize = 64;
const SOURCE_PORT: u16 = 40_007;
/// How long to ask for the target's Ethernet address, and how often.
const ASK_PATIENCE: Duration = Duration::from_secs(5);
/// So often at least the clock is looked at.
const SLEEP_MAX: Duration = Duration::from_millis(20);
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// Addresses of the sender, and the Ethernet address that it sends to.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Own address.
    pub source: Ipv4Addr,
    /// The target's, or its next hop's, Ethernet address; `None`: ask.
    pub peer: Option<MacAddress>,
    /// Whom to ask for it.
    pub next_hop: Ipv4Addr,
}

struct Sender<'a, V, T> {
    vnic: V,
    headers: Headers,
    traffic: &'a mut T,
    frames: Vec<Frame>,
    own: MacAddress,
}

fn send_arp<V: Vnic>(vnic: &mut V, packet: arp::Header, to: MacAddress) {
    let Some(mut frame) = vnic.transmit_pool().allocate(FRAME_HEADROOM) else { return };
    let header = ethernet::Header { destination: to, source: packet.sender_hardware, ethertype: EtherType::ARP };
    let written = frame.append(ethernet::HEADER_LENGTH + arp::PACKET_LENGTH).and_then(|bytes| {
        let (head, rest) = bytes.split_at_mut_checked(ethernet::HEADER_LENGTH)?;
        header.emit(head).ok()?;
        packet.emit(rest).ok()
    });
    if written.is_some() {
        // A full ring loses it: it is asked again.
        let _ = vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default());
        vnic.flush();
    }
}

fn arp_in(bytes: &[u8]) -> Option<arp::Header> {
    (bytes.get(12..14)? == EtherType::ARP.0.to_be_bytes())
        .then(|| Some(arp::Header::parse(&arp::Packet::parse(bytes.get(ethernet::HEADER_LENGTH..)?).ok()?)))
        .flatten()
}

/// Asks for the Ethernet address of `ends.next_hop`.
fn ask<V: Vnic>(vnic: &mut V, ends: Ends, stop: &StopHandle) -> Result<MacAddress, LoadError> {
    let clock = MonotonicClock::new();
    let own = vnic.capabilities().mac;
    let request = arp::Header {
        operation: arp::Operation::REQUEST,
        sender_hardware: own,
        sender_protocol: ends.source,
        target_hardware: MacAddress::default(),
        target_protocol: ends.next_hop,
    };
    let start = clock.now();
    let mut next = start;
    let mut frames = Vec::new();
    while clock.now().since(start) < ASK_PATIENCE && !stop.is_requested() {
        if clock.now() >= next {
            send_arp(vnic, request, MacAddress::BROADCAST);
            next = clock.now() + ASK_INTERVAL;
        }
        vnic.receive(&mut frames, BATCH);
        for frame in frames.drain(..) {
            match arp_in(frame.bytes()) {
                Some(packet)
                    if packet.operation == arp::Operation::REPLY && packet.sender_protocol == ends.next_hop =>
                {
                    return Ok(packet.sender_hardware);
                }
                Some(packet)
                    if packet.operation == arp::Operation::REQUEST && packet.target_protocol == ends.source =>
                {
                    send_arp(vnic, packet.reply(own), packet.sender_hardware);
                }
                _ => {}
            }
        }
        std::thread::yield_now();
    }
    Err(LoadError::Option(format!(
        "{} does not answer ARP: is the server running, on this link? (--peer-mac skips the question)",
        ends.next_hop
    )))
}

impl<V: Vnic, T: Traffic> Sender<'_, V, T> {
    #[inline]
    fn receive(&mut self, window: &mut Window, clock: &MonotonicClock) -> bool {
        let count = self.vnic.receive(&mut self.frames, BATCH);
        if count == 0 {
            return false;
        }
        // Once for all that were there: they had come by now.
        let now = clock.now();
        for frame in self.frames.drain(..) {
            if let Some(payload) = self.headers.payload_of(frame.bytes()) {
                match self.traffic.read(payload) {
                    Incoming::Answer(mark) => window.back(mark, now),
                    Incoming::Foreign => window.foreign(),
                    Incoming::Wrong => {}
                }
            } else if let Some(packet) = arp_in(frame.bytes()) {
                if packet.operation == arp::Operation::REQUEST && packet.target_protocol == self.headers.source() {
                    send_arp(&mut self.vnic, packet.reply(self.own), packet.sender_hardware);
                }
            } else {
                window.foreign();
            }
        }
        true
    }

    #[inline]
    fn send(&mut self, window: &mut Window, clock: &MonotonicClock) {
        let room = self.vnic.transmit_room().min(BATCH);
        let now = clock.now();
        let mut queued = false;
        for _ in 0..room {
            let Some(mark) = window.next(now) else { break };
            let Some(mut frame) = self.vnic.transmit_pool().allocate(FRAME_HEADROOM) else {
                window.not_sent(mark);
                break;
            };
            let length = self.traffic.prepare(mark);
            if let Some(bytes) = frame.append(HEADERS_LENGTH + length)
                && let Some((head, payload)) = bytes.split_at_mut_checked(HEADERS_LENGTH)
            {
                let sum = self.traffic.write(mark, payload);
                self.headers.write(length, sum, head);
            }
            if self.vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).is_err() {
                window.not_sent(mark);
                break;
            }
            queued = true;
        }
        if queued || room == 0 {
            self.vnic.flush();
        }
    }
}

/// Sends datagrams to `target` over `vnic` and times their answers, polling all the while.
///
/// # Errors
/// [`LoadError::Option`] if nobody answers ARP, or for options that make no sense.
pub fn run<V: Vnic>(
    mut vnic: V,
    traffic: &mut impl Traffic,
    (target, ends): (SocketAddrV4, Ends),
    pace: &Pace,
    stop: &StopHandle,
    observe: &mut dyn FnMut(&TripFigures),
) -> Result<RoundTrips, LoadError> {
    pace.check()?;
    let peer = match ends.peer {
        Some(peer) => peer,
        None => ask(&mut vnic, ends, stop)?,
    };
    let own = vnic.capabilities().mac;
    let headers = Headers::new((own, peer), SocketAddrV4::new(ends.source, SOURCE_PORT), target);
    let mut sender = Sender { vnic, headers, traffic, frames: Vec::with_capacity(BATCH), own };
    let clock = MonotonicClock::new();
    let mut window = Window::new(pace, clock.now());
    let waits = WaitSet::new();
    let mut turns = 0u32;
    loop {
        let busy = sender.receive(&mut window, &clock);
        sender.send(&mut window, &clock);
        turns = turns.wrapping_add(1);
        // Time is looked at often enough for arrivals of an open loop, seldom enough not to cost.
        if pace.rate_per_s.is_some() || pace.sleeps || turns.is_multiple_of(16) {
            let now = clock.now();
            let phase = window.tick(now, sender.traffic.is_ready());
            if phase == Phase::Over || stop.is_requested() {
                return Ok(window.report(now));
            }
            if phase == Phase::Begun {
                sender.traffic.begin();
            }
            if let Some(figures) = window.observe(now) {
                observe(&figures);
            }
        }
        if !busy && pace.sleeps {
            sender.vnic.flush();
            if let Some(doorbell) = sender.vnic.doorbell() {
                let outcome = waits.wait(Some(doorbell), Some(SLEEP_MAX), |_| {});
                outcome.map_err(|error| LoadError::System { what: "sleep".to_owned(), error })?;
            }
        } else if !busy {
            // Frames come home, and what a full ring kept back goes out.
            if turns.is_multiple_of(64) {
                sender.vnic.flush();
            }
            std::hint::spin_loop();
        }
    }
}
