//! `qanat disk bench`: what an area can do.

use super::place::{self, Place, PlaceArguments};
use crate::say::sayln;
use clap::Args;
use qanat_bench::disk::ours::measure;
use qanat_bench::disk::points;
use qanat_bench::load::duration;
use qanat_control::client::OpenedArea;
use qanat_control::protocol::{AreaPath, AreaWish};
use qanat_disk::area::AreaName;
use qanat_disk::nvme::NvmeOptions;
use qanat_disk::shared::SharedLayout;
use qanat_disk::{DiskOptions, Vsic};
use qanat_nic::{MonotonicClock, Pool, Region, SpinPolicy};
use std::rc::Rc;
use std::time::Duration;

/// Measure an area by random requests of several sizes and depths. It is only read, unless told otherwise
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk bench logs --on fast                     on a disk of the daemon's, through its core or by a descriptor
  qanat disk bench logs --on ./fast.img               random reads: half a minute
  sudo qanat disk bench logs --on pci:01:00.0         on an NVMe function that vfio-pci has
  qanat disk bench logs --on ./fast.img --overwrite   overwrites too: WHAT IS IN THE AREA IS LOST
  qanat disk bench logs --on ./fast.img --json        a line a point, for programs
`qanat bench disk` puts the same beside fio.")]
pub struct Arguments {
    /// Which area
    #[arg(value_parser = place::name)]
    name: AreaName,
    /// Overwrites too. What is in the area is lost
    #[arg(long)]
    overwrite: bool,
    /// Every size and depth, not some
    #[arg(long)]
    full: bool,
    /// Time for each size and depth
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, default_value = "2s")]
    duration: Duration,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Largest request, and most at once.
const REQUEST_BYTES: u32 = 128 << 10;
const DEPTH: u32 = 128;

fn memory() -> Result<Rc<Region>, String> {
    Region::new(DEPTH, REQUEST_BYTES).map_err(|error| format!("memory for buffers: {error}"))
}

/// Measures it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments { name, overwrite, place, .. } = arguments;
    if let Place::Daemon(session, disk) = place.find() {
        let options = NvmeOptions { depth: DEPTH, transfer_bytes_max: REQUEST_BYTES, ..NvmeOptions::default() };
        let layout = SharedLayout::new(&options, DEPTH, REQUEST_BYTES);
        let path = AreaPath { disk, area: name.to_string() };
        let wish = AreaWish { path, read_only: !overwrite, layout };
        let (status, opened) = session.open_area(wish.clone()).map_err(|error| error.to_string())?;
        if !place.json {
            sayln!("{}: {}", wish.path, status.fence);
        }
        let shared = match opened {
            OpenedArea::Shared(shared) => shared,
            OpenedArea::Own(own) => {
                let region = memory()?;
                let pool = region.pool(DEPTH).ok_or("no buffers")?;
                let opened = own.open(&wish.path, DEPTH, &region);
                let (mut area, _lease) = opened.map_err(|error| format!("the area {name}: {error}"))?;
                return measure_all(arguments, &mut area, &pool);
            }
        };
        let (mut area, pool) =
            shared.open(MonotonicClock::new(), options).map_err(|error| format!("the area {name}: {error}"))?;
        return measure_all(arguments, &mut area, &pool);
    }
    let region = memory()?;
    let options = DiskOptions { depth: DEPTH, ..DiskOptions::default() };
    let (areas, completions) = place::open(&place.on, &place.daemon, options, std::slice::from_ref(&region))?;
    if !place.json {
        sayln!("{}: {completions}", place.on.display());
    }
    let mut area = areas.into_area(name).map_err(|error| place.failed(&error))?;
    let pool = region.pool(DEPTH).ok_or("no buffers")?;
    measure_all(arguments, &mut area, &pool)
}

/// Measures all points, and tells of each when it is done.
fn measure_all(arguments: &Arguments, area: &mut impl Vsic, pool: &Pool) -> Result<(), String> {
    let points = points(!arguments.full).into_iter().filter(|point| arguments.overwrite || !point.is_write);
    for point in points {
        let outcome =
            measure(area, pool, point, arguments.duration, SpinPolicy::Adaptive).map_err(|error| error.to_string())?;
        let mb_per_s = outcome.requests_per_s * f64::from(point.bytes) / 1e6;
        if arguments.place.json {
            sayln!(
                "{}",
                serde_json::json!({
                    "write": point.is_write, "bytes": point.bytes, "depth": point.depth,
                    "requests_per_s": outcome.requests_per_s, "mb_per_s": mb_per_s,
                    "p50_us": outcome.p50_us, "p99_us": outcome.p99_us, "cpu_us": outcome.cpu_us,
                })
            );
        } else {
            let name = point.to_string();
            let (rate, p50, p99) = (outcome.requests_per_s, outcome.p50_us, outcome.p99_us);
            sayln!("{name:<38} {rate:>9.0}/s {mb_per_s:>7.0} MB/s  p50 {p50:>6.0} µs  p99 {p99:>6.0} µs");
        }
    }
    Ok(())
}
