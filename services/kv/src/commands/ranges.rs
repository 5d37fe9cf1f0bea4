//! Ranges of sorted sets: by rank, by score, by the members' bytes.

use crate::engine::call::range;
use crate::engine::fault::Fault;
use crate::keyspace::ranked::Ranked;
use crate::resp::number::{double, integer};

/// How a range is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// By rank.
    Rank,
    /// By score.
    Score,
    /// By the members' bytes, if all scores are equal.
    Bytes,
}

/// A bound by score.
#[derive(Clone, Copy, Debug)]
struct Score {
    score: f64,
    is_open: bool,
}

impl Score {
    fn parse(text: &[u8]) -> Result<Score, Fault> {
        let (is_open, number) = match text {
            [b'(', rest @ ..] => (true, rest),
            text => (false, text),
        };
        let score = double(number).ok_or(Fault::Said("ERR min or max is not a float"))?;
        Ok(Score { score, is_open })
    }
}

/// A bound by bytes.
#[derive(Clone, Copy, Debug)]
enum Bytes<'a> {
    Least,
    Greatest,
    Open(&'a [u8]),
    Closed(&'a [u8]),
}

impl<'a> Bytes<'a> {
    fn parse(text: &'a [u8]) -> Result<Bytes<'a>, Fault> {
        match text {
            b"-" => Ok(Bytes::Least),
            b"+" => Ok(Bytes::Greatest),
            [b'(', rest @ ..] => Ok(Bytes::Open(rest)),
            [b'[', rest @ ..] => Ok(Bytes::Closed(rest)),
            _ => Err(Fault::Said("ERR min or max not valid string range item")),
        }
    }

    /// Whether a member is before a range that begins here.
    fn is_behind(&self, member: &[u8]) -> bool {
        match *self {
            Bytes::Least => false,
            Bytes::Greatest => true,
            Bytes::Open(bound) => member <= bound,
            Bytes::Closed(bound) => member < bound,
        }
    }

    /// Whether a member is not behind a range that ends here.
    fn reaches(&self, member: &[u8]) -> bool {
        match *self {
            Bytes::Least => false,
            Bytes::Greatest => true,
            Bytes::Open(bound) => member < bound,
            Bytes::Closed(bound) => member <= bound,
        }
    }
}

/// A range as it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a>(Kind<'a>);

#[derive(Clone, Copy, Debug)]
enum Kind<'a> {
    Rank(i64, i64),
    Score(Score, Score),
    Bytes(Bytes<'a>, Bytes<'a>),
}

impl<'a> Range<'a> {
    /// From its least bound and its greatest.
    ///
    /// # Errors
    /// As Redis words them.
    pub fn parse(by: By, least: &'a [u8], greatest: &'a [u8]) -> Result<Range<'a>, Fault> {
        let rank = |text| integer(text).ok_or(Fault::NotInteger);
        Ok(Range(match by {
            By::Rank => Kind::Rank(rank(least)?, rank(greatest)?),
            By::Score => Kind::Score(Score::parse(least)?, Score::parse(greatest)?),
            By::Bytes => Kind::Bytes(Bytes::parse(least)?, Bytes::parse(greatest)?),
        }))
    }

    /// The ranks that it has: the first, and the one behind the last.
    pub fn ranks(&self, order: &Ranked) -> (usize, usize) {
        let (start, end) = match self.0 {
            Kind::Rank(start, stop) => range(start, stop, order.len()),
            Kind::Score(least, greatest) => {
                let before = |score: f64, _: &[u8]| score < least.score || least.is_open && score == least.score;
                let within =
                    |score: f64, _: &[u8]| score < greatest.score || !greatest.is_open && score == greatest.score;
                (order.count_before(before), order.count_before(within))
            }
            Kind::Bytes(least, greatest) => (
                order.count_before(|_, member| least.is_behind(member)),
                order.count_before(|_, member| greatest.reaches(member)),
            ),
        };
        if start < end { (start, end) } else { (0, 0) }
    }

    /// The same, counted from the end: ranks of the order turned around.
    pub fn ranks_reversed(&self, order: &Ranked) -> (usize, usize) {
        match self.0 {
            Kind::Rank(start, stop) => {
                let (start, end) = range(start, stop, order.len());
                (order.len() - end, order.len() - start)
            }
            _ => self.ranks(order),
        }
    }
}
