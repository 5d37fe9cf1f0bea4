//! Instances of `epoll` with sockets of ours: those are looked after here, the others by the kernel's instance of the same
//! descriptor, which is also what a waiting thread sleeps on.
//!
//! As in Linux an interest is of a socket *and* a descriptor's number. A number that is used again has an interest of its own,
//! even while another process, or a copy, keeps the socket that had it before. An interest is in the queue once or not at
//! all, and leaves it when it is removed: so no wait tells of it twice, and none that begins later tells of it at all.

use crate::sockets::socket::{Place, Socket};
use crate::sys::wakers::Waker;
use libc::{c_int, epoll_event};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicU32;

/// What is told whether it was asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;
pub(super) const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// What may be asked for beside `EPOLLEXCLUSIVE`.
pub(super) const BESIDE_EXCLUSIVE: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLWAKEUP) as u32 | ALWAYS | EDGE | EXCLUSIVE;
/// The events among the flags.
const EVENTS: u32 = 0xffff;

/// What a change can have made ready. As in Linux, interests that asked for nothing of it are not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Change(pub(super) u32);

impl Change {
    /// There is something to read, or to accept.
    pub(crate) const IN: Change =
        Change((libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDNORM | libc::EPOLLRDBAND) as u32);
    /// There is room.
    pub(crate) const OUT: Change = Change((libc::EPOLLOUT | libc::EPOLLWRNORM | libc::EPOLLWRBAND) as u32);
    /// The state is another: anything.
    pub(crate) const ANY: Change = Change(u32::MAX);
}

/// No place in a table.
const NOWHERE: u32 = u32::MAX;

/// A number is nearly its own hash: descriptors and sockets are small and dense.
#[derive(Default)]
pub(crate) struct Identity(u64);

impl Identity {
    fn mix(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u32::from(*byte)));
    }

    fn write_i32(&mut self, number: i32) {
        self.mix(number as u32);
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number);
    }
}

pub(super) struct Interest {
    socket: u32,
    fd: c_int,
    pub(super) events: u32,
    pub(super) data: u64,
    /// Its one shot is spent: it is silent altogether.
    pub(super) is_spent: bool,
    /// It is in the queue of those to be looked at, between these two.
    is_queued: bool,
    before: Place,
    after: Place,
}

impl Interest {
    /// What of `ready` is to be told.
    fn wanted(&self, ready: u32) -> u32 {
        if self.is_spent { 0 } else { ready & (self.events | ALWAYS) & EVENTS }
    }
}

/// The queue: a list through the interests themselves, so that one can leave it from the middle.
#[derive(Clone, Copy)]
struct Queue {
    first: Place,
    last: Place,
    length: usize,
}

/// Instances with sockets of ours that have been put in another.
pub(crate) static NESTED: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Epoll {
    places: HashMap<(u32, c_int), Place, BuildHasherDefault<Identity>>,
    interests: Vec<Option<Interest>>,
    free: Vec<Place>,
    queue: Queue,
    /// In the kernel's instance, to wake the threads that sleep there.
    pub(crate) waker: Option<Waker>,
    /// Threads that sleep there.
    pub(crate) waiters: u32,
    /// Descriptors that refer to it, of all processes.
    pub(crate) references: u32,
    /// Waits, as far as they are counted: with some the kernel's instance is asked, too.
    pub(crate) waits: u32,
    /// The kernel's had something when it was asked last: it is asked again.
    pub(crate) kernels_had_some: bool,
    /// Packets wake the threads that sleep there: the device is in the kernel's instance.
    pub(crate) is_armed: bool,
    /// Threads that sleep there and lead: they are to be woken by packets.
    pub(crate) leaders: u32,
    /// It is itself in another instance: there it is ready when its waker rings.
    pub(crate) is_nested: bool,
}

