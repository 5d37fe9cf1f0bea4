//! The process numbers of a world, as plain words that can be read in whatever state the rest of the world is. A number may be
//! another process's by now, so each is noted with the time. A process that began after that time has only inherited the number.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Processes in it. Further ones learn of the world's end only by their calls.
const ROOM: usize = 1_024;
/// Bits of a process's number: the kernel has no higher ones (`PID_MAX_LIMIT`). The rest is the time.
const NUMBER_BITS: u32 = 22;
/// The kernel tells a process's beginning in hundredths of a second since boot (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// By a process's place among the world's records: number and time, or 0.
pub(crate) struct PidTable([AtomicU64; ROOM]);

impl PidTable {
    pub(crate) const fn new() -> PidTable {
        PidTable([const { AtomicU64::new(0) }; ROOM])
    }

    /// The process with record `place` is the kernel's `process`, which runs now.
    pub(crate) fn note(&self, place: u32, process: libc::pid_t) {
        if let Some(word) = self.0.get(place as usize) {
            let number = u64::from(process as u32) & ((1 << NUMBER_BITS) - 1);
            word.store(ticks() << NUMBER_BITS | number, Ordering::Relaxed);
        }
    }

    /// The process with record `place` has ended.
    pub(crate) fn remove(&self, place: u32) {
        if let Some(word) = self.0.get(place as usize) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The processes that still run and that this process may look at: their places, and descriptors by which they are signalled.
    pub(crate) fn members(&self) -> Vec<(usize, OwnedFd)> {
        let words = self.0.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
        words.filter(|(_, word)| *word != 0).filter_map(|(place, word)| Some((place, open(word)?))).collect()
    }
}

fn ticks() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a place with room for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec as u64 * (1_000_000_000 / TICK_NS) + now.tv_nsec as u64 / TICK_NS
}

/// The process noted as `word`, held so that its number can't become another's.
fn open(word: u64) -> Option<OwnedFd> {
    let (process, noted) = (word & ((1 << NUMBER_BITS) - 1), word >> NUMBER_BITS);
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process as libc::pid_t, 0) };
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    let held = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })?;
    let about = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may have anything in it, the beginning is the twentieth word.
    let begun: u64 = about.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    (begun <= noted).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_another_processs_by_now_is_nobodys() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("a child");
        let pids = PidTable::new();
        pids.note(3, child.id() as libc::pid_t);
        pids.note(ROOM as u32, 1);
        assert_eq!(pids.members().iter().map(|(place, _)| *place).collect::<Vec<_>>(), [3]);
        // Noted before the process with that number began.
        let old = pids.0[3].load(Ordering::Relaxed) - (1_000 << NUMBER_BITS);
        pids.0[3].store(old, Ordering::Relaxed);
        assert!(pids.members().is_empty());
        pids.note(3, child.id() as libc::pid_t);
        pids.remove(3);
        assert!(pids.members().is_empty());
        pids.note(3, child.id() as libc::pid_t);
        child.kill().expect("a signal");
        child.wait().expect("its end");
        assert!(pids.members().is_empty(), "it has ended");
    }
}
