//! The questions of a run: a line each, `NAME [TYPE]` (as dnsperf and kxdpgun take them), made into messages once.

use domain::base::iana::Rtype;
use domain::base::name::Name;
use qanat_nic::Random;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

const HEADER_LENGTH: usize = 12;
/// Type and class.
const QUESTION_TAIL: usize = 4;
const CLASS_IN: u16 = 1;
/// The OPT record: root name, type 41, size, extended code, version, flags, no options (RFC 6891, section 6.1.2).
const OPT_LENGTH: usize = 11;
const TYPE_OPT: u16 = 41;
const FLAG_DO: u16 = 0x8000;
/// Bytes of all messages together: their places are 32-bit numbers.
const BYTES_MAX: usize = u32::MAX as usize;
/// EDNS size where only --dnssec asks for EDNS (the DNS flag day's).
pub const EDNS_SIZE_DEFAULT: u16 = 1_232;

/// What every question has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryOptions {
    /// Type where a line has none.
    pub default_type: Rtype,
    /// Size of answers accepted, by EDNS; `None`: no EDNS.
    pub edns_size: Option<u16>,
    /// Ask for signatures (DO); with EDNS.
    pub dnssec: bool,
}

impl Default for QueryOptions {
    fn default() -> QueryOptions {
        QueryOptions { default_type: Rtype::A, edns_size: None, dnssec: false }
    }
}

/// Why there are no questions.
#[derive(Debug, Error)]
pub enum QueryError {
    /// A line; its number from 1, what is wrong.
    #[error("line {0}: {1}; a line is NAME [TYPE]")]
    Line(usize, String),
    /// The file has none.
    #[error("no question in it; a line is NAME [TYPE], for example www.example.com A")]
    Empty,
    /// More than 4 GiB of messages.
    #[error("more questions than 4 GiB of messages hold")]
    TooMany,
    /// It can't be read.
    #[error("{}: {_1}", _0.display())]
    File(PathBuf, std::io::Error),
}

/// Messages, in the order of the file.
pub struct Queries {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// Bytes after the question.
    rest: usize,
}

impl Queries {
    /// Those of the file at `path`.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn read(path: &Path, options: &QueryOptions) -> Result<Queries, QueryError> {
        let text = std::fs::read_to_string(path).map_err(|error| QueryError::File(path.to_owned(), error))?;
        Queries::parse(&text, options)
    }

    /// Those of `text`. Empty lines, and lines that begin with `#` or `;`, say nothing.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn parse(text: &str, options: &QueryOptions) -> Result<Queries, QueryError> {
        let edns_size = options.edns_size.or(options.dnssec.then_some(EDNS_SIZE_DEFAULT));
        let rest = if edns_size.is_some() { OPT_LENGTH } else { 0 };
        let mut queries = Queries { bytes: Vec::new(), ends: Vec::new(), rest };
        for (index, line) in text.lines().enumerate() {
            let mut words = line.split_ascii_whitespace();
            let Some(name) = words.next().filter(|word| !word.starts_with(['#', ';'])) else { continue };
            let wrong = |what: String| QueryError::Line(index + 1, what);
            let rtype = match words.next() {
                None => options.default_type,
                Some(word) => parse_type(word).map_err(|error| wrong(error.to_string()))?,
            };
            if let Some(more) = words.next() {
                return Err(wrong(format!("{more:?} after the type")));
            }
            let name = Name::<Vec<u8>>::from_str(name).map_err(|error| wrong(format!("{name:?}: {error}")))?;
            queries.push(name.as_slice(), rtype, edns_size, options.dnssec)?;
        }
        if queries.ends.is_empty() { Err(QueryError::Empty) } else { Ok(queries) }
    }

    fn push(&mut self, name: &[u8], rtype: Rtype, edns_size: Option<u16>, dnssec: bool) -> Result<(), QueryError> {
        // Identifier; flags: a query, no recursion wanted; one question; the OPT record.
        self.bytes.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns_size.is_some())]);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(&rtype.to_int().to_be_bytes());
        self.bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
        if let Some(size) = edns_size {
            let flags = if dnssec { FLAG_DO } else { 0 };
            self.bytes.push(0);
            for field in [TYPE_OPT, size, 0, flags, 0] {
                self.bytes.extend_from_slice(&field.to_be_bytes());
            }
        }
        let end = u32::try_from(self.bytes.len()).ok().filter(|_| self.bytes.len() < BYTES_MAX);
        self.ends.push(end.ok_or(QueryError::TooMany)?);
        Ok(())
    }

    /// The same questions in another order, which `seed` decides. The messages themselves are moved, not only their numbers. So the
    /// load generator reads memory in order, and only the server has to look far for each name.
    #[must_use]
    pub fn shuffled(&self, seed: u64) -> Queries {
        let mut random = Random::new(seed);
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        let mut shuffled = Queries {
            bytes: Vec::with_capacity(self.bytes.len()),
            ends: Vec::with_capacity(order.len()),
            rest: self.rest,
        };
        for index in order {
            shuffled.bytes.extend_from_slice(self.message(index as usize));
            // No more bytes than there were.
            shuffled.ends.push(shuffled.bytes.len() as u32);
        }
        shuffled
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none; never, of one that was made.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The message of number `index`, its identifier zero; empty if there is none.
    #[inline]
    pub fn message(&self, index: usize) -> &[u8] {
        let start = match index.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => 0,
        };
        let end = self.ends.get(index).copied().unwrap_or_default();
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Whether `answer`, a whole message, has the question of number `index`. Case of names is not told apart, but that
    /// of the type's and class's bytes.
    #[inline]
    pub fn is_question_of(&self, answer: &[u8], index: usize) -> bool {
        let message = self.message(index);
        let question = message.get(HEADER_LENGTH..message.len().saturating_sub(self.rest)).unwrap_or_default();
        let Some(found) = answer.get(HEADER_LENGTH..HEADER_LENGTH + question.len()) else { return false };
        if found == question {
            return true;
        }
        let name_length = question.len().saturating_sub(QUESTION_TAIL);
        let (name, tail) = question.split_at(name_length);
        found.get(..name_length).is_some_and(|found| found.eq_ignore_ascii_case(name))
            && found.get(name_length..) == Some(tail)
    }
}

