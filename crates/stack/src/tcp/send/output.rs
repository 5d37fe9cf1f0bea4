//! What a connection sends, once a poll: retransmissions first, then new data, then whatever is owed (FIN, probe, ACK).
//!
//! Silly-window avoidance of the sender is RFC 9293 §3.8.6.2.1, Nagle §3.7.4. The congestion window counts bytes.

use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::segment::{Emitter, SegmentPayload};
use crate::tcp::send::train::{Making, Train};
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::state::State;
use crate::tcp::timers::RetransmitKind;
use qanat_wire::ip::Ecn;
use qanat_wire::tcp::{Flags, Header};
use qanat_wire::tcp_options::{Options, SackBlock, SackBlocks, Timestamps};

/// One segment's data, as `send_segment` needs it.
#[derive(Clone, Copy)]
struct Cut {
    sequence: SequenceNumber,
    /// Data bytes.
    length: u32,
    /// Offer the source's ready frame.
    ready: bool,
    fin: bool,
    /// Not sent before.
    new: bool,
    /// Ends a burst: the next segment waits for an acknowledgement.
    ends_burst: bool,
}

/// What of a segment's headers depends on its place.
#[derive(Clone, Copy)]
struct Shape {
    /// Where its data is in the stream.
    offset: u64,
    flags: Flags,
    ecn: Ecn,
}

/// Why sending new data stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Nothing (more) to send now, or an ACK will bring it.
    Idle,
    /// The device is full: call again.
    Device,
    /// It is held back for what is to follow, and nothing is in flight: not for longer than a time-out.
    Held,
    /// The peer's window is too small, and nothing is in flight that would bring an update.
    PeerWindow,
}

