//! `qanat kv`: a durable store that speaks Redis' protocol.

mod check;
mod disk;
mod export;
mod import;
mod users;

use crate::disk::{area_name, size};
use crate::host::application::{
    Announcement, Application, Figures as HostFigures, Files, Period, Place, Rates, Requirements,
};
use crate::host::export::ExportArguments;
use crate::host::privilege::paths::directory_of;
use crate::host::{self, HostArguments};
use crate::live::grouped;
use crate::services::area;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use qanat::disk::AreaName;
use qanat::{AreaId, Doorbell, PROTOCOL_TCP, Storage, entropy};
use qanat_export::parts::Part;
use qanat_kv::export::keys::{self, KvAsker, KvDesk};
use qanat_kv::{Durability, Figures, KvConfig, KvService, Operating, Policy, Settings};
use qanat_nic::af_xdp::PortRange;
use serde_json::{Value, json};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Keep keys and values that are durable when they are acknowledged, and speak Redis' protocol
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  sudo qanat kv --disk /var/lib/qanat/kv.img             at 10.77.0.2:6379; makes the file if there is none
  redis-cli -h 10.77.0.2 set k v                         durable when it says OK
  sudo qanat kv --disk /var/lib/qanat/kv.img --size 8G   how large a file that is made is to be
  sudo qanat kv --disk kv.img --durability everysec      answered at once, durable a second later
  sudo qanat kv --disk kv.img --placement split          its stack in another process, which it cannot harm
  qanat kv --disk kv.img --placement kernel              over the kernel's TCP/IP, at 127.0.0.1: without root, without a card
  sudo qanat kv --disk kv.img --placement split --net-cores 2 --also 10.77.1.2/24   one store, by two net cores and addresses
  sudo qanat kv --disk kv.img --password-file secret     clients say AUTH and what is in the file's first line
  sudo qanat kv --disk kv.img --acl-file users.acl       users, each with keys and commands of its own
  sudo qanat kv --disk kv.img --maxmemory 4G --maxmemory-policy allkeys-lru   keys that are not used go
  sudo qanat kv --memory-only --maxmemory 4G --maxmemory-policy allkeys-lru   a cache, of which nothing is kept
  sudo qanat kv --disk kv.img --export                   keys, SLOWLOG and figures as files in /run/qanat/export/kv
  qanat disk create kv --on fast --size 4G               an area on the daemon's disk `fast`,
  sudo qanat kv --disk fast                              used through the disk's core
  qanat kv import dump.rdb --disk kv.img                 what Redis has saved, into a stopped store
  qanat kv export dump.rdb --disk kv.img                 and out of one, for Redis to load
  qanat kv check --disk kv.img                           whether all that was acknowledged is whole
docs/kv.md has what each durability promises, and which of Redis' commands there are.
Signals: INT, TERM: make durable what is under way, and stop.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<KvCommand>,
    /// The disk: a file, which is made if there is none, a block device, or one of the daemon's by its name
    #[arg(long, value_name = "DISK", required_unless_present = "memory_only")]
    disk: Option<PathBuf>,
    /// Keep keys in memory only, without a disk: when the service ends, they are gone
    #[arg(long, conflicts_with_all = ["disk", "area", "size", "durability"])]
    memory_only: bool,
    /// The area on it. On a file or device one of all that is free is made if there is none
    #[arg(long, value_name = "NAME", default_value = "kv", value_parser = area_name)]
    area: AreaName,
    /// The size of a file that is made. The log has to hold all keys and values twice, and half as much again for what changes
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size::parse)]
    size: u64,
    /// When a write is answered: when it is durable, or at once
    #[arg(long, value_enum, default_value_t = Answered::Always)]
    durability: Answered,
    /// Port
    #[arg(long, default_value_t = 6379, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Open connections at most
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_048_576))]
    connections: usize,
    /// Seconds after which a client that says nothing is closed; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    timeout: u32,
    /// Memory that keys may take, as 4G. Unless it is said, all that there is
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    maxmemory: Option<u64>,
    /// Which keys go if they take more: noeviction (none: writes are refused), allkeys-lru, allkeys-lfu, allkeys-random, volatile-lru,
    /// volatile-lfu, volatile-random, volatile-ttl
    #[arg(long, value_name = "POLICY", default_value = "noeviction", value_parser = policy)]
    maxmemory_policy: Policy,
    /// A file whose first line is the password that clients have to say. A password on the command line would be seen by all
    #[arg(long, value_name = "FILE", conflicts_with = "acl_file")]
    password_file: Option<PathBuf>,
    /// A file of users and what each may do, as `ACL SAVE` writes it. `ACL LOAD` reads it again
    #[arg(long, value_name = "FILE")]
    acl_file: Option<PathBuf>,
    #[command(flatten)]
    export: ExportArguments,
    #[command(flatten)]
    place: HostArguments,
}

