//! From sorted record sets to an image, in one walk: parents come before their children.

use super::arena::Arena;
use super::hash;
use super::node::{HEADER, NOT_READY, NodeReference, ROW, Ready, flag};
use super::nsec3::{self, Nsec3Chain};
use super::table::Table;
use super::zone_image::ZoneImage;
use crate::layout;
use crate::message::{HEADER_LENGTH, MessageWriter};
use crate::name::{self, NAME_BYTES_MAX, Presentation};
use crate::zone::{SetView, Zone, rtype, type_name};

/// Names between two reports.
const REPORT_NAMES: usize = 65_536;
/// Bytes of records and signatures of one set: with the question and OPT they must fit into a message.
const SET_BYTES_MAX: usize = 65_535 - HEADER_LENGTH - NAME_BYTES_MAX - 4 - 11;

/// Why a zone has no image.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompileError {
    /// The records of one name and type do not fit into a message.
    #[error("{owner}: its {rtype} records do not fit into a message of 65,535 bytes: take some out")]
    SetTooLarge {
        /// The name, in presentation format.
        owner: String,
        /// The type's name.
        rtype: String,
    },
    /// The image does not fit into what addresses its nodes.
    #[error("the zone's image is larger than 32 GiB: split the zone")]
    TooLarge,
    /// Parameters of NSEC3 that are not served.
    #[error("{what}")]
    Nsec3 {
        /// What, and what to do.
        what: String,
    },
}

struct Compiler<'z> {
    zone: &'z Zone,
    arena: Vec<u8>,
    /// Hash and node of every name that can be asked for.
    names: Vec<(u64, u32)>,
    /// The names the walk is below, from the apex on.
    ancestors: Vec<(&'z [u8], NodeReference)>,
    /// The cut or DNAME record the walk is below.
    cut: Option<(&'z [u8], NodeReference)>,
    nsec: Vec<NodeReference>,
    nsec3: Vec<([u8; 20], NodeReference)>,
    message: Vec<u8>,
    labels_max: usize,
}

impl ZoneImage {
    /// Compiles a zone; `report` hears how many of its records are done, now and then.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn compile(zone: &Zone, report: &mut dyn FnMut(u64)) -> Result<ZoneImage, CompileError> {
        compile(zone, report)
    }
}

fn compile(zone: &Zone, report: &mut dyn FnMut(u64)) -> Result<ZoneImage, CompileError> {
    let mut compiler = Compiler {
        zone,
        // Place 0 means nowhere.
        arena: vec![0; HEADER],
        names: Vec::new(),
        ancestors: Vec::new(),
        cut: None,
        nsec: Vec::new(),
        nsec3: Vec::new(),
        message: vec![0; 65_536],
        labels_max: 0,
    };
    let mut sets: Vec<SetView<'_>> = Vec::new();
    let (mut done, mut names) = (0u64, 0usize);
    for set in zone.sets() {
        if sets.first().is_some_and(|first| first.owner() != set.owner()) {
            compiler.name(&sets)?;
            sets.clear();
            names += 1;
            if names.is_multiple_of(REPORT_NAMES) {
                report(done);
            }
        }
        done += set.len() as u64;
        sets.push(set);
    }
    compiler.name(&sets)?;
    report(done);
    compiler.finish()
}

