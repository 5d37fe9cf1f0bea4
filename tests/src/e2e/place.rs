//! The placements of a service's stack, for tests of what is the same in all of them.

use super::program::Program;

/// Where a service's stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In its process.
    Linked,
    /// In a net core.
    Split,
    /// It is the kernel's, asked by io_uring.
    Kernel,
    /// It is the kernel's, asked by epoll.
    Epoll,
}

impl Place {
    /// The options that say so. In a scenario's namespace the service is then at 10.77.0.2, in whatever placement.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Place::Linked => &[],
            Place::Split => &["--placement", "split"],
            Place::Kernel => {
                has_address("10.77.0.2/24");
                &["--placement", "kernel", "--listen", "10.77.0.2", "--sockets", "io-uring"]
            }
            Place::Epoll => {
                has_address("10.77.0.2/24");
                &["--placement", "kernel", "--listen", "10.77.0.2", "--sockets", "epoll"]
            }
        }
    }
}

/// The namespace itself has this address, with the length of its prefix.
///
/// # Panics
/// It can't have it.
pub fn has_address(address: &str) {
    Program::new("ip").arguments(["address", "replace", address, "dev", "lo"]).succeeds();
}
