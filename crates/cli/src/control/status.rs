//! `qanat status` and `qanat top`: VNICs, owners, queues, filters, rates, packets, drops by cause.

use crate::columns::fitted;
use crate::control::programs;
use crate::daemon::{DaemonArguments, short};
use crate::disk::list::{disk_text, disks_json};
use crate::host::net_core::SOCKET_NAME;
use crate::live::grouped;
use crate::say::{say, sayln};
use clap::Args;
use qanat::split::{NetCoreStatus, ServiceStatus, ask_status};
use qanat_control::client::Session;
use qanat_control::filter::Rate;
use qanat_control::name::printable;
use qanat_control::protocol::{DirectionStatus, Provider, Status, VnicStatus};
use qanat_daemon::leftovers;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Show the control plane's virtual cards: owners, queues, filters, rates, packets, drops by cause; the net cores; disks and areas; and
/// programs under `qanat run`, socket by socket
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat status                          all that this user may see; root sees all
  qanat status --json                   the same for programs
  qanat status --json --every 5         and again each five seconds
  sudo qanat status --prometheus        in Prometheus' text format
  qanat status --net @qanat-net-shared  of one net core")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// As JSON
    #[arg(long, conflicts_with = "prometheus")]
    json: bool,
    /// With --json: again, after so many seconds each time, an object a line, until it is ended; without the sockets of programs. If the
    /// daemon can't be asked, the object has an `error`
    #[arg(long, value_name = "SECONDS", requires = "json", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    every: Option<u64>,
    /// In Prometheus' text format
    #[arg(long)]
    prometheus: bool,
    /// Of this net core alone, by its socket
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["prometheus", "every"])]
    net: Option<PathBuf>,
}

/// Shows what there is.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    if let Some(path) = &arguments.net {
        let status = ask_status(path).map_err(|error| format!("net core {}: {error}", path.display()))?;
        return print_net_cores(&[(path.clone(), status)], arguments.json);
    }
    if let Some(seconds) = arguments.every {
        again_and_again(&arguments.daemon, Duration::from_secs(seconds));
    }
    let net_cores = if arguments.prometheus { Vec::new() } else { net_cores() };
    let session = match arguments.daemon.session() {
        Ok(session) => session,
        // Net cores, and programs on an interface there is, need no daemon.
        Err(error) => {
            // A crashed daemon's cards go on. That is no state in which all is well.
            let is_crashed = leftovers(&arguments.daemon.path()).is_some();
            return match without_daemon(&net_cores, arguments.json) {
                Some(Ok(())) if !is_crashed => Ok(()),
                Some(Err(failure)) => Err(failure),
                _ => Err(error),
            };
        }
    };
    if arguments.prometheus {
        say!("{}", session.metrics().map_err(|error| error.to_string())?);
        return Ok(());
    }
    if arguments.json {
        sayln!("{}", everything(&session, &net_cores)?);
    } else {
        let status = session.status().map_err(|error| error.to_string())?;
        let disks = session.disks().map_err(|error| error.to_string())?;
        say!("{}", fitted(&table(&status)));
        disks.iter().for_each(|disk| say!("{}", fitted(&disk_text(disk))));
        print_net_cores(&net_cores, false)?;
        programs::programs().iter().for_each(|program| say!("{}", fitted(&programs::text(program))));
    }
    Ok(())
}

/// All that there is, for programs.
fn everything(session: &Session, net_cores: &[(PathBuf, NetCoreStatus)]) -> Result<Value, String> {
    let status = session.status().map_err(|error| error.to_string())?;
    let disks = session.disks().map_err(|error| error.to_string())?;
    let mut value = named(&status)?;
    value["net_cores"] = net_cores_json(net_cores)?;
    value["programs"] = programs::programs().into();
    value["disks"] = disks_json(&disks);
    Ok(value)
}