fn policy(name: &str) -> Result<Policy, String> {
    Policy::of(name).ok_or_else(|| format!("{name}: no policy; --help has their names"))
}

#[derive(Subcommand)]
enum KvCommand {
    Import(import::ImportArguments),
    Export(export::ExportArguments),
    Check(check::CheckArguments),
}

/// When a write is answered.
#[derive(Clone, Copy, ValueEnum)]
enum Answered {
    /// When it is durable
    Always,
    /// At once; durable a second later
    Everysec,
    /// At once; durable when a MiB has collected, or half a minute later
    No,
}

/// The store, as the host knows it.
struct Kv<'a> {
    arguments: &'a Arguments,
    /// `None`: it keeps keys in memory only.
    disk: Option<&'a Path>,
    guard: users::Guard,
    /// The questions of an export, and what rings for them. They outlive a card.
    desk: (KvAsker, KvDesk, Doorbell),
}

impl<'a> Kv<'a> {
    fn new(arguments: &'a Arguments) -> Result<Kv<'a>, String> {
        if arguments.place.placement.app_cores > 1 {
            return Err("a store is one process: leave out --app-cores. It may be on several net cores (--net-cores)"
                .to_owned());
        }
        let doorbell = Doorbell::new().map_err(|error| format!("doorbell: {error}"))?;
        let rung = doorbell.clone();
        let (asker, desk) = keys::open_desk(move || rung.ring());
        let guard = users::Guard::read((arguments.password_file.as_deref(), arguments.acl_file.as_deref()))?;
        Ok(Kv { arguments, disk: arguments.disk.as_deref(), guard, desk: (asker, desk, doorbell) })
    }
}

impl Application for Kv<'_> {
    type Service = KvService;
    type Figures = Figures;

    const NAME: &'static str = "kv";

    fn requirements(&self) -> Requirements {
        let port = self.arguments.port;
        let ports = vec![PortRange { protocol: PROTOCOL_TCP, first: port, last: port }];
        Requirements { connections_max: Some(self.arguments.connections), ..Requirements::new(ports) }
    }

    /// `ACL LOAD` and `ACL SAVE` go on needing the users' file, as far as whoever goes on may use it.
    fn files(&self) -> Files {
        let places: Vec<PathBuf> = self.arguments.acl_file.iter().map(|file| directory_of(file)).collect();
        Files::new(Vec::new(), places.clone(), places)
    }

    fn export(&self) -> Option<&ExportArguments> {
        Some(&self.arguments.export)
    }

    fn parts(&self) -> Vec<(String, Part)> {
        keys::parts(&self.desk.0)
    }

    fn storage(&self) -> Result<Storage, String> {
        let Some(disk) = self.disk else { return Ok(Storage::default()) };
        area::open(disk, &self.arguments.area, Some(self.arguments.size), disk::BUFFERS)
    }

