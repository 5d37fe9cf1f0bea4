//! `epoll`: the kernel's instance has the kernel's descriptors, and the device and a waker to be woken by. Our instance has our sockets.

use crate::calls::give_int;
use crate::lifecycle::detached::socket_of;
use crate::sockets::epoll::{Epoll, NESTED};
use crate::sys::descriptor::{self, Entry};
use crate::sys::kernel_socket::{kernel_option, kernel_structure};
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::sys::sleep::timespec_of;
use crate::world::leader::Thread;
use crate::world::lock::{Guard, lock};
use crate::world::wait::{Next, Waiting, poll_again, sleep_time};
use libc::{c_int, epoll_event, sigset_t, timespec};
use qanat_nic::breakdown;
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Waits with something of ours to tell after which the kernel's instance is asked too.
const KERNEL_EVERY: u32 = 8;
/// Events told at once at most.
const EVENTS_MAX: usize = 1_024;

/// Threads that wait on instances without sockets of ours.
static IN_KERNEL: AtomicU32 = AtomicU32::new(0);

/// Tell the library's own descriptors in an instance from a program's, in whatever process.
fn device_mark() -> u64 {
    crate::sys::arena::mark(0)
}

fn waker_mark() -> u64 {
    crate::sys::arena::mark(1)
}

/// Sockets that are the kernel's so far, with the instances they were put in: those move with them if they become ours.
static WATCHED: Mutex<Option<HashMap<c_int, Watched>>> = Mutex::new(None);

#[derive(Default)]
struct Watched {
    /// Which socket (`SO_COOKIE`): its number may have been closed past us, and be another's.
    cookie: Option<u64>,
    /// Instances, and what it was put there with.
    places: Vec<(c_int, epoll_event)>,
}

fn cookie(fd: c_int) -> Option<u64> {
    kernel_structure(fd, libc::SOL_SOCKET, libc::SO_COOKIE)
}

/// A descriptor of the kernel's is closed.
pub(in crate::calls) fn closed(fd: c_int) {
    if let Ok(mut watched) = WATCHED.try_lock()
        && let Some(watched) = watched.as_mut()
    {
        watched.remove(&fd);
    }
}

fn remember(epoll: c_int, operation: c_int, fd: c_int, event: epoll_event) {
    if crate::sys::wishes::wishes().is_none() || crate::sys::arena::is_inside() {
        return;
    }
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if operation != libc::EPOLL_CTL_ADD {
        let Some(Watched { places, .. }) = watched.as_mut().and_then(|watched| watched.get_mut(&fd)) else { return };
        places.retain(|(other, _)| *other != epoll);
        if operation == libc::EPOLL_CTL_MOD {
            places.push((epoll, event));
        }
        return;
    }
    let family = kernel_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    if matches!(family, Some(libc::AF_INET | libc::AF_INET6)) {
        let watched = watched.get_or_insert_default().entry(fd).or_default();
        let cookie = cookie(fd);
        if watched.cookie != cookie {
            *watched = Watched { cookie, places: Vec::new() };
        }
        watched.places.push((epoll, event));
    }
}

/// `fd` has become ours: so do its places in instances.
pub(in crate::calls) fn adopted(guard: &mut Guard, fd: c_int, number: u32) {
    let places = {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = watched.as_mut().and_then(|watched| watched.remove(&fd));
        watched.filter(|watched| watched.cookie == cookie(fd)).map(|watched| watched.places).unwrap_or_default()
    };
    let is_dual = guard.sockets.get(number).is_some_and(|socket| socket.is_dual);
    for (epoll, mut event) in places {
        if !is_dual {
            // SAFETY: the pointer is to a valid event.
            unsafe { libc_next::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, fd, &raw mut event) };
        }
        // It was one, and has room.
        let waker = instance(guard, epoll)
            .and_then(|instance| guard.sockets.control(instance, libc::EPOLL_CTL_ADD, (number, fd), Some(event)));
        if let Ok(Some(waker)) = waker {
            guard.wakers.wake(waker);
        }
    }
}

