//! A process whose world has fallen to another class leaves the world. The memory that the others can write is then gone from its address
//! space, so the kernel protects it, and not its own care.

use crate::sys::arena;
use crate::sys::descriptor::notes::{self, Entry};
use crate::sys::explain::explain;
use crate::sys::libc_next;
use crate::sys::local::is_held;
use crate::sys::page::{self, Instead};
use crate::sys::shared_place;
use crate::sys::signals::hold_signals;
use crate::sys::this_process::class::Class;
use crate::sys::this_process::standing::{
    begin_to_leave, has_left, is_leaving, is_member, set_left, set_left_for_good,
};
use qanat_nic::place::Extent;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A device has fewer mappings.
pub(crate) const EXTENTS_MAX: usize = 64;

/// What a world is made of, as this process knows it by itself.
#[derive(Default)]
pub(crate) struct Known {
    /// The shared part's address.
    pub(crate) shared: usize,
    /// Where the arena's file was mapped, and its descriptor.
    pub(crate) arena: Option<(RawFd, usize)>,
    pub(crate) places: Vec<Extent>,
    /// The class that has the world now.
    pub(crate) class: Option<Class>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { shared: 0, arena: None, places: Vec::new(), class: None });

pub(crate) fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it has left, and has a deputy there. If it has to leave, it does so now.
#[inline]
pub(crate) fn is_detached() -> bool {
    page::has_fallen() && is_left() && has_left()
}

/// What this process has to know to leave and to return; the descriptors are those it has the same under. Not with the lock held,
/// as this is its own memory.
pub(crate) fn remember(shared: usize, places: Vec<Extent>) {
    let mut known = known();
    (known.shared, known.arena, known.places) = (shared, arena::place(), places);
}

/// Whether this process is none of its world's any more, which has fallen: it leaves, if it has not yet.
#[cold]
pub(crate) fn is_left() -> bool {
    if is_member() {
        let was_held = hold_signals(true);
        depart();
        hold_signals(was_held);
    }
    // Another thread may be about to; of this one's own doing it needs no end.
    while is_leaving() && !is_held() {
        std::thread::yield_now();
    }
    true
}

/// Leaves the world, which has fallen. Signals wait meanwhile.
#[cold]
pub(crate) fn depart() {
    if !begin_to_leave() {
        // Another thread does; nothing is to be done before it has.
        while is_leaving() {
            std::thread::yield_now();
        }
        return;
    }
    let class = page::class();
    out(class);
    set_left();
    let known = known();
    if let Some(class) = &known.class {
        explain(format_args!(
            "a process that has this card's sockets too has become {class}: what they share is its; this one has them by messages"
        ));
    }
}

/// The shared memory is gone from here.
fn out(class: Option<Class>) {
    notes::use_no_table();
    shared_place::abandon();
    let mut known = known();
    arena::leave();
    for place in &known.places {
        arena::cover(place.address, place.length);
    }
    known.class = class;
    drop(known);
    page::let_go(Instead::IsOut);
}

/// The device's memory is gone from here: mapped, it would keep the device.
pub(crate) fn let_go_of_device() {
    for place in &known().places {
        arena::cover(place.address, place.length);
    }
}

/// Leaves the world, which goes on without it, for good: its descriptors are the kernel's, and nothing by which the shared memory
/// could be had again stays open.
pub(crate) fn leave_for_good() {
    set_left_for_good();
    out(None);
    let all: Vec<(RawFd, Entry)> = notes::all().collect();
    notes::use_none();
    for (fd, entry) in all {
        if entry == Entry::Own {
            // SAFETY: the library's own, of no use any more.
            unsafe { libc_next::close(fd) };
        }
    }
}
