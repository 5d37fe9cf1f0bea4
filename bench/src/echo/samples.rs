//! What the kernel does for a packet, by sampling: `perf record` while the echo is loaded, each sample sorted by its stack.

use crate::harness::HarnessError;
use crate::harness::process::{Spec, start};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const PERF: &str = "/usr/bin/perf";
/// Samples a second on each processor.
const FREQUENCY: u32 = 10_000;
/// From the start of echo and load until both run evenly.
const SETTLING: Duration = Duration::from_millis(900);
/// The load's window is this much longer than the sampled time, at least.
const MARGIN: Duration = Duration::from_millis(600);

/// Whether `perf` is there.
pub(super) fn has_perf() -> bool {
    Path::new(PERF).exists()
}

/// A sample: where, and the functions from the innermost out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    cpu: usize,
    program: String,
    functions: Vec<String>,
}

/// Samples of some time.
pub(super) struct Shares {
    samples: Vec<Sample>,
    /// The time sampled.
    pub(super) duration_s: f64,
    /// The time a sample stands for.
    pub(super) period_ns: f64,
}

/// Samples the machine while `work` loads an echo for `window`.
pub(super) fn during<T>(window: Duration, work: impl FnOnce() -> T) -> (T, Result<Shares, HarnessError>) {
    let length = window.saturating_sub(MARGIN).max(Duration::from_millis(100));
    let file = std::env::temp_dir().join(format!("qanat-bench-perf-{}", std::process::id()));
    let path = file.display().to_string();
    let (delay, frequency) = (SETTLING.as_millis().to_string(), FREQUENCY.to_string());
    let sleep = format!("{:.3}", (SETTLING + length).as_secs_f64());
    let arguments = [
        "record",
        "--all-cpus",
        "--event",
        "cpu-clock",
        "--freq",
        &frequency,
        "--call-graph",
        "fp",
        "--delay",
        &delay,
        "--output",
        &path,
        "--quiet",
        "--",
        "sleep",
        &sleep,
    ];
    let perf = start(&Spec::new("perf", PERF, &arguments));
    let result = work();
    let shares = perf.and_then(|perf| perf.output(window + Duration::from_secs(20))).and_then(|_| {
        let fields = ["script", "--input", &path, "--fields", "comm,cpu,ip,sym", "--force"];
        let text = start(&Spec::new("perf script", PERF, &fields))?.output(Duration::from_secs(60))?;
        let period_ns = 1e9 / f64::from(FREQUENCY);
        Ok(Shares { samples: parse(&text), duration_s: length.as_secs_f64(), period_ns })
    });
    let _ = std::fs::remove_file(&file);
    (result, shares)
}

/// Reads what `perf script` prints: a line with program and processor, a line for each function, an empty line.
fn parse(text: &str) -> Vec<Sample> {
    let mut samples = Vec::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.trim().is_empty());
        let Some((program, rest)) = lines.next().and_then(|line| line.rsplit_once('[')) else { continue };
        let Some(cpu) = rest.split(']').next().and_then(|cpu| cpu.trim().parse().ok()) else { continue };
        let functions = lines.filter_map(|line| Some(line.split_whitespace().nth(1)?.to_owned())).collect();
        samples.push(Sample { cpu, program: program.trim().to_owned(), functions });
    }
    samples
}

/// Functions that tell what is done, the first that matches a stack from the inside out; names by their beginnings.
const TELLING: [(&str, &[&str]); 7] = [
    (
        "copy",
        &[
            "_copy_to_iter",
            "_copy_from_iter",
            "rep_movs",
            "copy_user",
            "__skb_datagram_iter",
            "skb_copy_datagram",
            "simple_copy_to_iter",
            "csum_partial_copy",
            "skb_copy_and_csum",
            "ip_generic_getfrag",
            "csum_and_copy",
        ],
    ),
    (
        "scheduling",
        &[
            "__schedule",
            "schedule",
            "try_to_wake_up",
            "sock_def_readable",
            "ep_poll_callback",
            "do_epoll_wait",
            "ep_poll",
            "__wake_up",
            "finish_task_switch",
            "do_idle",
            "sched_ttwu_pending",
            "ttwu_",
            "flush_smp_call_function",
        ],
    ),
    ("driver_out", &["veth_xmit", "dev_hard_start_xmit", "__dev_queue_xmit", "__dev_forward_skb", "validate_xmit"]),
    (
        "stack_out",
        &[
            "udp_sendmsg",
            "udp_send_skb",
            "ip_send_skb",
            "ip_make_skb",
            "ip_output",
            "ip_finish_output",
            "__ip_append_data",
            "ip_route_output",
            "inet_sendmsg",
            "sock_sendmsg",
            "__sock_sendmsg",
        ],
    ),
    (
        "stack_in",
        &[
            "ip_rcv",
            "ip_local_deliver",
            "ip_sublist_rcv",
            "__netif_receive_skb",
            "netif_receive_skb",
            "udp_rcv",
            "udp_queue_rcv",
            "__udp4_lib_rcv",
            "udp_unicast_rcv",
            "udp_recvmsg",
            "inet_recvmsg",
            "sock_recvmsg",
            "skb_recv_udp",
            "__skb_recv_udp",
            "skb_consume_udp",
            "skb_free_datagram",
        ],
    ),
    (
        "driver_in",
        &["process_backlog", "__napi_poll", "net_rx_action", "handle_softirqs", "__do_softirq", "do_softirq"],
    ),
    (
        "crossing",
        &[
            "entry_SYSCALL",
            "do_syscall",
            "syscall_",
            "__x64_sys",
            "__sys_",
            "x64_sys_call",
            "srso_",
            "sockfd_lookup",
            "__fdget",
        ],
    ),
];
/// The other end's own receive work, done in the interrupts of whoever sent to it.
const OF_THE_LOAD: [&str; 6] = ["xsk_", "__xsk_", "veth_poll", "veth_xdp", "bpf_prog", "xdp_"];
/// The processor waits.
const IDLE: [&str; 6] =
    ["default_idle", "pv_native_safe_halt", "acpi_safe_halt", "native_safe_halt", "cpuidle", "mwait"];

