//! The answer to any question within a zone: RFC 1034 section 4.3.2 as RFC 4592 (wildcards), RFC 6672 (DNAME) and RFC 4035
//! section 3.1 (DNSSEC) have changed it.

use super::plan::{Plan, Verdict};
use super::question::Question;
use crate::image::{Node, NodeReference, Set, ZoneImage, flag, hash};
use crate::layout;
use crate::message::{HEADER_LENGTH, MessageWriter, rcode};
use crate::name::{self, NAME_BYTES_MAX};
use crate::zone::rtype;

/// CNAME and DNAME records followed at most.
const CHAIN_MAX: usize = 16;
/// Names whose addresses go into the additional section at most.
const ADDRESSED_MAX: usize = 16;
/// Record sets of the authority section at most: SOA and three proofs with room to spare.
const AUTHORITY_MAX: usize = 40;

/// A name on the way, after as many bytes as hashing wants before it.
pub(super) struct CurrentName {
    bytes: [u8; hash::BEFORE + NAME_BYTES_MAX],
    end: usize,
    starts: [u8; 128],
    labels: usize,
}

impl CurrentName {
    fn new() -> CurrentName {
        CurrentName { bytes: [0; hash::BEFORE + NAME_BYTES_MAX], end: hash::BEFORE + 1, starts: [0; 128], labels: 0 }
    }

    /// Becomes `first` followed by the name `rest`; `false`: that is longer than a name may be.
    fn set(&mut self, first: &[u8], rest: &[u8]) -> bool {
        let end = hash::BEFORE + first.len() + rest.len();
        let Some(target) = self.bytes.get_mut(hash::BEFORE..end) else { return false };
        let (front, back) = target.split_at_mut(first.len());
        front.copy_from_slice(first);
        back.copy_from_slice(rest);
        self.end = end;
        self.labels = 0;
        let mut at = hash::BEFORE;
        while let Some(length) = self.bytes.get(at).filter(|length| **length != 0 && at < end) {
            if let Some(start) = self.starts.get_mut(self.labels) {
                *start = (at - hash::BEFORE) as u8;
                self.labels += 1;
            }
            at += usize::from(*length) + 1;
        }
        true
    }

    pub(super) fn wire(&self) -> &[u8] {
        self.bytes.get(hash::BEFORE..self.end).unwrap_or_default()
    }

    /// The name without its first `labels` labels.
    pub(super) fn suffix(&self, labels: usize) -> &[u8] {
        self.wire().get(self.start(labels)..).unwrap_or_default()
    }

    fn start(&self, label: usize) -> usize {
        match self.starts.get(label).filter(|_| label < self.labels) {
            Some(start) => usize::from(*start),
            None => self.end - hash::BEFORE - 1,
        }
    }

    pub(super) fn labels(&self) -> usize {
        self.labels
    }

    /// Where the name is in the zone: the node of the longest suffix that exists, and how many labels that leaves out.
    fn locate<'z>(&self, zone: &'z ZoneImage) -> Option<(Node<'z>, usize)> {
        // What has more labels than any name there is needs no looking for: work is bounded by the zone's depth.
        let mut skip = self.labels.saturating_sub(zone.labels_max());
        loop {
            if let Some(node) = zone.find(&self.bytes, hash::BEFORE + self.start(skip), self.end) {
                return Some((node, skip));
            }
            skip += 1;
            if skip > self.labels {
                return None;
            }
        }
    }
}

/// What goes into the authority section: gathered while the answer is written.
#[derive(Default)]
pub(super) struct Authority {
    sets: [(NodeReference, u16); AUTHORITY_MAX / 4],
    count: usize,
}

impl Authority {
    /// Adds a set once.
    pub(super) fn add(&mut self, node: NodeReference, rtype: u16) {
        let known = self.sets.get(..self.count).unwrap_or_default().contains(&(node, rtype));
        if !known && let Some(place) = self.sets.get_mut(self.count) {
            *place = (node, rtype);
            self.count += 1;
        }
    }
}

pub(super) struct Walk<'m, 'z> {
    pub(super) zone: &'z ZoneImage,
    writer: MessageWriter<'m>,
    pub(super) dnssec: bool,
    pub(super) name: CurrentName,
    pub(super) authority: Authority,
    verdict: Verdict,
    path: Path,
    /// What was answered, if addresses of the names in it belong to the answer.
    addressed: Option<Set<'z>>,
}

