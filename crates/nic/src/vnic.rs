//! The trait [`Vnic`]: one queue pair of a virtual network card.

use crate::checksum::ChecksumOffload;
use crate::memory::{Frame, Pool};
use crate::migration::Migrate;
use crate::plan::FrameMemory;
use crate::statistics::VnicStatistics;
use crate::train::TransmitTrains;
use qanat_wire::ethernet::MacAddress;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// What a receiver must do about layer-4 checksums of received frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum ReceiveChecksum {
    /// Check them.
    Verify,
    /// Check them, but also accept a field that holds just the pseudo-header's sum: a veth peer on this machine whose
    /// transmit checksum offload is on never fills in the rest.
    AcceptPartial,
    /// The device has checked them.
    Trust,
}

/// What the device can do, and its limits. Constant while it is open.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Largest layer-3 packet, bytes (Ethernet header not counted).
    pub mtu: u16,
    /// The device fills in one ones'-complement checksum per frame ([`TransmitOptions::checksum`]).
    pub transmit_checksum: bool,
    /// What to do with received checksums.
    pub receive_checksum: ReceiveChecksum,
    /// Frames one transmitted packet may consist of (1: no scatter-gather).
    pub transmit_buffers_max: u8,
    /// Headroom every frame handed to `transmit` must keep before its data, for the driver's use.
    pub transmit_headroom: u16,
}

/// What the sender wants done with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct TransmitOptions {
    /// The packet goes on in the next frame transmitted (scatter-gather).
    pub continues: bool,
    /// Only if [`Capabilities::transmit_checksum`], and only on a packet's first frame.
    pub checksum: Option<ChecksumOffload>,
}

/// A frame on its way out. The driver drops it when the device is done with it.
#[derive(Debug)]
pub enum TransmitBuffer {
    /// Returns to its pool when sent.
    Owned(Frame),
    /// Stays with its owner. [`Rc::get_mut`] tells the owner that the device is done with it, so that it may be rewritten.
    Shared(Rc<Frame>),
}

impl TransmitBuffer {
    /// The frame.
    #[inline]
    pub fn frame(&self) -> &Frame {
        match self {
            TransmitBuffer::Owned(frame) => frame,
            TransmitBuffer::Shared(frame) => frame,
        }
    }
}

/// Bytes that a frame has beyond its layer-3 packet at most: an Ethernet header and one VLAN tag.
pub const LINK_HEADER_MAX: usize = 18;

/// Frames that a received packet has at most: 64 KiB, behind the headroom of the first, in frames of 2,048 bytes.
pub const PACKET_FRAMES_MAX: usize = 33;

/// One queue pair of a virtual network card, used by one thread.
///
/// A packet is one frame, or several with [`Frame::continues`] / [`TransmitOptions::continues`] on all but the last.
pub trait Vnic {
    /// What the device can do, and its limits.
    fn capabilities(&self) -> Capabilities;

    /// Appends up to `frames_max` received frames to `frames`, whole packets only. Returns how many. Never blocks.
    ///
    /// If the first packet has more than `frames_max` frames, nothing is received. [`PACKET_FRAMES_MAX`] are always enough.
    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize;

    /// How many frames [`transmit`](Vnic::transmit) will certainly take now. If room is short, sent frames are reclaimed first.
    fn transmit_room(&mut self) -> usize;

    /// How many more frames should be queued before the next [`flush`](Vnic::flush). 0: flush and receive before more.
    ///
    /// This is fewer than [`transmit_room`](Vnic::transmit_room) when sending takes the sender's own time, since what is sent provokes
    /// frames that must be received meanwhile.
    fn batch_room(&mut self) -> usize {
        self.transmit_room()
    }

    /// Queues a frame for transmission; nothing may be sent before [`flush`](Vnic::flush).
    ///
    /// # Errors
    /// Gives the frame back when the ring is full. Before a packet of several frames, check `transmit_room`.
    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer>;

