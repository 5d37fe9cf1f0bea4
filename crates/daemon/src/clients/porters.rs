//! Descriptors that clients send. They never come into this process: a porter, a process of the client's user alone, receives
//! the message that has some beside it, and hands over memory files, or the numbers of a handle. Everything else ends in the
//! porter, however long that takes ([`qanat_nic::foreign`]).
//!
//! ```text
//!   client ──message, descriptors──▶ endpoint ── looked at, left there
//!                                       └─▶ porter of the client's user: receives it, judges, says so, closes the rest
//!   daemon ◀── memory files, or inode and cookie of a handle ──┘
//! ```
//! A porter that is kept waiting keeps its own user's requests waiting, and is killed after a while. A connection in whose queue
//! descriptors wait is closed by the porter, too.

use crate::clients::peer::Identity;
use crate::error::{DaemonError, say};
use qanat_control::protocol::Request;
use qanat_nic::foreign::{Lodge, Porter};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Porters of one user at most, those that have been killed and are not gone included.
const PER_USER_MAX: usize = 4;
/// Of all users.
const PORTERS_MAX: usize = 128;

/// What came beside a request.
pub(crate) enum Beside {
    Nothing,
    /// Frame memory, and where it is to be closed last.
    Files(Files),
    /// A socket, by its numbers.
    Handle(Identity),
}

/// Memory files; the porter that has copies is told when they are closed here.
pub(crate) struct Files {
    pub(crate) files: Vec<OwnedFd>,
    pub(super) porter: u64,
    pub(super) number: u64,
}

/// A request that waits for its descriptors.
pub(super) struct Waiting {
    /// Whose request: the number of an endpoint.
    pub(super) token: u64,
    pub(super) request: Request,
    pub(super) since: Instant,
}

/// A porter at work.
pub(super) struct Working {
    pub(super) user: u32,
    pub(super) porter: Porter,
    /// By the numbers the porter was given.
    pub(super) waiting: HashMap<u64, Waiting>,
    pub(super) used: Instant,
    /// It was told to die.
    pub(super) is_killed: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Porters {
    pub(super) lodge: Option<Lodge>,
    /// By the numbers of their lines.
    pub(super) working: HashMap<u64, Working>,
    pub(super) next_number: u64,
    /// Connections that nobody can close yet, and whose they were.
    pub(super) parked: Vec<(u32, OwnedFd)>,
    /// Messages with descriptors that were as they should be; that were not; porters killed.
    pub(crate) counts: [u64; 3],
}

impl Porters {
    pub(crate) fn open() -> Result<Porters, DaemonError> {
        let lodge = Lodge::open().map_err(|error| say("start the process that receives descriptors", error))?;
        Ok(Porters { lodge: Some(lodge), ..Porters::default() })
    }

    /// Whether something here has to be looked at after a while.
    pub(crate) fn is_one_there(&self) -> bool {
        !self.working.is_empty() || !self.parked.is_empty()
    }

    /// Connections of a user that are closed, but for their descriptors.
    pub(crate) fn parked_of(&self, user: u32) -> usize {
        self.parked.iter().filter(|(owner, _)| *owner == user).count()
    }

    /// The porter of a user that takes orders.
    pub(super) fn of(&self, user: u32) -> Option<u64> {
        let found = self.working.iter().find(|(_, working)| working.user == user && !working.is_killed);
        found.map(|(token, _)| *token)
    }

    pub(super) fn new_porter(&mut self, user: u32) -> Result<Porter, DaemonError> {
        if self.working.values().filter(|working| working.user == user).count() >= PER_USER_MAX {
            return Err(format!(
                "user {user} has sent descriptors that can't be closed: end whatever they wait for (a FUSE server, most likely)"
            ).into());
        }
        if self.working.len() >= PORTERS_MAX {
            return Err("too many users send descriptors just now: try again in a moment".into());
        }
        let failed = |error| say("start a process that receives descriptors", error);
        if let Some(porter) = self.lodge.as_ref().and_then(|lodge| lodge.porter().ok()) {
            return Ok(porter);
        }
        // The lodge has been killed by somebody.
        self.lodge = None;
        let lodge = Lodge::open().map_err(failed)?;
        self.lodge.insert(lodge).porter().map_err(failed)
    }
}