    fn service(&self, place: &Place) -> Result<KvService, String> {
        let Arguments { durability, port, connections, timeout, maxmemory, maxmemory_policy, .. } = *self.arguments;
        let random = entropy().map_err(|error| format!("no entropy: {error}"))?;
        let (identity, rest) = random.split_first_chunk::<16>().ok_or("too few random bytes")?;
        let seed = rest.first_chunk::<8>().ok_or("too few random bytes")?;
        let durability = match durability {
            Answered::Always => Durability::Always,
            Answered::Everysec => Durability::EverySecond,
            Answered::No => Durability::No,
        };
        let has_log = self.disk.is_some();
        let operating =
            Operating { memory_max: maxmemory.unwrap_or(0), policy: maxmemory_policy, ..Operating::default() };
        let (_, desk, doorbell) = &self.desk;
        let service = KvService::new(KvConfig {
            area: AreaId::new(0, 0),
            serves_six: place.serves_six,
            settings: Settings { has_log, durability, clients_max: connections, port, timeout_s: timeout, operating },
            identity: *identity,
            seed: u64::from_ne_bytes(*seed),
            password: self.guard.password,
            users: self.guard.users.clone(),
            users_file: self.arguments.acl_file.clone(),
        });
        Ok(service.with_desk(desk.clone(), doorbell.clone()))
    }

    fn doorbell(service: &KvService) -> Option<(BorrowedFd<'_>, &'static str)> {
        Some((service.desk_bell()?.as_fd(), "questions of an export"))
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let Arguments { area, port, .. } = self.arguments;
        let addresses = place.sockets(*port);
        let disk = self.disk.map(|disk| disk.display().to_string());
        let from = disk.as_ref().map_or("memory only".to_owned(), |disk| format!("from {disk}"));
        Announcement {
            json: json!({
                "event": "serving", "addresses": addresses, "disk": disk, "area": disk.as_ref().map(|_| area.as_str()),
                "interface": place.interface, "driver": place.driver,
            }),
            lines: vec![format!("Redis' protocol at {}, {from}  (Ctrl-C stops)", addresses.join(" "))],
        }
    }

    fn figures(service: &mut KvService) -> Figures {
        service.figures()
    }

    fn notes(service: &mut KvService) -> Vec<String> {
        service.take_notes()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let commands_per_s = period.rate(|figures| figures.commands);
        let batches_per_s = period.rate(|figures| figures.batches);
        let figures = period.now;
        let failed = if figures.log_failed { "  THE LOG HAS FAILED" } else { "" };
        Rates {
            json: json!({ "commands_per_s": commands_per_s, "batches_per_s": batches_per_s }),
            text: format!(
                "{} commands/s  {} keys  {} flushes/s  {} open  {} errors{failed}",
                grouped(commands_per_s as u64),
                grouped(figures.keys),
                grouped(batches_per_s as u64),
                grouped(figures.connections_open),
                grouped(figures.errors),
            ),
            is_busy: commands_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        let served = format!(
            "Executed {} commands on {} connections; {} keys were there at the end.",
            grouped(all.commands),
            grouped(all.connections),
            grouped(all.keys),
        );
        let failed = all.log_failed.then(|| "The log failed: what was not acknowledged may be lost.".to_owned());
        [served].into_iter().chain(failed).collect()
    }
}

impl HostFigures for Figures {
    /// Counters go on; what is there now is what the newer one has.
    fn add(&mut self, newer: &Figures) {
        *self = Figures {
            commands: self.commands + newer.commands,
            errors: self.errors + newer.errors,
            connections: self.connections + newer.connections,
            refused: self.refused + newer.refused,
            input_bytes: self.input_bytes + newer.input_bytes,
            output_bytes: self.output_bytes + newer.output_bytes,
            batches: self.batches + newer.batches,
            checkpoints: self.checkpoints + newer.checkpoints,
            writes_refused: self.writes_refused + newer.writes_refused,
            evicted: self.evicted + newer.evicted,
            ..*newer
        };
    }

    fn end(&mut self) {
        self.connections_open = 0;
    }
}

/// Runs the store until it is told to stop, or does what is to be done with a stopped one.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.command {
        Some(KvCommand::Import(arguments)) => import::run(arguments),
        Some(KvCommand::Export(arguments)) => export::run(arguments),
        Some(KvCommand::Check(arguments)) => check::run(arguments),
        None => host::run(&arguments.place, || Kv::new(arguments)),
    }
}
