//! What both ways of asking count beside the round trips.

use crate::load::http::LoadError;

/// What a way of asking has counted beside the round trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Answers that were not what they had to be.
    pub wrong: u64,
    /// Connections the server closed.
    pub closed: u64,
}

/// The failure when counting begins before every key is written.
pub(super) fn not_filled() -> LoadError {
    LoadError::Option("the warm-up ended before all keys were written: a longer --warm-up, or fewer --keys".to_owned())
}
