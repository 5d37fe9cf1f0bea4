//! What is so of a log now.

use super::{Log, Phase};
use crate::chain::writer::LogStatistics;
use crate::position::Position;
use crate::running::Stage;
use qanat_api::AreaId;

impl Log {
    /// The area that it is on.
    pub fn area(&self) -> AreaId {
        self.io.area()
    }

    /// Where the log begins. What recovery told of before that is part of the checkpoint that begins there.
    pub fn start(&self) -> Position {
        match &self.phase {
            Phase::Run(running) => Position::new(running.writer.start(), 0),
            _ => Position::default(),
        }
    }

    /// All records before it are durable.
    pub fn durable(&self) -> Position {
        match &self.phase {
            Phase::Run(running) => running.writer.whole(),
            _ => Position::default(),
        }
    }

    /// Whether nothing that was appended waits to become durable, and nothing else is under way.
    pub fn is_idle(&self) -> bool {
        match &self.phase {
            Phase::Run(running) => {
                running.stage == Stage::Ready
                    && running.writer.is_idle()
                    && running.head.is_idle()
                    && running.fetch.is_idle()
            }
            Phase::Finished(_) | Phase::Stopped(_) => true,
            _ => false,
        }
    }

    /// Whether it was opened to be read only, and was read.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(&self.phase, Phase::Finished(_))
    }

    /// Whether it takes records.
    pub fn is_ready(&self) -> bool {
        matches!(&self.phase, Phase::Run(running) if running.stage == Stage::Ready)
    }

    /// Bytes of the log: those in use, and all.
    pub fn bytes(&self) -> (u64, u64) {
        match &self.phase {
            Phase::Run(running) => (running.writer.used(), running.head.superblock().ring.bytes),
            _ => (0, self.superblock().map_or(0, |superblock| superblock.ring.bytes)),
        }
    }

    /// Bytes of the log that recovery has gone through so far.
    pub fn progress(&self) -> u64 {
        match &self.phase {
            Phase::Recover { recovery, .. } => recovery.progress(),
            Phase::Run(running) => running.recovered.bytes,
            _ => 0,
        }
    }

    /// What it has done since it was opened.
    pub fn statistics(&self) -> LogStatistics {
        match &self.phase {
            Phase::Run(running) => running.writer.statistics(),
            _ => LogStatistics::default(),
        }
    }
}
