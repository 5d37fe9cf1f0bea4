//! A disk core's process, with this test for its daemon and its applications. No root needed; as root it gives up its user as well.
#![forbid(unsafe_code)]

use qanat::nic::{MonotonicClock, Pool};
use qanat_control::disk_core::{Closing, ORDER_BYTES_MAX, Order, Report, TenantConfig};
use qanat_control::protocol::{Fault, receive, send};
use qanat_disk::area::{AreaError, AreaLimits, AreaName, Areas, Extent, Owner};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::shared::{SharedArea, SharedLayout, SharedTransport};
use qanat_disk::{Completion, DiskFile, DiskOptions, Operation, Request, StorageError, Uring, Vsic};
use qanat_nic::vfio::Identity;
use qanat_tests::e2e::qanat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const UNITS: u64 = 1_024;
const AREA_BYTES: u64 = 64 * 4_096;
const FIRST: Extent = Extent { unit: 520, units: 64 };
const SECOND: Extent = Extent { unit: 600, units: 64 };

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair")
}

/// What an application is to have, without limits.
fn config(tenant: u64, extent: Extent, bytes: u64, layout: SharedLayout) -> TenantConfig {
    let (account, limits) = (tenant as u32, AreaLimits::default());
    let extents = vec![extent];
    TenantConfig { tenant, area: tenant, account, extents, bytes, read_only: false, limits, ceiling: limits, layout }
}

fn waits(socket: BorrowedFd<'_>) -> bool {
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN)], Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// A disk core, and the file it serves.
struct Core {
    child: Child,
    orders: OwnedFd,
    ready: Report,
}

impl Core {
    fn start(path: &std::path::Path) -> Core {
        let (orders, its) = pair();
        let child = Command::new(qanat()).arg("disk-core").stdin(Stdio::from(its)).stdout(Stdio::null()).spawn();
        let mut core = Core { child: child.expect("it starts"), orders, ready: Report::Opened { tenant: 0 } };
        let options = DiskOptions { exclusive: false, ..DiskOptions::default() };
        let disk = DiskFile::open(path, options).expect("the disk");
        core.order(Order::Disk { name: path.display().to_string(), depth: 64 }, &[disk.as_fd()]);
        core.ready = core.report();
        core
    }

