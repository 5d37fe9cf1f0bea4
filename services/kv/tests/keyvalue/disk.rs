//! [`Disk`]: a queue pair over a simulated medium, whose completions the test takes one by one.

use qanat_api::{AreaId, Block, CommandError, Durability, Event, Geometry, StorageCommands};
use qanat_disk::{Completion, Media, Operation, Request, Sim, SimConfig, Vsic};
use qanat_nic::{Pool, Region};
use std::collections::VecDeque;

pub const AREA: AreaId = AreaId::new(0, 0);
const BUFFER_BYTES: u32 = 16 << 10;
const BUFFERS: u32 = 24;

thread_local! {
    static POOL: Pool = Region::new(BUFFERS, BUFFER_BYTES).expect("memory").pool(BUFFERS).expect("all of it");
}

/// See the module.
pub struct Disk {
    sim: Sim,
    /// What was asked for (a letter), and its token, by the token that the queue pair knows it by.
    asked: Vec<Option<(u8, u64)>>,
    ended: VecDeque<Completion>,
}

impl Disk {
    pub fn new(media: &Media, seed: Option<u64>) -> Disk {
        let config = SimConfig { depth: 16, transfer_bytes_max: BUFFER_BYTES, volatile_cache: true, seed };
        Disk { sim: Sim::new(media, config), asked: vec![None; 16], ended: VecDeque::new() }
    }

    fn submit(&mut self, asked: u8, token: u64, operation: Operation) -> Result<(), CommandError> {
        let place = self.asked.iter().position(Option::is_none).ok_or(CommandError::Full)?;
        self.sim.submit(Request { token: place as u64, operation }).map_err(|_| CommandError::Full)?;
        self.asked[place] = Some((asked, token));
        Ok(())
    }

    /// The next request that ends; `None`: nothing is under way.
    pub fn next(&mut self) -> Option<Event> {
        self.sim.ring();
        while self.ended.is_empty() && self.sim.in_flight() > 0 {
            let mut completions = Vec::new();
            self.sim.complete(&mut completions, 1);
            self.ended.extend(completions);
        }
        let Completion { token, frame, result } = self.ended.pop_front()?;
        let (asked, token) = self.asked[token as usize].take().expect("it was asked for");
        let block = |frame: Option<qanat_nic::Frame>| Block::transmit(frame.expect("a buffer"));
        Some(match asked {
            b'r' => Event::Read { area: AREA, token, result: result.map(|()| block(frame)) },
            b'w' => Event::Written { area: AREA, token, block: block(frame), result },
            _ => Event::Flushed { area: AREA, token, result },
        })
    }

    /// Power fails.
    pub fn lose_power(mut self, choose: &mut dyn FnMut(usize) -> usize) {
        self.sim.ring();
        self.sim.lose_power(choose);
    }
}

impl StorageCommands for Disk {
    fn geometry(&self, _: AreaId) -> Result<Geometry, CommandError> {
        Ok(self.sim.geometry())
    }

    fn area_block(&mut self, _: AreaId) -> Result<Block, CommandError> {
        POOL.with(|pool| pool.allocate(0)).map(Block::transmit).ok_or(CommandError::Full)
    }

    fn read(&mut self, _: AreaId, offset: u64, length: usize, token: u64) -> Result<(), CommandError> {
        let mut frame = POOL.with(|pool| pool.allocate(0)).ok_or(CommandError::Full)?;
        frame.append(length).ok_or(CommandError::TooLong)?;
        let block = offset / u64::from(self.sim.geometry().block_bytes);
        self.submit(b'r', token, Operation::Read { block, frame })
    }

    fn write(&mut self, _: AreaId, offset: u64, block: Block, how: Durability, token: u64) -> Result<(), CommandError> {
        let at = offset / u64::from(self.sim.geometry().block_bytes);
        let frame = block.into_frame().expect("logs write from the area's memory");
        let durable = how == Durability::Durable;
        self.submit(b'w', token, Operation::Write { block: at, frame, durable })
    }

    fn flush(&mut self, _: AreaId, token: u64) -> Result<(), CommandError> {
        self.submit(b'f', token, Operation::Flush)
    }

    fn write_zeroes(&mut self, _: AreaId, _: u64, _: u64, _: u64) -> Result<(), CommandError> {
        Err(CommandError::Stale)
    }
}
