//! [`Sim`]: a device in memory that completes in any order and forgets at a crash what a real one may forget.

mod media;

pub use media::Media;

use crate::error::StorageError;
use crate::vsic::{Completion, Operation, Request, Vsic, VsicStatistics};
use media::UnderWay;
use qanat_api::Geometry;
use qanat_nic::Random;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// What a simulated device is like.
#[derive(Clone, Copy, Debug)]
pub struct SimConfig {
    /// Requests that may be under way at once.
    pub depth: u32,
    /// Bytes one request may have at most.
    pub transfer_bytes_max: u32,
    /// Whether what was written can be lost until a flush.
    pub volatile_cache: bool,
    /// `Some`: requests complete in an order, and after a number of turns, that the seed chooses. `None`: at once, in turn.
    pub seed: Option<u64>,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig { depth: 128, transfer_bytes_max: 1 << 20, volatile_cache: true, seed: None }
    }
}

/// A request under way.
struct Flying {
    request: Request,
    /// Writes that had completed when it was submitted: what a flush covers.
    order: u64,
}

/// A simulated device, over a medium that outlives it.
pub struct Sim {
    geometry: Geometry,
    media: Media,
    /// Those for which the doorbell has been rung come first.
    flying: VecDeque<Flying>,
    started: usize,
    random: Option<Random>,
    statistics: VsicStatistics,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sim({:?}, {} under way)", self.media, self.flying.len())
    }
}

impl Sim {
    /// A device over `media`.
    pub fn new(media: &Media, config: SimConfig) -> Sim {
        let geometry = Geometry {
            block_bytes: media.block_bytes(),
            blocks: media.blocks(),
            atomic_bytes: media.block_bytes(),
            volatile_cache: config.volatile_cache,
            forced_unit_access: true,
            transfer_bytes_max: config.transfer_bytes_max,
            depth: config.depth,
        };
        let flying = VecDeque::with_capacity(config.depth as usize);
        let statistics = VsicStatistics::default();
        Sim { geometry, media: media.clone(), flying, started: 0, random: config.seed.map(Random::new), statistics }
    }

    /// Power fails: the device is gone, what was under way is done in any part, and of each block any version is left that was
    /// written since the last flush it survived. `choose(n)` picks one of `n` versions, the durable one first.
    pub fn lose_power(self, choose: &mut dyn FnMut(usize) -> usize) {
        let block_bytes = self.geometry.block_bytes as usize;
        let zeroes = vec![0; block_bytes];
        let mut under_way = Vec::new();
        for Flying { request, .. } in self.flying.iter().take(self.started) {
            match &request.operation {
                Operation::Write { block, frame, .. } if request.check(&self.geometry).is_ok() => {
                    let blocks = (*block..).zip(frame.bytes().chunks_exact(block_bytes));
                    under_way.extend(blocks.map(|(block, data)| UnderWay { block, data }));
                }
                Operation::WriteZeroes { block, blocks } if request.check(&self.geometry).is_ok() => {
                    under_way.extend((*block..block + blocks).map(|block| UnderWay { block, data: &zeroes }));
                }
                _ => {}
            }
        }
        self.media.lose_power(&under_way, choose);
    }

    /// Does a request.
    #[inline]
    fn perform(&mut self, flying: Flying) -> Completion {
        let Flying { mut request, order, .. } = flying;
        if let Err(error) = request.check(&self.geometry) {
            return request.refused(error);
        }
        let through = !self.geometry.volatile_cache;
        let result = match &mut request.operation {
            Operation::Read { block, frame } => {
                self.media.read(*block, frame.bytes_mut()).then_some(()).ok_or(StorageError::Medium)
            }
            Operation::Write { block, frame, durable } => {
                self.media.write(*block, frame.bytes(), *durable || through);
                Ok(())
            }
            Operation::Flush => {
                self.media.flush(order);
                Ok(())
            }
            Operation::WriteZeroes { block, blocks } => {
                let zeroes = vec![0; self.geometry.block_bytes as usize];
                (*block..*block + *blocks).for_each(|block| self.media.write(block, &zeroes, through));
                Ok(())
            }
        };
        Completion { token: request.token, frame: request.operation.into_frame(), result }
    }
}

impl Vsic for Sim {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        (self.geometry.depth as usize).saturating_sub(self.flying.len())
    }

    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), Request> {
        if self.room() == 0 {
            return Err(request);
        }
        self.flying.push_back(Flying { request, order: self.media.order() });
        Ok(())
    }

    fn ring(&mut self) {
        self.started = self.flying.len();
        self.statistics.doorbells += 1;
    }

    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let mut count = 0;
        while count < completions_max && self.started > 0 {
            let index = match &mut self.random {
                None => 0,
                // At least one ends at each call: a loop that waits for completions gets on.
                Some(random) => {
                    if count > 0 && random.chance(300_000) {
                        break;
                    }
                    random.below(self.started as u64) as usize
                }
            };
            let Some(flying) = self.flying.remove(index) else { break };
            self.started -= 1;
            let (kind, bytes) = (flying.request.operation.kind(), flying.request.bytes());
            let completion = self.perform(flying);
            self.statistics.count(kind, bytes, completion.result);
            completions.push(completion);
            count += 1;
        }
        count
    }

    fn in_flight(&self) -> usize {
        self.flying.len()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn statistics(&self) -> VsicStatistics {
        self.statistics
    }
}
