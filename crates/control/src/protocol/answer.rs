//! What the daemon answers.

use super::disk::{AreaStatus, DiskPlace, DiskStatus};
use super::status::{Limits, Place, Status, VnicStatus};
use crate::refusal::Refusal;
use qanat_nic::vfio::{Identity, PciAddress};
use serde::{Deserialize, Serialize};

/// What the daemon says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Answer {
    /// Done.
    Done,
    /// Not done, and why.
    Refused(Refusal),
    /// The VNIC made or opened; its handle is beside.
    Vnic(VnicStatus),
    /// The queue opened; its socket is beside.
    Queue(QueueStatus),
    /// The TAP device opened; its descriptor is beside.
    Tap,
    /// The virtual function opened; beside are the descriptors of the function, its group and its container.
    Function {
        /// Where it is.
        address: PciAddress,
        /// What it is.
        identity: Identity,
    },
    /// The filter's number; its handle is beside.
    Filter(u64),
    /// What there is.
    Status(Status),
    /// What the peer may have.
    Limits(Limits),
    /// Text.
    Text(String),
    /// A part of what there is. A card whose filters are in several parts is in each of them, and whole in the first.
    StatusPart {
        /// The part.
        status: Status,
        /// Where the next begins; `None`: this was the last.
        next: Option<Place>,
    },
    /// A part of a text.
    TextPart {
        /// The part.
        text: String,
        /// Where the next begins; `None`: this was the last.
        next: Option<Place>,
    },
    /// The area that was made, changed or deleted.
    Area(AreaStatus),
    /// A part of the disks there are. A disk whose areas are in several parts is in each of them.
    Disks {
        /// The part.
        disks: Vec<DiskStatus>,
        /// Where the next begins; `None`: this was the last.
        next: Option<DiskPlace>,
    },
    /// Unasked, on a VNIC's handle: the last word before the daemon closes it.
    Ended(VnicEnd),
}

/// Why the daemon ended a VNIC. A daemon that crashes, or that leaves its cards to the next one, says nothing: the cards go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VnicEnd {
    /// The daemon ends, with every card.
    DaemonEnds,
    /// Somebody who may do so deleted it.
    Deleted,
    /// Its interface was deleted.
    InterfaceDeleted,
    /// Nobody holds it any more.
    Unheld,
}

impl VnicEnd {
    /// What it says to a service that is to end with its card; `None`: another daemon may give it another card.
    pub fn to_holder(self) -> Option<&'static str> {
        match self {
            VnicEnd::DaemonEnds => None,
            VnicEnd::Deleted => {
                Some("somebody deleted it (`qanat vnic delete`), so the service ends; start it again if it is to go on")
            }
            VnicEnd::InterfaceDeleted => Some(
                "its interface was deleted; the daemon's log tells more; start the service again if it is to go on",
            ),
            VnicEnd::Unheld => {
                Some("its daemon took it for held by nobody; look at the daemon's log, and start the service again")
            }
        }
    }
}

impl std::fmt::Display for VnicEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            VnicEnd::DaemonEnds => "the daemon ends",
            VnicEnd::Deleted => "asked to",
            VnicEnd::InterfaceDeleted => "its interface was deleted",
            VnicEnd::Unheld => "nobody holds it",
        })
    }
}

/// A queue's socket: ring sizes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct QueueStatus {
    /// Entries of the fill ring.
    pub fill: u32,
    /// Of the receive ring.
    pub receive: u32,
    /// Of the transmit ring.
    pub transmit: u32,
    /// Of the completion ring.
    pub completion: u32,
    /// Bytes before each transmitted frame that the kernel reads.
    pub metadata_bytes: u32,
    /// Packets may consist of several frames.
    pub scatter: bool,
}
