//! `qanat load udp` and `qanat load tcp`: round trips to an echo.

use crate::attach::namespace;
use crate::live::{Printer, grouped};
use crate::load::stop_on_signals;
use clap::{Args, ValueEnum};
use qanat::StopHandle;
use qanat::wire::ethernet::MacAddress;
use qanat_bench::load::duration;
use qanat_bench::load::echo::link::{EchoLink, PairEcho};
use qanat_bench::load::echo::{EchoFigures, EchoLoadOptions, EchoReport, kernel};
use qanat_echo::LinkChoice;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What both have.
#[derive(Args)]
struct Common {
    /// The echo's address and port
    target: SocketAddr,
    /// Link: veth, memif:SOCKET (this end listens), memif-slave:SOCKET (it connects), pair (with an echo of its own)
    #[arg(long, value_name = "LINK", default_value = "veth")]
    link: LinkChoice,
    /// Open loop: packets (or messages) per second, due at even intervals
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How long to measure, for example 10s or 500ms
    #[arg(short, long, value_name = "TIME", default_value = "3s", value_parser = duration::parse)]
    duration: Duration,
    /// How long to load before measuring
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = duration::parse)]
    warm_up: Duration,
    /// What isn't back by then is lost
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration::parse)]
    timeout: Duration,
    /// Send from this address
    #[arg(long, value_name = "ADDRESS")]
    source: Option<Ipv4Addr>,
    /// The pair's echo: raw, native, copies
    #[arg(long, value_enum, default_value_t)]
    echo: Echo,
    /// Descriptors of a memif ring, as a power of two (the slave's choice)
    #[arg(long, value_name = "LOG2", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=14))]
    ring: u8,
    /// Network namespace to load from: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Report the CPU time of this process too (the echo)
    #[arg(long, value_name = "PID")]
    watch_process: Option<u32>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

/// What echoes at the other end of a pair.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Echo {
    /// In the driver
    Raw,
    /// Through the stack
    #[default]
    Native,
    /// Through the stack, payload copied out and in
    Copies,
}

/// Time datagrams to an echo and back
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat load udp 10.77.0.2:7                                      one at a time: latency
  sudo qanat load udp 10.77.0.2:7 --window 256 --size 1024             as fast as it goes
  sudo qanat load udp 10.77.0.2:7 --window 4096 --rate 200000          open loop
  qanat load udp 10.77.0.2:7 --link memif-slave:/tmp/echo.sock --window 64
  qanat load udp 10.77.0.2:7 --link pair --window 64                   both ends in one process
  qanat load udp 127.0.0.1:7007 --kernel                               over a kernel socket")]
pub struct UdpArguments {
    #[command(flatten)]
    common: Common,
    /// Bytes of a frame, Ethernet header included
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// Packets on their way at once
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    window: usize,
    /// The echo's Ethernet address, instead of asking by ARP
    #[arg(long, value_name = "MAC", value_parser = parse_mac)]
    peer_mac: Option<MacAddress>,
    /// Use a kernel socket: works for any echo, and saturates sooner
    #[arg(long)]
    kernel: bool,
    /// Sleep while waiting for an echo, instead of polling
    #[arg(long, conflicts_with = "rate")]
    sleep: bool,
}

/// Time messages to an echo and back, over our TCP
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat load tcp 10.77.0.2:7                                      one message at a time
  sudo qanat load tcp 10.77.0.2:7 -c 64 --size 1024                    on 64 connections
  qanat load tcp 10.77.0.2:7 --link memif-slave:/tmp/echo.sock -c 16")]
pub struct TcpArguments {
    #[command(flatten)]
    common: Common,
    /// Bytes of a message
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    size: usize,
    /// Connections, a message on its way on each
    #[arg(short, long, value_name = "COUNT", default_value_t = 1)]
    connections: usize,
}

fn parse_mac(text: &str) -> Result<MacAddress, String> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let bytes: Option<[u8; 6]> = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(MacAddress).ok_or_else(|| "write it as 02:00:00:00:00:01".to_owned())
}

impl Common {
    fn options(&self, length: usize, window: usize) -> EchoLoadOptions {
        EchoLoadOptions {
            target: self.target,
            length,
            window,
            rate_per_s: self.rate,
            duration: self.duration,
            warm_up: self.warm_up,
            timeout: self.timeout,
            watch_process: self.watch_process,
            sleeps: false,
        }
    }

    fn link(&self, peer: Option<MacAddress>, tcp: bool) -> Result<EchoLink, String> {
        Ok(EchoLink {
            choice: self.link.clone(),
            source: self.source,
            peer,
            namespace: namespace(self.netns.as_deref())?,
            log2_ring_size: self.ring,
            tcp,
            pair: match self.echo {
                Echo::Raw => PairEcho::Raw,
                Echo::Native => PairEcho::Native,
                Echo::Copies => PairEcho::Copies,
            },
            pair_cpu: None,
        })
    }
}

fn show(printer: &Printer, figures: &EchoFigures) {
    if !printer.is_json() {
        printer.live(format!(
            "{} packets/s  p50 {:.1} µs  p99 {:.1} µs  {} lost",
            grouped(figures.packets_per_s as u64),
            figures.p50_us,
            figures.p99_us,
            grouped(figures.lost),
        ));
    }
}

fn finish(printer: &Printer, report: &EchoReport) -> Result<(), String> {
    if printer.is_json() {
        printer.lasting(serde_json::to_string(report).map_err(|error| error.to_string())?);
    } else {
        printer.lasting(report.to_string());
    }
    if report.received == 0 {
        return Err(format!("nothing came back from {}; is the echo running?", report.target));
    }
    Ok(())
}

fn begin() -> Result<StopHandle, String> {
    let stop = StopHandle::new().map_err(|error| format!("doorbell: {error}"))?;
    stop_on_signals(stop.clone())?;
    Ok(stop)
}

/// Loads by datagrams.
pub fn run_udp(arguments: &UdpArguments) -> Result<(), String> {
    let stop = begin()?;
    let printer = Printer::new(arguments.common.json);
    let mut options = arguments.common.options(arguments.size, arguments.window);
    options.sleeps = arguments.sleep;
    let mut observe = |figures: &EchoFigures| show(&printer, figures);
    let report = if arguments.kernel {
        kernel::run(&options, &stop, &mut observe)
    } else {
        arguments.common.link(arguments.peer_mac, false)?.run(&options, &stop, &mut observe)
    };
    finish(&printer, &report.map_err(|error| error.to_string())?)
}

/// Loads by messages over TCP.
pub fn run_tcp(arguments: &TcpArguments) -> Result<(), String> {
    let stop = begin()?;
    let printer = Printer::new(arguments.common.json);
    let options = arguments.common.options(arguments.size, arguments.connections);
    let link = arguments.common.link(None, true)?;
    let report = link.run(&options, &stop, &mut |figures| show(&printer, figures));
    finish(&printer, &report.map_err(|error| error.to_string())?)
}
