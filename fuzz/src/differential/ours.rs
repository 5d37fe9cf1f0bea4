//! Our stack as a host.

use super::host::{End, HOST, Host, PORT, receive_window};
use bytes::Bytes;
use qanat_nic::{Frame, MemoryPlan, Pair, PairConfig, Pool, Time, TransmitBuffer, TransmitOptions, Vnic, pair};
use qanat_stack::{Chunk, CloseReason, Config, ConnectionId, Event, ListenOptions, Stack};
use qanat_wire::ethernet::MacAddress;
use std::net::{IpAddr, SocketAddr};

const RECEIVE_FRAMES: u32 = 512;
/// Turns until everything must be back.
const TURNS_MAX: u32 = 20_000;

pub(super) struct Ours {
    stack: Stack,
    device: Pair,
    pools: [Pool; 2],
    wire: Pair,
    frames: Vec<Frame>,
    connection: Option<ConnectionId>,
    unread: Vec<Chunk>,
    delivered: Vec<u8>,
    peer_closed: bool,
    written: u64,
    acked: u64,
    end: Option<End>,
}

impl Ours {
    pub(super) fn new(flags: u8, now: Time) -> Option<Ours> {
        let (near, far) = pair(PairConfig { slots: 128, ..PairConfig::default() }).ok()?;
        let plan = MemoryPlan { receive_frames: RECEIVE_FRAMES, transmit_frames: 128, ..MemoryPlan::default() };
        let (device, wire) = (near.open(plan).ok()?, far.open(plan).ok()?);
        let address = IpAddr::from(HOST);
        let mut config = Config::new(address, 24);
        config.connections_max = 2;
        config.half_open_max = 2;
        config.time_wait_max = 2;
        config.listeners_max = 1;
        config.udp_sockets_max = 1;
        config.timers_max = 1;
        config.tcp.receive_window = receive_window(flags);
        config.tcp.no_delay = flags & 64 == 0;
        config.tcp.pacing = flags & 128 != 0;
        let mut stack = Stack::new(config, [flags; 32], &device, now);
        stack.listen(SocketAddr::new(address, PORT), ListenOptions::default()).ok()?;
        let pools = [device.receive_pool().clone(), device.transmit_pool().clone()];
        Some(Ours {
            stack,
            device,
            pools,
            wire,
            frames: Vec::new(),
            connection: None,
            unread: Vec::new(),
            delivered: Vec::new(),
            peer_closed: false,
            written: 0,
            acked: 0,
            end: None,
        })
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted { connection, .. } => {
                assert!(self.connection.replace(connection).is_none(), "accepted twice");
            }
            Event::Data { chunk, .. } => {
                assert!(!self.peer_closed && self.end.is_none(), "data after the end");
                self.unread.push(chunk);
            }
            Event::Acked { bytes, .. } => {
                self.acked += u64::from(bytes);
                assert!(bytes > 0 && self.acked <= self.written, "{} acked of {}", self.acked, self.written);
            }
            Event::PeerClosed { .. } => {
                assert!(!std::mem::replace(&mut self.peer_closed, true), "PeerClosed twice");
            }
            Event::Closed { why, .. } => {
                let end = match why {
                    CloseReason::Finished => End::Finished,
                    CloseReason::ResetByPeer => End::Reset,
                    CloseReason::Aborted => End::Aborted,
                    other => panic!("ended by {other}"),
                };
                assert!(self.end.replace(end).is_none(), "Closed twice");
                assert!(end != End::Finished || self.acked == self.written, "{} of {} acked", self.acked, self.written);
            }
            _ => {}
        }
    }

    /// Everything comes back once all time-outs are over.
    pub(super) fn finish(mut self, mut now: Time) {
        self.unread.clear();
        for _ in 0..TURNS_MAX {
            self.exchange(now, &[]);
            match self.stack.next_deadline() {
                None => break,
                Some(deadline) => now = deadline.max(now + std::time::Duration::from_micros(100)),
            }
        }
        let usage = self.stack.usage();
        let held = (usage.connections, usage.half_open, usage.time_wait, usage.flows, usage.pending_frames);
        assert_eq!(held, (0, 0, 0, 0, 0), "left over: {usage:?}");
        let frames = self.pools.each_ref().map(Pool::in_use_count);
        assert_eq!(frames, [0, 0], "frames never given back (receive, transmit)");
    }
}

impl Host for Ours {
    fn macs(&self) -> [[u8; 6]; 2] {
        let (MacAddress(own), MacAddress(peer)) = (self.device.capabilities().mac, self.wire.capabilities().mac);
        [own, peer]
    }

    fn exchange(&mut self, now: Time, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for bytes in frames {
            let mut frame = self.wire.transmit_pool().allocate(0).expect("a free frame");
            frame.append(bytes.len()).expect("room").copy_from_slice(bytes);
            self.wire.transmit(TransmitBuffer::Owned(frame), TransmitOptions::default()).expect("room in the ring");
        }
        self.wire.flush();
        self.stack.receive(now, &mut self.device);
        while let Some(event) = self.stack.next_event() {
            self.on_event(event);
        }
        self.stack.transmit(now, &mut self.device);
        let mut frames = std::mem::take(&mut self.frames);
        self.wire.receive(&mut frames, 128);
        let sent = frames.drain(..).map(|frame| frame.bytes().to_vec()).collect();
        self.frames = frames;
        sent
    }

    fn read(&mut self, now: Time) {
        for chunk in self.unread.drain(..) {
            self.delivered.extend_from_slice(chunk.bytes());
            if let Some(connection) = self.connection {
                self.stack.consume(now, connection, chunk);
            }
        }
    }

    fn write(&mut self, now: Time, bytes: &[u8]) {
        if let Some(connection) = self.connection
            && !bytes.is_empty()
        {
            self.stack.send(now, connection, Bytes::copy_from_slice(bytes)).expect("a connection takes bytes");
            self.written += bytes.len() as u64;
        }
    }

    fn shutdown(&mut self, now: Time) {
        if let Some(connection) = self.connection {
            self.stack.shutdown(now, connection).expect("an open connection can be shut down");
        }
    }

    fn abort(&mut self, now: Time) {
        if let Some(connection) = self.connection {
            self.stack.abort(now, connection).expect("an open connection can be aborted");
        }
    }

    fn delivered(&self) -> &[u8] {
        &self.delivered
    }

    fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    fn end(&self) -> Option<End> {
        self.end
    }
}
