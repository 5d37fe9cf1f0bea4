//! Everything a program's processes share: the stack, the device, the sockets.

use crate::sockets::table::Sockets;
use crate::sys::wakers::{Waker, Wakers};
use crate::world::fallbacks::Fallbacks;
use crate::world::leader::{Leadership, Thread};
use crate::world::processes::Processes;
use crate::world::references_in_transit::Transit;
use crate::world::script_waiters::Script;
use qanat::{Attachment, Config, Time};
use qanat_nic::breakdown::{self, Phase};
use qanat_nic::place::Place;
use qanat_nic::{Clock, Metered, MonotonicClock, Queue, Vnic, Wire};
use qanat_stack::Stack;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// For so long at most the stack is left alone, and frames wait to leave together, while the program has something to attend to.
const TOGETHER_MAX: Duration = Duration::from_micros(100);

/// At most so many frames leave together. More would gain nothing at the device, and a peer that waits for the first of them has work
/// meanwhile.
const TOGETHER_FRAMES_MAX: u32 = 32;

/// A program that waits so soon after it sends, on average, nanoseconds, need not have each frame leave alone.
const SOON_NS: u64 = 20_000;
/// A longer time counts as this: a single one is enough to have the next frames leave at once.
const LATE_NS: u64 = 8 * SOON_NS;

pub(crate) struct World {
    pub(crate) stack: Stack,
    pub(crate) vnic: Device,
    pub(crate) clock: WorldClock,
    pub(crate) script: Script,
    pub(crate) sockets: Sockets,
    pub(crate) wakers: Wakers,
    pub(crate) processes: Processes,
    pub(crate) leadership: Leadership,
    /// The waker that was woken last when the stack was driven last.
    pub(crate) woken: Option<Waker>,
    /// Readable when frames can be received.
    pub(crate) doorbell: RawFd,
    /// Wakes the keeper.
    pub(crate) keeper_waker: RawFd,
    /// Own addresses and prefix lengths.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// The stack's.
    pub(crate) config: Config,
    /// What another process must have, too, to be one of the program's.
    pub(crate) holdings: Holdings,
    /// The calls of `qanat run` that have programs here.
    pub(crate) runs: Vec<String>,
    /// Sockets on their way between processes.
    pub(crate) transit: Transit,
    /// Sockets that stayed the kernel's.
    pub(crate) fallbacks: Fallbacks,
    /// When the stack was driven last.
    driven_at: Time,
    /// Frames were received then, so there may be more.
    may_have_more: bool,
    /// Since when frames wait to leave together with those the program is about to send.
    held_since: Option<Time>,
    /// How often something was sent since then.
    held: u32,
    /// When something was sent last since the stack was driven.
    sent_at: Option<Time>,
    /// How long the program takes from a send to its next wait, on average, nanoseconds.
    until_wait_ns: u64,
    /// What the program knows to be there for it: ready sockets the last wait told of, datagrams behind the one it has read.
    pub(crate) told: u32,
}

/// What a world is made of besides the arena, under the same numbers and at the same addresses in all processes.
#[derive(Default)]
pub(crate) struct Holdings {
    /// The device's memory.
    pub(crate) places: Vec<Place>,
    /// The library's own descriptors.
    pub(crate) descriptors: Vec<RawFd>,
}

/// What the stack sends and receives by.
#[allow(clippy::large_enum_variant, reason = "there is one, and the card's is on every packet's way")]
pub(crate) enum Device {
    /// The daemon's card, which goes with its attachment.
    Card(Metered<Queue>, Attachment),
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

    /// What only looks.
    pub(crate) fn look(&self) -> &dyn Vnic {
        match self {
            Device::Card(card, _) => card,
            Device::Wire(wire) => wire.as_ref(),
        }
    }

    pub(crate) fn mtu(&self) -> u16 {
        self.look().capabilities().mtu
    }

    /// Readable when frames can be received; -1: never, as the script says when they come.
    fn doorbell(&self) -> RawFd {
        self.look().doorbell().map_or(-1, |fd| fd.as_raw_fd())
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
            WorldClock::Script => crate::sys::script_time::now(),
        }
    }
}

/// What a world is made of.
pub(crate) struct Parts {
    pub(crate) stack: Stack,
    pub(crate) vnic: Device,
    pub(crate) clock: WorldClock,
    pub(crate) wakers: Wakers,
    pub(crate) processes: Processes,
    pub(crate) keeper_waker: RawFd,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    pub(crate) config: Config,
}

