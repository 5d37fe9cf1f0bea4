//! `qanat load udp` and `qanat load tcp`: round trips to an echo.

use crate::live::Printer;
use crate::load::pace::{PaceArguments, show};
use crate::load::stop::stop_handle;
use clap::{Args, ValueEnum};
use qanat_bench::load::duration;
use qanat_bench::load::echo::link::{EchoLink, PairEcho};
use qanat_bench::load::echo::{EchoLoadOptions, EchoReport, over_kernel};
use qanat_wire::ethernet::MacAddress;
use std::net::SocketAddr;
use std::time::Duration;

/// What both have.
#[derive(Args)]
struct Common {
    /// The echo's address and port
    target: SocketAddr,
    /// What isn't back by then is lost
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration::parse)]
    timeout: Duration,
    /// The pair's echo: raw, native, copies
    #[arg(long, value_enum, default_value_t)]
    echo: Echo,
    #[command(flatten)]
    pace: PaceArguments,
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
        EchoLoadOptions { target: self.target, length, pace: self.pace.pace(window, self.timeout) }
    }

    fn link(&self, peer: Option<MacAddress>, tcp: bool) -> Result<EchoLink, String> {
        let pair = match self.echo {
            Echo::Raw => PairEcho::Raw,
            Echo::Native => PairEcho::Native,
            Echo::Copies => PairEcho::Copies,
        };
        Ok(EchoLink { link: self.pace.link(peer)?, tcp, pair, pair_cpu: None })
    }
}

fn finish(printer: &Printer, report: &EchoReport) -> Result<(), String> {
    printer.report(report)?;
    match report.trips.received {
        0 => Err(format!("nothing came back from {}; is the echo running?", report.target)),
        _ => Ok(()),
    }
}

/// Loads by datagrams.
pub fn run_udp(arguments: &UdpArguments) -> Result<(), String> {
    let stop = stop_handle()?;
    let printer = Printer::new(arguments.common.pace.json);
    let mut options = arguments.common.options(arguments.size, arguments.window);
    options.pace.sleeps = arguments.sleep;
    let mut observe = |figures: &_| show(&printer, "packets", figures);
    let report = if arguments.kernel {
        over_kernel(&options, &stop, &mut observe)
    } else {
        arguments.common.link(arguments.peer_mac, false)?.run(&options, &stop, &mut observe)
    };
    finish(&printer, &report.map_err(|error| error.to_string())?)
}

/// Loads by messages over TCP.
pub fn run_tcp(arguments: &TcpArguments) -> Result<(), String> {
    let stop = stop_handle()?;
    let printer = Printer::new(arguments.common.pace.json);
    let options = arguments.common.options(arguments.size, arguments.connections);
    let link = arguments.common.link(None, true)?;
    let report = link.run(&options, &stop, &mut |figures| show(&printer, "packets", figures));
    finish(&printer, &report.map_err(|error| error.to_string())?)
}
