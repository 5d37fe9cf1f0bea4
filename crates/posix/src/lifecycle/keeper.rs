//! The keeper: a process that the program [begins](crate::lifecycle::offspring) when it has its first socket. It closes what a process leaves
//! open when it ends or is killed, sees connections through to their end, and drives the stack while the program is busy with something else.
//! It sleeps as long as a thread of the program waits and drives the stack.

use crate::lifecycle::join;
use crate::lifecycle::keeper_image::{Image, Things};
use crate::lifecycle::mourner::Mourner;
use crate::lifecycle::offspring;
use crate::lifecycle::pump;
use crate::lifecycle::registry::{DEPUTY, FOLLOW, PUMP};
use crate::lifecycle::signal_sockets::SignalSockets;
use crate::sys::raw::{self, Call};
use crate::sys::sleep::{readable, sleep};
use crate::sys::this_process::class::Class;
use crate::world::end::End;
use crate::world::lock::{Guard, lock, shared};
use crate::world::state::WorldClock;
use qanat::Time;
use qanat_nic::Clock;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the program may leave the stack alone.
const PATIENCE: Duration = Duration::from_millis(4);
/// Looks that found everything as it should be before it goes to sleep.
const LOOKS: u32 = 8;
/// A leader that leaves packets or timers alone for so long has been stopped: by a signal, or a debugger.
const STANDSTILL: Duration = Duration::from_secs(1);
/// Processes heard of at once, beyond which nobody is let in from outside.
const LIVES_MAX: usize = 4_096;
/// How long connections may take to end after the program has.
const LINGER: Duration = Duration::from_secs(60);
/// How often it looks whether the card is there.
const LOOK: Duration = Duration::from_secs(1);

/// Begins the keeper, which has those things to hear of processes by, and waits until it is there.
///
/// # Errors
/// What `clone` says; `ECHILD`: it ended at once.
pub(crate) fn start(things: &Things, is_ready: &OwnedFd, first_own: RawFd) -> Result<(), Errno> {
    let image = Image::new(things);
    let begun = offspring::start(|| {
        // Out of reach of the terminal's Ctrl-C, and in the program's session: it is scheduled as part of it.
        // SAFETY: none takes pointers but a constant. Its files and pipes are not to be held open.
        unsafe {
            libc::setpgid(0, 0);
            raw::call(&Call::new(libc::SYS_close_range, [0, first_own as usize - 1, 0, 0, 0]));
            libc::chdir(c"/".as_ptr());
        }
        if let Some(image) = &image {
            image.execute();
        }
        // It can't be executed here: it goes on with a copy of the program's memory, and never becomes less than that program.
        crate::sys::this_process::program::rename(c"qanat-keeper");
        let own = crate::sys::descriptor::all().filter(|(_, entry)| *entry == crate::sys::descriptor::Entry::Own);
        let own: Vec<RawFd> = own.map(|(fd, _)| fd).collect();
        run(things, None, &own)
    });
    // SAFETY: the keeper's end, which it has.
    unsafe { crate::sys::libc_next::close(things.ready) };
    begun?;
    let mut byte = [0];
    let said = loop {
        match rustix::io::read(is_ready, &mut byte) {
            Err(Errno::INTR) => {}
            said => break said,
        }
    };
    if said == Ok(1) { Ok(()) } else { Err(Errno::CHILD) }
}

/// What a deputy does that is asked by this line by this process.
pub(crate) type Serve = fn(&OwnedFd, u32);

/// Is the keeper. `serve`: what its deputies do, if nothing of the program's memory is in it; else it never becomes less, and has no
/// deputies. `own`: the library's descriptors.
pub(crate) fn run(things: &Things, serve: Option<Serve>, own: &[RawFd]) -> ! {
    // What it closes itself, such as a process's line, may have the number of a socket in the program.
    crate::sys::descriptor::use_none();
    crate::world::lock::be_silent();
    crate::sys::watchdog::let_in();
    crate::sys::this_process::own_process::stand_aside();
    crate::world::processes::note_registry(lock().map_or(-1, |guard| guard.processes.registry));
    // From here on this process answers at the address's socket, and those who connect may identify it.
    // SAFETY: the call takes no pointers.
    unsafe { crate::sys::libc_next::listen(things.successor, NEWCOMERS_MAX) };
    let mourner = Mourner::start(things.successor, things.signal_sockets);
    // SAFETY: a readable byte, and a descriptor for this alone.
    unsafe {
        crate::sys::libc_next::write(things.ready, b"!".as_ptr().cast(), 1);
        crate::sys::libc_next::close(things.ready);
    }
    let mut keeper = Keeper { things: *things, own: own.to_vec(), serve, mourner, followed: None, lives: Vec::new() };
    let is_over = keeper.keep().is_none();
    if is_over {
        crate::lifecycle::crash_reset::publish(things.successor);
    }
    if let Some(mourner) = keeper.mourner.take() {
        mourner.dismiss();
    }
    if is_over {
        crate::lifecycle::ending::end_all(things.signal_sockets);
    }
    // SAFETY: the call ends the process without the program's handlers.
    unsafe { libc::_exit(0) }
}

