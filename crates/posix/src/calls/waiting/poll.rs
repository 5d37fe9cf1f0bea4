//! `poll` and `select`: this library looks at our sockets, and the kernel at its own.

use crate::calls::give_int;
use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::sys::sleep::{readable, sleep};
use crate::sys::wakers::Waker;
use crate::world::lock::{Guard, lock};
use crate::world::wait::{Next, Waiting, poll_again, return_waker, sleep_time, take_waker};
use libc::{c_int, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use rustix::io::Errno;
use std::time::Duration;

fn is_ours(fd: c_int) -> bool {
    matches!(descriptor::get(fd), Entry::Socket(_) | Entry::Epoll(_) | Entry::Remote)
}

/// # Safety
/// As `poll`.
#[unsafe(no_mangle)]
pub(in crate::calls) unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    // SAFETY: `fds` points to `count` writable entries: the program's duty by poll(2).
    let set = unsafe { slice(fds, count) };
    if !set.iter().any(|fd| is_ours(fd.fd)) {
        // SAFETY: `fds` points to `count` writable entries: the program's duty by poll(2).
        return unsafe { libc_next::poll(fds, count, timeout_ms) };
    }
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    give_int(wait(set, timeout, std::ptr::null()))
}

/// # Safety
/// As `__poll_chk`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int {
    crate::calls::transfer::receive::overflows((count as usize).saturating_mul(size_of::<pollfd>()), room);
    // SAFETY: `fds` points to `count` writable entries: the program's duty by poll(2).
    unsafe { poll(fds, count, timeout_ms) }
}

/// Entries of one call at most: no process can have more descriptors on a machine that is set up as usual (`fs.nr_open`).
const ENTRIES_MAX: nfds_t = 1 << 20;

/// The entries. There are none if they are nowhere or too many. Then the kernel is asked, and refuses that.
///
/// # Safety
/// `fds` points to `count` writable entries, or is nowhere.
unsafe fn slice<'a>(fds: *mut pollfd, count: nfds_t) -> &'a mut [pollfd] {
    if is_nowhere(fds) || count > ENTRIES_MAX {
        return &mut [];
    }
    // SAFETY: `fds` points to `count` entries: this function's condition.
    unsafe { std::slice::from_raw_parts_mut(fds, count as usize) }
}

/// Whether a time is one, of so many parts per second.
fn is_time(seconds: i64, parts: i64, parts_per_second: i64) -> bool {
    seconds >= 0 && (0..parts_per_second).contains(&parts)
}

fn time_of(time: &timespec) -> Duration {
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// # Safety
/// As `ppoll`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    // SAFETY: `fds` points to `count` writable entries, and `timeout` and `mask` are null or valid: the program's duty by ppoll(2).
    let set = unsafe { slice(fds, count) };
    if !set.iter().any(|fd| is_ours(fd.fd)) {
        // SAFETY: `fds` points to `count` writable entries, and `timeout` and `mask` are null or valid: the program's duty by ppoll(2).
        return unsafe { libc_next::ppoll(fds, count, timeout, mask) };
    }
    // SAFETY: `fds` points to `count` writable entries, and `timeout` and `mask` are null or valid: the program's duty by ppoll(2).
    let timeout = unsafe { timeout.as_ref() };
    if timeout.is_some_and(|time| !is_time(time.tv_sec, time.tv_nsec, 1_000_000_000)) {
        return give_int(Err(Errno::INVAL));
    }
    give_int(wait(set, timeout.map(time_of), mask))
}

/// # Safety
/// As `__ppoll_chk`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    crate::calls::transfer::receive::overflows((count as usize).saturating_mul(size_of::<pollfd>()), room);
    // SAFETY: `fds` points to `count` writable entries, and `timeout` and `mask` are null or valid: the program's duty by ppoll(2).
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Looks at ours; how many are ready.
fn look(guard: &Guard, set: &mut [pollfd]) -> c_int {
    let mut ready = 0;
    for entry in set {
        entry.revents = 0;
        let found = match descriptor::get(entry.fd) {
            Entry::Socket(number) => guard
                .sockets
                .get(number)
                .map_or(libc::POLLNVAL, |socket| socket.readiness() & (entry.events | libc::POLLERR | libc::POLLHUP)),
            Entry::Epoll(number) if crate::calls::waiting::epoll::is_ready(guard, number) => {
                entry.events & (libc::POLLIN | libc::POLLRDNORM)
            }
            _ => continue,
        };
        entry.revents = found;
        ready += c_int::from(found != 0);
    }
    ready
}