impl World {
    pub(crate) fn new(parts: Parts) -> World {
        let Parts { stack, vnic, clock, wakers, processes, keeper_waker, addresses, config } = parts;
        let doorbell = vnic.doorbell();
        let script = Script::default();
        let sockets = Sockets::default();
        World {
            stack,
            vnic,
            clock,
            script,
            sockets,
            wakers,
            processes,
            leadership: Leadership::default(),
            woken: None,
            doorbell,
            keeper_waker,
            addresses,
            config,
            holdings: Holdings::default(),
            runs: Vec::new(),
            transit: Transit::default(),
            fallbacks: Fallbacks::default(),
            driven_at: Time::ZERO,
            may_have_more: false,
            held_since: None,
            held: 0,
            sent_at: None,
            until_wait_ns: LATE_NS,
            told: 0,
        }
    }

    /// Handles everything that has come, and tells the threads that wait for it.
    pub(crate) fn drive(&mut self) -> Time {
        let now = self.look();
        self.leave(now);
        now
    }

    /// As [`drive`](World::drive), but for what the stack has to send: [`leave`](World::leave) or
    /// [`leave_together`](World::leave_together) is called next.
    pub(super) fn look(&mut self) -> Time {
        breakdown::turn_begins();
        let now = self.clock.now();
        self.woken = None;
        let received = {
            let _stack = breakdown::span(Phase::StackIn);
            self.sockets.receive(&mut self.stack, self.vnic.get(), now)
        };
        breakdown::turn_ends(received > 0);
        self.driven_at = now;
        self.may_have_more = received > 0;
        self.learn(now);
        self.ring();
        now
    }

    /// Everything leaves that waits to.
    pub(crate) fn leave(&mut self, now: Time) {
        (self.held_since, self.held) = (None, 0);
        let _stack = breakdown::span(Phase::StackOut);
        self.sockets.transmit(&mut self.stack, self.vnic.get(), now);
        self.ring();
    }

    /// Everything leaves, or waits a moment if the program has others to attend to, or is known to wait right after it sends:
    /// acknowledgements leave with answers, and the device is asked once for many frames.
    pub(crate) fn leave_together(&mut self, now: Time) {
        let since = *self.held_since.get_or_insert(now);
        let waits_soon = self.told > 1 || self.until_wait_ns < SOON_NS;
        // A script's time stands still between its lines.
        if !waits_soon
            || crate::sys::script_time::is_on()
            || self.held >= TOGETHER_FRAMES_MAX
            || now.since(since) >= TOGETHER_MAX
        {
            self.leave(now);
        }
    }

    /// Wakes the threads that have something.
    pub(crate) fn ring(&mut self) {
        // The list is kept: it has its memory.
        for waker in self.sockets.to_wake.drain(..) {
            self.wakers.wake(waker);
            self.woken = Some(waker);
        }
    }

    /// Something was given to the stack.
    pub(crate) fn sent(&mut self, now: Time) {
        self.sent_at = Some(now);
        self.held += 1;
        self.leave_together(now);
    }

    /// How long the program took from its last send to here tells what it will do.
    fn learn(&mut self, now: Time) {
        if let Some(since) = self.sent_at.take() {
            let took_ns = (now.since(since).as_nanos() as u64).min(LATE_NS);
            self.until_wait_ns = (self.until_wait_ns * 7 + took_ns) / 8;
        }
    }

    /// Whether the program knows of something else to attend to, and the stack was driven just now.
    pub(crate) fn has_more(&self) -> bool {
        self.told > 1 && self.is_driven(self.clock.now())
    }

    /// Whether frames may wait that the device has told of already.
    pub(crate) fn may_have_more(&self) -> bool {
        self.may_have_more
    }

    /// Whether the stack was driven just now.
    pub(crate) fn is_driven(&self, now: Time) -> bool {
        // A script's time stands still between its lines.
        !crate::sys::script_time::is_on() && now.since(self.driven_at) < TOGETHER_MAX
    }

    /// Whether `address` is one of the VNIC's.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// A thread has driven the stack just now and found nothing for itself, so it waits: whether it leads from now on.
    pub(crate) fn leads(&mut self, thread: Thread, now: Time) -> bool {
        self.leadership.leads(thread, now, self.woken)
    }

    /// A thread goes back to the program, with something to do.
    pub(crate) fn leaves(&mut self, thread: Thread, now: Time) {
        self.leadership.leaves(thread, now, &self.wakers);
    }

    /// A thread is about to sleep on `waker`, without the device.
    pub(crate) fn follow(&mut self, thread: Thread, waker: Option<Waker>) {
        self.leadership.follow(thread, waker);
    }

    /// It is awake.
    pub(crate) fn follows_no_more(&mut self, thread: Thread) {
        self.leadership.follows_no_more(thread);
        if crate::sys::script_time::is_on() {
            self.script.wake_up();
        }
    }

    /// Wakes a thread that sleeps, to lead.
    pub(crate) fn appoint(&mut self, now: Time) {
        self.leadership.appoint(now, &self.wakers);
    }
}
