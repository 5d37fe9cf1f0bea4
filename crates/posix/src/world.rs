//! Everything a program's processes share: the stack, the device, the sockets.

use crate::bells::Bells;
use crate::lock::Guard;
use crate::process::Processes;
use crate::script::Script;
use crate::sockets::Sockets;
use crate::wire::Wire;
use qanat::nic::{AfXdp, Clock, MonotonicClock, Vnic};
use qanat::stack::Stack;
use qanat::{Attachment, Time};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is sent waits so long at most for more, as long as the program calls.
const TOGETHER_MAX: Duration = Duration::from_micros(50);

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) vnic: Device,
    pub(crate) clock: WorldClock,
    pub(crate) script: Script,
    pub(crate) sockets: Sockets,
    pub(crate) bells: Bells,
    pub(crate) processes: Processes,
    /// Readable when frames can be received.
    pub(crate) doorbell: RawFd,
    /// Wakes the keeper.
    pub(crate) keeper_bell: RawFd,
    /// Own addresses and prefix lengths.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// When the stack was driven last; see [`World::sent`].
    driven_at: Time,
    /// Ready sockets the last wait told of.
    pub(crate) told: u32,
}

/// What the stack sends and receives by.
#[allow(clippy::large_enum_variant, reason = "there is one, and the card's is on every packet's way")]
pub(crate) enum Device {
    /// The daemon's card, which goes with its attachment.
    Card(AfXdp, #[allow(dead_code, reason = "kept for its drop")] Attachment),
    Wire(Box<Wire>),
}

impl Device {
    #[inline]
    pub(crate) fn get(&mut self) -> &mut dyn Vnic {
        match self {
            Device::Card(card, _) => card,
            Device::Wire(wire) => wire.as_mut(),
        }
    }

    pub(crate) fn mtu(&self) -> u16 {
        match self {
            Device::Card(card, _) => card.capabilities().mtu,
            Device::Wire(wire) => wire.capabilities().mtu,
        }
    }

    /// Readable when frames can be received; -1: never, as the script says when they come.
    fn doorbell(&self) -> RawFd {
        match self {
            Device::Card(card, _) => card.doorbell().map_or(-1, |fd| fd.as_raw_fd()),
            Device::Wire(_) => -1,
        }
    }
}

/// The machine's time, or a script's.
#[derive(Clone, Copy)]
pub(crate) enum WorldClock {
    Machine(MonotonicClock),
    Script,
}

impl Clock for WorldClock {
    #[inline]
    fn now(&self) -> Time {
        match self {
            WorldClock::Machine(clock) => clock.now(),
            WorldClock::Script => crate::script::now(),
        }
    }
}

/// What a world is made of.
pub(crate) struct Parts {
    pub(crate) stack: Stack,
    pub(crate) vnic: Device,
    pub(crate) clock: WorldClock,
    pub(crate) bells: Bells,
    pub(crate) processes: Processes,
    pub(crate) keeper_bell: RawFd,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
}

impl World {
    pub(crate) fn new(parts: Parts) -> World {
        let Parts { stack, vnic, clock, bells, processes, keeper_bell, addresses } = parts;
        let doorbell = vnic.doorbell();
        let script = Script::default();
        let sockets = Sockets::default();
        let (driven_at, told) = (Time::ZERO, 0);
        World {
            stack,
            vnic,
            clock,
            script,
            sockets,
            bells,
            processes,
            doorbell,
            keeper_bell,
            addresses,
            driven_at,
            told,
        }
    }

    /// Has everything handled that waits, and who waits for it told.
    pub(crate) fn drive(&mut self) -> Time {
        let now = self.clock.now();
        self.sockets.drive(&mut self.stack, self.vnic.get(), now);
        self.driven_at = now;
        self.ring();
        now
    }

    /// Wakes who has something.
    pub(crate) fn ring(&mut self) {
        for bell in std::mem::take(&mut self.sockets.to_ring) {
            self.bells.ring(bell);
        }
    }

    /// Something was given to the stack. It leaves at once if the last wait told of one ready socket, or has not been just
    /// now; else the program has others to attend to, will wait again in a moment, and then everything leaves together.
    pub(crate) fn sent(&mut self) {
        let now = self.clock.now();
        if self.told <= 1 || now.since(self.driven_at) >= TOGETHER_MAX {
            self.stack.transmit(now, self.vnic.get());
        }
    }

    /// Whether `address` is one of the VNIC's.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
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
