//! Everything a program's processes share: the stack, the device, the sockets.

use crate::bells::Bells;
use crate::lock::Guard;
use crate::process::Processes;
use crate::sockets::Sockets;
use qanat::nic::{AfXdp, Clock, MonotonicClock, Vnic};
use qanat::stack::Stack;
use qanat::{Attachment, Time};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) vnic: AfXdp,
    pub(crate) clock: MonotonicClock,
    pub(crate) sockets: Sockets,
    pub(crate) bells: Bells,
    pub(crate) processes: Processes,
    /// Readable when frames can be received.
    pub(crate) doorbell: RawFd,
    /// Wakes the keeper.
    pub(crate) keeper_bell: RawFd,
    /// Own addresses and prefix lengths.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// Sent since a thread waited last; see [`World::sent`].
    pub(crate) unsent_calls: u32,
    /// Ready sockets the last wait told of.
    pub(crate) told: u32,
    /// Kept for its end: the VNIC goes with it.
    #[allow(dead_code, reason = "kept for its drop")]
    pub(crate) attachment: Attachment,
}

impl World {
    /// Has everything handled that waits, and who waits for it told.
    pub(crate) fn drive(&mut self) -> Time {
        let now = self.clock.now();
        self.sockets.drive(&mut self.stack, &mut self.vnic, now);
        self.unsent_calls = 0;
        self.ring();
        now
    }

    /// Wakes who has something.
    pub(crate) fn ring(&mut self) {
        for bell in std::mem::take(&mut self.sockets.to_ring) {
            self.bells.ring(bell);
        }
    }

    /// Bytes were given to the stack. They leave at once, unless the program still has other ready sockets to attend to that its
    /// last wait told of: it will wait again when it has, and then everything leaves together.
    pub(crate) fn sent(&mut self) {
        self.unsent_calls += 1;
        if self.unsent_calls >= self.told {
            let now = self.clock.now();
            self.stack.transmit(now, &mut self.vnic);
            self.unsent_calls = 0;
        }
    }

    /// Whether `address` is one of the VNIC's.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    pub(crate) fn doorbell_of(vnic: &AfXdp) -> RawFd {
        vnic.doorbell().map_or(-1, |fd| fd.as_raw_fd())
    }
}

impl Guard {
    /// As [`World::drive`], and the keeper knows of it.
    pub(crate) fn drive_now(&mut self) -> Time {
        let now = self.drive();
        self.shared().driven_at.store(now.as_nanos(), Ordering::Relaxed);
        now
    }
}