/// The number of the instance `epoll`, made if it is not known yet.
fn instance(guard: &mut Guard, epoll: c_int) -> Result<u32, Errno> {
    if let Entry::Epoll(number) = descriptor::get(epoll) {
        return Ok(number);
    }
    let add = |fd: c_int, mark: u64, flags: c_int| -> Result<(), Errno> {
        let mut event = epoll_event { events: flags as u32, u64: mark };
        // SAFETY: the pointer is to a valid event.
        let status = unsafe { libc_next::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        if status == 0 { Ok(()) } else { Err(libc_next::errno()) }
    };
    // The leader arms it before it goes to sleep.
    if guard.doorbell >= 0 {
        add(guard.doorbell, device_mark(), libc::EPOLLET)?;
    }
    let waker = guard.wakers.take();
    if let Some(waker) = waker {
        add(guard.wakers.descriptor(waker), waker_mark(), libc::EPOLLIN)?;
    }
    let made = Epoll::new(waker);
    let epolls = &mut guard.sockets.epolls;
    let number = match epolls.iter().position(Option::is_none) {
        Some(free) => {
            epolls[free] = Some(made);
            free as u32
        }
        None => {
            epolls.push(Some(made));
            epolls.len() as u32 - 1
        }
    };
    if !descriptor::set(epoll, Entry::Epoll(number)) {
        guard.release_epoll(number);
        return Err(Errno::NOMEM);
    }
    // A thread that sleeps there sleeps in the kernel's instance alone. It is woken to look here, too.
    if let Some(waker) = waker.filter(|_| IN_KERNEL.load(Ordering::Relaxed) > 0) {
        guard.wakers.wake(waker);
    }
    Ok(number)
}

/// # Safety
/// As `epoll_ctl`.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
    if crate::calls::remote::client::refuses_epoll(fd) {
        return give_int(Err(Errno::OPNOTSUPP));
    }
    let Some(number) = socket_of(fd) else {
        // SAFETY: `event` is null or readable: the program's duty by epoll_ctl(2).
        let status = unsafe { libc_next::epoll_ctl(epoll, operation, fd, event) };
        if status == 0 && operation == libc::EPOLL_CTL_ADD {
            nest(fd);
        }
        if status == 0 {
            // SAFETY: `event` is null or readable unless nobody reads it: the program's duty by epoll_ctl(2).
            let event = unsafe { read_event(operation, event) }.unwrap_or(epoll_event { events: 0, u64: 0 });
            remember(epoll, operation, fd, event);
        }
        return status;
    };
    // SAFETY: `event` is null or readable unless nobody reads it: the program's duty by epoll_ctl(2).
    let event = unsafe { read_event(operation, event) };
    give_int(control(epoll, operation, fd, number, event))
}

/// The event of an `epoll_ctl`. As on Linux, nobody looks at what `EPOLL_CTL_DEL` is given.
///
/// # Safety
/// `event` is readable or nowhere, unless `operation` is `EPOLL_CTL_DEL`.
unsafe fn read_event(operation: c_int, event: *const epoll_event) -> Option<epoll_event> {
    if operation == libc::EPOLL_CTL_DEL || is_nowhere(event) {
        return None;
    }
    // SAFETY: `event` is readable: this function's condition.
    Some(unsafe { event.read_unaligned() })
}

