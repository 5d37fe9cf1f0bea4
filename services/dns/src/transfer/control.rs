//! What other threads tell the instances of a server about transfers, and what they learn of them: rules that have changed,
//! zones to be looked after now, how each zone that comes from elsewhere stands.

use super::config::TransferConfig;
use crate::name::Name;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Zones that wait to be looked after at most: there are no more requests than somebody types.
const WANTED_MAX: usize = 10_000;

/// Rules, and what is known beside them.
#[derive(Debug, Default)]
pub struct Plan {
    /// The rules.
    pub config: TransferConfig,
    /// How long ago a primary spoke of the zones that were kept in files.
    pub ages: BTreeMap<Name, Duration>,
}

/// How a zone that comes from elsewhere stands. Times are seconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Standing {
    /// `waiting`, `transferring`, or `building`.
    pub state: &'static str,
    /// The version that is served.
    pub serial: Option<u32>,
    /// The primary asked last, or next.
    pub primary: String,
    /// When a primary last spoke of the zone.
    pub checked_s: Option<u64>,
    /// When it is asked again.
    pub next_s: Option<u64>,
    /// When the zone expires if no primary answers.
    pub expires_s: Option<u64>,
    /// It has expired, and is not served.
    pub expired: bool,
    /// Zones received since the start.
    pub received: u64,
    /// Attempts that failed since the start.
    pub failures: u64,
    /// Attempts that failed since the last one that succeeded.
    pub failures_in_a_row: u32,
    /// Why the last one failed, if it did.
    pub error: Option<String>,
}

#[derive(Default)]
struct Shared {
    plan: Mutex<Arc<Plan>>,
    /// Counts plans, so that looking for a new one takes no lock.
    generation: AtomicU64,
    wanted: Mutex<Vec<Name>>,
    board: Mutex<BTreeMap<Name, Standing>>,
}

/// See the [module](self). Clones are the same.
#[derive(Clone, Default)]
pub struct Control(Arc<Shared>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Starts with `plan`.
    pub fn new(plan: Plan) -> Control {
        let control = Control::default();
        control.set(plan);
        control
    }

    /// New rules, for the instances to take at their next doorbell.
    pub fn set(&self, plan: Plan) {
        *lock(&self.0.plan) = Arc::new(plan);
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    /// The rules.
    pub fn plan(&self) -> Arc<Plan> {
        Arc::clone(&lock(&self.0.plan))
    }

    /// Whether the zone called `apex` (small letters) comes from elsewhere.
    pub fn is_secondary(&self, apex: &Name) -> bool {
        self.plan().config.zone(apex).is_some_and(|zone| !zone.primaries.is_empty())
    }

    /// The rules if they are not those of `generation`, which becomes theirs.
    pub(super) fn newer(&self, generation: &mut u64) -> Option<Arc<Plan>> {
        let newest = self.0.generation.load(Ordering::Acquire);
        (std::mem::replace(generation, newest) != newest).then(|| self.plan())
    }

    /// Has the primary of `apex` asked at the next doorbell; false: that zone does not come from elsewhere, or too many
    /// wait.
    pub fn refresh(&self, apex: &Name) -> bool {
        if !self.is_secondary(apex) {
            return false;
        }
        let mut wanted = lock(&self.0.wanted);
        let has_room = wanted.len() < WANTED_MAX;
        if has_room && !wanted.contains(apex) {
            wanted.push(apex.clone());
        }
        has_room
    }

    pub(super) fn take_wanted(&self) -> Vec<Name> {
        std::mem::take(&mut lock(&self.0.wanted))
    }

    /// How each zone that comes from elsewhere stands.
    pub fn board(&self) -> BTreeMap<Name, Standing> {
        lock(&self.0.board).clone()
    }

    pub(super) fn post(&self, apex: &Name, standing: Standing) {
        let mut board = lock(&self.0.board);
        match board.get_mut(apex) {
            Some(place) => *place = standing,
            None => drop(board.insert(apex.clone(), standing)),
        }
    }

    pub(super) fn forget(&self, apex: &Name) {
        lock(&self.0.board).remove(apex);
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::ZoneTable;
    use super::*;

    #[test]
    fn rules_are_taken_once_and_only_secondaries_refreshed() {
        let control = Control::default();
        let (ours, theirs) = (Name::absolute("ours").unwrap(), Name::absolute("theirs").unwrap());
        let mut generation = 0;
        assert!(control.newer(&mut generation).is_none());
        let from = ZoneTable { primary: vec!["192.0.2.1".to_owned()], ..ZoneTable::default() };
        let tables = [(&ours, &ZoneTable::default()), (&theirs, &from)];
        let config = TransferConfig::new(&[], tables).unwrap();
        control.set(Plan { config, ages: BTreeMap::new() });
        assert!(control.newer(&mut generation).is_some() && control.newer(&mut generation).is_none());
        assert!(control.refresh(&theirs) && control.refresh(&theirs) && !control.refresh(&ours));
        assert_eq!((control.take_wanted(), control.take_wanted()), (vec![theirs.clone()], Vec::new()));
        control.post(&theirs, Standing { serial: Some(7), ..Standing::default() });
        assert_eq!(control.board().get(&theirs).and_then(|standing| standing.serial), Some(7));
        control.forget(&theirs);
        assert!(control.board().is_empty());
    }
}
