//! An HTTP/1.1 response parser for clients that want only the framing (RFC 9112 §4, §6, §7.1): status, persistence, and
//! where each body ends. It takes the stream in any pieces, keeps at most one unfinished line, and allocates only when a
//! line is split over two pieces.

use memchr::memchr;
use thiserror::Error;

/// Longest head (status line and fields) accepted, bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest single line accepted, bytes: also the most the parser ever stores.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// How a response broke the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ProtocolError {
    /// The first line is not `HTTP/1.x SSS …`.
    #[error("malformed status line")]
    StatusLine,
    /// A field line without a colon, or with an empty name.
    #[error("malformed field line")]
    Field,
    /// `Content-Length` is not a number, or two of them differ.
    #[error("malformed or conflicting Content-Length")]
    ContentLength,
    /// A transfer coding other than a final `chunked`.
    #[error("unknown transfer coding")]
    TransferEncoding,
    /// A chunk's size or end is malformed.
    #[error("malformed chunk")]
    Chunk,
    /// The head is longer than [`HEAD_BYTES_MAX`] or a line longer than [`LINE_BYTES_MAX`].
    #[error("head too long")]
    TooLong,
    /// Bytes came that no request asked for.
    #[error("bytes nobody asked for")]
    Unsolicited,
}

/// A finished response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Status code, 100…999 (never an interim 1xx other than 101).
    pub status: u16,
    /// The connection may carry another response.
    pub keep_alive: bool,
}

/// What [`Parser::step`] found.
#[derive(PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// The input is used up; more is needed.
    More,
    /// The next bytes of the body, transfer coding removed.
    Body(&'a [u8]),
    /// The response is complete; what is left of the input belongs to the next.
    Complete(Outcome),
}

/// How a stream's end met the response under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Between responses: nothing lost.
    Between,
    /// It completed a response delimited by the connection's close.
    Complete(Outcome),
    /// In the middle of a response.
    Short,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    StatusLine,
    Fields,
    Body { left: u64 },
    UntilClose,
    ChunkSize,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailers,
}

/// The last whole head seen, and what it means. A server's answers to one request differ in little but the date, so most
/// heads are one comparison long.
#[derive(Debug, Default)]
pub struct HeadCache {
    bytes: Vec<u8>,
    status: u16,
    keep_alive: bool,
    content_length: u64,
}

/// Longer heads are not worth remembering.
const CACHED_BYTES_MAX: usize = 2_048;

/// See the [module](self).
#[derive(Debug)]
pub struct Parser {
    state: State,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    head_bytes: usize,
    status: u16,
    keep_alive: bool,
    content_length: Option<u64>,
    chunked: bool,
    bodyless: bool,
}

impl Default for Parser {
    fn default() -> Self {
        Parser::new()
    }
}

impl Parser {
    /// A parser at the start of a connection.
    pub const fn new() -> Parser {
        Parser {
            state: State::StatusLine,
            line: Vec::new(),
            head_bytes: 0,
            status: 0,
            keep_alive: true,
            content_length: None,
            chunked: false,
            bodyless: false,
        }
    }

    /// Forgets everything: a new connection. Memory is kept.
    pub fn reset(&mut self) {
        self.line.clear();
        self.bodyless = false;
        self.next_response();
    }

    /// Whether responses have no body whatever their head says: answers to HEAD (RFC 9112 §6.3).
    pub fn set_bodyless(&mut self, bodyless: bool) {
        self.bodyless = bodyless;
    }

    /// Whether a response has begun and is not complete.
    pub fn is_within(&self) -> bool {
        self.state != State::StatusLine || !self.line.is_empty() || self.head_bytes != 0
    }

    fn next_response(&mut self) {
        self.state = State::StatusLine;
        self.head_bytes = 0;
        self.status = 0;
        self.keep_alive = true;
        self.content_length = None;
        self.chunked = false;
    }

