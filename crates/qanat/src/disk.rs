//! Disks, as far as the author of a service needs them: what to open an area with, and a disk in memory for tests. Programs of this
//! workspace that divide disks use the crate `qanat-disk`.

pub use qanat_disk::area::{AreaDisk, AreaName, Areas};
pub use qanat_disk::{
    Completion, DiskFile, DiskOptions, Fault, FaultRates, Media, OpenError, Operation, Request, Sim, SimConfig, Uring,
    Vsic, VsicStatistics,
};