    fn order(&self, order: Order, beside: &[BorrowedFd<'_>]) {
        send(self.orders.as_fd(), order, beside).expect("it listens");
    }

    fn report(&self) -> Report {
        assert!(waits(self.orders.as_fd()), "it reports");
        receive(self.orders.as_fd(), &mut vec![0; ORDER_BYTES_MAX]).expect("a report").0
    }

    /// An area for an application: what the application has, and the daemon's end of the lease.
    fn open(&self, tenant: u64, extent: Extent) -> (SharedArea, OwnedFd) {
        let layout = SharedLayout::new(&NvmeOptions::default(), 64, 16_384);
        let ((doorbell, its), (lease, its_lease)) = (pair(), pair());
        let memory = layout.allocate().expect("memory");
        let order = config(tenant, extent, AREA_BYTES, layout);
        self.order(Order::Open(Box::new(order)), &[memory.as_fd(), its.as_fd(), its_lease.as_fd()]);
        assert_eq!(self.report(), Report::Opened { tenant });
        (SharedArea { memory, doorbell, layout }, lease)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is there");
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An application.
struct Tenant {
    disk: Nvme<SharedTransport, MonotonicClock>,
    pool: Pool,
}

impl Tenant {
    fn new(area: SharedArea) -> Tenant {
        let (disk, pool) = area.open(MonotonicClock::new(), NvmeOptions::default()).expect("it comes up");
        Tenant { disk, pool }
    }

    fn one(&mut self, operation: Operation) -> Completion {
        self.disk.submit(Request { token: 1, operation }).expect("there is room");
        let mut completions = Vec::new();
        while completions.is_empty() {
            self.disk.wait(Duration::from_secs(5));
            self.disk.complete(&mut completions, 1);
        }
        completions.pop().expect("one")
    }

    fn write(&mut self, block: u64, byte: u8) -> Result<(), StorageError> {
        let mut frame = self.pool.allocate(0).expect("a frame");
        frame.append(4_096).expect("it fits").fill(byte);
        self.one(Operation::Write { block, frame, durable: true }).result
    }

    fn read(&mut self, block: u64) -> Vec<u8> {
        let mut frame = self.pool.allocate(0).expect("a frame");
        frame.append(4_096).expect("it fits");
        let completion = self.one(Operation::Read { block, frame });
        assert_eq!(completion.result, Ok(()));
        completion.frame.expect("its frame").bytes().to_vec()
    }
}

/// A disk. Not in /tmp, which may have no direct I/O.
fn disk() -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.as_file().set_len(UNITS * 4_096).expect("it grows");
    file.into_temp_path()
}

/// Blocks of the disk in a unit: the file system says how large they are.
fn unit_blocks(core: &Core) -> u64 {
    let Report::Ready { geometry, .. } = &core.ready else { panic!("{:?}", core.ready) };
    4_096 / u64::from(geometry.block_bytes)
}

#[test]
fn it_serves_areas_confined_and_answers_its_daemon() {
    let path = disk();
    let core = Core::start(&path);
    let Report::Ready { confinement, .. } = &core.ready else { panic!("{:?}", core.ready) };
    assert!(confinement.iter().any(|what| what == "seccomp"), "{confinement:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", core.child.id())).expect("its status");
    let has = |line: &str| status.lines().any(|found| found == line);
    assert!(has("Seccomp:\t2") && has("NoNewPrivs:\t1") && has("CapEff:\t0000000000000000"), "{status}");
    assert!(!has("Uid:\t0\t0\t0\t0"), "it is not root");
    let (first, first_lease) = core.open(1, FIRST);
    let (second, _second_lease) = core.open(2, SECOND);
    let (mut first, mut second) = (Tenant::new(first), Tenant::new(second));
    let unit = unit_blocks(&core);
    for step in 0..64 {
        assert_eq!((first.write(step * unit, 1), second.write(step * unit, 2)), (Ok(()), Ok(())));
    }
    assert!(first.read(5 * unit).iter().all(|byte| *byte == 1) && second.read(5 * unit).iter().all(|byte| *byte == 2));
    assert_eq!(first.write(64 * unit, 1), Err(StorageError::OutOfRange));
    let bytes = std::fs::read(&path).expect("the disk");
    for (place, bytes) in (0..).zip(bytes.chunks(4_096)) {
        let is_in = |extent: Extent| (extent.unit..extent.unit + extent.units).contains(&place);
        let expected = u8::from(is_in(FIRST)) + 2 * u8::from(is_in(SECOND));
        assert!(bytes.iter().all(|byte| *byte == expected), "unit {place}");
    }
    core.order(Order::Statistics, &[]);
    let statistics = [core.report(), core.report()];
    let is_sound = |report: &Report| matches!(report, Report::Statistics { statistics, .. } if statistics.lent >= 64);
    assert!(statistics.iter().all(is_sound), "{statistics:?}");
    let limits = AreaLimits { requests_per_second: 10, bytes_per_second: 0 };
    core.order(Order::Limit { tenant: 2, limits }, &[]);
    assert_eq!(core.report(), Report::Limited { tenant: 2 });
    let larger =
        Order::Grow { tenant: 1, extents: vec![FIRST, Extent { unit: 700, units: 1 }], bytes: AREA_BYTES + 4_096 };
    core.order(larger, &[]);
    assert_eq!(core.report(), Report::Grown { tenant: 1, bytes: AREA_BYTES + 4_096 });
    // An application that sleeps on its doorbell learns of it.
    while first.disk.geometry().blocks < 65 * unit {
        assert!(first.disk.doorbell().is_some_and(waits), "it is woken");
        first.disk.complete(&mut Vec::new(), 0);
    }
    assert_eq!(first.write(64 * unit, 3), Ok(()));
    core.order(Order::Grow { tenant: 9, extents: Vec::new(), bytes: 0 }, &[]);
    assert!(matches!(core.report(), Report::Refused { tenant: 9, .. }));
    core.order(Order::Close { tenant: 1 }, &[]);
    assert!(matches!(core.report(), Report::Closed { tenant: 1, why: Closing::Asked, .. }));
    assert!(waits(first_lease.as_fd()), "the lease is over");
    assert_eq!(first.write(0, 9), Err(StorageError::Gone));
    drop(second);
    assert!(matches!(core.report(), Report::Closed { tenant: 2, why: Closing::Left, .. }));
}

#[test]
fn it_is_killed_and_everything_ends_once_and_another_serves_the_same() {
    let path = disk();
    let core = Core::start(&path);
    let unit = unit_blocks(&core);
    let (area, _lease) = core.open(1, FIRST);
    let mut tenant = Tenant::new(area);
    assert_eq!(tenant.write(unit, 7), Ok(()));
    // Stopped, it has these for certain when it is killed.
    core.signal(Signal::STOP);
    for token in 0..16 {
        let mut frame = tenant.pool.allocate(0).expect("a frame");
        frame.append(4_096).expect("it fits");
        tenant.disk.submit(Request { token, operation: Operation::Read { block: 0, frame } }).expect("room");
    }
    tenant.disk.ring();
    drop(core);
    let mut completions = Vec::new();
    while tenant.disk.in_flight() > 0 {
        tenant.disk.wait(Duration::from_secs(5));
        tenant.disk.complete(&mut completions, usize::MAX);
    }
    let mut tokens: Vec<u64> = completions.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..16).collect::<Vec<_>>(), "once each");
    assert!(completions.iter().all(|completion| completion.result == Err(StorageError::Gone)), "{completions:?}");
    let next = Core::start(&path);
    let (area, _lease) = next.open(1, FIRST);
    assert!(Tenant::new(area).read(unit).iter().all(|byte| *byte == 7), "what was durable is there");
}

