//! A disk core over a simulated disk, with applications in the same thread: each turn is the test's.

use qanat_disk::area::{AreaLimits, Extent};
use qanat_disk::disk_core::{Closed, CoreTurn, DiskCore, TenantConfig, TenantDescriptors, TenantError};
use qanat_disk::nvme::{Nvme, NvmeOptions};
use qanat_disk::shared::{SharedArea, SharedLayout, SharedTransport};
use qanat_disk::{Completion, Geometry, Media, Operation, Request, Sim, SimConfig, StorageError, Vsic, VsicStatistics};
use qanat_nic::{Clock, Frame, ManualClock, Pool, Region};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::RefCell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// Units of 4 KiB on the disk.
pub const UNITS: u64 = 720;
/// Blocks of 512 bytes in a unit.
pub const UNIT_BLOCKS: u64 = 8;
/// What lies on the disk outside of all that a test writes.
pub const PATTERN: u8 = 0xa5;

pub type Disk = Nvme<SharedTransport, ManualClock>;

/// The options that all applications here have.
pub fn options() -> NvmeOptions {
    NvmeOptions { depth: 32, ..NvmeOptions::default() }
}

pub fn layout() -> SharedLayout {
    SharedLayout::new(&options(), 64, 16_384)
}

pub fn extents(of: &[(u64, u64)]) -> Vec<Extent> {
    of.iter().map(|(unit, units)| Extent { unit: *unit, units: *units }).collect()
}

/// The first application's area: 512 blocks.
pub fn first_area() -> Vec<Extent> {
    extents(&[(520, 64)])
}

/// Another's: as many, in two pieces.
pub fn second_area() -> Vec<Extent> {
    extents(&[(640, 32), (600, 32)])
}

pub const AREA_BYTES: u64 = 64 * 4_096;

/// An area for an application that shares neither it nor its account with another.
pub fn config(tenant: u64, extents: Vec<Extent>, limits: AreaLimits) -> TenantConfig {
    TenantConfig {
        tenant,
        area: tenant,
        account: tenant as u32,
        extents,
        bytes: AREA_BYTES,
        read_only: false,
        limits,
        ceiling: AreaLimits::default(),
        layout: layout(),
    }
}

/// A disk core, and what a test sees of it.
#[derive(Clone)]
pub struct House {
    pub core: Rc<RefCell<DiskCore<Sim>>>,
    pub clock: ManualClock,
    pub media: Media,
}

impl House {
    pub fn new(sim: SimConfig) -> House {
        let media = Media::new(UNITS * UNIT_BLOCKS, 512);
        fill(&media);
        let core = Rc::new(RefCell::new(DiskCore::new(Sim::new(&media, sim))));
        House { core, clock: ManualClock::new(), media }
    }

    /// A turn, which takes 10 µs.
    pub fn turn(&self) -> CoreTurn {
        self.clock.advance(Duration::from_micros(10));
        self.core.borrow_mut().turn(self.clock.now())
    }

    pub fn turns(&self, count: usize) {
        (0..count).for_each(|_| _ = self.turn());
    }

    pub fn closed(&self) -> Option<Closed> {
        self.core.borrow_mut().next_closed()
    }

    /// Gives an application an area: what the application has of it, and the other end of its lease.
    pub fn give(&self, tenant: u64, extents: Vec<Extent>, limits: AreaLimits) -> (SharedArea, OwnedFd) {
        self.try_give(config(tenant, extents, limits)).unwrap()
    }

    pub fn try_give(&self, config: TenantConfig) -> Result<(SharedArea, OwnedFd), TenantError> {
        let layout = config.layout;
        let memory = layout.allocate()?;
        let ((doorbell, its), (lease, its_lease)) = (pair(), pair());
        let descriptors = TenantDescriptors { memory: memory.try_clone().unwrap(), doorbell: its, lease: its_lease };
        self.core.borrow_mut().open(&config, descriptors)?;
        Ok((SharedArea { memory, doorbell, layout }, lease))
    }

