//! The kernel's settings of TCP, translated: a script that sets them with `sysctl` means the stack that it tests.

use qanat::Config;
use qanat_stack::tcp::{CongestionAlgorithm, CookieKeys, TcpConfig};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::time::Duration;

/// Of the network namespace the program is in.
fn read(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    Some(text.trim().to_owned())
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    // The last of three is the largest.
    read(name)?.split_whitespace().last()?.parse().ok()
}

/// `net.ipv4.tcp_syn_retries`, which the kernel says of a socket that was told nothing.
pub(crate) fn syn_retries() -> Option<u32> {
    static RETRIES: OnceLock<Option<u32>> = OnceLock::new();
    *RETRIES.get_or_init(|| number("tcp_syn_retries"))
}

/// `net.ipv4.tcp_fastopen`.
pub(crate) struct FastOpen {
    /// A program that connects may send data with the SYN.
    pub(crate) client: bool,
    /// Listeners take data on SYNs, if they are told to.
    pub(crate) server: bool,
    /// The client sends data without a cookie.
    pub(crate) client_without_cookie: bool,
    /// Data is taken without one.
    pub(crate) server_without_cookie: bool,
    /// Listeners take it without being told to.
    pub(crate) listens: bool,
    /// `net.ipv4.tcp_fastopen_key`.
    pub(crate) keys: Option<CookieKeys>,
}

/// Keys as the kernel prints them: one or two, each of four numbers.
fn cookie_keys(text: &str) -> Option<CookieKeys> {
    let key = |text: &str| -> Option<[u8; 16]> {
        let words: Option<Vec<u32>> = text.split('-').map(|word| u32::from_str_radix(word, 16).ok()).collect();
        words?.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>().try_into().ok()
    };
    let mut keys = text.split(',').map(key);
    Some(CookieKeys { first: keys.next()??, second: keys.next().flatten() })
}

/// A script's setting; else it is for each socket to say.
pub(crate) fn fast_open() -> FastOpen {
    let bits: u32 = if crate::sys::script_time::is_on() { number("tcp_fastopen").unwrap_or(1) } else { 3 };
    FastOpen {
        client: bits & 1 != 0,
        server: bits & 2 != 0,
        client_without_cookie: bits & 4 != 0,
        server_without_cookie: bits & 0x200 != 0,
        listens: bits & 0x400 != 0,
        keys: if crate::sys::script_time::is_on() {
            read("tcp_fastopen_key").and_then(|text| cookie_keys(&text))
        } else {
            None
        },
    }
}

/// A stack's configuration: the defaults, but what the kernel's settings say.
pub(crate) fn config(addresses: &[(IpAddr, u8)]) -> Config {
    let (first, length) = addresses.first().copied().unwrap_or((Ipv4Addr::LOCALHOST.into(), 0));
    let mut config = Config::new(first, length);
    config.addresses = addresses.to_vec();
    (config.listeners_max, config.udp_sockets_max) = (1_024, 1_024);
    (config.connections_max, config.half_open_max, config.time_wait_max) = (1_024, 1_024, 1_024);
    config.timers_max = 1_024;
    config.udp_errors = true;
    config.tcp = tcp();
    config
}

fn tcp() -> TcpConfig {
    let mut tcp = TcpConfig { no_delay: false, ..TcpConfig::default() };
    let is = |name, default| number::<u32>(name).map_or(default, |value| value != 0);
    let ecn = number::<u32>("tcp_ecn").unwrap_or(0);
    (tcp.ecn, tcp.ecn_requested) = (ecn != 0, ecn == 1);
    tcp.sack = is("tcp_sack", tcp.sack);
    tcp.timestamps = is("tcp_timestamps", tcp.timestamps);
    tcp.window_scaling = is("tcp_window_scaling", tcp.window_scaling);
    tcp.syn_retransmissions_max = number("tcp_syn_retries").unwrap_or(tcp.syn_retransmissions_max);
    tcp.syn_ack_retransmissions_max = number("tcp_synack_retries").unwrap_or(tcp.syn_ack_retransmissions_max);
    tcp.retransmissions_max = number("tcp_retries2").unwrap_or(tcp.retransmissions_max);
    tcp.fin_wait_2 = number("tcp_fin_timeout").map_or(tcp.fin_wait_2, Duration::from_secs);
    tcp.receive_window = number("tcp_rmem").unwrap_or(tcp.receive_window);
    if read("tcp_congestion_control").as_deref() == Some("reno") {
        tcp.congestion = CongestionAlgorithm::NewReno;
    }
    tcp
}
