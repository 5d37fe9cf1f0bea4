//! Cards that are under way from one net core to another.

use qanat_control::net_core::CardNumber;
use std::collections::HashSet;
use std::time::Instant;

/// A card under way: from one net core, to another, by their places.
pub(crate) struct Move {
    pub(super) card: CardNumber,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// All of them, and what has been.
#[derive(Default)]
pub(crate) struct Moves {
    pub(super) under_way: Vec<Move>,
    /// Why a card stayed was said.
    pub(super) told: HashSet<CardNumber>,
    /// That a net core talks nonsense was said.
    pub(super) nonsense_told: bool,
    pub(super) tried: Option<Instant>,
}

impl Moves {
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&CardNumber) -> bool) {
        self.under_way.retain(|one| !is_gone(&one.card));
        self.told.retain(|card| !is_gone(card));
    }

    /// Whether a net core is still giving a card away.
    pub(crate) fn is_from(&self, index: usize) -> bool {
        self.under_way.iter().any(|one| one.from == index)
    }

    pub(super) fn has(&self, card: CardNumber) -> bool {
        self.under_way.iter().any(|one| one.card == card)
    }
}
