//! What accounts have of all disks together.

use crate::daemon::Daemon;
use crate::disks::worker::AreaEntry;
use std::collections::HashMap;

/// Areas, and bytes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) areas: u32,
    pub(crate) bytes: u64,
}

impl Daemon {
    /// Whose limits a user's areas count to: what counts for a connection counts for what it has left behind.
    fn account_of(&mut self, user: u32) -> u32 {
        let owner = self.subordinates.owner_of(user).filter(|_| !self.policy.names(user));
        owner.unwrap_or(user)
    }

    /// What an account has. Deleted areas count as long as somebody holds them, and changes under way as if they were made.
    pub(crate) fn area_usage(&mut self, account: u32) -> Usage {
        let mut by_user: HashMap<u32, Usage> = HashMap::new();
        let mut under_way = Usage::default();
        for disk in self.disks.all.values() {
            for AreaEntry { owner, reserved_bytes, .. } in disk.areas.values() {
                let usage = by_user.entry(owner.uid).or_default();
                usage.areas += 1;
                usage.bytes = usage.bytes.saturating_add(*reserved_bytes);
            }
            if let Some(change) = disk.errands.under_way.as_ref().filter(|it| it.errand.peer.account() == account) {
                under_way.areas += change.areas;
                under_way.bytes = under_way.bytes.saturating_add(change.bytes);
            }
        }
        by_user.into_iter().filter(|(user, _)| self.account_of(*user) == account).fold(under_way, |sum, (_, usage)| {
            Usage { areas: sum.areas + usage.areas, bytes: sum.bytes.saturating_add(usage.bytes) }
        })
    }
}
