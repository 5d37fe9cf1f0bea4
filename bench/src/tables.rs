//! Every table there is: whoever adds one registers it here, and has it in `qanat bench`, in its report and in its JSON.

use crate::disk;
use crate::dns;
use crate::echo::options::{BenchLink, EchoBenchOptions};
use crate::echo::{self, breakdown};
use crate::fence;
use crate::gate;
use crate::harness::HarnessError;
use crate::harness::bars::{self, Quantity};
use crate::harness::page::Section;
use crate::harness::svg::Chart;
use crate::harness::table::Table;
use crate::kv;
use crate::model;
use crate::paths;
use crate::programs;
use crate::split::{self, ratio};
use crate::web::{self, WebBenchOptions};
use crate::{https, video};

pub use crate::harness::options::BenchOptions;

/// Measures a table; progress goes to the function given.
pub type Run = fn(&BenchOptions, &mut dyn FnMut(&str)) -> Result<Table, HarnessError>;

/// A table.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it compares, in a line.
    pub about: &'static str,
    /// Measures it; the second argument is told what is being done.
    pub run: Run,
    /// Draws it.
    pub chart: fn(&Table) -> Chart,
    /// How to have it, if this program was built without.
    pub missing: Option<&'static str>,
}

/// All tables, in the order of a report.
pub const TABLES: [Entry; 22] = [
    Entry {
        name: "web",
        about: "static files over HTTP: qanat web and nginx, on a veth (root)",
        run: |options, progress| web::run(&WebBenchOptions::new(options.clone()), progress),
        chart: web::chart,
        missing: None,
    },
    Entry {
        name: "crossing",
        about: "qanat web as it is, with a null system call for each of its own, and over the kernel (root)",
        run: web::crossing::run,
        chart: web::crossing::chart,
        missing: None,
    },
    Entry {
        name: "model",
        about: "what crossing costs, predicted from small benchmarks and measured: memif, disk, veth as root",
        run: model::run,
        chart: model::chart,
        missing: None,
    },
    Entry {
        name: "https",
        about: "static files over TLS: qanat web and nginx, under wrk on kernel sockets (root)",
        run: https::run,
        chart: https::chart,
        missing: None,
    },
    Entry {
        name: "video",
        about: "films from a disk: qanat video and nginx, under wrk on kernel sockets (root)",
        run: video::run,
        chart: video::chart,
        missing: None,
    },
    Entry {
        name: "read-cache",
        about: "large files that do not fit: the kernel's page cache, none, and qanat web's own (root)",
        run: web::read_cache::run,
        chart: web::read_cache::chart,
        missing: None,
    },
    Entry {
        name: "dns",
        about: "DNS answers: qanat dns, Knot on XDP and on sockets, NSD, on a veth (root)",
        run: dns::run,
        chart: dns::chart,
        missing: None,
    },
    Entry {
        name: "kv",
        about: "a durable store: Redis, Valkey, qanat kv, RocksDB, on the same link and file system (root)",
        run: kv::run,
        chart: programs::chart,
        missing: None,
    },
    Entry {
        name: "kv-memory",
        about: "what a key takes of memory: Redis, qanat kv (root)",
        run: kv::memory::run,
        chart: kv::memory::chart,
        missing: None,
    },
    Entry {
        name: "disk",
        about: "random reads and overwrites of a file: our driver, fio's engines (fio)",
        run: disk::run,
        chart: disk::chart,
        missing: None,
    },
    Entry {
        name: "disk-tenants",
        about: "a tenant of a disk core beside one that floods the disk",
        run: disk::tenants::run,
        chart: disk::tenants::chart,
        missing: None,
    },
    Entry {
        name: "echo-memif",
        about: "datagrams echoed over shared memory: driver, stack, DPDK",
        run: |options, progress| echo::run(&EchoBenchOptions::new(options.clone(), BenchLink::Memif), progress),
        chart: echo_chart,
        missing: None,
    },
    Entry {
        name: "echo-veth",
        about: "datagrams echoed over a veth: driver, stack, Linux, DPDK (root)",
        run: |options, progress| echo::run(&EchoBenchOptions::new(options.clone(), BenchLink::Veth), progress),
        chart: echo_chart,
        missing: None,
    },
    Entry {
        name: "echo-pair",
        about: "datagrams echoed between two threads: driver, stack",
        run: |options, progress| echo::run(&EchoBenchOptions::new(options.clone(), BenchLink::Pair), progress),
        chart: echo_chart,
        missing: None,
    },
    Entry {
        name: "breakdown",
        about: "where the time of an echoed packet goes: Linux, ours (root, and a build with the feature `breakdown`)",
        run: |options, progress| breakdown::run(&EchoBenchOptions::new(options.clone(), BenchLink::Veth), progress),
        chart: |table| bars::stacked(table, &breakdown::PHASES),
        missing: if cfg!(feature = "breakdown") { None } else { Some(breakdown::NOT_BUILT) },
    },
    Entry {
        name: "fence",
        about: "the fence around virtual cards: the gate's cost, a neighbour's latency under a flood (root)",
        run: fence::run,
        chart: fence::chart,
        missing: None,
    },
    Entry {
        name: "gate",
        about: "qanat web on a device of its own and on a card of the daemon's (root)",
        run: gate::run,
        chart: gate::chart,
        missing: None,
    },
    Entry {
        name: "run",
        about: "nginx, haproxy, redis, memcached as they are: under qanat run and on the kernel's sockets (root)",
        run: programs::run,
        chart: programs::chart,
        missing: None,
    },
    Entry {
        name: "run-profile",
        about: "where a request's processor time goes in them: program, libqanat, kernel, link (root, perf)",
        run: programs::profile::run,
        chart: programs::profile::chart,
        missing: None,
    },
    Entry {
        name: "split",
        about: "the split placement beside the linked one and Linux: ping-pong, costs, a service that blocks",
        run: split::run,
        chart: split::chart,
        missing: None,
    },
    Entry {
        name: "ratio",
        about: "how many net cores to how many service cores: a model fed with measured costs",
        run: ratio::run,
        chart: ratio::chart,
        missing: None,
    },
    Entry {
        name: "paths",
        about: "TCP over emulated paths: ours and Linux' (root)",
        run: paths::run,
        chart: |table| {
            let quantities = [
                Quantity { title: "Goodput of one flow or some, Mbit/s", column: "goodput_mbit", cases: "" },
                Quantity {
                    title: "Share of the first of two flows, %",
                    column: "share_percent",
                    cases: "side by side",
                },
            ];
            bars::chart(table, &quantities)
        },
        missing: None,
    },
];

