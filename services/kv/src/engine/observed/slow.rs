//! [`SlowLog`]: commands that took long.

use crate::engine::observed::secrets::shown;
use crate::resp::request::Args;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Arguments that are kept of a command, and bytes of each.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 128;

/// A command that took long.
#[derive(Debug)]
pub struct Slow {
    /// Never given twice.
    pub id: u64,
    /// When (Unix, seconds).
    pub at_s: i64,
    /// How long, in microseconds.
    pub took_us: u64,
    /// What was said, cut.
    pub args: Vec<Box<[u8]>>,
    /// By whom.
    pub peer: SocketAddr,
    /// As it calls itself.
    pub name: Box<[u8]>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct SlowLog {
    /// The last one is the first.
    entries: VecDeque<Slow>,
    ids: u64,
}

/// Arguments as they are kept.
fn cut(args: &Args<'_>) -> Vec<Box<[u8]>> {
    let count = args.len();
    let kept = if count > ARGUMENTS { ARGUMENTS - 1 } else { count };
    let mut all: Vec<Box<[u8]>> = (0..kept)
        .map(|index| {
            let argument = shown(args, index);
            match argument.split_at_checked(ARGUMENT_BYTES) {
                Some((first, rest)) if !rest.is_empty() => {
                    [first, format!("... ({} more bytes)", rest.len()).as_bytes()].concat().into()
                }
                _ => argument.into(),
            }
        })
        .collect();
    if kept < count {
        all.push(format!("... ({} more arguments)", count - kept).into_bytes().into());
    }
    all
}

impl SlowLog {
    /// A command took so long. Of all, `most` are kept.
    pub fn add(
        &mut self,
        (at_s, took_us): (i64, u64),
        args: &Args<'_>,
        (peer, name): (SocketAddr, &[u8]),
        most: usize,
    ) {
        self.entries.push_front(Slow { id: self.ids, at_s, took_us, args: cut(args), peer, name: name.into() });
        self.ids += 1;
        self.trim(most);
    }

    /// So many are kept.
    pub fn trim(&mut self, most: usize) {
        self.entries.truncate(most);
    }

    /// The last one first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Slow> {
        self.entries.iter()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
