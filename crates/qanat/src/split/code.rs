//! Errors and reasons as numbers, in messages.

use qanat_stack::{CloseReason, CommandError};

const ERRORS: [CommandError; 6] = [
    CommandError::Stale,
    CommandError::Full,
    CommandError::InUse,
    CommandError::Unreachable,
    CommandError::NotSending,
    CommandError::TooLong,
];

const REASONS: [CloseReason; 10] = [
    CloseReason::Finished,
    CloseReason::ResetByPeer,
    CloseReason::Aborted,
    CloseReason::TimedOut,
    CloseReason::Refused,
    CloseReason::Unreachable,
    CloseReason::NetworkUnreachable,
    CloseReason::ProtocolUnreachable,
    CloseReason::Prohibited,
    CloseReason::HopLimitExceeded,
];

/// 0 means no error.
pub(crate) fn of_error(error: CommandError) -> u8 {
    1 + ERRORS.iter().position(|known| *known == error).unwrap_or(0) as u8
}

pub(crate) fn to_error(number: u8) -> Option<CommandError> {
    let index = usize::from(number).checked_sub(1)?;
    Some(ERRORS.get(index).copied().unwrap_or(CommandError::Full))
}

pub(crate) fn of_reason(reason: CloseReason) -> u8 {
    REASONS.iter().position(|known| *known == reason).unwrap_or(0) as u8
}

pub(crate) fn to_reason(number: u8) -> CloseReason {
    REASONS.get(usize::from(number)).copied().unwrap_or(CloseReason::Aborted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_come_back() {
        assert!(ERRORS.iter().all(|error| to_error(of_error(*error)) == Some(*error)));
        assert!(REASONS.iter().all(|reason| to_reason(of_reason(*reason)) == *reason));
        assert_eq!(to_error(0), None);
    }
}
