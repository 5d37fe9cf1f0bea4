//! Reading a log wholly. Nothing is written.

use super::{PATIENCE, STUCK};
use crate::keyspace::space::Keyspace;
use crate::limits::LOG_RECORD_BYTES_MAX;
use qanat::{AreaId, Storage};
use qanat_store::{Log, LogEvent, Options, Recovered, StoreError};

/// What was read.
#[derive(Debug)]
pub struct Reading {
    /// All keys.
    pub keyspace: Keyspace,
    /// What the log was found to be.
    pub recovered: Recovered,
    /// Bytes of the log: all.
    pub log_bytes: u64,
}

/// Reads the log of an area. `tell` hears how many bytes of it were read, and how many it can have.
///
/// # Errors
/// [`StoreError`]. Its texts say at which byte of the area what is wrong.
pub fn read(mut storage: Storage, mut tell: impl FnMut(u64, u64)) -> Result<Reading, StoreError> {
    let options = Options::default().read_only().record_bytes_max(LOG_RECORD_BYTES_MAX);
    let mut log = Log::open(AreaId::new(0, 0), options, &mut storage)?;
    let (mut keyspace, mut log_bytes) = (Keyspace::default(), 0);
    loop {
        log_bytes = log.bytes().1.max(log_bytes);
        match log.next(&mut storage) {
            Some(LogEvent::Record { position, bytes, .. }) => {
                if !keyspace.replay(bytes) {
                    let (place, what) = (position.to_number(), "a record of the log is no list of changes");
                    return Err(StoreError::Contradiction { place, what });
                }
            }
            Some(LogEvent::Recovered(recovered)) => return Ok(Reading { keyspace, recovered, log_bytes }),
            Some(LogEvent::Failed(error)) => return Err(error),
            Some(_) => {}
            None => {
                tell(log.progress(), log_bytes);
                let is_busy = storage.is_busy();
                let took = storage.turn(PATIENCE, |event, storage| drop(log.handle(event, storage)));
                if !took && !is_busy {
                    return Err(StoreError::Contradiction { place: 0, what: STUCK });
                }
            }
        }
    }
}
