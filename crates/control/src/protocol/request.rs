//! What a client asks.

use super::disk::{AreaPath, AreaWish, DiskPlace, DiskRate, DiskWish};
use super::status::Place;
use super::wish::{QueueWish, StackWish, VnicWish};
use crate::filter::{Direction, Filter, Rate};
use serde::{Deserialize, Serialize};

/// What a client asks. Which descriptor it is asked on says with what right: on the control socket that of the peer's
/// user, on a handle that of the handle.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Make a VNIC; answered with its handle as descriptor.
    CreateVnic(VnicWish),
    /// On a VNIC's handle, with a memory file as descriptor: open a queue; answered with its socket as descriptor, and with an
    /// injector's for who may have one.
    OpenQueue(QueueWish),
    /// Be served by one of the daemon's net cores, with a card as in `CreateVnic`; answered with a socket to the net core as
    /// descriptor, or without one if the daemon has no net cores.
    AttachNetCore {
        /// The card.
        card: VnicWish,
        /// What its stack is to be like.
        #[serde(default)]
        stack: StackWish,
    },
    /// Make a filter; answered with its handle as descriptor.
    CreateFilter {
        /// Which way.
        direction: Direction,
        /// What it covers: any of these.
        filters: Vec<Filter>,
    },
    /// On a VNIC's handle, with a filter's handle as descriptor: let it count for this VNIC; again for another queue or
    /// VNIC: let that one have it now.
    Assign {
        /// What it covers is received by this queue; `None`: by the flow, by one of those that are not high-priority.
        queue: Option<u32>,
    },
    /// On a VNIC's handle, with a filter's handle as descriptor: let it count no more.
    Unassign,
    /// Add a filter for good to the VNIC.
    AddFilter {
        /// On a handle: `None`.
        vnic: Option<u32>,
        /// Which way.
        direction: Direction,
        /// What it covers.
        filter: Filter,
        /// The queue that receives it.
        queue: Option<u32>,
    },
    /// Take away the filters of a VNIC that are exactly this.
    RemoveFilter {
        /// On a handle: `None`.
        vnic: Option<u32>,
        /// Which way.
        direction: Direction,
        /// What it covers.
        filter: Filter,
    },
    /// Limit a VNIC, now.
    SetRate {
        /// On a handle: `None`.
        vnic: Option<u32>,
        /// Which way.
        direction: Direction,
        /// How much.
        rate: Rate,
    },
    /// Delete a VNIC, whoever has its handle.
    DeleteVnic {
        /// Its number.
        vnic: u32,
    },
    /// A new handle of a VNIC of the same user, answered as descriptor.
    OpenVnic {
        /// Its number.
        vnic: u32,
    },
    /// What there is: all of it for root, else what is the peer's.
    Status,
    /// What the peer may have.
    Limits,
    /// The same as `Status`, in Prometheus' text format.
    Metrics,
    /// A part of what `Status` answers, where that is too long for one message.
    StatusPart {
        /// Where it begins; first: the default.
        from: Place,
    },
    /// A part of what `Metrics` answers.
    MetricsPart {
        /// Where it begins; first: the default.
        from: Place,
    },
    /// Start a net core on a processor, or let the one that was removed from it come home; root only.
    AddNetCore {
        /// Which.
        processor: u32,
    },
    /// Have a processor without net core: what it serves goes on in the others; root only.
    RemoveNetCore {
        /// Which.
        processor: u32,
    },
    /// Have a disk: a file, partition or device, which is prepared if it is empty, and opened again whenever the daemon starts; for
    /// root, and for those whose rule says `disk_admin`.
    AddDisk(DiskWish),
    /// Have a disk no more. What is on it stays; for the same.
    RemoveDisk {
        /// Its name.
        disk: String,
    },
    /// Make an area; answered when it is recorded. It is zeroed after that.
    CreateArea {
        /// Its disk and name.
        path: AreaPath,
        /// Bytes, rounded up to units of 4 KiB.
        bytes: u64,
        /// The kernel is to fence it: its holders have a descriptor of their own, and no disk core is on their way.
        #[serde(default)]
        fenced: bool,
    },
    /// Have an area of the peer's become larger.
    GrowArea {
        /// Which.
        path: AreaPath,
        /// Bytes in all.
        bytes: u64,
    },
    /// Delete an area of the peer's. Its name is free at once, its space once nobody holds it.
    DeleteArea {
        /// Which.
        path: AreaPath,
    },
    /// Limit what holders of an area of the peer's may ask of it.
    LimitArea {
        /// Which.
        path: AreaPath,
        /// How much.
        rate: DiskRate,
    },
    /// Use an area of the peer's through the disk's core; answered with the area, and with the shared memory and the application's end of
    /// the doorbell as descriptors. Closing the doorbell gives the area up.
    OpenArea(AreaWish),
    /// A part of the disks there are, with the areas that the peer may see.
    Disks {
        /// Where it begins; first: the default.
        from: DiskPlace,
    },
    /// With a handle an earlier daemon gave out as descriptor: a new one of the same object, answered as descriptor.
    Reclaim,
    /// End the daemon and everything it made; root only.
    Stop,
    /// End the daemon, and leave everything it made to the next; root only.
    Leave,
}

