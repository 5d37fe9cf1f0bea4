//! What processes say to the keeper, and ask of it.
//!
//! Each process holds the write end of a pipe that is closed by its end, or by `exec`; the keeper has the read ends.

use crate::sys::unix_pair::pair;
use crate::world::processes::registry;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

/// What a message to the keeper begins with that is not the number of a process: of these there are never so many.
pub(crate) const FOLLOW: u32 = u32::MAX - 2;
pub(crate) const DEPUTY: u32 = u32::MAX - 3;
pub(crate) const PUMP: u32 = u32::MAX - 4;

/// Asks the keeper for something other than a life to be noted: the line on which it answers.
pub(crate) fn ask_keeper(what: u32, text: &[u8]) -> Option<OwnedFd> {
    let (own, keepers) = pair(SocketType::SEQPACKET)?;
    let descriptors = [keepers.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let registry = registry();
    if registry < 0 {
        return None;
    }
    // SAFETY: the descriptor stays open as long as this process is one of a world.
    let registry = unsafe { BorrowedFd::borrow_raw(registry) };
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(registry, &[IoSlice::new(&what.to_ne_bytes()), IoSlice::new(text)], &mut ancillary, flags).ok()?;
    Some(own)
}

/// A pipe whose read end goes to the keeper with the number of the process that will hold the write end.
pub(crate) fn register(registry: RawFd, number: u32) -> Result<OwnedFd, Errno> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    hand_line(registry, number, &read)?;
    Ok(write)
}

/// Gives the keeper its end of what tells of the life of process `number`.
pub(crate) fn hand_line(registry: RawFd, number: u32, end: &OwnedFd) -> Result<(), Errno> {
    say_to_keeper(registry, &number.to_ne_bytes(), end)
}

/// Says something to the keeper, and gives it a descriptor.
pub(crate) fn say_to_keeper(registry: RawFd, bytes: &[u8], end: &OwnedFd) -> Result<(), Errno> {
    let descriptors = [end.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    // SAFETY: the descriptor stays open as long as this process lives.
    let registry = unsafe { BorrowedFd::borrow_raw(registry) };
    sendmsg(registry, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(|_| ())
}
