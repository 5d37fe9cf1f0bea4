//! Copies of frames that are for all nodes of the link: the kernel has the frames, this process wants to know of them.

use super::program::copied_frame;
use crate::memory::{Frame, Pool};
use aya::maps::{MapData, RingBuf};

/// While other frames keep coming, copies are looked for once in so many calls.
const INTERVAL: u32 = 64;
/// Copies taken at once. They are rare, and none is urgent.
const BATCH_MAX: usize = 8;

/// The reading end of the XDP program's ring of copies. It wakes nobody: a thread that waits for frames looks within the second.
pub(super) struct Copies {
    ring: RingBuf<MapData>,
    calls: u32,
    /// Copies dropped for want of a frame. Routers and queriers repeat what they say.
    pub(super) lost: u64,
}

impl Copies {
    pub(super) fn new(ring: RingBuf<MapData>) -> Copies {
        Copies { ring, calls: 0, lost: 0 }
    }

    /// Appends copies to `frames`, in frames of `pool`; returns how many and their bytes. `idle`: nothing else came.
    #[inline]
    pub(super) fn receive(
        &mut self,
        pool: &Pool,
        frames: &mut Vec<Frame>,
        frames_max: usize,
        idle: bool,
    ) -> (u64, u64) {
        self.calls = self.calls.wrapping_add(1);
        if !idle && !self.calls.is_multiple_of(INTERVAL) {
            return (0, 0);
        }
        self.drain(pool, frames, frames_max)
    }

    fn drain(&mut self, pool: &Pool, frames: &mut Vec<Frame>, frames_max: usize) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        for _ in 0..frames_max.min(BATCH_MAX) {
            let Some(entry) = self.ring.next() else { break };
            let copy = copied_frame(&entry).unwrap_or(&[]);
            let Some(mut frame) = pool.allocate(0) else {
                self.lost += 1;
                continue;
            };
            let Some(room) = frame.append(copy.len()) else { continue };
            room.copy_from_slice(copy);
            (count, bytes) = (count + 1, bytes + copy.len() as u64);
            frames.push(frame);
        }
        (count, bytes)
    }
}
