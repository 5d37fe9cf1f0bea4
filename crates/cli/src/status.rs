//! `qanat status` and `qanat top`: VNICs, owners, queues, filters, rates, packets, drops by cause.

use crate::control::{DaemonArguments, short};
use crate::live::grouped;
use clap::Args;
use qanat::control::filter::Rate;
use qanat::control::protocol::{Answer, DirectionStatus, Provider, Request, Status, VnicStatus};
use std::fmt::Write as _;

/// Show the control plane's virtual cards: owners, queues, filters, rates, packets, drops by cause
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// As JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// In Prometheus' text format
    #[arg(long)]
    prometheus: bool,
}

/// Shows what there is.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let session = arguments.daemon.session()?;
    if arguments.prometheus {
        return match session.ask(Request::Metrics).map_err(|error| error.to_string())? {
            Answer::Text(text) => {
                print!("{text}");
                Ok(())
            }
            other => Err(format!("the daemon answers {other:?}")),
        };
    }
    let status = session.status().map_err(|error| error.to_string())?;
    if arguments.json {
        println!("{}", serde_json::to_string(&status).map_err(|error| error.to_string())?);
    } else {
        print!("{}", table(&status));
    }
    Ok(())
}

fn table(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let [served, refused, cut_off] = status.requests;
    let _ = writeln!(
        text,
        "Control plane {}, up {} s: {} VNICs, {} connections, {} requests served, {} refused, {} peers cut off",
        status.daemon,
        status.uptime_s,
        status.vnics.len(),
        status.sessions,
        grouped(served),
        grouped(refused),
        grouped(cut_off),
    );
    if let Some(uplink) = &status.uplink {
        let _ = writeln!(text, "Uplink {uplink}: cards of its prefixes are on its wire");
    }
    for vnic in &status.vnics {
        text += &vnic_text(vnic);
    }
    text
}

/// A VNIC, some lines.
pub fn vnic_text(vnic: &VnicStatus) -> String {
    let mut text = String::new();
    let addresses: Vec<String> = vnic.addresses.iter().map(|(address, length)| format!("{address}/{length}")).collect();
    let _ = writeln!(
        text,
        "VNIC {} \"{}\": user {}, process {}, rule \"{}\"{}",
        vnic.vnic,
        vnic.name,
        vnic.user,
        vnic.process,
        vnic.rule,
        if vnic.persistent { ", persistent" } else { "" }
    );
    let mac: Vec<String> = vnic.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let _ = writeln!(
        text,
        "  {} {} MTU {} on {}, {} of {} queues open, {} MiB{}",
        addresses.join(" "),
        mac.join(":"),
        vnic.mtu,
        vnic.interface,
        vnic.queues_open,
        vnic.queues,
        vnic.memory_bytes >> 20,
        place_text(vnic),
    );
    for (name, direction) in [("transmit", &vnic.transmit), ("receive", &vnic.receive)] {
        text += &direction_text(name, direction);
    }
    text
}

/// What is special about where a card is.
fn place_text(vnic: &VnicStatus) -> String {
    let mut text = String::new();
    if let Provider::Queue { first, .. } = vnic.provider {
        let last = first + vnic.queues.max(1) - 1;
        let which = if first == last { format!("queue {first}") } else { format!("queues {first} to {last}") };
        let _ = write!(text, "; the NIC's own {which}: nothing fences or counts what it sends");
    }
    if vnic.uplink {
        text.push_str("; on the uplink's wire");
    }
    if vnic.shared {
        text.push_str("; the address is the kernel's too");
    }
    text
}

fn direction_text(name: &str, direction: &DirectionStatus) -> String {
    let filters: Vec<String> = direction.filters.iter().map(ToString::to_string).collect();
    let none = if name == "transmit" { "nothing" } else { "all that is addressed to it" };
    let filters = if filters.is_empty() { none.to_owned() } else { filters.join("; ") };
    let mut text = format!("  {name} {filters}; {}\n", rate_text(direction.rate));
    for count in &direction.counts {
        let mark = if count.dropped { "dropped: " } else { "" };
        let _ = writeln!(
            text,
            "    {mark}{} {} frames, {} bytes",
            count.cause,
            grouped(count.frames),
            grouped(count.bytes)
        );
    }
    text
}

/// A rate in words.
pub fn rate_text(rate: Rate) -> String {
    let bits = (rate.bits_per_s > 0).then(|| format!("{}bit/s", short(rate.bits_per_s)));
    let packets = (rate.packets_per_s > 0).then(|| format!("{} packets/s", short(rate.packets_per_s)));
    let parts: Vec<String> = bits.into_iter().chain(packets).collect();
    if parts.is_empty() { "no limit".to_owned() } else { format!("at most {}", parts.join(" and ")) }
}
