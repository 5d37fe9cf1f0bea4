//! `fork`: a child has what its parent has, and the keeper learns of the child's end.

use crate::lifecycle::registry::{hand_line, register};
use crate::sys::descriptor::{self, Entry};
use crate::sys::wakers::out_of_the_way;
use crate::world::lock::lock;
use crate::world::membership::become_process;
use crate::world::processes::{be, registry, set_first};
use rustix::io::Errno;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};

/// A record for a child of this process's, of whose end the keeper learns by `pipe`.
///
/// # Errors
/// There is no keeper.
pub(crate) fn record_for_child(pipe: &OwnedFd) -> Result<u32, Errno> {
    let number = lock()?.clone_process();
    hand_line(registry(), number, pipe).map(|()| number)
}

/// What a process that is about to be forked from this one will be.
pub(crate) struct Child {
    number: u32,
    lifeline: RawFd,
}

impl Child {
    /// A record for it, which has all that this process has.
    ///
    /// # Errors
    /// There is no world, or this process is out of it.
    pub(crate) fn new() -> Result<Child, Errno> {
        let mut guard = lock()?;
        let number = guard.clone_process();
        let registry = guard.processes.registry;
        drop(guard);
        let lifeline = register(registry, number).map(|fd| out_of_the_way(fd.into_raw_fd())).unwrap_or(-1);
        Ok(Child { number, lifeline })
    }

    /// Called in the child: it is that one from now on.
    pub(crate) fn begin(&self) {
        let Child { number, lifeline } = *self;
        crate::sys::local::forked();
        crate::sys::this_process::finish::note_process();
        set_first(false);
        let parents = be(number, lifeline);
        if let Ok(guard) = lock()
            && let Some(Some(record)) = guard.processes.records.get(number as usize)
        {
            become_process(number, lifeline, record);
        }
        descriptor::set(lifeline, Entry::Own);
        descriptor::set(parents, Entry::Kernel);
        // SAFETY: the descriptor is a copy of the parent's, and nothing here uses it.
        unsafe { crate::sys::libc_next::close(parents) };
    }

    /// Called in the parent. By closing the last one the keeper learns that there is no child, if there is none.
    pub(crate) fn leave(self) {
        // SAFETY: the descriptor is the library's own, and nothing else uses it.
        unsafe { crate::sys::libc_next::close(self.lifeline) };
    }
}

/// Forks the program.
///
/// # Safety
/// As `fork`.
pub(crate) unsafe fn fork() -> libc::pid_t {
    // SAFETY: nobody relies on threads that the child does not have: the program's duty by fork(2).
    unsafe { fork_by(|| crate::sys::libc_next::fork()) }
}

/// Forks the program, to execute another: nothing that it has registered for its forks is called, nor what makes the C library's memory
/// usable in the child.
///
/// # Safety
/// As `vfork`.
pub(crate) unsafe fn fork_quietly() -> libc::pid_t {
    // SAFETY: nobody relies on threads that the child does not have: the program's duty by vfork(2).
    unsafe {
        fork_by(|| {
            let Some(fork) = crate::sys::libc_next::quiet_fork() else { return crate::sys::libc_next::fork() };
            let process = fork();
            if process == 0 {
                crate::sys::arena::use_private_heap();
            }
            process
        })
    }
}

/// # Safety
/// As `fork`.
unsafe fn fork_by(fork: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    let Ok(child) = Child::new() else {
        // SAFETY: nobody relies on threads that the child does not have: the program's duty by fork(2).
        return unsafe {
            if crate::sys::this_process::departure::is_detached() { crate::lifecycle::detached::fork() } else { fork() }
        };
    };
    let process = fork();
    if process == 0 {
        child.begin();
    } else {
        child.leave();
    }
    process
}
