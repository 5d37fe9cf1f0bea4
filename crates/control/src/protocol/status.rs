//! Listings: what there is, and what a user may have.

use super::disk::DiskRate;
use super::wish::{Provider, Steered};
use crate::filter::Rate;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Where a part of a long answer begins. A client gives back what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Of a status: the card; of metrics: which.
    pub major: u32,
    /// Of a status: filters of that card before it; of metrics: the card.
    pub minor: u32,
}

/// Frames and bytes of one fate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Count {
    /// What became of them.
    pub cause: String,
    /// Whether they were dropped.
    pub dropped: bool,
    /// Frames.
    pub frames: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// One direction of a VNIC.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// Its filters.
    pub filters: Vec<Steered>,
    /// Its rate.
    pub rate: Rate,
    /// What became of frames; those that are zero are left out.
    pub counts: Vec<Count>,
}

/// A VNIC.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VnicStatus {
    /// Its number.
    pub vnic: u32,
    /// What it was called.
    pub name: String,
    /// Whose it is.
    pub user: u32,
    /// The process that asked for it.
    pub process: i32,
    /// The rule that allowed it.
    pub rule: String,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// The kernel's end.
    pub interface: String,
    /// Largest packet.
    pub mtu: u32,
    /// Own addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The kernel's addresses at the other end: next hops off the prefix.
    pub gateways: Vec<IpAddr>,
    /// Queue pairs.
    pub queues: u32,
    /// Those opened.
    pub queues_open: u32,
    /// Frame memory registered, bytes.
    pub memory_bytes: u64,
    /// Stays without a handle.
    pub persistent: bool,
    /// Of its queues, the last so many are high-priority.
    pub priority_queues: u32,
    /// May reach, and be reached from, the uplink.
    pub uplink: bool,
    /// Where it comes from.
    pub provider: Provider,
    /// What drives the device its frames come from: with `veth` their checksums may be partial.
    pub driver: String,
    /// Its addresses are the kernel's too.
    pub shared: bool,
    /// What it sends.
    pub transmit: DirectionStatus,
    /// What it receives.
    pub receive: DirectionStatus,
}

/// What there is.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The daemon's version.
    pub daemon: String,
    /// Seconds it runs.
    pub uptime_s: u64,
    /// Connections to the control socket.
    pub sessions: u32,
    /// VNICs.
    pub vnics: Vec<VnicStatus>,
    /// Requests served, refused, and peers cut off.
    pub requests: [u64; 3],
    /// The uplink's interface.
    pub uplink: Option<String>,
    /// Net cores it has started.
    #[serde(default)]
    pub net_cores_started: Vec<NetCoreState>,
    /// Where its page for browsers is, with the key that it is for who knows it; told to root alone.
    #[serde(default)]
    pub dashboard: Option<String>,
}

/// A net core of the daemon's. How it is it tells itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NetCoreState {
    /// The processor it is pinned to.
    pub processor: u32,
    /// Its process; 0: it is about to be started again.
    pub process: u32,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Times it died and was started again.
    pub restarts: u64,
    /// It dies at each start: until it lives its cards are for others.
    #[serde(default)]
    pub is_failing: bool,
    /// Numbers of the VNICs it serves; one of which it serves several queues is there for each.
    pub vnics: Vec<u32>,
    /// Which queue of each.
    #[serde(default)]
    pub queues: Vec<u32>,
    /// VNICs that have come to it from other net cores.
    #[serde(default)]
    pub cards_moved: u64,
    /// The processor it was removed from: it is a guest where it is as long as it has VNICs that have not moved yet.
    #[serde(default)]
    pub removed_from: Option<u32>,
}

/// What a user may have, and has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The rule.
    pub rule: String,
    /// VNICs: at most, in use.
    pub vnics: [u32; 2],
    /// Queues of a VNIC at most.
    pub queues: u32,
    /// Bytes of frame memory: at most, in use.
    pub memory_bytes: [u64; 2],
    /// Filters of a VNIC and direction at most.
    pub filters: u32,
    /// Addresses that may be claimed.
    pub addresses: Vec<String>,
    /// Services that may be claimed.
    pub services: Vec<String>,
    /// Peers that may be sent to.
    pub peers: Vec<String>,
    /// Ceiling of all VNICs together.
    pub transmit: Rate,
    /// Ceiling of all VNICs together.
    pub receive: Rate,
    /// VLANs that filters may name.
    pub vlans: Vec<String>,
    /// EtherTypes that they may name.
    pub ethertypes: Vec<String>,
    /// Ethernet addresses of peers, or of next hops.
    pub macs: Vec<String>,
    /// ICMP echo and errors, the machine's other cards, the uplink's wire.
    pub reach: Vec<String>,
    /// Where cards may come from; of a NIC's queues those that are free.
    pub providers: Vec<String>,
    /// What the cards offer.
    pub offloads: Vec<String>,
    /// Disks on which areas may be made.
    #[serde(default)]
    pub disks: Vec<String>,
    /// Areas: at most, in use.
    #[serde(default)]
    pub areas: [u32; 2],
    /// Bytes of all areas together: at most, in use.
    #[serde(default)]
    pub area_bytes: [u64; 2],
    /// What may be asked of all areas of this user together, on each disk.
    #[serde(default)]
    pub disk_rate: DiskRate,
}
