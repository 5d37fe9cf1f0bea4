//! `qanat limits`: what this user may have, and has.

use crate::columns::fitted;
use crate::control::status::{named, rate_text};
use crate::daemon::DaemonArguments;
use crate::say::sayln;
use clap::Args;
use qanat_control::protocol::DiskRate;

/// Show what you may have of the control plane: cards, queues, memory, addresses, services, VLANs, providers, disks
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
        for (field, [most, used]) in [
            ("vnics", limits.vnics.map(u64::from)),
            ("memory_bytes", limits.memory_bytes),
            ("areas", limits.areas.map(u64::from)),
            ("area_bytes", limits.area_bytes),
        ] {
            value[field] = serde_json::json!({ "most": most, "used": used });
        }
        sayln!("{value}");
        return Ok(());
    }
    let [vnics_max, vnics] = limits.vnics;
    let [memory_max, memory] = limits.memory_bytes;
    let ([areas_max, areas], [bytes_max, bytes]) = (limits.areas, limits.area_bytes);
    let rate = match limits.disk_rate {
        DiskRate::UNLIMITED => "without limit".to_owned(),
        rate => format!("at most {rate}"),
    };
    let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let rows = [
        ("rule", format!("\"{}\"", limits.rule)),
        ("VNICs", format!("{vnics} of {vnics_max}, {} queues and {} filters each", limits.queues, limits.filters)),
        ("memory", format!("{} of {} MiB", memory >> 20, memory_max >> 20)),
        ("addresses", list(&limits.addresses)),
        ("services", list(&limits.services)),
        ("peers", list(&limits.peers)),
        ("transmit", rate_text(limits.transmit)),
        ("receive", rate_text(limits.receive)),
        ("VLANs", list(&limits.vlans)),
        ("EtherTypes", list(&limits.ethertypes)),
        ("MACs", list(&limits.macs)),
        ("reach", list(&limits.reach)),
        ("providers", list(&limits.providers)),
        ("offloads", list(&limits.offloads)),
        ("disks", list(&limits.disks)),
        (
            "areas",
            format!(
                "{areas} of {areas_max}, {} of {} MiB together, {rate} on each disk",
                bytes.div_ceil(1 << 20),
                bytes_max >> 20
            ),
        ),
    ];
    // Two blanks at least show where the value begins.
    rows.iter().for_each(|(name, value)| sayln!("{}", fitted(&format!("{name:<12}{value}"))));
    Ok(())
}
