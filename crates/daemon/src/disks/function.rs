//! Disks that are NVMe functions. Only the disk's core has the function: it is started first, and the disk's thread is an application of
//! it, which has all of the disk.
//!
//! ```text
//!   disk's thread ─ the function's descriptors ─▶ core ─▶ controller
//!        │  Areas ─ Nvme over shared memory ───────▲
//!        └──── the core's orders ─▶ loop
//! ```

use super::core::{DiskCoreStarter, StartedCore};
use super::error::DiskError;
use qanat_control::disk_core::{ORDER_BYTES_MAX, Order, Report};
use qanat_control::protocol::{Fault, FunctionWish, receive, send};
use qanat_disk::nvme::vfio::{NvmeOpenError, take};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::shared::{SharedArea, SharedLayout, SharedTransport};
use qanat_nic::foreign::refuse_rights;
use qanat_nic::vfio::{FunctionDescriptors, Sysfs};
use qanat_nic::{MonotonicClock, Region};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Requests that the controller may have at once.
const DEPTH: u32 = 256;
/// Those of the disk's thread, one after the other.
const OWN_DEPTH: u32 = 8;
/// The table is read and written by two buffers of this size.
const TABLE_BYTES: u32 = 512 << 10;
/// Bytes of the buffer of the core's orders.
const ORDERS_BYTES: usize = 16 * ORDER_BYTES_MAX;
/// How long a core may take to answer: a controller may take most of a minute to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// The whole disk, as its core gives it to the daemon.
pub(super) type WholeDisk = Nvme<SharedTransport>;

/// A core that has a function, until the loop has it. Dropped before, it is ended.
pub(super) struct FunctionCore {
    started: Option<StartedCore>,
    path: PathBuf,
    /// Numbers of the daemon's own, from the last one down: applications have those from 1 on.
    tenant: u64,
}

fn pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl FunctionCore {
    /// Starts a core for a function, and waits until it has brought the controller up.
    ///
    /// # Errors
    /// [`DiskError::Function`], [`DiskError::Core`].
    pub(super) fn start(wish: &FunctionWish, starter: &DiskCoreStarter) -> Result<FunctionCore, DiskError> {
        if wish.take {
            take(wish.address)?;
        }
        let descriptors = FunctionDescriptors::open(wish.address).map_err(NvmeOpenError::from)?;
        let path = wish.path();
        let failed = |error: std::io::Error| DiskError::Core { path: path.clone(), why: error.to_string() };
        let (ours, its) = pair().map_err(failed)?;
        sockopt::set_socket_send_buffer_size(&ours, ORDERS_BYTES).map_err(|error| failed(error.into()))?;
        let child = starter(its).map_err(failed)?;
        let started = Some(StartedCore { child, socket: ours });
        let core = FunctionCore { started, path: path.clone(), tenant: u64::MAX };
        let FunctionDescriptors { address, identity, device, group, container } = descriptors;
        let order = Order::Function { address, identity, namespace: wish.namespace, depth: DEPTH };
        core.order(order, [&device, &group, &container])?;
        // From here on the core alone has the function.
        drop((device, group, container));
        match core.answer()? {
            Report::Ready { .. } => Ok(core),
            report => Err(core.unexpected(&report)),
        }
    }

    /// All of the disk, and the memory by which its table is read and written.
    ///
    /// # Errors
    /// [`DiskError::Core`].
    pub(super) fn whole(&mut self) -> Result<(WholeDisk, Rc<Region>), DiskError> {
        let options = NvmeOptions { depth: OWN_DEPTH, ..NvmeOptions::default() };
        let layout = SharedLayout::new(&options, 2, TABLE_BYTES);
        let path = self.path.clone();
        let failed = |why: String| DiskError::Core { path: path.clone(), why };
        let tenant = self.tenant;
        self.tenant -= 1;
        let memory = layout.allocate().map_err(|error| failed(error.to_string()))?;
        let (doorbell, its) = pair().map_err(|error| failed(error.to_string()))?;
        // Nobody watches it: the disk is the daemon's as long as the core is.
        let (_, lease) = pair().map_err(|error| failed(error.to_string()))?;
        let _ = refuse_rights(doorbell.as_fd());
        let _ = refuse_rights(its.as_fd());
        self.order(Order::OpenWhole { tenant, layout }, [&memory, &its, &lease])?;
        match self.answer()? {
            Report::Opened { .. } => {}
            report => return Err(self.unexpected(&report)),
        }
        let area = SharedArea { memory, doorbell, layout };
        area.open_region(MonotonicClock::new(), options).map_err(|error| failed(error.to_string()))
    }

    /// It is the loop's from now on.
    pub(super) fn hand_over(mut self) -> Option<StartedCore> {
        self.started.take()
    }

    fn failed(&self, why: impl Into<String>) -> DiskError {
        DiskError::Core { path: self.path.clone(), why: why.into() }
    }

    fn unexpected(&self, report: &Report) -> DiskError {
        match report {
            Report::Refused { why, .. } => self.failed(why.as_str()),
            other => self.failed(format!("its core says {other:?} unasked")),
        }
    }

    fn socket(&self) -> Result<&OwnedFd, DiskError> {
        self.started.as_ref().map(|started| &started.socket).ok_or_else(|| self.failed("its core is gone"))
    }

    fn order(&self, order: Order, beside: [&OwnedFd; 3]) -> Result<(), DiskError> {
        let sent = send(self.socket()?.as_fd(), order, &beside.map(AsFd::as_fd));
        sent.map_err(|fault| self.failed(format!("its core takes no orders: {fault}")))
    }

    fn answer(&self) -> Result<Report, DiskError> {
        let (begun, mut buffer) = (Instant::now(), vec![0; ORDER_BYTES_MAX]);
        while begun.elapsed() < PATIENCE {
            match receive::<Report>(self.socket()?.as_fd(), &mut buffer) {
                // The daemon's own other turn with the disk is over.
                Ok((Report::Closed { .. }, _)) => {}
                Ok((report, _)) => return Ok(report),
                Err(Fault::Empty) => {
                    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                    // EINTR is as good as an answer: it is looked.
                    let _ = poll(&mut [PollFd::new(self.socket()?, PollFlags::IN)], Some(&second));
                }
                Err(Fault::Closed) => return Err(self.failed("its core has ended; the log says why")),
                Err(fault) => return Err(self.failed(fault.to_string())),
            }
        }
        Err(self.failed(format!("its core does not answer within {} s", PATIENCE.as_secs())))
    }
}

impl Drop for FunctionCore {
    fn drop(&mut self) {
        if let Some(StartedCore { mut child, socket }) = self.started.take() {
            drop(socket);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Gives a function back to the kernel's driver, if it was taken from it. The kernel waits until its core has let go.
pub(super) fn give_back(wish: &FunctionWish) -> std::io::Result<()> {
    let given = if wish.take { Sysfs::default().give_back(wish.address) } else { Ok(()) };
    given.map_err(std::io::Error::other)
}
