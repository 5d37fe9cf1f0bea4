//! [`Session`]: what a client's bytes mean, as they come, in whatever pieces.

use crate::binary;
use crate::binary::header::{HEADER_BYTES, REQUEST_MAGIC, Request};
use crate::engine::state::Engine;
use crate::engine::users::admits;
use crate::items::account::Charge;
use crate::number;
use crate::output::Output;
use crate::pending::{Incoming, Keys, Listing, Next, Then};
use crate::text;
use crate::text::replies::NO_MEMORY;
use crate::text::words::Words;

/// A line that does not take any number of keys is not longer than this; one that does, than the other.
const LINE_BYTES_MAX: usize = 2_048;
const GET_LINE_BYTES_MAX: usize = 1 << 20;
/// Blanks before it.
const BLANKS_MAX: usize = 100;
/// A user and a password.
const CREDENTIALS_BYTES_MAX: usize = 1_024;
/// More memory than this is not kept for the next request.
const GATHERED_BYTES_KEPT: usize = 4 << 10;
const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated";

/// Which protocol a client speaks: its first byte tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    Text,
    Binary,
}

/// Where a session is.
#[derive(Debug, Default)]
enum State {
    #[default]
    Request,
    Value(Incoming),
    /// Bytes that nobody wants.
    Swallow(u64),
    Get(Keys),
    List(Listing),
    /// A user and a password, of so many bytes with the end of their line.
    Credentials(usize),
    /// Nothing more is understood.
    Over,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Session {
    protocol: Option<Protocol>,
    state: State,
    /// A request that has come in part.
    gathered: Vec<u8>,
    /// Memory of lines, if it is more than a little: that of values is counted with them.
    charge: Option<Charge>,
    is_authenticated: bool,
}

impl Session {
    /// Of a client who has just come. One who comes with proof of who it is, or when none is wanted, says `is_authenticated`.
    pub fn new(is_authenticated: bool) -> Session {
        Session { is_authenticated, ..Session::default() }
    }

    /// Whether the client is to be closed when it has what it is owed.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether nothing is begun: no request has come in part, and no answer is written in part.
    pub fn is_between_requests(&self) -> bool {
        matches!(self.state, State::Request) && self.gathered.is_empty()
    }

    /// Whether there are answers to write without more bytes of the client's.
    pub fn has_more(&self) -> bool {
        matches!(self.state, State::Get(_) | State::List(_))
    }

    /// Executes what is whole of these bytes, and keeps what is not. Returns how many were used: fewer than there are if the output is
    /// so long that it has to be taken first, or a request takes so long that others are to be served first. Then the rest is to be fed
    /// again.
    pub fn feed(&mut self, input: &[u8], engine: &mut Engine, output: &mut Output) -> usize {
        let used = self.execute_some(input, engine, output);
        self.count_memory(engine, output);
        used
    }

    /// Lines that wait for their end, or for their answers, are memory like items.
    fn count_memory(&mut self, engine: &mut Engine, output: &mut Output) {
        let waiting = if let State::Get(keys) = &self.state { keys.line.capacity() } else { 0 };
        let bytes = self.gathered.capacity() + waiting;
        if bytes <= GATHERED_BYTES_KEPT {
            self.charge = None;
            return;
        }
        let account = engine.items.account().clone();
        self.charge.get_or_insert_with(|| account.charge(0)).set(bytes as u64);
        if !engine.items.make_room(0) {
            output.line(NO_MEMORY);
            (self.state, self.gathered, self.charge) = (State::Over, Vec::new(), None);
        }
    }

    fn execute_some(&mut self, input: &[u8], engine: &mut Engine, output: &mut Output) -> usize {
        let mut used = 0;
        // Each round uses bytes, writes output, or ends it.
        while !output.is_long() {
            let rest = input.get(used..).unwrap_or_default();
            self.state = match std::mem::take(&mut self.state) {
                State::Over => {
                    self.state = State::Over;
                    return input.len();
                }
                // Others are served before it goes on.
                State::Get(keys) => match text::get(keys, engine, output) {
                    Some(keys) => {
                        self.state = State::Get(keys);
                        break;
                    }
                    None => State::Request,
                },
                State::List(listing) => match text::list(listing, engine, output) {
                    Some(listing) => {
                        self.state = State::List(listing);
                        break;
                    }
                    None => State::Request,
                },
                state if rest.is_empty() => {
                    self.state = state;
                    break;
                }
                State::Swallow(count) => {
                    let some = count.min(rest.len() as u64);
                    used += some as usize;
                    if count > some { State::Swallow(count - some) } else { State::Request }
                }
                State::Value(incoming) => {
                    let (some, state) = value(incoming, rest, engine, output);
                    used += some;
                    state
                }
                State::Credentials(length) => {
                    let (some, state) = self.credentials(length, rest, engine, output);
                    used += some;
                    state
                }
                State::Request => {
                    let (some, next) = self.request(rest, engine, output);
                    used += some;
                    next
                }
            };
        }
        used
    }

