//! Middleware that charges the driver's calls to its phases of a turn: see [`breakdown`](crate::breakdown).

use crate::base::breakdown::{Phase, span};
use crate::memory::Frame;
use crate::train::TransmitTrains;
use crate::vnic::{Capabilities, TransmitBuffer, TransmitOptions, Vnic};

/// `vnic`, its calls charged to the driver's phases.
pub fn metered<V: Vnic>(vnic: V) -> Metered<V> {
    Metered { vnic }
}

/// See [`metered`].
pub struct Metered<V: Vnic> {
    vnic: V,
}

impl<V: Vnic> Metered<V> {
    /// The device itself.
    pub fn device(&self) -> &V {
        &self.vnic
    }
}

impl<V: Vnic> Vnic for Metered<V> {
    fn capabilities(&self) -> Capabilities {
        self.vnic.capabilities()
    }

    #[inline]
    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        let _driver = span(Phase::DriverIn);
        self.vnic.receive(frames, frames_max)
    }

    #[inline]
    fn transmit_room(&mut self) -> usize {
        let _driver = span(Phase::DriverOut);
        self.vnic.transmit_room()
    }

    fn batch_room(&mut self) -> usize {
        let _driver = span(Phase::DriverOut);
        self.vnic.batch_room()
    }

    #[inline]
    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        let _driver = span(Phase::DriverOut);
        self.vnic.transmit(buffer, options)
    }

    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        self.vnic.trains()
    }

    #[inline]
    fn flush(&mut self) {
        let _driver = span(Phase::DriverOut);
        self.vnic.flush();
    }

    crate::vnic::leave_to_inner!(vnic);
}
