//! What the NVMe specification says, as far as it is used here: entries of queues, status codes, registers, Identify data.
//!
//! Everything is little endian. Names are the specification's.

mod command;
mod completion;
mod events;
mod features;
mod identify;
mod registers;
mod status;

pub use command::{COMMAND_BYTES, Command, opcode};
pub use completion::{COMPLETION_BYTES, CompletionEntry};
pub use events::event;
pub use features::feature;
pub use identify::{ActiveNamespaces, IDENTIFY_BYTES, IdentifyController, IdentifyNamespace, IdentifyPage, cns};
pub use registers::{
    Capabilities, Configuration, ControllerStatus, DOORBELLS, PAGE_BYTES, QueueSizes, REGISTERS_BYTES, Shutdown,
    doorbell_of, doorbell_offset, register,
};
pub use status::{Status, StatusType};
