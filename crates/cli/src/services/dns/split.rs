//! `qanat dns` on a net core: the service is the same, of one queue.

use super::instances::{Control, DOORBELL_TOKEN, Done, REFUSALS, sum};
use super::{Meter, Prepared, ServeArguments, announce, finish, random, say, transfers};
use crate::host::net_core_watch::NetCoreWatch;
use crate::host::placement::Request;
use crate::live::Printer;
use crate::signals::Signals;
use qanat::RuntimeOptions;
use qanat_dns::service::DnsService;
use qanat_dns::transfer::PORTS;
use std::sync::PoisonError;

pub fn serve(arguments: &ServeArguments, mut prepared: Prepared, signals: Signals) -> Result<(), String> {
    if arguments.queues > 1 {
        return Err("--queues is for the linked placement: ask for as many net cores (--net-cores)".to_owned());
    }
    let connections = prepared.file.dns.tcp.connections_max + REFUSALS;
    let services = std::mem::take(&mut prepared.services);
    let mut request = Request::new("dns", &services, connections);
    request.options.ephemeral_ports = Some(PORTS);
    prepared.open()?;
    let mut placed = arguments.placement.attach(&arguments.attach, &request, &prepared.privilege)?;
    prepared.privilege.give_up(prepared.files.places.clone())?;
    prepared.privilege.check(&prepared.files.needs)?;
    let control = Control::new(1)?;
    prepared.watch(signals, &control)?;
    let Prepared { file, zones, figures, .. } = &prepared;
    let publisher = zones.publisher();
    let runtime = &mut placed.runtime;
    let reader = publisher.reader().map_err(|error| format!("doorbell: {error}"))?;
    runtime.watch(reader.doorbell_fd(), DOORBELL_TOKEN).map_err(|error| format!("watching for zones: {error}"))?;
    let service = DnsService::new(file.dns.clone(), reader, random()?)?;
    let mut service = service.with_transfers(transfers(zones)?);
    runtime.start(&mut service).map_err(|error| error.to_string())?;
    let printer = Printer::new(arguments.json);
    let mut meter = Meter::new();
    let place = (runtime.addresses(), runtime.interface(), runtime.driver());
    announce(&printer, file.dns.port, &publisher.latest(), place);
    let options = RuntimeOptions { spin: arguments.attach.spin.into(), ..RuntimeOptions::default() };
    let mut watch = NetCoreWatch::new();
    let outcome = runtime.run(&mut service, &control.of(0)?, options, &mut |service, runtime| {
        watch.show(runtime);
        control.put(0, Done::of(service));
        let done = control.done();
        let now = sum(&done);
        *figures.lock().unwrap_or_else(PoisonError::into_inner) = (now.dns, now.transfers);
        meter.show(&printer, &now.dns, &done);
        service.transfers().take_log().for_each(|text| say(&printer, &text));
    });
    watch.show(runtime);
    control.put(0, Done::of(&mut service));
    service.transfers().take_log().for_each(|text| say(&printer, &text));
    finish(&printer, &control.done());
    drop(placed);
    outcome.map_err(|error| error.to_string())
}
