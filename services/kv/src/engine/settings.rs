//! [`Settings`]: what `CONFIG` shows and sets, and [`Statistics`]: what `INFO` tells.

use crate::engine::operating::Operating;
use crate::keyspace::text::TEXT_BYTES_MAX;

/// When a write is answered. `docs/kv.md` has what each promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// When it is durable.
    #[default]
    Always,
    /// At once; it is durable a second later.
    EverySecond,
    /// At once; it is durable when the log has collected enough, or half a minute later.
    No,
}

impl Durability {
    /// As Redis' `appendfsync` names it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Always => "always",
            Durability::EverySecond => "everysec",
            Durability::No => "no",
        }
    }

    /// What is called so.
    pub fn of(name: &str) -> Option<Durability> {
        [Durability::Always, Durability::EverySecond, Durability::No]
            .into_iter()
            .find(|durability| durability.name().eq_ignore_ascii_case(name))
    }
}

/// Settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether there is a log. If there is none, keys are in memory only.
    pub has_log: bool,
    /// When a write is answered, if there is one.
    pub durability: Durability,
    /// Clients at once.
    pub clients_max: usize,
    /// The port that it listens at.
    pub port: u16,
    /// Clients that say nothing for so many seconds are closed; 0: never.
    pub timeout_s: u32,
    /// Memory, and what is noted of commands.
    pub operating: Operating,
}

impl Settings {
    /// What `CONFIG GET` shows: names and values, in the order of the names.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("appendfsync", self.durability.name().to_owned()),
            ("appendonly", if self.has_log { "yes" } else { "no" }.to_owned()),
            ("databases", crate::keyspace::space::DATABASES.to_string()),
            ("maxclients", self.clients_max.to_string()),
            ("port", self.port.to_string()),
            ("proto-max-bulk-len", TEXT_BYTES_MAX.to_string()),
            ("save", String::new()),
            ("timeout", self.timeout_s.to_string()),
        ];
        all.extend(self.operating.list());
        all.sort_unstable_by_key(|(name, _)| *name);
        all
    }
}

/// What was counted. `CONFIG RESETSTAT` sets it back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// Commands executed.
    pub commands: u64,
    /// Connections taken.
    pub connections: u64,
    /// Connections refused: there were too many.
    pub refused: u64,
    /// Reads that found the key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Errors answered.
    pub errors: u64,
    /// Bytes that came.
    pub input_bytes: u64,
    /// Bytes that were sent.
    pub output_bytes: u64,
    /// Connections closed because they did not take what they were told.
    pub unread: u64,
}
