//! Debian's memcached and ours are asked the same, and answer the same: all commands, in random sequences, whole and in pieces.

use super::peer::{OURS, Peer, serve};
use qanat_tests::e2e::{PATIENCE, Program, Running, eventually, scenario};
use std::collections::HashMap;
use std::net::TcpStream;

const ORACLE: &str = "127.0.0.1:11211";
/// Its threads that look after memory hold items for moments, and then a number that is counted down is another item.
const ORACLE_OPTIONS: &str = "no_lru_maintainer,no_lru_crawler";

/// memcached on the kernel's sockets.
pub fn memcached() -> Running {
    let words =
        ["-u", "nobody", "-l", "127.0.0.1", "-p", "11211", "-U", "0", "-m", "64", "-t", "1", "-o", ORACLE_OPTIONS];
    let oracle = Program::new("memcached").arguments(words).start();
    eventually("memcached listens", PATIENCE, || TcpStream::connect(ORACLE).is_ok());
    oracle
}

/// One of the two, and the numbers of changes that it told.
struct Side {
    peer: Peer,
    /// By key.
    last: HashMap<String, u64>,
    /// In the order in which they were told: two caches that do the same have the same order.
    told: Vec<u64>,
}

impl Side {
    fn new(address: &str) -> Side {
        Side { peer: Peer::new(address), last: HashMap::new(), told: Vec::new() }
    }

    fn rank(&mut self, cas: u64) -> usize {
        self.told.iter().position(|told| *told == cas).unwrap_or_else(|| {
            self.told.push(cas);
            self.told.len() - 1
        })
    }

    /// Asks, and returns the answer with the rank of each number in its place.
    fn ask(&mut self, request: &Request) -> String {
        let cas = self.last.get(&request.key).copied().unwrap_or(77);
        let bytes = request.bytes.replace("{cas}", &cas.to_string()).replace("{older}", &(cas / 2).to_string());
        let answer = self.peer.says(&bytes);
        let mut lines = Vec::new();
        for line in answer.split("\r\n") {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let words = words.iter().enumerate().map(|(at, word)| match word.strip_prefix('c') {
                _ if at == 4 && line.starts_with("VALUE ") => word.parse().map_or(word.clone(), |cas| {
                    self.last.insert(words[1].clone(), cas);
                    format!("#{}", self.rank(cas))
                }),
                Some(number) if at > 0 && number != "0" && !line.starts_with("VALUE ") => {
                    number.parse().map_or(word.clone(), |cas| {
                        self.last.insert(request.key.clone(), cas);
                        format!("c#{}", self.rank(cas))
                    })
                }
                _ => word.clone(),
            });
            lines.push(words.collect::<Vec<_>>().join(" "));
        }
        lines.join("\r\n")
    }
}

/// What is asked. `{cas}` is the number of the key's last change, as far as the cache has told.
struct Request {
    key: String,
    bytes: String,
}

/// Random requests of the text protocol and of the meta commands.
struct Requests {
    random: fastrand::Rng,
}

