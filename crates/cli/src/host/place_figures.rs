//! What holds a service: the card and the stack, or the way to a net core.

use qanat::Runtime;
use qanat::kernel::KernelRuntime;
use qanat::split::SplitRuntime;
use serde_json::{Map, Value, json};

/// By name.
pub type PlaceFigures = Vec<(&'static str, Value)>;

/// Of a linked service, now.
pub fn of_linked(runtime: &Runtime) -> PlaceFigures {
    vec![("usage", usage(runtime)), ("vnic", counted(runtime.vnic().statistics().iter()))]
}

/// Of a linked service, at its end: the stack's counters, too.
pub fn of_ended(runtime: &Runtime) -> PlaceFigures {
    let counters = runtime.stack().counters().iter().chain(runtime.stack().tcp_counters().iter());
    let mut place = of_linked(runtime);
    place.push(("stack", counted(counters)));
    place
}

/// Of a split service.
pub fn of_split(runtime: &SplitRuntime) -> PlaceFigures {
    let figures = runtime.figures();
    let value = json!({
        "events": figures.events, "commands": figures.commands, "bells": figures.bells,
        "net_cores_lost": figures.net_cores_lost,
    });
    vec![("split", value)]
}

/// Of a service over the kernel.
pub fn of_kernel(runtime: &KernelRuntime) -> PlaceFigures {
    vec![("kernel", json!(runtime.figures()))]
}

fn counted<'a>(counters: impl Iterator<Item = (&'a str, u64)>) -> Value {
    Map::from_iter(counters.map(|(name, count)| (name.to_owned(), count.into()))).into()
}

/// What the stack holds. It shows leaks.
fn usage(runtime: &Runtime) -> Value {
    let usage = runtime.stack().usage();
    json!({
        "connections": usage.connections, "half_open": usage.half_open, "time_wait": usage.time_wait,
        "flows": usage.flows, "timers": usage.timers, "neighbours": usage.neighbours,
        "transmit_frames_in_use": runtime.vnic().transmit_pool().in_use_count(),
        "prepared_frames_in_use": runtime.vnic().prepared_pool().in_use_count(),
    })
}
