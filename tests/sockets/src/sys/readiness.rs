//! `poll`, `select`, `epoll`.

use super::base::*;
use std::ptr::{null, null_mut};

/// Descriptors with the events asked for; gives the events told.
pub fn poll(entries: &[(Fd, i16)], timeout_ms: i32) -> (Ret, Vec<i16>) {
    let mut all: Vec<libc::pollfd> =
        entries.iter().map(|(fd, events)| libc::pollfd { fd: *fd, events: *events, revents: 0 }).collect();
    // SAFETY: as many entries as said.
    let ret = Ret::of(unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout_ms) });
    (ret, all.iter().map(|entry| entry.revents).collect())
}

/// The same with a signal mask.
pub fn ppoll(entries: &[(Fd, i16)], timeout_ms: Option<i64>, unblocked: Option<i32>) -> (Ret, Vec<i16>) {
    let mut all: Vec<libc::pollfd> =
        entries.iter().map(|(fd, events)| libc::pollfd { fd: *fd, events: *events, revents: 0 }).collect();
    let time = timespec(timeout_ms.unwrap_or(0));
    let time = if timeout_ms.is_some() { &raw const time } else { null() };
    let mask = mask_without(unblocked);
    let mask = if unblocked.is_some() { &raw const mask } else { null() };
    // SAFETY: as many entries as said; time and mask live through the call.
    let ret = Ret::of(unsafe { libc::ppoll(all.as_mut_ptr(), all.len() as libc::nfds_t, time, mask) });
    (ret, all.iter().map(|entry| entry.revents).collect())
}

/// Three sets of descriptors, each below `FD_SETSIZE`.
pub type Sets<'a> = [&'a [Fd]; 3];

fn set_of(fds: &[Fd]) -> libc::fd_set {
    // SAFETY: all zeroes are an empty set.
    let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
    for fd in fds.iter().filter(|fd| (0..1024).contains(*fd)) {
        // SAFETY: the number is within the set.
        unsafe { libc::FD_SET(*fd, &raw mut set) };
    }
    set
}

fn members(fds: &[Fd], set: &libc::fd_set) -> Vec<Fd> {
    // SAFETY: the number is within the set.
    let is_member = |fd: &&Fd| (0..1024).contains(*fd) && unsafe { libc::FD_ISSET(**fd, set) };
    fds.iter().filter(is_member).copied().collect()
}

fn beyond(sets: &Sets<'_>) -> i32 {
    sets.iter().flat_map(|set| set.iter()).max().map_or(0, |fd| fd + 1)
}

pub fn select(sets: Sets<'_>, timeout_ms: Option<i64>) -> (Ret, [Vec<Fd>; 3]) {
    let mut all = sets.map(set_of);
    let milliseconds = timeout_ms.unwrap_or(0);
    let mut time = libc::timeval { tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000 };
    let time = if timeout_ms.is_some() { &raw mut time } else { null_mut() };
    let [reads, writes, excepts] = &mut all;
    // SAFETY: three sets and a time that live through the call.
    let ret = Ret::of(unsafe { libc::select(beyond(&sets), reads, writes, excepts, time) });
    (ret, std::array::from_fn(|which| members(sets[which], &all[which])))
}

pub fn pselect(sets: Sets<'_>, timeout_ms: Option<i64>, unblocked: Option<i32>) -> (Ret, [Vec<Fd>; 3]) {
    let mut all = sets.map(set_of);
    let time = timespec(timeout_ms.unwrap_or(0));
    let time = if timeout_ms.is_some() { &raw const time } else { null() };
    let mask = mask_without(unblocked);
    let mask = if unblocked.is_some() { &raw const mask } else { null() };
    let [reads, writes, excepts] = &mut all;
    // SAFETY: three sets, a time and a mask that live through the call.
    let ret = Ret::of(unsafe { libc::pselect(beyond(&sets), reads, writes, excepts, time, mask) });
    (ret, std::array::from_fn(|which| members(sets[which], &all[which])))
}

pub fn epoll_create(flags: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::epoll_create1(flags) })
}

pub fn epoll_ctl(epoll: Fd, operation: i32, fd: Fd, events: i32, data: u64) -> Ret {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: data };
    // SAFETY: the event lives through the call.
    Ret::of(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })
}

/// Up to `room` events and their data.
pub fn epoll_wait(epoll: Fd, room: usize, timeout_ms: i32) -> (Ret, Vec<(u32, u64)>) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room.max(1)];
    // SAFETY: room for as many events as said.
    let ret = Ret::of(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), how_many(room), timeout_ms) });
    events.truncate(ret.count());
    (ret, events.iter().map(|event| (event.events, event.u64)).collect())
}

/// The same with all signals blocked but `unblocked`.
pub fn epoll_pwait(epoll: Fd, room: usize, timeout_ms: i32, unblocked: i32) -> (Ret, Vec<(u32, u64)>) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room.max(1)];
    let mask = mask_without(Some(unblocked));
    // SAFETY: room for as many events as said; the mask lives through the call.
    let ret =
        Ret::of(unsafe { libc::epoll_pwait(epoll, events.as_mut_ptr(), how_many(room), timeout_ms, &raw const mask) });
    events.truncate(ret.count());
    (ret, events.iter().map(|event| (event.events, event.u64)).collect())
}
