//! Why a program has not begun.

use crate::exit::{NOT_BEGUN, NOT_EXECUTABLE, NOT_FOUND};
use crate::program::Refusal;

/// Why the program has not begun, and the exit code that says so.
pub struct Failure {
    pub code: u8,
    pub reason: String,
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure { code: NOT_BEGUN, reason }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let code = match &refusal {
            Refusal::Missing(..) => NOT_FOUND,
            Refusal::Denied(..) | Refusal::Nothing(..) | Refusal::Foreign(..) => NOT_EXECUTABLE,
            // They could be executed, but not under this command.
            Refusal::Static(..) | Refusal::Go(..) | Refusal::SetUser(..) => NOT_BEGUN,
        };
        Failure { code, reason: refusal.to_string() }
    }
}