    /// An application that drives its area as it should.
    pub fn honest(&self, tenant: u64, extents: Vec<Extent>, limits: AreaLimits) -> Tenant {
        self.honest_by(config(tenant, extents, limits))
    }

    /// The same, by the whole configuration.
    pub fn honest_by(&self, config: TenantConfig) -> Tenant {
        let (area, lease) = self.try_give(config).unwrap();
        let house = self.clone();
        let turns = Box::new(move || _ = house.turn());
        let (disk, pool) = area.open_with(self.clock.clone(), options(), Some(turns)).unwrap();
        Tenant { house: self.clone(), disk, pool, lease }
    }

    /// Whether the disk is as it was made outside of these extents.
    pub fn is_untouched_but(&self, extents: &[Extent]) -> bool {
        let is_theirs =
            |unit: u64| extents.iter().any(|extent| (extent.unit..extent.unit + extent.units).contains(&unit));
        let bytes = self.media.bytes();
        (0..).zip(bytes.chunks(4_096)).all(|(unit, bytes)| is_theirs(unit) || bytes.iter().all(|byte| *byte == PATTERN))
    }
}

pub fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Whether the other end of a pair is closed.
pub fn is_closed(end: &OwnedFd) -> bool {
    rustix::net::recv(end, &mut [0_u8; 1], rustix::net::RecvFlags::DONTWAIT).is_ok_and(|(length, _)| length == 0)
}

/// Writes the pattern everywhere.
fn fill(media: &Media) {
    let mut disk = Sim::new(media, SimConfig::default());
    let pool = Region::new(1, 4_096).unwrap().pool(1).unwrap();
    for unit in 0..UNITS {
        let mut frame = frame_of(&pool, 4_096);
        frame.bytes_mut().fill(PATTERN);
        let operation = Operation::Write { block: unit * UNIT_BLOCKS, frame, durable: true };
        assert_eq!(qanat_disk_suite::one(&mut disk, operation).result, Ok(()));
    }
}

pub fn frame_of(pool: &Pool, bytes: usize) -> Frame {
    let mut frame = pool.allocate(0).unwrap();
    frame.append(bytes).unwrap();
    frame
}

/// An honest application. Each look for completions gives the core a turn.
pub struct Tenant {
    pub house: House,
    pub disk: Disk,
    pub pool: Pool,
    pub lease: OwnedFd,
}

impl Tenant {
    /// Does a request within so many turns; how many it took.
    pub fn within(&mut self, turns_max: usize, operation: Operation) -> (Completion, usize) {
        self.disk.submit(Request { token: 5, operation }).unwrap();
        self.disk.ring();
        let mut completions = Vec::new();
        for turn in 1..=turns_max {
            self.house.turn();
            if self.disk.complete(&mut completions, 1) > 0 {
                return (completions.pop().unwrap(), turn);
            }
        }
        panic!("no end within {turns_max} turns");
    }

    /// Writes a byte everywhere in `bytes` from `block` on, and reads it again.
    pub fn write_and_read(&mut self, turns_max: usize, block: u64, bytes: usize, byte: u8) -> Result<(), StorageError> {
        let mut frame = frame_of(&self.pool, bytes);
        frame.bytes_mut().fill(byte);
        let written = self.within(turns_max, Operation::Write { block, frame, durable: false }).0;
        written.result?;
        let (read, _) = self.within(turns_max, Operation::Read { block, frame: frame_of(&self.pool, bytes) });
        read.result?;
        assert!(read.frame.unwrap().bytes().iter().all(|found| *found == byte), "what was written is read");
        Ok(())
    }
}

impl Vsic for Tenant {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn room(&self) -> usize {
        self.disk.room()
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        self.disk.submit(request)
    }

    fn ring(&mut self) {
        self.disk.ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        self.house.turn();
        self.disk.complete(completions, completions_max)
    }

    fn in_flight(&self) -> usize {
        self.disk.in_flight()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.disk.doorbell()
    }

    fn statistics(&self) -> VsicStatistics {
        self.disk.statistics()
    }
}