/// Says it until nobody reads it. A daemon that has ended is looked for each time.
fn again_and_again(daemon: &DaemonArguments, pause: Duration) -> ! {
    let begun = Instant::now();
    let mut session = None;
    loop {
        let asked = match session.take() {
            Some(session) => Ok(session),
            None => daemon.session(),
        };
        let net_cores = net_cores();
        let said = asked.and_then(|asked| everything(session.insert(asked), &net_cores));
        let mut value = said.unwrap_or_else(|error| {
            session = None;
            // Net cores, and programs on an interface there is, need no daemon.
            let net_cores = net_cores_json(&net_cores).unwrap_or_default();
            json!({ "error": error, "net_cores": net_cores, "programs": programs::programs() })
        });
        for program in value["programs"].as_array_mut().into_iter().flatten() {
            program.as_object_mut().map(|program| program.remove("descriptors"));
        }
        // How long is between two of them.
        value["after_ms"] = json!(begun.elapsed().as_millis() as u64);
        sayln!("{value}");
        std::thread::sleep(pause);
    }
}

/// What a program reads: Ethernet addresses are text, and numbers that belong together have names.
pub fn named(answer: &impl Serialize) -> Result<Value, String> {
    let mut value = serde_json::to_value(answer).map_err(|error| error.to_string())?;
    name(&mut value);
    Ok(value)
}

/// Fields that are several numbers in the protocol, and the numbers' names.
const NUMBERS: [(&str, &[&str]); 2] =
    [("requests", &["served", "refused", "cut_off"]), ("events_waiting", &["in_ring", "behind_it"])];

fn name(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(name),
        Value::Object(fields) => {
            for (field, value) in fields {
                let numbers: Option<Vec<u64>> =
                    value.as_array().map(|items| items.iter().map(Value::as_u64).collect()).unwrap_or_default();
                let names = NUMBERS.iter().find(|(name, _)| name == field).map(|(_, names)| *names);
                match (numbers, names) {
                    (Some(bytes), _) if field == "mac" && bytes.len() == 6 => {
                        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                        *value = bytes.join(":").into();
                    }
                    (Some(numbers), Some(names)) if names.len() == numbers.len() => {
                        let fields =
                            names.iter().zip(numbers).map(|(name, number)| ((*name).to_owned(), number.into()));
                        *value = Value::Object(fields.collect());
                    }
                    _ => name(value),
                }
            }
        }
        _ => {}
    }
}

/// What there is beside the daemon; `None`: nothing.
fn without_daemon(net_cores: &[(PathBuf, NetCoreStatus)], json: bool) -> Option<Result<(), String>> {
    let programs = programs::programs();
    if net_cores.is_empty() && programs.is_empty() {
        return None;
    }
    if json {
        let print = |net_cores| sayln!("{}", json!({ "net_cores": net_cores, "programs": programs }));
        return Some(net_cores_json(net_cores).map(print));
    }
    programs.iter().for_each(|program| say!("{}", fitted(&programs::text(program))));
    Some(print_net_cores(net_cores, false))
}

/// The net cores there are in this network namespace, that may be asked.
fn net_cores() -> Vec<(PathBuf, NetCoreStatus)> {
    let text = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // The last word of a line is the socket's name; 00010000 says that it listens.
    let named = text.lines().filter(|line| line.contains(" 00010000 ")).filter_map(|line| line.split(' ').next_back());
    let ours = named.filter(|name| {
        name.rsplit('/').next().is_some_and(|last| last.trim_start_matches('@').starts_with(SOCKET_NAME))
    });
    let mut names: Vec<&str> = ours.collect();
    names.sort_unstable();
    names.dedup();
    let begun = Instant::now();
    // However many there are that do not answer.
    let names = names.into_iter().take_while(|_| begun.elapsed() < programs::PATIENCE_IN_ALL);
    names.filter_map(|name| Some((name.into(), ask_status(name.as_ref()).ok()?))).collect()
}

fn net_cores_json(net_cores: &[(PathBuf, NetCoreStatus)]) -> Result<serde_json::Value, String> {
    let each = net_cores.iter().map(|(path, status)| {
        let mut value = named(status)?;
        value["socket"] = path.display().to_string().into();
        Ok(value)
    });
    each.collect::<Result<Vec<_>, String>>().map(Into::into)
}