fn control(epoll: c_int, operation: c_int, fd: c_int, number: u32, event: Option<epoll_event>) -> Result<i32, Errno> {
    let mut guard = lock()?;
    // Another thread may have closed it meanwhile, and the socket's number may be another's: that one is not asked for.
    if descriptor::get(fd) != Entry::Socket(number) {
        return Err(Errno::BADF);
    }
    let is_dual = guard.sockets.get(number).ok_or(Errno::BADF)?.is_dual;
    let instance = instance(&mut guard, epoll)?;
    if let Some(waker) = guard.sockets.control(instance, operation, (number, fd), event)? {
        guard.wakers.wake(waker);
    }
    if is_dual {
        let mut event = event.unwrap_or(epoll_event { events: 0, u64: 0 });
        // SAFETY: the pointer is to a valid event.
        unsafe { libc_next::epoll_ctl(epoll, operation, fd, &raw mut event) };
    }
    Ok(0)
}

/// # Safety
/// As `epoll_wait`.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int {
    // SAFETY: `events` has room for `most` events: the program's duty by epoll_wait(2).
    unsafe { epoll_pwait(epoll, events, most, timeout_ms, std::ptr::null()) }
}

/// # Safety
/// As `epoll_pwait`.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let Entry::Epoll(number) = descriptor::get(epoll) else {
        // SAFETY: `events` has room for `most` events, and `mask` is null or valid: the program's duty by epoll_pwait(2).
        return unsafe { wait_kernel(epoll, events, most, timeout_ms, mask) };
    };
    if most <= 0 || is_nowhere(events) {
        return give_int(Err(if most <= 0 { Errno::INVAL } else { Errno::FAULT }));
    }
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    // SAFETY: `events` has room for `most` events, and `mask` is null or valid: the program's duty by epoll_pwait(2).
    let out = unsafe { std::slice::from_raw_parts_mut(events, (most as usize).min(EVENTS_MAX)) };
    give_int(wait(epoll, number, out, timeout, mask))
}

/// Waits on an instance without sockets of ours, which may get one while a thread sleeps there.
///
/// # Safety
/// As `epoll_pwait`.
unsafe fn wait_kernel(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
    mask: *const sigset_t,
) -> c_int {
    let start = std::time::Instant::now();
    let mut count;
    loop {
        set_nested_wakers();
        IN_KERNEL.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `events` has room for `most` events, and `mask` is null or valid: the program's duty by epoll_pwait(2).
        count = unsafe { libc_next::epoll_pwait(epoll, events, most, left(timeout_ms, start), mask) };
        IN_KERNEL.fetch_sub(1, Ordering::Relaxed);
        if count <= 0 || !set_nested_wakers() {
            break;
        }
        // A packet that was for nobody there may have been what woke it.
        // SAFETY: `events` has room for `most` events, and `mask` is null or valid: the program's duty by epoll_pwait(2).
        count = unsafe { libc_next::epoll_pwait(epoll, events, most, 0, std::ptr::null()) };
        if count != 0 || left(timeout_ms, start) == 0 {
            break;
        }
    }
    if count <= 0 || crate::world::lock::shared().is_none() {
        return count;
    }
    // SAFETY: the kernel has written as many entries.
    let out = unsafe { std::slice::from_raw_parts_mut(events, count as usize) };
    let (kept, own) = without_own(out);
    // It has got a socket of ours while this thread slept.
    if own.device
        && let Ok(mut guard) = lock()
    {
        guard.drive_now();
    }
    if kept > 0 || !own.any() {
        return kept as c_int;
    }
    // SAFETY: `events` has room for `most` events, and `mask` is null or valid: the program's duty by epoll_pwait(2).
    unsafe { epoll_pwait(epoll, events, most, left(timeout_ms, start), mask) }
}

/// What is left of a time that began at `start`.
fn left(timeout_ms: c_int, start: std::time::Instant) -> c_int {
    match timeout_ms {
        0.. => timeout_ms.saturating_sub(start.elapsed().as_millis().min(i32::MAX as u128) as c_int).max(0),
        _ => timeout_ms,
    }
}