/// Whether the kernel is to be asked of `fd` too.
fn is_kernels(guard: &Guard, fd: c_int) -> bool {
    match descriptor::get(fd) {
        Entry::Kernel | Entry::Own | Entry::Remote => true,
        // Its kernel half has the kernel's descriptors, and wakes threads that sleep there.
        Entry::Epoll(_) => false,
        Entry::Socket(number) => guard.sockets.get(number).is_some_and(|socket| socket.is_dual),
    }
}

/// Has ours ring `waker` when something comes, or no more.
fn enlist(guard: &mut Guard, set: &[pollfd], waker: Option<Waker>, begins: bool) {
    for entry in set {
        match (waker, descriptor::get(entry.fd)) {
            (Some(waker), Entry::Socket(number)) => match guard.sockets.get_mut(number) {
                Some(socket) if begins => socket.waiters.push(waker),
                Some(socket) => socket.waiters.retain(|other| *other != waker),
                None => {}
            },
            (_, Entry::Epoll(number)) => crate::calls::waiting::epoll::count_waiter(guard, number, begins),
            _ => {}
        }
    }
}

fn wait(set: &mut [pollfd], timeout: Option<Duration>, mask: *const sigset_t) -> Result<c_int, Errno> {
    if crate::sys::this_process::departure::is_detached() {
        return crate::calls::remote::client::wait(set, timeout, mask);
    }
    let mut guard = lock()?;
    let mut waiting = Waiting::begin(timeout);
    let all = set.len();
    loop {
        // What has come already is told first: the stack has its turn again soon enough.
        let mut now = guard.clock_now();
        let mut ready = if guard.is_driven(now) { look(&guard, set) } else { 0 };
        if !set.iter().any(|entry| entry.revents & libc::POLLIN != 0) || ready == 0 {
            now = guard.drive_now();
            ready = look(&guard, set);
        }
        guard.told = ready as u32;
        let next = if ready > 0 { Next::Over } else { waiting.next(&mut guard, now, || false, |_| false) };
        // How to sleep; `None`: what is there is told at once.
        let as_what = match next {
            Next::Over => {
                waiting.found(&mut guard, now);
                if !set.iter().any(|entry| entry.fd >= 0 && is_kernels(&guard, entry.fd)) {
                    return Ok(ready);
                }
                None
            }
            Next::Interrupted => return Err(Errno::INTR),
            Next::Poll => {
                guard = poll_again(guard)?;
                continue;
            }
            Next::Sleep { leads, deadline } => Some((leads, deadline)),
        };
        // The kernel's in their places, ours as holes, then what wakes.
        let place = |entry: &pollfd| pollfd {
            fd: if is_kernels(&guard, entry.fd) { entry.fd } else { -1 },
            events: entry.events,
            revents: 0,
        };
        let mut fds: Vec<pollfd> = {
            crate::sys::arena::set_inside(false);
            let fds = Vec::with_capacity(all + 2 + all);
            crate::sys::arena::set_inside(true);
            fds
        };
        fds.extend(set.iter().map(place));
        let mut waker = None;
        let mut time = Some(Duration::ZERO);
        if let Some((leads, deadline)) = as_what {
            waker = take_waker(&mut guard);
            enlist(&mut guard, set, waker, true);
            fds.push(readable(if leads { guard.doorbell } else { -1 }));
            fds.push(readable(waker.map_or(-1, |waker| guard.wakers.descriptor(waker))));
            // An instance of epoll's own kernel half.
            fds.extend(set.iter().filter(|e| matches!(descriptor::get(e.fd), Entry::Epoll(_))).map(|e| readable(e.fd)));
            time = sleep_time(&mut guard, now, deadline, (waker, leads));
            if !leads {
                guard.follow(waiting.thread, waker);
            }
        }
        drop(guard);
        let time = if waiting.has_been_interrupted() { Some(Duration::ZERO) } else { time };
        let slept = sleep(&mut fds, time, mask);
        guard = lock()?;
        let is_over = as_what.is_none();
        if !is_over {
            guard.follows_no_more(waiting.thread);
            enlist(&mut guard, set, waker, false);
            return_waker(&mut guard, waker);
            guard.drive_now();
            look(&guard, set);
        }
        for (entry, kernel) in set.iter_mut().zip(&fds) {
            entry.revents |= if kernel.fd >= 0 { kernel.revents } else { 0 };
        }
        let total = set.iter().filter(|entry| entry.revents != 0).count() as c_int;
        if total > 0 || is_over || slept.is_err() {
            waiting.slept(&guard, now);
            waiting.found(&mut guard, now);
            return if total > 0 || is_over { Ok(total) } else { slept };
        }
        waiting.slept(&guard, now);
    }
}

