//! What scripts may use.

use std::time::Duration;

/// Bytes of a script's text, or of a library's.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// Scripts that are remembered for EVALSHA, and the bytes of their texts.
pub const SCRIPTS_MAX: usize = 4_096;
/// See [`SCRIPTS_MAX`].
pub const SCRIPTS_BYTES_MAX: usize = 16 << 20;
/// Libraries, and the bytes of their texts.
pub const LIBRARIES_MAX: usize = 1_024;
/// See [`LIBRARIES_MAX`].
pub const LIBRARIES_BYTES_MAX: usize = 16 << 20;
/// Bytes of a script's answer.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Tables in tables, in a script's answer.
pub const ANSWER_DEPTH_MAX: usize = 128;
/// The budget is looked at after so many instructions.
pub const HOOK_INSTRUCTIONS: u32 = 1_000;
/// What a command costs, in instructions, besides its bytes.
pub const COMMAND_INSTRUCTIONS: u64 = 200;
/// Garbage that a script leaves is collected from here on.
pub const GARBAGE_BYTES: usize = 4 << 20;

/// What one run may use. Beyond it the run ends with an error.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Instructions of Lua, about.
    pub instructions: u64,
    /// Time. Functions of Lua's library that take long are no instructions, so they need a clock.
    pub time: Duration,
    /// Bytes of memory besides what the state has already.
    pub bytes: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { instructions: 500_000_000, time: Duration::from_secs(5), bytes: 64 << 20 }
    }
}