/// A word that names no record type.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0:?} is no record type; A, AAAA, TYPE65280 are")]
pub struct UnknownType(String);

/// A type by its name, or as `TYPE65280` (RFC 3597).
///
/// # Errors
/// The word names none.
pub fn parse_type(word: &str) -> Result<Rtype, UnknownType> {
    Rtype::from_str(&word.to_ascii_uppercase()).map_err(|_| UnknownType(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_messages() {
        let text = "# comment\nwww.example.com A\n\n; more\na\\.b.example aaaa\nx.example TYPE65280\nplain.example\n";
        let queries = Queries::parse(text, &QueryOptions::default()).unwrap();
        assert_eq!(queries.len(), 4);
        let first = queries.message(0);
        assert_eq!(first[..12], [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(first[12..], *b"\x03www\x07example\x03com\0\0\x01\0\x01");
        assert!(queries.message(1).ends_with(b"\x03a.b\x07example\0\0\x1c\0\x01"));
        assert!(queries.message(2).ends_with(&[0xff, 0, 0, 1]) && queries.message(3).ends_with(&[0, 1, 0, 1]));
        assert!(queries.message(4).is_empty());
        let mut answer = first.to_vec();
        answer[13] = b'W';
        assert!(queries.is_question_of(&answer, 0) && !queries.is_question_of(&answer, 3));
        answer[26] = 0x21;
        assert!(!queries.is_question_of(&answer, 0) && !queries.is_question_of(&answer[..12], 0));
    }

    #[test]
    fn edns() {
        let options = QueryOptions { edns_size: Some(4_096), dnssec: true, default_type: Rtype::MX };
        let queries = Queries::parse("example\n", &options).unwrap();
        assert!(queries.message(0).ends_with(&[0, 0, 41, 16, 0, 0, 0, 0x80, 0, 0, 0]));
        assert_eq!(queries.message(0)[11], 1);
        let answer = queries.message(0)[..25].to_vec();
        assert!(queries.is_question_of(&answer, 0), "the OPT record is no part of the question");
        let default = Queries::parse("example", &QueryOptions { dnssec: true, ..QueryOptions::default() }).unwrap();
        assert!(default.message(0).windows(2).any(|size| size == EDNS_SIZE_DEFAULT.to_be_bytes()));
    }

    #[test]
    fn a_seed_is_an_order() {
        let text: String = (0..500).map(|number| format!("n{number}.example A\n")).collect();
        let queries = Queries::parse(&text, &QueryOptions::default()).unwrap();
        let order = |seed| {
            let shuffled = queries.shuffled(seed);
            (0..shuffled.len()).map(|index| shuffled.message(index).to_vec()).collect::<Vec<_>>()
        };
        let (one, two) = (order(1), order(2));
        assert_eq!(one, order(1));
        assert!(one != two && one != (0..500).map(|index| queries.message(index).to_vec()).collect::<Vec<_>>());
        let sorted = |mut messages: Vec<Vec<u8>>| {
            messages.sort();
            messages
        };
        assert_eq!(sorted(one), sorted(two), "each once");
    }

    #[test]
    fn mistakes_have_a_line() {
        for (text, part) in [
            ("a.example A\nb.example NOTYPE", "line 2: \"NOTYPE\""),
            ("a.example A IN", "line 1: \"IN\" after"),
            ("a..example A", "line 1: \"a..example\""),
            ("# nothing\n", "no question"),
        ] {
            let error = Queries::parse(text, &QueryOptions::default()).err().map(|error| error.to_string());
            assert!(error.as_ref().is_some_and(|error| error.contains(part)), "{text}: {error:?}");
        }
    }
}