/// Newcomers that wait to be admitted, at most.
const NEWCOMERS_MAX: i32 = 4;

/// A process, and what tells of its end.
struct Life {
    number: u32,
    line: OwnedFd,
}

impl Life {
    /// It is connected to the listening socket, and no process of the world's yet.
    fn comes_in(&self) -> bool {
        matches!(self.number, join::NOBODY | join::OBSERVER)
    }
}

struct Keeper {
    things: Things,
    /// The library's descriptors, but for the keeper's own.
    own: Vec<RawFd>,
    serve: Option<Serve>,
    mourner: Option<Mourner>,
    /// Which class it has become of.
    followed: Option<Class>,
    lives: Vec<Life>,
}

/// What comes by the registry.
enum Heard {
    Life(Life),
    /// The world is about to fall to this class.
    Follow(Option<Class>, OwnedFd),
    /// A process wants its calls made for it.
    Deputy(u32, OwnedFd),
    /// A connection is to be pumped.
    Pump(pump::Order, OwnedFd),
}

impl Keeper {
    /// `None`: somebody was killed in the middle of the stack's work, or the card is gone, and there is nothing to be kept.
    fn keep(&mut self) -> Option<()> {
        let Things { registry, waker: keeper_waker, successor, .. } = self.things;
        let mut looks = 0;
        let mut ended_at: Option<Time> = None;
        let mut looked_at = Time::ZERO;
        loop {
            self.is_to_come_to_an_end(true);
            let mut guard = lock().ok()?;
            let now = guard.clock_now();
            guard = with_card(guard, now, &mut looked_at)?;
            let driven_at = guard.shared().driven_at.load(Ordering::Relaxed);
            let is_left_alone = now.since(Time::from_nanos(driven_at)) >= PATIENCE;
            if stands_still(&guard, now, Time::from_nanos(driven_at)) {
                guard.leadership.depose();
                looks = 0;
            }
            let is_watched = guard.leadership.is_watching();
            let drives = !is_watched && is_left_alone;
            if drives {
                guard.drive();
                // The leader has been away too long.
                guard.appoint(now);
            }
            let is_idle = guard.stack.usage().connections == 0 && guard.sockets.iter().next().is_none();
            guard.expire_references();
            if guard.processes.count() == 0 {
                let since = *ended_at.get_or_insert(now);
                if guard.stack.usage().connections == 0 || now.since(since) > LINGER {
                    return Some(());
                }
            }
            looks = if is_watched || is_idle { looks + 1 } else { 0 };
            let rests = looks >= LOOKS;
            let time = match (rests, is_watched) {
                // The process that drives the stack does what is due next. Other processes have near deadlines as long as they send.
                (false, _) if drives => Some(awake(guard.stack.next_deadline().map(|deadline| deadline.since(now)))),
                (false, _) => Some(awake(Some(PATIENCE.saturating_sub(now.since(Time::from_nanos(driven_at)))))),
                (true, true) => Some(STANDSTILL),
                (true, false) => Some(LOOK),
            };
            // The program drives: whether it goes on is to be seen without the lock, which it needs.
            let is_driven = !drives && !rests && !is_watched;
            let clock = guard.clock;
            let doorbell = guard.doorbell;
            if rests {
                guard.release_to_sleep();
            } else {
                drop(guard);
            }
            // While it rests, and no other process is there, it still answers peers that ask for what is gone.
            let hears = drives || rests && !is_watched;
            let mut fds = vec![readable(registry), readable(keeper_waker), readable(if hears { doorbell } else { -1 })];
            fds.push(readable(if self.lives.len() < LIVES_MAX { successor } else { -1 }));
            fds.extend(self.lives.iter().map(|life| readable(life.line.as_raw_fd())));
            self.is_to_come_to_an_end(false);
            if sleep_while(&mut fds, time, || is_driven.then(|| left_alone_in(clock)).flatten()).is_err() {
                continue;
            }
            self.is_to_come_to_an_end(true);
            // Without what it hears by it would know of nothing, and never sleep.
            if fds[..4].iter().any(|fd| fd.revents & libc::POLLNVAL != 0) {
                return Some(());
            }
            let mut newcomer = None;
            if fds[3].revents != 0
                && let Some((line, kept_out)) = somebody_at(successor)
            {
                if ended_at.is_some() {
                    return Some(());
                }
                newcomer = Some(Life { number: if kept_out { join::OBSERVER } else { join::NOBODY }, line });
            }
            if fds[1].revents != 0 {
                crate::sys::wakers::clear(keeper_waker);
                looks = 0;
            }
            if rests && fds[2].revents != 0 {
                looks = 0;
            }
            if self.hear_lives(&fds[4..])? {
                looks = 0;
            }
            if fds[0].revents != 0 {
                match hear(registry) {
                    Some(Heard::Life(life)) => self.lives.push(life),
                    Some(Heard::Follow(class, line)) => self.follow(class, &line),
                    Some(Heard::Deputy(number, line)) => self.deputize(number, &line),
                    Some(Heard::Pump(order, end)) => self.pump(order, &end),
                    None => {}
                }
            }
            self.lives.extend(newcomer);
        }
    }

