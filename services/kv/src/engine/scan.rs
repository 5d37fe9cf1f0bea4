//! What the SCAN family has in common: cursors and options.
//!
//! A cursor is how many places are left, from the last one down. What is removed meanwhile is replaced by the last one, which was met
//! before. So what is there all the time is met, and some of it twice.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
pub use crate::glob::matches;
use crate::resp::number::{integer, unsigned};

/// Elements that are looked at, unless the client says otherwise.
const COUNT: usize = 10;
/// At most so many are looked at in one call.
const COUNT_MAX: usize = 1 << 20;

/// What a client wants to see.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// Places that are left; `None`: all.
    left: Option<usize>,
    /// How many to look at.
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Only of this kind.
    pub kind: Option<&'a [u8]>,
}

impl<'a> Scan<'a> {
    /// From the arguments: the cursor at `index`, and options behind it. `takes_kind`: TYPE is one.
    ///
    /// # Errors
    /// As Redis words them.
    pub fn parse(call: &Call<'a>, index: usize, takes_kind: bool) -> Result<Scan<'a>, Fault> {
        let args = call.args;
        let cursor = unsigned(args.at(index)).ok_or(Fault::Said("ERR invalid cursor"))?;
        let left = (cursor != 0).then(|| usize::try_from(cursor).unwrap_or(usize::MAX));
        let mut scan = Scan { left, count: COUNT, pattern: None, kind: None };
        let mut index = index + 1;
        while index < args.len() {
            if index + 1 >= args.len() {
                return Err(Fault::Syntax);
            }
            let value = args.at(index + 1);
            if args.is(index, "COUNT") {
                let count = integer(value).ok_or(Fault::NotInteger)?;
                scan.count =
                    usize::try_from(count).ok().filter(|count| *count > 0).ok_or(Fault::Syntax)?.min(COUNT_MAX);
            } else if args.is(index, "MATCH") {
                scan.pattern = Some(value);
            } else if takes_kind && args.is(index, "TYPE") {
                scan.kind = Some(value);
            } else {
                return Err(Fault::Syntax);
            }
            index += 2;
        }
        Ok(scan)
    }

    /// Whether a name is wanted.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| matches(pattern, name))
    }

    /// The places to look at among so many, from the last one down, and the next cursor.
    pub fn places(&self, length: usize) -> (impl Iterator<Item = usize> + use<>, usize) {
        let from = self.left.unwrap_or(length).min(length);
        let to = from.saturating_sub(self.count);
        ((to..from).rev(), to)
    }
}
