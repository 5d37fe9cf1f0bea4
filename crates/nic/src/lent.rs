//! Received frames lent to another process: its view of them, which it cannot write, and the files that view is made of.
//!
//! ```text
//!   owner      | frames to receive into | frames to send from |       one region, two memory files mapped side by side
//!   borrower   | the same, read-only    |                             headers of what is sent are not in its file
//! ```
//! The file of received frames is sealed with `F_SEAL_FUTURE_WRITE` once all who write it have mapped it: after that nobody,
//! by whatever descriptor and with whatever privilege, can map it writable or write to it.

use crate::base::memory_file;
use crate::memory::{FRAMES, Frame, Pool, Region, check};
use rustix::fs::SealFlags;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

const PAGE: usize = 4_096;

/// The two memory files of a region whose received frames can be lent.
#[derive(Debug)]
pub struct LendableFiles {
    /// Frames to receive into.
    pub receive: OwnedFd,
    /// The others.
    pub rest: OwnedFd,
}

impl LendableFiles {
    /// No more writers: to be called when all that are to write the region have mapped and registered it, and before the
    /// file is given away.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn seal_receive(&self) -> io::Result<()> {
        memory_file::seal(self.receive.as_fd(), SealFlags::FUTURE_WRITE | SealFlags::SEAL)
    }
}

/// A memory file, allocated and of sealed size.
fn frames_file(length: usize) -> io::Result<OwnedFd> {
    let file = memory_file::create(FRAMES)?;
    memory_file::allocate(file.as_fd(), length)?;
    memory_file::seal(file.as_fd(), memory_file::SIZE)?;
    Ok(file)
}

impl Region {
    /// A region of `receive` frames in one memory file and `rest` in another.
    pub(crate) fn lendable(receive: u32, rest: u32, frame_size: u32) -> io::Result<(Rc<Region>, LendableFiles)> {
        let files = LendableFiles {
            receive: frames_file(check(receive, frame_size)?)?,
            rest: frames_file(check(rest, frame_size)?)?,
        };
        let region =
            Region::of_lendable(files.receive.as_fd(), files.rest.as_fd(), (receive, rest), frame_size, false)?;
        Ok((region, files))
    }

    /// Maps both files, of so many frames, side by side. The caller has checked, or made, their lengths. `is_sealed`: frames
    /// to receive into are mapped read-only, as nobody can do otherwise any more.
    pub(crate) fn of_lendable(
        receive_file: BorrowedFd<'_>,
        rest_file: BorrowedFd<'_>,
        (receive, rest): (u32, u32),
        frame_size: u32,
        is_sealed: bool,
    ) -> io::Result<Rc<Region>> {
        let (first, second) = (check(receive, frame_size)?, check(rest, frame_size)?);
        let count = receive.checked_add(rest).filter(|_| first.is_multiple_of(PAGE) && second.is_multiple_of(PAGE));
        let count = count.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "frames that are lent must fill pages: an even number of them")
        })?;
        let writable = ProtFlags::READ | ProtFlags::WRITE;
        let received = if is_sealed { ProtFlags::READ } else { writable };
        let (nothing, anywhere) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice, without access: it only reserves addresses.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), first + second, nothing, anywhere) }?;
        // From here on the region unmaps what is mapped.
        let region = Region::over(base, if is_sealed { receive } else { 0 }, count, frame_size)?;
        for (file, offset, length, protection) in
            [(receive_file, 0, first, received), (rest_file, first, second, writable)]
        {
            let (place, flags) = (base.wrapping_byte_add(offset), MapFlags::SHARED | MapFlags::FIXED);
            // SAFETY: replaces a part of the reservation just made, and nothing else; the file's size is sealed.
            unsafe { rustix::mm::mmap(place, length, protection, flags, file, 0) }?;
        }
        // SAFETY: the mappings just made. It is advice only, so an error doesn't matter.
        let _ = unsafe { rustix::mm::madvise(base, first + second, Advice::LinuxDontDump) };
        Ok(region)
    }

    /// Maps another process's frames read-only.
    fn read_only(file: BorrowedFd<'_>, frame_count: u32, frame_size: u32) -> io::Result<Rc<Region>> {
        let length = check(frame_count, frame_size)?;
        check_file(file, length)?;
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice; the file's size is sealed.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, file, 0) }?;
        Region::over(base, frame_count, frame_count, frame_size)
    }

    /// Maps a memory file of this process's frames that another only reads.
    ///
    /// # Errors
    /// `InvalidData` if it is no memory file of sealed size; what `mmap` says.
    pub fn of_file(file: BorrowedFd<'_>, frame_count: u32, frame_size: u32) -> io::Result<Rc<Region>> {
        check_file(file, check(frame_count, frame_size)?)?;
        Region::of_memory_file(file, frame_count, frame_size)
    }

    /// Maps the part of a memory file from `offset` on, a multiple of pages, for reading and writing: memory that two processes share,
    /// either of which may write at any time. The caller keeps to the rule that says whose each frame is. A peer that breaks it can change bytes.
    ///
    /// # Errors
    /// `InvalidInput` for sizes out of range, `InvalidData` if it is no memory file of sealed size; what `mmap` says.
    pub fn of_shared_file(
        file: BorrowedFd<'_>,
        offset: u64,
        frame_count: u32,
        frame_size: u32,
    ) -> io::Result<Rc<Region>> {
        let length = check(frame_count, frame_size)?;
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(length));
        check_file(file, end.ok_or(io::ErrorKind::InvalidInput)?)?;
        Region::of_part(file, offset, frame_count, frame_size)
    }
}

