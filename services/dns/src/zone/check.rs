//! What is odd about a zone, though it can be served.

use super::problem::Problem;
use super::records::{SetView, Zone};
use super::rtype::{self, type_name};
use crate::layout;
use crate::name::{self, Presentation};

/// Warnings given at most.
const WARNINGS_MAX: usize = 1_000;
const SRV: u16 = 33;

/// Everything odd about `zone`, in canonical order.
pub fn check(zone: &Zone) -> Vec<Problem> {
    let mut checker = Checker { zone, problems: Vec::new(), cut: None };
    let mut sets: Vec<SetView<'_>> = Vec::new();
    for set in zone.sets() {
        if sets.first().is_some_and(|first| first.owner() != set.owner()) {
            checker.name(&sets);
            sets.clear();
        }
        sets.push(set);
        if checker.problems.len() >= WARNINGS_MAX {
            break;
        }
    }
    checker.name(&sets);
    checker.apex();
    checker.problems
}

struct Checker<'z> {
    zone: &'z Zone,
    problems: Vec<Problem>,
    /// The delegation or DNAME record the walk is below, and whether it is a delegation.
    cut: Option<(&'z [u8], bool)>,
}

impl<'z> Checker<'z> {
    fn warn(&mut self, set: &SetView<'z>, message: String) {
        if self.problems.len() < WARNINGS_MAX {
            self.problems.push(Problem { place: set.place(), message, is_warning: true });
        }
    }

    fn apex(&mut self) {
        let apex = self.zone.apex().wire();
        let soa = self.zone.sets().take_while(|set| set.owner() == apex).find(|set| set.rtype() == rtype::SOA);
        let Some(soa) = soa else { return };
        if !self.zone.has(apex, rtype::NS) {
            self.warn(&soa, format!("{}: no NS records: write one for each server", self.zone.apex()));
        }
        let hashed = self.zone.sets().any(|set| set.rtype() == rtype::NSEC3);
        if hashed && !self.zone.has(apex, rtype::NSEC3PARAM) {
            let text = "NSEC3 records without an NSEC3PARAM record at the apex: nothing is proven by them; sign again";
            self.warn(&soa, text.to_owned());
        }
        if self.zone.has(apex, rtype::DNSKEY) && !hashed && !self.zone.has(apex, rtype::NSEC) {
            self.warn(&soa, "DNSKEY records, but neither NSEC nor NSEC3: sign the zone".to_owned());
        }
    }

