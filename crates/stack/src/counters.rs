//! Counters: one per cause, so that nothing is lost without a trace. Names follow `nstat` where it has one.

macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs, reason = "most names say it")]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Every counter with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// What happened below TCP since the stack started.
    Counters {
        /// Frames taken from the device.
        receive_frames,
        /// Frames for another Ethernet address.
        ethernet_other_host,
        /// Frames of another VLAN, or untagged where a tag is due.
        ethernet_other_vlan,
        /// Frames too short or of an unknown type.
        ethernet_invalid,
        /// ARP packets that are malformed.
        arp_invalid,
        /// ARP requests answered.
        arp_answered,
        /// ARP and neighbour solicitations sent.
        neighbour_requests,
        /// Neighbours that did not answer.
        neighbour_failed,
        /// Frames lost while waiting for a neighbour.
        neighbour_pending_dropped,
        /// Requests for neighbours not sent because of the rate limit.
        neighbour_rate_limited,
        /// Own addresses asked for, to find out whether somebody else has them.
        address_probes_sent,
        /// Own addresses that nobody else had.
        addresses_verified,
        /// Messages that claim one of our addresses.
        address_conflicts,
        /// Announcements that an IPv4 address that another host claims is ours.
        addresses_defended,
        /// Router advertisements that count.
        router_advertisements,
        /// Router advertisements that do not: not wanted, not from a link-local address, or too many routers.
        router_advertisements_ignored,
        /// Prefixes in them that no address is formed from: not for that, not of 64 bits, or too many.
        router_prefixes_ignored,
        /// Own IPv6 addresses formed from prefixes, the link-local one included.
        addresses_formed,
        /// Multicast listener reports sent.
        multicast_reports,
        /// Queries for multicast listeners answered.
        multicast_queries,
        /// Queries for multicast listeners that were not: not from a router on the link, or not wanted.
        multicast_queries_ignored,
        /// IP packets with a malformed header.
        ip_invalid,
        /// IPv4 headers with a wrong checksum.
        ip_checksum,
        /// IP packets for an address that is not ours.
        ip_not_ours,
        /// IP packets from an impossible source.
        ip_martian,
        /// Packets in several frames dropped: no room to put them together.
        ip_gather_failed,
        /// Fragments received.
        ip_fragments,
        /// Datagrams put together from fragments.
        ip_reassembled,
        /// Fragments dropped: malformed, overlapping, too many or too late.
        ip_reassembly_dropped,
        /// Fragments sent.
        ip_fragments_sent,
        /// Datagrams not sent: no room for all of their fragments.
        ip_fragmentation_failed,
        /// Packets of a protocol nobody listens to.
        ip_unknown_protocol,
        /// Packets that could not be sent: no route.
        ip_no_route,
        /// Malformed ICMP messages, or wrong checksums.
        icmp_invalid,
        /// Echo requests answered.
        icmp_echo_answered,
        /// ICMP errors received.
        icmp_errors_received,
        /// ICMP errors ignored: they quote nothing we sent.
        icmp_errors_ignored,
        /// ICMP messages sent.
        icmp_sent,
        /// ICMP messages not sent because of the rate limit.
        icmp_rate_limited,
        /// UDP datagrams delivered.
        udp_received,
        /// UDP datagrams sent.
        udp_sent,
        /// Malformed UDP datagrams.
        udp_invalid,
        /// UDP datagrams with a wrong checksum.
        udp_checksum,
        /// UDP datagrams for a port nobody has.
        udp_no_port,
        /// Malformed TCP segments.
        tcp_invalid,
        /// TCP segments with a wrong checksum.
        tcp_checksum,
        /// TCP segments for no connection and no listener.
        tcp_no_connection,
        /// Resets sent.
        tcp_resets_sent,
        /// Resets and challenge ACKs not sent because of the rate limit.
        tcp_resets_rate_limited,
        /// SYNs received by listeners.
        tcp_syns_received,
        /// SYNs dropped: no room for half-open connections.
        tcp_syns_dropped,
        /// SYN cookies sent.
        tcp_cookies_sent,
        /// Connections made from a valid cookie.
        tcp_cookies_accepted,
        /// ACKs to a listener without a valid cookie.
        tcp_cookies_invalid,
        /// Connections accepted.
        tcp_accepted,
        /// Handshakes, complete or just begun, dropped: no room for connections.
        tcp_accept_overflow,
        /// Connections opened by this side.
        tcp_connected,
        /// Connections ended.
        tcp_closed,
        /// TIME-WAIT states forgotten early: too many.
        tcp_time_wait_overflow,
        /// TIME-WAIT states reused for a new connection.
        tcp_time_wait_reused,
        /// Frames sent to the device.
        transmit_frames,
        /// Frames not sent: the device's ring was full.
        transmit_ring_full,
        /// Frames not sent: no free buffer.
        transmit_no_buffer,
    }
}
