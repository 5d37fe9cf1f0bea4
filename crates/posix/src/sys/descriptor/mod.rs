//! What a descriptor stands for, asked by a call that is about to use it.

pub(crate) mod notes;

use crate::sys::page::has_fallen;
use crate::sys::this_process::departure::is_left;
pub(crate) use notes::{
    DESCRIPTORS_MAX, Entry, Table, all, decode, encode, is_stand_in, new_table, put_remote, read_table, set, set_like,
    set_own, set_stand_in, use_none, use_table, word,
};
use std::os::fd::RawFd;

/// What `fd` stands for.
#[inline]
pub(crate) fn get(fd: RawFd) -> Entry {
    let word = word(fd);
    if word == 0 {
        return Entry::Kernel;
    }
    let entry = decode(word);
    // If the world has fallen to another class, this process learns of it here, before it does anything.
    if entry != Entry::Own && has_fallen() && is_left() {
        return Entry::Remote;
    }
    entry
}

/// Whether `fd` is a socket of a world that this process has left.
#[inline]
pub(crate) fn is_remote(fd: RawFd) -> bool {
    word(fd) != 0 && get(fd) == Entry::Remote
}
