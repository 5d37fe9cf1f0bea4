//! What all parts have to agree on.

/// The version of Redis whose commands these are.
pub const REDIS_VERSION: &str = "7.0.15";
/// What writes are told when the log has failed: they are in memory at most, and nobody may rely on them.
pub const MISCONF: &str =
    "MISCONF Errors writing to the log: what was not acknowledged may be lost. Reads go on; start the service again";
/// What writes are told that the log has no room for.
pub const NO_ROOM: &str =
    "OOM command not allowed: the log has no room for it; delete keys, wait for the checkpoint, or use a larger disk";
/// Bytes of a record at most, and of a key with all that it has.
pub const RECORD_BYTES_MAX: usize = 192 << 20;
/// The same, as the log has it: with room for what a command adds.
pub const LOG_RECORD_BYTES_MAX: usize = RECORD_BYTES_MAX + (16 << 20);
