//! The process of a disk core: takes the daemon's orders, gives up its rights once it has the disk, and serves areas.
//!
//! ```text
//!  orders ─ Disk, Function ─▶ opens the ring, or brings the controller up; gives up its rights ─▶ Ready
//!         ─ Open, Grow, Limit, Close ─▶ DiskCore ─▶ Opened, Grown, Refused, Closed
//! ```
//! It ends when the daemon does: nobody else would know which areas it serves. What its applications have under way ends with an error at
//! their drivers, once each.

use crate::confine::{ConfineError, Confinement, confine_disk_core};
use qanat_control::disk_core::{ORDER_BYTES_MAX, Order, Report};
use qanat_control::protocol::{Fault, receive, send};
use qanat_disk::disk_core::{Backend, DiskCore, PIECES_MAX, TenantDescriptors, TenantError};
use qanat_disk::nvme::vfio::{FunctionTransport, NvmeOpenError, open_function};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::{DiskFile, OpenError, Uring};
use qanat_nic::vfio::{Function, FunctionDescriptors};
use qanat_nic::{Clock, MonotonicClock, Spin, SpinPolicy, Time};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// Turns between two looks at the daemon's orders, at most, while there is something to do.
const TURNS_PER_LOOK: u32 = 64;
/// Orders taken at one look.
const ORDERS_PER_LOOK: usize = 8;
/// How long it sleeps at most while its disk has requests: the driver of a controller looks then whether they are overdue.
const WATCH: Duration = Duration::from_millis(250);
/// The same while its disk takes none, because it is being reset.
const RESET: Duration = Duration::from_millis(1);
/// Descriptors it may have: three of each tenant, and its own.
const DESCRIPTORS_MAX: u64 = 256;