fn echo_chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Packets echoed a second", column: "packets_per_s", cases: "at once" },
        Quantity {
            title: "Time of both processors for a packet, µs (polling ones are always busy)",
            column: "both_us",
            cases: "at once",
        },
        Quantity { title: "Round trip of single packets, median, µs", column: "p50_us", cases: "one at a time" },
        Quantity {
            title: "Round trip of single packets, 99th percentile, µs",
            column: "p99_us",
            cases: "one at a time",
        },
    ];
    bars::chart(table, &quantities)
}

/// The table called `name`.
///
/// # Errors
/// [`HarnessError::Option`], with the names there are.
pub fn named(name: &str) -> Result<&'static Entry, HarnessError> {
    TABLES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|entry| entry.name).collect();
        HarnessError::Option(format!("no table is called {name:?}; there are: {}", names.join(", ")))
    })
}

/// Measures one table after the other. One that can't be made is told of in its place.
pub fn run(entries: &[&Entry], options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Vec<Section> {
    let one = |entry: &&Entry| {
        let outcome = (entry.run)(options, &mut |what| progress(&format!("{}: {what}", entry.name)));
        let drawn = outcome.map(|table| {
            let chart = (entry.chart)(&table);
            (table, chart)
        });
        Section { name: entry.name.to_owned(), outcome: drawn }
    };
    entries.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::PathBuf;

    #[test]
    fn names_are_found_and_are_one_of_a_kind() {
        let names: HashSet<&str> = TABLES.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), TABLES.len());
        assert!(names.iter().all(|name| named(name).is_ok_and(|entry| entry.name == *name)));
        let error = named("wep").err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("echo-memif"), "{error}");
    }

    #[test]
    fn a_table_that_fails_is_told_of() {
        let bad = Entry {
            name: "bad",
            about: "",
            run: |_, progress| {
                progress("trying");
                Err(HarnessError::Missing("no root".to_owned()))
            },
            chart: echo_chart,
            missing: None,
        };
        let mut said = Vec::new();
        let sections = run(&[&bad], &BenchOptions::new(PathBuf::new()), &mut |message| said.push(message.to_owned()));
        assert_eq!(sections[0].outcome.as_ref().err().map(ToString::to_string).as_deref(), Some("no root"));
        assert_eq!(said, ["bad: trying"]);
    }
}
