//! What both kinds of runs use: random numbers, connections, and waiting for bytes.

use crate::address::Address;
use crate::sys::{self, Fd};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

/// How long a change at the other end may take to be seen here; a program that is right never waits so long.
pub(super) const PATIENCE_MS: i32 = 20_000;

/// Random numbers.
pub(super) struct Random(qanat_nic::Random);

impl Random {
    pub(super) fn of(seed: u64, stream: u64) -> Random {
        let seed = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ stream.wrapping_mul(0xda94_2042_e4dd_58b5);
        Random(qanat_nic::Random::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next()
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.0.below(limit as u64)).unwrap_or(0)
    }

    /// True once in so many times.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Flags of an interest; each once in so many times.
    pub(super) fn flags(&mut self, all: &[(i32, usize)]) -> i32 {
        all.iter().fold(0, |flags, (flag, times)| if self.once_in(*times) { flags | flag } else { flags })
    }
}

/// Where connections come in.
pub(super) struct Entrance {
    /// One comes in at a time, so that the ends of each belong together.
    listener: Mutex<Fd>,
    address: Address,
}

impl Entrance {
    pub(super) fn open(ip: Ipv4Addr) -> Result<Entrance, String> {
        let listener = sys::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0).fd();
        sys::setsockopt(listener, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32.to_ne_bytes());
        let bound = sys::bind(listener, &Address::new(IpAddr::V4(ip), 0));
        let listens = sys::listen(listener, 64);
        if !bound.is_ok() || !listens.is_ok() {
            return Err(format!("{ip}: bind {bound}, listen {listens}"));
        }
        Ok(Entrance { address: sys::getsockname(listener).1, listener: Mutex::new(listener) })
    }

    /// A connection: the end that came in, which doesn't wait, and the other.
    pub(super) fn pass(&self) -> (Fd, Fd) {
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
pub(super) fn kernels_pair() -> (Fd, Fd) {
    let (made, near, far) = sys::socketpair(libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    assert!(made.is_ok(), "socketpair {made}");
    sys::fcntl(near, libc::F_SETFL, libc::O_NONBLOCK);
    (near, far)
}

/// Waits until so many bytes are there.
pub(super) fn hear(fd: Fd, count: usize) {
    let mut bytes = [0; 256];
    while sys::recv(fd, &mut bytes, libc::MSG_PEEK | libc::MSG_DONTWAIT).count() < count {
        sys::poll(&[(fd, libc::POLLIN)], PATIENCE_MS);
    }
}

pub(super) fn drain(fd: Fd) {
    while sys::recv(fd, &mut [0; 256], libc::MSG_DONTWAIT).value > 0 {}
}
