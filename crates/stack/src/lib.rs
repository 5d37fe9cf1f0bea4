//! A sans-I/O TCP/IP stack: time, entropy and the device are arguments.
//!
//! [`Stack::receive`] takes frames from a [`Vnic`](qanat_nic::Vnic) to completion and produces [`Event`]s; the owner
//! answers with commands (methods of [`Stack`]); [`Stack::transmit`] sends what became due, and
//! [`Stack::next_deadline`] says when to call again at the latest. Nothing else connects it to the outside.
//!
//! ```text
//!  receive → input (Ethernet, ARP, IP) → demultiplex → tcp | udp | icmp → Event
//!  command → tcp → emitter | reply | udp → network (IP, next hop, neighbour, Ethernet) → Vnic
//! ```
#![forbid(unsafe_code)]

mod address_conflict;
mod answer_limit;
mod autoconfiguration;
mod config;
mod counters;
mod datagram_path;
mod default_router;
mod demultiplex;
mod duplicate_address;
mod emitter;
mod event;
mod fast_open;
mod flow;
mod fragmentation;
mod icmp;
mod input;
mod multicast_listener;
mod neighbour;
mod network;
mod passive_open;
mod path;
mod path_mtus;
mod payload;
mod peer;
mod permutation;
mod rate_limit;
mod reassembly;
mod reply;
mod routes;
mod secret;
mod settings;
mod slab;
pub mod snapshot;
mod stack;
pub mod tcp;
mod transport;
mod udp;
mod vlan;
mod wheel;

pub use autoconfiguration::Autoconfiguration;
pub use config::{Config, DuplicateAddressDetection, FastOpenOptions};
pub use counters::Counters;
pub use duplicate_address::AddressState;
pub use input::Handler;
pub use peer::{Peer, PeerCounts};
pub use qanat_api::{
    Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, Event, FastOpenRequest, Fill, Keepalive,
    ListenOptions, ListenerId, Setting, Source, TimerId, UdpSocketId,
};
pub use rate_limit::RateLimiter;
pub use stack::{Stack, Usage};
pub use transport::Handover;
pub use udp::UdpError;
pub use wheel::{Wheel, WheelHandle};
