//! `fcntl` and `ioctl`.

use super::close::copied;
use super::owner::owner;
use super::{give_int, option_notes, stand_in};
use crate::lifecycle::detached::channel::SIOCATMARK;
use crate::lifecycle::detached::socket_of;
use crate::sockets::socket::Kind;
use crate::sys::descriptor;
use crate::sys::libc_next;
use crate::sys::program_memory::is_nowhere;
use crate::world::lock::{Guard, lock};
use libc::{c_int, c_ulong};
use rustix::io::Errno;

/// Flags of a file, other than `O_NONBLOCK`, that may be changed.
const FILES_OWN: c_int = libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT | libc::O_NOATIME;

/// Linux' numbers that the `libc` crate lacks.
const F_SETOWN_EX: c_int = 15;
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;

/// The lock; first, if `wanted`, the file at `fd` becomes its own.
fn replaced_for(fd: c_int, wanted: bool) -> Result<Guard, Errno> {
    if wanted {
        stand_in::replace(fd)?;
    }
    lock()
}

/// The third argument is a word in each of its forms, and is in the same place in all.
#[unsafe(no_mangle)]
pub(super) extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    if descriptor::is_remote(fd) {
        return crate::calls::remote::client::fcntl(fd, command, argument);
    }
    let Some(number) = socket_of(fd) else {
        // SAFETY: `argument` is what `command` demands: the program's duty by fcntl(2).
        let result = unsafe { libc_next::fcntl64(fd, command, argument) };
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(fd, result),
            libc::F_SETFL => option_notes::has_set_nonblocking(fd, argument as c_int & libc::O_NONBLOCK != 0),
            // Only the kernel can be asked whose it is.
            libc::F_SETOWN | F_SETOWN_EX => option_notes::forget(fd),
            _ => {}
        }
        return result;
    };
    match command {
        libc::F_GETFL => give_int(lock().and_then(|guard| {
            let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
            // SAFETY: the call takes no pointers.
            let flags = unsafe { libc_next::fcntl64(fd, libc::F_GETFL, 0) } & !libc::O_NONBLOCK;
            Ok(flags | if socket.is_nonblocking { libc::O_NONBLOCK } else { 0 })
        })),
        libc::F_SETFL => give_int(replaced_for(fd, argument as c_int & FILES_OWN != 0).and_then(|mut guard| {
            let socket = guard.sockets.get_mut(number).ok_or(Errno::BADF)?;
            socket.is_nonblocking = argument as c_int & libc::O_NONBLOCK != 0;
            if descriptor::is_stand_in(fd) && argument as c_int & FILES_OWN == 0 {
                return Ok(0);
            }
            // SAFETY: the call takes no pointers.
            let kept = unsafe { libc_next::fcntl64(fd, libc::F_GETFL, 0) } & libc::O_NONBLOCK;
            let flags = argument & !(libc::O_NONBLOCK as c_ulong) | kept as c_ulong;
            // SAFETY: the call takes no pointers.
            let status = unsafe { libc_next::fcntl64(fd, libc::F_SETFL, flags) };
            if status < 0 { Err(libc_next::errno()) } else { Ok(status) }
        })),
        _ => {
            let is_of_number = matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_GETFD | libc::F_SETFD);
            if !is_of_number && let Err(error) = stand_in::replace(fd) {
                return give_int(Err(error));
            }
            // SAFETY: `argument` is what `command` demands: the program's duty by fcntl(2).
            let result = unsafe { libc_next::fcntl64(fd, command, argument) };
            if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
                copied(fd, result);
            }
            if result == 0 && matches!(command, libc::F_SETOWN | F_SETOWN_EX) {
                note_owner(fd, number);
            }
            result
        }
    }
}

fn note_owner(fd: c_int, number: u32) {
    if let Ok(mut guard) = lock()
        && let Some(socket) = guard.sockets.get_mut(number)
    {
        socket.owner = owner(fd);
    }
}

#[unsafe(no_mangle)]
extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    fcntl64(fd, command, argument)
}

/// # Safety
/// As `ioctl`.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: c_ulong) -> c_int {
    // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
    if let Some(answer) = unsafe { super::interfaces::request::answer(fd, request, argument) } {
        return give_int(answer);
    }
    if descriptor::is_remote(fd) {
        // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
        return unsafe { crate::calls::remote::client::ioctl(fd, request, argument) };
    }
    let Some(number) = socket_of(fd) else {
        if matches!(request, libc::FIONBIO | FIOSETOWN | SIOCSPGRP) {
            // What is there to be said of it the kernel says.
            option_notes::forget(fd);
        }
        // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
        return unsafe { libc_next::ioctl(fd, request, argument) };
    };
    let pointer = std::ptr::with_exposed_provenance_mut::<c_int>(argument as usize);
    let answer = match request {
        libc::FIONBIO => {
            if is_nowhere(pointer) {
                return give_int(Err(Errno::FAULT));
            }
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
            let is_nonblocking = unsafe { pointer.read_unaligned() } != 0;
            lock().and_then(|mut guard| {
                guard.sockets.get_mut(number).ok_or(Errno::BADF)?.is_nonblocking = is_nonblocking;
                Ok(None)
            })
        }
        SIOCATMARK => lock().and_then(|mut guard| {
            guard.drive_now();
            match &guard.sockets.get(number).ok_or(Errno::BADF)?.kind {
                Kind::Stream(stream) => Ok(Some(usize::from(stream.is_at_mark()))),
                Kind::Bound | Kind::Listener(_) => Ok(Some(0)),
                Kind::Datagram(_) => Err(Errno::NOTTY),
            }
        }),
        libc::FIONREAD => lock().and_then(|mut guard| {
            guard.drive_now();
            let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
            let is_inline = socket.options.urgent_inline;
            match &socket.kind {
                // Up to an urgent byte that has come.
                Kind::Stream(stream) => Ok(Some(match stream.urgent {
                    Some(urgent) if !is_inline => urgent.ahead.min(stream.unread),
                    _ => stream.unread,
                })),
                Kind::Datagram(datagram) => Ok(Some(datagram.queue.front().map_or(0, |(_, chunk)| chunk.len()))),
                Kind::Bound | Kind::Listener(_) => Err(Errno::INVAL),
            }
        }),
        libc::TIOCOUTQ => lock().and_then(|mut guard| {
            guard.drive_now();
            match &guard.sockets.get(number).ok_or(Errno::BADF)?.kind {
                Kind::Stream(stream) => Ok(Some(stream.unacknowledged)),
                Kind::Datagram(_) => Ok(Some(0)),
                Kind::Bound | Kind::Listener(_) => Err(Errno::INVAL),
            }
        }),
        _ => {
            if let Err(error) = stand_in::replace(fd) {
                return give_int(Err(error));
            }
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
            let result = unsafe { libc_next::ioctl(fd, request, argument) };
            if result == 0 && matches!(request, FIOSETOWN | SIOCSPGRP) {
                note_owner(fd, number);
            }
            return result;
        }
    };
    give_int(answer.and_then(|answer| {
        if let Some(answer) = answer {
            if is_nowhere(pointer) {
                return Err(Errno::FAULT);
            }
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
            unsafe { pointer.write_unaligned(answer as c_int) };
        }
        Ok(0)
    }))
}
