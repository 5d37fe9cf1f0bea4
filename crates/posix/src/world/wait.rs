//! Waiting: a thread that waits drives the stack. It polls for a bounded, adapting time, and then sleeps until the device, a waker or a
//! timer wakes it.

use crate::sockets::socket::Socket;
use crate::sys::signals::{begin_wait, handlers_called, wait_goes_on};
use crate::sys::sleep::{readable, sleep};
use crate::sys::wakers::Waker;
use crate::world::leader::Thread;
use crate::world::lock::{Guard, lock};
use qanat::Time;
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::RawFd;
use std::time::Duration;

const BUDGET_MIN_NS: u64 = 2_000;
const BUDGET_MAX_NS: u64 = 200_000;
/// Without a waker a thread looks so often.
const WITHOUT_WAKER: Duration = Duration::from_millis(1);

thread_local! {
    /// How long this thread polls before it sleeps; as the native runtime's: longer while its sleeps turn out short.
    static BUDGET_NS: Cell<u64> = const { Cell::new(BUDGET_MIN_NS) };
}

/// Polls of one wait.
struct Spin {
    since: Option<Time>,
    /// How long the last sleep was, if there was one and nothing has come of it yet.
    slept: Option<Duration>,
}

impl Spin {
    fn new() -> Spin {
        Spin { since: None, slept: None }
    }

    /// Whether to go on polling. Nothing has come for this thread so far.
    fn goes_on(&mut self, now: Time) -> bool {
        if crate::sys::script_time::is_on() {
            return false;
        }
        // Whatever it was that ended the sleep, it was not worth waking for.
        if self.slept.take().is_some() {
            BUDGET_NS.set((BUDGET_NS.get() / 2).max(BUDGET_MIN_NS));
        }
        let since = *self.since.get_or_insert(now);
        (now.since(since).as_nanos() as u64) < BUDGET_NS.get()
    }

    /// A sleep is over.
    fn slept(&mut self, slept: Duration) {
        (self.since, self.slept) = (None, Some(slept));
    }

    /// There is something for this thread: had it polled a little longer, it need not have slept.
    fn succeeded(&mut self) {
        if let Some(slept) = self.slept.take() {
            let budget = BUDGET_NS.get();
            let is_short = (slept.as_nanos() as u64) < BUDGET_MAX_NS;
            BUDGET_NS.set(if is_short { (budget * 2).min(BUDGET_MAX_NS) } else { (budget / 2).max(BUDGET_MIN_NS) });
        }
    }
}

/// What a thread that waits does next.
pub(crate) enum Next {
    /// Its time is over.
    Over,
    /// A handler of the program's has run.
    Interrupted,
    /// It polls: it looks again at once.
    Poll,
    /// It sleeps, as the leader or as one that follows, until this deadline of the call's at most.
    Sleep { leads: bool, deadline: Option<Time> },
}

/// One wait of a thread, of whatever call.
pub(crate) struct Waiting {
    pub(crate) thread: Thread,
    spin: Spin,
    timeout: Option<Duration>,
    /// From the first look on.
    deadline: Option<Time>,
    /// How many of the program's handlers had been called when it began.
    handlers: u32,
}

impl Waiting {
    pub(crate) fn begin(timeout: Option<Duration>) -> Waiting {
        Waiting { thread: Thread::this(), spin: Spin::new(), timeout, deadline: None, handlers: handlers_called() }
    }

    /// There is something for this thread: it goes back to the program.
    pub(crate) fn found(&mut self, guard: &mut Guard, now: Time) {
        self.spin.succeeded();
        guard.leaves(self.thread, now);
    }

    /// There was nothing for this thread, after the stack was driven at `now`. `goes_on`: whether the call goes on after a handler;
    /// `may_have_more`: whether polling is worth it in any case. If the wait ends, the thread has gone back to the program.
    #[inline]
    pub(crate) fn next(
        &mut self,
        guard: &mut Guard,
        now: Time,
        goes_on: impl FnOnce() -> bool,
        may_have_more: impl FnOnce(&Guard) -> bool,
    ) -> Next {
        let deadline = self.timeout.map(|timeout| *self.deadline.get_or_insert(now + timeout));
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Next::Over;
        }
        if self.has_been_interrupted() && !goes_on() {
            guard.leaves(self.thread, now);
            return Next::Interrupted;
        }
        let leads = guard.leads(self.thread, now);
        let polls = self.spin.goes_on(now) || leads && may_have_more(guard);
        if polls && leads { Next::Poll } else { Next::Sleep { leads, deadline } }
    }

    /// Whether a handler has been called since the wait began.
    pub(crate) fn has_been_interrupted(&self) -> bool {
        handlers_called() != self.handlers
    }

    /// A sleep that began at `since` is over.
    pub(crate) fn slept(&mut self, guard: &Guard, since: Time) {
        self.spin.slept(guard.clock_now().since(since));
    }
}

/// Lets others have the lock for a moment.
///
/// # Errors
/// The world is over.
pub(crate) fn poll_again(guard: Guard) -> Result<Guard, Errno> {
    drop(guard);
    std::hint::spin_loop();
    lock()
}

/// Takes a waker for a thread of this process.
pub(crate) fn take_waker(guard: &mut Guard) -> Option<Waker> {
    let waker = guard.wakers.take()?;
    if let Some(own) = guard.processes.own() {
        own.wakers.push(waker);
    }
    Some(waker)
}

