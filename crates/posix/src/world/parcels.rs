//! References to sockets that are on their way between processes.

use qanat::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// What nobody has received for so long has been lost with its message.
const PATIENCE: Duration = Duration::from_secs(60);

/// On their way at once.
const PARCELS_MAX: usize = 4_096;

/// A reference to a socket.
struct Parcel {
    cookie: u64,
    number: u32,
    since: Time,
}

#[derive(Default)]
pub(crate) struct Transit {
    parcels: VecDeque<Parcel>,
}

impl Transit {
    /// Whether there are as many as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.parcels.len() == PARCELS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parcels.is_empty()
    }

    /// Socket `number` is on its way under the name of `cookie`.
    pub(crate) fn push(&mut self, cookie: u64, number: u32, since: Time) {
        self.parcels.push_back(Parcel { cookie, number, since });
    }

    /// It has arrived, or comes back.
    pub(crate) fn take(&mut self, cookie: u64) -> Option<u32> {
        let at = self.parcels.iter().position(|parcel| parcel.cookie == cookie)?;
        self.parcels.remove(at).map(|parcel| parcel.number)
    }

    /// One that has been lost.
    pub(crate) fn take_lost(&mut self, now: Time) -> Option<u32> {
        let lost = self.parcels.front().is_some_and(|first| now.since(first.since) > PATIENCE);
        if lost { self.parcels.pop_front().map(|parcel| parcel.number) } else { None }
    }
}
