//! What a server has done.

use crate::answer::{Fate, Outcome};
use serde::{Serialize, Serializer};

/// Types with a count of their own; all others share the last place.
pub const TYPES: [(u16, &str); 15] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (43, "DS"),
    (48, "DNSKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (255, "ANY"),
    (0, "other"),
];

/// Response codes with a count of their own; all others share the last place.
pub const RCODES: [(u8, &str); 10] = [
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (9, "NOTAUTH"),
    (16, "BADVERS"),
    (255, "other"),
];

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
    /// The same, sent with TC set instead.
    pub slipped: u64,
    /// TCP connections accepted.
    pub connections: u64,
    /// TCP connections open now.
    pub connections_open: u64,
    /// TCP connections refused: too many.
    pub connections_refused: u64,
    /// TCP connections ended because nothing happened.
    pub connections_timed_out: u64,
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

/// The place of each number below 256 in a table that ends with a place for all others.
const fn places<const N: usize>(numbers: [u16; N]) -> [u8; 256] {
    let mut places = [N as u8 - 1; 256];
    let mut index = 0;
    while index + 1 < N {
        places[numbers[index] as usize] = index as u8;
        index += 1;
    }
    places
}

const TYPE_PLACES: [u8; 256] = {
    let mut numbers = [0; TYPES.len()];
    let mut index = 0;
    while index < TYPES.len() {
        numbers[index] = TYPES[index].0;
        index += 1;
    }
    places(numbers)
};

const RCODE_PLACES: [u8; 256] = {
    let mut numbers = [0; RCODES.len()];
    let mut index = 0;
    while index < RCODES.len() {
        numbers[index] = RCODES[index].0 as u16;
        index += 1;
    }
    places(numbers)
};

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
            (&mut self.connections_timed_out, other.connections_timed_out),
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
        let place = TYPE_PLACES.get(usize::from(outcome.qtype)).copied().unwrap_or(TYPES.len() as u8 - 1);
        if let Some(count) = self.types.get_mut(usize::from(place)) {
            *count += 1;
        }
        let place = RCODE_PLACES.get(usize::from(outcome.rcode)).copied().unwrap_or(0);
        if let Some(count) = self.rcodes.get_mut(usize::from(place)) {
            *count += 1;
        }
    }
}
