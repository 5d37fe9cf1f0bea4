//! [`Policy`]: which piece leaves.

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
