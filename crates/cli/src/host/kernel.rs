//! The kernel placement: the service over the kernel's own TCP/IP. It needs no card, no interface and no rights.

use crate::host::application::{Application, Figures, Place, Requirements, StackPlace};
use crate::host::attach::Spin;
use crate::host::hosted::{Hosted, Watchers};
use crate::host::instances::REFUSALS;
use crate::host::meter::Meter;
use crate::host::place_figures::of_kernel;
use crate::host::placement::{PlacementArguments, Sockets};
use crate::log;
use qanat::kernel::{KernelOptions, KernelRuntime};
use qanat::{RuntimeOptions, SpinPolicy};
use qanat_nic::af_xdp::PortRange;
use qanat_nic::link;
use qanat_nic::sockets::{PortUse, SocketEngineKind, has_six};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that are announced at most.
const ANNOUNCED_MAX: usize = 8;

/// Where an application listens that was not told where; none: everywhere.
fn usual_addresses<A: Application>() -> Vec<IpAddr> {
    if A::IS_PUBLIC {
        return Vec::new();
    }
    let six = has_six().then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    std::iter::once(IpAddr::V4(Ipv4Addr::LOCALHOST)).chain(six).collect()
}

/// Where the service can be reached, for its announcement and its certificate.
fn reached_at(options: &KernelOptions) -> Vec<IpAddr> {
    if !options.addresses.is_empty() {
        return options.addresses.clone();
    }
    let is_link_local = |address: &IpAddr| matches!(address, IpAddr::V6(six) if six.is_unicast_link_local());
    let all = link::addresses(0).unwrap_or_default().into_iter().map(|(address, _)| address);
    // What others can use first.
    let mut all: Vec<IpAddr> = all.filter(|address| !is_link_local(address)).collect();
    all.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
    all.truncate(ANNOUNCED_MAX);
    if all.is_empty() { vec![Ipv4Addr::UNSPECIFIED.into()] } else { all }
}

fn place_on(options: &KernelOptions) -> Place {
    let addresses = reached_at(options);
    let is_told = !options.addresses.is_empty();
    Place {
        serves_six: if is_told { addresses.iter().any(IpAddr::is_ipv6) } else { has_six() },
        addresses,
        interface: "the kernel's".to_owned(),
        driver: "kernel".to_owned(),
        stack: StackPlace::Kernel,
        queue: 0,
    }
}

/// Ports that an application's own connections are from: those are the kernel's affair here.
fn are_for_dialling(needs: &Requirements, range: &PortRange) -> bool {
    let own = needs.ephemeral_ports.as_ref();
    own.is_some_and(|own| (*own.start(), *own.end()) == (range.first, range.last))
}

/// What an application is to have of the kernel.
fn wanted<A: Application>(placement: &PlacementArguments, needs: &Requirements) -> KernelOptions {
    let ports = needs.ports.iter().copied().filter(|range| !are_for_dialling(needs, range)).collect();
    let mut wanted = KernelOptions::new(ports);
    wanted.addresses = if placement.listen.is_empty() { usual_addresses::<A>() } else { placement.listen.clone() };
    wanted.frames = needs.frames;
    wanted.engine = placement.sockets.map(|sockets| match sockets {
        Sockets::IoUring => SocketEngineKind::Ring,
        Sockets::Epoll => SocketEngineKind::Poll,
    });
    if placement.app_core {
        wanted.port_use = PortUse::Shared;
    }
    if let Some(most) = needs.connections_max {
        wanted.connections_max = most + REFUSALS;
    }
    wanted
}

/// Looks for other programs at an application's ports, before processes are started that share them.
///
/// # Errors
/// Which port is another program's.
pub fn check_ports<A: Application>(placement: &PlacementArguments, needs: &Requirements) -> Result<(), String> {
    wanted::<A>(placement, needs).check_ports().map_err(|error| error.to_string())
}

/// Until the service is told to stop.
///
/// # Errors
/// Why it can't be served.
pub fn run<A: Application>(hosted: &Hosted<'_, A>, watchers: Watchers) -> Result<(), String> {
    let (application, options, needs) = (&hosted.application, hosted.options, &hosted.requirements);
    options.placement.end_with_parent();
    if needs.ports.iter().any(|range| are_for_dialling(needs, range)) {
        hosted.privilege.is_to_dial();
    }
    let wanted = wanted::<A>(&options.placement, needs);
    let mut place = place_on(&wanted);
    let storage = application.storage()?;
    let mut runtime = KernelRuntime::over_kernel(wanted).map_err(|error| error.to_string())?;
    if runtime.engine() == SocketEngineKind::Poll {
        place.driver = "kernel, epoll".to_owned();
    }
    if let Some(why) = runtime.no_ring() {
        log::warning!("placement", "sockets are used by epoll (--sockets epoll), and disks can't be: {why}");
    }
    runtime.use_storage(storage);
    let mut service = hosted.start(&place, &mut runtime, watchers)?;
    runtime.close_unused_ports();
    hosted.announce(&place)?;
    let mut meter = Meter::new();
    let mut reports = hosted.control.reports();
    let stop = hosted.control.stop_of(0)?;
    // To poll for a while would be system calls in vain.
    let spin = if options.attach.spin == Spin::Always { SpinPolicy::Always } else { SpinPolicy::Never };
    let runs = RuntimeOptions { spin, ..options.runtime() };
    let outcome = runtime.run(&mut service, &stop, runs, &mut |service, runtime| {
        hosted.control.put(0, A::figures(service));
        hosted.show(&mut meter, &hosted.control.each(), || of_kernel(runtime), &A::notes(service));
        if hosted.control.wants_report(&mut reports) {
            report(hosted, runtime);
        }
    });
    hosted.control.put(0, A::figures(&mut service));
    hosted.tell(&A::notes(&mut service));
    hosted.ends(|| of_kernel(&runtime));
    hosted.finish();
    outcome.map_err(|error| error.to_string())
}

/// The application's counters, and those of the placement: connections are `ss -i`'s affair.
fn report<A: Application>(hosted: &Hosted<'_, A>, runtime: &KernelRuntime) {
    let own = hosted.application.metrics();
    let all = A::Figures::sum(&hosted.control.each());
    let figures = serde_json::to_value(runtime.figures()).unwrap_or_default();
    std::thread::spawn(move || {
        let mut text = own.map_or_else(String::new, |own| own(&all));
        for (name, count) in figures.as_object().into_iter().flatten() {
            text += &format!("{name:<36} {count}\n");
        }
        log::report(&(text + "connections: `ss --tcp --info` shows them\n"));
    });
}
