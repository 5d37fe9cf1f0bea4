//! `qanat rate`: limits of virtual cards, changed while packets flow.

use crate::control::status::rate_text;
use crate::daemon::{Card, DaemonArguments, TellArguments, parse_number};
use crate::say::done;
use clap::{Args, Subcommand};
use qanat_control::filter::{Direction, Rate};
use qanat_control::protocol::Request;
use serde_json::json;

/// Limit virtual cards
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat rate set 0 --bits 100M                  police what it sends
  qanat rate set 0 --receive --packets 50k      throttle what it receives
  qanat rate set 0                              no limit but the policy's")]
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
    /// Set the limit of one direction
    #[command(after_help = "\
Examples:
  qanat rate set 0 --bits 100M --burst 64k    police what it sends
  qanat rate set 0 --receive --packets 50k    throttle what it receives
  qanat rate set 0                            take the limit away: the policy's holds")]
    Set {
        /// The card's number, or its name
        vnic: Card,
        /// Of what it receives, instead of what it sends
        #[arg(long)]
        receive: bool,
        /// Bits a second (k, M, G); 0: any
        #[arg(long, value_parser = parse_number, default_value = "0")]
        bits: u64,
        /// Packets a second; 0: any
        #[arg(long, value_parser = parse_number, default_value = "0")]
        packets: u64,
        /// Bytes that may come at once
        #[arg(long, value_name = "BYTES", value_parser = parse_number, default_value = "0")]
        burst: u64,
        /// Packets that may come at once
        #[arg(long, value_name = "PACKETS", value_parser = parse_number, default_value = "0")]
        burst_packets: u64,
    },
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let Action::Set { vnic, receive, bits, packets, burst, burst_packets } = &arguments.action;
    let vnic = vnic.number(&arguments.daemon.path())?;
    let (receive, bits, packets, burst, burst_packets) = (*receive, *bits, *packets, *burst, *burst_packets);
    let direction = if receive { Direction::Receive } else { Direction::Transmit };
    let rate = Rate { bits_per_s: bits, packets_per_s: packets, burst_bytes: burst, burst_packets };
    arguments.daemon.order(Request::SetRate { vnic: Some(vnic), direction, rate })?;
    let does = if receive { "receives" } else { "sends" };
    let is_limited = bits > 0 || packets > 0;
    let text = match is_limited {
        true => format!("VNIC {vnic} {does} {}, if the policy allows as much.", rate_text(rate)),
        false => format!("VNIC {vnic} {does} without a limit of its own: it was removed, and the policy's holds."),
    };
    let fields = json!({ "event": "rate-set", "vnic": vnic, "direction": direction.to_string(), "limited": is_limited, "rate": rate });
    done(arguments.tell.json, &fields, &text);
    Ok(())
}