/// DNAME records that were followed.
#[derive(Default)]
struct Path {
    /// The nodes of these records. Each is in the answer once (RFC 2181 section 5).
    nodes: [NodeReference; CHAIN_MAX],
    /// Where the owners of the CNAME records made from them are written: a name met again is a circle.
    owners: [u16; CHAIN_MAX],
    count: usize,
}

impl Path {
    fn has(&self, node: NodeReference) -> bool {
        self.nodes.get(..self.count).unwrap_or_default().contains(&node)
    }

    fn add(&mut self, node: NodeReference, owner: usize) {
        if let Some((place, at)) = self.nodes.get_mut(self.count).zip(self.owners.get_mut(self.count)) {
            (*place, *at) = (node, owner as u16);
            self.count += 1;
        }
    }

    fn owners(&self) -> impl Iterator<Item = usize> + '_ {
        self.owners.iter().take(self.count).map(|at| usize::from(*at))
    }
}

/// Answers from `zone`, which the question's name is in.
pub(super) fn answer(zone: &ZoneImage, message: &mut [u8], question: &Question, plan: &Plan<'_>) -> Verdict {
    let mut name = CurrentName::new();
    name.set(&[], message.get(HEADER_LENGTH..question.name_end).unwrap_or_default());
    let end = plan.records_end().min(message.len());
    let mut writer = MessageWriter::new(message.get_mut(..end).unwrap_or_default(), plan.question_end);
    writer.remember(HEADER_LENGTH);
    let verdict = Verdict { authoritative: true, end: plan.question_end, ..Verdict::default() };
    let (authority, path) = (Authority::default(), Path::default());
    let mut walk = Walk { zone, writer, dnssec: plan.dnssec, name, authority, verdict, path, addressed: None };
    walk.answer_section(question.qtype);
    if !walk.writer.has_overflowed() {
        walk.authority_section();
    }
    if !walk.writer.has_overflowed() {
        walk.additional_section();
    }
    let mut verdict = walk.verdict;
    if walk.writer.has_overflowed() {
        // RFC 2181 section 9: what was asked for is not all here; the client comes again by TCP.
        verdict.truncated = true;
        (verdict.answers, verdict.authority, verdict.additional) = (0, 0, 0);
        verdict.end = plan.question_end;
    } else {
        verdict.end = walk.writer.position();
    }
    verdict
}

/// What a step found.
enum Step {
    Done,
    /// The name is another now.
    Again,
}

