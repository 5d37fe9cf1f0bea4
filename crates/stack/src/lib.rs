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

mod config;
mod counters;
mod ip;
mod permutation;
mod rate_limit;
mod secret;
pub mod snapshot;
mod stack;
mod tables;
pub mod tcp;
mod transport;

pub use config::{Config, DuplicateAddressDetection, FastOpenOptions};
pub use counters::Counters;
pub use ip::autoconfiguration::Autoconfiguration;
pub use ip::duplicate_address::AddressState;
pub use ip::input::Handler;
pub use qanat_api::{
    Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, Event, FastOpenRequest, Fill, Keepalive,
    ListenOptions, ListenerId, Setting, Source, TimerId, UdpSocketId,
};
pub use rate_limit::RateLimiter;
pub use stack::{Stack, Usage};
pub use tables::peer::{Peer, PeerCounts};
pub use tables::wheel::{Wheel, WheelHandle};
pub use transport::connections::Handover;
pub use transport::udp::UdpError;
