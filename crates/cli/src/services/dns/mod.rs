//! `qanat dns`: zones, answered from ready-made packets.

mod ask;
mod check;
mod control;
mod export;
mod options;
mod reading;
mod server;
mod zones;

use crate::host;
use ask::{RefreshArguments, ReloadArguments, StatusArguments};
use check::CheckArguments;
use clap::{Args, Subcommand};
use options::ServeArguments;
use server::Server;

/// Answer for zones: an authoritative name server
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  sudo qanat dns --zone example.com=./example.com.zone          at 10.77.0.2:53, UDP and TCP, on an interface of its own
  sudo qanat dns --zone example.com=a.zone --zone example.net=b.zone --interface eth1 --address 192.0.2.7/24
  sudo qanat dns --config dns.toml --metrics 127.0.0.1:9153     zones, limits and log from a file, figures for Prometheus
  sudo qanat dns --zone example.com=a.zone --queues 2           two threads, a queue of the card each
  sudo qanat dns --config dns.toml --user dns                   as that user (default: who called sudo, or nobody), without
                                                                root's rights: it must be able to read zones and keys
  sudo qanat dns --zone example.com=a.zone --placement split    its stack in another process, which it cannot harm
  qanat dns --zone example.com=a.zone --placement kernel --port 5353    over the kernel's TCP/IP: without root, without a card
  sudo qanat dns --zone example.com=a.zone --export             zones and figures as files in /run/qanat/export/dns
  qanat dns check ./example.com.zone                            what is wrong with a zone, and what to do about it
  qanat dns status; qanat dns reload; qanat dns refresh example.net          what a running server does, and what it should
A file, all of it optional (names of files start at its directory):
  identity = \"ns1\"                                            NSID and id.server; version = … for version.bind
  udp_payload_max = 1232
  metrics = \"127.0.0.1:9153\"
  control = \"/run/dns.sock\"                                   for status, reload and refresh
  include = [\"zones.d\", \"more.toml\"]                          keys, templates and zones; of a directory each *.toml
  zone = [{ name = \"example.com\", file = \"example.com.zone\" }]
  [tcp]         connections_max = 4096 (of each queue), connections_per_peer = a quarter of them, idle_timeout_s = 10,
                send_rate_min = 1000 (bytes a second that a client must take of its answers)
  [rate_limit]  answers_per_s = 0 (off; of each queue), slip = 2, ipv4_prefix = 24, ipv6_prefix = 56, exempt = [\"192.0.2.1\"]
  [cookies]     secret = \"32 hexadecimal digits\", former = [], off = false
  [log]         file = \"queries.json\", sample_every = 100
  [[key]]       name = \"transfer.example.com\", algorithm = \"hmac-sha256\", secret = \"base 64\": as `keymgr -t` makes it
  [[template]]  name = \"default\", file = \"zones/%s.zone\": what a zone leaves open, which may name another template; %s is its name
  [[zone]]      name = \"example.com\", file = \"example.com.zone\", allow_transfer = [\"192.0.2.0/24\",
                \"key:transfer.example.com\"], also_notify = [\"192.0.2.9\", \"192.0.2.10:5353 key:transfer.example.com\"]
  [[zone]]      name = \"example.net\", primary = [\"192.0.2.9 key:transfer.example.com\"], file = \"example.net.copy\": a secondary.
                The file is the server's own: each version that comes is written to it, and after a restart the zone is served from
                it until a primary answers, or the zone expires. Without a file it is fetched anew, and SERVFAIL until it is there
  [[zone]]      name = \"catalog.example\", primary = [\"192.0.2.9\"], catalog = [\"members\"]: a catalog zone (RFC 9432). The zones
                it lists are served by the template \"members\"; those of a group by the template of that name, if it is in the list
A zone that cannot be used is told of, with file and line, and answered with SERVFAIL, or as it was before; all others are served.
Signals: INT, TERM: answer what is here and stop. HUP: read the configuration and the zones again, add and remove zones; answers
         go on from the old ones meanwhile.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<DnsCommand>,
    #[command(flatten)]
    serve: ServeArguments,
}

#[derive(Subcommand)]
enum DnsCommand {
    Check(CheckArguments),
    Status(StatusArguments),
    Reload(ReloadArguments),
    Refresh(RefreshArguments),
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.command {
        Some(DnsCommand::Check(arguments)) => check::run(arguments),
        Some(DnsCommand::Status(arguments)) => ask::status(arguments),
        Some(DnsCommand::Reload(arguments)) => ask::reload(arguments),
        Some(DnsCommand::Refresh(arguments)) => ask::refresh(arguments),
        None => host::run(&arguments.serve.place, || Server::new(&arguments.serve)),
    }
}
