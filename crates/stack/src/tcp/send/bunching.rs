//! What is held back so that segments are full: Nagle's algorithm (RFC 9293 §3.7.4), cork, and what is said to follow.
//!
//! All that changes this is here.

use crate::tcp::sequence::SequenceNumber;

/// What is to become of bytes that do not fill a segment (Linux' `MSG_MORE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
enum Follow {
    /// They go, and are pushed.
    #[default]
    Nothing,
    /// More is said to follow soon: they wait for it, or for an acknowledgement.
    More,
    /// That has come: they go, but are not pushed.
    Unpushed,
}

/// How bytes are put together to segments.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Bunching {
    /// Where the last segment ended that was sent and not full.
    small_end: SequenceNumber,
    /// Whether more is said to follow what was given last.
    follow: Follow,
    /// Nagle's algorithm is off.
    no_delay: bool,
    /// Corked: only full segments.
    cork: bool,
    /// One segment goes regardless of silly-window rules (the override timer fired).
    force: bool,
}

impl Bunching {
    /// Nothing was sent yet.
    pub fn new(no_delay: bool, start: SequenceNumber) -> Bunching {
        Bunching { small_end: start, follow: Follow::Nothing, no_delay, cork: false, force: false }
    }

    /// Nagle's algorithm off (`true`) or on. `has_unsent`: something waits to be sent.
    pub(in crate::tcp) fn set_no_delay(&mut self, no_delay: bool, has_unsent: bool) {
        self.no_delay = no_delay;
        if no_delay {
            self.release();
            // As Linux: what a cork has held back so far goes.
            self.force |= self.cork && has_unsent;
        }
    }

    /// Whether more is said to follow soon.
    pub(in crate::tcp) fn set_more(&mut self, more: bool) {
        self.follow = if more { Follow::More } else { Follow::Nothing };
    }

    /// Only full segments go, or all.
    pub(in crate::tcp) fn set_cork(&mut self, cork: bool) {
        self.cork = cork;
    }

    /// What waits for more to follow need not wait any longer.
    #[inline]
    pub(in crate::tcp) fn release(&mut self) {
        if self.follow == Follow::More {
            self.follow = Follow::Unpushed;
        }
    }

    /// The next segment goes, however small it is.
    pub(in crate::tcp) fn force(&mut self) {
        self.force = true;
    }

    /// Whether the next segment goes, however small it is.
    #[inline]
    pub(super) fn is_forced(&self) -> bool {
        self.force
    }

    /// Whether a segment that ends all data is pushed.
    #[inline]
    pub(super) fn pushes(&self) -> bool {
        match self.follow {
            Follow::Nothing => true,
            Follow::More => self.force,
            Follow::Unpushed => false,
        }
    }

    /// New data of `length` bytes has been sent, which ends at `end`; a segment takes `maximum_segment`.
    #[inline]
    pub(super) fn on_sent(&mut self, length: u32, maximum_segment: u32, end: SequenceNumber) {
        self.force = false;
        let full = maximum_segment - 40.min(maximum_segment / 2);
        if length > 0 && length < full {
            self.small_end = end;
        }
    }

    /// Whether a segment that is not full waits for more. `quiet`: nothing is in flight.
    pub(super) fn holds_back(&self, quiet: bool, unacknowledged: SequenceNumber, next: SequenceNumber) -> bool {
        self.cork
            || self.follow == Follow::More
            || (!self.no_delay && !quiet && self.has_small_in_flight(unacknowledged, next))
    }

    /// Whether the last segment that was not full is not acknowledged: as Linux (and Minshall's draft of 1998) reads Nagle, the
    /// end of what is longer than a segment waits for no acknowledgement of its beginning.
    fn has_small_in_flight(&self, unacknowledged: SequenceNumber, next: SequenceNumber) -> bool {
        self.small_end.after(unacknowledged) && self.small_end.at_or_before(next)
    }
}