    /// As [`step`](Parser::step), by way of `cache` where that knows the head. The cache must not be shared between
    /// parsers told differently by [`set_bodyless`](Parser::set_bodyless).
    ///
    /// # Errors
    /// As [`step`](Parser::step).
    #[inline]
    pub fn step_cached<'a>(&mut self, input: &mut &'a [u8], cache: &mut HeadCache) -> Result<Step<'a>, ProtocolError> {
        if self.is_within() || input.is_empty() {
            return self.step(input);
        }
        if !cache.bytes.is_empty()
            && let Some(rest) = input.strip_prefix(cache.bytes.as_slice())
        {
            *input = rest;
            self.status = cache.status;
            self.keep_alive = cache.keep_alive;
            self.state = State::Body { left: cache.content_length };
            self.head_bytes = cache.bytes.len();
            return self.step(input);
        }
        let whole = *input;
        let step = self.step(input)?;
        self.remember(whole, &step, cache);
        Ok(step)
    }

    /// Remembers the head at the front of `whole` if it came in one piece and announced its body's length.
    fn remember(&self, whole: &[u8], step: &Step<'_>, cache: &mut HeadCache) {
        // Only a step that ended within or before the body still shows the head's length and meaning.
        let (State::Body { left }, Step::Body(body), Some(content_length)) = (self.state, step, self.content_length)
        else {
            return;
        };
        let first_piece = left + body.len() as u64 == content_length;
        if let Some(head) = whole.get(..self.head_bytes).filter(|head| first_piece && head.len() <= CACHED_BYTES_MAX) {
            cache.bytes.clear();
            cache.bytes.extend_from_slice(head);
            cache.status = self.status;
            cache.keep_alive = self.keep_alive;
            cache.content_length = content_length;
        }
    }

    /// Takes what it can from the front of `input`. Call until it says [`Step::More`].
    ///
    /// # Errors
    /// [`ProtocolError`]: the connection is of no more use.
    #[inline]
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, ProtocolError> {
        loop {
            match self.state {
                State::Body { left } => {
                    if left == 0 {
                        return Ok(Step::Complete(self.complete()));
                    }
                    if input.is_empty() {
                        return Ok(Step::More);
                    }
                    let (body, rest) = split_at_most(input, left);
                    *input = rest;
                    self.state = State::Body { left: left - body.len() as u64 };
                    return Ok(Step::Body(body));
                }
                State::UntilClose => {
                    if input.is_empty() {
                        return Ok(Step::More);
                    }
                    return Ok(Step::Body(std::mem::take(input)));
                }
                State::ChunkData { left } => {
                    if left == 0 {
                        self.state = State::ChunkEnd;
                        continue;
                    }
                    if input.is_empty() {
                        return Ok(Step::More);
                    }
                    let (body, rest) = split_at_most(input, left);
                    *input = rest;
                    self.state = State::ChunkData { left: left - body.len() as u64 };
                    return Ok(Step::Body(body));
                }
                State::StatusLine | State::Fields | State::ChunkSize | State::ChunkEnd | State::Trailers => {
                    if !self.line_step(input)? {
                        return Ok(Step::More);
                    }
                }
            }
        }
    }

    /// Tells that the peer closed its side.
    pub fn end(&mut self) -> End {
        if self.state == State::UntilClose {
            self.keep_alive = false;
            return End::Complete(self.complete());
        }
        if self.is_within() { End::Short } else { End::Between }
    }

    fn complete(&mut self) -> Outcome {
        let outcome = Outcome { status: self.status, keep_alive: self.keep_alive };
        self.next_response();
        outcome
    }

    /// Takes one line; false if its end has not come yet.
    fn line_step(&mut self, input: &mut &[u8]) -> Result<bool, ProtocolError> {
        let Some(end) = memchr(b'\n', input) else {
            if self.line.len() + input.len() > LINE_BYTES_MAX {
                return Err(ProtocolError::TooLong);
            }
            self.line.extend_from_slice(input);
            *input = &[];
            return Ok(false);
        };
        let (line, rest) = input.split_at(end);
        *input = rest.get(1..).unwrap_or_default();
        self.head_bytes += self.line.len() + line.len() + 1;
        if self.line.len() + line.len() > LINE_BYTES_MAX || self.head_bytes > HEAD_BYTES_MAX {
            return Err(ProtocolError::TooLong);
        }
        if self.line.is_empty() {
            return self.take_line(line).map(|()| true);
        }
        let mut whole = std::mem::take(&mut self.line);
        whole.extend_from_slice(line);
        let result = self.take_line(&whole);
        whole.clear();
        self.line = whole; // keeps its capacity for the next split line
        result.map(|()| true)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        // RFC 9112 §2.2: a recipient may take a single LF as a line's end and ignore a preceding CR.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.state {
            State::StatusLine => {
                // Empty lines before a message are tolerated, as servers must for requests (§2.2); bounded by the head.
                if !line.is_empty() {
                    self.take_status_line(line)?;
                    self.state = State::Fields;
                }
            }
            State::Fields if line.is_empty() => self.state = self.body_state(),
            State::Fields => self.take_field(line)?,
            State::ChunkSize => {
                self.head_bytes = 0;
                let size = chunk_size(line)?;
                self.state = if size == 0 { State::Trailers } else { State::ChunkData { left: size } };
            }
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkSize,
            State::ChunkEnd => return Err(ProtocolError::Chunk),
            State::Trailers if line.is_empty() => self.state = State::Body { left: 0 },
            State::Trailers => {}
            State::Body { .. } | State::UntilClose | State::ChunkData { .. } => {}
        }
        Ok(())
    }

    fn take_status_line(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        let (Some(version), Some(digits)) = (line.get(..9), line.get(9..12)) else {
            return Err(ProtocolError::StatusLine);
        };
        self.keep_alive = match version {
            b"HTTP/1.1 " => true,
            b"HTTP/1.0 " => false,
            _ => return Err(ProtocolError::StatusLine),
        };
        let status = decimal(digits).filter(|status| *status >= 100).ok_or(ProtocolError::StatusLine)?;
        if !matches!(line.get(12), None | Some(b' ')) {
            return Err(ProtocolError::StatusLine);
        }
        self.status = status as u16;
        Ok(())
    }

    fn take_field(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        // Only three fields matter, told apart by their first letter before anything else is looked at.
        match line.first() {
            Some(b'C' | b'c') => {
                if let Some(value) = field_value(line, b"content-length") {
                    let length = decimal(value).ok_or(ProtocolError::ContentLength)?;
                    if self.content_length.is_some_and(|earlier| earlier != length) {
                        return Err(ProtocolError::ContentLength);
                    }
                    self.content_length = Some(length);
                    return Ok(());
                }
                if let Some(value) = field_value(line, b"connection") {
                    for option in value.split(|byte| *byte == b',') {
                        if option.trim_ascii().eq_ignore_ascii_case(b"close") {
                            self.keep_alive = false;
                        } else if option.trim_ascii().eq_ignore_ascii_case(b"keep-alive") {
                            self.keep_alive = true;
                        }
                    }
                    return Ok(());
                }
            }
            Some(b'T' | b't') => {
                if let Some(value) = field_value(line, b"transfer-encoding") {
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(ProtocolError::TransferEncoding);
                    }
                    self.chunked = true;
                    return Ok(());
                }
            }
            _ => {}
        }
        if memchr(b':', line).is_none_or(|colon| colon == 0) {
            return Err(ProtocolError::Field);
        }
        Ok(())
    }

    /// RFC 9112 §6.3: how the body is delimited.
    fn body_state(&mut self) -> State {
        if (100..200).contains(&self.status) && self.status != 101 {
            let bytes = self.head_bytes;
            self.next_response(); // interim: the final response follows
            self.head_bytes = bytes; // which keeps any number of them bounded, and this one within
            return State::StatusLine;
        }
        if self.bodyless || matches!(self.status, 101 | 204 | 304) {
            return State::Body { left: 0 };
        }
        if self.chunked {
            return State::ChunkSize;
        }
        match self.content_length {
            Some(left) => State::Body { left },
            None => State::UntilClose,
        }
    }
}

