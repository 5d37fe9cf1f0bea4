//! What a server has done.

use crate::answer::{Fate, Outcome};
use crate::counted::{self, RCODES, TYPES};
use serde::{Serialize, Serializer};

/// What a server has done since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Requests of any kind.
    pub requests: u64,
    /// Answers sent.
    pub answers: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Bytes of answers.
    pub answer_bytes: u64,
    /// Not answered: no request.
    pub silent: u64,
    /// Answers with TC set.
    pub truncated: u64,
    /// Requests with a valid server cookie.
    pub cookies_valid: u64,
    /// Answers that could not be given to the network.
    pub not_sent: u64,
    /// Answers not sent: too many equal ones to one network.
    pub limited: u64,
    /// Of too many equal answers, those that were sent with TC set instead.
    pub slipped: u64,
    /// TCP connections accepted.
    pub connections: u64,
    /// TCP connections open now.
    pub connections_open: u64,
    /// TCP connections refused: too many.
    pub connections_refused: u64,
    /// Of these, connections whose peer had as many as one peer may have.
    pub connections_refused_peer: u64,
    /// TCP connections ended because nothing happened.
    pub connections_timed_out: u64,
    /// TCP connections ended because their client took its answers too slowly.
    pub connections_too_slow: u64,
    /// TCP connections ended because what came was no request.
    pub connections_broken: u64,
    /// Lines of the query log lost.
    pub log_drops: u64,
    /// Answers by response code, in the order of [`RCODES`].
    #[serde(serialize_with = "by_rcode")]
    pub rcodes: [u64; RCODES.len()],
    /// Requests by type, in the order of [`TYPES`].
    #[serde(serialize_with = "by_type")]
    pub types: [u64; TYPES.len()],
}

fn by_rcode<S: Serializer>(counts: &[u64; RCODES.len()], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(RCODES.iter().map(|(_, name)| *name).zip(counts))
}

fn by_type<S: Serializer>(counts: &[u64; TYPES.len()], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(TYPES.iter().map(|(_, name)| *name).zip(counts))
}

impl Figures {
    /// Adds those of another instance.
    pub fn add(&mut self, other: &Figures) {
        let pairs = [
            (&mut self.requests, other.requests),
            (&mut self.answers, other.answers),
            (&mut self.request_bytes, other.request_bytes),
            (&mut self.answer_bytes, other.answer_bytes),
            (&mut self.silent, other.silent),
            (&mut self.truncated, other.truncated),
            (&mut self.cookies_valid, other.cookies_valid),
            (&mut self.not_sent, other.not_sent),
            (&mut self.limited, other.limited),
            (&mut self.slipped, other.slipped),
            (&mut self.connections, other.connections),
            (&mut self.connections_open, other.connections_open),
            (&mut self.connections_refused, other.connections_refused),
            (&mut self.connections_refused_peer, other.connections_refused_peer),
            (&mut self.connections_timed_out, other.connections_timed_out),
            (&mut self.connections_too_slow, other.connections_too_slow),
            (&mut self.connections_broken, other.connections_broken),
            (&mut self.log_drops, other.log_drops),
        ];
        let counts = pairs.into_iter().chain(self.rcodes.iter_mut().zip(other.rcodes));
        counts.chain(self.types.iter_mut().zip(other.types)).for_each(|(sum, count)| *sum += count);
    }

    /// Counts a request of `length` bytes, and what became of it.
    #[inline(always)]
    pub fn count(&mut self, outcome: &Outcome, length: usize) {
        self.requests += 1;
        self.request_bytes += length as u64;
        if outcome.fate == Fate::Silence {
            self.silent += 1;
            return;
        }
        self.answers += 1;
        self.answer_bytes += outcome.length as u64;
        self.truncated += u64::from(outcome.truncated);
        self.cookies_valid += u64::from(outcome.cookie_valid);
        if let Some(count) = self.types.get_mut(usize::from(counted::type_place(outcome.qtype))) {
            *count += 1;
        }
        if let Some(count) = self.rcodes.get_mut(usize::from(counted::rcode_place(outcome.rcode))) {
            *count += 1;
        }
    }
}

/// What was answered the shortest way, which counts no more than it must: the rest follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlainFigures {
    /// Counts, by the place of the type in [`TYPES`].
    types: [u64; 16],
    request_bytes: u64,
    answer_bytes: u64,
}

const _: () = assert!(TYPES.len() <= 16);

impl PlainFigures {
    /// Counts an answer of `length` bytes more than its request of `request_length`, for the type of this place.
    #[inline(always)]
    pub(super) fn count(&mut self, place: u8, request_length: usize, length: usize) {
        self.types[usize::from(place & 15)] += 1;
        self.request_bytes += request_length as u64;
        self.answer_bytes += length as u64;
    }

    /// Adds them to `figures`.
    pub(super) fn add_to(&self, figures: &mut Figures) {
        let answers: u64 = self.types.iter().sum();
        figures.requests += answers;
        figures.answers += answers;
        figures.rcodes[usize::from(counted::rcode_place(0))] += answers;
        figures.request_bytes += self.request_bytes;
        figures.answer_bytes += self.request_bytes + self.answer_bytes;
        figures.types.iter_mut().zip(self.types).for_each(|(sum, count)| *sum += count);
    }
}
