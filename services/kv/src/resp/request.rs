//! [`Request`]: a request that comes in pieces. It is understood where it lies: nothing is copied, and no byte is looked at twice however
//! it is cut.

use crate::resp::inline;
use crate::resp::number::integer;
use std::ops::Range;

/// Bytes of a line without an end, at most.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Arguments of a request, at most.
const ARGUMENTS_MAX: i64 = 1 << 20;
/// The same, if whose request it is did not say who it is, and bytes of each.
const STRANGERS_ARGUMENTS_MAX: i64 = 10;
const STRANGERS_BYTES_MAX: usize = 16 << 10;
/// Place is kept for so many arguments before they have come.
const ARGUMENTS_KEPT: usize = 64;

/// What is wrong with a request, as Redis words it. The connection is closed after it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The first line has no end.
    #[error("too big mbulk count string")]
    CountLine,
    /// An inline request has no end.
    #[error("too big inline request")]
    Inline,
    /// The number of arguments is none, or too large.
    #[error("invalid multibulk length")]
    Count,
    /// The line of an argument's length has no end.
    #[error("too big bulk count string")]
    LengthLine,
    /// An argument does not begin as one.
    #[error("expected '$', got '{0}'")]
    NoBulk(char),
    /// The length is none, or too large.
    #[error("invalid bulk length")]
    Length,
    /// An inline request with quotes that are not closed.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// More arguments than who did not say who it is may say.
    #[error("unauthenticated multibulk length")]
    StrangersCount,
    /// A longer argument than it may say.
    #[error("unauthenticated bulk length")]
    StrangersLength,
}

/// What came of a look at the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// More has to come.
    Incomplete,
    /// A request is whole, and took so many bytes.
    Complete(usize),
}

/// A request, as far as it has come. Positions are those of the input, which may grow between looks and must not change else.
#[derive(Debug, Default)]
pub struct Request {
    args: Vec<Range<usize>>,
    position: usize,
    remaining: usize,
    bulk: Option<usize>,
    /// The words of an inline request: what `args` are ranges of.
    words: Option<Vec<u8>>,
    /// Whose it is did not say who it is: it may say little.
    is_strangers: bool,
}

impl Request {
    /// Whether whose requests these are has to say who it is, and has not.
    pub fn set_stranger(&mut self, is_strangers: bool) {
        self.is_strangers = is_strangers;
    }

    /// Ready for the next one.
    pub fn clear(&mut self) {
        self.args.clear();
        (self.position, self.remaining, self.bulk, self.words) = (0, 0, None, None);
    }

    /// Arguments. They are the input's ranges, or those of its own words.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args { text: self.words.as_deref().unwrap_or(input), ranges: &self.args }
    }

    /// Bytes that the input needs to have at least until the next look is of use; more of a line are not known beforehand.
    pub fn wanted(&self) -> usize {
        self.position + self.bulk.map_or(1, |bytes| bytes + 2)
    }

    /// The line that begins at the position, without its end, and where the next one begins.
    fn line<'a>(&self, input: &'a [u8], too_long: ProtocolError) -> Result<Option<(&'a [u8], usize)>, ProtocolError> {
        let rest = input.get(self.position..).unwrap_or_default();
        match rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
            Some(end) => {
                let line = rest.get(..end).unwrap_or_default();
                Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), self.position + end + 1)))
            }
            None if rest.len() >= LINE_BYTES_MAX => Err(too_long),
            None => Ok(None),
        }
    }

    /// Goes on with `input`, of which no argument may be longer than `bulk_bytes_max`. After [`Step::Complete`] it is to be cleared.
    ///
    /// # Errors
    /// [`ProtocolError`]: nothing behind it can be understood.
    pub fn advance(&mut self, input: &[u8], bulk_bytes_max: usize) -> Result<Step, ProtocolError> {
        if self.remaining == 0 && self.bulk.is_none() {
            match input.first() {
                None => return Ok(Step::Incomplete),
                Some(b'*') => {
                    let Some((line, next)) = self.line(input, ProtocolError::CountLine)? else {
                        return Ok(Step::Incomplete);
                    };
                    let count = line.get(1..).and_then(integer).filter(|count| *count <= ARGUMENTS_MAX);
                    let count = count.ok_or(ProtocolError::Count)?;
                    if self.is_strangers && count > STRANGERS_ARGUMENTS_MAX {
                        return Err(ProtocolError::StrangersCount);
                    }
                    self.remaining = count.max(0) as usize;
                    self.args.reserve(self.remaining.min(ARGUMENTS_KEPT));
                    self.position = next;
                }
                Some(_) => {
                    let Some((line, next)) = self.line(input, ProtocolError::Inline)? else {
                        return Ok(Step::Incomplete);
                    };
                    self.words = Some(inline::words(line, &mut self.args).ok_or(ProtocolError::Quotes)?);
                    return Ok(Step::Complete(next));
                }
            }
        }
        while self.remaining > 0 {
            let Some(bytes) = self.bulk else {
                let Some((line, next)) = self.line(input, ProtocolError::LengthLine)? else {
                    return Ok(Step::Incomplete);
                };
                let Some(length) = line.strip_prefix(b"$") else {
                    return Err(ProtocolError::NoBulk(line.first().map_or('\r', |byte| *byte as char)));
                };
                let length = integer(length).and_then(|length| usize::try_from(length).ok());
                let length = length.filter(|length| *length <= bulk_bytes_max).ok_or(ProtocolError::Length)?;
                if self.is_strangers && length > STRANGERS_BYTES_MAX {
                    return Err(ProtocolError::StrangersLength);
                }
                self.bulk = Some(length);
                self.position = next;
                continue;
            };
            let end = self.position + bytes;
            if input.len() < end + 2 {
                return Ok(Step::Incomplete);
            }
            self.args.push(self.position..end);
            (self.position, self.bulk) = (end + 2, None);
            self.remaining -= 1;
        }
        Ok(Step::Complete(self.position))
    }
}

