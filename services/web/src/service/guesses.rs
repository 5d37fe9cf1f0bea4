//! Passwords that are being looked at, and who waits for that.

use crate::http::authorization::Credentials;
use crate::readers::Guess;
use qanat::ConnectionId;
use qanat::stack::Peer;
use std::collections::HashMap;

/// Guesses under way at once, of all peers.
pub(super) const GUESSES_MAX: usize = 64;

#[derive(Debug)]
struct UnderWay {
    peer: Peer,
    /// They said the same.
    waiting: Vec<ConnectionId>,
}

/// All guesses under way.
#[derive(Debug, Default)]
pub(super) struct Guesses {
    all: HashMap<Guess, UnderWay>,
}

impl Guesses {
    /// Whether this one is under way.
    pub(super) fn has(&self, guess: &Guess) -> bool {
        self.all.contains_key(guess)
    }

    /// Whether one of a peer's is, by which it says to be somebody else. A browser asks in several places with what is right.
    pub(super) fn has_other_of(&self, peer: Peer, credentials: &Credentials) -> bool {
        self.all.iter().any(|(guess, under_way)| under_way.peer == peer && guess.credentials != *credentials)
    }

    /// Whether there may be no more.
    pub(super) fn are_full(&self) -> bool {
        self.all.len() >= GUESSES_MAX
    }

    /// A connection waits for one, which is under way from now on, if it was not.
    pub(super) fn wait(&mut self, guess: Guess, peer: Peer, id: ConnectionId) {
        let under_way = || UnderWay { peer, waiting: Vec::new() };
        self.all.entry(guess).or_insert_with(under_way).waiting.push(id);
    }

    /// One was looked at, and these connections wait for that.
    pub(super) fn end(&mut self, guess: &Guess) -> Vec<ConnectionId> {
        self.all.remove(guess).map_or(Vec::new(), |under_way| under_way.waiting)
    }
}
