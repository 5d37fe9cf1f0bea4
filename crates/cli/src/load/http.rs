//! `qanat load http`.

use crate::host::attach::namespace;
use crate::live::{Printer, grouped};
use crate::load::stop::stop_handle;
use clap::Args;
use qanat_bench::load::{Figures, HttpLoadOptions, HttpPlan, Report, attach, duration, kernel, native};
use std::net::IpAddr;
use std::time::Duration;

/// Load an HTTP server from our own TCP
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat load http http://10.77.0.2/index.html -c 64        as fast as it goes
  sudo qanat load http http://10.77.0.2/ -c 64 --close          a new connection for every request
  sudo qanat load http http://10.77.0.2/ -c 256 --rate 50000    50,000 a second, latency from the time each was due
  sudo qanat load http http://10.5.0.7/ -c 8 --interface eth1 --vlan 5 --source 10.5.0.8
  qanat load http http://127.0.0.1:8080/ -c 8 --kernel          over kernel sockets: no root, any server")]
pub struct Arguments {
    /// URLs of one server, asked for in turn; with --mix one base URL
    #[arg(required = true)]
    urls: Vec<String>,
    /// Connections
    #[arg(short, long, value_name = "COUNT", default_value_t = 1)]
    connections: usize,
    /// A new connection for every request
    #[arg(long)]
    close: bool,
    /// Open loop: requests per second, due at even intervals
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// How long to measure, for example 10s or 500ms
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = duration::parse)]
    duration: Duration,
    /// How long to load before measuring
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    warm_up: Duration,
    /// For one answer or handshake
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    timeout: Duration,
    /// Requests in flight on each connection
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pipeline: usize,
    /// `yahoo`, or a file of lines `WEIGHT PATH`
    #[arg(long, value_name = "MIX")]
    mix: Option<String>,
    /// Compare every body with the first of its URL
    #[arg(long)]
    verify: bool,
    /// Ask by HEAD
    #[arg(long)]
    head: bool,
    /// Host field instead of the URL's
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// A further header field, `Name: value`; may be repeated
    #[arg(long, value_name = "FIELD")]
    field: Vec<String>,
    /// Connect from this address (a free one of the network); may be repeated
    #[arg(long, value_name = "ADDRESS")]
    source: Vec<IpAddr>,
    /// How many addresses to pick where they may be picked (a veth device): each has 55,000 ports
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    sources: usize,
    /// Attach to this interface, in the VLAN named by --vlan
    #[arg(long, value_name = "NAME", requires = "vlan", conflicts_with = "kernel")]
    interface: Option<String>,
    /// The 802.1Q VLAN of --interface that the server is in; with a free address there by --source
    #[arg(long, value_name = "ID", requires_all = ["interface", "source"], value_parser = clap::value_parser!(u16).range(1..=4_094))]
    vlan: Option<u16>,
    /// Use kernel sockets: works for any server, and saturates sooner
    #[arg(long)]
    kernel: bool,
    /// Network namespace to load from: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Report the CPU time of this process too (the server)
    #[arg(long, value_name = "PID")]
    watch_process: Option<u32>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn in_vlan(&self) -> Option<attach::Vlan> {
        let (interface, identifier) = (self.interface.clone()?, self.vlan?);
        Some(attach::Vlan { interface, identifier })
    }
}

/// Loads a web server.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let options = HttpLoadOptions {
        urls: arguments.urls.clone(),
        mix: arguments.mix.clone(),
        connections: arguments.connections,
        close: arguments.close,
        rate_per_s: arguments.rate,
        pipeline: arguments.pipeline,
        duration: arguments.duration,
        warm_up: arguments.warm_up,
        timeout: arguments.timeout,
        verify: arguments.verify,
        head: arguments.head,
        host: arguments.host.clone(),
        fields: arguments.field.clone(),
        sources: arguments.source.clone(),
        watch_process: arguments.watch_process,
        ..HttpLoadOptions::default()
    };
    let stop = stop_handle()?;
    let printer = Printer::new(arguments.json);
    let mut observe = |figures: &Figures| show(&printer, figures);
    let mut plan = HttpPlan::new(&options).map_err(|error| error.to_string())?;
    let report = if arguments.kernel {
        announce(&printer, &plan, "kernel sockets");
        kernel::run(plan, &stop, &mut observe)
    } else {
        let namespace = namespace(arguments.netns.as_deref())?;
        let mut attached =
            attach::attach(&mut plan, arguments.sources, namespace.as_ref(), arguments.in_vlan().as_ref())
                .map_err(|error| error.to_string())?;
        announce(&printer, &plan, "our own TCP");
        native::run(&mut attached.runtime, plan, &stop, &mut observe)
    };
    let report = report.map_err(|error| error.to_string())?;
    finish(&printer, &report)
}

fn announce(printer: &Printer, plan: &HttpPlan, client: &str) {
    if printer.is_json() {
        printer.lasting(serde_json::json!({ "event": "loading", "url": plan.label, "client": client }).to_string());
    } else {
        printer.lasting(format!("Loading {} over {client}", plan.label));
    }
}

fn show(printer: &Printer, figures: &Figures) {
    if !printer.is_json() {
        printer.live(format!(
            "{} requests/s  {:.2} Gbit/s  {} open  {} errors",
            grouped(figures.requests_per_s as u64),
            figures.gbit_per_s,
            grouped(figures.open as u64),
            grouped(figures.errors),
        ));
    }
}

fn finish(printer: &Printer, report: &Report) -> Result<(), String> {
    printer.report(report)?;
    if report.requests == 0 {
        return Err(format!("no request was answered by {}; is it serving?", report.peer));
    }
    Ok(())
}
