//! [`Streams`]: which streams a connection has, and has had.

use qanat_api::ConnectionId;

/// Streams that were reset here, of which something may still be on its way.
const RESETS_REMEMBERED: usize = 64;

/// What a number stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Number {
    /// No stream yet, or never one of the peer's.
    Idle,
    /// One that there is. It may be over, if the peer has not acknowledged its end yet.
    Known(ConnectionId),
    /// One that was reset here not long ago.
    Reset,
    /// One that was.
    Closed,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Those that there are, by their numbers, which ascend.
    known: Vec<(u32, ConnectionId)>,
    /// The last one that began.
    last: u32,
    /// Those reset last, and where the next one goes.
    resets: Vec<u32>,
    next_reset: usize,
}

impl Streams {
    /// The number of the last one that began.
    pub(super) fn last(&self) -> u32 {
        self.last
    }

    /// How many there are, with those that are over and not acknowledged.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Their handles.
    pub(super) fn ids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.known.iter().map(|(_, id)| *id)
    }

    /// What a number stands for.
    pub(super) fn find(&self, number: u32) -> Number {
        if let Ok(at) = self.known.binary_search_by_key(&number, |(number, _)| *number)
            && let Some((_, id)) = self.known.get(at)
        {
            return Number::Known(*id);
        }
        match number {
            // Streams of even numbers would be ours.
            _ if number > self.last || number.is_multiple_of(2) => Number::Idle,
            _ if self.resets.contains(&number) => Number::Reset,
            _ => Number::Closed,
        }
    }

    /// A stream begins, whatever becomes of it.
    pub(super) fn begin(&mut self, number: u32) {
        self.last = number;
    }

    /// It is one of those that there are.
    pub(super) fn insert(&mut self, number: u32, id: ConnectionId) {
        self.known.push((number, id));
    }

    /// It is none of them any more.
    pub(super) fn remove(&mut self, number: u32) {
        if let Ok(at) = self.known.binary_search_by_key(&number, |(number, _)| *number) {
            self.known.remove(at);
        }
    }

    /// All that there are are none any more. Returns them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = ConnectionId> + use<> {
        std::mem::take(&mut self.known).into_iter().map(|(_, id)| id)
    }

    /// A stream was reset here.
    pub(super) fn note_reset(&mut self, number: u32) {
        match self.resets.get_mut(self.next_reset) {
            Some(oldest) => *oldest = number,
            None => self.resets.push(number),
        }
        self.next_reset = (self.next_reset + 1) % RESETS_REMEMBERED;
    }
}
