//! What a stack is started with: addresses, limits, defaults.

use crate::tcp::TcpConfig;
use qanat_nic::QueueShare;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// A stack's configuration. Limits are allocated at start; nothing on the data path allocates after it.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Config {
    /// Own addresses with prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops for everything not on a local prefix (at most one per family).
    pub gateways: Vec<IpAddr>,
    /// The addresses are the kernel's too (it answers ARP, ND and ICMP): use them, learn neighbours from received
    /// packets, answer no ARP.
    pub shared_address: bool,
    /// Neighbours are learnt by what they send to us, and asked for only if unknown, or if [`queue_share`](Config::queue_share)
    /// says whose the answers are: for one of several stacks behind one device, whose answers may come by another's queue. Off by
    /// default: anybody on the link may then say which Ethernet address the gateway has.
    pub neighbours_by_traffic: bool,
    /// The stack is one of several behind one card, and has the flows of one of its queues: connections are made from such ports
    /// only. See [`neighbours_by_traffic`](Config::neighbours_by_traffic), too.
    pub queue_share: Option<QueueShare>,
    /// The 802.1Q VLAN of the interface, 1 to 4094: frames leave with its tag, and only such are taken. `None`: untagged.
    pub vlan: Option<u16>,
    /// Whether IPv6 addresses are put on trial before they are used, and IPv4 addresses while they are (RFC 5227). Off by default: on a point-to-point device of one's own
    /// there is nobody else.
    pub duplicate_address_detection: DuplicateAddressDetection,
    /// Learn IPv6 default routers from their advertisements. Off by default: anybody on the link may send them.
    pub accept_router_advertisements: bool,
    /// Form IPv6 addresses from the prefixes that routers advertise, and learn default routers (RFC 4862, RFC 7217).
    pub autoconfiguration: Option<Autoconfiguration>,
    /// Report the multicast groups of our IPv6 addresses (RFC 3810, RFC 2710), so that switches that snoop such reports
    /// deliver neighbour solicitations. Off by default: on a point-to-point device nothing snoops.
    pub multicast_listener_reports: bool,
    /// Connections, in all states but SYN-RECEIVED and TIME-WAIT.
    pub connections_max: usize,
    /// Half-open connections; beyond it SYNs are dropped (until SYN cookies take over).
    pub half_open_max: usize,
    /// Connections in TIME-WAIT kept; beyond it the newest go without.
    pub time_wait_max: usize,
    /// Local ports of connections that name none: RFC 6056 section 3.2 asks for as many as possible.
    pub ephemeral_ports: RangeInclusive<u16>,
    /// Listeners.
    pub listeners_max: usize,
    /// UDP sockets.
    pub udp_sockets_max: usize,
    /// What ICMP says of datagrams is kept for [`next_udp_error`](crate::Stack::next_udp_error). Off by default.
    pub udp_errors: bool,
    /// Pairs of addresses whose path (next hop, its Ethernet address, the socket) is remembered from packet to packet, 64
    /// bytes each; 0: none, all is decided anew for each packet.
    pub remembered_paths_max: usize,
    /// Frames taken from the device at once, at least 1: enough to amortise its doorbell, few enough to stay in cache.
    pub receive_batch: usize,
    /// Service timers.
    pub timers_max: usize,
    /// Receive frames that unread and out-of-order data of all connections together may hold; 0: three quarters of the
    /// device's, so that the rest keeps it receiving whatever services leave unread.
    pub receive_frames_held_max: u32,
    /// Settings of TCP.
    pub tcp: TcpConfig,
}

impl Config {
    /// Defaults with one address.
    pub fn new(address: IpAddr, prefix_length: u8) -> Config {
        Config {
            addresses: vec![(address, prefix_length)],
            gateways: Vec::new(),
            shared_address: false,
            neighbours_by_traffic: false,
            queue_share: None,
            vlan: None,
            duplicate_address_detection: DuplicateAddressDetection::Off,
            accept_router_advertisements: false,
            autoconfiguration: None,
            multicast_listener_reports: false,
            connections_max: 16_384,
            half_open_max: 1_024,
            time_wait_max: 16_384,
            ephemeral_ports: 10_240..=u16::MAX,
            listeners_max: 64,
            udp_sockets_max: 64,
            udp_errors: false,
            remembered_paths_max: 2_048,
            receive_batch: 256,
            timers_max: 65_536,
            receive_frames_held_max: 0,
            tcp: TcpConfig::default(),
        }
    }

    /// Whether router advertisements count: on an address shared with the kernel they are its affair.
    pub(crate) fn wants_router_advertisements(&self) -> bool {
        (self.accept_router_advertisements || self.autoconfiguration.is_some()) && !self.shared_address
    }
}

/// How own addresses come into use: IPv6 addresses as RFC 4862 section 5.4 says. IPv4 addresses are always used at once; they are
/// probed for, and given up if somebody else turns out to have them (RFC 5227), unless this is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum DuplicateAddressDetection {
    /// At once.
    #[default]
    Off,
    /// After one to two seconds in which nobody else had them.
    On,
    /// At once; given up if somebody else turns out to have them (RFC 4429).
    Optimistic,
}

/// What to form addresses with.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Autoconfiguration {
    /// RFC 7217's secret key: the same at every start of a host, so that its addresses are.
    pub secret: [u8; 16],
}

impl std::fmt::Debug for Autoconfiguration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whoever has the secret can tell a host's addresses in any network.
        f.write_str("Autoconfiguration { .. }")
    }
}

/// TCP Fast Open of a listener (RFC 7413).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FastOpenOptions {
    /// Connections whose handshake is not over, at most (section 5.1), and no more than the stack's connections; those that were
    /// reset count for a minute.
    pub queue_max: usize,
    /// Data is taken without a cookie (section 6.3.4): for networks where nobody forges addresses.
    pub without_cookie: bool,
    /// Keys of its cookies; `None`: the stack's.
    pub keys: Option<crate::tcp::CookieKeys>,
}
