//! A name's place in the arena.
//!
//! ```text
//!    0 length of the name   1 flags   2 rows of the directory (2)   4 child `*` (4)   8 the cut above (4)
//!   12 labels   13 NSEC3 record proving … (see `nsec3`)   16 own NSEC3 (4)   20 NSEC3 covering `*` below (4)
//!   24 name, filled up with zeros to whole words
//!      directory: per type 24 bytes:
//!        0 type (2)  2 records (2)  4 signatures (2)  6 bytes of records (2)  8 bytes of signatures (2)
//!       10 bytes of plain records (2)  12 place of records (4)  16 place of plain records (4)  20 TTL (4)
//! ```
//! Before the records of a type, eight bytes: see [`Ready`]. Where an answer needs addresses of other names the place of the records is
//! [`NOT_READY`], there are plain ones only, and the signatures are after them.
//! All numbers as the processor has them; places count from the node's start.

use super::hash;
use crate::answer::question::flags;
use crate::counted;
use qanat::wire::checksum;

/// What is special about a name.
pub mod flag {
    /// The zone's own name.
    pub const APEX: u8 = 1;
    /// NS records, and not the apex: another zone begins here.
    pub const CUT: u8 = 2;
    /// A DNAME record.
    pub const DNAME: u8 = 4;
    /// Below a cut or a DNAME record: glue at most.
    pub const OCCLUDED: u8 = 8;
    /// A CNAME record.
    pub const CNAME: u8 = 16;
    /// No records of its own.
    pub const EMPTY: u8 = 32;
}

pub(super) const HEADER: usize = 24;
pub(super) const ROW: usize = 24;
/// Bytes before the records of a type.
pub(super) const PREFIX: usize = 8;
/// Place of records that do not lie ready: there is no room for the prefix before it, so looking for it finds nothing.
pub(super) const NOT_READY: u32 = 0;

/// Where a node is: its place in the arena by eight. 0: nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct NodeReference(pub(super) u32);

/// A name of a zone.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    bytes: &'a [u8],
    header: &'a [u8; HEADER],
    reference: NodeReference,
}

static NOTHING: [u8; HEADER] = [0; HEADER];

#[inline(always)]
fn u16_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u16 {
    const { assert!(AT + 2 <= N) };
    u16::from_le_bytes([bytes[AT], bytes[AT + 1]])
}

#[inline(always)]
fn u32_at<const AT: usize, const N: usize>(bytes: &[u8; N]) -> u32 {
    const { assert!(AT + 4 <= N) };
    u32::from_le_bytes([bytes[AT], bytes[AT + 1], bytes[AT + 2], bytes[AT + 3]])
}

impl<'a> Node<'a> {
    #[inline(always)]
    pub(super) fn new(bytes: &'a [u8], reference: NodeReference) -> Node<'a> {
        Node { bytes, header: bytes.first_chunk().unwrap_or(&NOTHING), reference }
    }

    #[inline(always)]
    pub(super) fn at(bytes: &'a [u8], reference: NodeReference) -> Option<Node<'a>> {
        Some(Node { bytes, header: bytes.first_chunk()?, reference })
    }

    /// Where it is.
    pub fn reference(&self) -> NodeReference {
        self.reference
    }

    /// Different for different names of a zone, mostly.
    #[inline(always)]
    pub fn source_hash(&self) -> u32 {
        self.reference.0.wrapping_mul(0x9e37_79b1)
    }

    #[inline(always)]
    fn name_length(&self) -> usize {
        usize::from(self.header[0])
    }

    /// The name in wire format, small letters.
    #[inline(always)]
    pub fn name(&self) -> &'a [u8] {
        self.bytes.get(HEADER..HEADER + self.name_length()).unwrap_or_default()
    }

    /// Whether its name is the one at `start..end` of `message`.
    #[inline]
    pub(super) fn is_called(&self, message: &[u8], start: usize, end: usize) -> bool {
        end.wrapping_sub(start) == self.name_length() && hash::equals(message, start, end, self.name_in_words())
    }

    /// Whether its name is the one at `start..end` of `message`, if that is in small letters.
    #[inline(always)]
    pub(super) fn is_written(&self, message: &[u8], start: usize, end: usize) -> bool {
        let (Some(name), Some(own)) = (message.get(start..end), self.bytes.get(HEADER..HEADER + self.name_length()))
        else {
            return false;
        };
        name.len() == own.len() && hash::is_same(name, own)
    }

    /// Its name, filled up with zeros to whole words.
    #[inline(always)]
    fn name_in_words(&self) -> &'a [u8] {
        self.bytes.get(HEADER..self.directory_start()).unwrap_or_default()
    }