fn begins(function: &str, names: &[&str]) -> bool {
    names.iter().any(|name| function.starts_with(name))
}

impl Sample {
    fn has(&self, names: &[&str]) -> bool {
        self.functions.iter().any(|function| begins(function, names))
    }

    /// The phase it belongs to, if it is the echo's.
    fn phase(&self, server_cpu: usize, client_cpu: usize) -> Option<&'static str> {
        let innermost = self.functions.first()?;
        if begins(innermost, &IDLE) {
            return None;
        }
        let kernel = ["swapper", "ksoftirqd"].iter().any(|name| self.program.starts_with(name));
        if !kernel && !self.program.starts_with("qanat") {
            return None;
        }
        if self.cpu == client_cpu {
            // Only what the load's processor does in interrupts for the kernel of the echo.
            let receives = ["ip_rcv", "ip_local_deliver", "ip_sublist_rcv", "__netif_receive_skb", "process_backlog"];
            if !self.has(&receives) {
                return None;
            }
        } else if self.cpu != server_cpu || self.has(&OF_THE_LOAD) {
            return None;
        }
        let told = self
            .functions
            .iter()
            .find_map(|function| TELLING.iter().find(|(_, names)| begins(function, names)).map(|(phase, _)| *phase));
        Some(match told {
            Some("copy") if self.has(&["udp_sendmsg", "ip_make_skb", "__ip_append_data"]) => "copy_in",
            Some("copy") => "copy_out",
            Some(phase) => phase,
            None if kernel => "scheduling",
            None => "service",
        })
    }
}

impl Shares {
    /// Samples of each phase.
    pub(super) fn by_phase(&self, server_cpu: usize, client_cpu: usize) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for phase in self.samples.iter().filter_map(|sample| sample.phase(server_cpu, client_cpu)) {
            *counts.entry(phase).or_default() += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "qanat [000] \n\tffffffff81 rep_movs_alternative\n\tffffffff82 _copy_to_iter\n\tffffffff83 udp_recvmsg\n\
        \t 55 recvfrom\n\nswapper [001] \n\tffffffff81 pv_native_safe_halt\n\tffffffff82 do_idle\n\n\
        qanat [001] \n\tff81 __udp4_lib_rcv\n\tff82 process_backlog\n\tff83 xsk_sendmsg\n\n\
        qanat [001] \n\tff81 qanat_bench::load\n\nqanat [000] \n\tff81 memcpy\n\tff82 xsk_rcv\n\tff83 veth_poll\n\n\
        qanat [000] \n\tff81 qanat_echo::kernel::single\n\ncargo [000] \n\tff81 do_syscall_64\n\n\
        qanat [000] \n\tff81 rep_movs_alternative\n\tff82 ip_generic_getfrag\n\tff83 udp_sendmsg\n\n\
        swapper [000] \n\tff81 menu_select\n";

    #[test]
    fn samples_are_read_and_sorted() {
        let samples = parse(TEXT);
        assert_eq!(samples.len(), 9);
        assert_eq!(samples[0].functions, ["rep_movs_alternative", "_copy_to_iter", "udp_recvmsg", "recvfrom"]);
        let phases: Vec<_> = samples.iter().map(|sample| sample.phase(0, 1)).collect();
        let none = None;
        assert_eq!(
            phases,
            [
                Some("copy_out"),
                none,
                Some("stack_in"),
                none,
                none,
                Some("service"),
                none,
                Some("copy_in"),
                Some("scheduling")
            ]
        );
        assert!(parse("").is_empty() && parse("garbage\n\n[x]\n").is_empty());
    }
}
