//! `qanat vnic`: virtual cards, by hand.

use crate::columns::fitted;
use crate::control::status::{named, vnic_text};
use crate::daemon::{Card, DaemonArguments, TellArguments};
use crate::host::attach::Prefixed;
use crate::log;
use crate::say::{done, say, sayln};
use clap::{Args, Subcommand, ValueEnum};
use qanat_control::filter::Service;
use qanat_control::protocol::{Provider, Request, VnicWish};
use serde_json::json;

/// Make, delete and list virtual cards
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat vnic create blog --address 10.77.0.20/24 --service tcp/80    then: qanat web ./site --vnic 0
  qanat vnic create dns --address 10.77.0.53/24 --service udp/53 --queues 3 --priority-queues 1
  qanat vnic create fast --provider queue --device eth1 --queue 4 --address 192.0.2.7/24 --service tcp/80
A NIC's own queue has no fence in front of the wire: the policy must name the queue ([[nic]]) and say `trusted = true`.")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    #[command(flatten)]
    tell: TellArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make one that stays until it is deleted
    #[command(after_help = "\
Examples:
  qanat vnic create blog --address 10.77.0.20/24 --service tcp/80
  qanat vnic create dns --address 10.77.0.53/24 --service udp/53 --service tcp/53 --json")]
    Create {
        /// What it is called
        #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
        name: String,
        /// Its own address; may be repeated
        #[arg(long, value_name = "ADDRESS/LENGTH", required = true)]
        address: Vec<Prefixed>,
        /// What it may send as, tcp/80 say; may be repeated. None: nothing until `qanat filter create`
        #[arg(long, value_name = "SERVICE")]
        service: Vec<Service>,
        /// Queue pairs
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        queues: u32,
        /// Of these the last so many are high-priority: they receive only what filters give them (`qanat filter --queue`)
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        priority_queues: u32,
        /// The address is the kernel's, on the uplink or the device: only the services are the card's
        #[arg(long)]
        shared: bool,
        /// Where it comes from
        #[arg(long, value_enum, default_value_t)]
        provider: ProviderName,
        /// With `--provider queue`: the NIC
        #[arg(long, value_name = "INTERFACE", required_if_eq("provider", "queue"))]
        device: Option<String>,
        /// With `--provider queue`: the first of its queues that are to be the card's (--queues: how many)
        #[arg(long, value_name = "NUMBER", required_if_eq("provider", "queue"))]
        queue: Option<u32>,
        /// Largest packet
        #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(1..))]
        mtu: u32,
    },
    /// Delete one, whoever uses it
    #[command(after_help = "\
Examples:
  qanat vnic delete 0      a service on it ends, and says why
  qanat vnic delete blog   by its name")]
    Delete {
        /// Its number, or its name
        vnic: Card,
    },
    /// List them
    #[command(after_help = "\
Examples:
  qanat vnic list            numbers, addresses, filters, packets
  qanat vnic list --json     for programs")]
    List,
}

/// Where a card comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ProviderName {
    /// A virtual device with a fence around it
    #[default]
    Veth,
    /// A TAP device with a fence around it: 64 KiB at a time to and from this machine's kernel; one queue
    Tap,
    /// Queues of a NIC's own, for those the policy trusts
    Queue,
}

/// Does it.
pub fn run(arguments: Arguments) -> Result<(), String> {
    match arguments.action {
        Action::Create { name, address, service, queues, priority_queues, shared, mtu, provider, device, queue } => {
            let addresses = address.iter().map(|address| (address.address.into(), address.length)).collect();
            let (services, persistent) = (service, true);
            let provider = match (provider, device, queue) {
                (ProviderName::Veth, None, None) => Provider::Veth,
                (ProviderName::Tap, None, None) => Provider::Tap,
                (ProviderName::Queue, Some(interface), Some(first)) => Provider::Queue { interface, first },
                _ => return Err("--device and --queue go with --provider queue".to_owned()),
            };
            let wish =
                VnicWish { name, addresses, queues, mtu, services, persistent, priority_queues, shared, provider };
            let vnic = arguments.daemon.session()?.create_vnic(wish).map_err(|error| error.to_string())?;
            match arguments.tell.json {
                true => sayln!("{}", named(vnic.status())?),
                false => say!("{}", fitted(&vnic_text(vnic.status()))),
            }
            Ok(())
        }
        Action::Delete { vnic } => {
            let vnic = vnic.number(&arguments.daemon.path())?;
            arguments.daemon.order(Request::DeleteVnic { vnic })?;
            let fields = json!({ "event": "vnic-delete", "vnic": vnic });
            done(arguments.tell.json, &fields, &format!("VNIC {vnic} is deleted; whoever used it has been told."));
            Ok(())
        }
        Action::List => {
            let status = arguments.daemon.session()?.status().map_err(|error| error.to_string())?;
            if arguments.tell.json {
                sayln!("{}", named(&status.vnics)?);
            } else {
                if status.vnics.is_empty() {
                    log::info!("vnic-list", "no VNICs");
                }
                for vnic in &status.vnics {
                    say!("{}", fitted(&vnic_text(vnic)));
                }
            }
            Ok(())
        }
    }
}
