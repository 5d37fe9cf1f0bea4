//! `qanat filter`: what a virtual card may send, and wants to receive.

use crate::daemon::{Card, DaemonArguments, TellArguments};
use crate::say::{done, sayln};
use clap::{Args, Subcommand};
use qanat_control::filter::{
    Accepted, Addresses, Direction, Filter, FilterFlags, Level, Macs, Peer, Ports, Vlan, volumes,
};
use qanat_control::protocol::{Request, Steered};
use serde_json::json;

/// Make, delete and list filters of virtual cards
#[derive(Args)]
#[command(after_help = "\
A filter is a direction, a level, the other side (peers) and the card's side (services); lists are separated by commas:

  level      peers                                    services
  ethernet   Ethernet addresses                       EtherTypes: 0x88b5, 0x88b5-0x88b6
  ip         addresses: 10.0.0.0/8, fd00::2-fd00::9   protocol numbers: 47, 50-51
  tcp, udp   addresses                                ports: :80, :8000-8099

A card receives what its receive filters cover; without any, all that is IP, untagged and for its addresses. It may send
what its transmit filters cover; without any, nothing. Nothing has a VLAN tag unless the filter says so.

Examples:
  qanat filter create --vnic 0 --receive tcp 10.77.0.0/24 :80       only our port 80, only from there
  qanat filter create --vnic 0 --transmit udp any :53               may send from port 53 to everybody
  qanat filter create --vnic 0 --receive tcp any :443 --queue 1     by its second queue
  qanat filter create --vnic 0 --receive udp any any --vlan 7       in VLAN 7; 7.8 for two tags, 100-200, any
  qanat filter create --vnic 0 --transmit ip 10.0.0.1/255.0.0.255 47
  qanat filter create --vnic 0 --transmit tcp any :80 --mac 02:00:00:00:00:00/ff:ff:ff:00:00:00
  qanat filter create --vnic 0 --transmit ethernet 02:00:00:00:00:09 0x88b5
  qanat filter delete --vnic 0 --receive tcp 10.77.0.0/24 :80")]
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
    /// Add a filter to a card
    #[command(after_help = "\
Examples:
  qanat filter create --vnic 0 --transmit tcp any :80           it may send from port 80 to everybody
  qanat filter create --vnic 0 --receive tcp 10.77.0.0/24 :80   and receives only this
`qanat filter --help` has more.")]
    Create(Volume),
    /// Take away the filters that are exactly this
    #[command(after_help = "\
Examples:
  qanat filter delete --vnic 0 --transmit tcp any :80           as `qanat filter list` prints it")]
    Delete(Volume),
    /// List them, as `qanat filter delete` takes them
    #[command(after_help = "\
Examples:
  qanat filter list                                             each line: the rest of a `qanat filter delete`
  qanat filter list --json                                      for programs")]
    List,
}

#[derive(Args)]
struct Volume {
    /// The card's number, or its name
    #[arg(long)]
    vnic: Card,
    /// Of what it receives
    #[arg(long, conflicts_with = "transmit", required_unless_present = "transmit")]
    receive: bool,
    /// Of what it sends
    #[arg(long)]
    transmit: bool,
    /// ethernet, ip, tcp or udp
    level: String,
    /// The other side: addresses (at the Ethernet level Ethernet addresses), or any
    #[arg(default_value = "any")]
    peers: String,
    /// The card's own side: ports as in :80, at the other levels protocol numbers or EtherTypes; or any
    #[arg(default_value = "any")]
    services: String,
    /// The other side's ports
    #[arg(long, value_name = "PORTS", default_value = "any")]
    peer_ports: Ports,
    /// Of these of the card's own addresses
    #[arg(long, value_name = "ADDRESSES", default_value = "any")]
    local: Addresses,
    /// The other side's Ethernet addresses, or the next hop's
    #[arg(long, value_name = "MACS", default_value = "any")]
    mac: Macs,
    /// In this VLAN: 7, 100-200, 7.8 for two tags, any
    #[arg(long, value_name = "VLAN", default_value = "none")]
    vlan: Vlan,
    /// Received by this queue, from 0; else by whichever the flow goes to
    #[arg(long, requires = "receive")]
    queue: Option<u32>,
}

impl Volume {
    fn direction(&self) -> Direction {
        if self.receive { Direction::Receive } else { Direction::Transmit }
    }

