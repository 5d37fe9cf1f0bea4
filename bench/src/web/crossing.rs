//! `qanat bench crossing`: what the way into the kernel and back costs, by itself. `qanat web` in turn as it is, with a null system call
//! after each command and with each event (`--emulate-crossing`), and over the kernel's own TCP/IP, under the same client on the same link
//! (“The Case Against User-Level Networking”, section VI).

use super::servers::Peer;
use super::{Case, WebBenchOptions, check, columns, rows};
use crate::harness::HarnessError;
use crate::harness::bars::{self, Quantity};
use crate::harness::environment::Environment;
use crate::harness::options::BenchOptions;
use crate::harness::size::size;
use crate::harness::svg::Chart;
use crate::harness::table::Table;

const PEERS: [Peer; 3] = [Peer::LINKED, Peer::CROSSING, Peer::OVER_KERNEL];

/// Answers of 512 bytes to 64 KiB: so many at once that the server's processor is full, then one after the other.
fn cases(options: &BenchOptions) -> Result<Vec<Case>, HarnessError> {
    let case = |bytes: u64, connections: usize| {
        let how = if connections == 1 { "one after the other" } else { "at once" };
        Case {
            name: format!("{}, {how}", size(bytes as usize)),
            bytes: Some(bytes),
            close: false,
            connections,
            kernel_client: false,
        }
    };
    let sizes = (9..=16).map(|power| 1u64 << power);
    let at_once = sizes.clone().map(|bytes| case(bytes, (1 << 20 >> bytes.ilog2()).min(256)));
    let mut cases: Vec<Case> = at_once.chain(sizes.map(|bytes| case(bytes, 1))).collect();
    if options.quick {
        let is_quick = |case: &Case| {
            let sizes: &[u64] = if case.connections == 1 { &[512] } else { &[512, 4 << 10, 64 << 10] };
            case.bytes.is_some_and(|bytes| sizes.contains(&bytes))
        };
        cases.retain(is_quick);
    }
    options.chosen(cases, |case| case.name.clone())
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    let options = WebBenchOptions::new(options.clone());
    check(&options)?;
    let cases = cases(&options.common)?;
    let mut environment = environment(&options);
    let rows = rows(&options, &cases, |_| PEERS.to_vec(), &mut environment, progress)?;
    Ok(Table {
        title: "What crossing costs: qanat web linked, linked with a null call for each of its own, and over the kernel".to_owned(),
        command: options.common.repeat("sudo qanat bench crossing"),
        environment,
        columns: columns("linked"),
        rows,
        remarks: [
            "A request is two events (it came; its answer was acknowledged) and two commands (its bytes are given back; the answer is sent), \
             so four null calls. None of them copies anything.",
            "CPU µs/req server: all work on the server's processor, interrupts included, per answer. The linked ones poll, so this means \
             something only where the server's core is full (last column). veth runs receive processing on the sender's processor.",
        ]
        .map(str::to_owned)
        .to_vec(),
    })
}

fn environment(options: &WebBenchOptions) -> Environment {
    let mut environment = Environment::here();
    environment.peers = vec![
        "qanat web --copy pre: 1 core, AF_XDP copy mode, polling; the same with --emulate-crossing".to_owned(),
        "qanat web --placement kernel: 1 core, io_uring".to_owned(),
    ];
    environment.link = format!(
        "veth, MTU {}; the client's XDP program makes the kernel turn TSO off at the server's end; GSO is on",
        options.mtu
    );
    environment.pinning = format!("server on processor {}, client on {}", options.server_cpu, options.client_cpu);
    environment
}

/// Rates by size, then latency.
pub fn chart(table: &Table) -> Chart {
    let quantities = [
        Quantity { title: "Requests a second, many at once, × linked", column: "ratio", cases: "at once" },
        Quantity { title: "Requests a second, many at once", column: "requests_per_s", cases: "at once" },
        Quantity { title: "One after the other: median, µs", column: "p50_us", cases: "one after" },
    ];
    bars::chart(table, &quantities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn all_sizes_are_asked_for_in_both_ways() {
        let options = BenchOptions::new(PathBuf::new());
        let all = cases(&options).unwrap();
        assert_eq!(
            (all.len(), all[0].name.as_str(), all[15].name.as_str()),
            (16, "512 B, at once", "64 KiB, one after the other")
        );
        assert_eq!(cases(&BenchOptions { quick: true, ..options }).unwrap().len(), 4);
    }
}
