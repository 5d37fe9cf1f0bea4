//! What the kernel has at the number of an accepted connection until it is asked for more: one file stands in for all of
//! them. A socket of the kernel's for each would cost more than all the stack does for a short connection.

use super::options::copy_to_kernel;
use crate::lifecycle::away::socket_of;
use crate::sys::bells::out_of_the_way;
use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::world::lock::{Guard, lock};
use libc::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

/// This process's, and that of its children; never connected to anything.
static FILE: AtomicI32 = AtomicI32::new(-1);

/// The file, made when it is needed first. The lock is held, so nobody else makes it.
fn file(_: &Guard) -> Result<c_int, i32> {
    let file = FILE.load(Ordering::Relaxed);
    if file >= 0 {
        return Ok(file);
    }
    // SAFETY: takes no pointers.
    let made = unsafe { libc_next::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    // A deputy may make none: nobody asks the kernel anything of what stands in there.
    let file = if made < 0 { crate::sys::bells::new_event()? } else { out_of_the_way(made) };
    descriptor::set(file, Entry::Own);
    FILE.store(file, Ordering::Relaxed);
    Ok(file)
}

/// Gives connection `number` a descriptor.
///
/// # Errors
/// Out of descriptors.
pub(super) fn describe(guard: &Guard, number: u32, is_closed_by_exec: bool) -> Result<c_int, i32> {
    let command = if is_closed_by_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    // SAFETY: takes no pointers.
    let new = unsafe { libc_next::fcntl64(file(guard)?, command, 0) };
    if new < 0 {
        return Err(libc_next::errno());
    }
    if !descriptor::set_stand_in(new, number) {
        // SAFETY: just made.
        unsafe { libc_next::close(new) };
        return Err(libc::EMFILE);
    }
    Ok(new)
}

/// What `fd` is in the kernel is about to be asked for something, or changed: from now on it is a socket of its own, with what
/// has been set so far.
///
/// # Errors
/// Out of descriptors.
pub(super) fn replace(fd: c_int) -> Result<(), i32> {
    if !descriptor::is_stand_in(fd) {
        return Ok(());
    }
    // Held until it is done: who closes `fd` meanwhile waits, and closes what it is then.
    let guard = lock()?;
    let Some(number) = socket_of(fd).filter(|_| descriptor::is_stand_in(fd)) else { return Ok(()) };
    let Some(socket) = guard.sockets.get(number) else { return Ok(()) };
    // SAFETY: takes no pointers.
    let own = unsafe { libc_next::socket(socket.family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if own < 0 {
        return Err(libc_next::errno());
    }
    copy_to_kernel(own, socket);
    // SAFETY: takes no pointers.
    let status = unsafe {
        let is_closed_by_exec = libc_next::fcntl64(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
        let status = libc_next::dup3(own, fd, if is_closed_by_exec { libc::O_CLOEXEC } else { 0 });
        libc_next::close(own);
        status
    };
    if status < 0 {
        return Err(libc_next::errno());
    }
    descriptor::set(fd, Entry::Socket(number));
    Ok(())
}
