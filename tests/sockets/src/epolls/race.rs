//! Several threads: some open, close, copy, add, change and delete, others wait, and act on what they are told as servers do. What is
//! told is held against rules that Linux keeps:
//!
//! * what was deleted, replaced, or closed before a wait began is not told by it; nor is what belongs to another instance;
//! * one wait tells of an interest once;
//! * a one shot is told once, by whichever thread; an edge once for each change at most;
//! * what is told was asked for;
//! * what is there to be read in the end is told, and whoever sleeps is woken for it.

use super::scene::{Entrance, PATIENCE_MS, Random, drain, hear, kernels_pair};
use crate::sys::{self, Fd};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT,
    EPOLLRDHUP,
};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const STEPS: usize = 60;
const SLOTS: usize = 5;
const INSTANCES: usize = 2;
const WORKERS: u64 = 2;
/// On each instance.
const WAITERS: u64 = 2;
/// Interests of a run, one for each call that makes or changes one; beyond it none are made.
const INTERESTS_MAX: usize = 4_096;
/// Bytes that wake who sleeps, at the end.
const WAKES: usize = 20;

/// What one successful call asked for.
#[derive(Default)]
struct Interest {
    instance: AtomicUsize,
    events: AtomicU64,
    /// When it was certainly no more; 0: it is.
    over_at: AtomicU64,
    told: AtomicU64,
    /// What may make an edge, being added included.
    changes: AtomicU64,
}

struct Slot {
    near: Fd,
    copy: Option<Fd>,
    far: Fd,
    unread: usize,
    has_ended: bool,
    /// Under each instance.
    interests: [Option<usize>; INSTANCES],
}

struct Run<'a> {
    entrance: &'a Entrance,
    seed: u64,
    /// Orders what happens.
    clock: AtomicU64,
    slots: [Mutex<Option<Slot>>; SLOTS],
    instances: [Fd; INSTANCES],
    interests: Vec<Interest>,
    used: AtomicUsize,
    is_over: AtomicBool,
    wrong: Mutex<Option<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    /// The other end says something; it is there when this returns.
    fn hear(&mut self) {
        sys::send(self.far, b"x", 0);
        self.unread += 1;
        hear(self.near, self.unread);
    }

    fn drain(&mut self) {
        drain(self.near);
        self.unread = 0;
    }
}

