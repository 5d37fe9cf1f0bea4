//! How XADD and XTRIM say that a stream is to become shorter, and what of it goes then.

use crate::commands::streams::ids::{self, NewId};
use crate::engine::fault::Fault;
use crate::keyspace::stream::entries::Stream;
use crate::keyspace::stream::id::Id;
use crate::resp::number::integer;
use crate::resp::request::Args;

/// With `~`, entries go that lie together in Redis: so many, if the settings do not say it.
const TOGETHER: usize = 100;
/// With `~`, no more than so many pieces go at once, unless the client says otherwise.
const PIECES: usize = 100;

/// What is to be left.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// So many entries.
    Length(usize),
    /// Those from an id on.
    From(Id),
}

/// How a stream becomes shorter.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    left: Left,
    /// `~`: more may be left. So many entries lie together then.
    about: Option<usize>,
    /// No more go, if there is a limit.
    limit: Option<usize>,
}

/// The options of XADD or XTRIM.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How it becomes shorter.
    pub trim: Option<Trim>,
    /// NOMKSTREAM: a stream is not made.
    pub makes_none: bool,
    /// The id of the new entry, for XADD.
    pub id: NewId,
    /// Where it is.
    pub end: usize,
}

impl Trim {
    /// The last entry that goes, and how many go.
    pub fn through(&self, stream: &Stream) -> Option<(Id, usize)> {
        let length = stream.len();
        let wanted = match self.left {
            Left::Length(left) => length.saturating_sub(left),
            Left::From(id) => {
                let below = stream.range(Id::MIN, Id::MAX).take_while(|(found, _)| *found < id);
                // What is behind the limit need not be counted.
                below.take(self.limit.map_or(usize::MAX, |limit| limit.saturating_add(1))).count()
            }
        };
        let count = match self.about {
            None => wanted,
            Some(together) => pieces(stream, together, wanted.min(self.limit.unwrap_or(usize::MAX))),
        };
        let (id, _) = stream.range(Id::MIN, Id::MAX).nth(count.checked_sub(1)?)?;
        Some((id, count))
    }
}

/// How many entries go in whole pieces, if no more than so many may. What was removed out of turn counts as if it lay there.
fn pieces(stream: &Stream, together: usize, most: usize) -> usize {
    if most >= stream.len() {
        return stream.len();
    }
    let before = usize::try_from(stream.added()).unwrap_or(0).saturating_sub(stream.len());
    let first = together - before % together;
    match most.checked_sub(first) {
        Some(more) => first + more / together * together,
        None => 0,
    }
}

/// Reads the options that begin at the second argument. `adds`: of XADD, so they end before an id. `together`: how many
/// entries lie together.
pub fn parse(args: &Args<'_>, adds: bool, together: usize) -> Result<Options, Fault> {
    let together = if together == 0 { TOGETHER } else { together };
    let mut options = Options { trim: None, makes_none: false, id: NewId::Next, end: 0 };
    let (mut limit, mut index) = (None, 2);
    while index < args.len() {
        let more = args.len() - index - 1;
        let is_length = args.is(index, "MAXLEN");
        if more > 0 && (is_length || args.is(index, "MINID")) {
            if options.trim.is_some() {
                return Err(Fault::Said(
                    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                ));
            }
            index += 1;
            let is_about = more > 1 && args.at(index) == b"~";
            index += usize::from(is_about || more > 1 && args.at(index) == b"=");
            let left = if is_length { Left::Length(length(args.at(index))?) } else { from(args.at(index))? };
            options.trim = Some(Trim { left, about: is_about.then_some(together), limit: None });
        } else if more > 0 && args.is(index, "LIMIT") {
            index += 1;
            let number = integer(args.at(index)).ok_or(Fault::NotInteger)?;
            let number = usize::try_from(number).map_err(|_| Fault::Said("ERR The LIMIT argument must be >= 0."))?;
            limit = Some(number);
        } else if adds && args.is(index, "NOMKSTREAM") {
            options.makes_none = true;
        } else if adds {
            options.id = ids::new(args.at(index))?;
            break;
        } else {
            return Err(Fault::Syntax);
        }
        index += 1;
    }
    options.end = index;
    finish(options, limit, adds)
}

fn length(text: &[u8]) -> Result<usize, Fault> {
    let number = integer(text).ok_or(Fault::NotInteger)?;
    usize::try_from(number).map_err(|_| Fault::Said("ERR The MAXLEN argument must be >= 0."))
}

fn from(text: &[u8]) -> Result<Left, Fault> {
    ids::strict(text, 0).map(Left::From)
}

fn finish(mut options: Options, limit: Option<usize>, adds: bool) -> Result<Options, Fault> {
    let needs_about = Fault::Said("ERR syntax error, LIMIT cannot be used without the special ~ option");
    let Some(trim) = &mut options.trim else {
        return match (limit, adds) {
            (Some(1..), _) => {
                Err(Fault::Said("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"))
            }
            (_, false) => Err(Fault::Said("ERR syntax error, XTRIM must be called with a trimming strategy")),
            (Some(_), true) => Err(needs_about),
            (None, true) => Ok(options),
        };
    };
    if limit.is_some() && trim.about.is_none() {
        return Err(needs_about);
    }
    // A limit of zero is none.
    trim.limit = trim.about.map(|together| limit.unwrap_or(PIECES.saturating_mul(together))).filter(|limit| *limit > 0);
    Ok(options)
}
