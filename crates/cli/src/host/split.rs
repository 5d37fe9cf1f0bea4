//! The split placement: the stack is in a net core, or several. The service is the same, of one queue.

use crate::host::application::{Application, Place, StackPlace};
use crate::host::hosted::{Hosted, Watchers};
use crate::host::instances::REFUSALS;
use crate::host::meter::Meter;
use crate::host::net_core_watch::NetCoreWatch;
use crate::host::place_figures::of_split;
use crate::host::placement::Request;
use qanat::split::SplitRuntime;
use std::net::IpAddr;

fn place_on(runtime: &SplitRuntime) -> Place {
    let addresses = runtime.addresses();
    Place {
        serves_six: addresses.iter().any(IpAddr::is_ipv6),
        addresses,
        interface: runtime.interface().to_owned(),
        driver: runtime.driver().to_owned(),
        stack: StackPlace::NetCore,
        queue: 0,
    }
}

/// Until the service is told to stop.
///
/// # Errors
/// Why there is no net core, or why it can't be served on.
pub fn run<A: Application>(hosted: &Hosted<'_, A>, watchers: Watchers) -> Result<(), String> {
    let (application, options, needs) = (&hosted.application, hosted.options, &hosted.requirements);
    let mut request = Request::new(A::NAME, &needs.ports);
    if let Some(most) = needs.connections_max {
        request.options.connections_max = most + REFUSALS;
    }
    request.options.ephemeral_ports.clone_from(&needs.ephemeral_ports);
    // Before there is a steward: it may ask again for what has been asked for.
    let storage = application.storage()?;
    let mut placed = options.placement.attach(&options.attach, &request, &hosted.privilege)?;
    placed.runtime.use_storage(storage);
    let runtime = &mut placed.runtime;
    let place = place_on(runtime);
    let mut service = hosted.start(&place, runtime, watchers)?;
    hosted.announce(&place)?;
    let mut meter = Meter::new();
    let mut watch = NetCoreWatch::new();
    let stop = hosted.control.stop_of(0)?;
    let outcome = runtime.run(&mut service, &stop, options.runtime(), &mut |service, runtime| {
        watch.show(runtime);
        hosted.control.put(0, A::figures(service));
        hosted.show(&mut meter, &hosted.control.each(), || of_split(runtime), &A::notes(service));
    });
    watch.show(runtime);
    hosted.control.put(0, A::figures(&mut service));
    hosted.tell(&A::notes(&mut service));
    hosted.ends(|| of_split(runtime));
    hosted.finish();
    drop(placed);
    outcome.map_err(|error| error.to_string())
}
