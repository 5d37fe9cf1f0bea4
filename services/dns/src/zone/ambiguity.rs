//! What a zone may not have, because its answers would be ambiguous: NSD, BIND and Knot refuse such zones.

use super::problem::{PROBLEMS_MAX, Place};
use super::records::{Record, Zone};
use super::rtype::{self, type_name};
use crate::name::Presentation;

const KEY: u16 = 25;
const NXT: u16 = 30;

/// Everything ambiguous about `zone`, in canonical order, up to as many as are told.
pub(super) fn find(zone: &Zone) -> Vec<(Place, String)> {
    let mut found = Vec::new();
    for (index, record) in zone.records.iter().enumerate() {
        // One comparison for nearly all records.
        if !matches!(record.rtype, rtype::CNAME | rtype::DNAME | rtype::SOA) {
            continue;
        }
        let message = judge(zone, index, record);
        found.extend(message.map(|message| (zone.place(index), message)));
        if found.len() >= PROBLEMS_MAX {
            break;
        }
    }
    found
}

fn judge(zone: &Zone, index: usize, record: &Record) -> Option<String> {
    let owner = zone.view(record).owner;
    let shown = Presentation(owner);
    if record.rtype == rtype::SOA {
        let astray = owner != zone.apex().wire();
        return astray.then(|| format!("{shown}: a SOA record that is not at the zone's own name: take it out"));
    }
    let same = |other: &&Record| zone.view(other).owner == owner;
    let before = zone.records.get(..index).unwrap_or_default().iter().rev().take_while(same);
    // A set is told of at its first record.
    if before.clone().any(|other| other.rtype == record.rtype) {
        return None;
    }
    let after = || zone.records.get(index + 1..).unwrap_or_default().iter().take_while(same);
    let count = 1 + after().take_while(|other| other.rtype == record.rtype).count();
    let kind = type_name(record.rtype);
    if count > 1 {
        let rule = if record.rtype == rtype::CNAME { "RFC 2181 section 10.1" } else { "RFC 6672 section 2.4" };
        return Some(format!("{shown}: {count} {kind} records ({rule}): keep one"));
    }
    if record.rtype == rtype::DNAME {
        return None;
    }
    // RFC 4034 section 3 and 4, RFC 3007 section 3.1.1: what signing needs may be beside a CNAME record.
    let is_other = |other: &&Record| {
        !matches!(other.rtype, rtype::CNAME | rtype::RRSIG | rtype::NSEC | rtype::NSEC3 | KEY | NXT | 24)
    };
    let other = before.clone().find(is_other).or_else(|| after().find(is_other))?;
    Some(format!("{shown}: a CNAME record beside {} (RFC 2181 section 10.1): keep one of them", type_name(other.rtype)))
}