/// `fd` has been put in an instance; it may be one itself.
fn nest(fd: c_int) {
    let Entry::Epoll(number) = descriptor::get(fd) else { return };
    let Ok(mut guard) = lock() else { return };
    let doorbell = guard.doorbell;
    if let Some(epoll) = guard.sockets.epolls.get_mut(number as usize).and_then(Option::as_mut)
        && !std::mem::replace(&mut epoll.is_nested, true)
    {
        NESTED.fetch_add(1, Ordering::Relaxed);
        // A thread that sleeps on the other instance is woken by every packet, because it can't lead.
        epoll.is_armed = true;
        change_device(fd, doorbell, libc::EPOLLIN);
    }
}

/// Has the wakers of instances that are in others say whether there is something to tell; whether there are such instances.
fn set_nested_wakers() -> bool {
    if NESTED.load(Ordering::Relaxed) == 0 {
        return false;
    }
    let Ok(mut guard) = lock() else { return false };
    guard.drive_now();
    let epolls = guard.sockets.epolls.iter().flatten().filter(|epoll| epoll.is_nested);
    for epoll in epolls {
        let Some(waker) = epoll.waker else { continue };
        if epoll.has_ready(|socket| guard.sockets.get(socket)) {
            guard.wakers.wake(waker);
        } else {
            crate::sys::wakers::clear(guard.wakers.descriptor(waker));
        }
    }
    true
}

/// Which of the library's own descriptors an instance has told of.
#[derive(Clone, Copy, Default)]
struct Own {
    device: bool,
    waker: bool,
}

impl Own {
    fn any(self) -> bool {
        self.device || self.waker
    }
}

/// Leaves out what is the library's own; how many are left, and what that was.
fn without_own(out: &mut [epoll_event]) -> (usize, Own) {
    let (mut kept, mut own) = (0, Own::default());
    for index in 0..out.len() {
        let event = out[index];
        let data = event.u64;
        if data == device_mark() {
            own.device = true;
        } else if data == waker_mark() {
            own.waker = true;
        } else {
            out[kept] = event;
            kept += 1;
        }
    }
    (kept, own)
}

/// # Safety
/// As `epoll_pwait2`.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: `events` has room for `most` events, and `timeout` and `mask` are null or valid: the program's duty by epoll_pwait2(2).
    let time = unsafe { timeout.as_ref() };
    let time = time.map(|time| Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32));
    let Entry::Epoll(number) = descriptor::get(epoll) else {
        let time_ms = time.map_or(-1, |time| time.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as c_int);
        // SAFETY: `events` has room for `most` events, and `timeout` and `mask` are null or valid: the program's duty by epoll_pwait2(2).
        return unsafe { wait_kernel(epoll, events, most, time_ms, mask) };
    };
    if most <= 0 || is_nowhere(events) {
        return give_int(Err(if most <= 0 { Errno::INVAL } else { Errno::FAULT }));
    }
    // SAFETY: `events` has room for `most` events, and `timeout` and `mask` are null or valid: the program's duty by epoll_pwait2(2).
    let out = unsafe { std::slice::from_raw_parts_mut(events, (most as usize).min(EVENTS_MAX)) };
    give_int(wait(epoll, number, out, time, mask))
}

/// Tells what of ours is ready.
fn collect(guard: &mut Guard, number: u32, out: &mut [epoll_event]) -> usize {
    let (count, behind) = guard.sockets.tell(number, out);
    guard.told = (count + behind) as u32;
    let waker = guard.sockets.epoll_mut(number).and_then(|epoll| epoll.waker_of_others());
    if let Some(waker) = waker.filter(|_| count > 0) {
        guard.wakers.wake(waker);
    }
    count
}

