//! Which program the keeper admits to its world, and which keeper a program believes. Each side looks at the other as the kernel shows
//! it, and each must be one that the other could control anyway ([`Class::covers`]), since both write the memory that they share.

use crate::sys::sleep::{readable, sleep};
use crate::sys::this_process::class::Class;
use crate::world::lock::lock;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Linux' number that the `libc` crate lacks.
const SO_PEERPIDFD: libc::c_int = 77;
/// Processes that are checked. If a program has more, nobody is admitted.
const MEMBERS_MAX: usize = 256;

/// A descriptor of the process at the other end, which stays right when its number is used again.
fn process_at(socket: &OwnedFd, id: libc::pid_t) -> Option<OwnedFd> {
    let mut fd: RawFd = -1;
    let mut length = size_of::<RawFd>() as libc::socklen_t;
    let (level, value) = (libc::SOL_SOCKET, (&raw mut fd).cast());
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let status =
        unsafe { crate::sys::libc_next::getsockopt(socket.as_raw_fd(), level, SO_PEERPIDFD, value, &raw mut length) };
    if status != 0 {
        // Before 6.5; in the moment between, its number may have become another's of the same user.
        let arguments = [id as usize, 0, 0, 0, 0];
        // SAFETY: the call takes no pointers.
        fd = unsafe { crate::sys::raw::call(&crate::sys::raw::Call::new(libc::SYS_pidfd_open, arguments)) } as RawFd;
    }
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The class of the process at the other end of `socket`: of an accepted connection the process that connected, otherwise the one that
/// listens.
pub(crate) fn peer_class(socket: &OwnedFd) -> Option<Class> {
    let peer = rustix::net::sockopt::socket_peercred(socket.as_fd()).ok()?;
    let id = peer.pid.as_raw_nonzero().get();
    let process = process_at(socket, id)?;
    let class = Class::of(id);
    // If that process still runs, its number was not used again before the look at its class.
    let has_ended = sleep(&mut [readable(process.as_raw_fd())], Some(Duration::ZERO), std::ptr::null());
    class.filter(|_| has_ended == Ok(0))
}

/// Why two processes of these classes may not share memory. `None`: they may.
pub(crate) fn mismatch(one: &Class, other: Option<&Class>) -> Option<String> {
    let Some(other) = other else {
        return Some("the kernel does not let one look into the other (ptrace)".to_owned());
    };
    let is_well = one.covers(other) && other.covers(one);
    (!is_well).then(|| format!("one is of {one}, the other of {other}, or their namespaces, root or filters differ"))
}

/// Why the process at the other end of `socket` is not admitted. `None`: it is.
pub(crate) fn refusal(socket: &OwnedFd) -> Option<String> {
    if crate::sys::this_process::standing::is_settled() {
        return Some("its processes have given up rights".to_owned());
    }
    let own = Class::own();
    let reason = mismatch(&own, peer_class(socket).as_ref());
    if reason.is_some() {
        return reason;
    }
    let mut members = [0; MEMBERS_MAX];
    let mut count = 0;
    let Ok(guard) = lock() else { return Some("it ends".to_owned()) };
    for record in guard.processes.records.iter().flatten() {
        if let Some(place) = members.get_mut(count) {
            *place = record.id.load(Ordering::Relaxed);
        }
        count += 1;
    }
    drop(guard);
    let Some(members) = members.get(..count) else { return Some("it has too many processes".to_owned()) };
    // If a member keeps debuggers out, nobody may come in who could read its memory here.
    let is_closed = |id: &&libc::pid_t| {
        **id > 0 && std::path::Path::new(&format!("/proc/{id}")).exists() && Class::of(**id).is_none()
    };
    members.iter().find(is_closed).map(|id| format!("its process {id} lets nobody look into it"))
}
