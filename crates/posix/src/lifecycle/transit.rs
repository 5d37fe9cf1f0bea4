//! Sockets on their way between processes of one world, over Unix sockets: the message carries the descriptor's socket in the kernel,
//! and who receives it finds by that one's cookie which of ours it stands for.

use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::world::lock::{Guard, lock};
use qanat::Time;
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Duration;

/// What nobody has received for so long has been lost with its message.
const PATIENCE: Duration = Duration::from_secs(60);
/// On their way at once.
const PARCELS_MAX: usize = 4_096;

/// A reference to a socket.
pub(crate) struct Parcel {
    cookie: u64,
    number: u32,
    since: Time,
}

#[derive(Default)]
pub(crate) struct Transit {
    parcels: VecDeque<Parcel>,
}

/// The kernel's name for a socket, which no other ever has.
fn cookie(fd: RawFd) -> Option<u64> {
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    let value = (&raw mut cookie).cast();
    // SAFETY: so many writable bytes.
    let status = unsafe { libc_next::getsockopt(fd, libc::SOL_SOCKET, libc::SO_COOKIE, value, &raw mut length) };
    (status == 0).then_some(cookie)
}

/// `fd`, which is socket `number`, is about to be sent; what it is called on its way.
pub(crate) fn send(fd: RawFd, number: u32) -> Option<u64> {
    let cookie = cookie(fd)?;
    let mut guard = lock().ok()?;
    guard.expire_parcels();
    if guard.transit.parcels.len() == PARCELS_MAX {
        return None;
    }
    guard.refer(Entry::Socket(number));
    let since = guard.clock_now();
    guard.transit.parcels.push_back(Parcel { cookie, number, since });
    Some(cookie)
}

/// It was not.
pub(crate) fn take_back(cookie: u64) {
    let Ok(mut guard) = lock() else { return };
    if let Some(number) = guard.take_parcel(cookie) {
        guard.release(number);
    }
}

fn is_internet(fd: RawFd) -> bool {
    let family = crate::sys::kernel_socket::kernel_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    matches!(family, Some(libc::AF_INET | libc::AF_INET6))
}

/// `fd` has been received; whether it is one of ours.
pub(crate) fn receive(fd: RawFd) -> bool {
    if descriptor::get(fd) != Entry::Kernel {
        return false;
    }
    if crate::sys::departure::is_away() {
        return is_internet(fd) && crate::lifecycle::away::line::arrived(fd);
    }
    if crate::world::lock::shared().is_none() && (!is_internet(fd) || !crate::lifecycle::attach::attach_to_run()) {
        return false;
    }
    let Ok(guard) = lock() else { return false };
    let is_empty = guard.transit.parcels.is_empty();
    drop(guard);
    let Some(cookie) = (!is_empty).then(|| cookie(fd)).flatten() else { return false };
    let Ok(mut guard) = lock() else { return false };
    let Some(number) = guard.take_parcel(cookie) else { return false };
    if descriptor::set(fd, Entry::Socket(number)) {
        return true;
    }
    guard.release(number);
    false
}

impl Guard {
    fn take_parcel(&mut self, cookie: u64) -> Option<u32> {
        let parcels = &mut self.transit.parcels;
        let at = parcels.iter().position(|parcel| parcel.cookie == cookie)?;
        parcels.remove(at).map(|parcel| parcel.number)
    }

    /// Gives up what has been lost.
    pub(crate) fn expire_parcels(&mut self) {
        let now = self.clock_now();
        while let Some(first) = self.transit.parcels.front()
            && now.since(first.since) > PATIENCE
        {
            let number = first.number;
            self.transit.parcels.pop_front();
            self.release(number);
        }
    }

    /// Whether the process with this number of the kernel's has this world.
    pub(crate) fn has_process(&self, id: i32) -> bool {
        let ids = self.processes.records.iter().flatten();
        ids.into_iter().any(|record| record.id.load(std::sync::atomic::Ordering::Relaxed) == id)
    }
}
