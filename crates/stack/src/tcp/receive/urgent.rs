//! Urgent data: RFC 9293 §3.8.5 and RFC 6093, read as every system reads them: the pointer names the byte after the urgent
//! one (RFC 6093 §3.1), and there is one such byte at a time.
//!
//! A connection that neither sends nor receives any pays a test of a flag for each segment.

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::segment::SegmentIn;
use crate::tcp::sequence::SequenceNumber;
use qanat_api::Event;

impl Connection {
    /// Whatever was given to be sent so far ends with an urgent byte (RFC 9293 §3.9.1.2, SEND with the urgent flag). Nothing
    /// is held back until the peer has it.
    pub fn mark_urgent(&mut self) {
        self.extras().urgent.send_end = self.queue.end();
        self.is.urgent = true;
        self.is.output_wanted = true;
    }

    /// Whether the peer has not acknowledged all up to an urgent byte.
    #[cold]
    pub(in crate::tcp) fn owes_urgent(&self) -> bool {
        self.extras.as_deref().is_some_and(|extras| extras.urgent.send_end > self.queue.start())
    }

    /// SEG.UP of a segment that begins at `sequence`. Gives `None` if the urgent byte lies before it, or too far behind to be told.
    #[cold]
    pub(in crate::tcp) fn urgent_pointer(&mut self, sequence: SequenceNumber) -> Option<u16> {
        let end = self.extras().urgent.send_end;
        if end <= self.queue.start() {
            self.is.urgent = false;
            return None;
        }
        let end = self.board.start() + (end - self.queue.start()) as u32;
        if !sequence.before(end) {
            return None;
        }
        match u16::try_from(end.distance_from(sequence)) {
            Ok(pointer) => Some(pointer),
            // As Linux: further than the field reaches, and told by the last segment alone (RFC 6093 §3.3).
            Err(_) => (sequence + u32::from(u16::MAX)).after(self.send_next).then_some(u16::MAX),
        }
    }

    /// A segment with URG, acceptable and with its ACK processed, whose data has not been received yet.
    #[cold]
    pub(in crate::tcp) fn note_urgent(&mut self, segment: &SegmentIn<'_>, env: &mut Env<'_>) {
        if !env.config.urgent_data || !self.lifecycle.state().receives() || self.lifecycle.is_orphaned() {
            env.counters.urgent_ignored += 1;
            return;
        }
        let at = segment.sequence + u32::from(segment.urgent.saturating_sub(1));
        let next = self.receive_window.next();
        let received = &mut self.extras().urgent.received;
        let is_known = received.is_some_and(|last| last.at_or_after(next) && at.at_or_before(last));
        if at.before(next) || is_known {
            return;
        }
        *received = Some(at);
        env.counters.urgent_received += 1;
        env.events.push_back(Event::Urgent { connection: self.id, ahead: at.distance_from(next) });
    }
}
