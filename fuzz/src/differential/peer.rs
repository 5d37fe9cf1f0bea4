//! A model of the peer: what it has sent and got, and what it may believe.

use super::host::{HOST, PEER, PORT};
use super::streams::{APPLICATION_SALT, PEER_SALT, STREAM_BYTES_MAX, bytes};
use crate::repair;
use qanat_wire::ethernet::{self, EtherType};
use qanat_wire::ip::Protocol;
use qanat_wire::tcp_options::Options;
use qanat_wire::{ipv4, tcp};

const PEER_PORT: u16 = 4_000;
const SEGMENT_BYTES_MAX: u32 = 1_400;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// See the module. Stream offsets, not sequence numbers: the SYN is before 0, FIN at the end.
#[derive(Debug)]
pub(super) struct Peer {
    macs: [[u8; 6]; 2],
    /// Hold the host to what smoltcp doesn't promise.
    strict: bool,
    timestamps: bool,
    sack: bool,
    /// Sequence number of our offset 0, and of the host's once it is known.
    first: u32,
    host_first: Option<u32>,
    /// Bytes ever sent, acknowledged, and up to where the host takes them.
    sent: u32,
    acknowledged: u32,
    edge: u32,
    /// Bytes that were to be sent.
    wanted: u32,
    fin_wanted: bool,
    fin_sent: bool,
    fin_acknowledged: bool,
    /// Bytes of the host's stream, and its FIN.
    received: u32,
    fin_received: bool,
    window: u16,
    /// The farthest we ever let the host send.
    offered: u32,
    clock: u32,
    echo: u32,
    is_reset: bool,
    stalled: u32,
    outbox: Vec<Vec<u8>>,
}

impl Peer {
    pub(super) fn new(macs: [[u8; 6]; 2], flags: u8, strict: bool) -> Peer {
        let first = [1_000, 0xffff_fff0, 0x7fff_ff00, 0xffff_f000][usize::from(flags & 3)];
        Peer {
            macs,
            strict,
            timestamps: flags & 4 != 0,
            sack: flags & 8 != 0,
            first,
            host_first: None,
            sent: 0,
            acknowledged: 0,
            edge: 0,
            wanted: 0,
            fin_wanted: false,
            fin_sent: false,
            fin_acknowledged: false,
            received: 0,
            fin_received: false,
            window: 60_000,
            offered: 60_000,
            clock: 1,
            echo: 0,
            is_reset: false,
            stalled: 0,
            outbox: Vec::new(),
        }
    }

