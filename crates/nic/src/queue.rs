//! [`Queue`]: a queue by whichever driver its device needs.

use crate::af_xdp::AfXdp;
use crate::error::DeviceError;
use crate::igbvf::IgbVf;
use crate::memory::Frame;
use crate::migration::Migrate;
use crate::plan::FrameMemory;
use crate::statistics::VnicStatistics;
use crate::tap::Tap;
use crate::train::TransmitTrains;
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// An open queue of a device of the kernel's, or of a function that this process drives.
#[allow(clippy::large_enum_variant, reason = "there is one to a thread, and it is on every packet's way")]
pub enum Queue {
    /// By AF_XDP.
    AfXdp(AfXdp),
    /// By a TAP device's descriptor.
    Tap(Tap),
    /// A virtual function by VFIO.
    IgbVf(IgbVf),
}

impl From<AfXdp> for Queue {
    fn from(queue: AfXdp) -> Queue {
        Queue::AfXdp(queue)
    }
}

impl From<Tap> for Queue {
    fn from(queue: Tap) -> Queue {
        Queue::Tap(queue)
    }
}

impl From<IgbVf> for Queue {
    fn from(queue: IgbVf) -> Queue {
        Queue::IgbVf(queue)
    }
}

/// Calls the driver's.
macro_rules! driver {
    ($queue:expr, $name:ident => $call:expr) => {
        match $queue {
            Queue::AfXdp($name) => $call,
            Queue::Tap($name) => $call,
            Queue::IgbVf($name) => $call,
        }
    };
}

impl Queue {
    /// A queue over this one's device and memory: see [`AfXdp::take_over`] and [`Tap::take_over`].
    ///
    /// # Errors
    /// Those of the driver's; [`DeviceError::Invalid`] for a virtual function, whose registers one process has.
    pub fn take_over(&self) -> Result<Queue, DeviceError> {
        match self {
            Queue::AfXdp(queue) => Ok(queue.take_over()?.into()),
            Queue::Tap(queue) => Ok(queue.take_over()?.into()),
            Queue::IgbVf(queue) => {
                Err(DeviceError::Invalid { reason: format!("{queue:?} ends with the process that drives it") })
            }
        }
    }
}

impl Vnic for Queue {
    fn capabilities(&self) -> Capabilities {
        driver!(self, queue => queue.capabilities())
    }

    #[inline]
    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        driver!(self, queue => queue.receive(frames, frames_max))
    }

    #[inline]
    fn transmit_room(&mut self) -> usize {
        driver!(self, queue => queue.transmit_room())
    }

    #[inline]
    fn batch_room(&mut self) -> usize {
        driver!(self, queue => queue.batch_room())
    }

    #[inline]
    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        driver!(self, queue => queue.transmit(buffer, options))
    }

    #[inline]
    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        driver!(self, queue => queue.trains())
    }

    #[inline]
    fn flush(&mut self) {
        driver!(self, queue => queue.flush());
    }

    fn memory(&self) -> &FrameMemory {
        driver!(self, queue => queue.memory())
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        driver!(self, queue => queue.doorbell())
    }

    fn claim_address(&mut self, address: IpAddr) -> bool {
        driver!(self, queue => queue.claim_address(address))
    }

    fn release_address(&mut self, address: IpAddr) {
        driver!(self, queue => queue.release_address(address));
    }

    fn migration(&self) -> Option<&dyn Migrate> {
        driver!(self, queue => queue.migration())
    }

    fn is_gone(&self) -> bool {
        driver!(self, queue => queue.is_gone())
    }

    fn statistics(&self) -> VnicStatistics {
        driver!(self, queue => queue.statistics())
    }
}
