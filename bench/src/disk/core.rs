//! A disk core of the bench's own, and areas through it: equal parts of the file behind what a table of areas would take.

use crate::harness::HarnessError;
use qanat_control::disk_core::{ORDER_BYTES_MAX, Order, Report, TenantConfig};
use qanat_control::protocol::{receive, send};
use qanat_disk::area::{AreaLimits, Extent, UNIT_BYTES};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::shared::{SharedArea, SharedLayout, SharedTransport};
use qanat_disk::{DiskFile, DiskOptions};
use qanat_nic::{MonotonicClock, Pool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where areas begin on a disk, in units.
const FIRST_UNIT: u64 = (2 << 20) / UNIT_BYTES;
/// Requests that the core may have at the disk at once.
const DEPTH: u32 = 256;
/// A core that says nothing for so long is given up.
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// A disk core, as long as this is there.
pub(super) struct Core {
    child: Child,
    orders: OwnedFd,
    /// Units that are for areas.
    units: u64,
    /// One of each tenant.
    leases: Vec<OwnedFd>,
}

/// An area of a disk core's that nobody has opened yet. A thread may be given it.
pub(super) struct Area {
    area: SharedArea,
    driver: NvmeOptions,
}

fn failed(what: &dyn std::fmt::Display) -> HarnessError {
    HarnessError::Child(format!("the disk core: {what}"))
}

fn pair() -> Result<(OwnedFd, OwnedFd), HarnessError> {
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    pair.map_err(|error| HarnessError::system("make a pair of sockets", error))
}

impl Area {
    /// Its driver, for one thread, and buffers.
    pub(super) fn open(self) -> Result<(Nvme<SharedTransport, MonotonicClock>, Pool), HarnessError> {
        self.area.open(MonotonicClock::new(), self.driver).map_err(|error| failed(&error))
    }
}

impl Core {
    /// Starts `program`'s disk core on `path`. `spin`: when it sleeps.
    pub(super) fn start(program: &Path, path: &Path, spin: &str) -> Result<Core, HarnessError> {
        let (orders, its) = pair()?;
        let child = Command::new(program)
            .args(["disk-core", "--spin", spin])
            .stdin(Stdio::from(its))
            .stdout(Stdio::null())
            .spawn();
        let child = child.map_err(|error| HarnessError::system("start a disk core", error))?;
        let mut core = Core { child, orders, units: 0, leases: Vec::new() };
        let options = DiskOptions { depth: DEPTH, ..DiskOptions::default() };
        let file = DiskFile::open(path, options).map_err(|error| HarnessError::Option(error.to_string()))?;
        let name = path.display().to_string();
        send(core.orders.as_fd(), Order::Disk { name, depth: DEPTH }, &[file.as_fd()])
            .map_err(|fault| failed(&fault))?;
        let Report::Ready { geometry, .. } = core.report()? else { return Err(failed(&"it is not ready")) };
        core.units = (geometry.bytes() / UNIT_BYTES).saturating_sub(FIRST_UNIT);
        Ok(core)
    }

    /// Makes the next of `count` equal areas, for requests of up to `bytes`, `depth` at once.
    pub(super) fn area(&mut self, count: u64, (bytes, depth): (u32, u32)) -> Result<Area, HarnessError> {
        let (lease, its_lease) = pair()?;
        let (doorbell, its_doorbell) = pair()?;
        let driver =
            NvmeOptions { depth, transfer_bytes_max: bytes.next_power_of_two().max(4_096), ..NvmeOptions::default() };
        let layout = SharedLayout::new(&driver, depth.next_power_of_two(), driver.transfer_bytes_max);
        let memory = layout.allocate().map_err(|error| failed(&error))?;
        let (units, number) = (self.units / count, self.leases.len() as u64);
        let order = TenantConfig {
            tenant: number + 1,
            area: number + 1,
            account: number as u32 + 1,
            extents: vec![Extent { unit: FIRST_UNIT + number * units, units }],
            bytes: units * UNIT_BYTES,
            read_only: false,
            limits: AreaLimits::default(),
            ceiling: AreaLimits::default(),
            layout,
        };
        let beside = [memory.as_fd(), its_doorbell.as_fd(), its_lease.as_fd()];
        send(self.orders.as_fd(), Order::Open(Box::new(order)), &beside).map_err(|fault| failed(&fault))?;
        match self.report()? {
            Report::Opened { .. } => {}
            other => return Err(failed(&format_args!("{other:?}"))),
        }
        self.leases.push(lease);
        Ok(Area { area: SharedArea { memory, doorbell, layout }, driver })
    }

    fn report(&self) -> Result<Report, HarnessError> {
        // A signal is as good as a report that is missing: it ends the measurement.
        let is_there =
            poll(&mut [PollFd::new(&self.orders, PollFlags::IN)], Some(&PATIENCE)).is_ok_and(|count| count > 0);
        if !is_there {
            return Err(HarnessError::Child("the disk core says nothing".to_owned()));
        }
        let (report, _) =
            receive(self.orders.as_fd(), &mut vec![0; ORDER_BYTES_MAX]).map_err(|fault| failed(&fault))?;
        Ok(report)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
