//! A queue goes on after whoever used it was killed in the middle of it: what the kernel shares of it is sound, and all else is left.

use super::config::RingSizes;
use super::queue::{AfXdp, Card};
use super::socket::Socket;
use crate::error::DeviceError;
use crate::memory::Pool;
use crate::plan::FrameMemory;
use crate::vnic::{ReceiveChecksum, Vnic};
use std::os::fd::AsFd;
use std::rc::Rc;

impl AfXdp {
    /// A queue over this one's socket and memory that starts from where the kernel is. Of this one only what was settled when it was
    /// opened is read, so it may be in any state; it must neither be used nor dropped any more. Frames somebody held, received or
    /// prepared, are nobody's from now on; what was given to the kernel is sent.
    ///
    /// # Errors
    /// What mapping the rings says.
    pub fn take_over(&self) -> Result<AfXdp, DeviceError> {
        let system = |error| DeviceError::system("take an AF_XDP socket over", error);
        let (old, region) = (&self.socket, &self.memory.region);
        let rings = RingSizes {
            fill: old.fill.size(),
            receive: old.receive.size(),
            transmit: old.transmit.size(),
            completion: old.completion.size(),
        };
        let descriptor = old.as_fd().try_clone_to_owned().map_err(system)?;
        let socket = Socket::map(descriptor, rings, old.metadata_bytes)?;
        let lent_count = socket.fill.pending(socket.fill.position());
        let (receive, transmit) = (self.memory.receive.frame_count(), self.memory.transmit.frame_count());
        let memory = FrameMemory {
            region: Rc::clone(region),
            // What the kernel has comes back by the ring.
            receive: Pool::of(region, 0..receive, false),
            transmit: Pool::of(region, receive..receive + transmit, true),
            prepared: Pool::of(region, 0..0, true),
        };
        let was = self.capabilities();
        let card = Card {
            mac: was.mac,
            mtu: u32::from(was.mtu),
            is_local: was.receive_checksum == ReceiveChecksum::AcceptPartial,
            scatter: was.transmit_buffers_max > 1,
        };
        let shift = region.frame_size().trailing_zeros();
        let mut queue = AfXdp::assemble(socket, memory, shift, lent_count, rings, card, self.queue(), None);
        // Before their frames are others'.
        queue.finish();
        Ok(queue)
    }
}
