//! `qanat filter`: what a virtual card may send, and wants to receive.

use crate::control::DaemonArguments;
use clap::{Args, Subcommand};
use qanat::control::filter::{Direction, Filter, Ports, Prefix, Service};
use qanat::control::protocol::Request;

/// Make, delete and list filters of virtual cards
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat filter create --vnic 0 --receive tcp 10.77.0.0/24 :80    only our port 80, only from there
  qanat filter create --vnic 0 --transmit udp any :53            may send from port 53 to everybody
  qanat filter delete --vnic 0 --receive tcp 10.77.0.0/24 :80")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Add a filter to a card
    Create(Volume),
    /// Take away the filters that are exactly this
    Delete(Volume),
    /// List them
    List,
}

#[derive(Args)]
struct Volume {
    /// The card's number
    #[arg(long)]
    vnic: u32,
    /// Of what it receives
    #[arg(long, conflicts_with = "transmit", required_unless_present = "transmit")]
    receive: bool,
    /// Of what it sends
    #[arg(long)]
    transmit: bool,
    /// tcp, udp, any, or a protocol number
    protocol: String,
    /// The other side's addresses: a prefix, or any
    peers: Prefix,
    /// The card's own ports: :80, :8000-8099, any
    #[arg(default_value = "any")]
    ports: Ports,
    /// The other side's ports
    #[arg(long, value_name = "PORTS", default_value = "any")]
    peer_ports: Ports,
    /// Of these of the card's own addresses
    #[arg(long, value_name = "PREFIX", default_value = "any")]
    local: Prefix,
}

impl Volume {
    fn parts(&self) -> Result<(Option<u32>, Direction, Filter), String> {
        let service: Service = self.protocol.parse()?;
        let service = Service { ports: self.ports, ..service };
        let direction = if self.receive { Direction::Receive } else { Direction::Transmit };
        let filter = Filter { local: self.local, service, peer: self.peers, peer_ports: self.peer_ports };
        Ok((Some(self.vnic), direction, filter))
    }
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.action {
        Action::Create(volume) => {
            let (vnic, direction, filter) = volume.parts()?;
            arguments.daemon.order(Request::AddFilter { vnic, direction, filter })
        }
        Action::Delete(volume) => {
            let (vnic, direction, filter) = volume.parts()?;
            arguments.daemon.order(Request::RemoveFilter { vnic, direction, filter })
        }
        Action::List => {
            for vnic in arguments.daemon.session()?.status().map_err(|error| error.to_string())?.vnics {
                for (direction, figures) in [("transmit", &vnic.transmit), ("receive", &vnic.receive)] {
                    for filter in &figures.filters {
                        println!("{} {direction} {filter}", vnic.vnic);
                    }
                }
            }
            Ok(())
        }
    }
}
