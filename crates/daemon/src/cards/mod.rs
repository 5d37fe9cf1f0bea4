//! VNICs: their devices, filters and queues, and the memory that is charged for them.

pub(crate) mod assignment;
pub(crate) mod charges;
pub(crate) mod claims;
pub(crate) mod filter_rows;
pub(crate) mod links;
pub(crate) mod maker;
pub(crate) mod nic;
pub(crate) mod nic_queues;
pub(crate) mod open_queue;
pub(crate) mod queues;
pub(crate) mod status;
pub(crate) mod steering;
pub(crate) mod take_back;
pub(crate) mod tap;
pub(crate) mod uplink;
pub(crate) mod veth;
pub(crate) mod vf;
pub(crate) mod vnic;
