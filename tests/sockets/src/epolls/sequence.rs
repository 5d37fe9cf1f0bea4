//! One thread: what comes back is to be what Linux says, to the order in which events are told.

use super::scene::{Entrance, PATIENCE_MS, Random, drain, hear, kernels_pair};
use crate::names;
use crate::sys::{self, Fd};
use libc::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLET, EPOLLEXCLUSIVE, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP,
};

const STEPS: usize = 60;
const SLOTS: usize = 4;
const INSTANCES: usize = 2;
/// Waits after which also what is the kernel's has been told, if there is some of both.
const TURNS: usize = 9;

#[derive(Clone, Copy)]
struct Slot {
    /// The number it is to have: closed and opened again it is the same.
    number: Fd,
    /// Which file is there, of all there have been.
    file: usize,
}

struct File {
    far: Fd,
    unread: usize,
    has_ended: bool,
    descriptors: usize,
}

struct Run<'a> {
    entrance: &'a Entrance,
    random: Random,
    slots: [Option<Slot>; SLOTS],
    numbers: [Fd; SLOTS],
    files: Vec<File>,
    instances: [Fd; INSTANCES],
    /// Those also have descriptors of the kernel's.
    is_mixed: bool,
    said: Vec<String>,
}

impl Run<'_> {
    fn open(&mut self, at: usize) {
        let is_kernels = self.is_mixed && self.random.once_in(2);
        let (near, far) = if is_kernels { kernels_pair() } else { self.entrance.pass() };
        sys::dup2(near, self.numbers[at]);
        sys::close(near);
        self.slots[at] = Some(Slot { number: self.numbers[at], file: self.files.len() });
        self.files.push(File { far, unread: 0, has_ended: false, descriptors: 1 });
        self.said.push(format!("open {at}"));
    }

    fn copy(&mut self, from: Slot, at: usize) {
        sys::dup2(from.number, self.numbers[at]);
        self.files[from.file].descriptors += 1;
        self.slots[at] = Some(Slot { number: self.numbers[at], file: from.file });
        self.said.push(format!("copy to {at}"));
    }

    fn close(&mut self, at: usize) {
        let Some(slot) = self.slots[at].take() else { return };
        sys::close(slot.number);
        let file = &mut self.files[slot.file];
        file.descriptors -= 1;
        if file.descriptors == 0 {
            sys::close(file.far);
        }
        self.said.push(format!("close {at}"));
    }

    /// The other end says something, or that nothing follows; seen here before it goes on.
    fn hear(&mut self, slot: Slot, ends: bool) {
        let file = &mut self.files[slot.file];
        if file.has_ended {
            return;
        }
        if ends {
            file.has_ended = true;
            sys::shutdown(file.far, libc::SHUT_WR);
            sys::poll(&[(slot.number, libc::POLLRDHUP)], PATIENCE_MS);
            self.said.push("end".to_owned());
            return;
        }
        file.unread += 1;
        sys::send(file.far, b"x", 0);
        hear(slot.number, file.unread);
        self.said.push("hear".to_owned());
    }

    fn control(&mut self, at: usize, epoll: Fd) {
        let operation = [EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL][self.random.below(4)];
        let events = self.random.flags(&[
            (EPOLLIN, 2),
            (EPOLLOUT, 4),
            (EPOLLRDHUP, 4),
            (EPOLLET, 3),
            (EPOLLONESHOT, 4),
            (EPOLLEXCLUSIVE, 12),
        ]);
        // Whether it may be told again without a change.
        let lasts = u64::from(events & (EPOLLET | EPOLLONESHOT) == 0);
        let data = self.random.next() & 0xffff << 1 | lasts;
        let ret = sys::epoll_ctl(epoll, operation, self.numbers[at], events, data);
        self.said.push(format!("ctl {operation} {at} {} {data:x}={ret}", names::events(events.cast_unsigned())));
    }

    fn wait(&mut self, epoll: Fd) {
        let list = |events: &[(u32, u64)]| {
            let words: Vec<String> =
                events.iter().map(|(events, data)| format!("{data:x}:{}", names::events(*events))).collect();
            words.join(" ")
        };
        if !self.is_mixed {
            let room = 1 + self.random.below(SLOTS + 1);
            let (ret, events) = sys::epoll_wait(epoll, room, 0);
            self.said.push(format!("wait {room}={ret}[{}]", list(&events)));
            return;
        }
        let mut all: Vec<(u32, u64)> = (0..TURNS).flat_map(|_| sys::epoll_wait(epoll, 16, 0).1).collect();
        all.sort_unstable();
        // What lasts is told again each time.
        all.dedup_by(|one, other| one == other && one.1 & 1 != 0);
        self.said.push(format!("waits=[{}]", list(&all)));
    }

    fn step(&mut self) {
        let (at, other, which) = (self.random.below(SLOTS), self.random.below(SLOTS), self.random.below(INSTANCES));
        let epoll = self.instances[which];
        match (self.random.below(20), self.slots[at], self.slots[other]) {
            (0..=1, None, _) => self.open(at),
            (2, None, Some(from)) => self.copy(from, at),
            (2, Some(_), _) => self.close(at),
            (3..=6, Some(slot), _) => self.hear(slot, false),
            (7, Some(slot), _) if self.random.once_in(4) => self.hear(slot, true),
            (8..=9, Some(slot), _) => {
                drain(slot.number);
                self.files[slot.file].unread = 0;
                self.said.push(format!("read {at}"));
            }
            (10..=15, _, _) => self.control(at, epoll),
            _ => self.wait(epoll),
        }
    }
}

/// What came back, all of it.
pub(super) fn run(entrance: &Entrance, seed: u64) -> String {
    let numbers = std::array::from_fn(|at| 300 + i32::try_from(at).unwrap_or(0));
    let mut run = Run {
        entrance,
        random: Random::of(seed, 1),
        slots: [None; SLOTS],
        numbers,
        files: Vec::new(),
        instances: [(); INSTANCES].map(|()| sys::epoll_create(libc::EPOLL_CLOEXEC).fd()),
        is_mixed: seed.is_multiple_of(3),
        said: Vec::new(),
    };
    for _ in 0..STEPS {
        run.step();
    }
    (0..SLOTS).for_each(|at| run.close(at));
    for epoll in run.instances {
        run.said.push(sys::epoll_wait(epoll, 8, 0).0.to_string());
        sys::close(epoll);
    }
    run.said.join("; ")
}
