//! The name server, as the host knows it.

use super::control::{self, Door};
use super::export;
use super::options::{ONE_QUEUE, ServeArguments, random};
use super::zones::Zones;
use crate::host::Application;
use crate::host::application::{
    Announcement, Figures as HostFigures, Files, MetricsText, Period, Place, Rates, Requirements,
};
use crate::host::export::ExportArguments;
use crate::host::privilege::Privilege;
use crate::host::privilege::access::Need;
use crate::host::privilege::paths::directory_of;
use crate::live::grouped;
use crate::log;
use qanat::{PROTOCOL_TCP, PROTOCOL_UDP};
use qanat_dns::name::Name;
use qanat_dns::service::{DnsService, Figures, FileConfig, ZoneRules, metrics};
use qanat_dns::transfer::{PORTS, TransferFigures, Transfers};
use qanat_export::parts::Part;
use qanat_nic::af_xdp::PortRange;
use serde_json::{Value, json};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A server, but for its cards.
pub struct Server<'a> {
    arguments: &'a ServeArguments,
    file: FileConfig,
    /// Those that the files are read by.
    rules: ZoneRules,
    zones: Zones,
    /// The rate limiters'.
    secret: [u8; 16],
    /// Of the services that are to be made, by queue.
    transfers: Mutex<Vec<Option<Transfers>>>,
    /// Where it can be asked.
    door: Option<Door>,
}

/// What an instance has done.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Done {
    dns: Figures,
    transfers: TransferFigures,
}

impl HostFigures for Done {
    fn add(&mut self, other: &Done) {
        self.dns.add(&other.dns);
        self.transfers.add(&other.transfers);
    }

    fn end(&mut self) {
        self.dns.connections_open = 0;
    }
}

impl<'a> Server<'a> {
    /// What can be wrong with the zones is said before anything is made.
    pub fn new(arguments: &'a ServeArguments) -> Result<Server<'a>, String> {
        let mut file = arguments.file_config()?;
        let rules = std::mem::take(&mut file.zones);
        if arguments.queues > 1 && rules.may_fetch() {
            return Err(ONE_QUEUE.to_owned());
        }
        let zones = Zones::start(rules.clone(), arguments.text_index, arguments.export.is_wanted())?;
        Ok(Server { arguments, file, rules, zones, secret: random()?, transfers: Mutex::default(), door: None })
    }

    /// Reads the zones of the configuration as it is then.
    fn reader(&self) -> impl Fn() -> Result<ZoneRules, String> + Send + 'static {
        let (arguments, fixed) = (self.arguments.clone(), self.file.fixed.clone());
        move || arguments.rules(&fixed)
    }
}

