//! [`Running`]: a log that was found or made, and all that is under way there.

use crate::chain::fetch::{Fetch, Fetched};
use crate::chain::writer::Writer;
use crate::error::StoreError;
use crate::head::Head;
use crate::io::{Io, Outcome, Role};
use crate::position::Position;
use crate::superblock::place;
use crate::told::{Recovered, Told};
use qanat_api::StorageCommands;

/// How far a log that was found is to be taken before it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Nothing is written before whoever was told of the [whole](Told::Whole) asks for more: it may find that it can't be.
    Found,
    /// What was read is to be made durable: the process before this one may have died with it in the disk's cache.
    FlushDue,
    Flushing,
    /// The superblocks are written, with the next epoch.
    Superblocks,
    Ready,
}

/// A checkpoint under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    /// Where it began.
    pub(crate) begin: u64,
    /// Bytes that it took so far.
    pub(crate) bytes: u64,
    /// Its last record.
    pub(crate) end: Option<Position>,
}

/// A log that was found or made.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) stage: Stage,
    pub(crate) recovered: Recovered,
    pub(crate) head: Head,
    pub(crate) writer: Writer,
    pub(crate) fetch: Fetch,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The start that a complete checkpoint has, until the superblocks say so.
    pub(crate) checkpointed: Option<u64>,
}

impl Running {
    /// A request has ended.
    pub(crate) fn ended(&mut self, role: Role, number: u64, outcome: Outcome) -> Result<Option<Told>, StoreError> {
        let done = |place: u64, outcome| match outcome {
            Outcome::Done(Err(error)) => Err(StoreError::Disk { place, error }),
            _ => Ok(()),
        };
        Ok(match (role, outcome) {
            (Role::Fetch, Outcome::Read(result)) => self.fetch.arrived(result).map(|fetched| self.fetched(fetched)),
            (Role::Settle, outcome) => {
                done(0, outcome)?;
                self.stage = Stage::Superblocks;
                None
            }
            (Role::Head, outcome) => {
                done(place(number as usize), outcome)?;
                self.head.written().map(|start| self.recorded(start))
            }
            (Role::Frame, outcome) => {
                done(self.writer.place_of(number), outcome)?;
                if self.writer.written(number) { self.durable() } else { None }
            }
            (Role::Flush, outcome) => {
                done(0, outcome)?;
                if self.writer.flushed() { self.durable() } else { None }
            }
            _ => None,
        })
    }

    /// Both superblocks say that the log begins at `start`.
    fn recorded(&mut self, start: u64) -> Told {
        self.writer.set_start(start);
        match self.stage {
            Stage::Superblocks => {
                self.stage = Stage::Ready;
                Told::Recovered(self.recovered)
            }
            _ if self.checkpointed.take_if(|begin| *begin <= start).is_some() => Told::Checkpointed(start),
            _ => Told::Truncated(start),
        }
    }

    /// A record was read, or could not be.
    fn fetched(&self, fetched: Fetched) -> Told {
        let Fetched { position, token, result } = fetched;
        // Meanwhile it was given up, and something else may lie there.
        let is_gone = position.frame() < self.writer.start();
        Told::Fetched(token, result.map_err(|error| if is_gone { StoreError::None } else { error }))
    }

    /// More is durable than before.
    fn durable(&mut self) -> Option<Told> {
        let whole = self.writer.whole();
        if let Some(checkpoint) = self.checkpoint.take_if(|it| it.end.is_some_and(|end| end < whole)) {
            self.checkpointed = Some(checkpoint.begin);
            self.head.want(self.writer.extent(checkpoint.begin));
        }
        Some(Told::Durable)
    }

    /// Gives the commands that can be given now.
    pub(crate) fn drive(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<Option<Told>, StoreError> {
        match self.stage {
            Stage::FlushDue => {
                if io.flush(storage, (Role::Settle, 0))? {
                    self.stage = Stage::Flushing;
                }
                return Ok(None);
            }
            Stage::Found | Stage::Flushing => return Ok(None),
            Stage::Superblocks | Stage::Ready => {}
        }
        self.head.pump(io, storage)?;
        self.writer.pump(io, storage)?;
        let fetched = self.fetch.drive(io, storage)?;
        Ok(fetched.map(|fetched| self.fetched(fetched)))
    }
}