impl Epoll {
    /// With one descriptor.
    pub(crate) fn new(waker: Option<Waker>) -> Epoll {
        Epoll {
            // An empty table would be a constant of the library's, which is elsewhere in another process.
            places: HashMap::with_capacity_and_hasher(4, BuildHasherDefault::default()),
            interests: Vec::new(),
            free: Vec::new(),
            queue: Queue { first: NOWHERE, last: NOWHERE, length: 0 },
            waker,
            waiters: 0,
            references: 1,
            waits: 0,
            kernels_had_some: false,
            is_armed: false,
            leaders: 0,
            is_nested: false,
        }
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Interest> {
        self.interests.get_mut(place as usize)?.as_mut()
    }

    /// Has an interest looked at by the next wait, if it wants anything of `change`; whether it was not to be already.
    pub(crate) fn queue(&mut self, place: Place, change: Change) -> bool {
        let last = self.queue.last;
        let Some(interest) = self.get_mut(place) else { return false };
        if interest.is_queued || interest.wanted(change.0) == 0 {
            return false;
        }
        (interest.is_queued, interest.before, interest.after) = (true, last, NOWHERE);
        match self.get_mut(last) {
            Some(before) => before.after = place,
            None => self.queue.first = place,
        }
        self.queue.last = place;
        self.queue.length += 1;
        true
    }

    /// Takes an interest out of the queue, if it is there.
    fn unqueue(&mut self, place: Place) {
        let Some(interest) = self.get_mut(place).filter(|interest| interest.is_queued) else { return };
        interest.is_queued = false;
        let (before, after) = (interest.before, interest.after);
        match self.get_mut(before) {
            Some(before) => before.after = after,
            None => self.queue.first = after,
        }
        match self.get_mut(after) {
            Some(after) => after.before = before,
            None => self.queue.last = before,
        }
        self.queue.length -= 1;
    }

    pub(super) fn place(&self, socket: u32, fd: c_int) -> Option<Place> {
        self.places.get(&(socket, fd)).copied()
    }

    pub(super) fn add(&mut self, socket: u32, fd: c_int, event: epoll_event) -> Place {
        let (events, data) = (event.events, event.u64);
        let made =
            Interest { socket, fd, events, data, is_spent: false, is_queued: false, before: NOWHERE, after: NOWHERE };
        let place = match self.free.pop() {
            Some(place) => {
                self.interests[place as usize] = Some(made);
                place
            }
            None => {
                self.interests.push(Some(made));
                self.interests.len() as u32 - 1
            }
        };
        self.places.insert((socket, fd), place);
        place
    }

    /// An interest is gone, and what was to be told of it with it.
    pub(crate) fn remove(&mut self, place: Place) {
        self.unqueue(place);
        if let Some(interest) = self.interests.get_mut(place as usize).and_then(Option::take) {
            self.places.remove(&(interest.socket, interest.fd));
            self.free.push(place);
        }
    }

    /// The interests: whose, and where.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Place)> {
        let known = self.interests.iter().zip(0..);
        known.filter_map(|(interest, place)| interest.as_ref().map(|interest| (interest.socket, place)))
    }

    /// Whether anything is to be told, without telling it.
    pub(crate) fn has_ready<'a>(&self, socket: impl Fn(u32) -> Option<&'a Socket>) -> bool {
        let mut at = self.queue.first;
        while let Some(interest) = self.interests.get(at as usize).and_then(Option::as_ref) {
            if interest.wanted(socket(interest.socket).map_or(0, ready)) != 0 {
                return true;
            }
            at = interest.after;
        }
        false
    }

    /// Tells `out` what is ready, as much as it takes; how many.
    pub(crate) fn collect<'a>(
        &mut self,
        out: &mut [epoll_event],
        mut socket: impl FnMut(u32) -> Option<&'a Socket>,
    ) -> usize {
        let mut count = 0;
        // What stays ready goes to the end, so that everybody has a turn.
        for _ in 0..self.queue.length {
            if count == out.len() {
                break;
            }
            let place = self.queue.first;
            self.unqueue(place);
            let Some(interest) = self.get_mut(place) else { break };
            let told = interest.wanted(socket(interest.socket).map_or(0, ready));
            if told == 0 {
                continue;
            }
            out[count] = epoll_event { events: told, u64: interest.data };
            count += 1;
            if interest.events & ONE_SHOT != 0 {
                interest.is_spent = true;
            } else if interest.events & EDGE == 0 {
                self.queue(place, Change::ANY);
            }
        }
        count
    }

    /// The waker of other threads that sleep there, if the queue is not empty after a wait. Then it has what the wait had no room for,
    /// and, as in Linux, what stays ready. A thread that sleeps has found the queue empty, and is told of what comes later.
    pub(crate) fn waker_of_others(&self) -> Option<Waker> {
        self.waker.filter(|_| self.queue.length > 0 && self.waiters > 0)
    }
}

/// What `epoll` says of a socket.
pub(super) fn ready(socket: &Socket) -> u32 {
    u32::from(socket.readiness() as u16)
}

#[cfg(test)]
mod tests;
