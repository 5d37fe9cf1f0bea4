//! What a service is to have of the kernel.

use qanat_nic::af_xdp::PortRange;
use qanat_nic::sockets::{PortUse, SocketEngineKind, has_six};
use std::net::{IpAddr, SocketAddr};

/// What a service is to have of the kernel.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// Own addresses at which it listens if it does not say where; none: all that the machine has.
    pub addresses: Vec<IpAddr>,
    /// The machine speaks IPv6.
    pub has_six: bool,
    /// Ports that are taken when the placement is made, while there are rights.
    pub ports: Vec<PortRange>,
    /// Whether other processes of this service have these ports, too.
    pub port_use: PortUse,
    /// Connections at most.
    pub connections_max: usize,
    /// Frames of 4 KiB to receive into.
    pub frames: u32,
    /// By io_uring or by epoll; `None`: by io_uring where it is allowed.
    pub engine: Option<SocketEngineKind>,
}

impl KernelOptions {
    /// All addresses, these ports, 16,384 connections, 32 MiB.
    pub fn new(ports: Vec<PortRange>) -> KernelOptions {
        KernelOptions {
            addresses: Vec::new(),
            has_six: has_six(),
            ports,
            port_use: PortUse::Alone,
            connections_max: 16_384,
            frames: 8_192,
            engine: None,
        }
    }

    /// The addresses that are meant by one of a service's; none, if it means all of a family that there are none of.
    pub(super) fn meant_by(&self, local: SocketAddr) -> Vec<SocketAddr> {
        if !local.ip().is_unspecified() || self.addresses.is_empty() && (local.is_ipv4() || self.has_six) {
            return vec![local];
        }
        let alike = self.addresses.iter().filter(|address| address.is_ipv4() == local.is_ipv4());
        alike.map(|address| SocketAddr::new(*address, local.port())).collect()
    }
}
