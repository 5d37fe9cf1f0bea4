//! `qanat limits`: what this user may have, and has.

use crate::control::DaemonArguments;
use crate::status::rate_text;
use clap::Args;

/// Show what you may have of the control plane: cards, queues, memory, addresses, services, VLANs, providers
#[derive(Args)]
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
        println!("{}", serde_json::to_string(&limits).map_err(|error| error.to_string())?);
        return Ok(());
    }
    let [vnics_max, vnics] = limits.vnics;
    let [memory_max, memory] = limits.memory_bytes;
    println!("rule       \"{}\"", limits.rule);
    println!("VNICs      {vnics} of {vnics_max}, {} queues and {} filters each", limits.queues, limits.filters);
    println!("memory     {} of {} MiB", memory >> 20, memory_max >> 20);
    println!("addresses  {}", limits.addresses.join(", "));
    println!("services   {}", limits.services.join(", "));
    println!("peers      {}", limits.peers.join(", "));
    println!("transmit   {}", rate_text(limits.transmit));
    println!("receive    {}", rate_text(limits.receive));
    let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    println!("VLANs      {}", list(&limits.vlans));
    println!("EtherTypes {}", list(&limits.ethertypes));
    println!("MACs       {}", list(&limits.macs));
    println!("reach      {}", list(&limits.reach));
    println!("providers  {}", list(&limits.providers));
    println!("offloads   {}", limits.offloads.join(", "));
    Ok(())
}
