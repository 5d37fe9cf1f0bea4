//! Virtual NICs: frame memory, the trait [`Vnic`], its drivers and its middleware.
//!
//! A [`Frame`] is a buffer in device-visible memory. The holder of a frame owns it, and dropping it returns it to the [`Pool`] it
//! came from. Drivers and middleware implement [`Vnic`]. Test devices are drivers like the others.
//!
//! An open device is not `Send`: a queue belongs to one thread.

pub mod af_xdp;
mod base;
mod checksum;
mod claims;
mod cutting;
mod error;
pub mod fault;
pub mod foreign;
pub mod igbvf;
mod lent;
pub mod link;
pub mod memif;
mod memory;
mod metered;
pub mod migration;
pub mod pair;
pub mod pcap;
mod plan;
pub mod privilege;
mod queue;
pub mod sim;
pub mod snapshot;
pub mod sockets;
mod spread;
mod statistics;
pub mod tap;
mod train;
pub mod uring;
pub mod veth;
pub mod vfio;
mod vnic;
mod wire;

pub use af_xdp::{AfXdp, open_pair};
pub use base::inherited::inherited_file;
pub use base::left_socket::{bind_in_place, remove_left_behind};
pub use base::null_call::null_call;
pub use base::prefetch::prefetch;
pub use base::random::Random;
pub use base::spin::{Spin, SpinPolicy};
pub use base::time::{Clock, ManualClock, MonotonicClock, Time};
pub use base::{breakdown, place};
pub use checksum::ChecksumOffload;
pub use claims::Claims;
pub use cutting::Cutting;
pub use error::{DESCRIPTORS_REMEDY, DeviceError};
pub use fault::{Fault, FaultCounters, FaultRates};
pub use lent::{LendableFiles, LentFrames, lendable_frames, lent_frames};
pub use memif::{Memif, MemifConfig, MemifError, MemifListener};
pub use memory::{Frame, Pool, Region};
pub use metered::{Metered, metered};
pub use pair::{Pair, PairConfig, PairPort, pair};
pub use pcap::Pcap;
pub use plan::{FrameMemory, MemoryPlan};
pub use queue::Queue;
pub use sim::{LinkConfig, LinkCounters, SimulatedLink};
pub use spread::QueueShare;
pub use statistics::VnicStatistics;
pub use tap::Tap;
pub use train::{TRAIN_BYTES_MAX, TRAIN_PIECES_MAX, Train, TransmitTrains};
pub use vnic::{
    Capabilities, LINK_HEADER_MAX, PACKET_FRAMES_MAX, ReceiveChecksum, TransmitBuffer, TransmitOptions, Vnic,
};
pub use wire::Wire;
