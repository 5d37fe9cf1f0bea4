//! Data received: RFC 9293 §3.10.7.4 seventh and eighth; the receive window, silly-window avoidance (§3.8.6.2.2),
//! and D-SACK reports (RFC 2883).

use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::receive::reassembly::{Block, Insertion};
use crate::tcp::segment::SegmentIn;
use crate::tcp::sequence::SequenceNumber;
use crate::tcp::state::State;
use qanat_api::{Chunk, CloseReason, Event};
use qanat_wire::tcp::Flags;

/// Bytes a receive frame is taken to hold at least, when the window is computed from free frames.
const FRAME_BYTES_MIN: u16 = 64;

impl Connection {
    /// A segment with data or FIN, acceptable and with its ACK processed.
    pub(in crate::tcp) fn receive(
        &mut self,
        segment: &SegmentIn<'_>,
        payload: Option<Chunk>,
        env: &mut Env<'_>,
    ) -> Disposition {
        if !self.lifecycle.state().receives() {
            // "This should not occur since a FIN has been received …. Ignore the segment text."
            env.counters.data_after_fin += 1;
            self.acknowledge_now();
            return Disposition::Keep;
        }
        if self.lifecycle.is_orphaned() && segment.payload_length > 0 {
            return self.receive_orphaned(segment, env);
        }
        let data_end = segment.sequence + segment.payload_length;
        let fin_in_window =
            data_end.at_or_before(self.receive_window.edge()) && data_end.at_or_after(self.receive_window.next());
        if segment.flags.contains(Flags::FIN) && fin_in_window {
            self.receive_window.note_fin(data_end);
        }
        if let Some(chunk) = payload
            && !chunk.is_empty()
        {
            self.receive_data(segment, chunk, env);
        }
        if self.receive_window.is_at_fin() {
            return self.receive_fin(env);
        }
        if segment.flags.contains(Flags::FIN) {
            // Beyond a gap: say what is missing.
            self.acknowledge_now();
        }
        Disposition::Keep
    }

    /// Data for a service that has closed. While it has something to tell the peer, data is taken and dropped, so that
    /// a reset does not destroy the answer on its way; afterwards RFC 9293 §3.10.4's SHOULD applies: reset.
    fn receive_orphaned(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) -> Disposition {
        env.counters.data_after_close += 1;
        if self.lifecycle.state() == State::FinWait2 {
            let _ = self.fail(CloseReason::Aborted, env);
            return Disposition::Keep;
        }
        let end = segment.sequence + segment.payload_length;
        if segment.sequence.at_or_before(self.receive_window.next()) && end.after(self.receive_window.next()) {
            self.receive_window.skip_to(end);
            if segment.flags.contains(Flags::FIN) && self.receive_window.next() == end {
                return self.receive_fin(env);
            }
        }
        self.acknowledge_now();
        Disposition::Keep
    }

    #[inline]
    fn receive_data(&mut self, segment: &SegmentIn<'_>, mut chunk: Chunk, env: &mut Env<'_>) {
        let mut start = segment.sequence;
        let length = chunk.len() as u32;
        self.receive_window.note_length(length);
        // Cut what was received before…
        let mut is_reported = false;
        if start.before(self.receive_window.next()) {
            let old = self.receive_window.next().distance_from(start);
            if old > 0 && self.is.sack {
                self.report_duplicate(start, self.receive_window.next().earlier(start + length));
                is_reported = true;
            }
            if old >= length {
                env.counters.duplicate_data += 1;
                self.acks.owe_apart();
                self.is.output_wanted = true;
                return;
            }
            chunk.trim_front(old as usize);
            start = self.receive_window.next();
        }
        // …and what lies beyond the window or the FIN.
        let edge = self.receive_window.data_end();
        let room = if edge.after(start) { edge.distance_from(start) } else { 0 };
        if chunk.len() as u32 > room {
            env.counters.data_beyond_window += 1;
            chunk.truncate(room as usize);
            self.acks.owe();
            if room == 0 {
                self.is.output_wanted = true;
                return;
            }
        }
        self.sample_round_trip(segment, env.now);
        if start != self.receive_window.next() {
            let end = start + chunk.len() as u32;
            let room = match self.out_of_order_room(env) {
                0 if self.makes_room(start, end, env) => 1,
                room => room,
            };
            if room == 0 {
                env.counters.receive_frames_full += 1;
                self.acknowledge_now();
                return;
            }
            self.report_held(start, end);
            self.receive_out_of_order(start, chunk, room, env);
            return;
        }
        if env.memory.room(self.held.frames_lent()) == 0 && self.held.has_gap() {
            // RFC 2018 §8: what is out of order may be dropped again when memory is short; what is next goes before it.
            env.counters.reassembly_pruned += 1;
            self.drop_reassembly(env);
        }
        let is_full = self.is.starved || self.held.frames_lent() as usize >= env.config.receive_frames_max;
        if is_full || env.memory.room(self.held.frames_lent()) == 0 {
            env.counters.receive_frames_full += 1;
            self.acknowledge_now();
            return;
        }
        let full = chunk.len() as u32 >= u32::from(self.receive_window.segment_max());
        if !is_reported && self.held.has_gap() {
            self.report_held(start, start + chunk.len() as u32);
        }
        self.deliver(chunk, env);
        if self.held.has_gap() {
            // RFC 5681 §4.2: "a TCP receiver SHOULD send an immediate ACK when … fills in all or part of a gap".
            self.drain_reassembly(env);
            self.acks.owe_apart();
        }
        self.acknowledge_soon(full, env);
    }

