//! Which segments are acknowledged when: RFC 9293 §3.8.6.3, RFC 5681 §4.2, RFC 1122 §4.2.3.2.
//!
//! A poll takes a batch of frames, and its ACKs go out after the service has answered, so that an answer carries them. But an
//! ACK is more to a sender than its number: each lets it send what it acknowledges (many at once are a burst), is a sample of
//! the path, and tells of three ranges beyond a gap at most; and where a path loses packets, one for all is lost at once. So
//! where several are due in one batch they are sent *apart*: the one owed goes out before the next segment is taken, which
//! leaves the last for the answer.
//!
//! * Every segment that fills a gap is answered by itself, and every one out of order: but of a run beyond the same gap, once
//!   three ACKs have told of it, as many share one as in order. Their ACKs would say the same but for the run's end, and a
//!   burst of them is lost where queues are short.
//! * In order: every second full segment; where many are in flight one of sixteen of those, and at most the 64 KiB for which
//!   other receivers, too, send one ACK (generic receive offload). A sender with 32 segments on its way learns enough from 16 ACKs.

use crate::tcp::connection::Connection;
use crate::tcp::env::Env;
use crate::tcp::segment::Emitter;
use crate::tcp::state::State;

impl Connection {
    /// Schedules the ACK of data just delivered: at once while the connection is young or for every second full
    /// segment, else within `delayed_ack`. "At once" means with the next `output`: after the service has answered.
    #[inline]
    pub(in crate::tcp) fn acknowledge_soon(&mut self, full: bool, env: &Env<'_>) {
        if self.acks.on_delivered(full) {
            self.is.output_wanted = true;
        } else {
            self.timers.delay_ack(env.now + env.config.delayed_ack);
        }
    }

    /// The sender has `bytes` in flight: sets how many full segments that come together are acknowledged by one ACK.
    pub(in crate::tcp) fn set_segments_per_ack(&mut self, bytes: u32) {
        self.acks.set_stretch(bytes, u32::from(self.receive_window.segment_max()));
    }

    /// Whether an ACK is owed that the next segment with data must not share: call
    /// [`acknowledge_apart`](Connection::acknowledge_apart) before [`input`](Connection::input).
    #[inline]
    pub fn owes_ack_apart(&self) -> bool {
        self.acks.is_apart()
    }

    /// Sends the ACK that is owed, alone. If there is no room for it, it is shared after all.
    pub fn acknowledge_apart(&mut self, env: &mut Env<'_>, emitter: &mut dyn Emitter) {
        self.acks.share();
        if self.lifecycle.state() != State::Closed && self.acks.is_owed() {
            self.output_acks(env, emitter);
        }
    }
}
