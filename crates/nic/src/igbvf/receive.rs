//! [`ReceiveRing`]: frames that the device fills.

use super::bus::Bus;
use super::memory::Descriptors;
use super::registers::{
    DROP_ENABLE, ONE_BUFFER, PSRTYPE, QUEUE_ENABLE, RDBAH, RDBAL, RDH, RDLEN, RDT, RECEIVED_DONE, RECEIVED_END,
    RECEIVED_ERROR, RXDCTL, SRRCTL, THRESHOLDS,
};
use crate::memory::{Frame, Pool};
use crate::statistics::VnicStatistics;
use std::sync::atomic::{Ordering, fence};

/// Frames that the device fills, in order.
pub(super) struct ReceiveRing {
    descriptors: Descriptors,
    /// The device's address of the frames' region.
    region_address: u64,
    pool: Pool,
    /// The frame of each descriptor that the device has.
    frames: Box<[Option<Frame>]>,
    /// The next that the device fills, and the next to give to it.
    head: u32,
    tail: u32,
    /// What the device was told last.
    told: u32,
    /// The frame that is going on belongs to one that was too long, and is dropped.
    skips: bool,
}

impl ReceiveRing {
    pub(super) fn new(descriptors: Descriptors, region_address: u64, pool: Pool) -> ReceiveRing {
        let frames = (0..descriptors.count()).map(|_| None).collect();
        ReceiveRing { descriptors, region_address, pool, frames, head: 0, tail: 0, told: 0, skips: false }
    }

    /// Begins anew, with a device that was reset and has nothing.
    pub(super) fn start(&mut self, bus: &impl Bus) {
        self.frames.iter_mut().for_each(|frame| drop(frame.take()));
        self.descriptors.clear();
        (self.head, self.tail, self.told, self.skips) = (0, 0, 0, false);
        let address = self.descriptors.address();
        bus.write(RXDCTL, 0);
        bus.write(RDBAL, address as u32);
        bus.write(RDBAH, (address >> 32) as u32);
        bus.write(RDLEN, self.descriptors.length());
        bus.write(RDH, 0);
        bus.write(RDT, 0);
        bus.write(PSRTYPE, 0);
        // The size of a buffer in KiB: that of a frame.
        bus.write(SRRCTL, self.pool.region().frame_size() >> 10 | ONE_BUFFER | DROP_ENABLE);
        bus.write(RXDCTL, THRESHOLDS | QUEUE_ENABLE);
        self.refill(bus);
    }

    /// Whether the device has it on. If not, somebody else has reset the device.
    pub(super) fn is_on(&self, bus: &impl Bus) -> bool {
        bus.read(RXDCTL) & QUEUE_ENABLE != 0
    }

    /// Gives the device as many frames as there are, but for one place, which tells full from empty.
    pub(super) fn refill(&mut self, bus: &impl Bus) {
        let count = self.descriptors.count();
        while self.tail.wrapping_sub(self.head) < count - 1 {
            let Some(frame) = self.pool.allocate(0) else { break };
            let address = self.region_address + frame.offset_in_region() as u64;
            self.descriptors.store(self.tail, address, 0);
            if let Some(place) = self.frames.get_mut((self.tail % count) as usize) {
                *place = Some(frame);
            }
            self.tail = self.tail.wrapping_add(1);
        }
        if self.tail != self.told {
            self.told = self.tail;
            fence(Ordering::Release);
            bus.write(RDT, self.tail % count);
        }
    }

    /// Appends frames that came; how many.
    #[inline]
    pub(super) fn take(
        &mut self,
        frames: &mut Vec<Frame>,
        frames_max: usize,
        statistics: &mut VnicStatistics,
    ) -> usize {
        let (mut taken, count) = (0, self.descriptors.count());
        while taken < frames_max && self.head != self.tail {
            let told = self.descriptors.told(self.head);
            if told & RECEIVED_DONE == 0 {
                break;
            }
            let frame = self.frames.get_mut((self.head % count) as usize).and_then(Option::take);
            self.head = self.head.wrapping_add(1);
            let is_whole = told & RECEIVED_END != 0 && !self.skips;
            self.skips = told & RECEIVED_END == 0;
            let length = (told >> 32) as usize & 0xffff;
            let Some(mut frame) = frame else { continue };
            // What the device says is not believed: a length beyond the frame is none.
            if !is_whole || told & RECEIVED_ERROR != 0 || frame.append(length).is_none() {
                statistics.receive_invalid += 1;
                continue;
            }
            statistics.receive_frames += 1;
            statistics.receive_bytes += length as u64;
            frames.push(frame);
            taken += 1;
        }
        taken
    }

    /// Keeps all memory for good: the device may still write there.
    pub(super) fn give_up(&mut self) {
        self.frames.iter_mut().for_each(|frame| std::mem::forget(frame.take()));
    }
}
