//! Zones as they are transferred: the newest version whole, and the steps that led to it. One store for all threads; only
//! transfers look in it, never an ordinary answer.

use super::difference::{Difference, History};
use crate::name::Name;
use crate::zone::Zone;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// History worth keeping however small the zone.
const HISTORY_BYTES_MIN: usize = 64 << 10;

/// A version of a zone.
#[derive(Debug)]
pub struct Version {
    /// Its records.
    pub zone: Arc<Zone>,
    /// The way to it.
    pub history: History,
}

/// The newest version of each zone. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct Versions(Arc<Mutex<BTreeMap<Name, Arc<Version>>>>);

impl Versions {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, Arc<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest version of the zone called `apex` (small letters).
    pub fn newest(&self, apex: &Name) -> Option<Arc<Version>> {
        self.lock().get(apex).cloned()
    }

    /// Every zone's name and serial number.
    pub fn serials(&self) -> Vec<(Name, u32)> {
        self.lock().iter().map(|(apex, version)| (apex.clone(), version.zone.serial())).collect()
    }

    /// A new version of a zone. The step from the one before is remembered if its serial number is newer.
    pub fn put(&self, zone: Arc<Zone>) {
        let before = self.newest(zone.apex());
        // Compared outside of the lock: it takes a while for a large zone.
        let step = before
            .as_ref()
            .filter(|before| super::difference::is_newer(zone.serial(), before.zone.serial()))
            .and_then(|before| Some((Difference::between(&before.zone, &zone)?, before)));
        let history = match (step, &before) {
            (Some((step, before)), _) => before.history.with(step, zone.memory_bytes().max(HISTORY_BYTES_MIN)),
            // The same again: the way to it is the same.
            (None, Some(before)) if before.zone.serial() == zone.serial() => before.history.clone(),
            _ => History::default(),
        };
        self.lock().insert(zone.apex().clone(), Arc::new(Version { zone, history }));
    }

    /// A new version of a zone that nobody transfers: the way to it is not remembered.
    pub fn put_alone(&self, zone: Arc<Zone>) {
        self.lock().insert(zone.apex().clone(), Arc::new(Version { zone, history: History::default() }));
    }

    /// Forgets the zone called `apex`.
    pub fn remove(&self, apex: &Name) {
        self.lock().remove(apex);
    }
}