impl Run<'_> {
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn fails(&self, what: String) {
        locked(&self.wrong).get_or_insert(what);
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// A number and the data of an interest that is about to be asked for.
    fn interest(&self, instance: usize, events: i32) -> Option<(usize, u64)> {
        let number = self.used.fetch_add(1, Ordering::SeqCst);
        let interest = self.interests.get(number)?;
        interest.instance.store(instance, Ordering::SeqCst);
        interest.events.store(u64::from(events.cast_unsigned()), Ordering::SeqCst);
        interest.changes.store(1, Ordering::SeqCst);
        Some((number, self.seed << 32 | number as u64))
    }

    fn is_over(&self, number: Option<usize>) {
        if let Some(number) = number {
            self.interests[number].over_at.store(self.tick(), Ordering::SeqCst);
        }
    }

    /// So many changes, at most, are about to come.
    fn changes(&self, slot: &Slot, count: u64) {
        for number in slot.interests.into_iter().flatten() {
            self.interests[number].changes.fetch_add(count, Ordering::SeqCst);
        }
    }

    fn open(&self, random: &mut Random) -> Slot {
        let (near, far) = if random.once_in(3) { kernels_pair() } else { self.entrance.pass() };
        Slot { near, copy: None, far, unread: 0, has_ended: false, interests: [None; INSTANCES] }
    }

    /// All descriptors of it: with the last its interests are over.
    fn close(&self, slot: Slot) {
        sys::close(slot.near);
        if let Some(copy) = slot.copy {
            sys::close(copy);
        }
        slot.interests.into_iter().for_each(|number| self.is_over(number));
        sys::close(slot.far);
    }

    fn add(&self, slot: &mut Slot, instance: usize, events: i32) {
        let Some((number, data)) = self.interest(instance, events) else { return };
        // From here on it may be told.
        slot.interests[instance] = Some(number);
        let ret = sys::epoll_ctl(self.instances[instance], EPOLL_CTL_ADD, slot.near, events, data);
        if !ret.is_ok() {
            self.fails(format!("ADD of what isn't there: {ret}"));
        }
    }

    fn modify(&self, slot: &mut Slot, instance: usize, events: i32) {
        let old = slot.interests[instance];
        let Some((number, data)) = self.interest(instance, events) else { return };
        slot.interests[instance] = Some(number);
        let ret = sys::epoll_ctl(self.instances[instance], EPOLL_CTL_MOD, slot.near, events, data);
        self.is_over(old);
        if !ret.is_ok() {
            self.fails(format!("MOD of what is there: {ret}"));
        }
    }

    fn delete(&self, slot: &mut Slot, instance: usize) {
        let old = slot.interests[instance].take();
        let ret = sys::epoll_ctl(self.instances[instance], EPOLL_CTL_DEL, slot.near, 0, 0);
        self.is_over(old);
        if !ret.is_ok() {
            self.fails(format!("DEL of what is there: {ret}"));
        }
    }

    fn step(&self, random: &mut Random) {
        let mut place = locked(&self.slots[random.below(SLOTS)]);
        let Some(slot) = place.as_mut() else {
            *place = Some(self.open(random));
            return;
        };
        let instance = random.below(INSTANCES);
        let events = EPOLLIN | random.flags(&[(EPOLLOUT, 4), (EPOLLRDHUP, 4), (EPOLLET, 3), (EPOLLONESHOT, 3)]);
        match random.below(16) {
            0 => {
                if let Some(slot) = place.take() {
                    self.close(slot);
                }
            }
            1 => match slot.copy.take() {
                None => slot.copy = Some(sys::dup(slot.near).fd()),
                Some(copy) => _ = sys::close(copy),
            },
            2..=6 if !slot.has_ended => {
                self.changes(slot, 1);
                slot.hear();
            }
            7 => slot.drain(),
            8 if random.once_in(3) => {
                // Linux tells of a FIN twice, of the state and of data (`tcp_data_queue`); who waits between them is told of both.
                self.changes(slot, 2);
                slot.has_ended = true;
                sys::shutdown(slot.far, libc::SHUT_WR);
                sys::poll(&[(slot.near, libc::POLLRDHUP)], PATIENCE_MS);
            }
            9..=12 if slot.interests[instance].is_none() => self.add(slot, instance, events),
            9..=10 => self.modify(slot, instance, events),
            11..=13 if slot.interests[instance].is_some() => {
                self.delete(slot, instance);
                // As who takes it up again at once.
                if random.once_in(2) {
                    self.add(slot, instance, events);
                }
            }
            _ => {}
        }
    }

    /// One wait, and what is wrong with what it told; which interests it told of.
    fn wait(&self, instance: usize, room: usize, timeout_ms: i32) -> Vec<usize> {
        let begun = self.tick();
        let (ret, events) = sys::epoll_wait(self.instances[instance], room, timeout_ms);
        if !ret.is_ok() {
            self.fails(format!("wait: {ret}"));
        }
        let mut told = Vec::new();
        for (events, data) in events {
            let number = usize::try_from(data & 0xffff_ffff).unwrap_or(usize::MAX);
            let Some(interest) = self.interests.get(number).filter(|_| data >> 32 == self.seed) else {
                self.fails(format!("told of {data:#x}, which nobody asked for"));
                continue;
            };
            let asked = u32::try_from(interest.events.load(Ordering::SeqCst)).unwrap_or(0).cast_signed();
            let over_at = interest.over_at.load(Ordering::SeqCst);
            let times = interest.told.fetch_add(1, Ordering::SeqCst) + 1;
            let changes = interest.changes.load(Ordering::SeqCst);
            let what = format!("{number} asked for {asked:#x}, told {events:#x}");
            if told.contains(&number) {
                self.fails(format!("{what}: twice by one wait"));
            }
            if over_at != 0 && over_at < begun {
                self.fails(format!("{what}: over at {over_at}, by a wait of {begun}"));
            }
            if interest.instance.load(Ordering::SeqCst) != instance {
                self.fails(format!("{what}: by another instance"));
            }
            if events.cast_signed() & !(asked | EPOLLERR | EPOLLHUP) != 0 || events == 0 {
                self.fails(format!("{what}: not what was asked for"));
            }
            if asked & EPOLLONESHOT != 0 && times > 1 {
                self.fails(format!("{what}: {times} times"));
            }
            if asked & EPOLLET != 0 && times > changes {
                self.fails(format!("{what}: {times} times, of {changes} changes"));
            }
            told.push(number);
        }
        told
    }

    /// Waits, and does with what it is told what servers do: takes it out, reads, puts it back.
    fn waits(&self, instance: usize, random: &mut Random) {
        while !self.is_over.load(Ordering::SeqCst) {
            let timeout_ms = [0, 0, 1, 3][random.below(4)];
            let told = self.wait(instance, 1 + random.below(SLOTS), timeout_ms);
            let at = random.below(SLOTS);
            let Some(number) = told.first().filter(|_| random.once_in(2)) else { continue };
            for place in self.slots.iter().cycle().skip(at).take(SLOTS) {
                let mut place = locked(place);
                let Some(slot) = place.as_mut().filter(|slot| slot.interests[instance] == Some(*number)) else {
                    continue;
                };
                self.delete(slot, instance);
                if random.once_in(2) {
                    slot.drain();
                }
                self.add(slot, instance, EPOLLIN | random.flags(&[(EPOLLET, 3), (EPOLLONESHOT, 3), (EPOLLOUT, 4)]));
                break;
            }
        }
    }

    /// What can be read and was asked for is told, now that nobody does anything.
    fn tells_all(&self) {
        for (instance, _) in self.instances.iter().enumerate() {
            let told: Vec<usize> = (0..12).flat_map(|_| self.wait(instance, 16, 0)).collect();
            for place in &self.slots {
                let place = locked(place);
                let Some(slot) = place.as_ref() else { continue };
                let Some(number) = slot.interests[instance] else { continue };
                let interest = &self.interests[number];
                let events = u32::try_from(interest.events.load(Ordering::SeqCst)).unwrap_or(0).cast_signed();
                let is_ready = sys::poll(&[(slot.near, libc::POLLIN)], 0).1[0] & libc::POLLIN != 0;
                let is_due = events & (EPOLLET | EPOLLONESHOT) == 0 || interest.told.load(Ordering::SeqCst) == 0;
                if is_ready && is_due && !told.contains(&number) {
                    self.fails(format!("{number} asked for {events:#x}, is ready, and is not told"));
                }
            }
        }
    }
}

