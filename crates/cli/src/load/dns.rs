//! `qanat load dns`: questions to a DNS server.

use crate::live::Printer;
use crate::load::pace::{PaceArguments, show};
use crate::load::stop::stop_handle;
use clap::Args;
use qanat_bench::load::dns::options::DnsLoadOptions;
use qanat_bench::load::dns::queries::{Queries, QueryOptions, parse_type};
use qanat_bench::load::dns::{PORT, over_kernel, over_link};
use qanat_bench::load::duration;
use qanat_bench::load::echo::link::PairEcho;
use qanat_echo::LinkChoice;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Ask a DNS server, over UDP
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat load dns --queries names.txt --target 10.77.0.3                 one question at a time: latency
  sudo qanat load dns --queries names.txt --target 10.77.0.3 --window 256    as fast as it goes
  sudo qanat load dns --queries names.txt --target 10.77.0.3 --window 4096 --rate 200000
  sudo qanat load dns --queries names.txt --target 10.77.0.3 --dnssec        with signatures
  qanat load dns --queries names.txt --target 127.0.0.1:5353 --kernel        over a kernel socket: any server, no root
  qanat load dns --queries names.txt --target 10.77.0.2 --link pair --window 64   to an echo in this process: the floor
names.txt has a question a line, NAME [TYPE]; they are asked in random order. An answer counts if its identifier and
question are those of a question on its way; the report has answers by response code, and what was lost or wrong.")]
pub struct Arguments {
    /// Questions: a file of lines NAME `[TYPE]`
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// The server: ADDRESS or ADDRESS:PORT
    #[arg(long, value_name = "ADDRESS", value_parser = parse_target)]
    target: SocketAddr,
    /// Questions on their way at once
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    window: usize,
    /// What isn't answered by then is lost
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    timeout: Duration,
    /// Type of questions whose line has none
    #[arg(long, value_name = "TYPE", default_value = "A")]
    r#type: String,
    /// Accept answers of this size, by EDNS
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(512..))]
    edns: Option<u16>,
    /// Ask for signatures (the DO bit; EDNS with 1,232 bytes unless --edns says otherwise)
    #[arg(long)]
    dnssec: bool,
    /// Decides the order of questions
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// The target is an echo: its questions sent back count as answers (what no server can be faster than)
    #[arg(long)]
    echoed: bool,
    /// Use a kernel socket: works for any server, and saturates sooner
    #[arg(long)]
    kernel: bool,
    #[command(flatten)]
    pace: PaceArguments,
}

fn parse_target(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    address.or_else(|_| text.parse()).map_err(|_| "an address, and a port if it isn't 53: 10.77.0.3:5353".to_owned())
}

/// Loads a DNS server.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let stop = stop_handle()?;
    let printer = Printer::new(arguments.pace.json);
    let questions = QueryOptions {
        default_type: parse_type(&arguments.r#type).map_err(|error| format!("--type: {error}"))?,
        edns_size: arguments.edns,
        dnssec: arguments.dnssec,
    };
    let queries = Queries::read(&arguments.queries, &questions)
        .map_err(|error| format!("--queries {}: {error}", arguments.queries.display()))?
        .shuffled(arguments.seed);
    let mut options = DnsLoadOptions::new(arguments.target);
    options.pace = arguments.pace.pace(arguments.window, arguments.timeout);
    options.echoed = arguments.echoed;
    let mut observe = |figures: &_| show(&printer, "answers", figures);
    let report = if arguments.kernel {
        over_kernel(&options, &queries, &stop, &mut observe)
    } else {
        let link = arguments.pace.link(None)?;
        // A pair has an echo in the driver at its other end: the floor.
        options.echoed |= link.choice == LinkChoice::Pair;
        let far = PairEcho::Raw.far_end(options.target, None);
        over_link(&options, &queries, (&link, far), &stop, &mut observe)
    };
    let report = report.map_err(|error| error.to_string())?;
    printer.report(&report)?;
    match report.trips.received {
        0 => Err(format!("no question was answered by {}; is it serving?", report.target)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        assert_eq!(parse_target("10.77.0.3").map(|target| target.port()), Ok(53));
        assert_eq!(parse_target("10.77.0.3:5353").map(|target| target.port()), Ok(5_353));
        assert_eq!(parse_target("fd00::1").map(|target| target.to_string()), Ok("[fd00::1]:53".to_owned()));
        assert!(parse_target("here").is_err());
    }
}