    fn filters(&self) -> Result<Vec<Filter>, String> {
        let (level, protocol) = match self.level.as_str() {
            "ethernet" => (Level::Ethernet, None),
            "ip" | "any" => (Level::Ip, None),
            "tcp" => (Level::Tcp, None),
            "udp" => (Level::Udp, None),
            // These two have ports, however they are called.
            "6" => (Level::Tcp, None),
            "17" => (Level::Udp, None),
            // The number of another protocol in place of a level is the IP level with that service.
            number => (Level::Ip, Some(number)),
        };
        let wrong = || format!("`{}`: write ethernet, ip, tcp, udp or a protocol number", self.level);
        let services = protocol.unwrap_or(&self.services);
        if protocol.is_some_and(|text| !text.starts_with(|first: char| first.is_ascii_digit())) {
            return Err(wrong());
        }
        if let Some(number) = protocol.filter(|_| !matches!(self.services.as_str(), "any" | "*")) {
            return Err(format!(
                "`{}`: protocol {number} has no ports, so this would say more than it means: write `{number} {}` alone, or tcp or udp",
                self.services, self.peers
            ));
        }
        let flags = FilterFlags { direction: self.direction(), level };
        let peer = |text: &str| -> Result<Peer, String> {
            let peer = Peer { ports: self.peer_ports, macs: self.mac, vlan: self.vlan, ..Peer::default() };
            Ok(match level {
                Level::Ethernet if text != "any" => Peer { macs: text.parse()?, ..peer },
                Level::Ethernet => peer,
                Level::Ip | Level::Tcp | Level::Udp => Peer { addresses: text.parse()?, ..peer },
            })
        };
        let service = |text: &str| -> Result<Accepted, String> {
            let own = Accepted { addresses: self.local, ..Accepted::default() };
            Ok(match level {
                _ if matches!(text, "any" | "*") => own,
                Level::Ethernet => Accepted { types: text.parse()?, ..own },
                Level::Ip => Accepted { protocols: protocols(text)?, ..own },
                Level::Tcp | Level::Udp => Accepted { ports: text.parse()?, ..own },
            })
        };
        let peers: Vec<Peer> = self.peers.split(',').map(peer).collect::<Result<_, _>>()?;
        let services: Vec<Accepted> = services.split(',').map(service).collect::<Result<_, _>>()?;
        Ok(volumes(flags.level, &peers, &services)?)
    }
}

/// What `qanat filter create` and `delete` take for this filter.
fn words(vnic: u32, direction: Direction, steered: &Steered) -> String {
    let filter = &steered.filter;
    let is_any = |text: &str| text == "any";
    let (level, peers, services) = match (filter.types, filter.service.protocol_first, filter.service.protocol_last) {
        (Some(types), ..) => ("ethernet", filter.macs.to_string(), types.to_string()),
        (None, first @ (6 | 17), last) if first == last => {
            let ports = filter.service.ports.to_string();
            let ports = if is_any(&ports) { ports } else { format!(":{ports}") };
            (if first == 6 { "tcp" } else { "udp" }, filter.peer.to_string(), ports)
        }
        (None, 0, u8::MAX) => ("ip", filter.peer.to_string(), "any".to_owned()),
        (None, first, last) if first == last => ("ip", filter.peer.to_string(), first.to_string()),
        (None, first, last) => ("ip", filter.peer.to_string(), format!("{first}-{last}")),
    };
    let mut text = format!("--vnic {vnic} --{direction} {level} {peers} {services}");
    let macs = if filter.types.is_some() { Macs::ANY } else { filter.macs };
    for (name, value, usual) in [
        ("peer-ports", filter.peer_ports.to_string(), "any"),
        ("local", filter.local.to_string(), "any"),
        ("mac", macs.to_string(), "any"),
        ("vlan", filter.vlan.to_string(), "none"),
    ] {
        if value != usual {
            text += &format!(" --{name} {value}");
        }
    }
    text + &steered.queue.map_or_else(String::new, |queue| format!(" --queue {queue}"))
}

fn protocols(text: &str) -> Result<(u8, u8), String> {
    let wrong = |_| format!("`{text}` is no protocol number: write 47 or 50-51");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Ok((first.parse().map_err(wrong)?, last.parse().map_err(wrong)?))
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.action {
        Action::Create(volume) => change(arguments, volume, ("filter-create", "Added"), |vnic, direction, filter| {
            Request::AddFilter { vnic, direction, filter, queue: volume.queue }
        }),
        Action::Delete(volume) => change(arguments, volume, ("filter-delete", "Deleted"), |vnic, direction, filter| {
            Request::RemoveFilter { vnic, direction, filter }
        }),
        Action::List => list(arguments),
    }
}