/// Frames that this process fills by itself and lends: all of them, and their file, which nobody else can ever write.
///
/// # Errors
/// `InvalidInput` for a size or count out of range; what the kernel says.
pub fn lendable_frames(frame_count: u32, frame_size: u32) -> io::Result<(Pool, OwnedFd)> {
    let file = frames_file(check(frame_count, frame_size)?)?;
    let region = Region::of_memory_file(file.as_fd(), frame_count, frame_size)?;
    memory_file::seal(file.as_fd(), SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
    let pool = region.pool(frame_count).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((pool, file))
}

/// The same frames, in a process that goes on with them: they are read, and given back.
///
/// # Errors
/// `InvalidData` if it is no memory file of sealed size; what the kernel says.
pub fn lent_frames(file: BorrowedFd<'_>, frame_count: u32, frame_size: u32) -> io::Result<Pool> {
    let pool = Region::read_only(file, frame_count, frame_size)?.pool(frame_count);
    pool.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

pub(crate) fn check_file(file: BorrowedFd<'_>, length: usize) -> io::Result<()> {
    if !memory_file::is_of_lasting_size(file) || memory_file::length(file)? < length as u64 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frames in a file that is short, or may become so"));
    }
    Ok(())
}

/// The borrower's view.
pub struct LentFrames {
    pool: Pool,
    /// By frame: it is here.
    here: Vec<bool>,
}

impl LentFrames {
    /// Maps the file of received frames read-only. None is here yet.
    ///
    /// # Errors
    /// `InvalidData` if it is no memory file of sealed size; what `mmap` says.
    pub fn map(file: BorrowedFd<'_>, frame_count: u32, frame_size: u32) -> io::Result<LentFrames> {
        let region = Region::read_only(file, frame_count, frame_size)?;
        Ok(LentFrames { pool: region.absent_pool(), here: vec![false; frame_count as usize] })
    }

    /// The pool the frames are of.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Frame `index` has been lent: its `length` bytes from `start` on. `None`: it is here already, or there is no such.
    #[inline]
    pub fn take(&mut self, index: u32, start: u32, length: u32) -> Option<Frame> {
        let here = self.here.get_mut(index as usize).filter(|here| !**here)?;
        if start.checked_add(length)? > self.pool.region().frame_size() {
            return None;
        }
        *here = true;
        // SAFETY: the frame is not here, so no other handle to it is; the window is within. It is never written: the region
        // says so, and the mapping does not allow it.
        Some(unsafe { self.pool.redeem(index, start, length, false) })
    }

    /// Has the processor fetch the bytes from `start` on of frame `index`: a hint.
    #[inline]
    pub fn prefetch(&self, index: u32, start: u32) {
        if (index as usize) < self.here.len() && start < self.pool.region().frame_size() {
            self.pool.prefetch(index, start);
        }
    }

    /// Gives a frame back by hand; its number. `None`: it is not of these, and dropped.
    #[inline]
    pub fn give_back(&mut self, frame: Frame) -> Option<u32> {
        if !frame.is_of(&self.pool) {
            return None;
        }
        let index = frame.into_index();
        if let Some(here) = self.here.get_mut(index as usize) {
            *here = false;
        }
        Some(index)
    }

    /// The number of a frame that was dropped here since the last call: its owner is to be told.
    #[inline]
    pub fn dropped(&mut self) -> Option<u32> {
        let index = self.pool.take_free()?;
        if let Some(here) = self.here.get_mut(index as usize) {
            *here = false;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryPlan;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    const PLAN: MemoryPlan = MemoryPlan { frame_size: 2048, receive_frames: 4, transmit_frames: 4, prepared_frames: 0 };

    /// Tries to map a file with a protection, and to make a mapping of it writable.
    fn can_write(file: BorrowedFd<'_>) -> bool {
        let map = |protection| {
            let (length, flags) = (4 * 2048, libc::MAP_SHARED);
            // SAFETY: a new mapping, of which nothing is read or written.
            unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) }
        };
        if map(libc::PROT_READ | libc::PROT_WRITE) != libc::MAP_FAILED {
            return true;
        }
        let readable = map(libc::PROT_READ);
        assert_ne!(readable, libc::MAP_FAILED);
        // SAFETY: the mapping just made.
        let remade = unsafe { libc::mprotect(readable, 4 * 2048, libc::PROT_READ | libc::PROT_WRITE) } == 0;
        let byte = [1u8];
        // SAFETY: one byte of ours.
        let written = unsafe { libc::pwrite(file.as_raw_fd(), byte.as_ptr().cast(), 1, 0) } == 1;
        // SAFETY: takes no pointers.
        let punched = unsafe { libc::fallocate(file.as_raw_fd(), 3, 0, 4096) } == 0;
        remade || written || punched
    }

    #[test]
    fn lent_frames_are_seen_and_never_written() {
        let (memory, files) = PLAN.allocate_lendable().unwrap();
        assert!(can_write(files.receive.as_fd()), "the control: unsealed, it can be written");
        files.seal_receive().unwrap();
        assert!(!can_write(files.receive.as_fd()));
        // Nor by opening it anew: with root's rights here, as a rule.
        let path = format!("/proc/self/fd/{}", files.receive.as_raw_fd());
        let again = File::options().read(true).write(true).open(path).unwrap();
        assert!(!can_write(again.as_fd()));

        let mut lent = LentFrames::map(files.receive.as_fd(), 4, 2048).unwrap();
        let mut frame = memory.receive.allocate(100).unwrap();
        frame.append(5).unwrap().copy_from_slice(b"hello");
        let index = frame.index();
        let mut seen = lent.take(index, 100, 5).unwrap();
        assert_eq!(seen.bytes(), b"hello");
        assert!(lent.take(index, 100, 5).is_none(), "it is here already");
        assert!(lent.take(4, 0, 1).is_none(), "there is no such frame");
        assert!(lent.take(3, 2000, 49).is_none(), "beyond the frame");
        // Written, it is a copy; without a place for one, it is refused.
        assert!(seen.resize(3).is_none());
        lent.pool().region().copy_on_write_to(&memory.transmit);
        seen.resize(6).unwrap()[5] = b'!';
        assert_eq!((seen.bytes(), frame.bytes()), (&b"hello!"[..], &b"hello"[..]));
        assert!(seen.is_of(&memory.transmit) && !seen.is_of(lent.pool()));
        assert_eq!((lent.dropped(), lent.dropped()), (Some(index), None), "the original was given up");
        let seen = lent.take(index, 0, 0).unwrap();
        assert_eq!((lent.give_back(seen), lent.dropped()), (Some(index), None));
    }

    #[test]
    fn both_files_are_one_region() {
        let (memory, files) = PLAN.allocate_lendable().unwrap();
        let other = PLAN.map_lendable(files.receive.as_fd(), files.rest.as_fd()).unwrap();
        let pool = other.pool(8).unwrap();
        let (mut there, mut sent) = (memory.receive.allocate(0).unwrap(), memory.transmit.allocate(0).unwrap());
        there.append(1).unwrap()[0] = 11;
        sent.append(1).unwrap()[0] = 22;
        let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.allocate(0)).collect();
        let mut first_byte = |index: u32| frames.iter_mut().find(|f| f.index() == index).unwrap().append(1).unwrap()[0];
        assert_eq!((first_byte(there.index()), first_byte(sent.index())), (11, 22));
        let odd = MemoryPlan { receive_frames: 3, ..PLAN };
        assert!(odd.allocate_lendable().is_err(), "half a page");
    }
}
