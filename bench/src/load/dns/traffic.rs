//! Questions on their way, one after the other and then again. The identifier of a message holds its slot and as much of the slot's use count as there is
//! room for: a late answer to the slot's last question has another identifier, as with a resolver that draws them.

use super::options::DnsLoadOptions;
use super::queries::Queries;
use crate::load::datagrams::traffic::{Incoming, Traffic};
use crate::load::datagrams::window::Mark;
use qanat_wire::checksum;
use std::collections::BTreeMap;

const HEADER_LENGTH: usize = 12;
const FLAG_ANSWER: u16 = 0x8000;
const FLAG_TRUNCATED: u16 = 0x0200;
/// Response codes a header has room for.
const CODES: usize = 16;
/// Their names (RFC 1035, 2136).
const NAMES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];

/// Answers by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    codes: [u64; CODES],
    /// With TC set.
    pub truncated: u64,
    /// NOERROR with an empty answer section.
    pub without_records: u64,
    /// Answers to a question that was not asked under this identifier, and messages that are no answers.
    pub wrong: u64,
    /// Bytes of all answers.
    pub bytes: u64,
}

impl Tally {
    /// Counts by the codes' names, those that came.
    pub fn response_codes(&self) -> BTreeMap<String, u64> {
        let name = |code: usize| NAMES.get(code).map_or_else(|| format!("RCODE{code}"), |name| (*name).to_owned());
        let came = self.codes.iter().enumerate().filter(|(_, count)| **count > 0);
        came.map(|(code, count)| (name(code), *count)).collect()
    }
}

/// What waits in a slot.
#[derive(Clone, Copy, Default)]
struct Asked {
    question: u32,
    uses: u32,
    identifier: u16,
}

/// See the [module](self).
pub struct Questions<'a> {
    queries: &'a Queries,
    /// By slot.
    asked: Vec<Asked>,
    slot_bits: u32,
    /// The question asked next.
    next: usize,
    echoed: bool,
    tally: Tally,
}

impl<'a> Questions<'a> {
    /// Of `queries`, in their order; none asked yet.
    pub fn new(queries: &'a Queries, options: &DnsLoadOptions) -> Questions<'a> {
        let window = options.pace.window.clamp(1, 1 << 16);
        Questions {
            queries,
            asked: vec![Asked::default(); window],
            slot_bits: window.next_power_of_two().trailing_zeros(),
            next: 0,
            echoed: options.echoed,
            tally: Tally::default(),
        }
    }

    /// Different questions.
    pub fn count(&self) -> usize {
        self.queries.len()
    }

    /// Answers since the window began.
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

impl Traffic for Questions<'_> {
    #[inline]
    fn prepare(&mut self, mark: Mark) -> usize {
        let question = self.next as u32;
        self.next = if self.next + 1 < self.queries.len() { self.next + 1 } else { 0 };
        let identifier = (mark.slot | mark.uses.checked_shl(self.slot_bits).unwrap_or_default()) as u16;
        if let Some(asked) = self.asked.get_mut(mark.slot as usize) {
            *asked = Asked { question, uses: mark.uses, identifier };
        }
        self.queries.message(question as usize).len()
    }

    #[inline]
    fn write(&mut self, mark: Mark, payload: &mut [u8]) -> u16 {
        let Some(asked) = self.asked.get(mark.slot as usize) else { return 0 };
        payload.copy_from_slice(self.queries.message(asked.question as usize));
        if let Some(identifier) = payload.first_chunk_mut() {
            *identifier = asked.identifier.to_be_bytes();
        }
        checksum::sum(payload)
    }

    #[inline]
    fn read(&mut self, payload: &[u8]) -> Incoming {
        let Some(header) = payload.first_chunk::<HEADER_LENGTH>() else { return Incoming::Foreign };
        let [a, b, c, d, _, questions, e, f, ..] = *header;
        let (identifier, flags) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let slot = u32::from(identifier) & ((1 << self.slot_bits) - 1);
        let Some(asked) = self.asked.get(slot as usize).filter(|asked| asked.identifier == identifier).copied() else {
            return Incoming::Foreign;
        };
        let code = flags & 0xf;
        // An error need not repeat the question (RFC 1035, section 4.1.1, says nothing of it; some servers leave it out).
        let is_bare = code != 0 && questions == 0;
        let is_answer = flags & FLAG_ANSWER != 0 || self.echoed;
        if !is_answer || !(is_bare || self.queries.is_question_of(payload, asked.question as usize)) {
            self.tally.wrong += 1;
            return Incoming::Wrong;
        }
        if let Some(count) = self.tally.codes.get_mut(usize::from(code)) {
            *count += 1;
        }
        self.tally.truncated += u64::from(flags & FLAG_TRUNCATED != 0);
        self.tally.without_records += u64::from(code == 0 && flags & FLAG_TRUNCATED == 0 && [e, f] == [0, 0]);
        self.tally.bytes += payload.len() as u64;
        Incoming::Answer(Mark { slot, uses: asked.uses })
    }

    fn begin(&mut self) {
        self.tally = Tally::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::queries::QueryOptions;
    use super::*;

    fn queries() -> Queries {
        let text: String = (0..100).map(|number| format!("n{number}.example A\n")).collect();
        Queries::parse(&text, &QueryOptions::default()).unwrap()
    }

    fn options(window: usize) -> DnsLoadOptions {
        let mut options = DnsLoadOptions::new("10.0.0.1:53".parse().unwrap());
        options.pace.window = window;
        options
    }

    fn send(questions: &mut Questions<'_>, mark: Mark) -> Vec<u8> {
        let mut payload = vec![0; questions.prepare(mark)];
        let sum = questions.write(mark, &mut payload);
        assert_eq!(sum, checksum::sum(&payload));
        payload
    }

    #[test]
    fn answers_belong_to_their_question() {
        let queries = queries();
        for window in [1, 2, 100, 65_536] {
            let mut questions = Questions::new(&queries, &options(window));
            let mark = Mark { slot: window as u32 - 1, uses: 70_001 };
            let mut answer = send(&mut questions, mark);
            assert_eq!(questions.read(&answer), Incoming::Wrong, "a question");
            answer[2] |= 0x80;
            assert_eq!(questions.read(&answer), Incoming::Answer(mark));
            assert_eq!(questions.read(&answer[..11]), Incoming::Foreign);
            assert_eq!(questions.read(&answer[..20]), Incoming::Wrong);
            let again = Mark { uses: 70_002, ..mark };
            send(&mut questions, again);
            if window < 65_536 {
                assert_eq!(questions.read(&answer), Incoming::Foreign, "late");
            }
            let tally = questions.tally();
            assert_eq!((tally.wrong, tally.without_records), (2, 1));
            assert_eq!(tally.response_codes(), BTreeMap::from([("NOERROR".to_owned(), 1)]));
        }
    }
}
