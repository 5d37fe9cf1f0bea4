//! An application of a disk core that writes anything into its registers, queues, lists and doorbells. The core does not panic, touches
//! nothing of others, answers no command twice, and has everything back at the end: commands, frames, memory.
//!
//! An input is a list of steps of twelve bytes: what is done, where (16 bits), how (8 bits), and a number.

use qanat_disk::area::{AreaLimits, Extent};
use qanat_disk::controller::{GuestMemory, RegionMemory};
use qanat_disk::disk_core::{DiskCore, TenantConfig, TenantDescriptors};
use qanat_disk::nvme::spec::Command;
use qanat_disk::shared::SharedLayout;
use qanat_disk::{Media, Sim, SimConfig, Vsic};
use qanat_nic::{Region, Time};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Steps of one input.
const STEPS_MAX: usize = 200;
const STEP_BYTES: usize = 12;
const LAYOUT: SharedLayout = SharedLayout { queue_bytes: 32_768, frame_bytes: 4_096, frames: 8 };
/// The area: two units of the ten that are for areas.
const AREA: [Extent; 2] = [Extent { unit: 518, units: 1 }, Extent { unit: 514, units: 1 }];
const UNITS: u64 = 522;
const TENANT: u64 = 1;

struct Bench {
    core: DiskCore<Sim>,
    media: Media,
    memory: RegionMemory,
    now: Time,
}

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair")
}

impl Bench {
    /// A core with one tenant: the tenant's ends of the doorbell and the lease.
    fn new(seed: u64) -> (Bench, OwnedFd, OwnedFd) {
        let media = Media::new(8 * UNITS, 512);
        let sim = SimConfig { depth: 16, seed: (seed > 0).then_some(seed), ..SimConfig::default() };
        let mut core = DiskCore::new(Sim::new(&media, sim));
        let file = LAYOUT.allocate().expect("memory");
        let pages = (LAYOUT.length() / 4_096) as u32;
        let region = Region::of_shared_file(file.as_fd(), 0, pages, 4_096).expect("memory");
        let ((doorbell, its), (lease, its_lease)) = (pair(), pair());
        let config = TenantConfig {
            tenant: TENANT,
            area: 1,
            account: 1,
            extents: AREA.to_vec(),
            bytes: 8_192,
            read_only: false,
            limits: AreaLimits::default(),
            ceiling: AreaLimits::default(),
            layout: LAYOUT,
        };
        let descriptors = TenantDescriptors { memory: file, doorbell: its, lease: its_lease };
        core.open(&config, descriptors).expect("it opens");
        let memory = RegionMemory::new(vec![(0, region)]);
        (Bench { core, media, memory, now: Time::ZERO }, doorbell, lease)
    }

    fn turn(&mut self) {
        self.now += Duration::from_micros(7);
        self.core.turn(self.now);
        assert!(self.core.disk().in_flight() <= 16);
    }

    fn half(&self, place: u64, value: u32) {
        self.memory.store_half(place & !3, value);
    }

    /// Registers, as a driver writes them, with queues of 16 entries in pages 1 and 2, and I/O queues in 3 and 4.
    fn bring_up(&mut self) {
        for (place, value) in [(0x24, 15 << 16 | 15), (0x28, 0x1000), (0x2c, 0), (0x30, 0x2000), (0x34, 0), (0x14, 0)] {
            self.half(place, value);
        }
        self.turn();
        self.half(0x14, 0x0046_0001);
        self.turn();
        let commands =
            [Command::create_completion_queue(1, 16, 0x4000, None), Command::create_submission_queue(1, 16, 0x3000, 1)];
        for (entry, command) in (0..).zip(commands) {
            self.command(0x1000, entry, command);
        }
        self.half(0x800, 2);
        self.turn();
    }

    fn command(&self, base: u64, entry: u64, command: Command) {
        for (index, word) in (0..).zip(command.to_words()) {
            self.memory.store(base + 64 * (entry % 16) + 8 * index, word);
        }
    }

    fn step(&mut self, step: &[u8; STEP_BYTES]) {
        let [kind, low, high, how, rest @ ..] = *step;
        let (place, value) = (u64::from(u16::from_le_bytes([low, high])), u64::from_le_bytes(rest));
        let entry = u64::from(how) % 16;
        match kind % 12 {
            0 => _ = self.memory.store(place * 8 % LAYOUT.length(), value),
            1 => self.half(place % 0x40, value as u32),
            // Doorbells, mostly of what there is.
            2 => self.half(0x800 + 4 * (place % 10), value as u32),
            3 | 4 => self.half(0x800 + 4 * (place % 4), value as u32 % 18),
            5 | 6 => (0..=how % 8).for_each(|_| self.turn()),
            7 => self.bring_up(),
            8 => self.command(
                0x3000,
                entry,
                Command::read(1, place % 20, 1 + u32::from(how) / 16).with_prps(value % LAYOUT.length(), value >> 32),
            ),
            9 => {
                let command = Command::write(1, place % 20, 1 + u32::from(how) / 16, value % 3 == 0);
                self.command(
                    0x3000,
                    entry,
                    command.with_prps(LAYOUT.frames_at() + value % 32_768 / 512 * 512, value >> 32),
                );
            }
            10 => self.command(
                0x1000,
                entry,
                Command::new(low % 16, u32::from(high))
                    .with_prps(value & !0xfff, value << 12)
                    .with_double_word(10, value as u32)
                    .with_double_word(11, (value >> 32) as u32),
            ),
            _ => {
                // What an entry says changes.
                let index = place as usize % 16;
                let mut words = [0; 8];
                self.memory.load(0x3000 + 64 * entry, &mut words);
                self.command(0x3000, entry, Command::from_words(words).with_double_word(index, value as u32));
            }
        }
    }

    /// Nothing outside the area is written.
    fn check(&self) {
        let bytes = self.media.bytes();
        for (unit, bytes) in (0..).zip(bytes.chunks(4_096)) {
            let is_its = AREA.iter().any(|extent| extent.unit == unit);
            assert!(is_its || bytes.iter().all(|byte| *byte == 0), "unit {unit} is not of the area");
        }
    }
}

/// See the module.
pub fn disk_queue(data: &[u8]) {
    let Some((seed, steps)) = data.split_first() else { return };
    let (mut bench, doorbell, lease) = Bench::new(u64::from(*seed));
    bench.bring_up();
    for step in steps.as_chunks::<STEP_BYTES>().0.iter().take(STEPS_MAX) {
        bench.step(step);
    }
    drop(doorbell);
    bench.now += Duration::from_secs(1);
    (0..200).for_each(|_| bench.turn());
    assert!(bench.core.next_closed().is_some_and(|closed| closed.tenant == TENANT), "it is told of");
    assert!(bench.core.next_closed().is_none(), "once");
    assert!(bench.core.is_idle() && bench.core.disk().in_flight() == 0, "nothing is under way");
    assert_eq!(bench.core.copies_in_use(), 0, "all frames are back");
    let ended = recv(&lease, &mut [0_u8; 1], RecvFlags::DONTWAIT).is_ok_and(|(length, _)| length == 0);
    assert!(ended, "the lease is over");
    bench.check();
}