/// A set of descriptors as `select` has them.
struct Sets {
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
}

impl Sets {
    /// # Safety
    /// The set is null or valid.
    unsafe fn has(set: *mut fd_set, fd: c_int) -> bool {
        // SAFETY: the set is null or valid: this function's condition.
        !set.is_null() && unsafe { libc::FD_ISSET(fd, set) }
    }

    /// # Safety
    /// The sets are null or valid.
    unsafe fn asked(&self, count: c_int) -> Vec<pollfd> {
        let mut fds = Vec::new();
        for fd in 0..count.min(libc::FD_SETSIZE as c_int) {
            let mut events = 0;
            // SAFETY: the sets are null or valid: this function's condition.
            unsafe {
                if Sets::has(self.read, fd) {
                    events |= libc::POLLIN;
                }
                if Sets::has(self.write, fd) {
                    events |= libc::POLLOUT;
                }
                if Sets::has(self.except, fd) {
                    events |= libc::POLLPRI;
                }
            }
            if events != 0 {
                fds.push(pollfd { fd, events, revents: 0 });
            }
        }
        fds
    }

    /// # Safety
    /// The sets are null or valid.
    unsafe fn tell(&self, fds: &[pollfd]) -> Result<c_int, Errno> {
        if fds.iter().any(|entry| entry.revents & libc::POLLNVAL != 0) {
            return Err(Errno::BADF);
        }
        let mut bits = 0;
        for (set, asked, told) in [
            (self.read, libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
            (self.write, libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
            (self.except, libc::POLLPRI, libc::POLLPRI),
        ] {
            if set.is_null() {
                continue;
            }
            for entry in fds.iter().filter(|entry| entry.events & asked != 0) {
                // SAFETY: the sets are null or valid: this function's condition.
                unsafe {
                    if entry.revents & told == 0 {
                        libc::FD_CLR(entry.fd, set);
                    } else {
                        bits += 1;
                    }
                }
            }
        }
        Ok(bits)
    }
}

/// # Safety
/// As `select`.
#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    let sets = Sets { read, write, except };
    // SAFETY: the sets and `timeout` are null or valid: the program's duty by select(2).
    let mut fds = unsafe { sets.asked(count) };
    if !fds.iter().any(|entry| is_ours(entry.fd)) {
        // SAFETY: the sets and `timeout` are null or valid: the program's duty by select(2).
        return unsafe { libc_next::select(count, read, write, except, timeout) };
    }
    // SAFETY: the sets and `timeout` are null or valid: the program's duty by select(2).
    let time = unsafe { timeout.as_ref() };
    if count < 0 || time.is_some_and(|time| time.tv_sec < 0 || time.tv_usec < 0) {
        return give_int(Err(Errno::INVAL));
    }
    let time = time.map(|t| Duration::new(t.tv_sec.max(0) as u64, t.tv_usec.clamp(0, 999_999) as u32 * 1_000));
    let start = std::time::Instant::now();
    let outcome = wait(&mut fds, time, std::ptr::null());
    // SAFETY: the sets and `timeout` are null or valid: the program's duty by select(2).
    if let (Some(left), Some(time)) = (unsafe { timeout.as_mut() }, time) {
        // Linux says what is left of the time.
        let rest = time.saturating_sub(start.elapsed());
        *left = timeval { tv_sec: rest.as_secs() as i64, tv_usec: i64::from(rest.subsec_micros()) };
    }
    // SAFETY: the sets and `timeout` are null or valid: the program's duty by select(2).
    give_int(outcome.and_then(|_| unsafe { sets.tell(&fds) }))
}

/// # Safety
/// As `pselect`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = Sets { read, write, except };
    // SAFETY: the sets, `timeout` and `mask` are null or valid: the program's duty by pselect(2).
    let mut fds = unsafe { sets.asked(count) };
    if !fds.iter().any(|entry| is_ours(entry.fd)) {
        // SAFETY: the sets, `timeout` and `mask` are null or valid: the program's duty by pselect(2).
        return unsafe { libc_next::pselect(count, read, write, except, timeout, mask) };
    }
    // SAFETY: the sets, `timeout` and `mask` are null or valid: the program's duty by pselect(2).
    let time = unsafe { timeout.as_ref() };
    if count < 0 || time.is_some_and(|time| !is_time(time.tv_sec, time.tv_nsec, 1_000_000_000)) {
        return give_int(Err(Errno::INVAL));
    }
    let time = time.map(time_of);
    // SAFETY: the sets, `timeout` and `mask` are null or valid: the program's duty by pselect(2).
    give_int(wait(&mut fds, time, mask).and_then(|_| unsafe { sets.tell(&fds) }))
}
