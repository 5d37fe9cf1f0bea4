//! Why there is no kernel placement.

use qanat_nic::sockets::SocketRingError;
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;

/// Why there is no kernel placement.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// There is no ring.
    #[error("{0}")]
    Ring(#[from] SocketRingError),
    /// There is no epoll instance.
    #[error("epoll: {0}: raise the limit on descriptors (ulimit -n)")]
    Poll(#[source] io::Error),
    /// There is no memory to receive into.
    #[error("memory to receive into: {0}")]
    Memory(#[source] io::Error),
    /// A port can't be listened at.
    #[error("listening at {address}: {error}{}", remedy(.error))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
}

fn remedy(error: &io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            ": ports below 1024 are root's: choose others (--port 8080, and --redirect-port beside --https), start it with sudo, or have \
             `sysctl net.ipv4.ip_unprivileged_port_start` allow it"
        }
        Some(Errno::ADDRINUSE) => {
            ": another program is there (`ss -lntup` shows it): choose another --port or --listen"
        }
        Some(Errno::ADDRNOTAVAIL) => ": no interface has this address (`ip address` shows those there are)",
        _ => "",
    }
}
