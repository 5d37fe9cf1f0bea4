//! The functions that take the place of the C library's.

mod away;
pub(crate) mod beside;
mod bind;
mod close;
mod control;
mod copies;
mod credentials;
mod direct;
pub(crate) mod epoll;
pub(crate) mod exec;
mod fast_open;
mod file;
pub(crate) mod fresh;
mod hand_over;
mod information;
mod interfaces;
pub(crate) mod open;
pub(crate) mod options;
mod poll;
mod process;
mod receive;
pub(crate) mod remote;
mod send;
pub(crate) mod signals;
mod spawn;
mod splice;
mod stand_in;
mod stdio;

/// A call's outcome as the C library gives it.
fn give(outcome: Result<isize, i32>) -> isize {
    match outcome {
        Ok(value) => value,
        Err(errno) => {
            crate::real::set_errno(errno);
            -1
        }
    }
}

/// The same, of one that gives an `int`.
fn give_int(outcome: Result<i32, i32>) -> i32 {
    give(outcome.map(|value| value as isize)) as i32
}
