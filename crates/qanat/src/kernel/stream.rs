//! [`Stream`]: one connection of the kernel's.

use qanat_api::{CloseReason, SendQueue};
use std::os::fd::OwnedFd;

/// How a service ends its side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finish {
    /// It sends no more.
    Shutdown,
    /// It sends no more, and hears no more.
    Close,
}

/// One connection. Its socket stays open until nothing is under way on it.
pub(super) struct Stream {
    pub(super) socket: OwnedFd,
    /// What the kernel has not taken yet.
    pub(super) queue: SendQueue,
    pub(super) is_connecting: bool,
    pub(super) is_receiving: bool,
    /// It was asked to stop receiving.
    pub(super) is_stopping: bool,
    /// There was no frame to receive into.
    pub(super) is_starved: bool,
    pub(super) is_sending: bool,
    /// It is looked at when the turn ends.
    pub(super) is_touched: bool,
    pub(super) is_corked: bool,
    pub(super) has_no_delay: bool,
    /// Frames that the service has.
    pub(super) held: u32,
    /// The peer sends no more.
    pub(super) has_heard_end: bool,
    pub(super) finish: Option<Finish>,
    pub(super) has_sent_end: bool,
    /// Why it ends, once it does.
    pub(super) end: Option<CloseReason>,
    pub(super) is_cancelled: bool,
}

impl Stream {
    pub(super) fn new(socket: OwnedFd, is_connecting: bool) -> Stream {
        Stream {
            socket,
            queue: SendQueue::default(),
            is_connecting,
            is_receiving: false,
            is_stopping: false,
            is_starved: false,
            is_sending: false,
            is_touched: false,
            is_corked: false,
            has_no_delay: true,
            held: 0,
            has_heard_end: false,
            finish: None,
            has_sent_end: false,
            end: None,
            is_cancelled: false,
        }
    }

    /// The service hears no more.
    pub(super) fn is_deaf(&self) -> bool {
        self.finish == Some(Finish::Close) || self.end.is_some()
    }

    /// The kernel has something of it.
    pub(super) fn is_under_way(&self) -> bool {
        self.is_receiving || self.is_sending || self.is_connecting
    }
}