    fn name(&mut self, sets: &[SetView<'z>]) {
        let Some(owner) = sets.first().map(SetView::owner) else { return };
        let shown = Presentation(owner);
        self.cut = self.cut.filter(|(cut, _)| name::is_within(owner, cut));
        if let Some((cut, delegation)) = self.cut {
            let cut_shown = Presentation(cut);
            for set in sets {
                let glue = delegation && matches!(set.rtype(), rtype::A | rtype::AAAA);
                if !glue && !matches!(set.rtype(), rtype::NSEC | rtype::RRSIG | rtype::NSEC3) {
                    let what = if delegation { "the delegation" } else { "the DNAME record" };
                    let text = format!(
                        "{shown} {}: below {what} of {cut_shown}, never answered: move it to that zone, or take it out",
                        type_name(set.rtype())
                    );
                    self.warn(set, text);
                }
            }
            return;
        }
        let has = |rtype: u16| sets.iter().find(|set| set.rtype() == rtype);
        let is_apex = owner == self.zone.apex().wire();
        if let Some(signer) = has(rtype::DS)
            && has(rtype::NS).is_none()
        {
            self.warn(signer, format!("{shown}: DS without NS records: a delegation needs both"));
        }
        for set in sets {
            self.targets(set);
        }
        if let Some(servers) = has(rtype::NS).filter(|_| !is_apex) {
            self.glue(servers);
            self.cut = Some((owner, true));
        } else if has(rtype::DNAME).is_some() {
            self.cut = Some((owner, false));
        }
    }

    /// Names that must have addresses and be no aliases (RFC 2181 section 10.3).
    fn targets(&mut self, set: &SetView<'z>) {
        if !matches!(set.rtype(), rtype::NS | rtype::MX | SRV) {
            return;
        }
        for data in set.data() {
            let Some(target) = layout::first_name(set.rtype(), data).map(<[u8]>::to_ascii_lowercase) else { continue };
            if target == [0] || !name::is_within(&target, self.zone.apex().wire()) {
                continue;
            }
            let (owner, kind, shown) = (Presentation(set.owner()), type_name(set.rtype()), Presentation(&target));
            if self.zone.has(&target, rtype::CNAME) {
                let text = format!("{owner} {kind}: {shown} is an alias (CNAME): name what it stands for");
                self.warn(set, text);
            } else if set.rtype() != rtype::NS && !self.has_address(&target) && !self.may_exist_otherwise(&target) {
                let text = format!("{owner} {kind}: {shown} has no address here: write an A or AAAA record");
                self.warn(set, text);
            } else if set.rtype() == rtype::NS
                && set.owner() == self.zone.apex().wire()
                && !self.has_address(&target)
                && !self.may_exist_otherwise(&target)
            {
                let text = format!("{owner} NS: {shown} has no address here: write an A or AAAA record");
                self.warn(set, text);
            }
        }
    }

    /// Servers within the delegated zone, or elsewhere in this one, must have addresses here (RFC 9471).
    fn glue(&mut self, servers: &SetView<'z>) {
        for data in servers.data() {
            let target = data.to_ascii_lowercase();
            if name::is_within(&target, servers.owner()) && !self.has_address(&target) {
                let text = format!(
                    "{} NS: {} is in the delegated zone, and has no address here: write its A or AAAA record (glue)",
                    Presentation(servers.owner()),
                    Presentation(&target)
                );
                self.warn(servers, text);
            }
        }
    }

    fn has_address(&self, name: &[u8]) -> bool {
        self.zone.has(name, rtype::A) || self.zone.has(name, rtype::AAAA)
    }

    /// Below another zone's cut, or what a wildcard stands for.
    fn may_exist_otherwise(&self, name: &[u8]) -> bool {
        let mut above = name::parent(name);
        while let Some(wire) = above.filter(|wire| wire.len() > self.zone.apex().wire().len()) {
            let mut wildcard = vec![1, b'*'];
            wildcard.extend_from_slice(wire);
            if self.zone.has(wire, rtype::NS) || self.zone.has(wire, rtype::DNAME) || self.has_address(&wildcard) {
                return true;
            }
            above = name::parent(wire);
        }
        let mut wildcard = vec![1, b'*'];
        wildcard.extend_from_slice(self.zone.apex().wire());
        self.has_address(&wildcard)
    }
}

#[cfg(test)]
mod tests {
    use crate::name::Name;
    use crate::zone::parse::read_text;
    use std::path::Path;

    fn warnings(records: &str) -> Vec<String> {
        let text = format!("$TTL 60\n@ SOA a. b. 1 2 3 4 5\n{records}");
        let (zone, problems) = read_text(&Name::absolute("example").unwrap(), Path::new("z"), &text).unwrap();
        problems.into_iter().chain(super::check(&zone)).map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn nothing_to_say_of_a_good_zone() {
        let text =
            "@ NS ns\n@ NS ns.elsewhere.\nns A 192.0.2.1\nsub NS ns.sub\nns.sub AAAA ::1\na CNAME b\nb MX 1 ns\n";
        assert_eq!(warnings(text), Vec::<String>::new());
    }

    #[test]
    fn what_is_odd_is_said_with_its_place() {
        let cases = [
            ("a A 192.0.2.1\n", "z:2: warning: example.: no NS records"),
            ("@ NS x.\nsub NS ns.sub\n", "z:4: warning: sub.example. NS: ns.sub.example. is in the delegated zone"),
            ("@ NS ns\n", "example. NS: ns.example. has no address"),
            ("@ NS x.\n@ MX 1 mail\nmail CNAME x.\n", "example. MX: mail.example. is an alias"),
            ("@ NS x.\nsub NS y.\nb.sub TXT x\n", "b.sub.example. TXT: below the delegation of sub.example."),
            ("@ NS x.\nd DNAME y.\nb.d A 192.0.2.1\n", "b.d.example. A: below the DNAME record"),
            ("@ NS x.\nother.org. A 192.0.2.1\n", "z:4: warning: other.org. is outside of the zone"),
            ("@ NS x.\na A 192.0.2.1\na A 192.0.2.1\n", "z:5: warning: the same record again"),
            ("@ NS x.\na A 192.0.2.1\na 30 A 192.0.2.2\n", "z:5: warning: TTL 30 where the same set has 60"),
            ("@ NS x.\nd DS 1 8 2 00\n", "d.example.: DS without NS"),
        ];
        for (records, expected) in cases {
            let found = warnings(records);
            assert!(found.iter().any(|warning| warning.contains(expected)), "{records}: {found:?}");
        }
    }
}
