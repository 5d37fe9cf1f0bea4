//! `qanat dashboard`: what `qanat status` says, live, as a page for a browser.
//!
//! ```text
//!   daemon ◀─asks─ qanat status --every 1 ──pipe──▶ feed ──▶ pages ──▶ web service ──▶ browser
//!                  (whoever started it)             (nobody, over the kernel's TCP)
//! ```

mod feed;
mod pages;

use crate::control::kept_dashboard::new_key;
use crate::daemon::DaemonArguments;
use crate::host::application::{Announcement, Application, Period, Place, Rates, Requirements};
use crate::host::privilege::Privilege;
use crate::host::{self, HostArguments, Placement};
use crate::live::grouped;
use clap::Args;
use feed::Feed;
use nix::sys::signal::{SigSet, Signal};
use pages::Pages;
use qanat::PROTOCOL_TCP;
use qanat_nic::af_xdp::PortRange;
use qanat_web::Field;
use qanat_web::{Figures, WebConfig, WebService};
use serde_json::{Value, json};
use std::io;
use std::time::Duration;

/// A person's browsers, not the world's.
const CONNECTIONS_MAX: usize = 64;

/// How long a connection is kept that asks for nothing: a page asks each second.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// What a browser may do with the page: nothing comes from elsewhere, and no other page has it in a frame.
const FIELDS: [&str; 3] = [
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options: nosniff",
    "Referrer-Policy: no-referrer",
];

/// Serve a page with cards, rates, drops, net cores, programs and disks, live
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat dashboard                                of all that this user may see; it says at which address
  sudo qanat dashboard --port 8080 --listen ::1
  sudo qanat up --dashboard 127.0.0.1:9480       the daemon starts it; `sudo qanat status` says at which address
  ssh -L 9480:127.0.0.1:9480 HOST                to look at it from elsewhere
The address has a key in it, new at each start: who does not know it sees nothing. The page changes nothing.")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// Port to listen on
    #[arg(long, default_value_t = 9480, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Its key is a line of standard input. It ends when that does, for the daemon at its other end has ended
    #[arg(long, hide = true)]
    of_daemon: bool,
    #[command(flatten)]
    place: HostArguments,
}

/// Serves it until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let key = if arguments.of_daemon { daemons_key() } else { new_key() };
    let key = key.map_err(|error| format!("a key for its address: {error}"))?;
    let mut place = arguments.place.clone();
    // It is for this machine: no card is taken for it, unless one is asked for.
    place.placement.placement.get_or_insert(Placement::Kernel);
    host::run(&place, || {
        if place.placement.app_cores > 1 {
            return Err("the dashboard is one process: leave out --app-cores".to_owned());
        }
        Ok(Dashboard { arguments, key, feed: Feed::new() })
    })
}

/// The daemon has signals blocked, and says the key.
fn daemons_key() -> io::Result<String> {
    SigSet::from_iter([Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM]).thread_unblock()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Whoever is confined can't ask to be told of its parent's end. But its standard input ends then.
fn end_with_daemon() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    std::process::exit(0)
}

struct Dashboard<'a> {
    arguments: &'a Arguments,
    key: String,
    feed: Feed,
}

impl Application for Dashboard<'_> {
    type Service = WebService;
    type Figures = Figures;

    const NAME: &'static str = "dashboard";

    fn requirements(&self) -> Requirements {
        Requirements {
            connections_max: Some(CONNECTIONS_MAX),
            ..Requirements::new(vec![PortRange {
                protocol: PROTOCOL_TCP,
                first: self.arguments.port,
                last: self.arguments.port,
            }])
        }
    }

    fn open(&mut self, _privilege: &Privilege) -> Result<(), String> {
        self.feed.start(&self.arguments.daemon.path())
    }

    fn service(&self, _place: &Place) -> Result<WebService, String> {
        // There are no files.
        let mut config = WebConfig::new("");
        config.port = self.arguments.port;
        config.limits.connections_max = CONNECTIONS_MAX;
        config.limits.connections_per_peer = CONNECTIONS_MAX;
        config.limits.idle_timeout = IDLE_TIMEOUT;
        let fields: Result<Vec<Field>, _> = FIELDS.iter().map(|field| field.parse()).collect();
        config.rules.headers = Some(fields.map_err(|error| error.to_string())?);
        let library = Box::new(Pages::new(self.key.clone(), self.feed.latest()));
        WebService::of_library(config, library, 1).map_err(|error| error.to_string())
    }

    fn begin(&self) -> Result<(), String> {
        if self.arguments.of_daemon {
            let thread = std::thread::Builder::new().name("daemon".to_owned()).spawn(end_with_daemon);
            thread.map_err(|error| format!("a thread: {error}"))?;
        }
        self.feed.hear()
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let urls: Vec<String> =
            place.sockets(self.arguments.port).iter().map(|socket| format!("http://{socket}/{}/", self.key)).collect();
        Announcement {
            json: json!({ "event": "serving", "urls": urls, "interface": place.interface, "driver": place.driver }),
            lines: vec![format!("The dashboard is at {}  (Ctrl-C stops)", urls.join(" "))],
        }
    }

    fn figures(service: &mut WebService) -> Figures {
        service.figures()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let requests_per_s = period.rate(|figures| figures.requests);
        Rates {
            json: json!({ "requests_per_s": requests_per_s }),
            text: format!("{requests_per_s:.0} requests/s  {} open", grouped(period.now.connections_open)),
            is_busy: requests_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        vec![format!("Served {} requests on {} connections.", grouped(all.requests), grouped(all.connections_accepted))]
    }
}
