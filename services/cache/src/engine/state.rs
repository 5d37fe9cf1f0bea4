//! [`Engine`]: items, the clock, and what they have in common.

use super::counts::{Connections, Counts};
use super::settings::Settings;
use crate::clock::Clock;
use crate::items::item::Item;
use crate::items::store::Items;

/// Items that are looked at each time, whether they have ended.
const SWEEP_ITEMS: usize = 2_000;

/// See the module.
#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) items: Items,
    pub(crate) clock: Clock,
    pub(crate) counts: Counts,
    /// As they were when a client had them begin anew.
    counts_before: Counts,
    /// Of the service that has it, for `stats`.
    pub(crate) connections: Connections,
    /// The number of the last change.
    cas: u64,
    /// Items of changes up to this one are gone.
    flushed_cas: u64,
    /// When all items of then go.
    flush_at_s: Option<u32>,
}

impl Engine {
    /// Without items, at this time (Unix seconds).
    pub fn new(settings: Settings, unix_s: i64) -> Engine {
        let items = Items::new(settings.memory_max);
        let clock = Clock::new(unix_s);
        Engine {
            settings,
            items,
            clock,
            counts: Counts::default(),
            counts_before: Counts::default(),
            connections: Connections::default(),
            cas: 0,
            flushed_cas: 0,
            flush_at_s: None,
        }
    }

    /// The same items in another service, whose counts begin at 0.
    pub(crate) fn moved(mut self) -> Engine {
        (self.counts, self.counts_before, self.items.evicted) = (Counts::default(), Counts::default(), 0);
        self.connections = Connections::default();
        self
    }

    /// Nothing, in place of one that is taken away.
    pub(crate) fn hollow() -> Engine {
        Engine::new(Settings::default(), 0)
    }

    /// It is so late now (Unix seconds).
    pub fn set_time(&mut self, unix_s: i64) {
        self.clock.set(unix_s);
        if self.flush_at_s.is_some_and(|at| at <= self.clock.now_s()) {
            self.flush_at_s = None;
            self.flushed_cas = self.cas;
        }
    }

    /// What was done since a client had the counts begin anew. The operator's go on: a client does not change what others are told.
    pub(crate) fn recent_counts(&self) -> Counts {
        self.counts.since(&self.counts_before)
    }

    /// Counts that clients are told begin anew.
    pub(crate) fn reset_counts(&mut self) {
        self.counts_before = self.counts;
    }

    /// The number of the next change.
    pub(crate) fn next_cas(&mut self) -> u64 {
        self.cas += 1;
        self.cas
    }

    /// Memory that is in use, and the most there may be.
    pub fn memory(&self) -> (u64, u64) {
        (self.items.memory(), self.items.bytes_max())
    }

    /// Memory that is lent or promised, and in no item that is here.
    pub fn memory_detached(&self) -> u64 {
        self.items.detached()
    }

    /// All items go: now, or at a second of the clock. The memory is free when they are met.
    pub fn flush(&mut self, at_s: Option<u32>) {
        self.counts.flush_commands += 1;
        match at_s.filter(|at| *at > self.clock.now_s()) {
            Some(at) => self.flush_at_s = Some(at),
            None => {
                self.flush_at_s = None;
                self.flushed_cas = self.cas;
            }
        }
    }

    fn has_expired(item: &Item, now_s: u32) -> bool {
        item.expires_s != 0 && item.expires_s <= now_s
    }

    /// The item of a key, if it is still to be had.
    #[inline]
    pub fn find(&mut self, key: &[u8]) -> Option<u32> {
        let number = self.items.find(key)?;
        let item = self.items.get(number)?;
        let is_flushed = item.cas <= self.flushed_cas;
        if !is_flushed && !Engine::has_expired(item, self.clock.now_s()) {
            return Some(number);
        }
        match is_flushed {
            true => self.counts.get_flushed += 1,
            false => self.counts.get_expired += 1,
        }
        self.counts.reclaimed += 1;
        self.items.remove(number);
        None
    }

    /// Whether an item is still to be had.
    pub fn is_live(&self, item: &Item) -> bool {
        item.cas > self.flushed_cas && !Engine::has_expired(item, self.clock.now_s())
    }

    /// Lets go of some items that have ended: memory comes back though nobody asks for them.
    pub fn sweep(&mut self) {
        let (flushed, now_s) = (self.flushed_cas, self.clock.now_s());
        let gone = self.items.sweep(SWEEP_ITEMS, |item| item.cas <= flushed || Engine::has_expired(item, now_s));
        self.counts.crawled += SWEEP_ITEMS as u64;
        self.counts.reclaimed += gone;
    }
}