#[test]
fn applications_that_are_stopped_or_killed_hold_up_nobody() {
    let path = disk();
    let core = Core::start(&path);
    let unit = unit_blocks(&core);
    let (first, _lease) = core.open(1, FIRST);
    let mut neighbour = Tenant::new(first);
    let (second, lease) = core.open(2, SECOND);
    // A process that has the doorbell, and becomes another program with it.
    let script = "exec sleep 1000";
    let child = Command::new("sh").args(["-c", script]).stdin(Stdio::from(second.doorbell)).spawn();
    let mut child = child.expect("a shell");
    let pid = Pid::from_child(&child);
    for signal in [Signal::STOP, Signal::CONT, Signal::STOP] {
        kill_process(pid, signal).expect("it is there");
        assert_eq!(neighbour.write(0, 4), Ok(()));
        assert!(neighbour.read(0).iter().all(|byte| *byte == 4));
    }
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    assert!(matches!(core.report(), Report::Closed { tenant: 2, why: Closing::Left, .. }));
    assert!(waits(lease.as_fd()), "the lease is over");
    // The disk core itself stands still for a while: everything goes on where it was.
    core.signal(Signal::STOP);
    let mut frame = neighbour.pool.allocate(0).expect("a frame");
    frame.append(4_096).expect("it fits").fill(5);
    let operation = Operation::Write { block: unit, frame, durable: false };
    neighbour.disk.submit(Request { token: 3, operation }).expect("room");
    neighbour.disk.ring();
    core.signal(Signal::CONT);
    let mut completions = Vec::new();
    while completions.is_empty() {
        neighbour.disk.wait(Duration::from_secs(5));
        neighbour.disk.complete(&mut completions, 1);
    }
    assert_eq!(completions[0].result, Ok(()));
}

#[test]
fn descriptors_that_are_none_of_its_kind_are_refused() {
    let path = disk();
    let core = Core::start(&path);
    let layout = SharedLayout::new(&NvmeOptions::default(), 4, 4_096);
    let order = |tenant, extent| {
        let order = config(tenant, extent, 4_096, layout);
        Order::Open(Box::new(order))
    };
    let null: OwnedFd = std::fs::File::open("/dev/null").expect("it is there").into();
    let eventfd = rustix::event::eventfd(u32::MAX, rustix::event::EventfdFlags::CLOEXEC).expect("an eventfd");
    let ((socket, _other), (lease, its)) = (pair(), pair());
    for (tenant, memory) in (1..).zip([&null, &eventfd, &socket]) {
        core.order(order(tenant, FIRST), &[memory.as_fd(), socket.as_fd(), its.as_fd()]);
        assert!(matches!(core.report(), Report::Refused { tenant: found, .. } if found == tenant));
    }
    let memory = layout.allocate().expect("memory");
    core.order(order(4, Extent { unit: 0, units: 1 }), &[memory.as_fd(), socket.as_fd(), its.as_fd()]);
    assert!(matches!(core.report(), Report::Refused { tenant: 4, .. }), "the superblock is no area");
    // What is no socket has no other end: it is taken for an application that is gone, and blocks nobody.
    core.order(order(5, FIRST), &[memory.as_fd(), eventfd.as_fd(), its.as_fd()]);
    assert_eq!(core.report(), Report::Opened { tenant: 5 });
    assert!(matches!(core.report(), Report::Closed { tenant: 5, why: Closing::Left, .. }));
    drop(its);
    assert!(waits(lease.as_fd()));
    let (area, _lease) = core.open(6, SECOND);
    assert_eq!(Tenant::new(area).write(0, 1), Ok(()), "it serves others");
    // An order without its descriptors is no order of a daemon's.
    let mut core = core;
    core.order(order(7, FIRST), &[]);
    assert!(!core.child.wait().expect("it ends").success());
}

