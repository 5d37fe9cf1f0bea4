//! `qanat bench run --profile`: where a program's request spends processor time, on the kernel's sockets and under `qanat run`.
//!
//! A veth's sender runs the receiver's receive processing, so `qanat bench run` charges the server's processor for the load's,
//! and spares it the server's own. Here each is told apart, and a request's sum is that of the server's work alone,
//! wherever it was done, as if the two were two machines.

use super::measured::{CLIENT_CPU, Measured, SERVER_CPU};
use super::servers::{Files, Sockets};
use super::{Case, MTU, WARM_UP, loaded};
use crate::harness::HarnessError;
use crate::harness::alternate::{Run, Turns, common_placement, summarize};
use crate::harness::bars;
use crate::harness::options::BenchOptions;
use crate::harness::sampling::{self, Sample, Samples, begins};
use crate::harness::statistics::Summary;
use crate::harness::svg::Chart;
use crate::harness::table::{Column, Row, Table};
use crate::harness::topology::Topology;
use std::time::Duration;

/// Sampling begins when the load runs evenly: shorter runs would be over by then.
const DURATION_MIN: Duration = Duration::from_millis(1_500);
const PEERS: [Sockets; 2] = [Sockets::Kernel, Sockets::Own];
/// Of a request; a sample belongs to one.
const PARTS: [(&str, &str); 6] = [
    ("program", "program"),
    ("libraries", "its libraries"),
    ("libqanat", "libqanat"),
    ("kernel", "kernel"),
    ("link_out", "frames out"),
    ("receive", "receiving, on the load's processor"),
];
/// And this, the load's own receiving, which is no part of the sum.
const OF_THE_LOAD: &str = "load_receive";

/// A link's receive processing, by whomever it is done.
const RECEIVE: [&str; 4] = ["net_rx_action", "__napi_poll", "veth_poll", "process_backlog"];
/// Giving a frame to the link: a socket's packet, and ours by batches.
const LINK_OUT: [&str; 6] =
    ["__dev_queue_xmit", "dev_hard_start_xmit", "veth_xmit", "veth_xdp_xmit", "bpf_test_run_xdp", "bpf_prog_test_run"];

/// What a sample's time was spent for; `None`: not for the server's requests.
fn part(sample: &Sample, threads: &[&str]) -> Option<&'static str> {
    // The keeper of `qanat run` is `qanat…`.
    let is_server = begins(&sample.program, threads) || sample.program.starts_with("qanat");
    let receives = sample.has(&RECEIVE);
    // What the kernel does in an idle processor is the link's receiving, or nobody's.
    let counts = if sample.is_of_kernel() { receives } else { is_server };
    if sample.is_idle() || !counts {
        return None;
    }
    if sample.cpu != SERVER_CPU {
        return (sample.cpu == CLIENT_CPU && receives).then_some("receive");
    }
    let object = sample.object.as_str();
    let file = object.rsplit('/').next().unwrap_or(object);
    let is_kernel =
        (object.starts_with('[') && object != "[vdso]" && object != "[unknown]") || object.starts_with("bpf_");
    Some(match () {
        () if receives => OF_THE_LOAD,
        () if is_kernel && sample.has(&LINK_OUT) => "link_out",
        () if is_kernel => "kernel",
        () if file.starts_with("libqanat") => "libqanat",
        () if file.contains(".so") || object == "[vdso]" => "libraries",
        () => "program",
    })
}

/// A run: µs of each part a request.
#[derive(Clone, Debug)]
struct Profile {
    per_s: f64,
    parts_us: Vec<(&'static str, f64)>,
}

impl Profile {
    fn new(samples: &Samples, measured: &Measured, threads: &[&str]) -> Result<Profile, HarnessError> {
        let requests = (measured.per_s * samples.duration_s).max(1.0);
        let sorted: Vec<&str> = samples.samples.iter().filter_map(|sample| part(sample, threads)).collect();
        if sorted.is_empty() {
            return Err(HarnessError::Child("perf took no samples of the server: give it longer, by -d".to_owned()));
        }
        let names = PARTS.iter().map(|(name, _)| *name).chain([OF_THE_LOAD]);
        let us = |name: &str| {
            sorted.iter().filter(|part| **part == name).count() as f64 * samples.period_ns / 1e3 / requests
        };
        Ok(Profile { per_s: measured.per_s, parts_us: names.map(|name| (name, us(name))).collect() })
    }

