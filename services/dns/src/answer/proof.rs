//! What proves that something is not there: NSEC (RFC 4035 section 3.1.3), NSEC3 (RFC 5155 section 7.2).

use super::general::Walk;
use crate::image::{Node, Nsec3Chain, ZoneImage};
use crate::name::NAME_BYTES_MAX;
use crate::zone::rtype;

/// A name with `*` before it, or in small letters: its bytes and how many they are.
struct Copied([u8; NAME_BYTES_MAX + 2], usize);

impl Copied {
    fn wildcard_of(name: &[u8]) -> Copied {
        let mut copied = Copied([0; NAME_BYTES_MAX + 2], name.len() + 2);
        copied.0[..2].copy_from_slice(&[1, b'*']);
        if let Some(target) = copied.0.get_mut(2..2 + name.len()) {
            target.copy_from_slice(name);
        }
        copied
    }

    fn small(name: &[u8]) -> Copied {
        let mut copied = Copied([0; NAME_BYTES_MAX + 2], name.len());
        if let Some(target) = copied.0.get_mut(..name.len()) {
            target.copy_from_slice(name);
            target.make_ascii_lowercase();
        }
        copied
    }

    fn wire(&self) -> &[u8] {
        self.0.get(..self.1).unwrap_or_default()
    }
}

impl<'z> Walk<'_, 'z> {
    /// The chain, if the zone has one.
    fn nsec3(&self) -> Option<(&'z Nsec3Chain, &'z ZoneImage)> {
        self.zone.nsec3().map(|chain| (chain, self.zone))
    }

    fn add_nsec_covering(&mut self, name: &[u8]) {
        if let Some(node) = self.zone.nsec_at_or_before(name) {
            self.authority.add(node.reference(), rtype::NSEC);
        }
    }

    /// Whether there is a record for exactly this name; if so it is added.
    fn add_nsec3_matching(&mut self, name: &[u8]) -> bool {
        let Some((chain, _)) = self.nsec3() else { return false };
        let found = chain.matching(&chain.hash(name));
        if let Some(reference) = found {
            self.authority.add(reference, rtype::NSEC3);
        }
        found.is_some()
    }

    fn add_nsec3_covering(&mut self, name: &[u8]) {
        let Some((chain, _)) = self.nsec3() else { return };
        if let Some(reference) = chain.covering(&chain.hash(name)) {
            self.authority.add(reference, rtype::NSEC3);
        }
    }

    /// The name on the way down to the current one that is one label longer than `encloser`, small letters.
    fn next_closer(&self, encloser: &[u8]) -> Copied {
        let mut skip = 0;
        while skip < self.name.labels() && self.name.suffix(skip + 1).len() > encloser.len() {
            skip += 1;
        }
        Copied::small(self.name.suffix(skip))
    }

    /// RFC 5155 section 7.2.1: the nearest name above (or at) that has a record, and that what is between does not exist.
    fn prove_closest_provable(&mut self, from: usize) {
        for skip in from..=self.name.labels() {
            let candidate = Copied::small(self.name.suffix(skip));
            if candidate.1 < self.zone.apex().wire().len() {
                return;
            }
            if self.add_nsec3_matching(candidate.wire()) {
                if skip > 0 {
                    let next_closer = Copied::small(self.name.suffix(skip - 1));
                    self.add_nsec3_covering(next_closer.wire());
                }
                return;
            }
        }
    }

    /// Neither the name nor a wildcard for it (RFC 4035 section 3.1.3.2, RFC 5155 section 7.2.2).
    pub(super) fn prove_name_error(&mut self, encloser: Node<'z>) {
        let wildcard = Copied::wildcard_of(encloser.name());
        if self.zone.nsec3().is_some() {
            self.add_nsec3_matching(encloser.name());
            let next_closer = self.next_closer(encloser.name());
            self.add_nsec3_covering(next_closer.wire());
            self.add_nsec3_covering(wildcard.wire());
        } else if self.zone.has_nsec() {
            let name = Copied::small(self.name.wire());
            self.add_nsec_covering(name.wire());
            self.add_nsec_covering(wildcard.wire());
        }
    }

    /// The name is there, or `node` the wildcard for it below `encloser`, but not the type (RFC 4035 sections 3.1.3.1 and
    /// 3.1.3.4, RFC 5155 sections 7.2.3 to 7.2.5).
    pub(super) fn prove_no_data(&mut self, node: Node<'z>, encloser: Option<Node<'z>>) {
        if self.zone.nsec3().is_some() {
            match encloser {
                None => {
                    if !self.add_nsec3_matching(node.name()) {
                        // With opt-out, an insecure delegation or what is only above such has no record.
                        self.prove_closest_provable(0);
                    }
                }
                Some(encloser) => {
                    self.add_nsec3_matching(encloser.name());
                    let next_closer = self.next_closer(encloser.name());
                    self.add_nsec3_covering(next_closer.wire());
                    self.add_nsec3_matching(node.name());
                }
            }
        } else if self.zone.has_nsec() {
            // A name without records has no NSEC record either: the one before shows that something is below it.
            self.add_nsec_covering(node.name());
            if encloser.is_some() {
                let name = Copied::small(self.name.wire());
                self.add_nsec_covering(name.wire());
            }
        }
    }

    /// A wildcard stood in: nothing nearer is there (RFC 4035 section 3.1.3.3, RFC 5155 section 7.2.6).
    pub(super) fn prove_expansion(&mut self, encloser: Node<'z>) {
        if self.zone.nsec3().is_some() {
            let next_closer = self.next_closer(encloser.name());
            self.add_nsec3_covering(next_closer.wire());
        } else if self.zone.has_nsec() {
            let name = Copied::small(self.name.wire());
            self.add_nsec_covering(name.wire());
        }
    }

    /// The zone beyond the cut is unsigned (RFC 4035 section 3.1.4.1, RFC 5155 section 7.2.7).
    pub(super) fn prove_no_delegation_signer(&mut self, cut: Node<'z>) {
        if self.zone.nsec3().is_some() {
            if !self.add_nsec3_matching(cut.name()) {
                let above = self.name.labels().saturating_sub(cut.labels());
                self.prove_closest_provable(above);
            }
        } else if self.zone.has_nsec() {
            self.add_nsec_covering(cut.name());
        }
    }
}
