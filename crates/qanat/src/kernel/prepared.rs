//! Sockets that are bound while there are rights, for a service that asks for them when it has none.

use super::error::KernelError;
use super::options::KernelOptions;
use crate::attachment::PROTOCOL_TCP;
use qanat_nic::sockets::{PortUse, datagram_socket, listening_socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

/// Bound sockets: of streams or not, where.
pub(super) struct Prepared {
    port_use: PortUse,
    sockets: Vec<(bool, SocketAddr, OwnedFd)>,
}

fn open(is_stream: bool, address: SocketAddr, backlog: usize, port_use: PortUse) -> io::Result<OwnedFd> {
    if is_stream { listening_socket(address, backlog, port_use) } else { datagram_socket(address, port_use) }
}

impl Prepared {
    /// All ports of the options, at all of their addresses.
    pub(super) fn open(options: &KernelOptions) -> Result<Prepared, KernelError> {
        let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let mut sockets = Vec::new();
        for range in &options.ports {
            let is_stream = range.protocol == PROTOCOL_TCP;
            for (port, any) in (range.first..=range.last).flat_map(|port| any.iter().map(move |any| (port, *any))) {
                for address in options.meant_by(SocketAddr::new(any, port)) {
                    let socket = open(is_stream, address, 0, options.port_use)
                        .map_err(|error| KernelError::Listen { address, error })?;
                    sockets.push((is_stream, address, socket));
                }
            }
        }
        Ok(Prepared { port_use: options.port_use, sockets })
    }

    /// Those that were not taken.
    pub(super) fn close_all(&mut self) {
        self.sockets.clear();
    }

    /// The socket for this address: one that is bound already, or a new one.
    pub(super) fn take(&mut self, is_stream: bool, address: SocketAddr, backlog: usize) -> io::Result<OwnedFd> {
        let is_it = |other: &(bool, SocketAddr, OwnedFd)| (other.0, other.1) == (is_stream, address);
        match self.sockets.iter().position(is_it) {
            Some(place) => Ok(self.sockets.swap_remove(place).2),
            None => open(is_stream, address, backlog, self.port_use),
        }
    }
}

impl KernelOptions {
    /// Binds all ports as somebody who has them alone, and gives them up again: a process that starts others, which then share them, is told
    /// here if another program has one. Without that they would share it with strangers of the same user.
    ///
    /// # Errors
    /// [`KernelError::Listen`].
    pub fn check_ports(&self) -> Result<(), KernelError> {
        Prepared::open(&KernelOptions { port_use: PortUse::Alone, ..self.clone() }).map(drop)
    }
}
