//! The echo over shared memory with another process, whose peers come and go.

use super::bare::{Bare, LOOK_INTERVAL};
use crate::host::addresses::AddressWatch;
use crate::host::stack_report;
use crate::log;
use qanat::{Config, Runtime, RuntimeOptions, entropy};
use qanat_echo::{EchoService, OpenLink, own_mac};
use qanat_nic::memif::MemifLink;
use qanat_nic::{Vnic, metered};
use std::path::Path;
use std::time::Duration;

fn say(bare: &Bare<'_>, text: &str) {
    bare.printer.lasting(match bare.printer.is_json() {
        true => serde_json::json!({ "event": "link", "text": text }).to_string(),
        false => text.to_owned(),
    });
}

/// Until told to stop, or, as a slave, its master leaves. `socket`: whether this end listens there, too.
pub fn run(bare: &mut Bare<'_>, socket: (&Path, bool), ring: u8, is_raw: bool) -> Result<(), String> {
    bare.obey()?;
    let (own, mtu) = (bare.options.attach.address, bare.options.attach.mtu as u16);
    let (path, is_master) = socket;
    let link = OpenLink::memif(path.to_owned(), is_master, own_mac(true), mtu, ring, bare.memory())
        .map_err(|error| error.to_string())?;
    let address = format!("{}:{}", own.address, bare.echo.config.port);
    bare.echo.announce(&address, "memif").tell(&bare.printer);
    while !bare.control.is_stopped() {
        let next = link.next(LOOK_INTERVAL, &mut |text| say(bare, &text));
        let Some(device) = next.map_err(|error| error.to_string())? else { continue };
        let fate = device.link().clone();
        say(bare, &format!("memif: {} is connected", fate.peer()));
        let vnic = metered(device.open().map_err(|error| error.to_string())?);
        match is_raw {
            true => bare.run_in_driver(vnic, |_| fate.is_up())?,
            false => run_stack(bare, vnic, Config::new(own.address, own.length), &fate)?,
        }
        if let Some(reason) = fate.reason() {
            say(bare, &format!("memif: {reason}"));
        }
        if !link.is_master() {
            break;
        }
    }
    Ok(())
}

fn run_stack<V: Vnic + 'static>(bare: &mut Bare<'_>, vnic: V, config: Config, link: &MemifLink) -> Result<(), String> {
    // Ends this session: by the user, or with the link.
    let control = bare.control.clone();
    control.begin()?;
    let stop = control.stop_of(0)?;
    let mut service = EchoService::new(bare.echo.config);
    let given: Vec<_> = config.addresses.iter().map(|(address, _)| *address).collect();
    let mut watch = AddressWatch::new(&given);
    let seed = entropy().map_err(|error| format!("no entropy: {error}"))?;
    let mut runtime = Runtime::new(Box::new(vnic), config, seed);
    let options = RuntimeOptions { observe_every: LOOK_INTERVAL, grace: Duration::ZERO, ..bare.options.runtime() };
    let outcome = runtime.run(&mut service, &stop, options, &mut |service, runtime| {
        watch.show(&bare.printer, runtime);
        if control.wants_report(&mut bare.reports) {
            // By a thread of its own: standard error may block, the data path must not.
            let text = stack_report(runtime, None);
            std::thread::spawn(move || log::report(&text));
        }
        bare.show(&service.figures());
        if !link.is_up() {
            control.end();
        }
    });
    control.put(0, service.figures());
    outcome.map_err(|error| error.to_string())
}
