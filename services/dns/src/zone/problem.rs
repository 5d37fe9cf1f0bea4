//! What is wrong or odd about a zone, and where.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Problems kept: a file of another format has one on each line.
pub(super) const PROBLEMS_MAX: usize = 100;

/// A place in a master file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which file; `None`: it came otherwise.
    pub file: Option<Arc<PathBuf>>,
    /// Counted from 1; 0: the file as a whole.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), 0) => write!(f, "{}", file.display()),
            (Some(file), line) => write!(f, "{}:{line}", file.display()),
            (None, _) => f.write_str("(received)"),
        }
    }
}

/// Something wrong with a zone: where, what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, and what to do about it.
    pub message: String,
    /// The zone is served all the same.
    pub is_warning: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_warning { "warning" } else { "error" };
        write!(f, "{}: {kind}: {}", self.place, self.message)
    }
}

/// Why there is no zone: at least one error, and the warnings met on the way.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ZoneError(pub Vec<Problem>);

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self.0.iter().filter(|problem| !problem.is_warning);
        match errors.next() {
            Some(first) => write!(f, "{first}")?,
            None => f.write_str("the zone is unusable")?,
        }
        match errors.count() {
            0 => Ok(()),
            more => write!(f, " (and {more} more: `qanat dns check` lists them)"),
        }
    }
}