    /// Hands the next bytes of the stream to the service.
    #[inline]
    fn deliver(&mut self, chunk: Chunk, env: &mut Env<'_>) {
        let length = chunk.len() as u32;
        self.receive_window.advance(length);
        self.held.lend(length, env.memory);
        self.statistics.bytes_received += u64::from(length);
        env.counters.bytes_received += u64::from(length);
        env.events.push_back(Event::Data { connection: self.id, chunk });
    }

    fn drain_reassembly(&mut self, env: &mut Env<'_>) {
        let Some(mut queue) = self.held.take_out_of_order(env.memory) else { return };
        while let Some(chunk) = queue.pop(self.receive_window.next()) {
            self.deliver(chunk, env);
        }
        self.held.put_back(queue, env.memory);
    }

    /// Further frames that may be held beyond a gap: what the connection has in all stays below its own limit, and below
    /// what is free after.
    fn out_of_order_room(&self, env: &Env<'_>) -> usize {
        let held = self.held.frames();
        env.config.receive_frames_max.saturating_sub(held).min(env.memory.room_out_of_order(held as u32) as usize)
    }

    /// Gives up what is held farthest beyond the gap, for bytes that are nearer. Without SACK the peer sends everything again from the
    /// first gap on: if the nearer bytes were refused until all before them are there, each further loss would cost a time-out.
    /// With SACK the peer knows what is held, relies on that, and sends nothing but the gaps.
    #[cold]
    fn makes_room(&mut self, start: SequenceNumber, end: SequenceNumber, env: &mut Env<'_>) -> bool {
        if self.is.sack || self.held.first_held(start, end) == Some(Block { start, end }) {
            return false;
        }
        let is_given_up = self.held.drop_farthest(start, env.memory);
        env.counters.reassembly_pruned += u64::from(is_given_up);
        is_given_up
    }

    /// Holds data beyond a gap, for which there is `room`, frames.
    #[cold]
    fn receive_out_of_order(&mut self, start: SequenceNumber, chunk: Chunk, room: usize, env: &mut Env<'_>) {
        env.counters.out_of_order_data += 1;
        let frames = self.held.frames_out_of_order() + room;
        let (insertion, is_more_of_the_same) = self.held.insert(start, chunk, frames, env.memory);
        match insertion {
            Insertion::Held => {}
            Insertion::Duplicate => env.counters.duplicate_data += 1,
            Insertion::Full => env.counters.reassembly_full += 1,
        }
        // RFC 5681 §4.2: "A TCP receiver SHOULD send an immediate duplicate ACK when an out-of-order segment arrives."
        if !self.is.sack {
            self.acks.owe_copy();
        }
        let is_shared = self.is.sack && is_more_of_the_same && insertion == Insertion::Held;
        self.acks.on_out_of_order(is_shared);
        self.is.output_wanted = true;
    }

    /// The next ACK reports the first of the bytes from `start` to `end` that are held already, beyond the gap (RFC 2883 §4.2).
    fn report_held(&mut self, start: SequenceNumber, end: SequenceNumber) {
        if let Some(block) = self.held.first_held(start, end) {
            self.report_duplicate(block.start, block.end);
        }
    }

    /// The next ACK reports `[start, end)` as received twice.
    pub(in crate::tcp) fn report_duplicate(&mut self, start: SequenceNumber, end: SequenceNumber) {
        if self.is.sack && start.before(end) {
            self.acks.report(Block { start, end });
        }
    }

    /// The peer's FIN is next in the stream.
    fn receive_fin(&mut self, env: &mut Env<'_>) -> Disposition {
        self.receive_window.pass_fin();
        self.drop_reassembly(env);
        self.acknowledge_now();
        env.events.push_back(Event::PeerClosed { connection: self.id });
        if self.lifecycle.state() == State::FinWait2 {
            return self.enter_time_wait(env);
        }
        self.lifecycle.on_peer_fin();
        Disposition::Keep
    }

    /// The service gives `bytes` in `frames` frames back; a window update goes out when it is worth a segment.
    pub fn consume(&mut self, bytes: u32, frames: u32, env: &mut Env<'_>) {
        self.held.take_back(bytes, frames, env.memory);
        if !self.lifecycle.state().receives() {
            return;
        }
        self.on_taken(bytes, env);
        let offered = self.receive_window.offered();
        // What the window field can't express can't be offered.
        let possible = self.window_possible(env).min(self.receive_window.expressible());
        let growth = possible.saturating_sub(offered);
        // §3.8.6.2.2: not before min(half the buffer, a segment) can be opened; an update of its own only when the
        // sender may be waiting for it: ACKs of data carry the rest.
        let segment = u32::from(self.receive_window.segment_max());
        let nearly_shut = offered < 2 * segment && growth >= segment.min(self.right_sizing.limit() / 2).max(1);
        if nearly_shut || growth >= self.right_sizing.limit() / 2 {
            self.acknowledge_now();
        }
    }

    /// The window the buffers would bear now, bytes.
    #[inline]
    fn window_possible(&self, env: &Env<'_>) -> u32 {
        let bytes = self.right_sizing.limit().saturating_sub(self.held.unconsumed());
        let frames = env.config.receive_frames_max.saturating_sub(self.held.frames());
        // So that it holds no more than is free after.
        let frames = frames.min(env.memory.room(self.held.frames_lent()) as usize);
        // What the free frames will hold if segments go on as they were.
        let mean = u64::from(self.receive_window.length_mean().max(FRAME_BYTES_MIN));
        let by_frames = (frames as u64 * mean).min(u64::from(u32::MAX)) as u32;
        bytes.min(by_frames)
    }

    /// The window field of a segment about to be sent; moves the advertised edge.
    #[inline]
    pub(in crate::tcp) fn advertise(&mut self, env: &Env<'_>) -> u16 {
        let possible = self.window_possible(env);
        self.receive_window.advertise(possible, self.right_sizing.limit())
    }
}
