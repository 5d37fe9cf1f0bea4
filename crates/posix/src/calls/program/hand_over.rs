//! Sockets of ours that go to another program over a Unix socket. A program of this world gets them
//! [as they are](crate::lifecycle::transit). For a program outside it, a connection is [pumped](crate::lifecycle::pump).

use crate::calls::give_int;
use crate::lifecycle::attach::attach_to_run;
use crate::lifecycle::pumped::{is_connection, pumped};
use crate::lifecycle::transit;
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::explain;
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::sys::this_process::departure::is_detached;
use crate::world::lock::{lock, shared};
use libc::{c_int, cmsghdr, msghdr};
use std::os::fd::RawFd;

/// Where the descriptors of a control message that hands on some begin and end, bytes from the buffer's start.
///
/// # Safety
/// The message's control buffer is readable, or nowhere.
unsafe fn rights(message: &msghdr) -> Option<std::ops::Range<usize>> {
    const HEAD: usize = size_of::<cmsghdr>();
    let room = message.msg_controllen;
    // The kernel refuses what is nowhere, and a length that is no `int`.
    if is_nowhere(message.msg_control) || room > c_int::MAX as usize {
        return None;
    }
    let mut at = 0;
    while at + HEAD <= room {
        // SAFETY: within the buffer; nothing needs alignment.
        let header = unsafe { message.msg_control.byte_add(at).cast::<cmsghdr>().read_unaligned() };
        let end = at.checked_add(header.cmsg_len).filter(|end| header.cmsg_len >= HEAD && *end <= room)?;
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            return Some(at + HEAD..end);
        }
        at += header.cmsg_len.next_multiple_of(size_of::<usize>());
    }
    None
}

/// Whether the process at the other end of a Unix socket, or the one that made it, shares this world.
fn is_among_us(fd: c_int) -> bool {
    // SAFETY: the program's, open as long as this call.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    let peer = rustix::net::sockopt::socket_peercred(fd);
    peer.is_ok_and(|peer| lock().is_ok_and(|guard| guard.has_process(peer.pid.as_raw_nonzero().get())))
}

/// Sends a message over a socket of the kernel's that hands on sockets of ours. `None`: it does not. To a process of this world
/// they go as they are; a connection goes to others as a Unix socket.
///
/// # Safety
/// As `sendmsg`.
pub(in crate::calls) unsafe fn send_rights(fd: c_int, message: &msghdr, flags: c_int) -> Option<libc::ssize_t> {
    // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
    let place = unsafe { rights(message) }?;
    // SAFETY: the bytes are within the buffer, which has been checked.
    let control = unsafe { std::slice::from_raw_parts(message.msg_control.cast::<u8>(), message.msg_controllen) };
    let mut control = control.to_vec();
    for bytes in control.get(place.clone())?.chunks_exact(size_of::<c_int>()) {
        crate::calls::option_notes::forget(c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    }
    if is_detached() {
        for bytes in control.get(place)?.chunks_exact(size_of::<c_int>()) {
            let handed = c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            if descriptor::is_remote(handed) {
                crate::lifecycle::detached::channel::leaves(handed);
            }
        }
        return None;
    }
    shared()?;
    let among_us = is_among_us(fd);
    let mut made: Vec<(u32, RawFd)> = Vec::new();
    let mut on_their_way = Vec::new();
    for bytes in control.get_mut(place)?.chunks_exact_mut(size_of::<c_int>()) {
        let handed = c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let Entry::Socket(number) = descriptor::get(handed) else { continue };
        if among_us || !is_connection(number) {
            // It is known by the kernel's socket that goes.
            if crate::calls::stand_in::replace(handed).is_err() {
                continue;
            }
            on_their_way.extend(transit::send(handed, number));
            continue;
        }
        let end = match made.iter().find(|(other, _)| *other == number) {
            Some((_, end)) => *end,
            None => {
                let Some(end) = pumped(handed, number, false, "sendmsg") else { continue };
                made.push((number, end));
                end
            }
        };
        bytes.copy_from_slice(&end.to_ne_bytes());
    }
    if made.is_empty() && on_their_way.is_empty() {
        return None;
    }
    let mut copy = *message;
    copy.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2). The copy's buffer
    // is as long.
    let sent = unsafe { libc_next::sendmsg(fd, &raw const copy, flags) };
    let error = libc_next::errno();
    for (_, end) in made {
        // SAFETY: ours; who receives has a copy.
        unsafe { libc_next::close(end) };
    }
    if sent < 0 {
        on_their_way.into_iter().for_each(transit::take_back);
        return Some(give_int(Err(error)) as libc::ssize_t);
    }
    Some(sent)
}

/// What came with a message over a socket of the kernel's may be ours.
///
/// # Safety
/// The kernel has filled in the message.
pub(in crate::calls) unsafe fn receive_rights(message: &msghdr) {
    if crate::sys::wishes::wishes().is_none() {
        return;
    }
    // SAFETY: the kernel has filled in the message: this function's condition.
    let Some(place) = (unsafe { rights(message) }) else { return };
    // SAFETY: the bytes are within the buffer, which has been checked.
    let control = unsafe { std::slice::from_raw_parts(message.msg_control.cast::<u8>(), message.msg_controllen) };
    for bytes in control.get(place).unwrap_or_default().chunks_exact(size_of::<c_int>()) {
        let fd = c_int::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if has_world_for(fd) && transit::receive(fd) {
            explain(format_args!("fd {fd}: recvmsg: ours"));
        }
    }
}

/// Whether there is a world that `fd`, which was received, may be of. A program that has none yet has that of its `qanat run` now.
fn has_world_for(fd: c_int) -> bool {
    descriptor::get(fd) == Entry::Kernel
        && (is_detached() || shared().is_some() || transit::is_internet(fd) && attach_to_run())
}