    pub(super) fn connect(&mut self) {
        let mut options = vec![2, 4, 5, 0xb4];
        if self.sack {
            options.extend([1, 1, 4, 2]);
        }
        if self.timestamps {
            options.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0]);
        }
        self.emit(SYN, self.first.wrapping_sub(1), 0, &options, &[]);
    }

    pub(super) fn is_connected(&self) -> bool {
        self.host_first.is_some()
    }

    pub(super) fn is_reset(&self) -> bool {
        self.is_reset
    }

    pub(super) fn is_shut(&self) -> bool {
        self.fin_wanted
    }

    pub(super) fn is_finished(&self) -> bool {
        self.fin_acknowledged && self.fin_received
    }

    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    pub(super) fn acknowledged(&self) -> u32 {
        self.acknowledged
    }

    pub(super) fn received(&self) -> u32 {
        self.received
    }

    pub(super) fn take_outbox(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.outbox)
    }

    /// As much of what is wanted as the host's window takes, at most `length`.
    fn next_length(&self, length: u32) -> u32 {
        length.min(self.wanted - self.sent).min(self.edge.saturating_sub(self.sent)).min(SEGMENT_BYTES_MAX)
    }

    fn may_send(&self) -> bool {
        !self.fin_sent && !self.is_reset && self.is_connected()
    }

    pub(super) fn send(&mut self, length: u32) {
        if self.may_send() && !self.fin_wanted {
            self.wanted = (self.wanted + length).min(STREAM_BYTES_MAX);
            let length = self.next_length(length);
            self.send_range(self.sent, length);
        }
    }

    /// The next two segments, the second first.
    pub(super) fn send_reversed(&mut self, length: u32) {
        if self.may_send() && !self.fin_wanted {
            self.wanted = (self.wanted + 2 * length).min(STREAM_BYTES_MAX);
            let start = self.sent;
            let first = self.next_length(length);
            let second = length.min(self.wanted - start - first).min(self.edge.saturating_sub(start + first));
            self.send_range(start + first, second);
            self.send_range(start, first);
            self.sent = start + first + second;
        }
    }

    /// From `back` bytes ago, which may reach beyond what was sent but not beyond what is wanted: how far that is must not
    /// depend on the host's window.
    pub(super) fn send_again(&mut self, back: u32, length: u32) {
        if self.may_send() {
            let start = self.sent.saturating_sub(back);
            let end = (start + length).min(self.wanted).min(self.edge.max(self.sent));
            self.send_range(start, end.saturating_sub(start));
        }
    }

    fn send_range(&mut self, start: u32, length: u32) {
        if length > 0 {
            let payload = bytes(PEER_SALT, start, length);
            self.emit_now(ACK, start, &payload);
            self.sent = self.sent.max(start + length);
        }
    }

    pub(super) fn acknowledge(&mut self) {
        if self.is_connected() && !self.is_reset {
            self.emit_now(ACK, self.sent + u32::from(self.fin_sent), &[]);
        }
    }

    /// Never moves the edge left.
    pub(super) fn set_window(&mut self, window: u16) {
        let promised = self.offered.saturating_sub(self.received);
        self.window = window.max(promised.min(60_000) as u16);
        self.acknowledge();
    }

    pub(super) fn shutdown(&mut self) {
        self.fin_wanted = true;
        if self.may_send() && self.sent == self.wanted {
            self.send_fin();
        }
    }

    fn send_fin(&mut self) {
        self.emit_now(FIN | ACK, self.sent, &[]);
        self.fin_sent = true;
    }

    pub(super) fn reset(&mut self) {
        if self.is_connected() && !self.is_reset {
            // Exactly where the host expects it, whatever has been lost.
            self.emit_now(RST, self.acknowledged + u32::from(self.fin_acknowledged), &[]);
            self.is_reset = true;
        }
    }

    /// Sends and acknowledges all there is, again if nothing moves, and closes.
    pub(super) fn go_on(&mut self) {
        if self.is_reset || !self.is_connected() {
            return;
        }
        self.fin_wanted = true;
        if self.acknowledged < self.sent || self.fin_sent && !self.fin_acknowledged {
            self.stalled += 1;
            if self.stalled.is_multiple_of(8) {
                let length = (self.sent - self.acknowledged).min(SEGMENT_BYTES_MAX);
                self.send_range(self.acknowledged, length);
                if self.fin_sent {
                    self.send_fin();
                }
            }
        }
        let length = self.next_length(SEGMENT_BYTES_MAX);
        self.send_range(self.sent, length);
        if self.sent == self.wanted && !self.fin_sent {
            self.send_fin();
        }
        self.acknowledge();
    }

    fn emit_now(&mut self, flags: u8, offset: u32, payload: &[u8]) {
        let Some(host_first) = self.host_first else { return };
        self.clock += 1;
        let mut options = Vec::new();
        if self.timestamps {
            options.extend([1, 1, 8, 10]);
            options.extend(self.clock.to_be_bytes());
            options.extend(self.echo.to_be_bytes());
        }
        self.offered = self.offered.max(self.received + u32::from(self.window));
        let acknowledgment = host_first.wrapping_add(self.received + u32::from(self.fin_received));
        self.emit(flags, self.first.wrapping_add(offset), acknowledgment, &options, payload);
    }

    fn emit(&mut self, flags: u8, sequence: u32, acknowledgment: u32, options: &[u8], payload: &[u8]) {
        let mut frame = Vec::with_capacity(74 + payload.len());
        frame.extend(self.macs[0]);
        frame.extend(self.macs[1]);
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((40 + options.len() + payload.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(PEER);
        frame.extend(HOST);
        frame.extend(PEER_PORT.to_be_bytes());
        frame.extend(PORT.to_be_bytes());
        frame.extend(sequence.to_be_bytes());
        frame.extend(acknowledgment.to_be_bytes());
        frame.extend([((20 + options.len()) as u8 / 4) << 4, flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(options);
        frame.extend(payload);
        repair::frame(&mut frame);
        self.outbox.push(frame);
    }

    /// A frame of the host, whose application has written so much and perhaps shut down.
    pub(super) fn take(&mut self, frame: &[u8], application: (u32, bool)) {
        let ethernet = ethernet::Frame::parse(frame).expect("a frame");
        match ethernet.ethertype() {
            EtherType::ARP => self.answer_arp(frame),
            EtherType::IPV4 => {
                let packet = ipv4::Packet::parse(ethernet.payload()).expect("an IPv4 packet");
                if packet.protocol() == Protocol::TCP {
                    let segment = tcp::Segment::parse(packet.payload()).expect("a segment");
                    assert!(segment.checksum_is_valid(packet.pseudo_header_sum()), "TCP checksum");
                    self.take_segment(&segment, application);
                }
            }
            _ => {}
        }
    }

    fn answer_arp(&mut self, frame: &[u8]) {
        let Some(question) = frame.get(14..42).filter(|arp| arp[7] == 1 && arp[24..28] == PEER) else { return };
        let mut answer = Vec::from(self.macs[0]);
        answer.extend(self.macs[1]);
        answer.extend([8, 6]);
        answer.extend(&question[..7]);
        answer.push(2);
        answer.extend(self.macs[1]);
        answer.extend(PEER);
        answer.extend(&question[8..18]);
        self.outbox.push(answer);
    }

    fn take_segment(&mut self, segment: &tcp::Segment<'_>, (written, is_shut): (u32, bool)) {
        let flags = segment.flags().0;
        let options = Options::parse(segment.options()).expect("sound options");
        if let Some(timestamps) = options.timestamps {
            self.echo = timestamps.value;
        }
        if flags & RST != 0 {
            // A host that has forgotten a finished connection answers so.
            self.is_reset |= !self.is_finished();
            return;
        }
        let acknowledged = segment.acknowledgment().0.wrapping_sub(self.first);
        if flags & SYN != 0 {
            assert_eq!(acknowledged, 0, "an acknowledgement of what was not sent");
            self.host_first = Some(segment.sequence().0.wrapping_add(1));
            self.timestamps &= options.timestamps.is_some();
            self.edge = u32::from(segment.window());
            self.acknowledge();
            return;
        }
        let Some(host_first) = self.host_first else { panic!("a segment before the SYN-ACK") };
        self.take_acknowledgement(acknowledged, u32::from(segment.window()));
        let (offset, length) = (segment.sequence().0.wrapping_sub(host_first), segment.payload().len() as u32);
        if length == 0 && flags & FIN == 0 {
            // A keepalive is one byte before.
            return;
        }
        let end = offset.wrapping_add(length);
        assert!(offset <= self.received && end <= written, "bytes {offset} to {end} of {written}: {self:?}");
        let is_right = segment.payload() == bytes(APPLICATION_SALT, offset, length);
        assert!(is_right, "other bytes than were written at {offset}");
        if self.strict {
            // One byte more may probe a closed window.
            assert!(end <= self.offered + 1, "{end} sent, {} offered", self.offered);
        }
        let fin = flags & FIN != 0;
        assert!(!fin || is_shut && end == written, "FIN at {end} of {written}");
        if end <= self.received + u32::from(self.window) {
            self.received = self.received.max(end);
            self.fin_received |= fin && self.received == end;
        }
    }

    fn take_acknowledgement(&mut self, acknowledged: u32, window: u32) {
        let all = self.sent + u32::from(self.fin_sent);
        assert!(acknowledged <= all, "{acknowledged} acknowledged of {all}");
        let before = self.acknowledged + u32::from(self.fin_acknowledged);
        assert!(acknowledged >= before, "an acknowledgement went back from {before} to {acknowledged}");
        if acknowledged > before {
            self.stalled = 0;
        }
        self.fin_acknowledged = self.fin_sent && acknowledged == all;
        self.acknowledged = acknowledged.min(self.sent);
        let edge = acknowledged + window;
        if self.strict {
            assert!(
                edge + u32::from(self.fin_acknowledged) >= self.edge,
                "the edge moved from {} to {edge}",
                self.edge
            );
        }
        self.edge = edge;
    }
}
