//! A queue that another process goes on with. Its rings are the kernel's memory and its frames are in memory files: both stay
//! where they are, and so does what arrives meanwhile. What goes over is which frames the device has.

use super::handed::{HandedCard, HandedQueue};
use super::inject::Injector;
use super::queue::{AfXdp, Card};
use super::socket::Socket;
use crate::error::DeviceError;
use crate::memory::Frame;
use crate::plan::FrameMemory;
use crate::snapshot::{self, Place};
use crate::vnic::{TransmitBuffer, VnicStatistics};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

/// What a queue's next process must know of it.
#[derive(Serialize)]
pub struct Parting<'a> {
    in_flight: Vec<&'a Frame>,
    lent: Vec<Place>,
    statistics: VnicStatistics,
}

/// As it is read.
#[derive(Deserialize)]
pub struct Parted {
    in_flight: Vec<Frame>,
    lent: Vec<Frame>,
    statistics: VnicStatistics,
}

impl AfXdp {
    /// What the next process must know, within [`snapshot::writing`] when all others have written what they hold: `missing` are
    /// frames of the receive pool, the first one named there, that nobody has. `Err`: why it can't be handed on now.
    ///
    /// # Errors
    /// Frames that have been lost, or a packet not wholly queued.
    pub fn part(&self, missing: &dyn Fn(usize) -> Vec<u32>) -> Result<Parting<'_>, String> {
        if self.packet_end != self.published || self.socket.transmit.position() != self.published {
            return Err("a packet is only half queued".to_owned());
        }
        let in_flight: Vec<&Frame> = self.in_flight.iter().flatten().map(TransmitBuffer::frame).collect();
        let received = in_flight.iter().filter(|frame| frame.is_from(&self.memory.receive));
        let flying: HashSet<u32> = received.map(|frame| frame.index()).collect();
        let lent: Vec<u32> = missing(0).into_iter().filter(|index| !flying.contains(index)).collect();
        if lent.len() as u64 != u64::from(self.lent_count) {
            return Err(format!("{} received frames are nobody's, and the device has {}", lent.len(), self.lent_count));
        }
        let place = |index| Place::Of { pool: 0, index, start: 0, length: 0, continues: false };
        let statistics = self.statistics;
        Ok(Parting { in_flight, lent: lent.into_iter().map(place).collect(), statistics })
    }

    /// Its descriptors: the socket, and those of the injector.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let injector = self.injector.as_ref().map(Injector::descriptors);
        std::iter::once(self.socket.as_fd()).chain(injector.into_iter().flatten()).collect()
    }
}

impl HandedQueue {
    /// Goes on where another process has parted with the queue. Nothing is sent or received by this. Needs no privilege.
    ///
    /// # Errors
    /// What mapping says; `Invalid` for frames that are not of `memory`.
    pub fn resume(self, memory: FrameMemory, card: HandedCard, parted: Parted) -> Result<AfXdp, DeviceError> {
        let HandedQueue { socket, rings, metadata_bytes, scatter, injector } = self;
        let Parted { in_flight, lent, statistics } = parted;
        let shift = memory.region.frame_size().trailing_zeros();
        let socket = Socket::map(socket, rings, metadata_bytes)?;
        let HandedCard { mac, mtu, queue, is_veth } = card;
        let lent_count = snapshot::lend(lent);
        let mut queue = AfXdp::assemble(
            socket,
            memory,
            shift,
            lent_count,
            rings,
            Card { mac, mtu, is_local: is_veth, scatter },
            queue,
            None,
        );
        for frame in in_flight {
            let place = queue.in_flight.get_mut(frame.index() as usize).filter(|_| frame.is_of(&queue.memory.receive));
            let place = place.ok_or_else(|| DeviceError::Invalid { reason: "a frame of other memory".to_owned() })?;
            *place = Some(TransmitBuffer::Owned(frame));
            queue.in_flight_count += 1;
        }
        (queue.statistics, queue.is_moved) = (statistics, true);
        queue.use_injector(injector.and_then(|injector| Injector::over(injector, None).ok()));
        Ok(queue)
    }
}
