//! [`ReadCacheFigures`].

/// What a [`ReadCache`](crate::ReadCache) did since it was made, and what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct ReadCacheFigures {
    /// Pieces that were asked for, and there.
    pub hits: u64,
    /// Pieces that were asked for, and not there.
    pub misses: u64,
    /// Pieces that were put in.
    pub inserted: u64,
    /// Pieces that left for others.
    pub evicted: u64,
    /// Pieces that are there now.
    pub pieces: u64,
    /// How many there may be. 0: there is no such cache.
    pub pieces_max: u64,
}

impl ReadCacheFigures {
    /// The share of what was asked for that was there; `None`: nothing was asked for.
    pub fn hit_rate(&self) -> Option<f64> {
        let asked = self.hits + self.misses;
        (asked > 0).then(|| self.hits as f64 / asked as f64)
    }

    /// Goes on counting where a cache that is no more stopped.
    #[must_use]
    pub fn after(self, ended: &ReadCacheFigures) -> ReadCacheFigures {
        ReadCacheFigures {
            hits: self.hits + ended.hits,
            misses: self.misses + ended.misses,
            inserted: self.inserted + ended.inserted,
            evicted: self.evicted + ended.evicted,
            ..self
        }
    }
}
