//! Identifiers of features.

/// Identifiers of features: the low byte of `cdw10` of Set Features and Get Features.
pub mod feature {
    /// Volatile Write Cache: bit 0 of `cdw11`.
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    /// Asynchronous Event Configuration: a bit in `cdw11` for each kind of event that may be said.
    pub const ASYNCHRONOUS_EVENT_CONFIGURATION: u8 = 0x0b;
    /// Number of Queues: submission queues in bits 15:0, completion queues in bits 31:16, both less one.
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
}
