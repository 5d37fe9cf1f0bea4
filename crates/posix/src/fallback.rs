//! Sockets that stay the kernel's, and why: said by `--explain`, counted, and the last of them kept for `qanat status`.

use crate::explain::explain;
use crate::lock::lock;
use crate::process::number;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

/// Those kept, of all processes.
const KEPT: usize = 64;

/// The call that decided. What is kept points to no constants: other programs may read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Bind,
    Connect,
    Listen,
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
    if crate::attach::wishes().is_none() || crate::arena::is_inside() {
        return;
    }
    explain(format_args!("fd {fd}: {} {address}: the kernel's: {}", call.text(), why.text()));
    let fallback = Fallback { process: number(), fd, call, address, why };
    if crate::lock::shared().is_some() {
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

/// There is a world now.
pub(crate) fn begin() {
    let before = std::mem::take(&mut *BEFORE.lock().unwrap_or_else(PoisonError::into_inner));
    let Ok(mut guard) = lock() else { return };
    for fallback in &before {
        guard.fallbacks.push(Fallback { process: number(), ..*fallback });
    }
}
