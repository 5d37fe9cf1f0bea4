//! Instances of `epoll` with sockets of ours: those are looked after here, the others by the kernel's instance of the same
//! descriptor, which is also what a waiting thread sleeps on.

use crate::bells::Bell;
use crate::socket::Socket;
use libc::{c_int, epoll_event};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// What is told whether it was asked for or not.
pub(crate) const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;
/// The events among the flags.
const EVENTS: u32 = 0xffff;

/// A descriptor's number is its own hash: descriptors are small and dense.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_i32(&mut self, number: i32) {
        self.0 = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

pub(crate) struct Interest {
    pub(crate) socket: u32,
    events: u32,
    data: u64,
    /// It is in the queue of those to be looked at.
    is_queued: bool,
    /// Its one shot is spent: it is silent altogether.
    is_spent: bool,
}

pub(crate) struct Epoll {
    pub(crate) interests: HashMap<c_int, Interest, BuildHasherDefault<Identity>>,
    queue: VecDeque<c_int>,
    /// In the kernel's instance, to wake who sleeps there.
    pub(crate) bell: Option<Bell>,
    /// Threads that sleep there.
    pub(crate) sleepers: u32,
    /// Descriptors that refer to it, of all processes.
    pub(crate) references: u32,
    /// Waits since the kernel's was looked at.
    pub(crate) waits: u32,
    /// The kernel's had something when it was asked last: it is asked again.
    pub(crate) kernels_had_some: bool,
    /// The next packet wakes who sleeps there: the device is in the kernel's instance for one event.
    pub(crate) is_armed: bool,
    /// It is itself in another instance: there it is ready when its bell rings.
    pub(crate) is_nested: bool,
}

impl Epoll {
    /// With one descriptor.
    pub(crate) fn new(bell: Option<Bell>) -> Epoll {
        Epoll {
            // An empty table would be a constant of the library's, which is elsewhere in another process.
            interests: HashMap::with_capacity_and_hasher(4, BuildHasherDefault::default()),
            queue: VecDeque::new(),
            bell,
            sleepers: 0,
            references: 1,
            waits: 0,
            kernels_had_some: false,
            is_armed: false,
            is_nested: false,
        }
    }

    /// Has `fd` looked at by the next wait; whether it was not to be already.
    pub(crate) fn queue(&mut self, fd: c_int) -> bool {
        match self.interests.get_mut(&fd) {
            Some(interest) if !interest.is_queued => {
                interest.is_queued = true;
                self.queue.push_back(fd);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn is_watching(&self, fd: c_int) -> bool {
        self.interests.contains_key(&fd)
    }

    /// Puts, or replaces, an interest; [`queue`](Self::queue) it if there is something to tell already, so that others are told
    /// in the order in which they become ready.
    pub(crate) fn set(&mut self, fd: c_int, socket: u32, event: epoll_event) {
        let is_queued = self.interests.get(&fd).is_some_and(|interest| interest.is_queued);
        let (events, data) = (event.events, event.u64);
        self.interests.insert(fd, Interest { socket, events, data, is_queued, is_spent: false });
    }

    /// Whether anything is to be told, without telling it.
    pub(crate) fn has_ready<'a>(&self, socket: impl Fn(u32) -> Option<&'a Socket>) -> bool {
        self.queue.iter().any(|fd| {
            let interest = self.interests.get(fd);
            interest.is_some_and(|interest| {
                let wanted = (interest.events | ALWAYS) & EVENTS;
                !interest.is_spent
                    && socket(interest.socket).is_some_and(|socket| socket.readiness() as u16 as u32 & wanted != 0)
            })
        })
    }

    /// Tells `out` what is ready, as much as it takes; how many.
    pub(crate) fn collect<'a>(
        &mut self,
        out: &mut [epoll_event],
        mut socket: impl FnMut(u32) -> Option<&'a Socket>,
    ) -> usize {
        let mut count = 0;
        // What stays ready goes to the end, so that everybody has a turn.
        for _ in 0..self.queue.len() {
            if count == out.len() {
                break;
            }
            let Some(fd) = self.queue.pop_front() else { break };
            let Some(interest) = self.interests.get_mut(&fd) else { continue };
            interest.is_queued = false;
            let Some(socket) = socket(interest.socket) else { continue };
            let wanted = if interest.is_spent { 0 } else { (interest.events | ALWAYS) & EVENTS };
            let ready = socket.readiness() as u16 as u32 & wanted;
            if ready == 0 {
                continue;
            }
            out[count] = epoll_event { events: ready, u64: interest.data };
            count += 1;
            if interest.events & ONE_SHOT != 0 {
                interest.is_spent = true;
            } else if interest.events & EDGE == 0 {
                interest.is_queued = true;
                self.queue.push_back(fd);
            }
        }
        count
    }
}
