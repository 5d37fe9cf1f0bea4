//! [`Status`]: how a call went.

use qanat::CommandError;
use std::cell::RefCell;
use std::ffi::{CStr, CString};

/// How a call went: a `qanat_status_code`. 0 is good; what is less than 0 was refused.
pub type Code = i32;

/// How a call went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum Status {
    /// It was done, or has begun.
    Ok = 0,
    /// The object that a handle means is gone: it was closed or released, or has ended.
    Stale = -1,
    /// A limit is reached: connections, bytes that wait to be sent, requests or buffers of an area, timers. Again after some events.
    Full = -2,
    /// The address or port is in use.
    InUse = -3,
    /// Not one of one's own addresses, or there is no way to the peer.
    Unreachable = -4,
    /// The sending side is shut down.
    NotSending = -5,
    /// This placement does not have it.
    Unsupported = -6,
    /// Longer than the protocol, the buffer or the device allows.
    TooLong = -7,
    /// An argument is wrong: a null pointer, a number that means nothing, memory of another kind. `qanat_last_error` says which.
    Invalid = -8,
    /// The call came from within another one (`release` of `qanat_lend` calls nothing of this library), or from another thread than the one that
    /// called `qanat_start`.
    Busy = -9,
    /// It can't be started, or can't go on. `qanat_last_error` says why, and the remedy.
    Failed = -10,
}

impl Status {
    /// What it means, in English.
    pub fn text(self) -> &'static CStr {
        match self {
            Status::Ok => c"done",
            Status::Stale => c"the object is gone",
            Status::Full => c"a limit is reached: try again after some events",
            Status::InUse => c"the address or port is in use",
            Status::Unreachable => c"no such own address, or no way to the peer",
            Status::NotSending => c"the sending side is shut down",
            Status::Unsupported => c"this placement of the stack does not have it",
            Status::TooLong => c"longer than the protocol, the buffer or the device allows",
            Status::Invalid => c"an argument is invalid: qanat_last_error says which",
            Status::Busy => c"called from within another call, or from another thread",
            Status::Failed => c"it failed: qanat_last_error says why",
        }
    }
}

/// All of them.
pub(crate) const STATUSES: [Status; 11] = [
    Status::Ok,
    Status::Stale,
    Status::Full,
    Status::InUse,
    Status::Unreachable,
    Status::NotSending,
    Status::Unsupported,
    Status::TooLong,
    Status::Invalid,
    Status::Busy,
    Status::Failed,
];

/// Why a call was refused.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A command was.
    Command(CommandError),
    /// An argument.
    Argument(&'static str),
    /// Whatever else: text for the user.
    Failed(String),
}

impl From<CommandError> for Refused {
    fn from(error: CommandError) -> Refused {
        Refused::Command(error)
    }
}

impl Refused {
    /// The number for the program; the text is kept for [`last_error`].
    pub(crate) fn code(self) -> Code {
        self.status() as Code
    }

    fn status(self) -> Status {
        match self {
            Refused::Command(error) => match error {
                CommandError::Stale => Status::Stale,
                CommandError::Full => Status::Full,
                CommandError::InUse => Status::InUse,
                CommandError::Unreachable => Status::Unreachable,
                CommandError::NotSending => Status::NotSending,
                CommandError::Unsupported => Status::Unsupported,
                CommandError::TooLong => Status::TooLong,
            },
            Refused::Argument(why) => {
                note(why);
                Status::Invalid
            }
            Refused::Failed(why) => {
                note(&why);
                Status::Failed
            }
        }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Keeps a text for the thread.
pub(crate) fn note(text: &str) {
    let text: String = text.chars().filter(|character| *character != '\0').collect();
    LAST_ERROR.set(CString::new(text).unwrap_or_default());
}

/// Reads the text that was kept for this thread.
pub(crate) fn last_error<T>(read: impl FnOnce(&CStr) -> T) -> T {
    LAST_ERROR.with_borrow(|text| read(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_number_and_a_text() {
        assert_eq!(Refused::from(CommandError::TooLong).status(), Status::TooLong);
        assert_eq!(Refused::Failed("no\0 way".to_owned()).status(), Status::Failed);
        last_error(|text| assert_eq!(text, c"no way"));
        for (place, status) in STATUSES.into_iter().enumerate() {
            assert_eq!(status as i32, -(place as i32));
            assert!(!status.text().is_empty());
        }
    }
}
