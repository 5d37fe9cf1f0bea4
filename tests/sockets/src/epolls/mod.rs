//! `epoll` by random sequences of calls, each from a seed: those of one thread say what came back, to be compared with what
//! Linux says; those of several threads hold what is told against rules that Linux keeps.
//!
//! ```text
//! socket-cases epolls --address V4 [--from SEED] [--seeds COUNT]     one line for each seed and kind
//! ```
//!
//! Connections come in at `--address`; the clients are of the same process, and the kernel's as the address is its own.

mod race;
mod sequence;

use crate::address::Address;
use crate::sys::{self, Fd};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

/// How long a change at the other end may take to be seen here; a program that is right never waits so long.
const PATIENCE_MS: i32 = 20_000;

/// Random numbers (Steele, Lea, Flood: `SplitMix64`).
struct Random(u64);

impl Random {
    fn of(seed: u64, stream: u64) -> Random {
        Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ stream.wrapping_mul(0xda94_2042_e4dd_58b5))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap_or(0)
    }

    /// True once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Flags of an interest; each once in so many times.
    fn flags(&mut self, all: &[(i32, usize)]) -> i32 {
        all.iter().fold(0, |flags, (flag, times)| if self.once_in(*times) { flags | flag } else { flags })
    }
}

/// Where connections come in.
struct Door {
    /// One comes in at a time, so that the ends of each belong together.
    listener: Mutex<Fd>,
    address: Address,
}

impl Door {
    fn open(ip: Ipv4Addr) -> Result<Door, String> {
        let listener = sys::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).fd();
        sys::setsockopt(listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32.to_ne_bytes());
        let bound = sys::bind(listener, &Address::new(IpAddr::V4(ip), 0));
        let listens = sys::listen(listener, 64);
        if !bound.is_ok() || !listens.is_ok() {
            return Err(format!("{ip}: bind {bound}, listen {listens}"));
        }
        Ok(Door { address: sys::getsockname(listener).1, listener: Mutex::new(listener) })
    }

    /// A connection: the end that came in, which doesn't wait, and the other.
    fn pass(&self) -> (Fd, Fd) {
        let far = sys::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).fd();
        // Its end is at once: no port is kept for a minute.
        sys::setsockopt(far, libc::SOL_SOCKET, libc::SO_LINGER, &[1_i32.to_ne_bytes(), 0_i32.to_ne_bytes()].concat());
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let connected = sys::connect(far, &self.address);
        let near = sys::accept4(*listener, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        assert!(connected.is_ok() && near.is_ok(), "connect {connected}, accept {near}");
        (near.fd(), far)
    }
}

/// A pair of the kernel's own: the end that doesn't wait, and the other.
fn kernels_pair() -> (Fd, Fd) {
    let (made, near, far) = sys::socketpair(libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    assert!(made.is_ok(), "socketpair {made}");
    sys::fcntl(near, libc::F_SETFL, libc::O_NONBLOCK);
    (near, far)
}

/// Waits until so many bytes are there.
fn hear(fd: Fd, count: usize) {
    let mut bytes = [0; 256];
    while sys::recv(fd, &mut bytes, libc::MSG_PEEK | libc::MSG_DONTWAIT).count() < count {
        sys::poll(&[(fd, libc::POLLIN)], PATIENCE_MS);
    }
}

fn drain(fd: Fd) {
    while sys::recv(fd, &mut [0; 256], libc::MSG_DONTWAIT).value > 0 {}
}

/// The command line: from which seed on, and how many.
pub fn run(words: &[String]) -> Result<(), String> {
    let (mut ip, mut from, mut count) = (None, 0, 1);
    for pair in words.chunks(2) {
        let [word, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let wrong = || format!("{word}: {value}?");
        match word.as_str() {
            "--address" => ip = Some(value.parse().map_err(|_| wrong())?),
            "--from" => from = value.parse().map_err(|_| wrong())?,
            "--seeds" => count = value.parse().map_err(|_| wrong())?,
            _ => return Err(format!("unknown: {word}")),
        }
    }
    let door = Door::open(ip.ok_or("--address V4 is needed")?)?;
    for seed in from..from + count {
        println!("sequence\t{seed}\t{}", sequence::run(&door, seed));
        println!("race\t{seed}\t{}", race::run(&door, seed).map_or_else(|error| error, |()| "as the rules".to_owned()));
    }
    Ok(())
}
