//! [`TransmitRing`]: frames that the device sends.

use super::bus::Bus;
use super::memory::Descriptors;
use super::registers::{
    QUEUE_ENABLE, SEND_WHOLE, SENT_DONE, TDBAH, TDBAL, TDH, TDLEN, TDT, TDWBAH, TDWBAL, THRESHOLDS, TXDCTL,
};
use crate::vnic::TransmitBuffer;
use std::sync::atomic::{Ordering, fence};

/// Frames that the device sends, in order.
pub(super) struct TransmitRing {
    descriptors: Descriptors,
    region_address: u64,
    buffers: Box<[Option<TransmitBuffer>]>,
    /// The oldest that the device may still read, and the next.
    head: u32,
    tail: u32,
    /// What the device was told last.
    told: u32,
}

impl TransmitRing {
    pub(super) fn new(descriptors: Descriptors, region_address: u64) -> TransmitRing {
        let buffers = (0..descriptors.count()).map(|_| None).collect();
        TransmitRing { descriptors, region_address, buffers, head: 0, tail: 0, told: 0 }
    }

    /// Begins anew, with a device that was reset and has nothing; how many frames were lost.
    pub(super) fn start(&mut self, bus: &impl Bus) -> u64 {
        let lost = self.drop_all();
        self.descriptors.clear();
        (self.head, self.tail, self.told) = (0, 0, 0);
        let address = self.descriptors.address();
        bus.write(TXDCTL, 0);
        bus.write(TDBAL, address as u32);
        bus.write(TDBAH, (address >> 32) as u32);
        bus.write(TDLEN, self.descriptors.length());
        bus.write(TDH, 0);
        bus.write(TDT, 0);
        bus.write(TDWBAL, 0);
        bus.write(TDWBAH, 0);
        bus.write(TXDCTL, THRESHOLDS | QUEUE_ENABLE);
        lost
    }

    /// Gives back what the device has, which it must not read any more; how many.
    fn drop_all(&mut self) -> u64 {
        self.buffers.iter_mut().map(|buffer| u64::from(buffer.take().is_some())).sum()
    }

    /// Frames there is room for; one place tells full from empty.
    #[inline]
    pub(super) fn room(&self) -> usize {
        (self.descriptors.count() - 1).saturating_sub(self.tail.wrapping_sub(self.head)) as usize
    }

    /// Puts a whole frame of the region.
    ///
    /// # Errors
    /// Gives it back if there is no room.
    #[inline]
    pub(super) fn put(&mut self, buffer: TransmitBuffer) -> Result<(), TransmitBuffer> {
        if self.room() == 0 {
            return Err(buffer);
        }
        let frame = buffer.frame();
        let length = frame.len() as u32 & 0xffff;
        let address = self.region_address + frame.offset_in_region() as u64;
        // Command and length of this buffer below, the length of the whole frame above.
        self.descriptors.store(self.tail, address, u64::from(SEND_WHOLE | length) | u64::from(length << 14) << 32);
        let place = (self.tail % self.descriptors.count()) as usize;
        if let Some(place) = self.buffers.get_mut(place) {
            *place = Some(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Tells the device of what was put; whether there was something.
    #[inline]
    pub(super) fn ring(&mut self, bus: &impl Bus) -> bool {
        if self.tail == self.told {
            return false;
        }
        self.told = self.tail;
        fence(Ordering::Release);
        bus.write(TDT, self.tail % self.descriptors.count());
        true
    }

    /// Gives back what was sent.
    #[inline]
    pub(super) fn reclaim(&mut self) {
        while self.head != self.told && self.descriptors.told(self.head) & SENT_DONE != 0 {
            let place = (self.head % self.descriptors.count()) as usize;
            self.buffers.get_mut(place).map(Option::take);
            self.head = self.head.wrapping_add(1);
        }
    }

    /// Keeps all memory for good: the device may still read there.
    pub(super) fn give_up(&mut self) {
        self.buffers.iter_mut().for_each(|buffer| std::mem::forget(buffer.take()));
    }
}