    /// Reads a request; how many bytes it is, and what is next.
    fn request(&mut self, input: &[u8], engine: &mut Engine, output: &mut Output) -> (usize, State) {
        let is_binary = input.first() == Some(&REQUEST_MAGIC);
        let protocol = *self.protocol.get_or_insert(if is_binary { Protocol::Binary } else { Protocol::Text });
        match protocol {
            // Users are told apart in the text protocol only.
            Protocol::Binary if !self.is_authenticated => (input.len(), State::Over),
            Protocol::Binary => self.header(input, engine, output),
            Protocol::Text => self.line(input, engine, output),
        }
    }

    fn line(&mut self, input: &[u8], engine: &mut Engine, output: &mut Output) -> (usize, State) {
        let end = memchr::memchr(b'\n', input);
        if let (Some(end), true) = (end, self.gathered.is_empty()) {
            let line = input.get(..end).unwrap_or_default();
            return (end + 1, self.execute(line, engine, output));
        }
        let used = end.map_or(input.len(), |end| end + 1);
        self.gathered.extend_from_slice(input.get(..used).unwrap_or_default());
        if end.is_some() {
            let mut line = std::mem::take(&mut self.gathered);
            line.pop();
            let state = self.execute(&line, engine, output);
            line.clear();
            line.shrink_to(GATHERED_BYTES_KEPT);
            self.gathered = line;
            return (used, state);
        }
        (used, if self.is_too_long(&self.gathered) { State::Over } else { State::Request })
    }

    /// Whether a line, or what has come of it, is longer than one may be.
    #[inline]
    fn is_too_long(&self, line: &[u8]) -> bool {
        if line.len() <= LINE_BYTES_MAX {
            return false;
        }
        let blanks = line.iter().take_while(|byte| **byte == b' ').count();
        let word = line.get(blanks..).unwrap_or_default();
        let takes_keys = blanks <= BLANKS_MAX
            && ["get ", "gets ", "gat ", "gats "].iter().any(|name| word.starts_with(name.as_bytes()));
        line.len() > if takes_keys && self.is_authenticated { GET_LINE_BYTES_MAX } else { LINE_BYTES_MAX }
    }

