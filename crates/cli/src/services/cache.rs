//! `qanat cache`: a cache that speaks memcached's protocols.

use crate::disk::size;
use crate::host::application::{Announcement, Application, Figures as HostFigures, Period, Place, Rates, Requirements};
use crate::host::{self, HostArguments};
use crate::live::grouped;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use qanat::{PROTOCOL_TCP, PROTOCOL_UDP};
use qanat_cache::{CacheConfig, CacheService, Datagrams, Figures, Kept, MEMORY_BYTES_MIN, Settings, User, users_of};
use qanat_control::filter::Addresses;
use qanat_nic::af_xdp::PortRange;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The largest file of users.
const USERS_BYTES_MAX: u64 = 1 << 20;
/// Items smaller than this could hold nothing; larger than that, a few would be all memory.
const ITEM_BYTES: std::ops::RangeInclusive<u64> = 1_024..=1 << 30;

/// Keep keys and values in memory, and speak memcached's protocols
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat cache                                   at 10.77.0.2:11211, 64 MiB
  memcstat --servers=10.77.0.2                       or any other client of memcached's
  sudo qanat cache -m 4G                             how much memory items take at most
  sudo qanat cache -m 4G -I 8M                       how large an item may be
  sudo qanat cache --udp                             datagrams, too: nobody's answer is longer than the question
  sudo qanat cache --udp --udp-trust 10.77.0.0/24    but theirs, who are believed to be who they say
  sudo qanat cache --auth-file users                 clients say `set x 0 0 LENGTH`, then NAME PASSWORD, first
  sudo qanat cache --placement split                 its stack in another process, which it cannot harm
  qanat cache --placement kernel                     over the kernel's TCP/IP, at 127.0.0.1: without root, without a card
  sudo qanat cache --placement split --net-cores 2 --also 10.77.1.2/24   one cache, by two net cores and addresses
docs/cache.md has the commands there are, and how it differs from memcached.
Signals: INT, TERM: stop.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause.")]
pub struct Arguments {
    /// Memory that items take at most, with all that is needed to find them
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    memory: u64,
    /// The largest item: its key and its value
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1M", value_parser = size::parse)]
    max_item_size: u64,
    /// Port of TCP
    #[arg(short, long, default_value_t = 11_211, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Answer datagrams, too, at the same port. Nobody's answer is longer than the question, unless `--udp-trust` says so
    #[arg(long)]
    udp: bool,
    /// Addresses whose datagrams may have longer answers, as 10.77.0.0/24; may be given several times. Whoever can send under a false
    /// address can have these answers sent there
    #[arg(long, value_name = "ADDRESSES", requires = "udp")]
    udp_trust: Vec<Addresses>,
    /// Open connections at most
    #[arg(short, long, value_name = "COUNT", default_value_t = 10_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_048_576))]
    connections: usize,
    /// Seconds after which a client that says nothing is closed; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    idle_timeout: u32,
    /// A file of users, one NAME:PASSWORD a line. Then only the text protocol is spoken, and no datagrams are answered
    #[arg(short = 'Y', long, value_name = "FILE", conflicts_with = "udp")]
    auth_file: Option<PathBuf>,
    /// Refuse `flush_all`
    #[arg(short = 'F', long)]
    disable_flush_all: bool,
    /// Refuse to list keys (`lru_crawler metadump`, `stats cachedump`)
    #[arg(short = 'X', long)]
    disable_dumping: bool,
    #[command(flatten)]
    place: HostArguments,
}

/// The users of a file.
fn read_users(file: &Path) -> Result<Vec<User>, String> {
    let say = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let length = std::fs::metadata(file).map_err(|error| say(&error))?.len();
    if length > USERS_BYTES_MAX {
        return Err(say(&"no file of users: it is longer than 1 MiB"));
    }
    let text = std::fs::read(file).map_err(|error| say(&error))?;
    users_of(&text).map_err(|error| say(&error))
}

/// The cache, as the host knows it.
struct Cache<'a> {
    arguments: &'a Arguments,
    settings: Settings,
    /// Items outlive a card.
    kept: Kept,
}

