//! A scripted world: packets and time as a [script](crate::script) has them.

use crate::sys::script_time::{self, now};
use crate::sys::sleep::readable;
use crate::sys::wakers::Waker;
use crate::sys::wishes::{Wishes, wish};
use crate::world::assemble::{AssembleError, Ground, assemble};
use crate::world::lock::{Guard, lock};
use crate::world::script_waiters::{Waiter, thread};
use crate::world::state::{Device, WorldClock};
use qanat::Time;
use qanat_nic::{MemoryPlan, Wire};
use rustix::io::Errno;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// What the script's world is like.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The stack's own addresses. Everybody else is on the link.
    pub addresses: Vec<IpAddr>,
    /// Of the link, bytes.
    pub mtu: u16,
}

/// How long a woken call may take to come back, before time goes on without it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The frames of the script's device.
const FRAMES: MemoryPlan =
    MemoryPlan { frame_size: 4_096, receive_frames: 8_192, transmit_frames: 2_048, prepared_frames: 0 };

/// The script's own thread.
static SCRIPT_THREAD: AtomicI32 = AtomicI32::new(0);

/// From now on sockets are a script's, which the calling thread runs. The stack itself is made by the first
/// [`socket`](crate::script::begin).
pub fn start(setup: &Setup) {
    let addresses = setup.addresses.iter().map(|address| (*address, 0)).collect();
    wish(Wishes::of_script(addresses, setup.mtu));
    SCRIPT_THREAD.store(thread(), Ordering::Relaxed);
    script_time::begin();
}

/// The script's time. The calling thread's last call, if it had slept, has come back.
pub fn clock() -> Duration {
    // A caller that looks at the clock again and again sees time pass.
    script_time::pass(1_000);
    if let Ok(mut guard) = lock() {
        let thread = thread();
        let script = &mut guard.script;
        if script.waiters.iter().any(|waiter| waiter.thread == thread) {
            script.waiters.retain(|waiter| waiter.thread != thread);
            script.returned.push(thread);
        }
    }
    now().since(Time::ZERO)
}

/// An IP packet arrives.
pub fn send(packet: &[u8]) -> bool {
    let Ok(mut guard) = lock() else { return false };
    let Device::Wire(wire) = &mut guard.vnic else { return false };
    wire.arrive(packet);
    guard.turn();
    drop(guard);
    settle();
    true
}

/// Puts the next packet that leaves, cut to the room there is, into `target`, time passing until one does: its length, and when
/// it left. `None`: none ever will.
pub fn receive(target: &mut [u8]) -> Option<(usize, Duration)> {
    run(None, true);
    let mut guard = lock().ok()?;
    let (time, packet) = guard.script.left.pop_front()?;
    let length = packet.len().min(target.len());
    target[..length].copy_from_slice(&packet[..length]);
    Some((length, time.since(Time::ZERO)))
}

/// Lets `time` pass.
pub fn sleep(time: Duration) {
    settle();
    let start = Instant::now();
    // The script gives time so that other threads may work. A thread that has come back does its work, then sleeps.
    let returned = lock().map(|mut guard| std::mem::take(&mut guard.script.returned)).unwrap_or_default();
    for thread in &returned {
        while is_running(*thread) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    run(Some(now() + time), false);
}

/// Whether a thread of this process is not asleep in the kernel.
fn is_running(thread: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // After the name in parentheses, which may hold anything.
    state.is_ok_and(|text| !text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')))
}

/// Lets time pass until `target`, or until a packet has left, or for as long as there is something to wait for.
fn run(target: Option<Time>, until_packet: bool) {
    loop {
        settle();
        let Ok(mut guard) = lock() else {
            // No stack yet.
            if let Some(target) = target {
                script_time::pass_to(target);
            }
            return;
        };
        guard.turn();
        if until_packet && !guard.script.left.is_empty() {
            return;
        }
        if guard.somebody_is_awake() {
            continue;
        }
        if target.is_some_and(|target| target <= now()) || !guard.advance(target) {
            return;
        }
    }
}

/// Waits until the thread that was woken has come back from its call, or sleeps again.
fn settle() {
    let start = Instant::now();
    loop {
        let Ok(mut guard) = lock() else { return };
        if !guard.somebody_is_awake() {
            return;
        }
        if start.elapsed() > PATIENCE {
            guard.script.waiters.retain(|waiter| waiter.is_asleep);
            return;
        }
        drop(guard);
        std::thread::sleep(Duration::from_micros(20));
    }
}

impl Guard {
    /// Drives the stack, and takes what leaves.
    fn turn(&mut self) {
        let now = self.drive_now();
        let world = &mut **self;
        let Device::Wire(wire) = &mut world.vnic else { return };
        world.script.left.extend(wire.departed().map(|packet| (now, packet)));
        // What was asked of the link has been answered.
        if wire.has_arrived() {
            self.turn();
        }
    }

    /// Moves time to the next deadline, at most to `target`; `false`: there is none.
    fn advance(&mut self, target: Option<Time>) -> bool {
        let waiters = self.script.waiters.iter().filter_map(|waiter| waiter.deadline);
        let Some(next) = waiters.chain(self.stack.next_deadline()).chain(target).min() else { return false };
        let next = next.max(now() + Duration::from_micros(1));
        script_time::set(next);
        for waiter in &self.script.waiters {
            if let (Some(waker), true) = (waiter.waker, waiter.deadline.is_some_and(|deadline| deadline <= next)) {
                self.wakers.wake(waker);
            }
        }
        true
    }

    fn somebody_is_awake(&self) -> bool {
        let own = thread();
        self.script.waiters.iter().filter(|waiter| waiter.thread != own).any(|waiter| {
            let mut fds = [readable(waiter.waker.map_or(-1, |waker| self.wakers.descriptor(waker)))];
            !waiter.is_asleep || crate::sys::sleep::sleep(&mut fds, Some(Duration::ZERO), std::ptr::null()) != Ok(0)
        })
    }

    /// A thread goes to sleep until its waker rings, or time has come to `deadline`: how long it may sleep of real time.
    pub(crate) fn fall_asleep(&mut self, deadline: Option<Time>, waker: Option<Waker>) -> Option<Duration> {
        let own = thread();
        if own == SCRIPT_THREAD.load(Ordering::Relaxed) {
            // Nobody else would have time pass.
            if !self.advance(deadline) {
                crate::sys::explain::warn(format_args!("this call would never return: nothing can happen any more"));
                std::process::exit(1);
            }
            return Some(Duration::ZERO);
        }
        self.script.waiters.retain(|waiter| waiter.thread != own);
        self.script.waiters.push(Waiter { thread: own, waker, deadline, is_asleep: true });
        None
    }
}

/// Why there can be no scripted world.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error("memory: {0}")]
    Memory(Errno),
    #[error("memory of packets: {0}")]
    Packets(std::io::Error),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

/// Makes the memory and the stack of a scripted world.
///
/// # Errors
/// There is no room for it.
pub(crate) fn make(wishes: &Wishes) -> Result<(), ScriptError> {
    crate::sys::arena::reserve().map_err(ScriptError::Memory)?;
    crate::world::lock::install(|| {
        let memory = FRAMES.allocate().map_err(ScriptError::Packets)?;
        let wire = Wire::new(wishes.mtu as u16, memory);
        let world = assemble(Ground {
            config: crate::world::sysctl::config(&wishes.addresses),
            device: Device::Wire(Box::new(wire)),
            clock: WorldClock::Script,
            addresses: wishes.addresses.clone(),
            registry: -1,
        })?;
        Ok(world)
    })
}