    fn us(&self, name: &str) -> Option<f64> {
        self.parts_us.iter().find(|(part, _)| *part == name).map(|(_, us)| *us)
    }

    /// All of the server's.
    fn sum_us(&self) -> f64 {
        PARTS.iter().filter_map(|(name, _)| self.us(name)).sum()
    }
}

/// Whether one program alone answers: a backend's receiving could not be told from the server's.
fn is_alone(case: &Case) -> bool {
    !case.name.contains("before")
}

/// Measures; `progress` is told what is being done.
///
/// # Errors
/// [`HarnessError::Missing`] without root, `perf` or a program, with the remedy; else what a child or the system said.
pub fn run(options: &BenchOptions, progress: &mut dyn FnMut(&str)) -> Result<Table, HarnessError> {
    if !sampling::has_perf() {
        return Err(HarnessError::Missing("perf is not installed: apt-get install linux-perf".to_owned()));
    }
    let cases = super::wanted(options, is_alone)?;
    let mut environment = super::environment(&cases)?;
    let topology = Topology::new(MTU)?;
    let files = Files::create()?;
    progress("waiting for a quiet machine");
    environment.wait_for_quiet(Duration::from_secs(if options.quick { 2 } else { 20 }));
    let duration = options.duration(Duration::from_secs(2), DURATION_MIN).max(DURATION_MIN);
    let (mut rows, mut turns) = (Vec::new(), Turns::new((SERVER_CPU, CLIENT_CPU), options.repetitions(), progress));
    for case in cases {
        let run = |sockets: &Sockets| {
            let (measured, samples) = loaded(options, &topology, &files, (case, *sockets), duration, |load| {
                sampling::during(WARM_UP + duration, &[topology.server(), topology.client()], load)
            })?;
            Profile::new(&samples?, &measured?, case.program.threads())
        };
        let runs = turns.play(case.name, &PEERS, |sockets| sockets.name(), run)?;
        rows.extend(case_rows(case, &runs));
    }
    environment.placement = turns.placement();
    Ok(Table {
        title: "Where a request's processor time goes, µs".to_owned(),
        command: options.repeat("sudo qanat bench run --profile"),
        environment,
        columns: columns(),
        rows,
        remarks: remarks(),
    })
}

fn columns() -> Vec<Column> {
    let mut columns: Vec<Column> = PARTS.iter().map(|(name, heading)| Column::new(name, heading, 2)).collect();
    columns.push(Column::new("sum_us", "sum", 2).with_spread());
    columns.push(Column::new("ratio", "kernel's sum ÷", 2));
    columns.push(Column::new(OF_THE_LOAD, "the load's receiving", 2));
    columns.push(Column::new("requests_per_s", "requests/s, sampled", 0));
    columns
}

fn case_rows(case: &Case, runs: &[Vec<Run<Profile>>]) -> Vec<Row> {
    let placement = common_placement(runs);
    let of = |number: usize, value: &dyn Fn(&Profile) -> Option<f64>| {
        runs.get(number).and_then(|runs| summarize(runs, placement, value))
    };
    // How many requests the time of one on the kernel's sockets is enough for.
    let rate = |profile: &Profile| Some(1.0 / profile.sum_us()).filter(|rate| rate.is_finite());
    let row = |number: usize, sockets: &Sockets| {
        let mut values: Vec<_> =
            PARTS.iter().map(|(name, _)| of(number, &|profile: &Profile| profile.us(name))).collect();
        values.push(of(number, &|profile| Some(profile.sum_us())));
        values.push(Summary::relative(of(number, &rate), of(0, &rate)));
        values.push(of(number, &|profile| profile.us(OF_THE_LOAD)));
        values.push(of(number, &|profile| Some(profile.per_s)));
        Row {
            case: case.name.to_owned(),
            peer: sockets.name().to_owned(),
            values,
            note: placement.map_or_else(|| "mixed".to_owned(), |placement| placement.to_string()),
        }
    };
    PEERS.iter().enumerate().map(|(number, sockets)| row(number, sockets)).collect()
}

fn remarks() -> Vec<String> {
    [
        "perf looks at both processors 10,000 times a second and sorts what it finds by function and file; being looked at \
         costs a tenth to a fifth of the rate. Only processes in the measurement's two network namespaces count.",
        "A veth's sender runs the receiver's receive processing. «Receiving» is the server's, which the load runs; «the load's \
         receiving», which the server runs, is not in the sum: so the sum is what the server would do on a machine of its own.",
        "«Frames out»: handing frames to the link, from the queueing discipline or the batch on; «kernel»: all else there, for \
         the kernel's sockets the stack as well.",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// The parts, stacked.
pub fn chart(table: &Table) -> Chart {
    bars::stacked(table, &PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu: usize, program: &str, functions: &[&str], object: &str) -> Sample {
        let functions = functions.iter().map(|function| (*function).to_owned()).collect();
        let process = u32::from(program != "swapper");
        Sample { at_s: 0.0, cpu, process, program: program.to_owned(), functions, object: object.to_owned() }
    }

    #[test]
    fn a_sample_has_one_part() {
        let kernel = "[kernel.kallsyms]";
        for (sample, expected) in [
            (sample(0, "nginx", &["ngx_http_parse"], "/usr/sbin/nginx"), Some("program")),
            (sample(0, "nginx", &["memcpy"], "/usr/lib/x86_64-linux-gnu/libc.so.6"), Some("libraries")),
            (sample(0, "nginx", &["clock_gettime"], "[vdso]"), Some("libraries")),
            (sample(0, "nginx", &["tcp::input"], "/opt/libqanat.so"), Some("libqanat")),
            (sample(0, "nginx", &["tcp_sendmsg", "do_syscall_64"], kernel), Some("kernel")),
            (sample(0, "nginx", &["veth_xmit", "__dev_queue_xmit", "tcp_sendmsg"], kernel), Some("link_out")),
            (sample(0, "nginx", &["bpf_prog_1", "bpf_test_run_xdp_live"], "bpf_prog_1"), Some("link_out")),
            (sample(0, "nginx", &["xsk_rcv", "veth_poll", "veth_xmit"], kernel), Some(OF_THE_LOAD)),
            (sample(1, "qanat", &["tcp_v4_rcv", "net_rx_action", "xsk_sendmsg"], kernel), Some("receive")),
            (sample(1, "qanat", &["qanat::load"], "/opt/qanat"), None),
            (sample(0, "swapper", &["pv_native_safe_halt"], kernel), None),
            (sample(0, "swapper", &["menu_select"], kernel), None),
            (sample(0, "swapper", &["veth_poll", "net_rx_action"], kernel), Some(OF_THE_LOAD)),
            (sample(0, "cargo", &["do_syscall_64"], kernel), None),
        ] {
            assert_eq!(part(&sample, &["nginx"]), expected, "{sample:?}");
        }
        let worker = sample(0, "mc-worker", &["main"], "/usr/bin/memcached");
        assert_eq!((part(&worker, &["memcached", "mc-"]), part(&worker, &["nginx"])), (Some("program"), None));
    }

    #[test]
    fn sums_are_of_the_servers_work() {
        let measured = Measured::read(&serde_json::to_string(&crate::load::Report::default()).unwrap()).unwrap();
        let mut samples = Samples { samples: Vec::new(), duration_s: 1.0, period_ns: 100_000.0 };
        assert!(Profile::new(&samples, &measured, &["nginx"]).is_err(), "no samples");
        samples.samples = vec![
            sample(0, "nginx", &["main"], "/usr/sbin/nginx"),
            sample(0, "nginx", &["veth_poll"], "[veth]"),
            sample(1, "qanat", &["veth_poll"], "[veth]"),
        ];
        let profile = Profile::new(&samples, &Measured { per_s: 10.0, ..measured }, &["nginx"]).unwrap();
        assert_eq!(
            (profile.us("program"), profile.us("receive"), profile.us(OF_THE_LOAD)),
            (Some(10.0), Some(10.0), Some(10.0))
        );
        assert_eq!(profile.sum_us(), 20.0);
        let run = |result| vec![Run { result, placement: None, round_trip_ns: (55.0, 55.0), repeats: 0 }];
        let half = Profile { parts_us: vec![("program", 10.0)], ..profile.clone() };
        let rows = case_rows(&super::super::CASES[0], &[run(profile), run(half)]);
        let column = columns().iter().position(|column| column.name == "ratio").unwrap();
        assert_eq!(columns().len(), rows[0].values.len());
        assert_eq!(rows[1].values[column].map(|value| value.median), Some(2.0));
    }
}