impl<'a> Cache<'a> {
    fn new(arguments: &'a Arguments) -> Result<Cache<'a>, String> {
        if arguments.place.placement.app_cores > 1 {
            return Err("a cache is one process: leave out --app-cores. It may be on several net cores (--net-cores)"
                .to_owned());
        }
        if arguments.memory < MEMORY_BYTES_MIN {
            return Err("--memory: give at least 8M".to_owned());
        }
        if !ITEM_BYTES.contains(&arguments.max_item_size) || arguments.max_item_size > arguments.memory / 2 {
            return Err("--max-item-size: give at least 1K, and at most half of --memory and 1G".to_owned());
        }
        let users = arguments.auth_file.as_deref().map(read_users).transpose()?.unwrap_or_default();
        let settings = Settings {
            memory_max: arguments.memory,
            item_max: arguments.max_item_size as usize,
            may_flush: !arguments.disable_flush_all,
            may_dump: !arguments.disable_dumping,
            connections_max: arguments.connections,
            idle_timeout_s: arguments.idle_timeout,
            users,
        };
        Ok(Cache { arguments, settings, kept: Kept::default() })
    }
}

impl Application for Cache<'_> {
    type Service = CacheService;
    type Figures = Figures;

    const NAME: &'static str = "cache";
    const TELLS_PLACE: bool = true;

    fn requirements(&self) -> Requirements {
        let port = self.arguments.port;
        let mut ports = vec![PortRange { protocol: PROTOCOL_TCP, first: port, last: port }];
        if self.arguments.udp {
            ports.push(PortRange { protocol: PROTOCOL_UDP, first: port, last: port });
        }
        Requirements { connections_max: Some(self.arguments.connections), ..Requirements::new(ports) }
    }

    fn service(&self, place: &Place) -> Result<CacheService, String> {
        let Arguments { port, udp, udp_trust, .. } = self.arguments;
        Ok(CacheService::new(CacheConfig {
            port: *port,
            serves_six: place.serves_six,
            datagrams: udp.then(|| Datagrams { port: *port, trusted: udp_trust.clone() }),
            settings: self.settings.clone(),
            kept: self.kept.clone(),
        }))
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let Arguments { port, udp, memory, .. } = self.arguments;
        let addresses = place.sockets(*port);
        let datagrams = if *udp { ", by TCP and UDP" } else { "" };
        Announcement {
            json: json!({
                "event": "serving", "addresses": addresses, "memory_bytes": memory, "udp": udp,
                "interface": place.interface, "driver": place.driver,
            }),
            lines: vec![format!("memcached's protocols at {}{datagrams}  (Ctrl-C stops)", addresses.join(" "))],
        }
    }

    fn figures(service: &mut CacheService) -> Figures {
        service.figures()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let (gets_per_s, sets_per_s) = (period.rate(|figures| figures.gets), period.rate(|figures| figures.sets));
        let hits_per_s = period.rate(|figures| figures.hits);
        let hit_share = if gets_per_s > 0.0 { hits_per_s / gets_per_s } else { 0.0 };
        let figures = period.now;
        Rates {
            json: json!({ "gets_per_s": gets_per_s, "sets_per_s": sets_per_s, "hit_share": hit_share }),
            text: format!(
                "{} gets/s  {} sets/s  {:.1} % hits  {} items  {} MiB  {} evicted  {} open",
                grouped(gets_per_s as u64),
                grouped(sets_per_s as u64),
                hit_share * 100.0,
                grouped(figures.items),
                grouped(figures.memory_bytes >> 20),
                grouped(figures.evicted),
                grouped(figures.connections_open),
            ),
            is_busy: gets_per_s + sets_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        vec![format!(
            "Answered {} gets ({} found) and {} sets on {} connections; {} items were there at the end, {} had gone for others.",
            grouped(all.gets),
            grouped(all.hits),
            grouped(all.sets),
            grouped(all.connections),
            grouped(all.items),
            grouped(all.evicted),
        )]
    }
}

impl HostFigures for Figures {
    /// Counters go on; what is there now is what the newer one has.
    fn add(&mut self, newer: &Figures) {
        *self = Figures {
            gets: self.gets + newer.gets,
            hits: self.hits + newer.hits,
            sets: self.sets + newer.sets,
            evicted: self.evicted + newer.evicted,
            reclaimed: self.reclaimed + newer.reclaimed,
            stores_refused: self.stores_refused + newer.stores_refused,
            connections: self.connections + newer.connections,
            refused: self.refused + newer.refused,
            slow_closed: self.slow_closed + newer.slow_closed,
            idle_closed: self.idle_closed + newer.idle_closed,
            input_bytes: self.input_bytes + newer.input_bytes,
            output_bytes: self.output_bytes + newer.output_bytes,
            datagrams: self.datagrams + newer.datagrams,
            datagrams_malformed: self.datagrams_malformed + newer.datagrams_malformed,
            datagrams_unanswered: self.datagrams_unanswered + newer.datagrams_unanswered,
            ..*newer
        };
    }

    fn end(&mut self) {
        self.connections_open = 0;
    }
}

/// Runs the cache until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    host::run(&arguments.place, || Cache::new(arguments))
}
