//! Sockets that stay the kernel's, and why: they are counted, and the last of them are kept for `qanat status`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Those kept, of all processes.
pub(super) const KEPT: usize = 64;

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
    pub(super) fn is_told(self) -> bool {
        !matches!(self, Why::Loopback | Why::Own | Why::NoCard)
    }

    /// A bit for each.
    pub(super) fn bit(self) -> u32 {
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
    pub(super) told: u32,
    pub(crate) last: VecDeque<Fallback>,
}

impl Fallbacks {
    pub(super) fn push(&mut self, fallback: Fallback) {
        self.count += 1;
        // A number stands for one socket at a time.
        self.last.retain(|other| (other.process, other.fd) != (fallback.process, fallback.fd));
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(fallback);
    }
}