impl<'z> Compiler<'z> {
    /// The next name, with all its sets.
    fn name(&mut self, sets: &[SetView<'z>]) -> Result<(), CompileError> {
        let Some(owner) = sets.first().map(SetView::owner) else { return Ok(()) };
        self.climb_to(owner)?;
        let occluded = self.cut.filter(|(cut, _)| name::is_within(owner, cut));
        self.cut = occluded;
        let is_hash = |rtype: u16| rtype == rtype::NSEC3;
        let only_hash = sets.iter().all(|set| is_hash(set.rtype()) || set.rtype() == rtype::RRSIG);
        if sets.iter().any(|set| is_hash(set.rtype()))
            && let Some(hash) = name::labels(owner).next().and_then(nsec3::hash_of_label)
        {
            // RFC 5155 section 7.2.8: these names can't be asked for, unless they are names otherwise too.
            let reference = self.write(owner, sets, 0, NodeReference::default())?;
            self.nsec3.push((hash, reference));
            if only_hash {
                return Ok(());
            }
        }
        let has = |rtype: u16| sets.iter().any(|set| set.rtype() == rtype);
        let mut flags = 0;
        let apex = owner == self.zone.apex().wire();
        flags |= if apex { flag::APEX } else { 0 };
        flags |= if has(rtype::CNAME) { flag::CNAME } else { 0 };
        flags |= if has(rtype::DNAME) { flag::DNAME } else { 0 };
        flags |= if has(rtype::NS) && !apex { flag::CUT } else { 0 };
        flags |= if occluded.is_some() { flag::OCCLUDED } else { 0 };
        let reference = self.write(owner, sets, flags, occluded.map(|(_, cut)| cut).unwrap_or_default())?;
        self.enter(owner, reference);
        if has(rtype::NSEC) && occluded.is_none() {
            self.nsec.push(reference);
        }
        if occluded.is_none() && flags & (flag::CUT | flag::DNAME) != 0 {
            self.cut = Some((owner, reference));
        }
        Ok(())
    }

    /// Leaves names that `owner` is not below, and makes nodes of those between that have no records.
    fn climb_to(&mut self, owner: &'z [u8]) -> Result<(), CompileError> {
        while self.ancestors.last().is_some_and(|(above, _)| !name::is_within(owner, above)) {
            self.ancestors.pop();
        }
        let Some(nearest) = self.ancestors.last().map(|(above, _)| above.len()) else { return Ok(()) };
        let mut between: Vec<&'z [u8]> = Vec::new();
        let mut above = name::parent(owner);
        while let Some(wire) = above.filter(|wire| wire.len() > nearest) {
            between.push(wire);
            above = name::parent(wire);
        }
        for wire in between.into_iter().rev() {
            let cut = self.cut.filter(|(cut, _)| name::is_within(wire, cut));
            let flags = flag::EMPTY | if cut.is_some() { flag::OCCLUDED } else { 0 };
            let reference = self.write(wire, &[], flags, cut.map(|(_, cut)| cut).unwrap_or_default())?;
            self.enter(wire, reference);
        }
        Ok(())
    }

    /// A name that can be asked for.
    fn enter(&mut self, owner: &'z [u8], reference: NodeReference) {
        let mut message = [0; hash::BEFORE + NAME_BYTES_MAX];
        let end = hash::BEFORE + owner.len();
        if let Some(target) = message.get_mut(hash::BEFORE..end) {
            target.copy_from_slice(owner);
        }
        self.names.push((hash::hash(&message, hash::BEFORE, end), reference.0));
        if owner.starts_with(&[1, b'*'])
            && let Some((above, parent)) = self.ancestors.last()
            && above.len() + 2 == owner.len()
        {
            let at = parent.0 as usize * 8 + 4;
            if let Some(target) = self.arena.get_mut(at..at + 4) {
                target.copy_from_slice(&reference.0.to_le_bytes());
            }
        }
        self.ancestors.push((owner, reference));
    }

    fn write(
        &mut self,
        owner: &[u8],
        sets: &[SetView<'z>],
        flags: u8,
        cut: NodeReference,
    ) -> Result<NodeReference, CompileError> {
        let start = self.arena.len().next_multiple_of(8);
        self.arena.resize(start, 0);
        let reference = NodeReference(u32::try_from(start / 8).map_err(|_| CompileError::TooLarge)?);
        let labels = name::label_count(owner);
        self.labels_max = self.labels_max.max(labels);
        // Signatures go with what they cover; those of nothing are as if they were not there.
        let rows: Vec<SetView<'z>> = sets.iter().copied().filter(|set| set.rtype() != rtype::RRSIG).collect();
        let signatures = sets.iter().find(|set| set.rtype() == rtype::RRSIG);
        let mut header = [0u8; HEADER];
        header[0] = owner.len() as u8;
        header[1] = flags;
        header[2..4].copy_from_slice(&(rows.len() as u16).to_le_bytes());
        header[8..12].copy_from_slice(&cut.0.to_le_bytes());
        header[12] = labels as u8;
        self.arena.extend_from_slice(&header);
        self.arena.extend_from_slice(owner);
        let directory = self.arena.len().next_multiple_of(8);
        self.arena.resize(directory + rows.len() * ROW, 0);
        for (index, set) in rows.iter().enumerate() {
            // Of what is below a cut nothing is answered, of the cut itself a referral.
            let is_ready = flags & (flag::CUT | flag::OCCLUDED) != 0 || !self.has_addresses(set);
            let row = self.write_set(owner, start, (set, signatures), is_ready)?;
            let at = directory + index * ROW;
            if let Some(target) = self.arena.get_mut(at..at + ROW) {
                target.copy_from_slice(&row);
            }
        }
        Ok(reference)
    }

    fn write_set(
        &mut self,
        owner: &[u8],
        node: usize,
        (set, signatures): (&SetView<'z>, Option<&SetView<'z>>),
        is_ready: bool,
    ) -> Result<[u8; ROW], CompileError> {
        let too_large =
            || CompileError::SetTooLarge { owner: Presentation(owner).to_string(), rtype: type_name(set.rtype()) };
        let question = HEADER_LENGTH + owner.len();
        if let Some(target) = self.message.get_mut(HEADER_LENGTH..question) {
            target.copy_from_slice(owner);
        }
        let begin = question + 4;
        let mut writer = MessageWriter::new(&mut self.message, begin);
        writer.remember(HEADER_LENGTH);
        let mut plain_length = 0;
        for data in set.data() {
            writer.put_u16(0xc000 | HEADER_LENGTH as u16);
            writer.put_data(set.rtype(), set.ttl(), data);
            plain_length += 12 + data.len();
        }
        let ready_length = writer.position() - begin;
        let mut signature_count = 0u16;
        for (ttl, data) in signatures.map(signatures_of).into_iter().flatten() {
            if data.first_chunk() == Some(&set.rtype().to_be_bytes()) {
                writer.put_u16(0xc000 | HEADER_LENGTH as u16);
                writer.put_data(rtype::RRSIG, ttl, data);
                signature_count += 1;
            }
        }
        let length = writer.position() - begin;
        if writer.has_overflowed() || length > SET_BYTES_MAX || plain_length > SET_BYTES_MAX {
            return Err(too_large());
        }
        let ready = self.message.get(begin..begin + ready_length).unwrap_or_default();
        let count = u16::try_from(set.len()).map_err(|_| too_large())?;
        let mut ready_at = 0;
        if is_ready {
            self.arena.extend_from_slice(&Ready::prefix(set.rtype(), count, ready));
            ready_at = self.arena.len() - node;
            self.arena.extend_from_slice(self.message.get(begin..begin + length).unwrap_or_default());
        }
        let mut plain_at = ready_at;
        if plain_length != ready_length || !is_ready {
            plain_at = self.arena.len() - node;
            for data in set.data() {
                self.arena.extend_from_slice(&[0xc0, HEADER_LENGTH as u8]);
                self.arena.extend_from_slice(&set.rtype().to_be_bytes());
                self.arena.extend_from_slice(&[0, 1]);
                self.arena.extend_from_slice(&set.ttl().to_be_bytes());
                self.arena.extend_from_slice(&(data.len() as u16).to_be_bytes());
                self.arena.extend_from_slice(data);
            }
        }
        let ready_place = match is_ready {
            true => u32::try_from(ready_at).map_err(|_| too_large())?,
            false => {
                let signatures = self.message.get(begin + ready_length..begin + length).unwrap_or_default();
                self.arena.extend_from_slice(signatures);
                NOT_READY
            }
        };
        let place = |at: usize| u32::try_from(at).map_err(|_| too_large());
        let mut row = [0; ROW];
        row[0..2].copy_from_slice(&set.rtype().to_le_bytes());
        row[2..4].copy_from_slice(&count.to_le_bytes());
        row[4..6].copy_from_slice(&signature_count.to_le_bytes());
        row[6..8].copy_from_slice(&(if is_ready { ready_length as u16 } else { 0 }).to_le_bytes());
        row[8..10].copy_from_slice(&((length - ready_length) as u16).to_le_bytes());
        row[10..12].copy_from_slice(&(plain_length as u16).to_le_bytes());
        row[12..16].copy_from_slice(&ready_place.to_le_bytes());
        row[16..20].copy_from_slice(&place(plain_at)?.to_le_bytes());
        row[20..24].copy_from_slice(&set.ttl().to_le_bytes());
        Ok(row)
    }

    /// Whether names that `set` tells of have addresses here: they belong to its answer (RFC 1035 section 3.3, RFC 2782).
    fn has_addresses(&self, set: &SetView<'z>) -> bool {
        if !layout::has_addressed_names(set.rtype()) {
            return false;
        }
        let names = set.data().filter_map(|data| layout::first_name(set.rtype(), data));
        names.map(<[u8]>::to_ascii_lowercase).any(|target| {
            name::is_within(&target, self.zone.apex().wire())
                && [rtype::A, rtype::AAAA].iter().any(|rtype| self.zone.has(&target, *rtype))
        })
    }

    fn finish(mut self) -> Result<ZoneImage, CompileError> {
        let names = self.names.iter().map(|(hash, reference)| (*hash, NodeReference(*reference)));
        let table = Table::new(self.names.len(), names);
        self.nsec3.sort_unstable();
        let mut image = ZoneImage {
            apex: self.zone.apex().clone(),
            serial: self.zone.serial(),
            apex_node: NodeReference(self.names.first().map_or(0, |(_, reference)| *reference)),
            name_count: self.names.len(),
            record_count: self.zone.record_count(),
            arena: Arena::new(self.arena),
            table,
            labels_max: self.labels_max,
            nsec: self.nsec,
            nsec3: None,
            text_index: None,
        };
        image.nsec3 = chain(&image, self.nsec3)?;
        Ok(image)
    }
}

/// TTL and data of signatures: unlike other sets, each may have its own TTL.
fn signatures_of<'z>(set: &SetView<'z>) -> impl Iterator<Item = (u32, &'z [u8])> + use<'z> {
    set.records().map(|record| (record.ttl, record.data))
}

/// The chain that the apex' NSEC3PARAM record announces (RFC 5155 section 4).
fn chain(image: &ZoneImage, entries: Vec<([u8; 20], NodeReference)>) -> Result<Option<Nsec3Chain>, CompileError> {
    let Some(set) = image.apex_node().set(rtype::NSEC3PARAM).filter(|_| !entries.is_empty()) else { return Ok(None) };
    // Flags must be zero (section 4.1.2); of several, the first that is understood.
    let parameters = set.data().find(|data| data.starts_with(&[1, 0]));
    let Some([_, _, high, low, salt_length, salt @ ..]) = parameters else {
        let what = "no NSEC3PARAM record with algorithm 1 and flags 0: sign the zone with SHA-1 hashes".to_owned();
        return Err(CompileError::Nsec3 { what });
    };
    let iterations = u16::from_be_bytes([*high, *low]);
    if iterations > nsec3::ITERATIONS_MAX {
        let what = format!(
            "NSEC3 with {iterations} iterations, more than {}: sign the zone again with 0 (RFC 9276)",
            nsec3::ITERATIONS_MAX
        );
        return Err(CompileError::Nsec3 { what });
    }
    let salt = salt.get(..usize::from(*salt_length)).unwrap_or_default().to_vec();
    // Records of other chains (a zone on its way from one to the next) are left out.
    let belongs = |reference: &NodeReference| {
        image.node(*reference).set(rtype::NSEC3).is_some_and(|set| {
            set.data().any(|data| {
                data.first() == Some(&1)
                    && data.get(2..4) == Some(&iterations.to_be_bytes())
                    && data.get(4) == Some(salt_length)
                    && data.get(5..5 + salt.len()) == Some(&salt)
            })
        })
    };
    let entries = entries.into_iter().filter(|(_, reference)| belongs(reference)).collect();
    Ok(Some(Nsec3Chain { salt, iterations, entries }))
}
