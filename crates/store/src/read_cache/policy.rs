//! [`Policy`]: which piece leaves.

use super::{Lru, S3Fifo};

/// Which piece leaves a [`ReadCache`](crate::ReadCache) when another one needs its place. An application may bring its own.
///
/// Pieces are known by their *slot*: a number below the cache's size, which belongs to another piece after its piece has left. All
/// methods are called at each use of the cache, so their walks are to be bounded.
pub trait Policy: std::fmt::Debug {
    /// A piece came in. `fingerprint` is its key's, the same each time that it comes; two pieces have the same one by accident only.
    fn inserted(&mut self, slot: usize, fingerprint: u64);

    /// The piece was asked for again.
    fn used(&mut self, slot: usize);

    /// The piece that leaves. It is called when all slots are taken. `None`: nothing may leave, and what is new is not kept.
    fn victim(&mut self) -> Option<usize>;

    /// All pieces left.
    fn clear(&mut self);
}

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