/// The arguments of a request; the first one is the command's name.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    text: &'a [u8],
    ranges: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    /// Arguments that lie in `text`.
    pub fn new(text: &'a [u8], ranges: &'a [Range<usize>]) -> Args<'a> {
        Args { text, ranges }
    }

    /// How many there are, the name included.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none, not even a name.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// One of them; empty if there is none.
    #[inline]
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.ranges.get(index).and_then(|range| self.text.get(range.clone())).unwrap_or_default()
    }

    /// Whether this one is `word`, which is in capitals.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// All from `index` on.
    pub fn from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let Args { text, ranges } = *self;
        ranges.get(index..).unwrap_or_default().iter().map(move |range| text.get(range.clone()).unwrap_or_default())
    }

    /// Those from `index` on, as arguments of another request: their text in one piece, and where each is.
    pub fn joined(&self, index: usize) -> (Vec<u8>, Vec<Range<usize>>) {
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        for argument in self.from(index) {
            let start = text.len();
            text.extend_from_slice(argument);
            ranges.push(start..text.len());
        }
        (text, ranges)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.ranges.iter().map(ExactSizeIterator::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BULK_BYTES_MAX: usize = 1 << 20;

    #[expect(clippy::type_complexity, reason = "of this test alone")]
    fn whole(input: &[u8]) -> Result<Option<(Vec<Vec<u8>>, usize)>, ProtocolError> {
        let mut request = Request::default();
        Ok(match request.advance(input, BULK_BYTES_MAX)? {
            Step::Incomplete => None,
            Step::Complete(used) => Some((request.args(input).from(0).map(<[u8]>::to_vec).collect(), used)),
        })
    }

    #[test]
    fn errors_are_worded_as_redis_does() {
        let line = [b'x'; LINE_BYTES_MAX];
        let cases: [(Vec<u8>, &str); 10] = [
            (b"*x\r\n".to_vec(), "invalid multibulk length"),
            (b"*3000000\r\n".to_vec(), "invalid multibulk length"),
            (b"*1\r\nPING\r\n".to_vec(), "expected '$', got 'P'"),
            (b"*1\r\n\r\n".to_vec(), "expected '$', got '\r'"),
            (b"*1\r\n$-1\r\n".to_vec(), "invalid bulk length"),
            (b"*1\r\n$2000000\r\n".to_vec(), "invalid bulk length"),
            (b"get \"a\r\n".to_vec(), "unbalanced quotes in request"),
            (line.to_vec(), "too big inline request"),
            ([b"*".as_slice(), &line].concat(), "too big mbulk count string"),
            ([b"*1\r\n$".as_slice(), &line].concat(), "too big bulk count string"),
        ];
        for (input, text) in cases {
            assert_eq!(whole(&input).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn requests_without_arguments_are_nothing() {
        for input in ["*0\r\n", "*-1\r\n", "\r\n", "  \r\n"] {
            assert_eq!(whole(input.as_bytes()), Ok(Some((vec![], input.len()))));
        }
    }

    proptest! {
        #[test]
        fn a_request_cut_anywhere_is_what_it_is_whole(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6), cut in 1_usize..50,
        ) {
            let mut input = format!("*{}\r\n", words.len()).into_bytes();
            for word in &words {
                input.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                input.extend_from_slice(word);
                input.extend_from_slice(b"\r\n");
            }
            let length = input.len();
            input.extend_from_slice(b"*1\r\n");
            let mut request = Request::default();
            let mut come = 0;
            let used = loop {
                come = (come + cut).min(input.len());
                if let Step::Complete(used) = request.advance(&input[..come], BULK_BYTES_MAX).unwrap() {
                    break used;
                }
                prop_assert!(request.wanted() <= length);
            };
            prop_assert_eq!(used, length);
            let found: Vec<Vec<u8>> = request.args(&input).from(0).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(found, words);
        }
    }
}
