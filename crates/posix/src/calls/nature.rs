//! What kind of socket the kernel has at a descriptor, and whether it may become ours.

use crate::sys::kernel_socket::kernel_option;
use libc::c_int;
use std::net::SocketAddr;

/// What a socket is, and whether it may become ours.
pub(super) struct Nature {
    pub(super) family: c_int,
    pub(super) is_stream: bool,
}

impl Nature {
    /// Whether such a socket could send to `peer`, given as an address of `family`; what it can't, the kernel refuses best.
    pub(super) fn reaches(&self, fd: c_int, peer: SocketAddr, family: c_int) -> bool {
        if self.family == libc::AF_INET {
            return family == libc::AF_INET;
        }
        let is_only_six = || kernel_option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
        peer.is_ipv6() || (family == libc::AF_INET6 || !self.is_stream) && !is_only_six()
    }
}

/// What `fd` is; `None`: nothing that could become ours.
pub(super) fn nature(fd: c_int) -> Option<Nature> {
    let family = kernel_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    let protocol = kernel_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)?;
    if family != libc::AF_INET && family != libc::AF_INET6 {
        return None;
    }
    match protocol {
        libc::IPPROTO_TCP => Some(Nature { family, is_stream: true }),
        libc::IPPROTO_UDP => Some(Nature { family, is_stream: false }),
        _ => None,
    }
}
