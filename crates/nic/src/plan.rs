//! [`MemoryPlan`]: how much frame memory a queue gets, and for what.

use crate::lent::LendableFiles;
use crate::memory::{Pool, Region};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The frames of one queue. Disjoint shares of one region: a flood of received packets can't starve the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct MemoryPlan {
    /// Bytes per frame: 2048 or 4096 (what AF_XDP takes).
    pub frame_size: u32,
    /// Frames to receive into, those held by the stack and the service included.
    pub receive_frames: u32,
    /// Frames to send headers and copied data from.
    pub transmit_frames: u32,
    /// Frames of prepared content ([`Vnic::prepared_pool`](crate::Vnic::prepared_pool)).
    pub prepared_frames: u32,
}

impl Default for MemoryPlan {
    /// 2048-byte frames, 4096 to receive, 4096 to send, none prepared: 16 MiB.
    fn default() -> MemoryPlan {
        MemoryPlan { frame_size: 2048, receive_frames: 4096, transmit_frames: 4096, prepared_frames: 0 }
    }
}

/// One region and its three pools.
#[derive(Clone, Debug)]
pub struct FrameMemory {
    /// All frames.
    pub region: Rc<Region>,
    /// To receive into.
    pub receive: Pool,
    /// To send from.
    pub transmit: Pool,
    /// For prepared content.
    pub prepared: Pool,
}

impl FrameMemory {
    /// The same frames in new pools, all of them free but prepared ones: to go on with after the owner of these was killed. The old
    /// pools must not be used any more.
    pub(crate) fn anew(&self) -> FrameMemory {
        let region = &self.region;
        let (receive, transmit) = (self.receive.frame_count(), self.transmit.frame_count());
        FrameMemory {
            region: Rc::clone(region),
            receive: Pool::of(region, 0..receive, true),
            transmit: Pool::of(region, receive..receive + transmit, true),
            prepared: Pool::of(region, 0..0, true),
        }
    }
}

impl MemoryPlan {
    /// Bytes of frames for packets of `mtu` bytes: one frame each up to 1,700; larger ones take several of 4,096.
    pub const fn frame_size_for(mtu: u32) -> u32 {
        if mtu > 1_700 { 4_096 } else { 2_048 }
    }

    /// Bytes of the whole region.
    pub fn length(&self) -> usize {
        let frames = self.receive_frames as usize + self.transmit_frames as usize + self.prepared_frames as usize;
        frames * self.frame_size as usize
    }

    /// Maps the region and cuts it up.
    ///
    /// # Errors
    /// `InvalidInput` for a frame size that is no power of two from 2048 to 65536 (AF_XDP: 2048 or 4096), or more than 2³² frames; else what `mmap` says.
    pub fn allocate(&self) -> io::Result<FrameMemory> {
        self.cut(&self.map(1)?)
    }

    /// Maps one region and cuts it up for two queues that share it, each with this plan's pools.
    ///
    /// # Errors
    /// As for [`allocate`](MemoryPlan::allocate).
    pub fn allocate_two(&self) -> io::Result<(FrameMemory, FrameMemory)> {
        let region = self.map(2)?;
        Ok((self.cut(&region)?, self.cut(&region)?))
    }

    /// As [`allocate`](MemoryPlan::allocate), in a memory file of sealed size, to be registered by another process.
    ///
    /// # Errors
    /// As for `allocate`.
    pub fn allocate_in_memory_file(&self) -> io::Result<(FrameMemory, OwnedFd)> {
        let (region, file) = Region::in_memory_file(self.frame_count(1)?, self.frame_size)?;
        Ok((self.cut(&region)?, file))
    }

    /// As [`allocate_in_memory_file`](MemoryPlan::allocate_in_memory_file), with the frames to receive into in a file of
    /// their own, so that another process may map these read-only, and headers to be sent not at all.
    ///
    /// # Errors
    /// As for `allocate`; `InvalidInput` if the frames to receive into do not fill pages.
    pub fn allocate_lendable(&self) -> io::Result<(FrameMemory, LendableFiles)> {
        self.frame_count(1)?;
        let (region, files) =
            Region::lendable(self.receive_frames, self.transmit_frames + self.prepared_frames, self.frame_size)?;
        Ok((self.cut(&region)?, files))
    }