    #[inline(always)]
    fn directory_start(&self) -> usize {
        HEADER + ((self.name_length() + 7) & !7)
    }

    /// What is special about it: see [`flag`].
    #[inline(always)]
    pub fn flags(&self) -> u8 {
        self.header[1]
    }

    /// Labels of the name without the root's.
    pub fn labels(&self) -> usize {
        usize::from(self.header[12])
    }

    #[inline(always)]
    fn row_count(&self) -> usize {
        usize::from(u16_at::<2, _>(self.header))
    }

    #[inline(always)]
    fn directory(&self) -> &'a [[u8; ROW]] {
        let start = self.directory_start();
        self.bytes.get(start..start + self.row_count() * ROW).unwrap_or_default().as_chunks().0
    }

    /// Its child `*`.
    pub fn wildcard(&self) -> Option<NodeReference> {
        Some(NodeReference(u32_at::<4, _>(self.header))).filter(|reference| reference.0 != 0)
    }

    /// The cut or DNAME it is below.
    pub fn cut(&self) -> NodeReference {
        NodeReference(u32_at::<8, _>(self.header))
    }

    /// The set of a type.
    #[inline(always)]
    pub fn set(&self, rtype: u16) -> Option<Set<'a>> {
        let mut left = self.row_count();
        let (mut row, mut rest) = self.bytes.get(self.directory_start()..)?.split_first_chunk()?;
        while left > 0 {
            if u16_at::<0, _>(row) == rtype {
                return Some(Set { node: self.bytes, row });
            }
            left -= 1;
            (row, rest) = rest.split_first_chunk()?;
        }
        None
    }

    /// All sets in order of their types.
    pub fn sets(&self) -> impl Iterator<Item = Set<'a>> + use<'a> {
        let node = self.bytes;
        self.directory().iter().map(move |row| Set { node, row })
    }
}

/// The records of one name and type, and the signatures over them.
#[derive(Clone, Copy)]
pub struct Set<'a> {
    node: &'a [u8],
    row: &'a [u8; ROW],
}

impl<'a> Set<'a> {
    /// Their type.
    pub fn rtype(&self) -> u16 {
        u16_at::<0, _>(self.row)
    }

    /// How many records.
    #[inline(always)]
    pub fn count(&self) -> u16 {
        u16_at::<2, _>(self.row)
    }

    /// How many signatures.
    #[inline(always)]
    pub fn signature_count(&self) -> u16 {
        u16_at::<4, _>(self.row)
    }

    /// TTL of the records, seconds.
    pub fn ttl(&self) -> u32 {
        u32_at::<20, _>(self.row)
    }

