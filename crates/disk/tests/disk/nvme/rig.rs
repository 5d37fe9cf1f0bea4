//! A driver, a software controller and a simulated disk, in one thread.

use qanat_disk::controller::{Controller, ControllerConfig, Loopback, NamespaceConfig, RegionMemory};
use qanat_disk::nvme::{Mapping, Nvme, NvmeError, NvmeOptions, Transport};
use qanat_disk::{Completion, Geometry, Media, Request, Sim, SimConfig, Vsic, VsicStatistics};
use qanat_disk_suite::BLOCKS;
use qanat_nic::{Frame, ManualClock, Pool, Region};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// Where the driver's queues lie for the device, and its buffers.
pub const QUEUES_AT: u64 = 0x100_0000;
pub const BUFFERS_AT: u64 = 0x4000_0000;
/// The namespace begins here on the disk, and ends as many blocks before its end.
pub const FIRST_BLOCK: u64 = 40;

pub type SoftController = Rc<RefCell<Controller<Sim, RegionMemory>>>;

/// What a test has.
pub struct Rig<T: Transport> {
    pub controller: SoftController,
    pub nvme: Nvme<T, ManualClock>,
    pub clock: ManualClock,
    /// What the controller copies through.
    pub copies: Pool,
}

/// What of it can be chosen.
#[derive(Clone, Debug)]
pub struct Choice {
    pub sim: SimConfig,
    pub options: NvmeOptions,
    pub config: ControllerConfig,
    /// Frames that the controller copies through.
    pub copies: u32,
    pub media: Media,
}

impl Choice {
    pub fn new(sim: SimConfig) -> Choice {
        let options = NvmeOptions { depth: 32, ..NvmeOptions::default() };
        let config = ControllerConfig { transfer_bytes_max: 16_384, ..ControllerConfig::default() };
        Choice { sim, options, config, copies: 32, media: Media::new(BLOCKS + 2 * FIRST_BLOCK, 512) }
    }

    /// A driver that reaches the controller by what `transport` makes of the way to it; `region`: buffers are of this.
    pub fn open<T: Transport>(
        self,
        region: &Rc<Region>,
        transport: impl FnOnce(Loopback<Sim, RegionMemory>, &SoftController) -> T,
    ) -> Result<Rig<T>, NvmeError> {
        let Choice { sim, options, config, copies, media } = self;
        let queues = Region::new(1, options.memory_bytes().next_power_of_two() as u32).unwrap();
        let memory = RegionMemory::new(vec![(QUEUES_AT, Rc::clone(&queues)), (BUFFERS_AT, Rc::clone(region))]);
        let copies = Region::new(copies, 16_384).unwrap().pool(copies).unwrap();
        let blocks = media.blocks() - 2 * FIRST_BLOCK;
        let namespace = NamespaceConfig { backend: 0, first_block: FIRST_BLOCK, blocks, read_only: false };
        let backends = vec![Sim::new(&media, sim)];
        let controller = Controller::new(&config, backends, &[namespace], memory, copies.clone()).unwrap();
        let (controller, clock) = (Rc::new(RefCell::new(controller)), ManualClock::new());
        let loopback = Loopback::new(Rc::clone(&controller)).with_clock(clock.clone());
        let frame = queues.pool(1).unwrap().allocate(0).unwrap();
        let nvme = Nvme::open(
            transport(loopback, &controller),
            clock.clone(),
            options,
            (Mapping { region: queues, address: QUEUES_AT }, frame),
            vec![Mapping { region: Rc::clone(region), address: BUFFERS_AT }],
        )?;
        Ok(Rig { controller, nvme, clock, copies })
    }
}

/// Each look for completions gives the controller a turn.
impl<T: Transport> Vsic for Rig<T> {
    fn geometry(&self) -> Geometry {
        self.nvme.geometry()
    }

    fn room(&self) -> usize {
        self.nvme.room()
    }

    fn submit(&mut self, request: Request) -> Result<(), Request> {
        self.nvme.submit(request)
    }

    fn ring(&mut self) {
        self.nvme.ring();
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        self.controller.borrow_mut().turn(16);
        self.nvme.complete(completions, completions_max)
    }

    fn in_flight(&self) -> usize {
        self.nvme.in_flight()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        self.nvme.doorbell()
    }

    fn statistics(&self) -> VsicStatistics {
        self.nvme.statistics()
    }
}

/// Buffers of 16 KiB.
pub fn buffers() -> (Rc<Region>, Pool) {
    let region = Region::new(64, 16_384).unwrap();
    let pool = region.pool(64).unwrap();
    (region, pool)
}

pub fn frame_of(pool: &Pool, bytes: usize) -> Frame {
    let mut frame = pool.allocate(0).unwrap();
    frame.append(bytes).unwrap();
    frame
}
