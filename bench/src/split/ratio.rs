//! What the measured costs mean for more cores than there are: a model, and said to be one.
//!
//! Requests arrive at random (Poisson) and take a random (exponential) time of the measured mean. Flows are pinned, so each
//! core is a queue of its own (M/M/1): a linked layout of c cores is c queues side by side; a split one of n net and m service
//! cores has n queues, then m. The net core's and the service's part are as measured under load between two processors, cache
//! lines that change sides included; nothing is said of caches shared by more cores, of memory, or of the card.

use super::loads::Load;
use super::scene::Place;
use super::{LOADS, aside, costs, environment};
use crate::harness::HarnessError;
use crate::harness::bars::{self, Quantity};
use crate::harness::options::BenchOptions;
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use std::time::Duration;

/// Net cores and service cores.
const LAYOUTS: [(u32, u32); 6] = [(1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (3, 1)];
/// Of what the slower side can do.
const LOAD: f64 = 0.7;

/// Costs of a request.
#[derive(Clone, Copy, Debug)]
struct Costs {
    linked_ns: f64,
    net_ns: f64,
    app_ns: f64,
}

impl Costs {
    /// Requests a second that n net and m service cores can do.
    fn capacity(&self, net: u32, app: u32) -> f64 {
        (f64::from(net) / self.net_ns).min(f64::from(app) / self.app_ns) * 1e9
    }

    /// Of so many cores with all in one.
    fn linked_capacity(&self, cores: u32) -> f64 {
        f64::from(cores) / self.linked_ns * 1e9
    }

    /// Mean time of a request at a rate, µs; infinite beyond the capacity.
    fn mean_us(&self, net: u32, app: u32, rate: f64) -> f64 {
        queue_us(self.net_ns, rate / f64::from(net)) + queue_us(self.app_ns, rate / f64::from(app))
    }

    fn linked_mean_us(&self, cores: u32, rate: f64) -> f64 {
        queue_us(self.linked_ns, rate / f64::from(cores))
    }
}

/// Mean sojourn of an M/M/1 queue.
fn queue_us(cost_ns: f64, rate: f64) -> f64 {
    let load = rate * cost_ns / 1e9;
    if load < 1.0 { cost_ns / 1e3 / (1.0 - load) } else { f64::INFINITY }
}

fn measured(load: Load, duration: Duration, repetitions: usize) -> Result<Costs, HarnessError> {
    let (mut linked, mut net, mut app) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        linked.extend(aside(|| costs(Place::Linked, load, duration))?.net_ns);
        let split = aside(|| costs(Place::Split, load, duration))?;
        net.extend(split.net_ns);
        app.extend(split.app_ns);
    }
    let median = |values: Vec<f64>| Summary::of(values).map_or(f64::NAN, |summary| summary.median);
    Ok(Costs { linked_ns: median(linked), net_ns: median(net), app_ns: median(app) })
}

/// Measures the costs, then asks the model.
///
/// # Errors
/// [`HarnessError`].
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let loads = options.chosen(LOADS.to_vec(), |(_, name)| (*name).to_owned())?;
    let mut rows = Vec::new();
    let environment = environment(options, progress);
    let duration = options.duration(Duration::from_millis(500), Duration::from_millis(200));
    for (load, name) in loads {
        progress(&format!("costs of {name}"));
        let costs = measured(load, duration, options.repetitions())?;
        rows.extend(LAYOUTS.map(|layout| row(name, &costs, layout)));
    }
    let column = |(name, heading, digits): (&str, &str, usize)| Column::new(name, heading, digits);
    Ok(Table {
        title: "Layouts of net and service cores: a model fed with measured costs".to_owned(),
        command: options.repeat("qanat bench ratio"),
        environment,
        columns: [
            ("requests_per_s", "requests/s at most", 0),
            ("linked_per_s", "linked, as many cores", 0),
            ("ratio", "÷ linked, per core", 3),
            ("mean_us", "mean µs at 70 %", 2),
            ("linked_mean_us", "linked at that rate", 2),
        ]
        .map(column)
        .to_vec(),
        rows,
        remarks: vec![
            "A model: Poisson arrivals, exponential service, flows pinned: every core an M/M/1 queue. Only the costs are \
             measured: on two processors, the net core and the service apart"
                .to_owned(),
            "mean: time in both queues at 70 % of what the slower side of that layout can do".to_owned(),
        ],
    })
}

fn row(name: &str, costs: &Costs, (net, app): (u32, u32)) -> Row {
    let one = |value: f64| Summary::of([value]);
    let (capacity, linked) = (costs.capacity(net, app), costs.linked_capacity(net + app));
    let is_net = f64::from(net) / costs.net_ns < f64::from(app) / costs.app_ns;
    Row {
        case: format!(
            "{name} (linked {:.0} ns; net {:.0} ns, service {:.0} ns)",
            costs.linked_ns, costs.net_ns, costs.app_ns
        ),
        peer: format!("{net} net : {app} service"),
        values: vec![
            one(capacity),
            one(linked),
            one(capacity / linked),
            one(costs.mean_us(net, app, LOAD * capacity)),
            one(costs.linked_mean_us(net + app, LOAD * capacity)),
        ],
        note: format!("the {} the limit", if is_net { "net cores are" } else { "service's cores are" }),
    }
}

/// Draws it.
pub fn chart(table: &Table) -> Chart {
    let quantities =
        [Quantity { title: "Share of the linked placement's throughput, per core", column: "ratio", cases: "" }];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_what_it_says() {
        let costs = Costs { linked_ns: 1_000.0, net_ns: 800.0, app_ns: 400.0 };
        assert_eq!(costs.capacity(1, 1), 1_250_000.0);
        assert_eq!(costs.capacity(2, 1), 2_500_000.0);
        assert_eq!(costs.linked_capacity(2), 2_000_000.0);
        // Half loaded, a queue takes twice its service.
        assert!((costs.linked_mean_us(1, 500_000.0) - 2.0).abs() < 1e-9);
        assert!((costs.mean_us(1, 1, 625_000.0) - (1.6 + 0.4 / 0.75)).abs() < 1e-9);
        assert!(costs.mean_us(1, 1, 2e6).is_infinite());
    }
}