fn split_at_most(input: &[u8], count: u64) -> (&[u8], &[u8]) {
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(input.len());
    input.split_at(count)
}

/// The trimmed value of `line` if it is the field `name` (lower case).
fn field_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let found = line.get(..name.len())?;
    if line.get(name.len()) != Some(&b':') || !found.eq_ignore_ascii_case(name) {
        return None;
    }
    line.get(name.len() + 1..).map(<[u8]>::trim_ascii)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

/// RFC 9112 §7.1: `chunk-size [ chunk-ext ]`.
fn chunk_size(line: &[u8]) -> Result<u64, ProtocolError> {
    let end = memchr(b';', line).unwrap_or(line.len());
    let digits = line.get(..end).unwrap_or_default().trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 {
        return Err(ProtocolError::Chunk);
    }
    digits.iter().try_fold(0u64, |value, byte| {
        (*byte as char).to_digit(16).map(|digit| value << 4 | u64::from(digit)).ok_or(ProtocolError::Chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Outcome and body per response, and how the stream's end met them.
    type Parsed = (Vec<(Outcome, Vec<u8>)>, End);

    /// Everything a stream in the given pieces parses to: (outcome, body) per response, and the end.
    fn parse(pieces: &[&[u8]]) -> Result<Parsed, ProtocolError> {
        let plain = parse_by(pieces, |parser, input| parser.step(input));
        let mut cache = HeadCache::default();
        let cached = parse_by(pieces, |parser, input| parser.step_cached(input, &mut cache));
        assert_eq!(plain, cached, "the cache changes nothing");
        plain
    }

    fn parse_by(
        pieces: &[&[u8]],
        mut step: impl for<'a> FnMut(&mut Parser, &mut &'a [u8]) -> Result<Step<'a>, ProtocolError>,
    ) -> Result<Parsed, ProtocolError> {
        let mut parser = Parser::new();
        let mut found = Vec::new();
        let mut body = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                match step(&mut parser, &mut input)? {
                    Step::More => break,
                    Step::Body(bytes) => body.extend_from_slice(bytes),
                    Step::Complete(outcome) => found.push((outcome, std::mem::take(&mut body))),
                }
            }
            assert!(input.is_empty(), "More only when all is taken");
        }
        let end = parser.end();
        if let End::Complete(outcome) = end {
            found.push((outcome, body));
        }
        Ok((found, end))
    }

    #[test]
    fn frames_by_length_chunks_and_close() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 404 Not Found\r\ntransfer-encoding:  Chunked \r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n\
            HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: foo, close\r\n\r\n\
            HTTP/1.0 200 OK\nX: y\n\nthe rest";
        let (found, end) = parse(&[stream]).unwrap();
        let bodies: Vec<(u16, bool, &[u8])> =
            found.iter().map(|(outcome, body)| (outcome.status, outcome.keep_alive, body.as_slice())).collect();
        assert_eq!(
            bodies,
            [
                (200, true, b"hello".as_slice()),
                (404, true, b"abc0123456789"),
                (304, true, b""),
                (204, false, b""),
                (200, false, b"the rest"),
            ]
        );
        assert!(matches!(end, End::Complete(_)));
    }

    #[test]
    fn refuses_nonsense() {
        for (stream, error) in [
            (b"SSH-2.0-x\r\n".as_slice(), ProtocolError::StatusLine),
            (b"HTTP/2 200\r\n\r\n", ProtocolError::StatusLine),
            (b"HTTP/1.1 099 x\r\n", ProtocolError::StatusLine),
            (b"HTTP/1.1 2000\r\n", ProtocolError::StatusLine),
            (b"HTTP/1.1 200 OK\r\nno colon\r\n", ProtocolError::Field),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n", ProtocolError::ContentLength),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", ProtocolError::ContentLength),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n", ProtocolError::ContentLength),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", ProtocolError::TransferEncoding),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ProtocolError::Chunk),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", ProtocolError::Chunk),
        ] {
            assert_eq!(parse(&[stream]), Err(error), "{}", String::from_utf8_lossy(stream));
        }
        let endless = vec![b'a'; LINE_BYTES_MAX + 1];
        assert_eq!(parse(&[&endless]), Err(ProtocolError::TooLong));
        let mut many = b"HTTP/1.1 200 OK\r\n".to_vec();
        many.extend(b"a: b\r\n".repeat(HEAD_BYTES_MAX / 6));
        assert_eq!(parse(&[&many]), Err(ProtocolError::TooLong));
    }

    #[test]
    fn short_streams() {
        assert_eq!(parse(&[b""]).unwrap().1, End::Between);
        assert_eq!(parse(&[b"HTTP/1.1 200"]).unwrap().1, End::Short);
        assert_eq!(parse(&[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx"]).unwrap().1, End::Short);
    }

    fn response() -> impl Strategy<Value = (Vec<u8>, u16, Vec<u8>)> {
        (200u16..600, proptest::collection::vec(any::<u8>(), 0..300), 0u8..2, 1usize..50).prop_map(
            |(status, body, kind, chunk)| {
                let mut bytes = format!("HTTP/1.1 {status} Reason phrase\r\nServer: x\r\n").into_bytes();
                if status == 204 || status == 304 {
                    bytes.extend(b"\r\n");
                    return (bytes, status, Vec::new());
                }
                if kind == 0 {
                    bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                    bytes.extend(&body);
                } else {
                    bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for part in body.chunks(chunk) {
                        bytes.extend(format!("{:x}\r\n", part.len()).bytes());
                        bytes.extend(part);
                        bytes.extend(b"\r\n");
                    }
                    bytes.extend(b"0\r\n\r\n");
                }
                (bytes, status, body)
            },
        )
    }

    proptest! {
        #[test]
        fn any_split_parses_the_same(
            responses in proptest::collection::vec(response(), 1..5),
            repeats in 1usize..4,
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let responses: Vec<_> = responses.into_iter().flat_map(|r| std::iter::repeat_n(r, repeats)).collect();
            let stream: Vec<u8> = responses.iter().flat_map(|(bytes, _, _)| bytes.clone()).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in at {
                pieces.push(&stream[from..cut]);
                from = cut;
            }
            pieces.push(&stream[from..]);
            let (found, end) = parse(&pieces).unwrap();
            prop_assert_eq!(end, End::Between);
            let found: Vec<(u16, Vec<u8>)> = found.into_iter().map(|(outcome, body)| (outcome.status, body)).collect();
            let expected: Vec<(u16, Vec<u8>)> =
                responses.into_iter().map(|(_, status, body)| (status, body)).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), tail in any::<bool>()) {
            let mut stream = if tail { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec() } else { Vec::new() };
            stream.extend(bytes);
            let _ = parse(&[&stream]);
        }
    }
}
