//! Where `qanat run` differs from Linux, and why. Each of these is wrong, or a limit that `docs/posix.md` tells of: a case that
//! passes is to be struck from here.

/// How a known difference shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Each time, by another outcome.
    Differs,
    /// Each time: what it waits for never comes.
    Hangs,
    /// Not each time.
    NowAndThen,
}

/// Cases that differ for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub how: How,
    pub why: &'a str,
    /// Their names, or how those begin.
    pub cases: &'a [&'a str],
}

impl Known<'_> {
    /// Whether it is about the case `name`.
    pub fn has(&self, name: &str) -> bool {
        self.cases.iter().any(|start| name.starts_with(start))
    }
}

pub const KNOWN: &[Known<'_>] = &[
    Known {
        how: How::Differs,
        why: "SA_RESTART is kept only if all handlers say so",
        cases: &[
            "signals/accept_restart/",
            "signals/datagram_restart/",
            "signals/peek_restart/",
            "signals/read_restart/",
            "signals/readv_restart/",
            "signals/recv_restart/",
            "signals/recvfrom_restart/",
            "signals/recvmsg_restart/",
        ],
    },
    Known { how: How::Hangs, why: "a deferred accept is not deferred", cases: &["accept/defer_accept/"] },
    Known {
        how: How::Differs,
        why: "a foreign address of the prefix is taken for one the card is to get",
        cases: &["bind/tcp_foreign_address/", "bind/udp_foreign_address/"],
    },
    Known {
        how: How::Differs,
        why: "a pointer to nowhere ends the program",
        cases: &["receive/nowhere/", "send/from_nowhere/"],
    },
    Known {
        how: How::Differs,
        why: "a port that is taken",
        cases: &[
            "bind/any_v6_takes_v4_too/",
            "bind/listener_again_beside_its_connections/",
            "bind/tcp_any_beside_address/",
            "bind/udp_any_beside_address/",
        ],
    },
    Known {
        how: How::Differs,
        why: "addresses that are refused",
        cases: &[
            "messages/control_unknown/",
            "messages/send_from_an_address/",
            "udp/broadcast_needs_leave/",
            "udp/nowhere_to/",
            "udp/receive_buffer_bounds_the_queue/",
            "udp/tcp_only_calls/",
            "udp/to_a_mapped_address/",
            "udp/v6_address_on_a_v4_socket/",
        ],
    },
    Known {
        how: How::Hangs,
        why: "addresses that are refused",
        cases: &[
            "messages/pktinfo_tells_the_address/",
            "messages/recvmmsg_time_is_looked_at_behind_each/",
            "udp/both_families_on_one_socket/",
            "udp/unspecified_family_is_v4/",
        ],
    },
    Known {
        how: How::Differs,
        why: "details",
        cases: &[
            "accept/listener_shut/",
            "control/status_flags/",
            "descriptors/before_connect/",
            "options/fastopen_on_a_listener/",
            "options/mtu_of_a_connection/",
            "poll/ppoll/",
            "receive/zero_length/",
            "select/wrong_ones/",
            "send/full_then_the_peer_resets/",
            "stdio/peer_gone/",
        ],
    },
    Known { how: How::Hangs, why: "details", cases: &["files/sendfile_as_a_datagram/", "stdio/dprintf/"] },
    Known {
        how: How::Differs,
        why: "epoll: sets of both, and what comes while a thread waits",
        cases: &["epoll/mixed_with_the_kernel's/", "epoll/several_ready/"],
    },
    Known {
        how: How::Hangs,
        why: "epoll: sets of both, and what comes while a thread waits",
        cases: &["epoll/added_ready_while_waited_on/", "epoll/edge_writable_again/", "epoll/reset_unasked/"],
    },
    Known {
        how: How::Hangs,
        why: "no ICMP errors on datagram sockets",
        cases: &[
            "connect/udp_refused/",
            "messages/refused_with_its_queue/",
            "udp/refused_error_reaches_read_and_write/",
        ],
    },
    Known {
        how: How::Hangs,
        why: "no datagrams in fragments",
        cases: &[
            "udp/both_ways_1473/",
            "udp/both_ways_20000/",
            "udp/both_ways_4000/",
            "udp/both_ways_60000/",
            "udp/largest/",
        ],
    },
    Known { how: How::Differs, why: "no low-water mark", cases: &["receive/low_water_mark/"] },
    Known {
        how: How::Hangs,
        why: "no urgent data",
        cases: &[
            "control/at_mark/",
            "epoll/urgent/",
            "poll/urgent/",
            "poll/woken_by_urgent_data/",
            "receive/urgent/",
            "receive/urgent_inline/",
            "select/urgent/",
            "send/urgent/",
        ],
    },
    Known {
        how: How::Differs,
        why: "not carried over exec",
        cases: &[
            "process/a_program_moves_much/",
            "process/fork_and_exec_cat/",
            "process/kept_over_exec/",
            "process/spawn_cat/",
            "process/spawn_echo_with_data_waiting/",
            "process/spawn_with_output_only/",
            "process/vfork_and_exec_cat/",
            "stdio/standard_streams_of_a_program/",
        ],
    },
    Known {
        how: How::Differs,
        why: "not handed on over a Unix socket",
        cases: &[
            "process/connection_over_a_unix_socket/",
            "process/connection_to_a_child/",
            "process/listener_to_a_child/",
        ],
    },
    Known {
        how: How::Hangs,
        why: "not handed on over a Unix socket",
        cases: &["process/several_with_others_between/"],
    },
    Known { how: How::Differs, why: "not told beside the data", cases: &["messages/stream_in_queue/"] },
    Known {
        how: How::Hangs,
        why: "not told beside the data",
        cases: &[
            "messages/asked_hop_limit/",
            "messages/asked_original_destination/",
            "messages/asked_pktinfo/",
            "messages/asked_timestamp/",
            "messages/asked_timestamp_ns/",
            "messages/asked_tos/",
            "messages/asked_traffic_class/",
            "messages/asked_ttl/",
            "messages/stream_timestamps/",
        ],
    },
    Known {
        how: How::Differs,
        why: "splice is refused",
        cases: &["files/splice_into_a_socket/", "files/splice_nonblocking_socket/", "files/splice_wrong_ones/"],
    },
    Known {
        how: How::Hangs,
        why: "splice is refused",
        cases: &["files/splice_from_a_socket/", "files/splice_through_a_pipe/"],
    },
    Known {
        how: How::Differs,
        why: "states of a connection that does not come about",
        cases: &[
            "connect/mapped_address_on_an_only_v6_socket/",
            "connect/refused/",
            "connect/refused_told_by_recv/",
            "connect/refused_told_by_send/",
            "connect/send_timeout_bounds_it/",
            "connect/shutdown_while_under_way/",
            "connect/udp_and_back/",
            "connect/udp_port_kept_when_bound/",
            "connect/v4_address_on_a_v6_socket/",
        ],
    },
    Known {
        how: How::Differs,
        why: "states of a datagram socket that is shut",
        cases: &[
            "shutdown/both_of_a_connected_datagram_socket/",
            "shutdown/read_of_a_connected_datagram_socket/",
            "shutdown/write_of_a_connected_datagram_socket/",
        ],
    },
];
