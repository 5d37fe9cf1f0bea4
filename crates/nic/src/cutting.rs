//! Middleware that takes trains for a device that takes segments only: it cuts them itself.

use crate::memory::Frame;
use crate::statistics::VnicStatistics;
use crate::train::{Train, TransmitTrains};
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};

/// A [`Vnic`] that cuts trains. It allocates and copies: for tests and simulations, in which trains must make no difference to any byte.
pub struct Cutting<V> {
    inner: V,
    /// Whether it takes trains at the moment.
    pub is_on: bool,
    lost: u64,
}

impl<V: Vnic> Cutting<V> {
    /// Before `inner`, taking trains.
    pub fn new(inner: V) -> Cutting<V> {
        Cutting { inner, is_on: true, lost: 0 }
    }

    /// The device itself.
    pub fn inner(&self) -> &V {
        &self.inner
    }

    /// The device itself.
    pub fn inner_mut(&mut self) -> &mut V {
        &mut self.inner
    }
}

impl<V: Vnic> TransmitTrains for Cutting<V> {
    fn transmit_train(&mut self, train: &Train<'_>) {
        let headroom = usize::from(self.inner.capabilities().transmit_headroom);
        let options = TransmitOptions { continues: false, checksum: Some(train.checksum) };
        train.cut(|segment| {
            let frame = self.inner.transmit_pool().allocate(headroom).and_then(|mut frame| {
                frame.append(segment.len())?.copy_from_slice(segment);
                Some(frame)
            });
            let is_taken = frame.is_some_and(|frame| self.inner.transmit(TransmitBuffer::Owned(frame), options).is_ok());
            self.lost += u64::from(!is_taken);
        });
    }
}

impl<V: Vnic> Vnic for Cutting<V> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        self.inner.receive(frames, frames_max)
    }

    fn transmit_room(&mut self) -> usize {
        self.inner.transmit_room()
    }

    fn batch_room(&mut self) -> usize {
        self.inner.batch_room()
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        self.inner.transmit(buffer, options)
    }

    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        // The checksum of a segment is the device's work.
        let can = self.is_on && self.inner.capabilities().transmit_checksum;
        can.then_some(self)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn transmit_pool(&self) -> &crate::memory::Pool {
        self.inner.transmit_pool()
    }

    fn receive_frame_count(&self) -> u32 {
        self.inner.receive_frame_count()
    }

    fn prepared_pool(&self) -> &crate::memory::Pool {
        self.inner.prepared_pool()
    }

    fn doorbell(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.inner.doorbell()
    }

    fn statistics(&self) -> VnicStatistics {
        let statistics = self.inner.statistics();
        VnicStatistics { transmit_lost: statistics.transmit_lost + self.lost, ..statistics }
    }
}
