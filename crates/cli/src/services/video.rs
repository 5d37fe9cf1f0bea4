//! `qanat video`: films from a storage area, and the commands that put them there.

mod add;
mod check;
mod disk;
mod list;
mod remove;

use super::area;
use super::congestion;
use super::https::HttpsArguments;
use super::read_cache::{self, ReadCachePolicy};
use super::serving::Serving;
use crate::host::application::{Announcement, Application, Files, MetricsText, Period, Place, Rates, Requirements};
use crate::host::export::ExportArguments;
use crate::host::privilege::Privilege;
use crate::host::{self, HostArguments};
use crate::live::grouped;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use disk::DiskArguments;
use qanat::{AreaBuffers, AreaId, CongestionAlgorithm, Storage};
use qanat_video::FilmLibrary;
use qanat_web::content::PIECE_BYTES;
use qanat_web::{Caching, Figures, WebConfig, WebService, metrics};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Buffers that the store needs besides those of pieces.
const BUFFERS_MORE: u32 = 64;
/// Seconds that an option may say at most: a month.
const SECONDS_MAX: u64 = 2_678_400;

/// Serve films from a disk, read and encrypted as their viewers take them
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat video --disk films.img add film.mp4              cut into HLS and DASH by ffmpeg, and put on the disk; makes the file
  qanat video --disk films.img add film.mp4 --quality 360:600 --quality 720:2500
  qanat video --disk films.img add ./cut --name film     a folder that is cut already
  sudo qanat video --disk films.img                      a page with a player at http://10.77.0.2/
  sudo qanat video --disk films.img --https              at https://10.77.0.2/, with a certificate of its own
  sudo qanat video --disk films.img --congestion bbr     for viewers whose paths lose packets
  sudo qanat video --disk films.img --placement split    its stack in another process, which it cannot harm
  qanat video --disk films.img --placement kernel --port 8080    over the kernel's TCP/IP: without root, without a card
  sudo qanat video --disk films.img --read-cache 2048    what many watch is read once, and kept in two GiB
  qanat disk create films --on fast --size 40G           an area on the daemon's disk `fast`,
  sudo qanat video --disk fast                           used through the disk's core
  qanat video --disk films.img list                      which films there are
  qanat video --disk films.img remove film
  qanat video --disk films.img check                     reads everything: is it what was written?
Films are added and removed while nobody serves them. docs/video.md has what players find, and what is bounded.
Signals: INT, TERM: finish what is under way and stop. HUP: read the certificates again, and reopen the log.
         USR1: on standard error, connections as `ss -i` shows them, and every counter, by cause.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<VideoCommand>,
    #[command(flatten)]
    disk: DiskArguments,
    /// Port to listen on (default: 80; 443 with --https)
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Memory for what is read from the disk, in MiB, locked: pieces on their way from it and, without TLS, to viewers
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(4..=16_384))]
    memory: u32,
    /// Keep what was read for other viewers, in so many MiB more, locked; 0: every piece is read from the disk each time
    #[arg(long, value_name = "MIB", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=16_384))]
    read_cache: u32,
    /// Which pieces leave the read cache
    #[arg(long, value_enum, value_name = "POLICY", default_value_t = ReadCachePolicy::S3Fifo)]
    read_cache_policy: ReadCachePolicy,
    /// Write a log in combined format to this file
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Pages of this origin may play films: * (all), or the address that pages come from, without a path
    #[arg(long, value_name = "ORIGIN", default_value = "*")]
    allow_origin: String,
    /// How congestion is controlled (default: cubic); bbr keeps its rate on paths that lose at random
    #[arg(long, value_name = "ALGORITHM", value_parser = congestion::parse)]
    congestion: Option<CongestionAlgorithm>,
    /// Open connections at most
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_048_576))]
    connections: usize,
    /// Seconds an unused connection is kept
    #[arg(long, value_name = "SECONDS", default_value_t = 75, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    idle_timeout: u64,
    /// Figures in Prometheus' format, at this address of the kernel's
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    https: HttpsArguments,
    #[command(flatten)]
    export: ExportArguments,
    #[command(flatten)]
    place: HostArguments,
}

#[derive(Subcommand)]
enum VideoCommand {
    Add(add::AddArguments),
    List(list::ListArguments),
    Remove(remove::RemoveArguments),
    Check(check::CheckArguments),
}

impl Arguments {
    fn config(&self) -> WebConfig {
        // There are no files.
        let mut config = WebConfig::new("");
        config.port = self.https.port(self.port);
        config.access_log.clone_from(&self.access_log);
        config.rules.allow_origin = Some(self.allow_origin.clone());
        config.congestion = self.congestion;
        if self.read_cache > 0 {
            let bytes = (self.read_cache as usize) << 20;
            config.read_cache = Caching::Own { bytes, policy: self.read_cache_policy.kind() };
        }
        config.limits.connections_max = self.connections;
        config.limits.connections_per_peer = (self.connections / 4 * 3).max(64);
        config.limits.idle_timeout = Duration::from_secs(self.idle_timeout);
        config
    }

    /// Pieces in memory at once, besides those that are kept.
    fn pieces(&self) -> u32 {
        pieces(self.memory)
    }
}

