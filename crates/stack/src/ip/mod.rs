//! The network layer: ARP and neighbour discovery, IPv4 and IPv6 headers, fragments, ICMP; own addresses, routers and routes. It
//! knows no transport: what concerns those above is returned to the caller.

mod address_conflict;
mod arp;
mod autoconfiguration;
mod default_router;
mod discovery;
mod duplicate_address;
mod formed_address;
mod fragmentation;
pub(crate) mod headers;
mod icmp;
pub(crate) mod icmp_message;
mod identification;
mod multicast_listener;
mod multicast_reports;
pub(crate) mod neighbour;
pub(crate) mod network;
pub(crate) mod own_address;
pub(crate) mod packet;
pub(crate) mod path;
pub(crate) mod reassembly;
mod router_discovery;
mod routes;
pub(crate) mod vlan;
