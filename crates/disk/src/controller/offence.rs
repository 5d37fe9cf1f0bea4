//! [`Offence`]: what a driver did that no driver does.

/// What a driver did that no driver does. The controller fails (CSTS.CFS) and does nothing more until it is reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Offence {
    /// A write to a register that is none, or to the doorbell of a queue that is not there.
    #[error("a write of {value:#x} to register {offset:#x}")]
    Register {
        /// Its offset in bytes.
        offset: u32,
        /// What was written.
        value: u64,
    },
    /// A doorbell told what can't be.
    #[error("a doorbell of queue {queue} told {value:#x}")]
    Doorbell {
        /// Which queue; a completion queue's if it told a head.
        queue: u16,
        /// What was told.
        value: u32,
    },
    /// The controller was enabled with a configuration or admin queues that can't be.
    #[error("a configuration of {0:#x} with admin queues that can't be, or entries and pages of other sizes")]
    Configuration(u32),
    /// Memory that a queue lies in is not there any more.
    #[error("the memory of queue {0} is not there any more")]
    Memory(u16),
}