    /// Hears what comes on the processes' lines, of which `fds` tells; whether one has ended. `None`: as `keep`.
    fn hear_lives(&mut self, fds: &[libc::pollfd]) -> Option<bool> {
        let mut due: Vec<bool> = fds.iter().map(|fd| fd.revents != 0).collect();
        let mut has_one_ended = false;
        // Processes that have ended are cleaned up before others come in, as by the kernel: a new one may have waited for the
        // other's end, and want its ports.
        for comes_in in [false, true] {
            let has_ended = |(due, life): (&bool, &mut Life)| {
                *due && life.comes_in() == comes_in && join::has_ended(&life.line, &mut life.number)
            };
            let ended: Vec<bool> = due.iter().zip(&mut self.lives).map(has_ended).collect();
            if ended.contains(&true) {
                self.close_for(&ended)?;
                has_one_ended = true;
            }
            let mut ended = ended.iter();
            due.retain(|_| ended.next() == Some(&false));
        }
        Some(has_one_ended)
    }

    /// From here on the kernel ends this process if it takes too long, or no more. Only in a world that has fallen can somebody
    /// else have written what is followed here.
    fn is_to_come_to_an_end(&self, soon: bool) {
        match (self.followed.is_some(), soon) {
            (false, _) => {}
            (true, true) => crate::sys::watchdog::arm(),
            (true, false) => crate::sys::watchdog::disarm(),
        }
    }

    /// Closes what those processes have left open that have `ended`, one answer for each life. `None`: as `keep`.
    fn close_for(&mut self, ended: &[bool]) -> Option<()> {
        let mut guard = lock().ok()?;
        for (life, _) in self.lives.iter().zip(ended).filter(|(_, ended)| **ended) {
            guard.process_ended(life.number);
        }
        guard.drive_now();
        drop(guard);
        let mut ended = ended.iter();
        self.lives.retain(|_| ended.next() == Some(&false));
        Some(())
    }

