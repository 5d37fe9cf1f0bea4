//! Persistent structures on a storage area: what was acknowledged is there after a crash at any point, and nothing else is.
#![forbid(unsafe_code)]

mod chain;
mod codec;
mod error;
mod flat;
mod head;
mod io;
mod layout;
mod log;
mod look;
mod objects;
mod options;
mod position;
mod queue;
mod superblock;

pub use chain::frame::RecordKind;
pub use chain::writer::LogStatistics;
pub use error::StoreError;
pub use flat::{ObjectEvent, ObjectId, ObjectInfo, Objects};
pub use layout::UNIT_BYTES;
pub use log::{Log, LogEvent, Recovered};
pub use objects::sums::PIECE_BYTES;
pub use options::Options;
pub use position::Position;
pub use queue::{Queue, QueueEvent};
pub use superblock::Kind;
