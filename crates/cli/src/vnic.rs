//! `qanat vnic`: virtual cards, by hand.

use crate::attach::Prefixed;
use crate::control::DaemonArguments;
use crate::status::vnic_text;
use clap::{Args, Subcommand};
use qanat::control::filter::Service;
use qanat::control::protocol::{Request, VnicWish};

/// Make, delete and list virtual cards
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make one that stays until it is deleted
    Create {
        /// What it is called in listings
        name: String,
        /// Its own address; may be repeated
        #[arg(long, value_name = "ADDRESS/LENGTH", required = true)]
        address: Vec<Prefixed>,
        /// What it may send as, tcp/80 say; may be repeated. None: nothing until `qanat filter create`
        #[arg(long, value_name = "SERVICE")]
        service: Vec<Service>,
        /// Queue pairs
        #[arg(long, default_value_t = 1)]
        queues: u32,
        /// Of these the last so many are high-priority: they receive only what filters give them (`qanat filter --queue`)
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        priority_queues: u32,
        /// The address is the kernel's, on the uplink: only the services are the card's
        #[arg(long)]
        shared: bool,
        /// Largest packet
        #[arg(long, default_value_t = 1_500)]
        mtu: u32,
    },
    /// Delete one, whoever uses it
    Delete {
        /// Its number
        vnic: u32,
    },
    /// List them
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
pub fn run(arguments: Arguments) -> Result<(), String> {
    match arguments.action {
        Action::Create { name, address, service, queues, priority_queues, shared, mtu } => {
            let addresses = address.iter().map(|address| (address.address, address.length)).collect();
            let services = service;
            let wish = VnicWish { name, addresses, queues, mtu, services, persistent: true, priority_queues, shared };
            let vnic = arguments.daemon.session()?.create_vnic(wish).map_err(|error| error.to_string())?;
            print!("{}", vnic_text(vnic.status()));
            Ok(())
        }
        Action::Delete { vnic } => arguments.daemon.order(Request::DeleteVnic { vnic }),
        Action::List { json } => {
            let status = arguments.daemon.session()?.status().map_err(|error| error.to_string())?;
            if json {
                println!("{}", serde_json::to_string(&status.vnics).map_err(|error| error.to_string())?);
            } else {
                for vnic in &status.vnics {
                    print!("{}", vnic_text(vnic));
                }
            }
            Ok(())
        }
    }
}
