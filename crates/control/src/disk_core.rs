//! What the daemon says to a disk core it has started: the disk, and the areas of it that are for applications. A disk core opens
//! nothing by itself: what it needs comes as descriptors beside these orders.
//!
//! ```text
//!   application ──asks──▶ daemon: an area by the policy, memory, two pairs of sockets
//!      ▲                    │  Open: memory, the core's end of the doorbell, the core's end of the lease
//!      └─ memory, its end ──┴─▶ disk core: serves the queue pair in the memory, within the area's extents only
//! ```
//! The daemon makes every descriptor:
//!
//! * **the disk**: a file, partition or disk that the daemon opened for direct I/O and has locked, or opened exclusively. Or an NVMe
//!   function: the descriptors by which it is driven, of which the daemon keeps none. Then the disk core alone reaches the disk, and the
//!   daemon reads and writes the table of areas as an application of it that has [all of the disk](Order::OpenWhole).
//! * **memory**: a memory file of [`length`](qanat_disk::shared::SharedLayout::length) bytes, made by
//!   [`allocate`](qanat_disk::shared::SharedLayout::allocate): all of it is allocated, and it has the seals `F_SEAL_SHRINK`, `F_SEAL_GROW`
//!   and `F_SEAL_SEAL`. A disk core refuses one that has not, since an application could pull such memory from under it. The application has
//!   the same file. It is charged to the application's user until the lease ends.
//! * **doorbell**: one end of a `SOCK_SEQPACKET` pair; the application has the other. Each side says a byte when the other sleeps. Its end
//!   is the end of the application, or of the disk core. It takes no descriptors, if the kernel can refuse them. (It is no eventfd: both
//!   sides would share its flags, and nobody would see the other's end.)
//! * **lease**: one end of a pair whose other end the daemon watches. The disk core closes it when neither the area nor the memory is used
//!   any more, not even by requests that the device still has. Until then the area's space must not be another's.

use qanat_disk::Geometry;
use qanat_disk::area::{AreaLimits, Extent};
pub use qanat_disk::disk_core::{Closing, TenantConfig, TenantStatistics};
use qanat_disk::shared::SharedLayout;
use qanat_nic::vfio::{Identity, PciAddress};
use serde::{Deserialize, Serialize};

/// Longest order or report, bytes: an area has 200 extents at most.
pub const ORDER_BYTES_MAX: usize = 16_384;

/// An order. Each is one message of [`crate::protocol::send`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Order {
    /// The disk, which comes once and first; beside it is its descriptor. The answer is [`Report::Ready`].
    Disk {
        /// What the disk core says of it in its own messages.
        name: String,
        /// Requests that the device may have at once: 1…4,096.
        depth: u32,
    },
    /// An NVMe function, instead of a disk. Beside it are the descriptors of the function, its group and its container. The answer is
    /// [`Report::Ready`], or [`Report::Refused`] of tenant 0, and then the disk core ends.
    Function {
        /// Where it is.
        address: PciAddress,
        /// What it is.
        identity: Identity,
        /// Which of its namespaces; `None`: the first.
        namespace: Option<u32>,
        /// Requests that the device may have at once, at most: 1…256.
        depth: u32,
    },
    /// All of the disk, the table of areas included, for the daemon; beside it as for [`Order::Open`], and the same answer.
    OpenWhole {
        /// The daemon's number for itself.
        tenant: u64,
        /// How its memory is divided.
        layout: SharedLayout,
    },
    /// An area for an application; beside it are the memory, the doorbell and the lease, in this order. The answer is [`Report::Opened`] or
    /// [`Report::Refused`].
    Open(Box<TenantConfig>),
    /// The area has become larger: these are all its extents now, of which the first are as they were. The answer is [`Report::Grown`] or
    /// [`Report::Refused`]; the application is told by the daemon.
    Grow {
        /// The tenant whose area it is.
        tenant: u64,
        /// Where it lies now.
        extents: Vec<Extent>,
        /// Bytes of it that are ready, and may be used.
        bytes: u64,
    },
    /// Other limits from now on. The answer is [`Report::Limited`] or [`Report::Refused`].
    Limit {
        /// The tenant whose area it is.
        tenant: u64,
        /// Which.
        limits: AreaLimits,
    },
    /// The application is to have the area no more. What the device has already is waited for. The answer is [`Report::Closed`]; there is none
    /// if the area has been closed before.
    Close {
        /// The tenant whose area it is.
        tenant: u64,
    },
    /// The answer is one [`Report::Statistics`] for each tenant.
    Statistics,
}

/// What a disk core says to the daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Report {
    /// The disk is open, and the process is confined.
    Ready {
        /// What it is like.
        geometry: Geometry,
        /// `"seccomp"`, `"landlock"`, `"user"`: what was given up.
        confinement: Vec<String>,
    },
    /// The area can be used.
    Opened {
        /// The tenant whose area it is.
        tenant: u64,
    },
    /// An order was not done; the tenant is as it was before.
    Refused {
        /// The tenant whose area it is.
        tenant: u64,
        /// Why, and what to do.
        why: String,
    },
    /// The area has its new size.
    Grown {
        /// The tenant whose area it is.
        tenant: u64,
        /// All of it, bytes.
        bytes: u64,
    },
    /// The area has its new limits.
    Limited {
        /// The tenant whose area it is.
        tenant: u64,
    },
    /// The application has the area no more. The lease is closed when the device has let go, which may be later.
    Closed {
        /// The tenant whose area it is.
        tenant: u64,
        /// Why.
        why: Closing,
        /// What it did.
        statistics: TenantStatistics,
    },
    /// Counters.
    Statistics {
        /// The tenant whose area it is.
        tenant: u64,
        /// Since it was opened.
        statistics: TenantStatistics,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_order_fits() {
        let extents = vec![Extent { unit: u64::MAX, units: u64::MAX }; 200];
        let layout =
            qanat_disk::shared::SharedLayout { queue_bytes: u32::MAX, frame_bytes: u32::MAX, frames: u32::MAX };
        let limits = AreaLimits { requests_per_second: u64::MAX, bytes_per_second: u64::MAX };
        let (tenant, area, account, bytes) = (u64::MAX, u64::MAX, u32::MAX, u64::MAX);
        let ceiling = limits;
        let order = TenantConfig { tenant, area, account, extents, bytes, read_only: false, limits, ceiling, layout };
        let order = Order::Open(Box::new(order));
        let text = serde_json::to_vec(&crate::protocol::Envelope { version: crate::protocol::VERSION, body: &order });
        assert!(text.unwrap().len() <= ORDER_BYTES_MAX);
    }
}
