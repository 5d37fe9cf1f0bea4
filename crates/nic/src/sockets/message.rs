//! [`Message`]: what `sendmsg` is told, at an address that stays.

use super::address::{Control, Name};
use super::outgoing::{OUTGOING_PIECES_MAX, Outgoing};
use std::ptr::NonNull;

/// One more than pieces are lent: what is copied comes first.
const VECTORS: usize = OUTGOING_PIECES_MAX + 1;

#[repr(C)]
struct Parts {
    header: libc::msghdr,
    vectors: [libc::iovec; VECTORS],
    name: Name,
    control: Control,
}

/// A message, and what it sends. The kernel reads all of it while the send is under way.
pub(super) struct Message {
    parts: NonNull<Parts>,
    pub(super) outgoing: Outgoing,
    /// Of whoever asked for it.
    pub(super) token: u32,
    pub(super) is_datagram: bool,
}

impl Message {
    pub(super) fn new() -> Message {
        // SAFETY: zeroes are a header without anything, and vectors of no bytes.
        let (header, vectors) = unsafe { std::mem::zeroed() };
        let parts = Box::new(Parts { header, vectors, name: Name::NONE, control: Control::NONE });
        Message { parts: NonNull::from(Box::leak(parts)), outgoing: Outgoing::default(), token: 0, is_datagram: false }
    }

    /// Has the message name all that `outgoing` has, and whom it is for. The address is good until the message is made again, or
    /// dropped; neither may happen while the kernel has it.
    pub(super) fn make(&mut self, name: Name, control: Control) -> *const libc::msghdr {
        // SAFETY: nobody else refers to it: the last send with it is done.
        let parts = unsafe { self.parts.as_mut() };
        let mut count = 0;
        for (vector, piece) in parts.vectors.iter_mut().zip(self.outgoing.pieces()) {
            *vector = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
            count += 1;
        }
        (parts.name, parts.control) = (name, control);
        let pointer_if = |length: usize, pointer: *const u8| {
            if length == 0 { std::ptr::null_mut() } else { pointer.cast_mut().cast::<libc::c_void>() }
        };
        parts.header.msg_iov = parts.vectors.as_mut_ptr();
        parts.header.msg_iovlen = count;
        parts.header.msg_namelen = parts.name.length();
        parts.header.msg_name = pointer_if(parts.name.length() as usize, parts.name.as_ptr());
        parts.header.msg_controllen = parts.control.length();
        parts.header.msg_control = pointer_if(parts.control.length(), parts.control.as_ptr());
        self.parts.as_ptr().cast_const().cast()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and no send refers to it (see `SocketRing::drop`).
        drop(unsafe { Box::from_raw(self.parts.as_ptr()) });
    }
}
