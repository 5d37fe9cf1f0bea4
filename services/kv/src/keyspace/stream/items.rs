//! What changes of a group have of many entries at once, so that the names of group and consumer are written once: ids, and deliveries.

use crate::keyspace::stream::id::Id;

/// Bytes of an id.
const ID_BYTES: usize = 16;
/// Bytes of a delivery.
pub const DELIVERY_BYTES: usize = 32;

/// An entry was given to a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Which one.
    pub id: Id,
    /// When (Unix, ms), the last time.
    pub at: i64,
    /// How often.
    pub count: u64,
}

/// Writes an id.
pub fn put_id(target: &mut Vec<u8>, id: Id) {
    target.extend_from_slice(&id.ms.to_le_bytes());
    target.extend_from_slice(&id.number.to_le_bytes());
}

/// Writes a delivery.
pub fn put_delivery(target: &mut Vec<u8>, delivery: Delivery) {
    put_id(target, delivery.id);
    target.extend_from_slice(&delivery.at.to_le_bytes());
    target.extend_from_slice(&delivery.count.to_le_bytes());
}

fn number(bytes: &[u8], place: usize) -> u64 {
    let found = bytes.get(place * 8..).and_then(<[u8]>::first_chunk);
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn id(bytes: &[u8]) -> Id {
    Id { ms: number(bytes, 0), number: number(bytes, 1) }
}

/// Ids that were written one behind the other.
pub fn ids(bytes: &[u8]) -> impl Iterator<Item = Id> {
    bytes.chunks_exact(ID_BYTES).map(id)
}

/// Deliveries, likewise.
pub fn deliveries(bytes: &[u8]) -> impl Iterator<Item = Delivery> {
    bytes.chunks_exact(DELIVERY_BYTES).map(|bytes| Delivery {
        id: id(bytes),
        at: number(bytes, 2) as i64,
        count: number(bytes, 3),
    })
}