/// Adds or deletes filters, one after the other, and tells of each.
fn change(
    arguments: &Arguments,
    volume: &Volume,
    (event, what): (&str, &str),
    request: impl Fn(Option<u32>, Direction, Filter) -> Request,
) -> Result<(), String> {
    let direction = volume.direction();
    let filters = volume.filters()?;
    let vnic = volume.vnic.number(&arguments.daemon.path())?;
    for filter in filters {
        let words = words(vnic, direction, &Steered { filter, queue: volume.queue });
        arguments.daemon.order(request(Some(vnic), direction, filter))?;
        let fields = json!({ "event": event, "vnic": vnic, "direction": direction.to_string(), "filter": filter, "words": words });
        done(arguments.tell.json, &fields, &format!("{what}: {words}"));
    }
    Ok(())
}

fn list(arguments: &Arguments) -> Result<(), String> {
    let status = arguments.daemon.session()?.status().map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for vnic in &status.vnics {
        for (direction, figures) in [(Direction::Transmit, &vnic.transmit), (Direction::Receive, &vnic.receive)] {
            for steered in &figures.filters {
                let words = words(vnic.vnic, direction, steered);
                if !arguments.tell.json {
                    sayln!("{words}");
                }
                found.push(
                    json!({ "vnic": vnic.vnic, "direction": direction.to_string(), "filter": steered.filter, "queue": steered.queue, "words": words }),
                );
            }
        }
    }
    if arguments.tell.json {
        sayln!("{}", json!(found));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        action: Action,
    }

    fn volume(words: &str) -> Volume {
        let line = Line::try_parse_from(["filter", "delete"].into_iter().chain(words.split(' ')));
        match line.unwrap_or_else(|error| panic!("{words}: {error}")).action {
            Action::Delete(volume) => volume,
            _ => panic!("{words}"),
        }
    }

    #[test]
    fn a_list_is_what_delete_takes() {
        for text in [
            "--vnic 0 --transmit tcp any any",
            "--vnic 3 --receive tcp 10.77.0.0/24 :80 --queue 1",
            "--vnic 0 --receive udp 10.0.0.1-10.0.0.9 :8000-8099 --peer-ports 53",
            "--vnic 0 --transmit ip 10.0.0.1/255.0.0.255 47",
            "--vnic 0 --transmit ip fd00::/8 50-51 --local fd77::2",
            "--vnic 0 --transmit ip any any --vlan 7.8",
            "--vnic 0 --transmit tcp any :80 --mac 02:00:00:00:00:00/ff:ff:ff:00:00:00 --vlan any",
            "--vnic 0 --transmit ethernet 02:00:00:00:00:09 0x88b5",
            "--vnic 0 --receive ethernet any 0x88b5-0x88b6 --vlan 100-200",
        ] {
            let volume = volume(text);
            let filters = volume.filters().unwrap();
            let words: Vec<String> = filters
                .iter()
                .map(|filter| {
                    words(
                        volume.vnic.number(Path::new("/")).unwrap(),
                        volume.direction(),
                        &Steered { filter: *filter, queue: volume.queue },
                    )
                })
                .collect();
            assert_eq!(words, [text]);
        }
        // What has ports has them by its number too; ports of what has none are not left out.
        let by_number = volume("--vnic 0 --receive 6 10.0.0.0/8 :81").filters().unwrap();
        assert_eq!(by_number, volume("--vnic 0 --receive tcp 10.0.0.0/8 :81").filters().unwrap());
        let by_number = volume("--vnic 0 --receive 17 any :53").filters().unwrap();
        assert_eq!(by_number, volume("--vnic 0 --receive udp any :53").filters().unwrap());
        for wider in ["47 any :80", "6,17 any :80", "6-17 any 80", "ip any :80"] {
            assert!(volume(&format!("--vnic 0 --receive {wider}")).filters().is_err(), "{wider}");
        }
        // TCP by its number is TCP.
        let filters = volume("--vnic 0 --transmit ip any 6").filters().unwrap();
        assert_eq!(
            words(0, Direction::Transmit, &Steered { filter: filters[0], queue: None }),
            "--vnic 0 --transmit tcp any any"
        );
    }
}
