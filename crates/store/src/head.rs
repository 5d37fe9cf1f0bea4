//! [`Head`]: keeps the two superblocks. One is durable before the other is written, so at any time one of them is whole.

use crate::error::StoreError;
use crate::io::{Io, Role};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock, place};
use qanat_api::{Durability, StorageCommands};

/// How far an update has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    /// This copy is to be written; whether it is the last one.
    Due {
        copy: usize,
        is_last: bool,
    },
    /// This copy is being written.
    UnderWay {
        copy: usize,
        is_last: bool,
    },
}

/// What a superblock says of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) durable: u64,
    /// The checksum of the frame that ends at `durable`.
    pub(crate) previous: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Head {
    /// As both copies are, or will be.
    current: Superblock,
    /// What is to be written after that.
    wanted: Option<Extent>,
    /// The copy to be written first: the one that is damaged or older, if one is.
    worse: usize,
    stage: Stage,
}

impl Head {
    /// `worse`: the copy that was not chosen.
    pub(crate) fn new(current: Superblock, worse: usize) -> Head {
        Head { current, wanted: None, worse, stage: Stage::Idle }
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.current
    }

    /// Begins a new epoch with the log as it was found.
    pub(crate) fn open(&mut self, extent: Extent) {
        self.current.epoch += 1;
        self.current.opened = extent.durable;
        self.want(extent);
    }

    /// The log is to be recorded so. It never begins earlier than was recorded, or wanted, before: that room may be in use again.
    pub(crate) fn want(&mut self, extent: Extent) {
        let latest = self.wanted.map_or(self.current.start, |wanted| wanted.start.max(self.current.start));
        self.wanted = Some(Extent { start: extent.start.max(latest), ..extent });
        self.begin();
    }

    fn begin(&mut self) {
        if self.stage == Stage::Idle
            && let Some(Extent { start, durable, previous }) = self.wanted.take()
        {
            let serial = self.current.serial + 1;
            self.current = Superblock { start, durable, previous, serial, ..self.current };
            self.stage = Stage::Due { copy: self.worse, is_last: false };
        }
    }

    /// Whether both copies are as wanted.
    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// Writes what is due.
    pub(crate) fn pump(&mut self, io: &mut Io, storage: &mut dyn StorageCommands) -> Result<(), StoreError> {
        let Stage::Due { copy, is_last } = self.stage else { return Ok(()) };
        if !io.has_room() {
            return Ok(());
        }
        let Some(mut block) = io.block(storage) else { return Ok(()) };
        block.append_with(SUPERBLOCK_BYTES, |bytes| self.current.write(copy, bytes));
        io.write(storage, (place(copy), block), Durability::Durable, (Role::Head, copy as u64))?;
        self.stage = Stage::UnderWay { copy, is_last };
        Ok(())
    }

    /// A copy was written. Returns where the log begins if both copies say so now.
    pub(crate) fn written(&mut self) -> Option<u64> {
        let Stage::UnderWay { copy, is_last } = self.stage else { return None };
        if !is_last {
            self.stage = Stage::Due { copy: 1 - copy.min(1), is_last: true };
            return None;
        }
        self.stage = Stage::Idle;
        let start = self.current.start;
        self.begin();
        Some(start)
    }
}