    /// Becomes of the world's class to be, and confines itself: it needs none of what a program's rights are for. Says so on `line`. If
    /// the line ends instead, it has not.
    fn follow(&mut self, class: Option<Class>, line: &OwnedFd) {
        let Some(class) = class.filter(|_| self.serve.is_some()) else { return };
        if crate::sys::this_process::standing::is_settled() {
            // Several become the same at once.
            if self.followed.as_ref() == Some(&class) {
                let _ = rustix::net::send(line, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            }
            return;
        }
        if let Some(mourner) = self.mourner.take() {
            mourner.dismiss();
        }
        let has_followed = become_like(&class);
        crate::sys::page::let_go(crate::sys::page::Instead::Belongs);
        crate::sys::this_process::standing::settle();
        self.mourner = Mourner::start(self.things.successor, self.things.signal_sockets);
        if has_followed {
            self.followed = Some(class);
            let _ = rustix::net::send(line, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
    }

    /// Forks a deputy for process `number`, which asks by `line`.
    fn deputize(&self, number: u32, line: &OwnedFd) {
        let Some(serve) = self.serve.filter(|_| crate::sys::this_process::standing::is_settled()) else { return };
        // SAFETY: this process has one thread, so the child misses nobody's locks.
        if unsafe { crate::sys::libc_next::fork() } != 0 {
            return;
        }
        // SAFETY: the call ends the process.
        let Ok(line) = line.try_clone() else { unsafe { libc::_exit(1) } };
        let line = hold(line);
        self.begin_helper(c"qanat-deputy");
        // SAFETY: the descriptor is kept open, and it is this process's own.
        serve(&unsafe { OwnedFd::from_raw_fd(line) }, number);
        // SAFETY: the call ends the process.
        unsafe { libc::_exit(0) }
    }

    /// Forks a pump between a connection and `unix`. If it can't be, the connection ends there as it does when a pump ends.
    fn pump(&mut self, order: pump::Order, unix: &OwnedFd) {
        let Ok((read, write)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else {
            return self.pump_failed(order);
        };
        // SAFETY: this process has one thread, so the child misses nobody's locks.
        match unsafe { crate::sys::libc_next::fork() } {
            -1 => self.pump_failed(order),
            0 => {
                drop(read);
                // SAFETY: the call ends the process.
                let Ok(unix) = unix.try_clone() else { unsafe { libc::_exit(1) } };
                let (unix, lifeline) = (hold(unix), hold(write));
                self.begin_helper(c"qanat-pump");
                // SAFETY: the descriptor is kept open, and it is this process's own.
                pump::run(order, &unsafe { OwnedFd::from_raw_fd(unix) }, lifeline);
                // SAFETY: the call ends the process.
                unsafe { libc::_exit(0) }
            }
            _ => self.lives.push(Life { number: order.record, line: read }),
        }
    }

    fn pump_failed(&self, order: pump::Order) {
        if let Ok(mut guard) = lock() {
            guard.process_ended(order.record);
        }
    }

    /// This process, forked from the keeper, has the world's descriptors and those that it has noted as its own, and no others.
    fn begin_helper(&self, name: &std::ffi::CStr) {
        crate::sys::local::forked();
        crate::sys::this_process::finish::note_process();
        crate::sys::this_process::program::rename(name);
        // Without a keeper nobody sees to its world any more, and it may wait there for ever.
        // SAFETY: the call takes no pointers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let Things { registry, successor, signal_sockets: SignalSockets { terminate_end, kill_end }, .. } = self.things;
        let keepers = [registry, successor, terminate_end, kill_end];
        for fd in self.own.iter().filter(|fd| !keepers.contains(fd)) {
            crate::sys::descriptor::set_own(*fd);
        }
        let mut run = 0;
        let mut kept: Vec<RawFd> = crate::sys::descriptor::all().map(|(fd, _)| fd).collect();
        kept.sort_unstable();
        for fd in kept {
            if run < fd {
                // SAFETY: the call takes no pointers. Nobody else is in this process.
                unsafe { crate::sys::libc_next::close_range(run as u32, fd as u32 - 1, 0) };
            }
            run = fd + 1;
        }
        // SAFETY: as above.
        unsafe { crate::sys::libc_next::close_range(run as u32, u32::MAX, 0) };
    }
}

/// Goes on if the card is there, and its addresses are ours, which it looks for every [`LOOK`]. `None`: it is gone, and the world is over.
fn with_card(guard: Guard, now: Time, looked_at: &mut Time) -> Option<Guard> {
    if now.since(*looked_at) < LOOK {
        return Some(guard);
    }
    *looked_at = now;
    let end = match guard.stack.lost_address() {
        Some((_, holder)) => End::AddressTaken(holder),
        None if guard.vnic.look().is_gone() => End::Deleted,
        None => return Some(guard),
    };
    drop(guard);
    crate::world::lock::give_up(end);
    None
}

/// How long it sleeps that may be needed before long.
fn awake(time: Option<Duration>) -> Duration {
    time.unwrap_or(PATIENCE).clamp(Duration::from_micros(100), PATIENCE)
}

/// When the stack will have been left alone for so long that the keeper drives it; `None`: it has been.
fn left_alone_in(clock: WorldClock) -> Option<Duration> {
    let driven_at = Time::from_nanos(shared()?.driven_at.load(Ordering::Relaxed));
    let left = PATIENCE.saturating_sub(clock.now().since(driven_at));
    (!left.is_zero()).then(|| awake(Some(left)))
}

/// Sleeps on `fds`, and again as long as nothing has come and `again` says how long.
fn sleep_while(
    fds: &mut [libc::pollfd],
    mut time: Option<Duration>,
    again: impl Fn() -> Option<Duration>,
) -> Result<i32, Errno> {
    loop {
        let slept = sleep(fds, time, std::ptr::null());
        match again().filter(|_| slept == Ok(0)) {
            Some(more) => time = Some(more),
            None => return slept,
        }
    }
}

/// Whether this process is of `class` now, or has less.
fn become_like(class: &Class) -> bool {
    let (users, groups, more) = class.identity();
    let own = Class::own();
    if own.identity() != (users, groups, more) {
        let raw = |number, arguments| {
            // SAFETY: numbers, or so many readable ones.
            unsafe { crate::sys::raw::call(&Call::new(number, arguments)) == 0 }
        };
        let words = |ids: [u32; 3]| [ids[0] as usize, ids[1] as usize, ids[2] as usize, 0, 0];
        let has_become = raw(libc::SYS_setgroups, [more.len(), more.as_ptr().addr(), 0, 0, 0])
            && raw(libc::SYS_setresgid, words(groups))
            && raw(libc::SYS_setresuid, words(users));
        if !has_become {
            return false;
        }
    }
    // Version 3 of the structure, this process, and none of any kind.
    let (mut head, sets) = ([0x2008_0522u32, 0], [0u32; 6]);
    let arguments = [head.as_mut_ptr().addr(), sets.as_ptr().addr(), 0, 0, 0];
    // SAFETY: the header and the sets have the layout that capset(2) demands.
    let has_none = unsafe { crate::sys::raw::call(&Call::new(libc::SYS_capset, arguments)) } == 0;
    has_none && qanat::confine::confine_keeper().is_ok()
}

/// Whether the leader does nothing about what has come to the device.
fn stands_still(guard: &Guard, now: Time, driven_at: Time) -> bool {
    if !guard.leadership.is_watching() || now.since(driven_at) < STANDSTILL {
        return false;
    }
    let is_overdue = guard.stack.next_deadline().is_some_and(|deadline| now.since(deadline) >= STANDSTILL);
    is_overdue
        || sleep(&mut [readable(guard.doorbell)], Some(Duration::ZERO), std::ptr::null()).is_ok_and(|count| count > 0)
}

/// A process of the same user or root that wants the address, and whether it is not to come in. If the address's program has ended, the
/// process gets the address. If not, it may join, provided that the program has no more rights than it.
fn somebody_at(successor: RawFd) -> Option<(OwnedFd, bool)> {
    // SAFETY: the descriptor stays open as long as the keeper lives.
    let successor = unsafe { BorrowedFd::borrow_raw(successor) };
    let who = rustix::net::accept_with(successor, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
    let peer = rustix::net::sockopt::socket_peercred(&who).ok()?;
    let is_same_user = peer.uid == rustix::process::geteuid();
    (is_same_user || peer.uid.is_root()).then_some((who, !is_same_user))
}

/// A process registers, or asks for something.
fn hear(registry: RawFd) -> Option<Heard> {
    // SAFETY: the descriptor stays open as long as the keeper lives.
    let registry = unsafe { BorrowedFd::borrow_raw(registry) };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 8_192];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(registry, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags).ok()?;
    let line = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })?;
    let (number, rest) = bytes.get(..received.bytes)?.split_at_checked(4)?;
    Some(match u32::from_ne_bytes(number.try_into().ok()?) {
        FOLLOW => Heard::Follow(std::str::from_utf8(rest).ok().and_then(Class::read), line),
        DEPUTY => Heard::Deputy(u32::from_ne_bytes(rest.try_into().ok()?), line),
        PUMP => Heard::Pump(pump::Order::read(rest)?, line),
        number => Heard::Life(Life { number, line }),
    })
}

/// A descriptor of this process's own, where no number of the program's is.
fn hold(fd: OwnedFd) -> RawFd {
    let fd = crate::sys::wakers::out_of_the_way(fd.into_raw_fd());
    crate::sys::descriptor::set_own(fd);
    fd
}
