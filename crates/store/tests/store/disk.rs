//! [`Disk`]: a queue pair as a service has it, whose completions the test takes one by one.

use qanat_api::{AreaId, Block, CommandError, Durability, Event, Geometry, StorageCommands};
use qanat_disk::{Completion, Media, Operation, Request, Sim, SimConfig, Vsic};
use qanat_nic::{Pool, Region};
use std::collections::VecDeque;

pub const AREA: AreaId = AreaId::new(0, 0);
/// Bytes of a buffer.
pub const BUFFER_BYTES: u32 = 16 << 10;
/// Buffers there are.
pub const BUFFERS: u32 = 24;

thread_local! {
    /// One memory for all disks of a thread: each gives all of it back.
    static POOL: Pool = Region::new(BUFFERS, BUFFER_BYTES).expect("memory").pool(BUFFERS).expect("all of it");
}

/// Buffers that somebody has.
pub fn buffers_in_use() -> u32 {
    POOL.with(Pool::in_use_count)
}

/// What a request was.
#[derive(Clone, Copy)]
enum Asked {
    Read,
    Write,
    Flush,
}

/// See the module.
pub struct Disk<V = Sim> {
    pub vsic: V,
    /// What was asked for, by the token that the queue pair knows it by.
    asked: Vec<Option<(Asked, u64)>>,
    pool: Pool,
    /// Ends not taken yet.
    ended: VecDeque<Completion>,
    /// Flushes and durable writes that were asked for.
    pub flushes: usize,
}

/// A simulated device over `media`. Its requests end in any order if there is a seed.
pub fn sim(media: &Media, seed: Option<u64>) -> Sim {
    Sim::new(media, SimConfig { depth: 16, transfer_bytes_max: BUFFER_BYTES, volatile_cache: true, seed })
}

impl<V: Vsic> Disk<V> {
    pub fn new(vsic: V) -> Disk<V> {
        let asked = vec![None; vsic.geometry().depth as usize];
        Disk { vsic, asked, pool: POOL.with(Pool::clone), ended: VecDeque::new(), flushes: 0 }
    }

    fn submit(&mut self, asked: Asked, token: u64, operation: Operation) -> Result<(), CommandError> {
        let Some(place) = self.asked.iter().position(Option::is_none) else { return Err(CommandError::Full) };
        self.vsic.submit(Request { token: place as u64, operation }).map_err(|_| CommandError::Full)?;
        self.asked[place] = Some((asked, token));
        Ok(())
    }

    /// The next request that ends; `None`: nothing is under way.
    pub fn next(&mut self) -> Option<Event> {
        self.vsic.ring();
        while self.ended.is_empty() && self.vsic.in_flight() > 0 {
            let mut completions = Vec::new();
            self.vsic.complete(&mut completions, 1);
            self.ended.extend(completions);
        }
        let Completion { token, frame, result } = self.ended.pop_front()?;
        let (asked, token) = self.asked[token as usize].take().expect("it was asked for");
        Some(match asked {
            Asked::Read => {
                Event::Read { area: AREA, token, result: result.map(|()| Block::transmit(frame.expect("a buffer"))) }
            }
            Asked::Write => {
                Event::Written { area: AREA, token, block: Block::transmit(frame.expect("a buffer")), result }
            }
            Asked::Flush => Event::Flushed { area: AREA, token, result },
        })
    }
}

impl Disk<Sim> {
    /// Power fails.
    pub fn lose_power(mut self, choose: &mut dyn FnMut(usize) -> usize) {
        self.vsic.ring();
        self.vsic.lose_power(choose);
    }
}

impl<V: Vsic> StorageCommands for Disk<V> {
    fn geometry(&self, _: AreaId) -> Result<Geometry, CommandError> {
        Ok(self.vsic.geometry())
    }

    fn area_block(&mut self, _: AreaId) -> Result<Block, CommandError> {
        self.pool.allocate(0).map(Block::transmit).ok_or(CommandError::Full)
    }

    fn read(&mut self, _: AreaId, offset: u64, length: usize, token: u64) -> Result<(), CommandError> {
        let mut frame = self.pool.allocate(0).ok_or(CommandError::Full)?;
        frame.append(length).ok_or(CommandError::TooLong)?;
        let block = offset / u64::from(self.vsic.geometry().block_bytes);
        self.submit(Asked::Read, token, Operation::Read { block, frame })
    }

    fn write(&mut self, _: AreaId, offset: u64, block: Block, how: Durability, token: u64) -> Result<(), CommandError> {
        let durable = how == Durability::Durable;
        self.flushes += usize::from(durable);
        let at = offset / u64::from(self.vsic.geometry().block_bytes);
        let frame = block.into_frame().expect("stores write from the area's memory");
        self.submit(Asked::Write, token, Operation::Write { block: at, frame, durable })
    }

    fn flush(&mut self, _: AreaId, token: u64) -> Result<(), CommandError> {
        self.flushes += 1;
        self.submit(Asked::Flush, token, Operation::Flush)
    }

    fn write_zeroes(&mut self, _: AreaId, _: u64, _: u64, _: u64) -> Result<(), CommandError> {
        Err(CommandError::Stale)
    }
}
