//! What is said on the control socket: one JSON message in one packet (`SOCK_SEQPACKET`), with descriptors beside it.
//!
//! A packet has a size the kernel keeps, so a message can't be partial, and none is longer than
//! [`MESSAGE_BYTES_MAX`]. A request gets one answer. Whoever breaks a rule of this page is cut off.

use crate::address::Address;
use crate::filter::{Direction, Filter, Rate, Service};
use crate::net_core::StackWish;
use crate::refusal::Refusal;
use qanat_nic::DESCRIPTORS_REMEDY;
use qanat_nic::foreign::{Head, head};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Version of this protocol: 2 since filters are ranges and masks, and cards have providers; 3 since refusals have causes. A daemon answers requests of
/// its own version only; others it tells so, in their version, which is all that versions have in common.
pub const VERSION: u16 = 3;
/// Bytes of a message at most.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024;
/// Bytes of an answer at most: a status of many VNICs is long.
pub const ANSWER_BYTES_MAX: usize = 512 * 1024;
/// Descriptors beside a message at most: a queue's socket, and the two of its injector. An earlier daemon's were four.
pub const DESCRIPTORS_MAX: usize = 5;
/// Where the daemon listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/qanat/control.sock";

/// A message with its version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Envelope<T> {
    /// [`VERSION`].
    pub version: u16,
    /// What is said.
    pub body: T,
}

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

/// Where a part of a long answer begins. A client gives back what it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Of a status: the card; of metrics: which.
    pub major: u32,
    /// Of a status: filters of that card before it; of metrics: the card.
    pub minor: u32,
}

/// A VNIC to be made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VnicWish {
    /// What it is called in listings.
    pub name: String,
    /// Its own addresses with prefix lengths; nobody else may have them.
    pub addresses: Vec<(Address, u8)>,
    /// Queue pairs; 0: one.
    pub queues: u32,
    /// Largest packet; 0: 1500.
    pub mtu: u32,
    /// What it may send as, from its own addresses and ports to everybody. Empty: nothing until filters are added.
    pub services: Vec<Service>,
    /// Stay until deleted, instead of until the handle is closed.
    pub persistent: bool,
    /// Of its queues the last so many are high-priority: they receive nothing but what filters give them.
    #[serde(default)]
    pub priority_queues: u32,
    /// Its addresses are the kernel's, on the uplink or the NIC: it has its services of them, and the kernel the rest.
    #[serde(default)]
    pub shared: bool,
    /// Where it comes from.
    #[serde(default)]
    pub provider: Provider,
}

/// Where a VNIC comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Provider {
    /// A virtual device, fenced in both directions.
    #[default]
    Veth,
    /// Queues of a NIC's own: nothing sees what it sends, so it is for those the policy trusts.
    Queue {
        /// The NIC.
        interface: String,
        /// The first of its queues.
        first: u32,
    },
    /// A TAP device, fenced in both directions: 64 KiB at a time to and from the kernel of this machine.
    Tap,
    /// An SR-IOV function: not built.
    Vf,
}

impl Provider {
    /// Its name in listings and policies.
    pub fn name(&self) -> &'static str {
        match self {
            Provider::Veth => "veth",
            Provider::Queue { .. } => "queue",
            Provider::Tap => "tap",
            Provider::Vf => "vf",
        }
    }
}

/// A filter and the queue that receives what it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steered {
    /// What it covers.
    pub filter: Filter,
    /// Received by; `None`: by the flow.
    pub queue: Option<u32>,
}

impl std::fmt::Display for Steered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.filter.fmt(f)?;
        self.queue.map_or(Ok(()), |queue| write!(f, " to queue {queue}"))
    }
}

/// A queue to be opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueWish {
    /// Its number, from 0.
    pub queue: u32,
    /// Bytes a frame: 2048 or 4096.
    pub frame_size: u32,
    /// Frames to receive into, the first of the memory file.
    pub receive_frames: u32,
    /// Frames to send from, the next.
    pub transmit_frames: u32,
    /// Frames of prepared content, the last.
    pub prepared_frames: u32,
}

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
}

/// Why a message could not be had.
#[derive(Debug)]
pub enum Fault {
    /// Nothing there now.
    Empty,
    /// The other side has closed.
    Closed,
    /// The other side does not keep to the protocol.
    Broken(String),
    /// The other side speaks this version of it.
    Version(u16),
    /// So many bytes are more than one message holds; nothing was sent.
    TooLong(usize),
    /// This process may have no more descriptors, and some came beside the message.
    NoRoom,
    /// What the system says.
    System(std::io::Error),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Empty => f.write_str("no message"),
            Fault::Closed => f.write_str("closed by the other side"),
            Fault::Broken(why) => write!(f, "not the control protocol: {why}"),
            Fault::Version(told) => write!(f, "version {told} of the control protocol, not {VERSION}"),
            Fault::TooLong(bytes) => write!(f, "{bytes} bytes in one message"),
            Fault::NoRoom => {
                write!(f, "a descriptor came that this process has no room for: raise its limit, {DESCRIPTORS_REMEDY}")
            }
            Fault::System(error) => error.fmt(f),
        }
    }
}

/// What is wrong if daemon and program speak different versions, and the remedy. Cards are not affected: they go on.
pub fn mismatch(daemon: u16, program: u16) -> String {
    let remedy = match daemon < program {
        true => {
            "restart the daemon with the program's version of qanat: `systemctl reload qanatd`, or HUP; cards go on"
        }
        false => "start the program anew with the daemon's version of qanat",
    };
    format!("the daemon speaks version {daemon} of the control protocol, the program {program}: {remedy}")
}

