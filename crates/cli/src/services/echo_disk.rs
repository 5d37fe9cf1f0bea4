//! `qanat echo-disk`: the example of the storage API. What comes is made durable on a disk, and sent back from there.

use crate::daemon::DaemonArguments;
use crate::disk::{DiskPlace, PlaceArguments, area_name};
use crate::host::application::{Announcement, Application, Period, Place, Rates, Requirements};
use crate::host::{self, HostArguments};
use crate::live::grouped;
use crate::log;
use clap::Args;
use qanat::disk::{AreaName, DiskOptions};
use qanat::{AreaBuffers, AreaId, AreaNews, DaemonArea, PROTOCOL_TCP, Storage, StorageArea};
use qanat_control::protocol::{AreaFence, AreaPath};
use qanat_echo::{DiskEcho, Figures};
use qanat_nic::Region;
use qanat_nic::af_xdp::PortRange;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Bytes of a piece that is stored, at most.
const BUFFER_BYTES: u32 = 16 << 10;
/// Connections at once, and requests.
const CONNECTIONS_MAX: u32 = 256;

/// Send back what comes once it is durable on a disk, from where the disk put it: the example of the storage API
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk create logs --on fast --size 256M         an area on the daemon's disk `fast`
  sudo qanat echo-disk logs --on fast                  TCP at 10.77.0.2:7; WHAT IS IN THE AREA IS OVERWRITTEN
  sudo qanat load tcp 10.77.0.2:7 --size 512           how long a durable answer takes
  ncat 10.77.0.2 7                                     or by hand
  qanat disk prepare fast.img --size 1G                without a daemon: a file becomes a disk,
  qanat disk create logs --on ./fast.img --size 256M   and a part of it an area
  sudo qanat echo-disk logs --on ./fast.img
  sudo qanat echo-disk logs --on pci:01:00.0 --interface vf:02:10.0 --address 10.9.0.2/24   disk to network without the kernel
A disk of the daemon's is used through its core, unless the area is a partition or file of its own (`qanat disk create --fenced`). If the core dies, or the daemon is started again, what is under way is not
answered, and the service goes on with the area.
The program is services/echo/src/disk.rs; docs/guide/5-own-service.md explains it.")]
pub struct Arguments {
    /// The area that pieces are stored in, over and over from its beginning
    #[arg(value_parser = area_name)]
    area: AreaName,
    /// The disk: one of the daemon's by its name, or a file, device or function (pci:ADDRESS) that `qanat disk prepare` has prepared
    #[arg(long, value_name = "DISK")]
    on: PathBuf,
    /// Port
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    place: HostArguments,
}

/// The service with its area.
struct EchoDisk<'a> {
    arguments: &'a Arguments,
    /// By which way an area of the daemon's is used; `None`: it is a file's or device's of one's own.
    fence: OnceLock<AreaFence>,
}

impl EchoDisk<'_> {
    fn address(&self, place: &Place) -> String {
        place.sockets(self.arguments.port).first().cloned().unwrap_or_default()
    }
}

impl Application for EchoDisk<'_> {
    type Service = DiskEcho;
    type Figures = Figures;

    const NAME: &'static str = "echo-disk";

    fn requirements(&self) -> Requirements {
        let port = self.arguments.port;
        let mut needs = Requirements::new(vec![PortRange { protocol: PROTOCOL_TCP, first: port, last: port }]);
        needs.connections_max = Some(CONNECTIONS_MAX as usize);
        needs
    }

    fn storage(&self) -> Result<Storage, String> {
        let Arguments { on, area, .. } = self.arguments;
        let disk = PlaceArguments { on: on.clone(), json: false, daemon: DaemonArguments::default() };
        let mut storage = Storage::default();
        if let DiskPlace::Daemon(_, name) = disk.find() {
            let area = area_of_daemon(&disk.daemon, AreaPath { disk: name, area: area.to_string() })?;
            let _ = self.fence.set(area.fence());
            storage.add(area);
            return Ok(storage);
        }
        let region =
            Region::new(CONNECTIONS_MAX, BUFFER_BYTES).map_err(|error| format!("memory for buffers: {error}"))?;
        let options = DiskOptions { depth: CONNECTIONS_MAX, ..DiskOptions::default() };
        let area = disk.open_area(area, options, std::slice::from_ref(&region))?;
        let pool = region.pool(CONNECTIONS_MAX).ok_or("no buffers")?;
        storage.add(StorageArea::new(Box::new(area), pool));
        Ok(storage)
    }

    fn service(&self, _place: &Place) -> Result<DiskEcho, String> {
        Ok(DiskEcho::new(self.arguments.port, AreaId::new(0, 0), CONNECTIONS_MAX as usize))
    }

    fn announcement(&self, place: &Place) -> Announcement {
        let Arguments { on, area, .. } = self.arguments;
        let (address, path) = (self.address(place), on.display());
        let fence = self.fence.get().copied();
        let way = fence.map_or_else(String::new, |fence| format!(", {fence}"));
        Announcement {
            json: json!({
                "event": "echoing", "address": address, "area": area.as_str(), "disk": path.to_string(), "fence": fence,
            }),
            lines: vec![format!("Echoing TCP at {address} by way of area {area} of {path}{way}  (Ctrl-C stops)")],
        }
    }

    fn figures(service: &mut DiskEcho) -> Figures {
        service.figures()
    }

    fn rates(period: &Period<'_, Figures>) -> Rates {
        let pieces_per_s = period.rate(|figures| figures.echoed);
        let mb_per_s = period.rate(|figures| figures.bytes) * 1e-6;
        let Figures { echoed, dropped, connections, .. } = *period.now;
        Rates {
            json: json!({ "pieces_per_s": pieces_per_s, "mb_per_s": mb_per_s }),
            text: format!(
                "{} pieces/s  {mb_per_s:.1} MB/s  {} durable and echoed  {} dropped  {connections} connections",
                grouped(pieces_per_s as u64),
                grouped(echoed),
                grouped(dropped),
            ),
            is_busy: pieces_per_s > 0.0,
        }
    }

    fn json(figures: &Figures) -> Value {
        json!(figures)
    }

    fn summary(all: &Figures, _each: &[Figures]) -> Vec<String> {
        let (echoed, bytes, dropped) = (grouped(all.echoed), grouped(all.bytes), grouped(all.dropped));
        vec![format!("Echoed {echoed} pieces, {bytes} bytes, all of them durable before; dropped {dropped}.")]
    }
}

/// An area that is had again when the disk's core, or the daemon, was started again.
fn area_of_daemon(daemon: &DaemonArguments, path: AreaPath) -> Result<StorageArea, String> {
    let buffers = AreaBuffers { count: CONNECTIONS_MAX, bytes: BUFFER_BYTES };
    let name = path.to_string();
    let listener = Arc::new(move |news: &AreaNews| match news {
        AreaNews::Lost => log::warning!("area-lost", "the area {name} is lost: its disk core has ended"),
        AreaNews::Waiting(why) => log::warning!("area-waiting", "the area {name} can't be had again yet: {why}"),
        AreaNews::Back(after) => {
            log::info!("area-back", "the area {name} is there again, after {} ms", after.as_millis())
        }
        AreaNews::Gone(why) => log::warning!("area-gone", "the area {name} is gone for good: {why}"),
    });
    DaemonArea::open(daemon.path(), path, buffers, listener).map_err(|error| error.to_string())
}

/// Runs the echo until it is told to stop.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    host::run(&arguments.place, || Ok(EchoDisk { arguments, fence: OnceLock::new() }))
}
