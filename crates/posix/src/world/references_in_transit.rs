//! References to sockets that are on their way between processes, by messages over Unix sockets.

use qanat::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// A reference that nobody has received for so long has been lost with its message.
const PATIENCE: Duration = Duration::from_secs(60);

/// References on their way at the same time.
const REFERENCES_MAX: usize = 4_096;

/// A reference to a socket.
struct Reference {
    cookie: u64,
    number: u32,
    since: Time,
}

#[derive(Default)]
pub(crate) struct Transit {
    references: VecDeque<Reference>,
}

impl Transit {
    /// Whether there are as many as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.references.len() == REFERENCES_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// Socket `number` is on its way under the name of `cookie`.
    pub(crate) fn push(&mut self, cookie: u64, number: u32, since: Time) {
        self.references.push_back(Reference { cookie, number, since });
    }

    /// The socket has arrived, or comes back.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<u32> {
        let at = self.references.iter().position(|reference| reference.cookie == cookie)?;
        self.references.remove(at).map(|reference| reference.number)
    }

    /// Takes one that has been lost.
    pub(crate) fn take_lost(&mut self, now: Time) -> Option<u32> {
        let lost = self.references.front().is_some_and(|first| now.since(first.since) > PATIENCE);
        if lost { self.references.pop_front().map(|reference| reference.number) } else { None }
    }
}