/// Sends one message. Never blocks if the socket does not.
///
/// # Errors
/// [`Fault`].
pub fn send<T: Serialize>(socket: BorrowedFd<'_>, body: T, descriptors: &[BorrowedFd<'_>]) -> Result<(), Fault> {
    send_in(VERSION, socket, body, descriptors)
}

/// As [`send`], to one who speaks another version.
///
/// # Errors
/// [`Fault`].
pub fn send_in<T: Serialize>(
    version: u16,
    socket: BorrowedFd<'_>,
    body: T,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Fault> {
    let text = serde_json::to_vec(&Envelope { version, body }).map_err(|e| Fault::Broken(e.to_string()))?;
    if text.len() > ANSWER_BYTES_MAX {
        return Err(Fault::TooLong(text.len()));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Fault::Broken(format!("{} descriptors in one message", descriptors.len())));
    }
    match sendmsg(socket, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(()),
        Err(Errno::MSGSIZE) => Err(Fault::TooLong(text.len())),
        Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Fault::Closed),
        Err(error) => Err(Fault::System(error.into())),
    }
}

/// Receives one message of at most `buffer`'s length, and the descriptors beside it, closed on exec.
///
/// # Errors
/// [`Fault`].
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<(T, Vec<OwnedFd>), Fault> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut was_reset = false;
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut beside, RecvFlags::CMSG_CLOEXEC) {
            // A process stopped and continued while it waits.
            Err(Errno::INTR) => {}
            // The other side closed without reading all. The kernel tells that once, before what was said until then.
            Err(Errno::CONNRESET) if !was_reset => was_reset = true,
            other => break other,
        }
    };
    let received = match received {
        Ok(received) => received,
        Err(Errno::AGAIN) => return Err(Fault::Empty),
        Err(Errno::CONNRESET | Errno::NOTCONN) => return Err(Fault::Closed),
        Err(error) => return Err(Fault::System(error.into())),
    };
    // Collected first: whatever is wrong with the message, its descriptors are closed here.
    let mut descriptors = Vec::new();
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    // The kernel closes what finds no number in this process.
    if received.flags.contains(ReturnFlags::CTRUNC) && descriptors.len() < DESCRIPTORS_MAX {
        return Err(Fault::NoRoom);
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Fault::Broken("a message too long, or with too many descriptors".to_owned()));
    }
    let text = buffer.get(..received.bytes).unwrap_or(&[]);
    if text.is_empty() {
        // A packet without bytes reads as the end does; either way there is no more to say.
        return Err(Fault::Closed);
    }
    Ok((understand(text)?, descriptors))
}

/// A message that waits at a socket.
#[derive(Debug)]
pub struct Glance<T> {
    /// What it says.
    pub said: Result<T, Fault>,
    /// There are descriptors beside it.
    pub has_rights: bool,
}

/// Looks at the next message of a socket whose other end nobody trusts. It stays where it is, with the descriptors beside it:
/// who receives these may have to wait for them to be closed.
///
/// # Errors
/// [`Fault`].
pub fn glance<T: DeserializeOwned>(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Glance<T>, Fault> {
    match head(socket, buffer).map_err(Fault::System)? {
        Head::Nothing => Err(Fault::Empty),
        Head::End => Err(Fault::Closed),
        Head::Message { is_longer: true, has_rights, .. } => {
            Ok(Glance { said: Err(Fault::Broken("a message too long".to_owned())), has_rights })
        }
        Head::Message { bytes, has_rights, .. } => {
            Ok(Glance { said: understand(buffer.get(..bytes).unwrap_or(&[])), has_rights })
        }
    }
}

/// What a message's text says.
///
/// # Errors
/// [`Fault::Broken`].
pub fn understand<T: DeserializeOwned>(text: &[u8]) -> Result<T, Fault> {
    let envelope: Envelope<serde_json::Value> =
        serde_json::from_slice(text).map_err(|error| Fault::Broken(error.to_string()))?;
    if envelope.version != VERSION {
        return Err(Fault::Version(envelope.version));
    }
    let body = serde_json::from_value(envelope.body).map_err(|error| Fault::Broken(error.to_string()))?;
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn messages_the_fuzzer_starts_from_are_of_this_version() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/control");
        let mut requests = 0;
        for entry in std::fs::read_dir(corpus).unwrap().flatten() {
            let text = std::fs::read(entry.path()).unwrap();
            match understand::<Request>(&text) {
                Ok(_) => requests += 1,
                Err(fault) => assert!(!matches!(fault, Fault::Version(_)), "{:?}: {fault}", entry.path()),
            }
        }
        assert!(requests >= 6, "{requests} of them are requests");
    }

    #[test]
    fn the_last_word_of_who_has_not_read_all_is_heard() {
        let kind = rustix::net::SocketType::SEQPACKET;
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let (client, daemon) = rustix::net::socketpair(rustix::net::AddressFamily::UNIX, kind, flags, None).unwrap();
        send(client.as_fd(), Request::Limits, &[]).unwrap();
        send(daemon.as_fd(), Answer::Refused("no time for that".into()), &[]).unwrap();
        drop(daemon);
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let heard = receive::<Answer>(client.as_fd(), &mut buffer);
        assert!(matches!(&heard, Ok((Answer::Refused(why), _)) if why.text == "no time for that"), "{heard:?}");
        assert!(matches!(receive::<Answer>(client.as_fd(), &mut buffer), Err(Fault::Closed)));
    }

    #[test]
    fn a_mismatch_names_both_versions_and_who_is_to_be_started_anew() {
        assert!(mismatch(1, 2).contains("version 1") && mismatch(1, 2).contains("restart the daemon"));
        assert!(mismatch(2, 1).contains("the program 1: start the program anew"));
    }
}
