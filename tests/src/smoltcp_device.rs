//! smoltcp's device over frames in memory, for the simulator and the fuzz targets.

use qanat_nic::Time;
use smoltcp::phy::{DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use std::collections::VecDeque;

/// Bytes of an Ethernet header, which smoltcp's MTU has in it.
const ETHERNET: usize = 14;

/// Frames on their way to smoltcp and from it.
#[derive(Debug)]
pub struct Frames {
    /// Bytes of the largest IP packet.
    mtu: usize,
    /// For smoltcp, the oldest first.
    pub inbox: VecDeque<Vec<u8>>,
    /// From smoltcp, the oldest first.
    pub outbox: Vec<Vec<u8>>,
}

/// A frame that smoltcp reads.
#[derive(Debug)]
pub struct Received(Vec<u8>);

/// A place for a frame that smoltcp writes.
#[derive(Debug)]
pub struct Sending<'a>(&'a mut Vec<Vec<u8>>);

impl Frames {
    /// None yet. `mtu`: bytes of the largest IP packet.
    #[must_use]
    pub fn new(mtu: usize) -> Frames {
        Frames { mtu, inbox: VecDeque::new(), outbox: Vec::new() }
    }
}

/// The same time in smoltcp's words.
#[must_use]
pub fn instant(now: Time) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut bytes = vec![0; length];
        let result = f(&mut bytes);
        self.0.push(bytes);
        result
    }
}

impl smoltcp::phy::Device for Frames {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Sending<'_>)> {
        let frame = self.inbox.pop_front()?;
        Some((Received(frame), Sending(&mut self.outbox)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.outbox))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + ETHERNET;
        capabilities
    }
}
