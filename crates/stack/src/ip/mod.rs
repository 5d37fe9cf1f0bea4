//! The network layer: Ethernet, ARP and neighbour discovery, IPv4 and IPv6, ICMP; own addresses, routers and routes.

pub(crate) mod address_conflict;
pub(crate) mod autoconfiguration;
mod default_router;
pub(crate) mod duplicate_address;
mod fragmentation;
pub(crate) mod icmp;
pub(crate) mod input;
mod multicast_listener;
pub(crate) mod neighbour;
pub(crate) mod network;
pub(crate) mod reassembly;
mod routes;
mod vlan;
