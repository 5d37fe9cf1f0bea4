//! Which key is asked for next, how, and what the answer must be, to the byte.

use qanat::Bytes;
use qanat_nic::Random;
use std::fmt::Write;

/// Whose protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// RESP, version 2.
    Redis,
    /// memcached's text protocol.
    Memcached,
}

/// Sizes and shares.
#[derive(Clone, Debug)]
pub struct WorkloadOptions {
    /// Whose protocol.
    pub protocol: Protocol,
    /// Different keys, asked for equally often.
    pub keys: usize,
    /// Bytes of a key.
    pub key_length: usize,
    /// Bytes of a value.
    pub value_length: usize,
    /// Share of requests that read, 0 to 1.
    pub get_share: f64,
    /// Decides the order.
    pub seed: u64,
}

impl WorkloadOptions {
    /// Ten thousand keys of 64 bytes with values of 1 KiB, nine of ten requests read: USR's neighbour, ETC, in short.
    pub fn new(protocol: Protocol) -> WorkloadOptions {
        WorkloadOptions { protocol, keys: 10_000, key_length: 64, value_length: 1_024, get_share: 0.9, seed: 1 }
    }
}

/// A request: which key, whether it reads, and whether it is the first of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    key: u32,
    reads: bool,
    is_first: bool,
}

impl Request {
    /// Whether it writes its key for the first time.
    pub fn is_first(&self) -> bool {
        self.is_first
    }
}

/// An answer that is exactly right, in two pieces: one of the key's own, and one that all share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer<'a> {
    /// Its beginning.
    pub head: &'a [u8],
    /// Its end.
    pub tail: &'a [u8],
}

impl Answer<'_> {
    /// Bytes of it.
    pub fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `bytes` are what it has from `offset` on.
    pub fn has(&self, offset: usize, bytes: &[u8]) -> bool {
        let head = self.head.get(offset.min(self.head.len())..).unwrap_or_default();
        let in_head = head.len().min(bytes.len());
        let in_tail = offset.saturating_sub(self.head.len());
        let tail = self.tail.get(in_tail..).unwrap_or_default();
        bytes.get(..in_head) == head.get(..in_head)
            && bytes.get(in_head..).is_some_and(|rest| tail.get(..rest.len()) == Some(rest))
    }
}

struct Key {
    get: Bytes,
    set: Bytes,
    /// How the answer to a `get` begins.
    head: Box<[u8]>,
}

/// See the [module](self). The first requests of all write every key once; then it is as the options say.
pub struct Workload {
    keys: Vec<Key>,
    get_tail: Vec<u8>,
    set_answer: &'static [u8],
    /// Keys asked to be written for the first time, in their order, and how many of those requests were answered.
    written: u32,
    filled: u32,
    /// Below it a draw of 32 bits reads.
    get_below: u64,
    random: Random,
}

fn key_text(number: usize, length: usize) -> String {
    let mut text = format!("k{number:07}");
    while text.len() < length {
        text.push('.');
    }
    text
}

fn written(mut write: impl FnMut(&mut String) -> std::fmt::Result) -> Vec<u8> {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write(&mut text);
    text.into_bytes()
}