/// As the daemon has a disk that only its core reaches.
#[test]
fn the_daemon_keeps_the_table_by_way_of_the_core() {
    let path = disk();
    let core = Core::start(&path);
    let options = NvmeOptions { depth: 8, ..NvmeOptions::default() };
    let layout = SharedLayout::new(&options, 2, 512 << 10);
    let whole = |tenant: u64| {
        let ((doorbell, its), (_, lease)) = (pair(), pair());
        let memory = layout.allocate().expect("memory");
        core.order(Order::OpenWhole { tenant, layout }, &[memory.as_fd(), its.as_fd(), lease.as_fd()]);
        assert_eq!(core.report(), Report::Opened { tenant });
        SharedArea { memory, doorbell, layout }.open_region(MonotonicClock::new(), options).expect("it comes up")
    };
    let (disk, memory) = whole(u64::MAX);
    assert!(matches!(Areas::open(disk, &memory), Err(AreaError::Unprepared)));
    let closed = core.report();
    assert!(matches!(closed, Report::Closed { tenant: u64::MAX, why: Closing::Left, .. }), "{closed:?}");
    let (disk, memory) = whole(u64::MAX - 1);
    let mut areas = Areas::prepare(disk, &memory, [7; 16]).expect("the disk is empty");
    let owner = Owner { uid: 1, gid: 1 };
    let id = areas.create(AreaName::new("logs").expect("a name"), owner, AREA_BYTES).expect("there is room");
    while areas.zero_some(id, 1 << 20).expect("it can be zeroed") > 0 {}
    let extents = areas.iter().next().expect("it").extents().to_vec();
    let [extent] = extents.as_slice() else { panic!("{extents:?}") };
    let (area, _lease) = core.open(1, *extent);
    let mut tenant = Tenant::new(area);
    assert_eq!(tenant.write(0, 5), Ok(()));
    drop(areas);
    drop(tenant);
    drop(core);
    // The table is on the disk, for whoever opens it next.
    let memory = Areas::<Uring>::memory().expect("memory");
    let file = Uring::open(&path, DiskOptions::default(), std::slice::from_ref(&memory)).expect("the disk");
    let (areas, repairs) = Areas::open(file, &memory).expect("it was prepared");
    assert!(
        repairs.is_empty() && areas.iter().any(|area| area.name().as_str() == "logs" && area.bytes() == AREA_BYTES)
    );
    let bytes = std::fs::read(&path).expect("the disk");
    assert!(bytes[extent.unit as usize * 4_096..][..4_096].iter().all(|byte| *byte == 5));
}

#[test]
fn descriptors_that_are_no_function_end_a_core_with_the_reason() {
    let (orders, its) = pair();
    let child = Command::new(qanat()).arg("disk-core").stdin(Stdio::from(its)).stdout(Stdio::null()).spawn();
    let core = Core { child: child.expect("it starts"), orders, ready: Report::Opened { tenant: 0 } };
    let nothing = std::fs::File::open("/dev/null").expect("there is one");
    let identity = Identity { vendor: 0x1b36, device: 0x10, class: 0x01_0802 };
    let address = "0000:01:00.0".parse().expect("an address");
    let order = Order::Function { address, identity, namespace: None, depth: 64 };
    core.order(order, &[nothing.as_fd(), nothing.as_fd(), nothing.as_fd()]);
    let Report::Refused { tenant: 0, why } = core.report() else { panic!("it is refused") };
    assert!(why.contains("IOMMU") || why.contains("0000:01:00.0"), "{why}");
    assert!(waits(core.orders.as_fd()), "it ends");
    let end = receive::<Report>(core.orders.as_fd(), &mut vec![0; ORDER_BYTES_MAX]);
    assert!(matches!(end, Err(Fault::Closed)), "{end:?}");
}