    /// The records as they are sent for a question of this name at byte 12; with the signatures after them if `signed`. `None`:
    /// as for [`Set::ready_bytes`].
    #[inline(always)]
    pub fn ready(&self, signed: bool) -> Option<&'a [u8]> {
        let start = u32_at::<12, _>(self.row) as usize;
        let signatures = if signed { u16_at::<8, _>(self.row) } else { 0 };
        let length = usize::from(u16_at::<6, _>(self.row)) + usize::from(signatures);
        self.node.get(start.wrapping_sub(PREFIX)..)?.get(PREFIX..PREFIX + length)
    }

    /// The records without signatures as they are sent, and what else their answer takes.
    #[inline(always)]
    pub fn ready_for_datagram(&self) -> Option<Ready<'a>> {
        self.ready_bytes().and_then(Ready::of)
    }

    /// The same as bytes: to be given to [`Ready::of`]. `None`: no answer lies ready, for addresses of other names belong to it.
    #[inline(always)]
    pub fn ready_bytes(&self) -> Option<&'a [u8]> {
        let start = u32_at::<12, _>(self.row) as usize;
        let length = usize::from(u16_at::<6, _>(self.row));
        self.node.get(start.wrapping_sub(PREFIX)..)?.get(..PREFIX + length)
    }

    fn signatures_ready(&self) -> &'a [u8] {
        let start = match u32_at::<12, _>(self.row) {
            NOT_READY => u32_at::<16, _>(self.row) as usize + usize::from(u16_at::<10, _>(self.row)),
            ready => ready as usize + usize::from(u16_at::<6, _>(self.row)),
        };
        self.node.get(start..start + usize::from(u16_at::<8, _>(self.row))).unwrap_or_default()
    }

    /// The data of each record, names in it whole.
    pub fn data(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let start = u32_at::<16, _>(self.row) as usize;
        let plain = self.node.get(start..start + usize::from(u16_at::<10, _>(self.row)));
        records(plain.unwrap_or_default()).map(|(_, data)| data)
    }

    /// TTL and data of each signature (RRSIG).
    pub fn signatures(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        records(self.signatures_ready())
    }
}

/// Records as they are sent for a question of their name at byte 12, and what else an answer of them takes.
#[derive(Clone, Copy)]
pub struct Ready<'a> {
    /// Their sum, their number as a header has it, the place of their type; nothing.
    prefix: &'a [u8; PREFIX],
    /// The records.
    pub records: &'a [u8],
}

impl<'a> Ready<'a> {
    /// From [`Set::ready_bytes`].
    #[inline(always)]
    pub fn of(bytes: &'a [u8]) -> Option<Ready<'a>> {
        let (prefix, records) = bytes.split_first_chunk()?;
        Some(Ready { prefix, records })
    }

    /// What is before `records` of a type, of which there are `count`.
    pub(super) fn prefix(rtype: u16, count: u16, records: &[u8]) -> [u8; PREFIX] {
        // Big-endian words are summed, so this is the sum as memory has it.
        let [sum, sum_low] = checksum::sum(records).to_be_bytes();
        let [count, count_low] = count.to_be_bytes();
        [sum, sum_low, count, count_low, counted::type_place(rtype), 0, 0, 0]
    }

    /// The sum of the records as it lies in memory (see [`Chunk::append_summed`](qanat::Chunk::append_summed)).
    #[inline(always)]
    pub fn sum(&self) -> u16 {
        u16::from_ne_bytes([self.prefix[0], self.prefix[1]])
    }

    /// The place of their type among the [types that are counted](counted::TYPES).
    #[inline(always)]
    pub fn type_place(&self) -> u8 {
        self.prefix[4]
    }

    /// The first eight bytes of a request's header as the answer has them; the request is a query and has no records.
    #[inline(always)]
    pub fn header(&self, front: [u8; 8]) -> [u8; 8] {
        const KEPT: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, flags::CD, 0xff, 0xff, 0, 0]);
        const SET: u64 = u64::from_ne_bytes([0, 0, flags::QR | flags::AA, 0, 0, 0, 0, 0]);
        let [_, _, high, low, ..] = *self.prefix;
        let count = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, high, low]);
        (u64::from_ne_bytes(front) & KEPT | SET | count).to_ne_bytes()
    }
}

/// TTL and data of records whose owners are pointers.
fn records(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (fixed, after) = rest.split_first_chunk::<12>()?;
        let (data, after) = after.split_at_checked(usize::from(u16::from_be_bytes([fixed[10], fixed[11]])))?;
        rest = after;
        Some((u32::from_be_bytes([fixed[6], fixed[7], fixed[8], fixed[9]]), data))
    })
}
