//! A process of a world is about to give up rights. Processes that share memory with it and keep their rights must not follow
//! what it writes from then on. So it settles, while it can still be trusted, which processes have the world.
//!
//! * It serves (it has a listener or a datagram socket), or shares with nobody: the world *falls* to its class. The keeper becomes
//!   of that class first, and confines itself; the others [leave](crate::lifecycle::detached).
//! * Else it goes alone: its connections are pumped, and the shared memory stays the others'.
//!
//! What a call would make of this process is found out by a child that makes it first.

use crate::lifecycle::detached;
use crate::lifecycle::registry;
use crate::sockets::socket::Kind;
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::{explain, warn};
use crate::sys::page;
use crate::sys::raw::{self, Call};
use crate::sys::sleep::{readable, sleep};
use crate::sys::this_process::class::{self, Class, Found};
use crate::sys::this_process::own_process::is_librarys;
use crate::world::lock::{lock, shared};
use rustix::net::RecvFlags;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long the keeper may take to become less.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long another process may take to have the world fall once the keeper has followed it.
const TO_FALL: Duration = Duration::from_millis(500);

/// What a call does to rights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// What a child finds out.
    Tried,
    /// A filter of system calls, or what is like one: no child could tell afterwards.
    Filter,
    /// Other namespaces, or others for its children.
    Namespaces { user: bool },
}

/// Makes `real`, which does what `call` does to this thread's rights to those of all of the process.
pub(crate) fn change<T>(call: &Call, effect: Effect, real: impl FnOnce() -> T, is_well: impl FnOnce(&T) -> bool) -> T {
    let has_world = shared().is_some() || crate::sys::this_process::departure::is_detached();
    let is_librarys = is_librarys();
    if !has_world
        || is_librarys
        || crate::sys::script_time::is_on()
        || crate::sys::arena::is_inside()
        || crate::sys::local::is_held()
    {
        return real();
    }
    let before = Class::own();
    let after = match effect {
        // What fails changes nothing.
        Effect::Tried | Effect::Namespaces { .. } => match tried(call) {
            Some(after) => after,
            None => return real(),
        },
        Effect::Filter => before.clone(),
    };
    note(effect);
    let after = after.with_own_notes();
    if !crate::sys::this_process::departure::is_detached() && !after.covers(&before) {
        settle(&after);
    }
    let outcome = real();
    if is_well(&outcome) {
        detached::return_if_like();
    }
    outcome
}

fn note(effect: Effect) {
    match effect {
        Effect::Tried => {}
        Effect::Filter => class::filter_added(),
        Effect::Namespaces { user } => {
            class::namespaces_changed();
            if user {
                class::user_namespace_changed();
            }
        }
    }
}

/// What this process would be after `call`. `None`: the call would fail. A child with memory of its own tries it, and nobody is told of
/// the child's end.
fn tried(call: &Call) -> Option<Class> {
    #[repr(C)]
    struct Answer {
        status: isize,
        found: Found,
    }
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let length = size_of::<Answer>();
    // SAFETY: a new mapping where nothing is, which changes no memory in use.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    let answer = page.cast::<Answer>();
    // SAFETY: as long as that, and nobody else's.
    unsafe { answer.write(Answer { status: -1, found: Found::NOTHING }) };
    // SAFETY: the child uses its own copy of this stack, takes no memory, and ends.
    let child = unsafe { raw::call(&Call::new(libc::SYS_clone, [0; 5])) };
    if child == 0 {
        // SAFETY: as for the call itself; the answer is in the page.
        unsafe {
            (*answer).status = raw::call(call);
            (*answer).found.look();
            raw::call(&Call::new(libc::SYS_exit_group, [0; 5]));
        }
    }
    // SAFETY: a child of this thread's, which tells nobody else of its end; the page is nobody's then.
    unsafe {
        if child > 0 {
            let arguments = [child as usize, 0, libc::__WALL as usize, 0, 0];
            while raw::call(&Call::new(libc::SYS_wait4, arguments)) == -(libc::EINTR as isize) {}
        }
        let after = ((*answer).status >= 0 && child > 0).then(|| (*answer).found.class());
        libc::munmap(page, length);
        after
    }
}

/// Decides which processes have the world when this one is of class `after`.
fn settle(after: &Class) {
    let Ok(guard) = lock() else { return leave_the_broken() };
    let shares = guard.processes.count() > 1;
    let serves = descriptor::all().any(|(_, entry)| match entry {
        Entry::Socket(number) => guard
            .sockets
            .get(number)
            .is_some_and(|socket| matches!(socket.kind, Kind::Listener(_) | Kind::Datagram(_) | Kind::Bound)),
        _ => false,
    });
    drop(guard);
    match (crate::sys::this_process::standing::is_settled(), shares) {
        // The keeper has no rights any more, and nobody else is there.
        (true, false) => {}
        (true, true) => go_alone(after, serves),
        (false, true) if !serves => go_alone(after, false),
        (false, _) => {
            if follows(after) {
                let Ok(guard) = lock() else { return leave_the_broken() };
                explain(format_args!("becomes {after}: the virtual card and its sockets are that one's from now on"));
                guard.fall(after);
            } else if !falls_soon() {
                warn(format_args!(
                    "the keeper does not become {after}, so the virtual card is not this process's any more"
                ));
                go_alone(after, serves);
            }
        }
    }
}

/// The world is broken, or has fallen in this moment. Nothing of it is used any more, and processes of fewer rights can't write it.
fn leave_the_broken() {
    if !crate::sys::this_process::departure::is_detached() {
        crate::sys::this_process::departure::leave_for_good();
    }
}

/// Whether the world is about to fall to another process that was first.
fn falls_soon() -> bool {
    let start = std::time::Instant::now();
    while start.elapsed() < TO_FALL {
        if crate::sys::this_process::departure::is_detached() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The keeper becomes of class `after`.
fn follows(after: &Class) -> bool {
    let Some(line) = registry::ask_keeper(crate::lifecycle::registry::FOLLOW, after.text().as_bytes()) else {
        return false;
    };
    let waited = sleep(&mut [readable(line.as_raw_fd())], Some(PATIENCE), std::ptr::null());
    waited == Ok(1) && rustix::net::recv(&line, &mut [0; 1], RecvFlags::DONTWAIT).is_ok_and(|(_, count)| count == 1)
}

/// This process leaves the world to the others.
fn go_alone(after: &Class, serves: bool) {
    let ours: Vec<_> = descriptor::all().filter(|(_, entry)| matches!(entry, Entry::Socket(_))).collect();
    if !ours.is_empty() {
        explain(format_args!("becomes {after}, and others keep the card: its connections are pumped from now on"));
    }
    if serves {
        warn(format_args!(
            "becomes {after} when the virtual card is another class's already: its listeners and datagram sockets stay behind \
             (docs/posix.md, «Privileges»)"
        ));
    }
    crate::lifecycle::pumped::put(&ours);
    crate::sys::this_process::departure::leave_for_good();
    page::let_go(page::Instead::IsOut);
}