    /// The way out of trains, if there is one now. That may change at any time: ask before each.
    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        None
    }

    /// Starts transmission of what is queued (one doorbell), and reclaims frames the device is done with.
    fn flush(&mut self);

    /// Its frames.
    fn memory(&self) -> &FrameMemory;

    /// Where frames to transmit come from.
    fn transmit_pool(&self) -> &Pool {
        &self.memory().transmit
    }

    /// How many frames it receives into. Those that receivers hold are counted, too.
    fn receive_frame_count(&self) -> u32 {
        self.memory().receive.frame_count()
    }

    /// Frames set aside at opening for prepared content. They share the device's memory, and the driver never uses them.
    fn prepared_pool(&self) -> &Pool {
        &self.memory().prepared
    }

    /// A descriptor that polls readable when frames can be received; `None` if the device must be polled.
    fn doorbell(&self) -> Option<BorrowedFd<'_>>;

    /// Has the device let through what is for `address` too, and neighbour discovery about it. Returns whether it does. Only addresses
    /// found while running need it: the device was opened with those known before.
    fn claim_address(&mut self, address: IpAddr) -> bool {
        // A device without a filter lets everything through.
        let _ = address;
        true
    }

    /// Takes back [`claim_address`](Vnic::claim_address).
    fn release_address(&mut self, address: IpAddr) {
        let _ = address;
    }

    /// How another process goes on with it; `None`: that is not possible.
    fn migration(&self) -> Option<&dyn Migrate> {
        None
    }

    /// Whether the interface behind it has been deleted. If so, nothing will come or go any more. It costs a system call.
    fn is_gone(&self) -> bool {
        false
    }

    /// Counters.
    fn statistics(&self) -> VnicStatistics;
}

/// The methods that a layer over another [`Vnic`], its field `$inner`, leaves to that one: memory, addresses, doorbell, counters.
macro_rules! leave_to_inner {
    ($inner:ident) => {
        fn memory(&self) -> &$crate::plan::FrameMemory {
            self.$inner.memory()
        }

        fn doorbell(&self) -> Option<::std::os::fd::BorrowedFd<'_>> {
            self.$inner.doorbell()
        }

        fn claim_address(&mut self, address: ::std::net::IpAddr) -> bool {
            self.$inner.claim_address(address)
        }

        fn release_address(&mut self, address: ::std::net::IpAddr) {
            self.$inner.release_address(address);
        }

        fn is_gone(&self) -> bool {
            self.$inner.is_gone()
        }

        fn statistics(&self) -> $crate::statistics::VnicStatistics {
            self.$inner.statistics()
        }
    };
}
pub(crate) use leave_to_inner;

/// So that middleware can be stacked over any driver chosen at run time.
impl<V: Vnic + ?Sized> Vnic for Box<V> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn receive(&mut self, frames: &mut Vec<Frame>, frames_max: usize) -> usize {
        (**self).receive(frames, frames_max)
    }

    fn transmit_room(&mut self) -> usize {
        (**self).transmit_room()
    }

    fn batch_room(&mut self) -> usize {
        (**self).batch_room()
    }

    fn transmit(&mut self, buffer: TransmitBuffer, options: TransmitOptions) -> Result<(), TransmitBuffer> {
        (**self).transmit(buffer, options)
    }

    fn trains(&mut self) -> Option<&mut dyn TransmitTrains> {
        (**self).trains()
    }

    fn flush(&mut self) {
        (**self).flush();
    }

    fn memory(&self) -> &FrameMemory {
        (**self).memory()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        (**self).doorbell()
    }

    fn claim_address(&mut self, address: IpAddr) -> bool {
        (**self).claim_address(address)
    }

    fn release_address(&mut self, address: IpAddr) {
        (**self).release_address(address);
    }

    fn migration(&self) -> Option<&dyn Migrate> {
        (**self).migration()
    }

    fn is_gone(&self) -> bool {
        (**self).is_gone()
    }

    fn statistics(&self) -> VnicStatistics {
        (**self).statistics()
    }
}
