//! [`Tracker`]: how a client wants to track keys.

use std::collections::BTreeSet;

/// Which reads are noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// All of them.
    #[default]
    All,
    /// Those of the command after `CLIENT CACHING YES`.
    Chosen,
    /// All but those of the command after `CLIENT CACHING NO`.
    NotLeftOut,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tracker {
    /// The number of the client that is told instead; 0: itself.
    pub redirect: u64,
    /// The slot that it had.
    pub redirect_slot: usize,
    /// That client is gone.
    pub is_broken: bool,
    /// It wants to know of all keys with its prefixes, whether it has read them or not.
    pub is_broadcast: bool,
    /// It is not told of its own changes.
    pub skips_own: bool,
    /// Which reads are noted.
    pub choice: Choice,
    /// `CLIENT CACHING` was said for the next command.
    pub is_chosen: bool,
    /// Prefixes of keys.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// Keys that are noted for it, and their bytes.
    pub keys: usize,
    /// The same.
    pub key_bytes: usize,
}

impl Tracker {
    /// Whether a read is noted now.
    pub fn notes(&self) -> bool {
        !self.is_broadcast
            && match self.choice {
                Choice::All => true,
                Choice::Chosen => self.is_chosen,
                Choice::NotLeftOut => !self.is_chosen,
            }
    }
}
