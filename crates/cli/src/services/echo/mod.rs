//! `qanat echo`: what comes in goes back, four ways.

mod bare;
mod memif;
mod server;

use crate::host::{self, HostArguments};
use bare::{Bare, Kernel};
use clap::Args;
use qanat_echo::{EchoConfig, LinkChoice};
use server::Echo;

/// Send back what comes: to measure stacks, links and drivers by
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat echo                               UDP and TCP at 10.77.0.2:7, on a virtual interface of its own
  sudo qanat echo --raw                         in the driver: addresses swapped, no stack
  sudo qanat echo --placement split             the stack in a process of its own, a net core
  qanat echo --placement kernel --port 7007     over the kernel's sockets, at 127.0.0.1: without root, without a card
  sudo qanat echo --user echo                   as that user (default: who called sudo, or nobody), without root's rights
  qanat echo --link memif:/tmp/echo.sock        over shared memory with another process: no root, no kernel
  qanat echo --kernel epoll --port 7007         over kernel sockets, to compare with: a datagram a call
  qanat echo --kernel uring --batch --port 7007  by io_uring, as many as there are in a call
  qanat load udp 10.77.0.2:7 --link memif-slave:/tmp/echo.sock     the other end
Signal USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause.
The kernel on the other end of a veth leaves its checksums to the peer, and --raw only swaps: for kernel clients
`ethtool -K qanat0 tx off` first.")]
pub struct Arguments {
    /// In the driver itself: addresses swapped, the buffer sent back
    #[arg(long, conflicts_with_all = ["copies", "kernel", "udp", "tcp"])]
    raw: bool,
    /// Copy each payload out of its frame and into a new one, as a POSIX interface would
    #[arg(long, conflicts_with = "kernel")]
    copies: bool,
    /// UDP only
    #[arg(long, conflicts_with = "tcp")]
    udp: bool,
    /// TCP only
    #[arg(long)]
    tcp: bool,
    /// Over a kernel socket (UDP)
    #[arg(long, value_enum)]
    kernel: Option<Kernel>,
    /// With --kernel: up to 64 datagrams a system call
    #[arg(long, requires = "kernel")]
    batch: bool,
    /// Link: veth, memif:SOCKET (this end listens), memif-slave:SOCKET (it connects)
    #[arg(long, value_name = "LINK", default_value = "veth")]
    link: LinkChoice,
    /// Descriptors of a memif ring, as a power of two (the slave's choice)
    #[arg(long, value_name = "LOG2", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=14))]
    ring: u8,
    /// Port
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    place: HostArguments,
}

impl Arguments {
    fn config(&self) -> EchoConfig {
        EchoConfig { port: self.port, udp: !self.tcp, tcp: !self.udp, copies: self.copies }
    }

    /// As the announcement says it.
    fn what(&self) -> &'static str {
        match (self.raw, self.udp || self.kernel.is_some(), self.tcp) {
            (true, ..) => "everything",
            (_, true, _) => "UDP",
            (_, _, true) => "TCP",
            _ => "UDP and TCP",
        }
    }

    fn server(&self) -> Echo {
        Echo { config: self.config(), what: self.what() }
    }
}

/// Runs the echo until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let is_hosted = !arguments.raw && arguments.kernel.is_none() && arguments.link == LinkChoice::Veth;
    if is_hosted {
        return host::run(&arguments.place, || Ok(arguments.server()));
    }
    if !arguments.place.placement.is_linked() {
        return Err("other placements are for the stack over veth: without --raw, --kernel and --link".to_owned());
    }
    let mut bare = Bare::new(&arguments.place, arguments.server())?;
    match (arguments.kernel, &arguments.link) {
        (Some(kernel), _) => bare.run_kernel(kernel, arguments.batch)?,
        (None, LinkChoice::Veth) => bare.run_raw()?,
        (None, LinkChoice::Memif { socket, master }) => {
            memif::run(&mut bare, (socket, *master), arguments.ring, arguments.raw)?;
        }
        (None, LinkChoice::Pair) => {
            return Err("a pair's two ends are in one process: `qanat load udp 10.77.0.2:7 --link pair` has the \
                        echo in it"
                .to_owned());
        }
    }
    bare.finish();
    Ok(())
}