impl Workload {
    /// None asked yet.
    pub fn new(options: &WorkloadOptions) -> Workload {
        let value = "v".repeat(options.value_length);
        let key = |number: usize| {
            let key = key_text(number, options.key_length);
            let (key_length, length) = (key.len(), value.len());
            let (get, set, head) = match options.protocol {
                Protocol::Redis => (
                    written(|text| write!(text, "*2\r\n$3\r\nGET\r\n${key_length}\r\n{key}\r\n")),
                    written(|text| {
                        write!(text, "*3\r\n$3\r\nSET\r\n${key_length}\r\n{key}\r\n${length}\r\n{value}\r\n")
                    }),
                    written(|text| write!(text, "${length}\r\n")),
                ),
                Protocol::Memcached => (
                    written(|text| write!(text, "get {key}\r\n")),
                    written(|text| write!(text, "set {key} 0 0 {length}\r\n{value}\r\n")),
                    written(|text| write!(text, "VALUE {key} 0 {length}\r\n")),
                ),
            };
            Key { get: Bytes::from(get), set: Bytes::from(set), head: head.into_boxed_slice() }
        };
        let (end, set_answer): (&str, &[u8]) = match options.protocol {
            Protocol::Redis => ("\r\n", b"+OK\r\n"),
            Protocol::Memcached => ("\r\nEND\r\n", b"STORED\r\n"),
        };
        Workload {
            keys: (0..options.keys.clamp(1, 10_000_000)).map(key).collect(),
            get_tail: format!("{value}{end}").into_bytes(),
            set_answer,
            written: 0,
            filled: 0,
            get_below: (options.get_share.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64,
            random: Random::new(options.seed),
        }
    }

    /// Decides what is asked next.
    #[inline]
    pub fn draw(&mut self) -> Request {
        let count = self.keys.len() as u64;
        if u64::from(self.written) < count {
            self.written += 1;
            return Request { key: self.written - 1, reads: false, is_first: true };
        }
        let drawn = self.random.next();
        let key = (((drawn >> 32) * count) >> 32) as u32;
        // What another connection writes may not be there yet.
        let reads = self.is_filled() && (drawn & 0xffff_ffff) < self.get_below;
        Request { key, reads, is_first: false }
    }

    /// `request` has been answered.
    #[inline]
    pub fn answered(&mut self, request: Request) {
        self.filled += u32::from(request.is_first);
    }

    /// Whether every key has been written once, and the server has said so.
    pub fn is_filled(&self) -> bool {
        self.filled as usize >= self.keys.len()
    }

    /// The bytes to send.
    #[inline]
    pub fn request(&self, request: Request) -> Option<&Bytes> {
        let key = self.keys.get(request.key as usize)?;
        Some(if request.reads { &key.get } else { &key.set })
    }

    /// The bytes that must come back.
    #[inline]
    pub fn answer(&self, request: Request) -> Answer<'_> {
        match self.keys.get(request.key as usize) {
            Some(key) if request.reads => Answer { head: &key.head, tail: &self.get_tail },
            _ => Answer { head: self.set_answer, tail: &[] },
        }
    }

    /// Bytes of the longest request.
    pub fn request_length_max(&self) -> usize {
        self.keys.first().map_or(0, |key| key.get.len().max(key.set.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_written_first() {
        let options = WorkloadOptions { keys: 3, ..WorkloadOptions::new(Protocol::Redis) };
        let mut workload = Workload::new(&options);
        let first: Vec<Request> = (0..3).map(|_| workload.draw()).collect();
        assert!(first.iter().all(|request| !request.reads) && !workload.draw().reads);
        first.into_iter().for_each(|request| workload.answered(request));
        assert!(workload.is_filled());
        let reads = (0..10_000).filter(|_| workload.draw().reads).count();
        assert!((8_500..9_500).contains(&reads), "{reads}");
    }

    #[test]
    fn requests_and_answers_are_the_protocols() {
        let options =
            WorkloadOptions { keys: 1, key_length: 10, value_length: 3, ..WorkloadOptions::new(Protocol::Memcached) };
        let mut workload = Workload::new(&options);
        let set = workload.draw();
        assert_eq!(workload.request(set).unwrap().as_ref(), b"set k0000000.. 0 0 3\r\nvvv\r\n");
        assert_eq!(workload.answer(set).head, b"STORED\r\n");
        let get = Request { key: 0, reads: true, is_first: false };
        assert_eq!(workload.request(get).unwrap().as_ref(), b"get k0000000..\r\n");
        let answer = workload.answer(get);
        let whole = b"VALUE k0000000.. 0 3\r\nvvv\r\nEND\r\n";
        assert_eq!(answer.len(), whole.len());
        for cut in 0..=whole.len() {
            assert!(answer.has(0, &whole[..cut]) && answer.has(cut, &whole[cut..]), "{cut}");
        }
        assert!(!answer.has(0, b"END\r\n") && !answer.has(whole.len(), b"x"));
    }
}