/// Threads that sleep on one instance, each with room for one event: each byte wakes one that reads it.
fn wakes(entrance: &Entrance, seed: u64) -> Result<(), String> {
    let mut random = Random::of(seed, 3);
    let epoll = sys::epoll_create(libc::EPOLL_CLOEXEC).fd();
    let (end, ends) = sys::pipe(libc::O_CLOEXEC);
    sys::epoll_ctl(epoll, EPOLL_CTL_ADD, end, EPOLLIN, u64::MAX);
    let pairs: Vec<(Fd, Fd)> =
        (0..3).map(|_| if random.once_in(3) { kernels_pair() } else { entrance.pass() }).collect();
    let kind = [0, EPOLLET, EPOLLONESHOT][random.below(3)];
    for (at, (near, _)) in (0..).zip(&pairs) {
        sys::epoll_ctl(epoll, EPOLL_CTL_ADD, *near, EPOLLIN | kind, at);
    }
    let read = AtomicUsize::new(0);
    let waits = || loop {
        let (ret, events) = sys::epoll_wait(epoll, 1, PATIENCE_MS);
        let Some((_, data)) = events.first() else { return ret.count() };
        let Some((near, _)) = usize::try_from(*data).ok().and_then(|at| pairs.get(at)) else { return 1 };
        while let Ok(count @ 1..) = usize::try_from(sys::recv(*near, &mut [0; 1], libc::MSG_DONTWAIT).value) {
            read.fetch_add(count, Ordering::SeqCst);
        }
        if kind == EPOLLONESHOT {
            sys::epoll_ctl(epoll, EPOLL_CTL_MOD, *near, EPOLLIN | kind, *data);
        }
    };
    let all_woken = std::thread::scope(|scope| {
        let waiters = [scope.spawn(waits), scope.spawn(waits)];
        let mut sent = 0;
        while sent < WAKES && !waiters.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            let many = 1 + random.below(pairs.len());
            pairs.iter().take(many).for_each(|(_, far)| _ = sys::send(*far, b"x", 0));
            sent += many;
            while read.load(Ordering::SeqCst) < sent && !waiters.iter().any(|waiter| waiter.is_finished()) {
                std::thread::yield_now();
            }
        }
        // Readable for good: it ends both.
        sys::write(ends, b"x");
        waiters.into_iter().all(|waiter| waiter.join().is_ok_and(|count| count == 1))
            && read.load(Ordering::SeqCst) == sent
    });
    pairs.iter().flat_map(|(near, far)| [*near, *far]).chain([epoll, end, ends]).for_each(|fd| _ = sys::close(fd));
    if all_woken { Ok(()) } else { Err(format!("seed {seed}: a thread that slept was not woken")) }
}

/// # Errors
/// Which rule is broken, and how.
pub(super) fn run(entrance: &Entrance, seed: u64) -> Result<(), String> {
    let run = Run {
        entrance,
        seed,
        clock: AtomicU64::new(0),
        slots: std::array::from_fn(|_| Mutex::new(None)),
        instances: [(); INSTANCES].map(|()| sys::epoll_create(libc::EPOLL_CLOEXEC).fd()),
        interests: (0..INTERESTS_MAX).map(|_| Interest::default()).collect(),
        used: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        wrong: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        let run = &run;
        for waiter in 0..WAITERS * INSTANCES as u64 {
            let instance = usize::try_from(waiter).unwrap_or(0) % INSTANCES;
            scope.spawn(move || run.waits(instance, &mut Random::of(seed, 200 + waiter)));
        }
        let work = |worker: u64| {
            let mut random = Random::of(seed, 100 + worker);
            (0..STEPS).for_each(|_| run.step(&mut random));
        };
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().for_each(|worker| drop(worker.join()));
        run.is_over.store(true, Ordering::SeqCst);
    });
    run.tells_all();
    for place in &run.slots {
        if let Some(slot) = locked(place).take() {
            run.close(slot);
        }
    }
    run.instances.into_iter().for_each(|epoll| _ = sys::close(epoll));
    match locked(&run.wrong).take() {
        Some(wrong) => Err(wrong),
        None => wakes(entrance, seed),
    }
}