impl Connection {
    /// Sends what may be sent. Call once a poll while [`needs_output`](Connection::needs_output); if the emitter's room
    /// runs out it stays so.
    pub fn output(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> Disposition {
        match self.lifecycle.state() {
            State::Closed => return self.output_reset(env, emitter),
            State::SynSent => {
                self.output_syn(env, emitter);
                return Disposition::Keep;
            }
            State::SynReceived => {
                self.output_crossed(env, emitter);
                return Disposition::Keep;
            }
            _ => {}
        }
        if self.is.handshake.is_unproved() && !self.output_fast_syn_ack(env, emitter) {
            return Disposition::Keep;
        }
        self.is.output_wanted = false;
        self.restart_after_idle(env);
        let mut stop = if self.output_lost(env, emitter) { Stop::Idle } else { Stop::Device };
        if stop != Stop::Device && self.is.tail_probe {
            self.output_tail_probe(env, emitter);
        }
        if stop != Stop::Device {
            stop = self.output_new(env, emitter);
        }
        if self.is.probe && emitter.room() > 0 {
            self.output_probe(env, emitter);
        }
        self.output_acks(env, emitter);
        match stop {
            Stop::Device => {
                self.is.output_wanted = true;
                env.counters.emit_refused += 1;
            }
            Stop::PeerWindow | Stop::Held => self.arm_persist(env.now),
            Stop::Idle => {}
        }
        if self.timers.running().is_none() && !self.board.is_empty() {
            // Whatever is outstanding has a timer (a probe given up, an answer that moved nothing).
            self.arm_retransmission(env.now);
        }
        Disposition::Keep
    }

    /// Room of the congestion window, octets.
    #[inline]
    fn congestion_room(&self) -> u32 {
        self.congestion.room(self.in_flight())
    }

    /// RFC 5681 §4.1: after an idle RTO the window is restarted (halved per RTO, as Linux, not below the initial one).
    #[inline]
    fn restart_after_idle(&mut self, env: &mut Env<'_>) {
        if !self.board.is_empty() || self.unsent() == 0 {
            return;
        }
        let timeout = self.rtt.base_timeout();
        let idle = env.now.since(self.last_sent);
        if idle <= timeout {
            return;
        }
        if self.congestion.restart(idle, timeout, u32::from(self.maximum_segment)) {
            env.counters.idle_restarts += 1;
        }
    }

    /// Retransmits what is lost, as far as the congestion window allows. `false`: the device is full.
    fn output_lost(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> bool {
        if self.board.lost() == 0 {
            return true;
        }
        let mut sent = false;
        while let Some(index) = self.board.next_lost() {
            let segment = u32::from(self.maximum_segment);
            // RFC 6675 §5: a segment may go while cwnd − pipe ≥ 1 SMSS; the first of an episode goes regardless.
            let first = !sent && index == 0 && self.board.retransmitted() == 0;
            if self.congestion_room() < segment.min(self.record_length(index)) && !first {
                break;
            }
            if self.is_paced(env) {
                break;
            }
            if emitter.room() == 0 || !self.retransmit(index, env, emitter) {
                return false;
            }
            sent = true;
        }
        if sent {
            if self.timers.running() == Some(RetransmitKind::Reordering) {
                return true;
            }
            self.arm_retransmission(env.now);
        }
        true
    }

    fn record_length(&self, index: usize) -> u32 {
        self.board.get(index).map_or(0, |record| record.end.distance_from(self.board.start_of(index)))
    }

    /// Sends record `index` again, at most a segment of it. `false`: not taken by the device.
    fn retransmit(&mut self, index: usize, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> bool {
        let length = self.record_length(index);
        let segment = self.segment_room();
        if length > segment.saturating_add(1) || (length == segment + 1 && !self.lifecycle.is_fin_sent()) {
            self.board.split(index, segment);
        }
        let length = self.record_length(index);
        let start = self.board.start_of(index);
        let offset = self.queue.start() + u64::from(start.distance_from(self.board.start()));
        let data = self.queue.end().saturating_sub(offset).min(u64::from(length)) as u32;
        let fin = data < length;
        let run = self.queue.run_at(offset, segment, self.is.recorded);
        let cut = Cut {
            sequence: start,
            length: data,
            ready: run.ready && run.length == data,
            fin,
            new: false,
            ends_burst: false,
        };
        let shape = self.shape(&cut);
        if !self.send_segment(&cut, shape, env, emitter) {
            return false;
        }
        self.board.mark_retransmitted(index, env.now);
        self.note_departure(length, env.now);
        self.pace(data, env);
        self.recovery.on_retransmission(length, self.timestamp_now(env.now));
        self.statistics.segments_retransmitted = self.statistics.segments_retransmitted.wrapping_add(1);
        self.statistics.bytes_retransmitted += u64::from(data);
        env.counters.segments_retransmitted += 1;
        env.counters.bytes_retransmitted += u64::from(data);
        true
    }

    /// RFC 8985 §7.3: new data if there is any and the window allows it, else the last segment again.
    fn output_tail_probe(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        if self.board.is_empty() || !self.recovery.is_open() {
            self.is.tail_probe = false;
            return;
        }
        if emitter.room() == 0 {
            self.is.output_wanted = true;
            return;
        }
        self.is.tail_probe = false;
        let before = self.send_next;
        // One segment beyond the congestion window.
        let beyond = self.in_flight().saturating_add(u32::from(self.maximum_segment));
        let window = self.congestion.set_window(beyond);
        let mut train = Making::default();
        let sent = self.send_new_segment(self.send_next, &mut train, env, emitter);
        self.dispatch(&mut train, env, emitter);
        self.congestion.set_window(window);
        let is_retransmission = sent.is_err() || self.send_next == before;
        if is_retransmission {
            let last = self.board.len() - 1;
            if !self.retransmit(last, env, emitter) {
                self.is.tail_probe = true;
                self.is.output_wanted = true;
                return;
            }
        }
        env.counters.tail_loss_probes += 1;
        self.rack.on_probe_sent(self.send_next, is_retransmission);
        self.timers.set(RetransmitKind::Timeout, env.now + self.rtt.timeout());
    }

    /// Sends new data.
    #[inline]
    fn output_new(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> Stop {
        let before = self.send_next;
        let mut train = Making::default();
        let stop = loop {
            if self.unsent() == 0 && (!self.lifecycle.is_fin_queued() || self.lifecycle.is_fin_sent()) {
                break Stop::Idle;
            }
            match self.send_new_segment(before, &mut train, env, emitter) {
                Ok(()) => {}
                Err(stop) => break stop,
            }
        };
        self.dispatch(&mut train, env, emitter);
        let in_flight = self.in_flight();
        if self.send_next != before {
            self.congestion.note_flight(in_flight, self.board.start(), self.send_next);
        }
        if self.send_next != before
            && self.unsent() == 0
            && in_flight + 2 * u32::from(self.maximum_segment) < self.congestion.window()
        {
            // All there was went out with room to spare: the application is the limit (RFC 7661 §4.1).
            self.congestion.set_limiting(false);
        }
        if self.unsent() == 0 {
            self.note_application_limit();
        }
        if self.send_next != before && !self.keeps_timer() {
            self.arm_retransmission(env.now);
        }
        stop
    }

    /// RFC 6298 §5.1: a running RTO is not restarted by sending; a tail probe's is (RFC 8985 §7.2), persist's too.
    fn keeps_timer(&self) -> bool {
        match self.timers.running() {
            Some(RetransmitKind::Timeout) => !(self.is.sack && self.recovery.is_open() && !self.rack.probing()),
            Some(RetransmitKind::Reordering) => true,
            Some(RetransmitKind::TailProbe | RetransmitKind::Persist) | None => false,
        }
    }

    /// Sends the next new segment of a burst that began at `burst`, if everything allows it, or adds it to the train, which is to be
    /// [dispatched](Connection::dispatch).
    fn send_new_segment(
        &mut self,
        burst: SequenceNumber,
        train: &mut Making,
        env: &mut Env<'_>,
        emitter: &mut dyn Emitter,
    ) -> Result<(), Stop> {
        let has_room = emitter.room() > train.segments();
        if !has_room || !self.board.has_room() {
            return Err(if self.board.has_room() { Stop::Device } else { Stop::Idle });
        }
        let outstanding = self.send_next.distance_from(self.board.start());
        let quiet = outstanding == 0;
        let peer_room = self.send_window.size().saturating_sub(outstanding);
        let offset = self.queue.start() + self.data_outstanding();
        let available = self.queue.end() - offset;
        let mut segment = self.segment_room();
        let mut probing = false;
        if let Some(payload) = self.probe_payload(env) {
            probing = self.queue.run_at(offset, payload, self.is.recorded).length > segment;
            segment = if probing { payload } else { segment };
        }
        let run = self.queue.run_at(offset, segment, self.is.recorded);
        let (mut length, mut ready) = (run.length, run.ready);
        if length > peer_room {
            // §3.8.6.2.1: less than was ready only if it is at least half the largest window, or after the override.
            let worthwhile = peer_room > 0 && (peer_room >= self.send_window.max() / 2 || self.bunching.is_forced());
            if !worthwhile {
                return Err(if quiet { Stop::PeerWindow } else { Stop::Idle });
            }
            (length, ready) = (peer_room, false);
        }
        let last = u64::from(length) == available;
        let fin =
            self.lifecycle.is_fin_queued() && !self.lifecycle.is_fin_sent() && last && (peer_room > length || quiet);
        if length == 0 && !fin {
            return Err(if quiet { Stop::PeerWindow } else { Stop::Idle });
        }
        let in_flight = self.in_flight();
        if length > 0 && in_flight > 0 && in_flight.saturating_add(length) > self.congestion.window() {
            self.congestion.set_limiting(true);
            return Err(Stop::Idle);
        }
        if length < segment && !ready && !fin && last && self.waits_for_more(quiet) {
            return Err(if quiet { Stop::Held } else { Stop::Idle });
        }
        if self.is_paced(env) {
            return Err(Stop::Idle);
        }
        // Whether another one as long will go, too, as far as can be said now.
        let taken = length.saturating_add((available - u64::from(length)).min(u64::from(segment)) as u32);
        let is_followed = in_flight.saturating_add(taken) <= self.congestion.window() && taken <= peer_room;
        let ends_burst = self.send_next != burst && !is_followed;
        let cut = Cut { sequence: self.send_next, length, ready, fin, new: true, ends_burst };
        let shape = self.shape(&cut);
        if train.takes(cut.sequence, length) {
            train.add(length, shape.flags);
            self.on_sent(env);
        } else {
            self.dispatch(train, env, emitter);
            let may_begin = is_followed && !last && !probing && !train.is_refused();
            let begins = may_begin && self.begin(train, &cut, shape, env, emitter);
            if !begins && (emitter.room() == 0 || !self.send_segment(&cut, shape, env, emitter)) {
                return Err(Stop::Device);
            }
        }
        let octets = length + u32::from(fin);
        if self.board.is_empty() {
            self.patience.restart(env.now);
            self.congestion.set_limiting(false);
        }
        self.send_next += octets;
        self.bunching.on_sent(length, u32::from(self.maximum_segment), self.send_next);
        self.board.push(self.send_next, env.now);
        self.note_departure(octets, env.now);
        if probing {
            self.on_mtu_probe_sent(length, self.send_next, env);
        }
        self.lifecycle.on_sent(fin);
        self.recovery.on_sent(octets);
        self.pace(length, env);
        Ok(())
    }

    /// Nagle (§3.7.4) and cork.
    fn waits_for_more(&self, quiet: bool) -> bool {
        if self.lifecycle.is_fin_queued() || self.bunching.is_forced() || (self.is.urgent && self.owes_urgent()) {
            return false;
        }
        self.bunching.holds_back(quiet, self.board.start(), self.send_next)
    }

    /// Payload bytes the next segment may carry, beside options that are there only sometimes.
    #[inline]
    fn segment_room(&self) -> u32 {
        let segment = u32::from(self.maximum_segment);
        if !self.held.has_gap() && self.acks.duplicate().is_none() {
            return segment;
        }
        // SACK blocks on a data segment take from its payload.
        segment - (4 + 8 * self.sack_blocks_max() as u32).min(segment / 2)
    }

    /// Begins a train with a segment that others will follow, if the device takes trains and the headers of those will be as the first
    /// one's.
    #[inline(never)]
    fn begin(
        &mut self,
        making: &mut Making,
        cut: &Cut,
        shape: Shape,
        env: &mut Env<'_>,
        emitter: &mut dyn Emitter,
    ) -> bool {
        let is_plain = shape.flags == Flags::ACK
            && !self.is.urgent
            && !self.patience.owes_option()
            && self.segment_room() == u32::from(self.maximum_segment)
            && cut.length <= u32::from(u16::MAX);
        if !is_plain {
            return false;
        }
        let bytes_max = emitter.begin_train();
        if bytes_max == 0 {
            making.refuse();
            return false;
        }
        let header = self.header(cut.sequence, shape.flags, cut.length, env);
        making.begin(Train::new(header, shape.ecn, shape.offset, cut.length, bytes_max));
        self.on_sent(env);
        true
    }

    /// Has the train leave, if there is one.
    #[inline]
    fn dispatch(&mut self, making: &mut Making, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        if making.segments() > 0 {
            self.dispatch_train(making, env, emitter);
        }
    }

    /// Apart, so that devices without trains don't pay for it.
    #[inline(never)]
    fn dispatch_train(&mut self, making: &mut Making, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        if let Some(train) = making.take() {
            env.counters.trains_sent += 1;
            train.leave(&self.queue, emitter);
        }
    }

    /// How the segment of a cut looks.
    #[inline]
    fn shape(&self, cut: &Cut) -> Shape {
        let mut flags = Flags::ACK;
        let offset = self.queue.start() + u64::from(cut.sequence.distance_from(self.board.start()));
        let pushes = self.bunching.pushes();
        let end = offset + u64::from(cut.length);
        let ends_data = end >= self.queue.end() || (self.is.recorded && self.queue.ends_record_at(end));
        if cut.length > 0 && (cut.ends_burst || (pushes && ends_data)) {
            // §3.9.1.2: PSH "when the buffered data is exhausted"; and, as Linux, at the end of a burst, which a receiver that
            // merges segments need then not hold for more of them.
            flags |= Flags::PSH;
        }
        if cut.fin {
            flags |= Flags::FIN;
        }
        let mut ecn = Ecn::NotCapable;
        if self.is.ecn && cut.new && cut.length > 0 {
            // RFC 3168 §6.1.5: retransmissions are not ECN-capable.
            ecn = Ecn::Capable0;
            if self.is.ecn_reduced {
                flags |= Flags::CWR;
            }
        }
        Shape { offset, flags, ecn }
    }

    /// Builds and sends one segment of data.
    #[inline]
    fn send_segment(&mut self, cut: &Cut, shape: Shape, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> bool {
        let Shape { offset, flags, ecn } = shape;
        let header = self.header(cut.sequence, flags, cut.length, env);
        let payload = if cut.length == 0 {
            SegmentPayload::None
        } else {
            let range = self.queue.range(offset, cut.length);
            match if cut.ready { self.queue.source_at(offset, cut.length) } else { None } {
                Some((source, stamp, offset)) => SegmentPayload::Ready { source, stamp, offset, range },
                None => SegmentPayload::Copy(range),
            }
        };
        if !emitter.emit(&header, payload, ecn) {
            return false;
        }
        if flags.contains(Flags::CWR) {
            self.is.ecn_reduced = false;
        }
        self.on_sent(env);
        true
    }

    /// Bookkeeping of every segment that carried an ACK.
    #[inline]
    fn on_sent(&mut self, env: &mut Env<'_>) {
        self.last_sent = env.now;
        self.acks.on_sent(self.receive_window.next());
        self.timers.cancel_delayed_ack();
        self.statistics.segments_sent = self.statistics.segments_sent.wrapping_add(1);
        env.counters.segments_sent += 1;
    }

    /// The header of a segment in a synchronized state.
    #[inline]
    fn header(&mut self, sequence: SequenceNumber, mut flags: Flags, length: u32, env: &mut Env<'_>) -> Header {
        if self.is.ecn_echo {
            flags |= Flags::ECE;
        }
        let mut urgent = 0;
        if self.is.urgent
            && let Some(pointer) = self.urgent_pointer(sequence)
        {
            flags |= Flags::URG;
            urgent = pointer;
        }
        let mut options = Options::NONE;
        if self.is.timestamps {
            options.timestamps =
                Some(Timestamps { value: self.timestamp_now(env.now), echo: self.timestamps.recent() });
        }
        // Where it certainly fits; a pure ACK follows full segments.
        if self.patience.owes_option() && length <= u32::from(self.maximum_segment / 2) {
            options.user_timeout = self.user_timeout_option();
            self.patience.option_sent();
            env.counters.user_timeout_options_sent += 1;
        }
        if self.is.sack && (self.acks.duplicate().is_some() || self.held.has_gap()) {
            options.sack_blocks = self.sack_blocks(env);
        }
        Header {
            source_port: self.local_port,
            destination_port: self.peer_port,
            sequence,
            acknowledgment: self.receive_window.next(),
            flags,
            window: self.advertise(env),
            urgent,
            options,
        }
    }

    /// Blocks that fit beside the other options (RFC 2018 §3).
    #[inline]
    fn sack_blocks_max(&self) -> usize {
        if self.is.timestamps { 3 } else { 4 }
    }

    /// RFC 2018 §4, with the D-SACK block first (RFC 2883 §4).
    #[inline(never)]
    fn sack_blocks(&mut self, env: &mut Env<'_>) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        let limit = self.sack_blocks_max();
        if let Some(duplicate) = self.acks.duplicate() {
            env.counters.duplicate_sacks_sent += 1;
            blocks.push(SackBlock { start: duplicate.start, end: duplicate.end });
        }
        for block in self.held.blocks(self.receive_window.next()) {
            if blocks.len() >= limit {
                break;
            }
            blocks.push(SackBlock { start: block.start, end: block.end });
        }
        blocks
    }

    /// SEG.SEQ of a pure ACK: SND.NXT, but inside the peer's window if that has shrunk, or it would not be accepted.
    fn acknowledgment_sequence(&self) -> SequenceNumber {
        let edge = self.board.start() + self.send_window.size();
        if self.send_next.after(edge) { edge } else { self.send_next }
    }

    /// Owed ACKs that no data carried.
    #[inline]
    pub(in crate::tcp) fn output_acks(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        // Peers without SACK count duplicates: each out-of-order segment is answered (at most 16 a poll).
        let mut copies =
            u32::from(self.acks.take_copies()).max(u32::from(self.acks.is_owed() || self.patience.owes_option()));
        while copies > 0 && emitter.room() > 0 {
            let header = self.header(self.acknowledgment_sequence(), Flags::ACK, 0, env);
            if !emitter.emit(&header, SegmentPayload::None, Ecn::NotCapable) {
                break;
            }
            copies -= 1;
            env.counters.pure_acks_sent += 1;
            let last_sent = self.last_sent;
            self.on_sent(env);
            // Idle time is measured between data.
            self.last_sent = last_sent;
        }
        if copies > 0 {
            self.acknowledge_now();
        }
    }

    /// A zero-window or keepalive probe: an old sequence number and no data, which every peer must answer with its ACK
    /// and window (RFC 9293 §3.8.4; as Linux also for zero windows, §3.8.6.1).
    fn output_probe(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        let header = self.header(self.board.start() - 1, Flags::ACK, 0, env);
        if emitter.emit(&header, SegmentPayload::None, Ecn::NotCapable) {
            self.is.probe = false;
            env.counters.zero_window_probes_sent += 1;
            self.on_sent(env);
        } else {
            self.is.output_wanted = true;
        }
    }

    /// In SYN-RECEIVED of a simultaneous open: the SYN-ACK, then the FIN of a service that has closed and has nothing else to say
    /// (RFC 9293 §3.10.4: "if no SENDs have been issued …, then form a FIN segment and send it"), then an ACK that is owed. As on
    /// Linux a service that shuts down its side only has its FIN sent when the handshake is over.
    #[cold]
    fn output_crossed(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        if self.is.handshake.wants_syn() {
            self.output_syn(env, emitter);
            if self.is.handshake.wants_syn() {
                return;
            }
            self.acks.settle();
        }
        if self.lifecycle.is_orphaned() && !self.lifecycle.is_fin_sent() && self.queue.byte_count() == 0 {
            let sequence = self.send_next;
            let cut = Cut { sequence, length: 0, ready: false, fin: true, new: true, ends_burst: false };
            let shape = self.shape(&cut);
            if emitter.room() == 0 || !self.send_segment(&cut, shape, env, emitter) {
                self.is.output_wanted = true;
                return;
            }
            self.send_next += 1;
            self.board.push(self.send_next, env.now);
            self.lifecycle.on_sent(true);
        }
        self.is.output_wanted = false;
        self.output_acks(env, emitter);
    }

    /// SYN of an active open, or SYN-ACK of a simultaneous one.
    #[cold]
    fn output_syn(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        if !self.is.handshake.wants_syn() {
            self.is.output_wanted = false;
            return;
        }
        let received = self.lifecycle.state() == State::SynReceived;
        let mut flags = if received { Flags::SYN | Flags::ACK } else { Flags::SYN };
        if self.is.ecn {
            // RFC 3168 §6.1.1: an ECN-setup SYN, or the ECN-setup SYN-ACK that answers the peer's.
            flags |= if received { Flags::ECE } else { Flags::ECE | Flags::CWR };
        }
        // Those that are repeated ask for nothing and carry nothing (RFC 7413 §4.2.1).
        let is_first = self.board.is_empty() && !received;
        let (fast_open, data) = if is_first { self.first_syn() } else { (None, 0) };
        let options = Options {
            mss: Some(self.path_mtu.local_segment()),
            window_scale: (env.config.window_scaling
                && (!received || self.receive_window.scale() > 0 || self.send_scale > 0))
                .then(|| env.config.window_scale(self.right_sizing.most())),
            sack_permitted: self.is.sack,
            timestamps: self.is.timestamps.then(|| Timestamps {
                value: self.timestamp_now(env.now),
                echo: if received { self.timestamps.recent() } else { 0 },
            }),
            user_timeout: self.user_timeout_option(),
            fast_open,
            ..Options::NONE
        };
        let header = Header {
            source_port: self.local_port,
            destination_port: self.peer_port,
            sequence: self.initial_send,
            acknowledgment: if received { self.receive_window.next() } else { SequenceNumber(0) },
            flags,
            window: env.config.initial_window(self.right_sizing.most()) as u16,
            urgent: 0,
            options,
        };
        let payload = match data {
            0 => SegmentPayload::None,
            data => SegmentPayload::Copy(self.queue.range(self.queue.start(), data)),
        };
        if emitter.room() == 0 || !emitter.emit(&header, payload, Ecn::NotCapable) {
            return;
        }
        if is_first {
            self.first_syn_sent(data);
        }
        env.counters.segments_sent += 1;
        self.is.handshake.want_syn(false);
        self.is.output_wanted = false;
        if self.board.is_empty() {
            self.send_next = self.initial_send + 1;
            self.board.push(self.send_next, env.now);
            self.patience.restart(env.now);
        } else {
            env.counters.segments_retransmitted += 1;
        }
        self.timers.set(RetransmitKind::Timeout, env.now + self.rtt.timeout());
    }

    /// The RST of an abort; then the connection is over.
    #[cold]
    fn output_reset(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) -> Disposition {
        if !self.outcome.wants_reset() {
            self.is.output_wanted = false;
            return Disposition::Keep;
        }
        let header = Header {
            source_port: self.local_port,
            destination_port: self.peer_port,
            sequence: self.send_next,
            acknowledgment: self.receive_window.next(),
            flags: Flags::RST | Flags::ACK,
            options: Options {
                // RFC 7323 §3.2: "TSopt … SHOULD be sent in an <RST> segment".
                timestamps: self
                    .is
                    .timestamps
                    .then(|| Timestamps { value: self.timestamp_now(env.now), echo: self.timestamps.recent() }),
                ..Options::NONE
            },
            ..Header::default()
        };
        if emitter.room() == 0 || !emitter.emit(&header, SegmentPayload::None, Ecn::NotCapable) {
            return Disposition::Keep;
        }
        let why = self.outcome.reset_sent();
        env.counters.resets_sent += 1;
        env.counters.segments_sent += 1;
        self.finish(why, env)
    }
}