    /// Maps what [`allocate_lendable`](MemoryPlan::allocate_lendable) made in another process.
    pub(crate) fn map_lendable(&self, receive: BorrowedFd<'_>, rest: BorrowedFd<'_>) -> io::Result<Rc<Region>> {
        self.map_files(receive, rest, false)
    }

    fn map_files(&self, receive: BorrowedFd<'_>, rest: BorrowedFd<'_>, is_sealed: bool) -> io::Result<Rc<Region>> {
        self.frame_count(1)?;
        let counts = (self.receive_frames, self.transmit_frames + self.prepared_frames);
        Region::of_lendable(receive, rest, counts, self.frame_size, is_sealed)
    }

    /// As [`allocate_lendable`](MemoryPlan::allocate_lendable), over files that another process, which is trusted, made with
    /// this plan.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn open_lendable(&self, files: &LendableFiles) -> io::Result<FrameMemory> {
        self.cut(&self.map_lendable(files.receive.as_fd(), files.rest.as_fd())?)
    }

    /// As [`open_lendable`](MemoryPlan::open_lendable), when the received frames are lent already and their file is sealed: they
    /// are only read here, and copied into one to send from when they have to be written.
    ///
    /// # Errors
    /// `InvalidData` if the files are none of sealed size; what `mmap` says.
    pub fn open_lent(&self, files: &LendableFiles) -> io::Result<FrameMemory> {
        let length = |frames: u32| frames as usize * self.frame_size as usize;
        crate::lent::check_file(files.receive.as_fd(), length(self.receive_frames))?;
        crate::lent::check_file(files.rest.as_fd(), length(self.transmit_frames + self.prepared_frames))?;
        let memory = self.cut(&self.map_files(files.receive.as_fd(), files.rest.as_fd(), true)?)?;
        memory.region.copy_on_write_to(&memory.transmit);
        Ok(memory)
    }

    /// Maps a memory file that another process made with this plan.
    pub(crate) fn map_memory_file(&self, file: BorrowedFd<'_>) -> io::Result<Rc<Region>> {
        Region::of_memory_file(file, self.frame_count(1)?, self.frame_size)
    }

    fn map(&self, shares: u32) -> io::Result<Rc<Region>> {
        Region::new(self.frame_count(shares)?, self.frame_size)
    }

    /// Frames of all pools, of as many queues as share the region.
    fn frame_count(&self, shares: u32) -> io::Result<u32> {
        if !self.frame_size.is_power_of_two() || !(2_048..=65_536).contains(&self.frame_size) {
            let message = format!("frame size {}: must be a power of two from 2048 to 65536", self.frame_size);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let count = self.receive_frames.checked_add(self.transmit_frames);
        let count = count.and_then(|sum| sum.checked_add(self.prepared_frames));
        let count = count.and_then(|sum| sum.checked_mul(shares));
        count.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "more than 2^32 frames"))
    }

    /// Cuts a region of this plan into its pools.
    pub(crate) fn cut(&self, region: &Rc<Region>) -> io::Result<FrameMemory> {
        let share = |frames| region.pool(frames).ok_or_else(|| io::Error::other("region smaller than its plan"));
        let (receive, transmit) = (share(self.receive_frames)?, share(self.transmit_frames)?);
        let prepared = share(self.prepared_frames)?;
        Ok(FrameMemory { region: Rc::clone(region), receive, transmit, prepared })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_share_a_region() {
        let plan = MemoryPlan { frame_size: 2048, receive_frames: 3, transmit_frames: 2, prepared_frames: 1 };
        let memory = plan.allocate().unwrap();
        assert_eq!(memory.region.length(), plan.length());
        assert_eq!(memory.region.unassigned_count(), 0);
        assert_eq!(memory.transmit.frame_count(), 2);
        let (one, other) = plan.allocate_two().unwrap();
        assert!(Rc::ptr_eq(&one.region, &other.region));
        assert_eq!((one.region.frame_count(), one.region.unassigned_count()), (12, 0));
        assert!(MemoryPlan { frame_size: 1024, ..plan }.allocate().is_err());
    }
}
