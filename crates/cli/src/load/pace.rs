//! What `qanat load udp`, `tcp`, `dns`, `redis` and `memcached` have in common: the link, how fast, how long, live figures.

use crate::host::attach::namespace;
use crate::live::{Printer, grouped};
use clap::Args;
use qanat_bench::load::datagrams::link::Link;
use qanat_bench::load::datagrams::pace::Pace;
use qanat_bench::load::datagrams::trips::TripFigures;
use qanat_bench::load::duration;
use qanat_echo::LinkChoice;
use qanat_wire::ethernet::MacAddress;
use std::net::Ipv4Addr;
use std::time::Duration;

/// The options.
#[derive(Args)]
pub struct PaceArguments {
    /// Link: veth, memif:SOCKET (this end listens), memif-slave:SOCKET (it connects), pair (with a server of its own)
    #[arg(long, value_name = "LINK", default_value = "veth")]
    link: LinkChoice,
    /// Open loop: so many per second, due at even intervals
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// How long to measure, for example 10s or 500ms
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    duration: Duration,
    /// How long to load before measuring
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration::parse)]
    warm_up: Duration,
    /// Send from this address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<Ipv4Addr>,
    /// Descriptors of a memif ring, as a power of two (the slave's choice)
    #[arg(long, value_name = "LOG2", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=14))]
    ring: u8,
    /// Network namespace to load from: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Report the CPU time of this process too (the server)
    #[arg(long, value_name = "PID")]
    watch_process: Option<u32>,
    /// The report as JSON
    #[arg(long)]
    pub json: bool,
}

impl PaceArguments {
    /// With `window` on their way at once, each waited for `timeout`.
    pub fn pace(&self, window: usize, timeout: Duration) -> Pace {
        Pace {
            window,
            rate_per_s: self.rate,
            duration: self.duration,
            warm_up: self.warm_up,
            timeout,
            watch_process: self.watch_process,
            sleeps: false,
        }
    }

    /// The link, to a server whose Ethernet address is `peer`, or is asked for.
    pub fn link(&self, peer: Option<MacAddress>) -> Result<Link, String> {
        Ok(Link {
            choice: self.link.clone(),
            source: self.source,
            peer,
            namespace: namespace(self.netns.as_deref())?,
            log2_ring_size: self.ring,
        })
    }
}

/// Shows how many of `what` come back.
pub fn show(printer: &Printer, what: &str, figures: &TripFigures) {
    if !printer.is_json() {
        printer.live(format!(
            "{} {what}/s  p50 {:.1} µs  p99 {:.1} µs  {} lost",
            grouped(figures.per_s as u64),
            figures.p50_us,
            figures.p99_us,
            grouped(figures.lost),
        ));
    }
}