    fn execute(&mut self, line: &[u8], engine: &mut Engine, output: &mut Output) -> State {
        // In whatever pieces it came.
        if self.is_too_long(line) {
            return State::Over;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !self.is_authenticated {
            return announce(line, output);
        }
        match text::line(line, engine, output) {
            Next::Request => State::Request,
            Next::Value(incoming) => State::Value(incoming),
            Next::Swallow(count) => State::Swallow(count),
            Next::Get(keys) => State::Get(keys),
            Next::List(listing) => State::List(listing),
            Next::End => State::Over,
        }
    }

    /// A user's name and password have come, or a part of them.
    fn credentials(&mut self, length: usize, input: &[u8], engine: &mut Engine, output: &mut Output) -> (usize, State) {
        let some = input.len().min(length - self.gathered.len());
        self.gathered.extend_from_slice(input.get(..some).unwrap_or_default());
        if self.gathered.len() < length {
            return (some, State::Credentials(length));
        }
        let said = std::mem::take(&mut self.gathered);
        let Some(said) = said.strip_suffix(b"\r\n") else {
            output.line("CLIENT_ERROR bad command line termination");
            return (some, State::Request);
        };
        let words = Words::of(said);
        if words.count() < 2 {
            output.line("CLIENT_ERROR bad authentication token format");
            return (some, State::Request);
        }
        engine.counts.auth_commands += 1;
        self.is_authenticated = admits(&engine.settings.users, words.get(0), words.get(1));
        engine.counts.auth_errors += u64::from(!self.is_authenticated);
        output.line(if self.is_authenticated { "STORED" } else { "CLIENT_ERROR authentication failure" });
        (some, State::Request)
    }

    /// A binary request's header, extras and key.
    fn header(&mut self, input: &[u8], engine: &mut Engine, output: &mut Output) -> (usize, State) {
        if self.gathered.is_empty()
            && let Some(header) = input.first_chunk::<HEADER_BYTES>()
            && let Some(request) = Request::parse(header)
            && let Some(parts) = input.get(HEADER_BYTES..HEADER_BYTES + request.parts_bytes())
        {
            return (HEADER_BYTES + parts.len(), binary_next(&request, parts, engine, output));
        }
        // In pieces: what is missing of the header, then of what it says.
        let mut used = 0;
        let mut take = |gathered: &mut Vec<u8>, wanted: usize| {
            let some = wanted.saturating_sub(gathered.len()).min(input.len() - used);
            gathered.extend_from_slice(input.get(used..used + some).unwrap_or_default());
            used += some;
            gathered.len() >= wanted
        };
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut state = State::Request;
        if take(&mut gathered, HEADER_BYTES) {
            match gathered.first_chunk::<HEADER_BYTES>().and_then(Request::parse) {
                None => state = State::Over,
                Some(request) => {
                    if take(&mut gathered, HEADER_BYTES + request.parts_bytes()) {
                        let parts = gathered.get(HEADER_BYTES..).unwrap_or_default();
                        state = binary_next(&request, parts, engine, output);
                        gathered.clear();
                        gathered.shrink_to(GATHERED_BYTES_KEPT);
                    }
                }
            }
        }
        self.gathered = gathered;
        (used, state)
    }
}

fn binary_next(request: &Request, parts: &[u8], engine: &mut Engine, output: &mut Output) -> State {
    match binary::execute(request, parts, engine, output) {
        Next::Value(incoming) if incoming.left == 0 => {
            binary::complete(request, incoming, engine, output);
            State::Request
        }
        Next::Value(incoming) => State::Value(incoming),
        Next::Swallow(0) | Next::Request | Next::Get(_) | Next::List(_) => State::Request,
        Next::Swallow(count) => State::Swallow(count),
        Next::End => State::Over,
    }
}

/// A line of one who has not said who it is: `set` of any key, whose value is a name and a password.
fn announce(line: &[u8], output: &mut Output) -> State {
    let words = Words::of(line);
    let length = number::unsigned_32(words.get(4)).map_or(usize::MAX, |length| length as usize);
    if words.get(0) != b"set" || words.count() < 5 || length == usize::MAX {
        output.line(UNAUTHENTICATED);
        return State::Request;
    }
    if length > CREDENTIALS_BYTES_MAX {
        output.line("CLIENT_ERROR auth token too long");
        return State::Over;
    }
    State::Credentials(length + 2)
}

/// Takes bytes of a value; how many, and what is next.
fn value(mut incoming: Incoming, input: &[u8], engine: &mut Engine, output: &mut Output) -> (usize, State) {
    let some = incoming.left.min(input.len());
    let (bytes, rest) = input.split_at(some);
    incoming.value.append(bytes);
    incoming.left -= some;
    let is_text = !matches!(incoming.then, Then::Binary(_));
    let end = if is_text { rest.len().min(2 - incoming.end.len()) } else { 0 };
    incoming.end.extend_from_slice(rest.get(..end).unwrap_or_default());
    let used = some + end;
    if incoming.left > 0 || is_text && incoming.end.len() < 2 {
        return (used, wait(incoming, engine, output));
    }
    // Its memory is counted as the item's from now on.
    incoming.charge = None;
    match incoming.then {
        Then::Binary(request) => binary::complete(&request, incoming, engine, output),
        _ => text::complete(incoming, engine, output),
    }
    (used, State::Request)
}

/// The rest of a value comes later, if ever: what it takes of memory is counted, and others may have to go for it.
fn wait(mut incoming: Incoming, engine: &mut Engine, output: &mut Output) -> State {
    let cost = incoming.value.cost();
    let account = engine.items.account().clone();
    incoming.charge.get_or_insert_with(|| account.charge(0)).set(cost);
    if engine.items.make_room(0) {
        return State::Value(incoming);
    }
    let is_text = !matches!(incoming.then, Then::Binary(_));
    engine.counts.store_no_memory += 1;
    match &incoming.then {
        Then::Text { is_quiet: true } => {}
        Then::Binary(request) => binary::refuse(request, output),
        _ => output.line(NO_MEMORY),
    }
    let end = if is_text { 2 - incoming.end.len() } else { 0 };
    State::Swallow((incoming.left + end) as u64)
}