/// Pieces in so many MiB.
fn pieces(mib: u32) -> u32 {
    ((u64::from(mib) << 20) / PIECE_BYTES) as u32
}

/// Runs the server until it is told to stop, or does what is to be done with its films.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.command {
        Some(VideoCommand::Add(add)) => add::run(&arguments.disk, add),
        Some(VideoCommand::List(list)) => list::run(&arguments.disk, list),
        Some(VideoCommand::Remove(remove)) => remove::run(&arguments.disk, remove),
        Some(VideoCommand::Check(check)) => check::run(&arguments.disk, check),
        None => host::run(&arguments.place, || {
            if arguments.place.placement.app_cores > 1 {
                return Err("films are served by one process: leave out --app-cores".to_owned());
            }
            arguments.disk.disk()?;
            Ok(Video { arguments, serving: Serving::new(&arguments.https, arguments.access_log.as_ref())? })
        }),
    }
}

/// The server, as the host knows it.
struct Video<'a> {
    arguments: &'a Arguments,
    serving: Serving,
}

impl Application for Video<'_> {
    type Service = WebService;
    type Figures = Figures;

    const NAME: &'static str = "video";
    const IS_PUBLIC: bool = true;
    const TELLS_PLACE: bool = true;

    fn requirements(&self) -> Requirements {
        let Arguments { https, port, connections, metrics, .. } = self.arguments;
        Requirements { connections_max: Some(*connections), metrics: *metrics, ..Requirements::new(https.ports(*port)) }
    }

    fn files(&self) -> Files {
        let (read, write) = self.serving.places();
        Files::new(self.serving.needs(), read, write)
    }

    fn export(&self) -> Option<&ExportArguments> {
        Some(&self.arguments.export)
    }

    fn open(&mut self, privilege: &Privilege) -> Result<(), String> {
        self.serving.open(privilege)
    }

    fn storage(&self) -> Result<Storage, String> {
        let buffers = AreaBuffers {
            count: self.arguments.pieces() + pieces(self.arguments.read_cache) + BUFFERS_MORE,
            bytes: PIECE_BYTES as u32,
        };
        area::open(self.arguments.disk.disk()?, &self.arguments.disk.area, None, buffers)
    }

    fn service(&self, place: &Place) -> Result<WebService, String> {
        let mut config = self.arguments.config();
        config.https = self.serving.https(&self.arguments.https, &place.addresses)?;
        let library = Box::new(FilmLibrary::new(AreaId::new(0, 0)));
        let service = WebService::of_library(config, library, self.arguments.pieces() as usize);
        self.serving.runs(service)
    }

    fn doorbell(service: &WebService) -> Option<(BorrowedFd<'_>, &'static str)> {
        Some((service.doorbell_fd(), "certificates"))
    }

    fn reload(&self) -> Option<Box<dyn FnMut() + Send>> {
        Some(self.serving.reload(|_| ()))
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let urls = self.arguments.https.urls(self.arguments.port, &place.addresses);
        let disk = self.arguments.disk.disk.as_ref().map(|disk| disk.display().to_string()).unwrap_or_default();
        Announcement {
            json: json!({
                "event": "serving", "urls": urls, "disk": disk, "area": self.arguments.disk.area.as_str(),
                "interface": place.interface, "driver": place.driver,
            }),
            lines: vec![format!("Films of {disk} at {}  (Ctrl-C stops)", urls.join(" "))],
        }
    }

    fn figures(service: &mut WebService) -> Figures {
        service.figures()
    }

    fn notes(service: &mut WebService) -> Vec<String> {
        service.take_notes()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let requests_per_s = period.rate(|figures| figures.requests);
        let gbit_per_s = period.rate(|figures| figures.bytes_acknowledged) * 8e-9;
        let disk_gbit_per_s = period.rate(|figures| figures.piece_bytes_read) * 8e-9;
        let figures = period.now;
        Rates {
            json: json!({
                "requests_per_s": requests_per_s, "gbit_per_s": gbit_per_s, "disk_gbit_per_s": disk_gbit_per_s,
            }),
            text: format!(
                "{gbit_per_s:.2} Gbit/s  {disk_gbit_per_s:.2} from the disk  {} streams  {} open  {} stalls  {} errors{}",
                grouped(figures.streams),
                grouped(figures.connections_open),
                grouped(figures.stalls),
                grouped(figures.responses[3] + figures.responses[4] + figures.stream_errors),
                read_cache::text(&figures.read_cache),
            ),
            is_busy: requests_per_s > 0.0 || gbit_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn metrics(&self) -> Option<MetricsText<Figures>> {
        Some(Box::new(|figures| metrics::text(Video::NAME, figures)))
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        let served = format!(
            "Served {} requests on {} connections: {} bytes, and {} read from the disk.",
            grouped(all.requests),
            grouped(all.connections_accepted),
            grouped(all.bytes_acknowledged),
            grouped(all.piece_bytes_read),
        );
        let failed = (all.stream_errors > 0)
            .then(|| format!("{} responses were cut short by the disk.", grouped(all.stream_errors)));
        [served].into_iter().chain(read_cache::summary(&all.read_cache)).chain(failed).collect()
    }
}