/// Gives it back.
pub(crate) fn return_waker(guard: &mut Guard, waker: Option<Waker>) {
    let Some(waker) = waker else { return };
    if let Some(own) = guard.processes.own() {
        own.wakers.retain(|other| *other != waker);
    }
    guard.wakers.give_back(waker);
}

/// When a sleep must end: at `deadline`, or, for the leader, when the stack has something to do.
pub(crate) fn sleep_time(
    guard: &mut Guard,
    now: Time,
    deadline: Option<Time>,
    (waker, leads): (Option<Waker>, bool),
) -> Option<Duration> {
    if crate::sys::script_time::is_on() {
        return guard.fall_asleep(deadline, waker);
    }
    let of_stack = guard.stack.next_deadline().filter(|_| leads);
    let until = [deadline, of_stack].into_iter().flatten().min();
    let time = until.map(|until| until.since(now));
    if waker.is_some() { time } else { Some(time.map_or(WITHOUT_WAKER, |time| time.min(WITHOUT_WAKER))) }
}

/// Waits until `attempt` gives something, for a descriptor of socket `socket`. `beside`: a descriptor of the kernel's that is
/// worth another attempt when it is readable.
///
/// # Errors
/// What `attempt` says; `EINTR`; `EAGAIN` after `timeout`.
pub(crate) fn block<T>(
    socket: u32,
    timeout: Option<Duration>,
    further: Option<RawFd>,
    mut attempt: impl FnMut(&mut Guard) -> Option<Result<T, Errno>>,
) -> Result<T, Errno> {
    // A wait for a limited time never goes on after a handler.
    hold_and_block(socket, timeout, (further, timeout.is_none()), &mut attempt)
}

/// As [`block`], of a call that has done a part already: any signal ends it, and the part is what it has done.
///
/// # Errors
/// As [`block`].
pub(crate) fn block_for_rest<T>(
    socket: u32,
    timeout: Option<Duration>,
    mut attempt: impl FnMut(&mut Guard) -> Option<Result<T, Errno>>,
) -> Result<T, Errno> {
    hold_and_block(socket, timeout, (None, false), &mut attempt)
}

fn hold_and_block<T>(
    socket: u32,
    timeout: Option<Duration>,
    how: (Option<RawFd>, bool),
    attempt: &mut dyn FnMut(&mut Guard) -> Option<Result<T, Errno>>,
) -> Result<T, Errno> {
    // A call has its socket until it ends, even if another thread closes the descriptor.
    let mut guard = lock()?;
    guard.sockets.get_mut(socket).ok_or(Errno::BADF)?.references += 1;
    if let Some(own) = guard.processes.own() {
        own.held.push(socket);
    }
    drop(guard);
    let outcome = block_on(socket, timeout, how, attempt);
    let mut guard = lock()?;
    if let Some(own) = guard.processes.own()
        && let Some(at) = own.held.iter().rposition(|held| *held == socket)
    {
        own.held.swap_remove(at);
    }
    guard.release(socket);
    outcome
}

fn block_on<T>(
    socket: u32,
    timeout: Option<Duration>,
    (further, may_go_on): (Option<RawFd>, bool),
    attempt: &mut dyn FnMut(&mut Guard) -> Option<Result<T, Errno>>,
) -> Result<T, Errno> {
    begin_wait();
    let mut guard = lock()?;
    let mut waiting = Waiting::begin(timeout);
    loop {
        let now = guard.drive_now();
        if let Some(done) = attempt(&mut guard) {
            waiting.found(&mut guard, now);
            guard.told = 1 + guard.sockets.get(socket).map_or(0, Socket::datagrams_behind) as u32;
            return done;
        }
        let (leads, deadline) = match waiting.next(&mut guard, now, || may_go_on && wait_goes_on(), |_| false) {
            Next::Over => {
                guard.leaves(waiting.thread, now);
                return Err(Errno::AGAIN);
            }
            Next::Interrupted => return Err(Errno::INTR),
            Next::Poll => {
                guard = poll_again(guard)?;
                continue;
            }
            Next::Sleep { leads, deadline } => (leads, deadline),
        };
        let waker = take_waker(&mut guard);
        if let (Some(waker), Some(socket)) = (waker, guard.sockets.get_mut(socket)) {
            socket.waiters.push(waker);
        }
        let time = sleep_time(&mut guard, now, deadline, (waker, leads));
        let doorbell = if leads { guard.doorbell } else { -1 };
        let fds = [doorbell, waker.map_or(-1, |waker| guard.wakers.descriptor(waker)), further.unwrap_or(-1)];
        if !leads {
            guard.follow(waiting.thread, waker);
        }
        let handlers_so_far = handlers_called();
        drop(guard);
        let time = if handlers_called() == handlers_so_far { time } else { Some(Duration::ZERO) };
        let slept = sleep(&mut fds.map(readable), time, std::ptr::null());
        guard = lock()?;
        guard.follows_no_more(waiting.thread);
        if let (Some(waker), Some(socket)) = (waker, guard.sockets.get_mut(socket)) {
            socket.waiters.retain(|other| *other != waker);
        }
        return_waker(&mut guard, waker);
        if let Err(error) = slept {
            if error == Errno::INTR && may_go_on && wait_goes_on() {
                continue;
            }
            // What came meanwhile comes first.
            let now = guard.drive_now();
            guard.leaves(waiting.thread, now);
            return attempt(&mut guard).unwrap_or(Err(error));
        }
        waiting.slept(&guard, now);
    }
}
