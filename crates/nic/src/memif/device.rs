//! [`MemifDevice`]: a connection whose handshake is over.

use super::config::MemifConfig;
use super::error::MemifError;
use super::link::MemifLink;
use super::queue::{Memif, MemifOpener, QueueParts};

/// A connection, its queues not yet opened.
#[derive(Debug)]
pub struct MemifDevice {
    link: MemifLink,
    openers: Vec<MemifOpener>,
}

impl MemifDevice {
    pub(super) fn new(link: MemifLink, queues: Vec<QueueParts>, config: &MemifConfig) -> MemifDevice {
        let openers = queues.into_iter().map(|parts| MemifOpener::new(parts, link.clone(), config)).collect();
        MemifDevice { link, openers }
    }

    /// The connection's fate.
    pub fn link(&self) -> &MemifLink {
        &self.link
    }

    /// The queues, each to be opened on the thread that will use it.
    pub fn into_openers(self) -> Vec<MemifOpener> {
        self.openers
    }

    /// Opens the first queue on this thread.
    ///
    /// # Errors
    /// Those of [`MemifOpener::open`].
    pub fn open(self) -> Result<Memif, MemifError> {
        match self.openers.into_iter().next() {
            Some(opener) => opener.open(),
            None => Err(MemifError::refused("no queue")),
        }
    }
}
