//! [`DenialLog`]: what was refused to users (`ACL LOG`).

use std::collections::VecDeque;

/// Entries that may be found the same as a new one: the newest ones.
const LOOKED_AT: usize = 10;
/// Entries that are the same become one if there is no more time between them.
const SAME_WITHIN_MS: i64 = 60_000;
/// Bytes that are kept of what was refused, and of a user's name.
const TEXT_BYTES: usize = 256;

/// Why something was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A wrong name or password.
    Password,
    /// The command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
}

impl Reason {
    /// As `ACL LOG` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Password => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
        }
    }
}

/// Where it was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A client's own command.
    TopLevel,
    /// In a transaction.
    Multi,
    /// In a script.
    Script,
}

impl Context {
    /// As `ACL LOG` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Context::TopLevel => "toplevel",
            Context::Multi => "multi",
            Context::Script => "lua",
        }
    }
}

/// Something that was refused.
#[derive(Debug)]
pub struct Denial {
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, key or channel.
    pub object: Box<[u8]>,
    /// To whom.
    pub user: Box<[u8]>,
    /// When (Unix, ms), the last time.
    pub at_ms: i64,
    /// How often.
    pub count: u64,
    /// The client, as `CLIENT INFO` tells of it.
    pub client: String,
}

/// How often something was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the reasons say it")]
pub struct Denials {
    pub password: u64,
    pub command: u64,
    pub key: u64,
    pub channel: u64,
}

/// See the module. The last one is the first.
#[derive(Debug, Default)]
pub struct DenialLog {
    entries: VecDeque<Denial>,
    /// All that was refused, whether it is still in the log or not.
    pub counts: Denials,
}

fn cut(text: &[u8]) -> Box<[u8]> {
    text.get(..text.len().min(TEXT_BYTES)).unwrap_or_default().into()
}

impl DenialLog {
    /// Something was refused now. Of all, `most` are kept.
    pub fn add(
        &mut self,
        (reason, context): (Reason, Context),
        (object, user): (&[u8], &[u8]),
        client: String,
        (now_ms, most): (i64, usize),
    ) {
        *match reason {
            Reason::Password => &mut self.counts.password,
            Reason::Command => &mut self.counts.command,
            Reason::Key => &mut self.counts.key,
            Reason::Channel => &mut self.counts.channel,
        } += 1;
        let new = Denial { reason, context, object: cut(object), user: cut(user), at_ms: now_ms, count: 1, client };
        let is_same = |other: &Denial| {
            (other.reason, other.context) == (reason, context)
                && now_ms - other.at_ms <= SAME_WITHIN_MS
                && (&other.object, &other.user) == (&new.object, &new.user)
        };
        let before = self.entries.iter().take(LOOKED_AT).position(is_same);
        let count = before.and_then(|place| self.entries.remove(place)).map_or(0, |before| before.count);
        self.entries.push_front(Denial { count: count + 1, ..new });
        self.trim(most);
    }

    /// So many are kept.
    pub fn trim(&mut self, most: usize) {
        self.entries.truncate(most);
    }

    /// The last one first.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Denial> {
        self.entries.iter()
    }

    /// Forgets all but the counts.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_counted_and_what_is_long_is_cut() {
        let mut log = DenialLog::default();
        let add = |log: &mut DenialLog, object: &[u8], now_ms| {
            log.add((Reason::Key, Context::TopLevel), (object, b"me"), String::new(), (now_ms, 5));
        };
        for now_ms in 0..100 {
            add(&mut log, b"key", now_ms);
        }
        assert_eq!(log.entries().map(|denial| (denial.count, denial.at_ms)).collect::<Vec<_>>(), [(100, 99)]);
        add(&mut log, b"key", 99 + SAME_WITHIN_MS + 1);
        assert_eq!(log.entries().len(), 2);
        for number in 0..100_u8 {
            add(&mut log, &[number; 4_000], 0);
        }
        assert_eq!((log.entries().len(), log.counts.key), (5, 201));
        assert!(log.entries().all(|denial| denial.object.len() == TEXT_BYTES));
    }
}
