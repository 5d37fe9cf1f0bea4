//! Middleware that takes trains for a device that takes segments only: it cuts them itself.

use crate::checksum::ChecksumOffload;
use crate::memory::Frame;
use crate::plan::FrameMemory;
use crate::statistics::VnicStatistics;
use crate::train::{Train, TransmitTrains};
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};
use std::os::fd::BorrowedFd;

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
        let Cutting { inner, lost, .. } = self;
        train.cut(|segment| *lost += u64::from(!transmit_segment(inner, segment, train.checksum)));
    }
}

/// Sends a packet in as many frames as it takes; whether they could be had.
fn transmit_segment(vnic: &mut impl Vnic, segment: &[u8], checksum: ChecksumOffload) -> bool {
    let headroom = usize::from(vnic.capabilities().transmit_headroom);
    let mut frames = Vec::new();
    let mut left = segment;
    while !left.is_empty() {
        let Some(mut frame) = vnic.transmit_pool().allocate(headroom) else { return false };
        let (part, rest) = left.split_at(left.len().min(frame.tailroom()));
        let Some(target) = frame.append(part.len()).filter(|target| !target.is_empty()) else { return false };
        target.copy_from_slice(part);
        left = rest;
        frames.push(frame);
    }
    if vnic.transmit_room() < frames.len() || frames.len() > usize::from(vnic.capabilities().transmit_buffers_max) {
        return false;
    }
    let last = frames.len().saturating_sub(1);
    frames.into_iter().enumerate().all(|(index, frame)| {
        let checksum = (index == 0).then_some(checksum);
        vnic.transmit(TransmitBuffer::Owned(frame), TransmitOptions { continues: index < last, checksum }).is_ok()
    })
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

    fn memory(&self) -> &FrameMemory {
        self.inner.memory()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.inner.doorbell()
    }

    fn statistics(&self) -> VnicStatistics {
        let statistics = self.inner.statistics();
        VnicStatistics { transmit_lost: statistics.transmit_lost + self.lost, ..statistics }
    }
}
