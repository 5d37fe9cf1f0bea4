//! Several zones: which one is a name in?

use super::hash;
use super::zone_image::ZoneImage;
use crate::name::{self, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Zones to answer from; the longest match is the one. Immutable: a change makes a new one that shares what stayed.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    zones: Vec<Arc<ZoneImage>>,
    /// Hash of the zone's name, and its place in `zones` plus one; at most half full.
    table: Vec<(u64, u32)>,
    /// Bit `n`: there is a zone whose name has `n` labels.
    depths: u128,
    /// Names (wire format, small letters), in order, of zones this server should have but has not.
    missing: Arc<[Box<[u8]>]>,
}

impl Catalog {
    /// A catalog of these zones. If two have the same name, the later one counts.
    pub fn new(zones: impl IntoIterator<Item = Arc<ZoneImage>>) -> Catalog {
        let unique: BTreeMap<Name, Arc<ZoneImage>> =
            zones.into_iter().map(|zone| (zone.apex().clone(), zone)).collect();
        let zones: Vec<Arc<ZoneImage>> = unique.into_values().collect();
        let mut table = vec![(0, 0); (zones.len() * 2).next_power_of_two().max(2)];
        let mask = table.len() - 1;
        let mut depths = 0u128;
        for (index, zone) in zones.iter().enumerate() {
            let wire = zone.apex().wire();
            let mut message = vec![0; hash::BEFORE];
            message.extend_from_slice(wire);
            let hash = hash::hash(&message, hash::BEFORE, message.len());
            let mut slot = hash as usize & mask;
            while table.get(slot).is_some_and(|(_, place)| *place != 0) {
                slot = (slot + 1) & mask;
            }
            if let Some(entry) = table.get_mut(slot) {
                *entry = (hash, index as u32 + 1);
            }
            depths |= 1 << name::label_count(wire).min(127);
        }
        Catalog { zones, table, depths, missing: Arc::default() }
    }

    /// This catalog with these zones added or replaced.
    #[must_use]
    pub fn with(&self, new: impl IntoIterator<Item = Arc<ZoneImage>>) -> Catalog {
        let catalog = Catalog::new(self.zones.iter().cloned().chain(new));
        let missing =
            self.missing.iter().filter(|name| catalog.zones.iter().all(|zone| zone.apex().wire() != &***name));
        let missing = missing.cloned().collect();
        Catalog { missing, ..catalog }
    }

    /// This catalog, with those of `apexes` that it does not have marked as missing. Questions for them get SERVFAIL.
    #[must_use]
    pub fn with_missing<'a>(&self, apexes: impl IntoIterator<Item = &'a Name>) -> Catalog {
        let new = apexes.into_iter().filter(|apex| self.zone(apex).is_none());
        let new = new.map(|apex| Box::from(apex.to_lowercase().wire()));
        let missing: BTreeSet<Box<[u8]>> = self.missing.iter().cloned().chain(new).collect();
        Catalog { missing: missing.into_iter().collect(), ..self.clone() }
    }

    /// This catalog without the zone called `apex`, which is marked as missing.
    #[must_use]
    pub fn without(&self, apex: &Name) -> Catalog {
        let small = apex.to_lowercase();
        let rest = Catalog::new(self.zones.iter().filter(|zone| *zone.apex() != small).cloned());
        Catalog { missing: Arc::clone(&self.missing), ..rest }.with_missing([apex])
    }

    /// This catalog with only those zones, there or missing, that `is_wanted` accepts.
    #[must_use]
    pub fn only_with(&self, is_wanted: impl Fn(&Name) -> bool) -> Catalog {
        let kept = Catalog::new(self.zones.iter().filter(|zone| is_wanted(zone.apex())).cloned());
        let missing = self.missing.iter().filter(|name| Name::from_wire(name).is_some_and(|name| is_wanted(&name)));
        Catalog { missing: missing.cloned().collect(), ..kept }
    }

    /// The names of zones that are missing.
    pub fn missing(&self) -> impl Iterator<Item = Name> + '_ {
        self.missing.iter().filter_map(|name| Name::from_wire(name))
    }

    /// Whether the name at byte 12 of `message` (labels and end as for [`Catalog::zone_of`]) belongs to a zone that is
    /// missing: no other zone that holds it is nearer. `above`: not to one of just that name.
    pub fn is_missing(&self, message: &[u8], starts: &[u8], end: usize, above: bool) -> bool {
        if self.missing.is_empty() {
            return false;
        }
        let mut small = [0; name::NAME_BYTES_MAX];
        let Some((name, from)) = small.get_mut(..end - hash::BEFORE).zip(message.get(hash::BEFORE..end)) else {
            return false;
        };
        name.copy_from_slice(from);
        name.make_ascii_lowercase();
        let missing = |start: usize| {
            let part = name.get(start..).unwrap_or_default();
            self.missing.binary_search_by(|known| (**known).cmp(part)).is_ok()
        };
        let places = starts.iter().map(|start| usize::from(*start)).chain([end - hash::BEFORE - 1]);
        let nearest = places.skip(usize::from(above)).find(|start| missing(*start));
        let Some(nearest) = nearest else { return false };
        let zone = self.zone_of(message, starts, end, above);
        zone.is_none_or(|zone| zone.apex().wire().len() < end - hash::BEFORE - nearest)
    }

    /// The zones in order of their names.
    pub fn zones(&self) -> &[Arc<ZoneImage>] {
        &self.zones
    }

    /// The zone called `apex`.
    pub fn zone(&self, apex: &Name) -> Option<&Arc<ZoneImage>> {
        let apex = apex.to_lowercase();
        self.zones.get(self.zones.binary_search_by(|zone| zone.apex().cmp(&apex)).ok()?)
    }

    /// The only zone, if there is but one and none is missing.
    #[inline(always)]
    pub fn only(&self) -> Option<&Arc<ZoneImage>> {
        match self.zones.as_slice() {
            [only] if self.missing.is_empty() => Some(only),
            _ => None,
        }
    }

    /// The zone of the name at byte 12 of `message` whose labels start at `starts` from there, and which ends at `end`; with
    /// `above`, that one is left out (a question for DS belongs to the parent's zone).
    pub fn zone_of(&self, message: &[u8], starts: &[u8], end: usize, above: bool) -> Option<&Arc<ZoneImage>> {
        let labels = starts.len();
        let mut depths = if labels >= 127 { self.depths } else { self.depths & ((1 << (labels + 1)) - 1) };
        if above {
            depths &= !(1 << labels.min(127));
        }
        while depths != 0 {
            let depth = 127 - depths.leading_zeros() as usize;
            depths &= !(1 << depth);
            let start = match starts.get(labels - depth.min(labels)) {
                Some(start) => hash::BEFORE + usize::from(*start),
                None => end - 1,
            };
            if let Some(zone) = self.probe(message, start, end) {
                return Some(zone);
            }
        }
        None
    }

    fn probe(&self, message: &[u8], start: usize, end: usize) -> Option<&Arc<ZoneImage>> {
        let hash = hash::hash(message, start, end);
        let mask = self.table.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        loop {
            let (own, place) = *self.table.get(slot)?;
            let index = (place as usize).checked_sub(1)?;
            if own == hash {
                let zone = self.zones.get(index)?;
                if zone.apex_node().is_called(message, start, end) {
                    return Some(zone);
                }
            }
            slot = (slot + 1) & mask;
        }
    }
}
