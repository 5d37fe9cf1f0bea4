//! `qanat load`: load generators.

mod dns;
mod echo;
mod http;
mod pace;
mod stop;
mod values;

use clap::{Args, Subcommand};

/// Generate load
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    protocol: Protocol,
}

#[derive(Subcommand)]
enum Protocol {
    Http(Box<http::Arguments>),
    Dns(Box<dns::Arguments>),
    Udp(Box<echo::UdpArguments>),
    Tcp(Box<echo::TcpArguments>),
    Redis(Box<values::RedisArguments>),
    Memcached(Box<values::MemcachedArguments>),
}

/// Runs a load generator.
pub fn run(arguments: Arguments) -> Result<(), String> {
    match arguments.protocol {
        Protocol::Http(http) => http::run(&http),
        Protocol::Dns(dns) => dns::run(&dns),
        Protocol::Udp(udp) => echo::run_udp(&udp),
        Protocol::Tcp(tcp) => echo::run_tcp(&tcp),
        Protocol::Redis(redis) => values::run_redis(&redis),
        Protocol::Memcached(memcached) => values::run_memcached(&memcached),
    }
}
