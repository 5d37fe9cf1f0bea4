//! A queue that another process goes on with. Its rings are the kernel's memory and its frames are in memory files: both stay
//! where they are, and so does what arrives meanwhile. What goes over is which frames the device has.

use super::handed::{HandedCard, HandedQueue};
use super::inject::Injector;
use super::queue::{AfXdp, Card};
use super::socket::Socket;
use crate::error::DeviceError;
use crate::memory::{Frame, Pool};
use crate::migration::{ExportError, ExportedQueue, ImportedQueue, Migrate};
use crate::plan::FrameMemory;
use crate::snapshot::{self, Place};
use crate::vnic::TransmitBuffer;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd};

impl Migrate for AfXdp {
    fn export(&self, missing: &dyn Fn(usize) -> Vec<u32>) -> Result<ExportedQueue<'_>, ExportError> {
        if self.packet_end != self.published || self.socket.transmit.position() != self.published {
            return Err(ExportError::HalfQueued);
        }
        let in_flight: Vec<&Frame> = self.in_flight.iter().flatten().map(TransmitBuffer::frame).collect();
        let received = in_flight.iter().filter(|frame| frame.is_from(&self.memory.receive));
        let flying: HashSet<u32> = received.map(|frame| frame.index()).collect();
        let lent: Vec<u32> = missing(0).into_iter().filter(|index| !flying.contains(index)).collect();
        if lent.len() as u64 != u64::from(self.lent_count) {
            return Err(ExportError::FramesLost { nobodys: lent.len(), lent: self.lent_count });
        }
        let place = |index| Place::Of { pool: 0, index, start: 0, length: 0, continues: false };
        let statistics = self.statistics;
        Ok(ExportedQueue { in_flight, lent: lent.into_iter().map(place).collect(), statistics })
    }

    fn receive_pool(&self) -> &Pool {
        AfXdp::receive_pool(self)
    }

    /// The socket, and those of the injector.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let injector = self.injector.as_ref().map(Injector::descriptors);
        std::iter::once(self.socket.as_fd()).chain(injector.into_iter().flatten()).collect()
    }
}

impl HandedQueue {
    /// Goes on where another process has exported the queue. Nothing is sent or received by this. Needs no privilege.
    ///
    /// # Errors
    /// What mapping says; `Invalid` for frames that are not of `memory`.
    pub fn resume(self, memory: FrameMemory, card: HandedCard, imported: ImportedQueue) -> Result<AfXdp, DeviceError> {
        let HandedQueue { socket, rings, metadata_bytes, scatter, injector } = self;
        let ImportedQueue { in_flight, lent, statistics } = imported;
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
