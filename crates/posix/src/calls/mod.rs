//! The functions that take the place of the C library's.

use rustix::io::Errno;

mod adopt;
mod bind;
mod bound_to_all;
mod close;
mod control;
mod copies;
mod direct;
mod fast_open;
mod fast_open_settings;
mod information;
mod interfaces;
mod nature;
mod open;
mod option_notes;
mod options;
mod owner;
mod ports;
mod program;
mod remote;
mod stand_in;
mod transfer;
mod waiting;

/// A call's outcome as the C library gives it.
pub(crate) fn give(outcome: Result<isize, Errno>) -> isize {
    match outcome {
        Ok(value) => value,
        Err(errno) => {
            crate::sys::libc_next::set_errno(errno);
            -1
        }
    }
}

/// The same, of one that gives an `int`.
pub(crate) fn give_int(outcome: Result<i32, Errno>) -> i32 {
    give(outcome.map(|value| value as isize)) as i32
}