/// Asks the kernel's instance; what is the library's own is left out.
fn ask_kernel(
    epoll: c_int,
    out: &mut [epoll_event],
    time: Option<Duration>,
    mask: *const sigset_t,
) -> Result<(usize, Own), Errno> {
    let most = out.len() as c_int;
    let count = match time {
        // SAFETY: the pointer is to as many writable events as the length says.
        Some(Duration::ZERO) => unsafe { libc_next::epoll_pwait(epoll, out.as_mut_ptr(), most, 0, mask) },
        time => {
            let timeout = time.map(timespec_of);
            let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: the pointer is to as many writable events as the length says; timeout and mask are valid or null.
            unsafe {
                libc::syscall(libc::SYS_epoll_pwait2, epoll, out.as_mut_ptr(), most, timeout, mask, 8usize) as c_int
            }
        }
    };
    if count < 0 {
        return Err(libc_next::errno());
    }
    Ok(without_own(&mut out[..count as usize]))
}

/// The kernel's instance had so many events to tell.
fn kernels_had(guard: &mut Guard, number: u32, events: usize) {
    if let Some(instance) = guard.sockets.epolls.get_mut(number as usize).and_then(Option::as_mut) {
        instance.kernels_had_some = events > 0;
    }
}

/// Goes back to the program with `count` events of ours, and what the kernel's instance has if that has its turn: it does not each
/// time, as it is a system call.
fn go_with(
    mut guard: Guard,
    (epoll, number): (c_int, u32),
    out: &mut [epoll_event],
    count: usize,
) -> Result<i32, Errno> {
    let instance = guard.sockets.epoll_mut(number).ok_or(Errno::BADF)?;
    let is_turn = instance.waits.is_multiple_of(KERNEL_EVERY) || instance.kernels_had_some;
    drop(guard);
    if !is_turn || count == out.len() {
        return Ok(count as i32);
    }
    let asked = ask_kernel(epoll, &mut out[count..], Some(Duration::ZERO), std::ptr::null());
    let (kernels, own) = asked.unwrap_or_default();
    let mut guard = lock()?;
    kernels_had(&mut guard, number, kernels);
    if own.device {
        guard.drive_now();
    }
    Ok((count + kernels) as i32)
}

/// A thread goes to sleep in the instance, as the leader or as one that follows.
fn lie_down(guard: &mut Guard, (epoll, number): (c_int, u32), thread: Thread, leads: bool) {
    if leads {
        arm(guard, epoll, number);
    } else {
        disarm(guard, epoll, number);
        let waker = guard.sockets.epoll_mut(number).and_then(|epoll| epoll.waker);
        guard.follow(thread, waker);
    }
}

/// It is awake.
fn get_up(guard: &mut Guard, number: u32, thread: Thread, led: bool) {
    guard.follows_no_more(thread);
    count_waiter(guard, number, false);
    if let Some(instance) = guard.sockets.epoll_mut(number) {
        instance.leaders = instance.leaders.saturating_sub(u32::from(led));
    }
}

