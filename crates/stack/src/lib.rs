//! A sans-I/O TCP/IP stack: time, entropy and the device are arguments.
//!
//! [`Stack::receive`] takes frames from a [`Vnic`](qanat_nic::Vnic) to completion and produces [`Event`]s; the owner
//! answers with commands (methods of [`Stack`]); [`Stack::transmit`] sends what became due, and
//! [`Stack::next_deadline`] says when to call again at the latest. Nothing else connects it to the outside.
//!
//! ```text
//!  receive → input (Ethernet, IP) → ip (ARP, ND, ICMP, fragments) | transport (demultiplex → tcp | udp) → Event
//!  command → transport → tcp → emitter | reply | udp → ip (IP, next hop, neighbour, Ethernet) → Vnic
//! ```
//!
//! `tables` know no protocol, `ip` no transport, `tcp` neither. [`Stack`] holds the state of all and dispatches; `transport` and
//! `input` are what it does. A room's `mod.rs` declares, and nothing in the room imports from it.
#![forbid(unsafe_code)]

mod config;
mod counters;
mod input;
mod ip;
mod permutation;
mod rate_limit;
mod secret;
pub mod snapshot;
mod stack;
mod tables;
pub mod tcp;
mod transport;

pub use config::{Autoconfiguration, Config, DuplicateAddressDetection, FastOpenOptions};
pub use counters::Counters;
pub use input::Handler;
pub use ip::own_address::AddressState;
pub use qanat_api::{
    Chunk, CloseReason, CommandError, ConnectOptions, ConnectionId, Event, FastOpenRequest, Fill, Keepalive,
    ListenOptions, ListenerId, Setting, Source, TimerId, UdpSocketId,
};
pub use rate_limit::RateLimiter;
pub use stack::{Stack, Usage};
pub use tables::peer::{Peer, PeerCounts};
pub use tables::wheel::{Wheel, WheelHandle};
pub use transport::connections::Handover;
pub use transport::udp_socket::UdpError;
