//! Where `qanat run` differs from Linux, and why. Each of these is wrong, or a limit that `docs/posix.md` tells of: a case that
//! passes is to be struck from here.

/// How a known difference shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Each time, by another outcome.
    Differs,
    /// Each time: what it waits for never comes.
    Hangs,
    /// Not each time.
    NowAndThen,
}

/// Cases that differ for one reason.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub how: How,
    pub why: &'a str,
    /// Their names, or how those begin.
    pub cases: &'a [&'a str],
}

impl Known<'_> {
    /// Whether it is about the case `name`.
    pub fn has(&self, name: &str) -> bool {
        self.cases.iter().any(|start| name.starts_with(start))
    }
}

pub const KNOWN: &[Known<'_>] = &[];