impl Application for Server<'_> {
    type Service = DnsService;
    type Figures = Done;

    const NAME: &'static str = "dns";
    const IS_PUBLIC: bool = true;
    const NOTE: &'static str = "transfer";

    fn requirements(&self) -> Requirements {
        let port = self.file.dns.port;
        let range = |protocol, first, last| PortRange { protocol, first, last };
        let mut ports = vec![range(PROTOCOL_UDP, port, port), range(PROTOCOL_TCP, port, port)];
        if self.zones.can_fetch() {
            ports.push(range(PROTOCOL_TCP, *PORTS.start(), *PORTS.end()));
        }
        Requirements {
            connections_max: Some(self.file.dns.tcp.connections_max),
            ephemeral_ports: Some(PORTS),
            receive_batch: Some(self.arguments.batch.into()),
            queues: self.arguments.queues.into(),
            metrics: self.file.metrics,
            ..Requirements::new(ports)
        }
    }

    fn files(&self) -> Files {
        let (file, rules) = (&self.file, &self.rules);
        let read = file.files.iter().cloned().chain(rules.files().into_iter().map(|zone| zone.path)).map(Need::Read);
        let log = file.dns.log.iter();
        let appended = log.clone().map(|log| Need::Append(log.file.clone()));
        let needs = read.chain(rules.copies().into_iter().map(Need::Replace)).chain(appended).collect();
        let zones = self.arguments.zone.iter().map(|zone| directory_of(&zone.path));
        // What a configuration names when it is read again can be anywhere.
        let all = self.arguments.config.is_some().then(|| PathBuf::from("/"));
        let logs = log.map(|log| directory_of(&log.file));
        let write = rules.directories_of_copies().into_iter().chain(logs).collect();
        Files::new(needs, zones.chain(all).collect(), write)
    }

    fn export(&self) -> Option<&ExportArguments> {
        Some(&self.arguments.export)
    }

    fn parts(&self) -> Vec<(String, Part)> {
        export::parts(self.zones.versions())
    }

    /// The log, and the socket at which it can be asked.
    fn open(&mut self, privilege: &Privilege) -> Result<(), String> {
        if let Some(log) = &self.file.dns.log {
            privilege.make_file(&log.file)?;
        }
        match (control::open(self.file.control.as_deref()), &self.file.control) {
            (Ok(door), _) => {
                privilege.is_to_remove(door.path());
                self.door = Some(door);
            }
            // Who named it needs it; else a server is one without it.
            (Err(error), Some(_)) => return Err(error),
            (Err(error), None) => log::warning!("control", "`qanat dns status` will not find this server: {error}"),
        }
        Ok(())
    }

    /// What the first instance fetches and sends, each time that there is a new one; the others send, too.
    fn prepare(&self, queues: u32) -> Result<(), String> {
        let (zones, arrived) = (&self.zones, self.zones.clone());
        let first = Transfers::new(zones.control().clone(), zones.versions().clone(), zones.publisher())
            .map_err(|error| error.to_string())?;
        let first = first.with_arrival(Arc::new(move |apex| arrived.arrived(apex)));
        let siblings: Vec<Transfers> = (1..queues).map(|_| first.sibling()).collect();
        let all = std::iter::once(first).chain(siblings).map(Some).collect();
        *self.transfers.lock().unwrap_or_else(PoisonError::into_inner) = all;
        Ok(())
    }

    fn service(&self, place: &Place) -> Result<DnsService, String> {
        let reader = self.zones.publisher().reader().map_err(|error| format!("doorbell: {error}"))?;
        let service = DnsService::new(self.file.dns.clone(), reader, self.secret).map_err(|error| error.to_string())?;
        let mut transfers = self.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        let transfers = transfers.get_mut(place.queue as usize).and_then(Option::take);
        Ok(match transfers {
            Some(transfers) => service.with_transfers(transfers),
            None => service,
        })
    }

    fn doorbell(service: &DnsService) -> Option<(BorrowedFd<'_>, &'static str)> {
        Some((service.doorbell_fd(), "zones"))
    }

    /// `qanat dns status` and its likes are answered.
    fn begin(&self) -> Result<(), String> {
        self.door.as_ref().map_or(Ok(()), |door| door.serve(self.zones.clone(), Box::new(self.reader())))
    }

    /// Reads the configuration and the zones again.
    fn reload(&self) -> Option<Box<dyn FnMut() + Send>> {
        let (rules, zones) = (self.reader(), self.zones.clone());
        Some(Box::new(move || match rules().and_then(|rules| zones.reload(rules)) {
            Ok(changes) => {
                changes.lines.iter().for_each(|line| log::info!("reload", "{line}"));
                log::info!("reload", "{}", changes.summary());
            }
            Err(error) => log::warning!("reload", "the zones stay as they were: {error}"),
        }))
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let catalog = self.zones.publisher().latest();
        let addresses = place.sockets(self.file.dns.port);
        let zones = catalog.zones().iter();
        let zones_json = zones.clone().map(|zone| {
            json!({
                "name": zone.apex().to_string(), "serial": zone.serial(), "names": zone.name_count(),
                "records": zone.record_count(), "image_bytes": zone.memory_bytes(),
            })
        });
        let json = json!({
            "event": "serving", "addresses": addresses, "zones": zones_json.collect::<Vec<Value>>(),
            "interface": place.interface, "driver": place.driver,
        });
        let zones = zones.map(|zone| {
            format!(
                "{} serial {}: {} names, {} records, {:.1} MiB",
                zone.apex(),
                zone.serial(),
                grouped(zone.name_count() as u64),
                grouped(zone.record_count() as u64),
                zone.memory_bytes() as f64 / f64::from(1 << 20),
            )
        });
        let answering = format!("Answering at {}  (Ctrl-C stops)", addresses.join(" "));
        Announcement { json, lines: zones.chain([answering]).collect() }
    }

    fn figures(service: &mut DnsService) -> Done {
        Done { dns: service.figures(), transfers: service.transfers().figures() }
    }

    fn notes(service: &mut DnsService) -> Vec<String> {
        service.transfers().take_log().collect()
    }

    fn rates(period: &Period<'_, Done>) -> Rates {
        let answers_per_s = period.rate(|done| done.dns.answers);
        let figures = &period.now.dns;
        Rates {
            json: json!({ "answers_per_s": answers_per_s }),
            text: format!(
                "{} answers/s  {} requests  {} truncated  {} limited  {} open",
                grouped(answers_per_s as u64),
                grouped(figures.requests),
                grouped(figures.truncated),
                grouped(figures.limited),
                grouped(figures.connections_open),
            ),
            is_busy: answers_per_s > 0.0,
        }
    }

    fn json(done: &Done) -> Value {
        json!(done.dns)
    }

    fn metrics(&self) -> Option<MetricsText<Done>> {
        let zones = self.zones.clone();
        Some(Box::new(move |done| {
            let broken: Vec<Name> = zones.broken().into_keys().collect();
            metrics::text(&metrics::Report {
                figures: &done.dns,
                transfers: &done.transfers,
                catalog: &zones.publisher().latest(),
                standings: &zones.control().board(),
                broken: &broken,
            })
        }))
    }

    fn summary(all: &Done, each: &[Done]) -> Vec<String> {
        let figures = &all.dns;
        let mut lines = vec![format!(
            "Answered {} of {} requests, {} bytes.",
            grouped(figures.answers),
            grouped(figures.requests),
            grouped(figures.answer_bytes),
        )];
        if each.len() > 1 {
            let each: Vec<String> = each.iter().map(|done| grouped(done.dns.answers)).collect();
            lines.push(format!("By queue: {}.", each.join("  ")));
        }
        lines
    }

    fn last_json(all: &Done) -> Vec<(&'static str, Value)> {
        vec![("transfers", json!(all.transfers))]
    }
}
