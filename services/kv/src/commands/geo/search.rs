//! Members of a sorted set whose places are within a shape.

use crate::commands::geo::area::Shape;
use crate::commands::geo::cell::{Position, position};
use crate::keyspace::sorted::Sorted;

/// A member that was found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found<'a> {
    /// The member.
    pub member: &'a [u8],
    /// Its score.
    pub score: f64,
    /// Its place.
    pub position: Position,
    /// How far it is from the middle, in metres.
    pub distance: f64,
}

/// Those within a shape, cell by cell; not more than `most`.
pub fn within<'a>(sorted: &'a Sorted, shape: &Shape, most: usize) -> Vec<Found<'a>> {
    let all = shape.cells().into_iter().flat_map(|cell| {
        let (least, behind) = cell.scores();
        let start = sorted.order().count_before(|score, _| score < least);
        sorted.order().from(start).take_while(move |(score, _)| *score < behind)
    });
    let found = all.filter_map(|(score, member)| {
        let position = position(score);
        let distance = shape.distance(position)?;
        Some(Found { member, score, position, distance })
    });
    found.take(most).collect()
}