fn print_net_cores(net_cores: &[(PathBuf, NetCoreStatus)], json: bool) -> Result<(), String> {
    if json {
        sayln!("{}", json!({ "net_cores": net_cores_json(net_cores)? }));
        return Ok(());
    }
    net_cores.iter().for_each(|(path, status)| say!("{}", fitted(&net_core_text(path, status))));
    Ok(())
}

fn net_core_text(path: &Path, status: &NetCoreStatus) -> String {
    let confined = if status.confined { "confined" } else { "NOT confined" };
    let mut text = format!(
        "Net core {} (process {}{}), up {} s, {confined}: {} cards, {} services cut off{}{}\n",
        printable(&path.to_string_lossy()),
        status.process,
        status.processor.map_or_else(String::new, |number| format!(", on processor {number}")),
        status.uptime_s,
        status.cards.len(),
        status.cut_off,
        if status.last_offence.is_empty() { "" } else { ", the last for " },
        printable(&status.last_offence),
    );
    for card in &status.cards {
        let addresses: Vec<String> = card.addresses.iter().map(|(address, _)| address.to_string()).collect();
        // Writing to a String cannot fail.
        let _ = write!(text, "  card {} on {}", addresses.join(" "), printable(&card.interface));
        if card.queues > 1 {
            let _ = write!(text, ", queue {} of {}", card.queue, card.queues);
        }
        text.push_str(": ");
        if card.service.is_none() {
            text.push_str("no service\n");
        }
        for (number, service) in card.service.iter().chain(&card.sharing).enumerate() {
            if number > 0 {
                text.push_str("  shared with ");
            }
            text += &service_text(service);
        }
    }
    text
}

fn service_text(service: &ServiceStatus) -> String {
    let mut text = String::new();
    {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\"{}\" (process {}, user {}), {} connections\n    credits {} of {} used, {} small messages kept; events {} in its ring, {} waiting; {} \
             events, {} commands, {} bells\n    dropped: {} datagrams without credit, {} refused, {} frames without buffer; \
             {} turns held back",
            printable(&service.name),
            service.process,
            service.user,
            grouped(service.connections),
            grouped(service.credits_used.into()),
            grouped(service.credits.into()),
            grouped(service.copies_used.into()),
            service.events_waiting.0,
            service.events_waiting.1,
            grouped(service.events),
            grouped(service.commands),
            grouped(service.bells),
            grouped(service.datagrams_without_credit),
            grouped(service.datagrams_refused),
            grouped(service.receive_no_buffer),
            grouped(service.turns_held_back),
        );
    }
    text
}

fn table(status: &Status) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let [served, refused, cut_off] = status.requests;
    let _ = writeln!(
        text,
        "Control plane {}, up {} s: {} VNICs, {} connections{}",
        status.daemon,
        status.uptime_s,
        status.vnics.len(),
        status.sessions,
        // Only root is told.
        if [served, refused, cut_off] == [0; 3] {
            String::new()
        } else {
            format!(
                ", {} requests served, {} refused, {} peers cut off",
                grouped(served),
                grouped(refused),
                grouped(cut_off)
            )
        },
    );
    if let Some(uplink) = &status.uplink {
        let _ = writeln!(text, "Uplink {uplink}: cards of its prefixes are on its wire");
    }
    if let Some(url) = &status.dashboard {
        let _ = writeln!(text, "Dashboard {url}");
    }
    for core in &status.net_cores_started {
        let process = if core.process == 0 { "starting".to_owned() } else { format!("process {}", core.process) };
        let _ = writeln!(
            text,
            "Net core on processor {}{}{}: {process}, up {} s, started again {} times, {} cards, {} came from others",
            core.processor,
            core.removed_from.map_or(String::new(), |from| format!(", a guest, removed from {from}")),
            if core.is_failing { ", which dies at each start, its cards are with others" } else { "" },
            core.uptime_s,
            core.restarts,
            core.vnics.len(),
            core.cards_moved,
        );
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