impl Requests {
    fn one_of<'a>(&mut self, these: &[&'a str]) -> &'a str {
        these[self.random.usize(..these.len())]
    }

    fn value(&mut self) -> String {
        match self.random.u32(..10) {
            0 => String::new(),
            1..=3 => self.random.u64(..).to_string(),
            4 => self.random.u32(..20).to_string(),
            5 => "18446744073709551615".to_owned(),
            6 => "x".repeat(self.random.usize(..6_000)),
            7 => "VALUE a 0 1\r\nb\r\nEND\r\n".to_owned(),
            8 => "12 34".to_owned(),
            _ => "word".repeat(self.random.usize(..9)),
        }
    }

    /// Flags of a meta command, in any order.
    fn flags(&mut self, of: &[&str]) -> String {
        let count = self.random.usize(..6);
        let mut flags: Vec<&str> = (0..count).map(|_| self.one_of(of)).collect();
        // Twice the same is an error, but for a few.
        if self.random.u32(..20) > 0 {
            flags.sort_by_key(|flag| flag.as_bytes()[0]);
            flags.dedup_by_key(|flag| flag.as_bytes()[0]);
            self.random.shuffle(&mut flags);
        }
        flags.iter().map(|flag| format!(" {flag}")).collect()
    }

    fn storing(&mut self, key: &str, noreply: &str) -> String {
        let (value, time) = (self.value(), self.one_of(&["0", "0", "0", "1000", "-1", "2592001"]));
        let flags = self.one_of(&["0", "0", "7", "4294967295"]);
        let name = self.one_of(&["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
        let cas = if name == "cas" { " {cas}" } else { "" };
        format!("{name} {key} {flags} {time} {}{cas}{noreply}\r\n{value}\r\n", value.len())
    }

    fn meta(&mut self, key: &str) -> String {
        match self.random.u32(..5) {
            0 | 1 => {
                let of = [
                    "c", "f", "h", "k", "Oxyz", "q", "s", "u", "v", "v", "N0", "N500", "R30", "R-1", "T0", "T2000",
                    "Pa", "Lb", "T-1", "y",
                ];
                format!("mg {key}{}\r\n", self.flags(&of))
            }
            2 => {
                let of = [
                    "c", "C{cas}", "C{older}", "F9", "I", "k", "Oabc", "q", "T0", "T900", "ME", "MA", "MP", "MR", "MS",
                    "MX", "T-1",
                ];
                let (value, flags) = (self.value(), self.flags(&of));
                format!("ms {key} {}{flags}\r\n{value}\r\n", value.len())
            }
            3 => {
                let of = ["C{cas}", "C1", "I", "k", "Oq", "q", "T60", "T-1"];
                format!("md {key}{}\r\n", self.flags(&of))
            }
            _ => {
                let of = [
                    "C{cas}",
                    "N0",
                    "N300",
                    "J13",
                    "D5",
                    "D18446744073709551615",
                    "T77",
                    "MI",
                    "MD",
                    "M+",
                    "M-",
                    "MZ",
                    "q",
                    "c",
                    "v",
                    "k",
                    "O1",
                ];
                format!("ma {key}{}\r\n", self.flags(&of))
            }
        }
    }

    fn next(&mut self) -> Request {
        let key = format!("key{}", self.random.u32(..6));
        let other = format!("key{}", self.random.u32(..6));
        let noreply = self.one_of(&["", "", "", " noreply"]);
        let bytes = match self.random.u32(..24) {
            0..=5 => self.storing(&key, noreply),
            6..=12 => self.meta(&key),
            13 => format!("get {key}\r\n"),
            14 => format!("gets {key} {other} nothing\r\n"),
            15 => format!("gat {} {key} {other}\r\n", self.one_of(&["0", "100", "-1", "x"])),
            16 => format!("gats 0 {key}\r\n"),
            17 => format!("incr {key} {}{noreply}\r\n", self.one_of(&["1", "18446744073709551615", "-1", "x", "7"])),
            18 => format!("decr {key} {}{noreply}\r\n", self.one_of(&["1", "100000000000", "3"])),
            19 => format!("touch {key} {}{noreply}\r\n", self.one_of(&["0", "-1", "1000", "soon"])),
            20 => format!("delete {key}{}{noreply}\r\n", self.one_of(&["", "", " 0", " 5"])),
            21 if self.random.u32(..12) == 0 => format!("flush_all{noreply}\r\n"),
            21 => format!("gets {key} {other}\r\n"),
            _ => self.strange(&key),
        };
        Request { key, bytes }
    }

    /// What clients should not say.
    fn strange(&mut self, key: &str) -> String {
        let long = "k".repeat(251);
        let lines = [
            "\r\n".to_owned(),
            "get\r\n".to_owned(),
            "gets \r\n".to_owned(),
            "nothing\r\n".to_owned(),
            format!("get {long}\r\n"),
            format!("get {key} {long}\r\n"),
            format!("set {long} 0 0 1\r\nx\r\n"),
            format!("set {key} 0 0 2000000\r\n{}\r\n", "z".repeat(2_000_000)),
            format!("set {key} 0 0 -1\r\n"),
            format!("set {key} 0 x 1\r\n"),
            format!("set {key} 0 0 3\r\nabcde\r\n"),
            format!("set {key} 0 0\r\n"),
            format!("add {key} a 0 1\r\n"),
            format!("incr {key}\r\n"),
            format!("mg {long}\r\n"),
            "mg\r\n".to_owned(),
            "ms\r\n".to_owned(),
            format!("ms {key}\r\n"),
            format!("ms {key} x\r\n"),
            format!("ms {key} 3 c\r\nabcde\r\n"),
            format!("ms {key} 2000000 c\r\n{}\r\n", "z".repeat(2_000_000)),
            "mg Zm9v b k v\r\n".to_owned(),
            "ms Zm9v 2 b k c\r\nhi\r\n".to_owned(),
            "mg !!! b\r\n".to_owned(),
            "md Zm9v b k\r\n".to_owned(),
            format!("ma {key} N0 J5 v t\r\n"),
            format!("mg {key} {}\r\n", "Oa ".repeat(25)),
            // Of a key that is there memcached counts a fetch before it sees the error.
            format!("mg nothing O{}\r\n", "o".repeat(40)),
            "verbosity 1\r\n".to_owned(),
            "verbosity\r\n".to_owned(),
            "cache_memlimit 4\r\n".to_owned(),
            "cache_memlimit x\r\n".to_owned(),
            "touch\r\n".to_owned(),
            "shutdown\r\n".to_owned(),
            "stats nothing\r\n".to_owned(),
            "stats reset\r\n".to_owned(),
            "lru_crawler\r\n".to_owned(),
            "lru_crawler sleep 1000001\r\n".to_owned(),
            "slabs\r\n".to_owned(),
            "GET / x\r\n".to_owned(),
            "  get   key1  key2 \r\n".to_owned(),
            "get key1\n".to_owned(),
            "me\r\n".to_owned(),
            "mx key1\r\n".to_owned(),
        ];
        lines[self.random.usize(..lines.len())].clone()
    }
}

#[test]
fn random_sequences_are_answered_as_memcached_answers_them() {
    scenario(|| {
        let _oracle = memcached();
        let server = serve(&[]);
        let seed = std::env::var("QANAT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(25);
        println!("QANAT_SEED={seed}");
        let mut requests = Requests { random: fastrand::Rng::with_seed(seed) };
        let (mut oracle, mut ours) = (Side::new(ORACLE), Side::new(OURS));
        let mut before: Vec<String> = Vec::new();
        for number in 0..20_000 {
            let request = requests.next();
            let (wanted, got) = (oracle.ask(&request), ours.ask(&request));
            let shorten = |text: &str| text.chars().take(400).collect::<String>();
            before.push(shorten(&request.bytes));
            assert!(
                wanted == got,
                "request {number} of seed {seed}: {:?}\nmemcached: {:?}\nours:      {:?}\nbefore it: {:#?}",
                shorten(&request.bytes),
                shorten(&wanted),
                shorten(&got),
                before.iter().rev().filter(|line| line.contains(&request.key)).take(12).collect::<Vec<_>>(),
            );
        }
        drop((oracle, ours));
        let stopped = server.stop();
        assert_eq!(stopped.code, Some(0), "{}", stopped.last);
    });
}
