//! What is asked of a disk and waits: one change after the other, users in turn.

use crate::clients::peer::Peer;
use qanat_control::protocol::{AreaPath, AreaWish, DiskRate};
use std::collections::{BTreeMap, VecDeque};

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// A new area.
    Create { path: AreaPath, bytes: u64, fenced: bool },
    /// A larger one.
    Grow { path: AreaPath, bytes: u64 },
    /// Other limits.
    Limit { path: AreaPath, rate: DiskRate },
    /// One less.
    Delete { path: AreaPath },
    /// An area to be used.
    Open(AreaWish),
    /// The space of a deleted area that nobody holds any more.
    Release { id: u64 },
    /// No such disk.
    Remove,
}

/// Who asks for something, and what.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    /// The number of the endpoint that waits for the answer; `None`: the daemon itself asks.
    pub(super) token: Option<u64>,
    pub(super) peer: Peer,
    /// The request's name.
    pub(super) name: &'static str,
    pub(super) wish: Wish,
}

/// An errand that a disk's thread is about, and what its user has by it in the end.
#[derive(Debug)]
pub(super) struct UnderWay {
    pub(super) errand: Errand,
    /// Areas more.
    pub(super) areas: u32,
    /// Bytes more.
    pub(super) bytes: u64,
}

/// Those of one disk.
#[derive(Debug, Default)]
pub(super) struct Errands {
    pub(super) under_way: Option<UnderWay>,
    /// By account. A connection has one at most, so there are few.
    waiting: BTreeMap<u32, VecDeque<Errand>>,
    /// Whose was the last.
    last: u32,
}

impl Errands {
    /// One more.
    pub(super) fn push(&mut self, errand: Errand) {
        self.waiting.entry(errand.peer.account()).or_default().push_back(errand);
    }

    /// The next one: of the next account that has some.
    pub(super) fn pop(&mut self) -> Option<Errand> {
        let after = |last: u32| (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
        let account = self.waiting.range(after(self.last)).next().or_else(|| self.waiting.iter().next());
        let account = *account?.0;
        self.last = account;
        let queue = self.waiting.get_mut(&account)?;
        let errand = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&account);
        }
        errand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_turns() {
        let mut errands = Errands::default();
        for (user, token) in [(7, 1), (7, 2), (7, 3), (9, 4), (3, 5), (9, 6)] {
            let peer = Peer::new(user, user, 1);
            errands.push(Errand { token: Some(token), peer, name: "remove-disk", wish: Wish::Remove });
        }
        let order: Vec<u64> = std::iter::from_fn(|| errands.pop()).filter_map(|errand| errand.token).collect();
        assert_eq!(order, [5, 1, 4, 2, 6, 3]);
        assert!(errands.pop().is_none());
    }
}
