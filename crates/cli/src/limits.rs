//! `qanat limits`: what this user may have, and has.

use crate::control::DaemonArguments;
use crate::say::sayln;
use crate::status::{named, rate_text};
use clap::Args;

/// Show what you may have of the control plane: cards, queues, memory, addresses, services, VLANs, providers
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat limits             by which rule, how much, and how much of it is used
  qanat limits --json      the same for programs")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Shows it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let limits = arguments.daemon.session()?.limits().map_err(|error| error.to_string())?;
    if arguments.json {
        let mut value = named(&limits)?;
        for (field, [most, used]) in [("vnics", limits.vnics.map(u64::from)), ("memory_bytes", limits.memory_bytes)] {
            value[field] = serde_json::json!({ "most": most, "used": used });
        }
        sayln!("{value}");
        return Ok(());
    }
    let [vnics_max, vnics] = limits.vnics;
    let [memory_max, memory] = limits.memory_bytes;
    sayln!("rule       \"{}\"", limits.rule);
    sayln!("VNICs      {vnics} of {vnics_max}, {} queues and {} filters each", limits.queues, limits.filters);
    sayln!("memory     {} of {} MiB", memory >> 20, memory_max >> 20);
    sayln!("addresses  {}", limits.addresses.join(", "));
    sayln!("services   {}", limits.services.join(", "));
    sayln!("peers      {}", limits.peers.join(", "));
    sayln!("transmit   {}", rate_text(limits.transmit));
    sayln!("receive    {}", rate_text(limits.receive));
    let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    sayln!("VLANs      {}", list(&limits.vlans));
    sayln!("EtherTypes {}", list(&limits.ethertypes));
    sayln!("MACs       {}", list(&limits.macs));
    sayln!("reach      {}", list(&limits.reach));
    sayln!("providers  {}", list(&limits.providers));
    sayln!("offloads   {}", limits.offloads.join(", "));
    Ok(())
}
