//! `qanat load redis` and `qanat load memcached`: keys written and read.

use crate::live::Printer;
use crate::load::pace::{PaceArguments, show};
use crate::load::stop::stop_handle;
use clap::Args;
use qanat_bench::load::duration;
use qanat_bench::load::values::options::ValueLoadOptions;
use qanat_bench::load::values::over_link;
use qanat_bench::load::values::workload::{Protocol, WorkloadOptions};
use std::net::SocketAddr;
use std::time::Duration;

/// What both have.
#[derive(Args)]
struct Common {
    /// The server's address and port
    target: SocketAddr,
    /// Share of requests that read, the others write, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 90.0)]
    get: f64,
    /// Different keys, all written before the warm-up ends
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    keys: usize,
    /// Bytes of a key
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    key_size: usize,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", default_value_t = 1_024)]
    value_size: usize,
    /// Connections
    #[arg(short, long, value_name = "COUNT", default_value_t = 1)]
    connections: usize,
    /// Requests on their way at once on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pipeline: usize,
    /// Decides the order of keys
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// What isn't back by then is lost (datagrams only)
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    pace: PaceArguments,
}

/// Write and read keys of redis (or valkey), over our TCP
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat load redis 10.77.0.2:6379                                   one request at a time
  sudo qanat load redis 10.77.0.2:6379 -c 64 --get 100                   64 connections, reading only
  sudo qanat load redis 10.77.0.2:6379 -c 64 --pipeline 4 --value-size 64
Every byte of every answer is compared. Redis must not ask for a password.")]
pub struct RedisArguments {
    #[command(flatten)]
    common: Common,
}

/// Write and read keys of memcached, over our TCP or UDP
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat load memcached 10.77.0.5:11211 -c 64                        64 connections
  sudo qanat load memcached 10.77.0.5:11211 -c 16 --pipeline 4 --get 99.8 --key-size 20 --value-size 2
  sudo qanat load memcached 10.77.0.5:11211 --udp --window 64            datagrams (memcached -U 11211)
Every byte of every answer is compared.")]
pub struct MemcachedArguments {
    #[command(flatten)]
    common: Common,
    /// Datagrams instead of connections
    #[arg(long, conflicts_with_all = ["connections", "pipeline"])]
    udp: bool,
    /// Datagrams on their way at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, requires = "udp")]
    window: usize,
}

/// Loads redis.
pub fn run_redis(arguments: &RedisArguments) -> Result<(), String> {
    run(&arguments.common, Protocol::Redis, None)
}

/// Loads memcached.
pub fn run_memcached(arguments: &MemcachedArguments) -> Result<(), String> {
    run(&arguments.common, Protocol::Memcached, arguments.udp.then_some(arguments.window))
}

fn run(arguments: &Common, protocol: Protocol, datagrams: Option<usize>) -> Result<(), String> {
    let stop = stop_handle()?;
    let printer = Printer::new(arguments.pace.json);
    let window = datagrams.unwrap_or_else(|| arguments.connections.saturating_mul(arguments.pipeline));
    let options = ValueLoadOptions {
        target: arguments.target,
        workload: WorkloadOptions {
            protocol,
            keys: arguments.keys,
            key_length: arguments.key_size,
            value_length: arguments.value_size,
            get_share: arguments.get / 100.0,
            seed: arguments.seed,
        },
        udp: datagrams.is_some(),
        connections: arguments.connections,
        pace: arguments.pace.pace(window, arguments.timeout),
    };
    let link = arguments.pace.link(None)?;
    let report = over_link(&options, &link, &stop, &mut |figures| show(&printer, "answers", figures));
    let report = report.map_err(|error| error.to_string())?;
    printer.report(&report)?;
    match (report.wrong, report.trips.received) {
        (0, 0) => Err(format!("nothing came back from {}; is it serving?", report.target)),
        (0, _) => Ok(()),
        (wrong, _) => Err(format!("{wrong} answers of {} were wrong", report.target)),
    }
}
