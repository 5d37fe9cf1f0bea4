//! [`PolicyKind`]: the policies that are there.

use super::lru::Lru;
use super::policy::Policy;
use super::s3_fifo::S3Fifo;

/// The policies that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PolicyKind {
    /// [`S3Fifo`].
    #[default]
    S3Fifo,
    /// [`Lru`].
    Lru,
}

impl PolicyKind {
    /// Each of them.
    pub const ALL: [PolicyKind; 2] = [PolicyKind::S3Fifo, PolicyKind::Lru];

    /// One for a cache of so many pieces.
    pub fn policy(self, pieces_max: usize) -> Box<dyn Policy> {
        match self {
            PolicyKind::S3Fifo => Box::new(S3Fifo::new(pieces_max)),
            PolicyKind::Lru => Box::new(Lru::default()),
        }
    }
}
