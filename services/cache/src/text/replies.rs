//! Lines that clients know, word by word.

use crate::output::Output;
use crate::pending::Next;

pub const ERROR: &str = "ERROR";
pub const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
pub const NO_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
pub const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object";

/// Answers with a line, unless none is wanted.
pub fn answer(output: &mut Output, is_quiet: bool, text: &str) -> Next {
    if !is_quiet {
        output.line(text);
    }
    Next::Request
}
