//! [`Settings`]: what an operator says.

use super::users::User;

/// The smallest bound of memory: memcached takes no smaller one either when it is set later.
pub const MEMORY_BYTES_MIN: u64 = 8 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most memory that items take, with all that is needed to find them.
    pub memory_max: u64,
    /// The largest item: key, value and what memcached counts besides.
    pub item_max: usize,
    /// Whether clients may let go of all items (`flush_all`).
    pub may_flush: bool,
    /// Whether clients may see all keys (`lru_crawler metadump`, `stats cachedump`).
    pub may_dump: bool,
    /// Connections at once.
    pub connections_max: usize,
    /// Seconds after which a connection that says nothing is closed; 0: never.
    pub idle_timeout_s: u32,
    /// Users and passwords; empty: everybody may do everything.
    pub users: Vec<User>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory_max: 64 << 20,
            item_max: 1 << 20,
            may_flush: true,
            may_dump: true,
            connections_max: 10_000,
            idle_timeout_s: 0,
            users: Vec::new(),
        }
    }
}