impl<'z> Walk<'_, 'z> {
    fn answer_section(&mut self, qtype: u16) {
        let mut visited = [NodeReference::default(); CHAIN_MAX];
        for link in 0..CHAIN_MAX {
            let Some((node, skipped)) = self.name.locate(self.zone) else {
                // The target of a CNAME or DNAME outside of the zone: its resolver goes on.
                return;
            };
            // Below a cut or DNAME, that decides.
            let (node, exact) = match node.flags() & flag::OCCLUDED {
                0 => (node, skipped == 0),
                _ => (self.zone.node(node.cut()), false),
            };
            self.verdict.source_hash = node.source_hash();
            if node.flags() & flag::CUT != 0 && !(exact && qtype == rtype::DS) {
                self.verdict.authoritative = link > 0;
                self.referral(node);
                return;
            }
            // Of a name that is not there, the node is only the nearest above it.
            if exact && visited.get(..link).unwrap_or_default().contains(&node.reference()) {
                return;
            }
            let step = if exact {
                self.at_node(node, qtype, None, &mut visited, link)
            } else if node.flags() & flag::DNAME != 0 {
                self.dname(node, qtype)
            } else if let Some(wildcard) = node.wildcard() {
                let wildcard = self.zone.node(wildcard);
                if visited.get(..link).unwrap_or_default().contains(&wildcard.reference()) {
                    return;
                }
                self.verdict.source_hash = wildcard.source_hash();
                self.at_node(wildcard, qtype, Some(node), &mut visited, link)
            } else {
                self.name_error(node);
                Step::Done
            };
            if matches!(step, Step::Done) {
                return;
            }
        }
    }

    /// The name exists, or `node` is the wildcard below `encloser` that stands for it.
    fn at_node(
        &mut self,
        node: Node<'z>,
        qtype: u16,
        encloser: Option<Node<'z>>,
        visited: &mut [NodeReference; CHAIN_MAX],
        link: usize,
    ) -> Step {
        let found = match qtype {
            // RFC 8482 section 4.1: one set is answer enough.
            rtype::ANY => node.set(rtype::CNAME).or_else(|| node.sets().next()),
            qtype => node.set(qtype),
        };
        if let Some(set) = found {
            // What led here may be just that.
            if set.rtype() != rtype::DNAME || !self.path.has(node.reference()) {
                self.put_answer(&set);
            }
            self.addressed = Some(set).filter(|set| layout::has_addressed_names(set.rtype()));
            self.expanded(encloser);
            return Step::Done;
        }
        if qtype == rtype::RRSIG && node.sets().any(|set| set.signature_count() > 0) {
            for (ttl, data) in node.sets().flat_map(|set| set.signatures()) {
                self.writer.put_record(self.name.wire(), rtype::RRSIG, ttl, data);
                self.verdict.answers += 1;
            }
            self.expanded(encloser);
            return Step::Done;
        }
        if let Some(set) = node.set(rtype::CNAME) {
            self.put_answer(&set);
            self.expanded(encloser);
            if let Some(place) = visited.get_mut(link) {
                *place = node.reference();
            }
            return match set.data().next() {
                Some(target) if self.name.set(&[], target) => Step::Again,
                _ => Step::Done,
            };
        }
        self.add_soa();
        if self.dnssec {
            self.prove_no_data(node, encloser);
        }
        Step::Done
    }

    /// A wildcard answered: proof that nothing nearer is there (RFC 4035 section 3.1.3.3).
    fn expanded(&mut self, encloser: Option<Node<'z>>) {
        if let Some(encloser) = encloser
            && self.dnssec
        {
            self.prove_expansion(encloser);
        }
    }

    fn put_answer(&mut self, set: &Set<'z>) {
        for data in set.data() {
            self.writer.put_record(self.name.wire(), set.rtype(), set.ttl(), data);
            self.verdict.answers = self.verdict.answers.saturating_add(1);
        }
        if self.dnssec {
            for (ttl, data) in set.signatures() {
                self.writer.put_record(self.name.wire(), rtype::RRSIG, ttl, data);
                self.verdict.answers = self.verdict.answers.saturating_add(1);
            }
        }
    }

    /// RFC 6672 section 3.2: the record, and the CNAME record made from it.
    fn dname(&mut self, node: Node<'z>, qtype: u16) -> Step {
        let Some(set) = node.set(rtype::DNAME) else { return Step::Done };
        let name = self.name.wire();
        if self.path.owners().any(|at| self.writer.is_at(at, name)) {
            return Step::Done;
        }
        if !self.path.has(node.reference()) {
            self.verdict.answers = self.verdict.answers.saturating_add(self.put_set(node.name(), &set, u32::MAX));
        }
        let Some(target) = set.data().next() else { return Step::Done };
        let mut owner = [0; NAME_BYTES_MAX];
        let length = self.name.wire().len();
        let prefix = length - node.name().len().min(length);
        let Some(owner) = owner.get_mut(..length) else { return Step::Done };
        owner.copy_from_slice(self.name.wire());
        if prefix + target.len() > NAME_BYTES_MAX {
            self.verdict.rcode = rcode::YXDOMAIN;
            return Step::Done;
        }
        self.name.set(owner.get(..prefix).unwrap_or_default(), target);
        self.path.add(node.reference(), self.writer.position());
        self.writer.put_record(owner, rtype::CNAME, set.ttl(), self.name.wire());
        self.verdict.answers = self.verdict.answers.saturating_add(1);
        // The record just made is what a question for CNAME asks for.
        if qtype == rtype::CNAME { Step::Done } else { Step::Again }
    }

    /// The name does not exist; `encloser` is the nearest that does.
    fn name_error(&mut self, encloser: Node<'z>) {
        self.verdict.rcode = rcode::NXDOMAIN;
        self.verdict.source_hash = self.zone.apex_node().source_hash();
        self.add_soa();
        if self.dnssec {
            self.prove_name_error(encloser);
        }
    }

    fn add_soa(&mut self) {
        self.authority.add(self.zone.apex_node().reference(), rtype::SOA);
    }

    fn authority_section(&mut self) {
        for index in 0..self.authority.count {
            let Some((reference, rtype)) = self.authority.sets.get(index).copied() else { return };
            let node = self.zone.node(reference);
            let Some(set) = node.set(rtype) else { continue };
            // RFC 2308 section 3: no longer than the SOA record's own minimum.
            let ttl_max = match rtype {
                rtype::SOA => {
                    set.data().next().and_then(|data| data.last_chunk()).map(|last| u32::from_be_bytes(*last))
                }
                _ => None,
            };
            let ttl_max = ttl_max.unwrap_or(u32::MAX);
            self.verdict.authority += self.put_set(node.name(), &set, ttl_max);
        }
    }

    /// Writes a set and, if wanted, its signatures; gives how many records that is.
    fn put_set(&mut self, owner: &[u8], set: &Set<'z>, ttl_max: u32) -> u16 {
        let mut count = 0u16;
        for data in set.data() {
            self.writer.put_record(owner, set.rtype(), set.ttl().min(ttl_max), data);
            count = count.saturating_add(1);
        }
        if self.dnssec {
            for (ttl, data) in set.signatures() {
                self.writer.put_record(owner, rtype::RRSIG, ttl.min(ttl_max), data);
                count = count.saturating_add(1);
            }
        }
        count
    }

    /// To the servers of the zone that begins at `cut` (RFC 1034 section 4.3.2 step 3b; RFC 4035 section 3.1.4).
    fn referral(&mut self, cut: Node<'z>) {
        let Some(servers) = cut.set(rtype::NS) else { return };
        // They come first; what belongs to chains before them was gathered already, and comes after.
        self.verdict.authority += self.put_set(cut.name(), &servers, u32::MAX);
        if self.dnssec {
            match cut.set(rtype::DS) {
                // RFC 4035 section 3.1.4: of signed zones; elsewhere it proves nothing.
                Some(set) if set.signature_count() > 0 => self.authority.add(cut.reference(), rtype::DS),
                _ => self.prove_no_delegation_signer(cut),
            }
            self.authority_section();
            self.authority = Authority::default();
        }
        // RFC 9471: in-domain glue must be there or TC is set; sibling glue comes if it fits.
        for in_domain in [true, false] {
            for server in servers.data() {
                if name::is_within(server, cut.name()) == in_domain && name::is_within(server, self.zone.apex().wire())
                {
                    self.glue(server, in_domain);
                }
            }
        }
    }

    /// The addresses of what was answered, if there is room (RFC 1034 section 4.3.2 step 6).
    fn additional_section(&mut self) {
        let Some(set) = self.addressed else { return };
        let mut given = [NodeReference::default(); ADDRESSED_MAX];
        for (data, place) in set.data().zip(0..ADDRESSED_MAX) {
            let Some(target) = layout::first_name(set.rtype(), data) else { continue };
            let Some(node) = self.find(target) else { continue };
            // Several records may tell of one name.
            if !given.contains(&node.reference()) {
                self.addresses(target, &node, false);
            }
            if let Some(place) = given.get_mut(place) {
                *place = node.reference();
            }
        }
    }

    fn find(&self, name: &[u8]) -> Option<Node<'z>> {
        let mut message = [0; hash::BEFORE + NAME_BYTES_MAX];
        let end = hash::BEFORE + name.len();
        message.get_mut(hash::BEFORE..end)?.copy_from_slice(name);
        self.zone.find(&message, hash::BEFORE, end)
    }

    fn glue(&mut self, server: &[u8], required: bool) {
        if let Some(node) = self.find(server) {
            self.addresses(server, &node, required);
        }
    }

    fn addresses(&mut self, name: &[u8], node: &Node<'z>, required: bool) {
        for rtype in [rtype::A, rtype::AAAA] {
            let Some(set) = node.set(rtype) else { continue };
            if self.writer.has_overflowed() {
                return;
            }
            let before = self.writer.position();
            for data in set.data() {
                self.writer.put_record(name, rtype, set.ttl(), data);
            }
            if self.writer.has_overflowed() && !required {
                self.writer.rewind(before);
                return;
            }
            self.verdict.additional = self.verdict.additional.saturating_add(set.count());
        }
    }
}
