//! What the kernel does for a packet: samples of an echo that is loaded, sorted by their stacks.

use crate::harness::sampling::{Sample, begins};
use std::collections::BTreeMap;

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
/// The phase it belongs to, if it is the echo's.
fn phase(sample: &Sample, server_cpu: usize, client_cpu: usize) -> Option<&'static str> {
    if sample.is_idle() {
        return None;
    }
    let kernel = sample.is_of_kernel();
    if !kernel && !sample.program.starts_with("qanat") {
        return None;
    }
    if sample.cpu == client_cpu {
        // Only what the load's processor does in interrupts for the kernel of the echo.
        let receives = ["ip_rcv", "ip_local_deliver", "ip_sublist_rcv", "__netif_receive_skb", "process_backlog"];
        if !sample.has(&receives) {
            return None;
        }
    } else if sample.cpu != server_cpu || sample.has(&OF_THE_LOAD) {
        return None;
    }
    let told = sample
        .functions
        .iter()
        .find_map(|function| TELLING.iter().find(|(_, names)| begins(function, names)).map(|(phase, _)| *phase));
    Some(match told {
        Some("copy") if sample.has(&["udp_sendmsg", "ip_make_skb", "__ip_append_data"]) => "copy_in",
        Some("copy") => "copy_out",
        Some(phase) => phase,
        None if kernel => "scheduling",
        None => "service",
    })
}

/// Samples of each phase.
pub(super) fn by_phase(samples: &[Sample], server_cpu: usize, client_cpu: usize) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for phase in samples.iter().filter_map(|sample| phase(sample, server_cpu, client_cpu)) {
        *counts.entry(phase).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu: usize, program: &str, functions: &[&str]) -> Sample {
        let functions = functions.iter().map(|function| (*function).to_owned()).collect();
        Sample {
            at_s: 0.0,
            cpu,
            process: u32::from(!program.starts_with("swapper")),
            program: program.to_owned(),
            functions,
            object: String::new(),
        }
    }

    #[test]
    fn samples_are_sorted() {
        for (sample, expected) in [
            (
                sample(0, "qanat", &["rep_movs_alternative", "_copy_to_iter", "udp_recvmsg", "recvfrom"]),
                Some("copy_out"),
            ),
            (sample(1, "swapper", &["pv_native_safe_halt", "do_idle"]), None),
            (sample(1, "qanat", &["__udp4_lib_rcv", "process_backlog", "xsk_sendmsg"]), Some("stack_in")),
            (sample(1, "qanat", &["qanat_bench::load"]), None),
            (sample(0, "qanat", &["memcpy", "xsk_rcv", "veth_poll"]), None),
            (sample(0, "qanat", &["qanat_echo::kernel::single"]), Some("service")),
            (sample(0, "cargo", &["do_syscall_64"]), None),
            (sample(0, "qanat", &["rep_movs_alternative", "ip_generic_getfrag", "udp_sendmsg"]), Some("copy_in")),
            (sample(0, "swapper", &["menu_select"]), Some("scheduling")),
        ] {
            assert_eq!(phase(&sample, 0, 1), expected, "{sample:?}");
        }
    }
}