fn wait(
    epoll: c_int,
    number: u32,
    out: &mut [epoll_event],
    timeout: Option<Duration>,
    mask: *const sigset_t,
) -> Result<i32, Errno> {
    let _call = breakdown::call();
    let mut guard = lock()?;
    let mut waiting = Waiting::begin(timeout);
    // The device tells of frames once only, whichever thread that wakes.
    let mut has_arrived = false;
    loop {
        // What is ready already is told first: the stack has its turn again soon enough.
        let mut now = guard.clock_now();
        let mut count = if !has_arrived && guard.is_driven(now) { collect(&mut guard, number, out) } else { 0 };
        if count == 0 {
            now = guard.look_now();
            count = collect(&mut guard, number, out);
            if count > 0 {
                guard.leave_together(now);
            } else {
                guard.leave(now);
            }
        }
        let instance = guard.sockets.epoll_mut(number).ok_or(Errno::BADF)?;
        if count > 0 {
            waiting.found(&mut guard, now);
            return go_with(guard, (epoll, number), out, count);
        }
        let waker = instance.waker;
        let next = waiting.next(&mut guard, now, || false, |guard| guard.may_have_more());
        let is_over = matches!(next, Next::Over);
        let (time, leads) = match next {
            // The kernel's instance is asked without a sleep.
            Next::Over => (Some(Duration::ZERO), false),
            Next::Interrupted => return Err(Errno::INTR),
            Next::Poll => {
                guard = poll_again(guard)?;
                continue;
            }
            Next::Sleep { leads, deadline } => {
                let time = sleep_time(&mut guard, now, deadline, (waker, leads));
                lie_down(&mut guard, (epoll, number), waiting.thread, leads);
                (time, leads)
            }
        };
        count_waiter(&mut guard, number, true);
        drop(guard);
        set_nested_wakers();
        let time = if waiting.has_been_interrupted() { Some(Duration::ZERO) } else { time };
        let asked = ask_kernel(epoll, out, time, mask);
        guard = lock()?;
        get_up(&mut guard, number, waiting.thread, leads);
        if descriptor::get(epoll) != Entry::Epoll(number) {
            // Another thread has closed it, and its number may be another instance's.
            return Err(Errno::BADF);
        }
        waiting.slept(&guard, now);
        let (kernels, own) = asked.unwrap_or_default();
        if own.waker
            && let Some(waker) = waker
        {
            crate::sys::wakers::clear(guard.wakers.descriptor(waker));
        }
        has_arrived = own.device;
        if kernels == 0 && asked.is_ok() && !is_over {
            continue;
        }
        // What there is of ours meanwhile comes with it.
        kernels_had(&mut guard, number, kernels);
        let now = guard.drive_now();
        let count = collect(&mut guard, number, &mut out[kernels..]);
        guard.told += kernels as u32;
        waiting.found(&mut guard, now);
        return if kernels + count > 0 { Ok((kernels + count) as i32) } else { asked.map(|_| 0) };
    }
}

/// A thread that leads goes to sleep in the instance: packets wake it. They do so from now on, as long as the same instance has the leader,
/// so that a program with one of them asks the kernel for it once. The device tells of each arrival once. A thread that goes to
/// sleep has looked, and found nothing.
fn arm(guard: &mut Guard, epoll: c_int, number: u32) {
    let doorbell = guard.doorbell;
    let Some(instance) = guard.sockets.epoll_mut(number) else { return };
    instance.leaders += 1;
    if doorbell >= 0 && !std::mem::replace(&mut instance.is_armed, true) {
        change_device(epoll, doorbell, libc::EPOLLIN | libc::EPOLLET);
    }
}

/// A thread that follows goes to sleep in the instance: packets are to wake the leader, which isn't there.
fn disarm(guard: &mut Guard, epoll: c_int, number: u32) {
    let doorbell = guard.doorbell;
    let Some(instance) = guard.sockets.epoll_mut(number) else { return };
    if instance.is_armed && instance.leaders == 0 && !instance.is_nested {
        instance.is_armed = false;
        change_device(epoll, doorbell, libc::EPOLLET);
    }
}

fn change_device(epoll: c_int, doorbell: c_int, events: c_int) {
    let mut event = epoll_event { events: events as u32, u64: device_mark() };
    // SAFETY: the pointer is to a valid event.
    unsafe { libc_next::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, doorbell, &raw mut event) };
}

/// A thread begins, or ends, to sleep on an instance from without: by `poll`.
pub(in crate::calls) fn count_waiter(guard: &mut Guard, number: u32, begins: bool) {
    let Some(instance) = guard.sockets.epolls.get_mut(number as usize).and_then(Option::as_mut) else { return };
    instance.waiters = if begins { instance.waiters + 1 } else { instance.waiters.saturating_sub(1) };
}

/// Whether an instance has something to tell, for a thread that polls it.
pub(in crate::calls) fn is_ready(guard: &Guard, number: u32) -> bool {
    let epoll = guard.sockets.epolls.get(number as usize).and_then(Option::as_ref);
    epoll.is_some_and(|epoll| epoll.has_ready(|socket| guard.sockets.get(socket)))
}
