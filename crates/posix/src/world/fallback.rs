//! Sockets that stay the kernel's, and why: the first of each kind is told on standard error, all of them by `--explain`; they are
//! counted, and the last of them are kept for `qanat status`.

use crate::lifecycle::process::number;
use crate::sys::explain::{explain, is_explaining, warn};
use crate::world::lock::lock;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Those kept, of all processes.
const KEPT: usize = 64;

/// The call that decided. What is kept points to no constants: other programs may read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Bind,
    Connect,
    Listen,
    Send,
}

/// Why a socket is the kernel's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Loopback,
    /// Not on the card's link.
    Elsewhere,
    /// The card's own address, as the program that has it sees it.
    Own,
    /// Bound to an address of the kernel's.
    Bound,
    /// There is no card.
    NoCard,
    /// The card has no address of its family.
    NoAddress,
    /// The stack has no room for it, or the port is taken there.
    Refused,
}

impl Call {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Call::Bind => "bind",
            Call::Connect => "connect",
            Call::Listen => "listen",
            Call::Send => "send",
        }
    }
}

impl Why {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Why::Loopback => "loopback",
            Why::Elsewhere => "not on the card's link",
            Why::Own => "the card's own address, which the kernel leads to",
            Why::Bound => "bound to an address of the kernel's",
            Why::NoCard => "there is no card",
            Why::NoAddress => "the card has no address of this family (`--address` gives it one)",
            Why::Refused => "the stack has no room for it, or another has the port",
        }
    }

    /// Whether the user is told though nobody has asked: it is another way than the one `qanat run` is for. Loopback and the card's own
    /// address always lead to the kernel, and that there is no card has been said.
    fn is_told(self) -> bool {
        !matches!(self, Why::Loopback | Why::Own | Why::NoCard)
    }

    /// A bit for each.
    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// A socket that is the kernel's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fallback {
    /// The process's number.
    pub(crate) process: u32,
    pub(crate) fd: RawFd,
    pub(crate) call: Call,
    pub(crate) address: SocketAddr,
    pub(crate) why: Why,
}

#[derive(Default)]
pub(crate) struct Fallbacks {
    pub(crate) count: u64,
    /// The kinds that the user has been told of, a bit each.
    told: u32,
    pub(crate) last: VecDeque<Fallback>,
}

impl Fallbacks {
    fn push(&mut self, fallback: Fallback) {
        self.count += 1;
        // A number stands for one socket at a time.
        self.last.retain(|other| (other.process, other.fd) != (fallback.process, fallback.fd));
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(fallback);
    }
}

/// What was decided before there was a world.
static BEFORE: Mutex<Vec<Fallback>> = Mutex::new(Vec::new());

/// Notes that `fd` is the kernel's.
pub(crate) fn note(fd: RawFd, call: Call, address: SocketAddr, why: Why) {
    if crate::sys::wishes::wishes().is_none() || crate::sys::arena::is_inside() {
        return;
    }
    explain(format_args!("fd {fd}: {} {address}: the kernel's: {}", call.text(), why.text()));
    tell_once(call, address, why);
    let fallback = Fallback { process: number(), fd, call, address, why };
    if crate::world::lock::shared().is_some() {
        if let Ok(mut guard) = lock() {
            guard.fallbacks.push(fallback);
        }
        return;
    }
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if before.len() < KEPT {
        before.push(fallback);
    }
}

/// The kinds that this process has told of, or found told.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Tells of the first of each kind, once in all processes that share a world.
pub(crate) fn tell_once(call: Call, address: SocketAddr, why: Why) {
    let bit = why.bit();
    // It is looked at before it is written: each datagram that leaves by the kernel comes by here.
    let is_told = || TOLD.load(Ordering::Relaxed) & bit != 0 || TOLD.fetch_or(bit, Ordering::Relaxed) & bit != 0;
    if !why.is_told() || is_explaining() || crate::sys::wishes::wishes().is_none() || is_told() {
        return;
    }
    if crate::world::lock::shared().is_some()
        && let Ok(mut guard) = lock()
    {
        let others = guard.fallbacks.told;
        guard.fallbacks.told = others | bit;
        if others & bit != 0 {
            return;
        }
    }
    warn(format_args!(
        "{} {address}: the kernel's socket, not the card's: {} (said once; `qanat run --explain` tells of each)",
        call.text(),
        why.text()
    ));
}

/// There is a world now.
pub(crate) fn begin() {
    let before = std::mem::take(&mut *BEFORE.lock().unwrap_or_else(PoisonError::into_inner));
    let Ok(mut guard) = lock() else { return };
    guard.fallbacks.told |= TOLD.load(Ordering::Relaxed);
    for fallback in &before {
        guard.fallbacks.push(Fallback { process: number(), ..*fallback });
    }
}
