//! Options of a read cache, and what its figures say.

use crate::live::grouped;
use clap::ValueEnum;
use qanat_web::{PolicyKind, ReadCacheFigures};

/// MiB of a cache, at most: a TiB.
pub const MIB_MAX: u64 = 1_048_576;

/// Which pieces leave a cache.
#[derive(Clone, Copy, ValueEnum)]
pub enum ReadCachePolicy {
    /// Those that were asked for once: who reads everything puts out nothing that is popular
    S3Fifo,
    /// Those that were not asked for the longest
    Lru,
}

impl ReadCachePolicy {
    pub fn kind(self) -> PolicyKind {
        match self {
            ReadCachePolicy::S3Fifo => PolicyKind::S3Fifo,
            ReadCachePolicy::Lru => PolicyKind::Lru,
        }
    }
}

/// Who keeps what was read of large files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadCacheOf {
    Kernel,
    Nobody,
    Own { mib: usize },
}

/// `kernel`, `none`, or a number of MiB.
pub fn parse(text: &str) -> Result<ReadCacheOf, String> {
    match text {
        "kernel" => Ok(ReadCacheOf::Kernel),
        "none" => Ok(ReadCacheOf::Nobody),
        number => match number.parse::<u64>() {
            Ok(mib @ 1..=MIB_MAX) => Ok(ReadCacheOf::Own { mib: mib as usize }),
            _ => Err(format!("write kernel, none, or a number of MiB from 1 to {MIB_MAX}")),
        },
    }
}

/// For the line of figures: nothing if there is no cache, or if nothing was asked for.
pub fn text(figures: &ReadCacheFigures) -> String {
    match figures.hit_rate() {
        Some(rate) if figures.pieces_max > 0 => format!("  {:.0} % from the cache", rate * 100.0),
        _ => String::new(),
    }
}

/// For the end.
pub fn summary(figures: &ReadCacheFigures) -> Option<String> {
    let rate = figures.hit_rate().filter(|_| figures.pieces_max > 0)?;
    Some(format!(
        "The read cache had {} of {} pieces that were asked for ({:.1} %).",
        grouped(figures.hits),
        grouped(figures.hits + figures.misses),
        rate * 100.0,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_the_kernels_nobodys_or_so_large() {
        assert_eq!(parse("kernel"), Ok(ReadCacheOf::Kernel));
        assert_eq!(parse("none"), Ok(ReadCacheOf::Nobody));
        assert_eq!(parse("512"), Ok(ReadCacheOf::Own { mib: 512 }));
        for wrong in ["", "0", "-1", "1.5", "512M", "1048577", "page"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cache_that_is_not_there_is_not_spoken_of() {
        let figures = ReadCacheFigures { hits: 3, misses: 1, ..ReadCacheFigures::default() };
        assert_eq!((text(&figures), summary(&figures)), (String::new(), None));
        let figures = ReadCacheFigures { pieces_max: 8, ..figures };
        assert_eq!(text(&figures), "  75 % from the cache");
        assert_eq!(summary(&figures).unwrap(), "The read cache had 3 of 4 pieces that were asked for (75.0 %).");
    }
}