/// Why a disk core does not start, or ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskCoreError {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] OpenError),
    /// The disk, a function.
    #[error(transparent)]
    Function(#[from] NvmeOpenError),
    /// The controller does nothing any more.
    #[error("the controller has failed, or was reset by somebody else: the daemon opens the disk again")]
    Gone,
    /// What it could not give up.
    #[error("the disk core can't give up its rights: {0}")]
    Confine(#[from] ConfineError),
    /// The daemon says what can't be understood.
    #[error("the daemon's orders: {0}")]
    Orders(Fault),
    /// An order came without its descriptors, or not in its turn.
    #[error("the daemon's orders: {0} without its descriptors, or not in its turn")]
    Order(&'static str),
    /// A limit could not be set.
    #[error("a limit of {DESCRIPTORS_MAX} descriptors: {0}")]
    Limit(std::io::Error),
}

/// The daemon's end.
struct Orders {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Orders {
    /// The next order; `None`: there is none now.
    fn next(&mut self) -> Result<Option<(Order, Vec<OwnedFd>)>, DiskCoreError> {
        match receive(self.socket.as_fd(), &mut self.buffer) {
            Ok(order) => Ok(Some(order)),
            Err(Fault::Empty) => Ok(None),
            Err(fault) => Err(DiskCoreError::Orders(fault)),
        }
    }

    fn wait(&self) {
        // EINTR is as good as an order: the caller looks.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], None);
    }

    fn say(&self, report: Report) -> Result<(), DiskCoreError> {
        // A daemon that does not listen is gone, or no use: all that it does not know of would be lost.
        send(self.socket.as_fd(), report, &[]).map_err(DiskCoreError::Orders)
    }
}

/// Serves until the daemon closes `orders`, a `SOCK_SEQPACKET` socket that does not block. `spin`: when it sleeps, while somebody has an
/// area.
///
/// # Errors
/// [`DiskCoreError`].
pub fn serve(orders: OwnedFd, spin: SpinPolicy) -> Result<(), DiskCoreError> {
    let mut orders = Orders { socket: orders, buffer: vec![0; ORDER_BYTES_MAX] };
    let served = begin(&mut orders).and_then(|begun| match begun {
        Begun::File(core) => work(*core, &mut orders, spin),
        Begun::Function(core) => work(*core, &mut orders, spin),
    });
    match served {
        Err(DiskCoreError::Orders(Fault::Closed)) => Ok(()),
        outcome => outcome,
    }
}

/// A disk core that has its disk.
enum Begun {
    File(Box<DiskCore<Uring>>),
    Function(Box<DiskCore<Nvme<FunctionTransport>>>),
}

/// Waits for the disk, and gives up what is not needed for serving it.
fn begin(orders: &mut Orders) -> Result<Begun, DiskCoreError> {
    let (order, beside) = loop {
        match orders.next()? {
            Some(order) => break order,
            None => orders.wait(),
        }
    };
    match order {
        Order::Disk { name, depth } => {
            let [disk] = <[OwnedFd; 1]>::try_from(beside).map_err(|_| DiskCoreError::Order("the disk"))?;
            let file = DiskFile::over(disk, Path::new(&name), depth)?;
            let core = Box::new(DiskCore::new(Uring::fenced(file, PIECES_MAX)?));
            give_up(&core, false, orders)?;
            Ok(Begun::File(core))
        }
        Order::Function { address, identity, namespace, depth } => {
            let beside = <[OwnedFd; 3]>::try_from(beside).map_err(|_| DiskCoreError::Order("the function"))?;
            let [device, group, container] = beside;
            let descriptors = FunctionDescriptors { address, identity, device, group, container };
            let options = NvmeOptions { depth, namespace, ..NvmeOptions::default() };
            let function = Function::over(descriptors).map_err(NvmeOpenError::from);
            match function.and_then(|function| open_function(function, options, &[])) {
                Ok(disk) => {
                    let core = Box::new(DiskCore::new(disk));
                    give_up(&core, true, orders)?;
                    Ok(Begun::Function(core))
                }
                Err(error) => {
                    orders.say(Report::Refused { tenant: 0, why: error.to_string() })?;
                    Err(error.into())
                }
            }
        }
        _ => Err(DiskCoreError::Order("the disk")),
    }
}

/// Gives up what is not needed any more, and says so.
fn give_up<V: Backend>(core: &DiskCore<V>, has_function: bool, orders: &Orders) -> Result<(), DiskCoreError> {
    let limit = Rlimit { current: Some(DESCRIPTORS_MAX), maximum: Some(DESCRIPTORS_MAX) };
    setrlimit(Resource::Nofile, limit).map_err(|error| DiskCoreError::Limit(error.into()))?;
    if has_function {
        // What applications lend is pinned, and counts for this process. Each one's is bounded by the daemon. If it can't be raised,
        // data are copied where it is reached.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
    }
    let Confinement { user, landlock, seccomp } = confine_disk_core(has_function)?;
    let given_up = [("user", user), ("landlock", landlock), ("seccomp", seccomp)];
    let confinement = given_up.iter().filter(|(_, is_so)| *is_so).map(|(what, _)| (*what).to_owned()).collect();
    orders.say(Report::Ready { geometry: core.geometry(), confinement })
}

fn work<V: Backend>(mut core: DiskCore<V>, orders: &mut Orders, policy: SpinPolicy) -> Result<(), DiskCoreError> {
    let clock = MonotonicClock::new();
    let mut spin = Spin::new(policy);
    let (mut last_did, mut turns) = (clock.now(), 0_u32);
    loop {
        let now = clock.now();
        let turn = core.turn(now);
        while let Some(closed) = core.next_closed() {
            let (tenant, why, statistics) = (closed.tenant, closed.why, closed.statistics);
            orders.say(Report::Closed { tenant, why, statistics })?;
        }
        if core.is_gone() {
            return Err(DiskCoreError::Gone);
        }
        turns = turns.wrapping_add(1);
        if turn.has_more {
            last_did = now;
        }
        // Nobody is to be quick for if nobody has an area.
        let may_sleep = !turn.has_more && (core.is_idle() || spin.should_sleep(now.since(last_did)));
        if may_sleep || turns.is_multiple_of(TURNS_PER_LOOK) {
            if hear(&mut core, orders)? {
                last_did = now;
            } else if may_sleep {
                let asleep = clock.now();
                let due = turn.due.map(|due: Time| due.since(asleep));
                core.sleep(orders.socket.as_fd(), due.into_iter().chain(patience(core.disk())).min());
                last_did = clock.now();
                spin.slept(last_did.since(asleep));
            }
        }
    }
}

/// How long at most the disk is not looked at, if it does not ring.
fn patience(disk: &impl Backend) -> Option<Duration> {
    match (disk.in_flight(), disk.room()) {
        (0, 0) => Some(RESET),
        (0, _) => None,
        _ => Some(WATCH),
    }
}

/// Does what the daemon has ordered; whether there was anything.
fn hear<V: Backend>(core: &mut DiskCore<V>, orders: &mut Orders) -> Result<bool, DiskCoreError> {
    for count in 0..ORDERS_PER_LOOK {
        let Some((order, beside)) = orders.next()? else { return Ok(count > 0) };
        let done = |tenant, outcome: Result<(), TenantError>, report| match outcome {
            Ok(()) => report,
            Err(error) => Report::Refused { tenant, why: error.to_string() },
        };
        match order {
            Order::Disk { .. } | Order::Function { .. } => return Err(DiskCoreError::Order("a second disk")),
            Order::OpenWhole { tenant, layout } => {
                let Ok([memory, doorbell, lease]) = <[OwnedFd; 3]>::try_from(beside) else {
                    return Err(DiskCoreError::Order("all of the disk"));
                };
                let opened = core.open_whole(tenant, layout, TenantDescriptors { memory, doorbell, lease });
                orders.say(done(tenant, opened, Report::Opened { tenant }))?;
            }
            Order::Open(config) => {
                let Ok([memory, doorbell, lease]) = <[OwnedFd; 3]>::try_from(beside) else {
                    return Err(DiskCoreError::Order("an area"));
                };
                let tenant = config.tenant;
                let opened = core.open(&config, TenantDescriptors { memory, doorbell, lease });
                orders.say(done(tenant, opened, Report::Opened { tenant }))?;
            }
            Order::Grow { tenant, extents, bytes } => {
                orders.say(done(tenant, core.grow(tenant, &extents, bytes), Report::Grown { tenant, bytes }))?;
            }
            Order::Limit { tenant, limits } => {
                orders.say(done(tenant, core.limit(tenant, limits), Report::Limited { tenant }))?;
            }
            // One that is gone already has been told of.
            Order::Close { tenant } => _ = core.close(tenant),
            Order::Statistics => {
                for (tenant, statistics) in core.statistics() {
                    orders.say(Report::Statistics { tenant, statistics })?;
                }
            }
        }
    }
    Ok(true)
}