impl Request {
    /// Its name, as on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Request::CreateVnic(_) => "create-vnic",
            Request::OpenQueue(_) => "open-queue",
            Request::AttachNetCore { .. } => "attach-net-core",
            Request::CreateFilter { .. } => "create-filter",
            Request::Assign { .. } => "assign",
            Request::Unassign => "unassign",
            Request::AddFilter { .. } => "add-filter",
            Request::RemoveFilter { .. } => "remove-filter",
            Request::SetRate { .. } => "set-rate",
            Request::DeleteVnic { .. } => "delete-vnic",
            Request::OpenVnic { .. } => "open-vnic",
            Request::Status => "status",
            Request::Limits => "limits",
            Request::Metrics => "metrics",
            Request::StatusPart { .. } => "status-part",
            Request::MetricsPart { .. } => "metrics-part",
            Request::AddNetCore { .. } => "add-net-core",
            Request::RemoveNetCore { .. } => "remove-net-core",
            Request::AddDisk(_) => "add-disk",
            Request::RemoveDisk { .. } => "remove-disk",
            Request::CreateArea { .. } => "create-area",
            Request::GrowArea { .. } => "grow-area",
            Request::DeleteArea { .. } => "delete-area",
            Request::LimitArea { .. } => "limit-area",
            Request::OpenArea(_) => "open-area",
            Request::Disks { .. } => "disks",
            Request::Reclaim => "reclaim",
            Request::Stop => "stop",
            Request::Leave => "leave",
        }
    }

    /// Whether it changes anything if it is served.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Request::Status
                | Request::StatusPart { .. }
                | Request::Limits
                | Request::Metrics
                | Request::MetricsPart { .. }
                | Request::Disks { .. }
        )
    }

    /// Whether it is answered when a disk has done something.
    pub fn is_for_disk(&self) -> bool {
        matches!(
            self,
            Request::AddDisk(_)
                | Request::RemoveDisk { .. }
                | Request::CreateArea { .. }
                | Request::GrowArea { .. }
                | Request::DeleteArea { .. }
                | Request::LimitArea { .. }
                | Request::OpenArea(_)
        )
    }

    /// The VNIC it names.
    pub fn vnic(&self) -> Option<u32> {
        match self {
            Request::AddFilter { vnic, .. } | Request::RemoveFilter { vnic, .. } | Request::SetRate { vnic, .. } => {
                *vnic
            }
            Request::DeleteVnic { vnic } | Request::OpenVnic { vnic } => Some(*vnic),
            _ => None,
        }
    }
}
