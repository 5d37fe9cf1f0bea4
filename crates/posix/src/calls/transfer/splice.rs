//! `splice` between sockets of ours and pipes: the kernel would move pages, here the bytes are copied.

use crate::calls::give;
use crate::calls::transfer::receive::receive;
use crate::calls::transfer::send::send_bytes;
use crate::calls::transfer::sendfile::room;
use crate::calls::transfer::vectors::{Source, Target};
use crate::lifecycle::detached::socket_of;
use crate::sys::libc_next;
use crate::sys::sleep::{readable, sleep};
use libc::{c_int, c_uint, iovec, off_t, size_t, ssize_t};
use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Moved by one call, at most: a pipe's usual size.
const PIECE: usize = 64 * 1024;

/// # Safety
/// As `splice`.
#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    let (source, target) = (socket_of(from), socket_of(to));
    if source.is_none() && target.is_none() {
        // SAFETY: the offsets are null or valid: the program's duty by splice(2).
        return unsafe { libc_next::splice(from, from_offset, to, to_offset, count, flags) };
    }
    if count == 0 {
        return 0;
    }
    let has_offset = !from_offset.is_null() || !to_offset.is_null();
    let waits = flags & libc::SPLICE_F_NONBLOCK == 0;
    give(match (source, target) {
        _ if has_offset => Err(Errno::SPIPE),
        (Some(socket), None) => is_pipe(to, libc::O_RDONLY).and_then(|()| out_of(from, socket, to, count, waits)),
        (None, Some(socket)) => is_pipe(from, libc::O_WRONLY).and_then(|()| into(socket, from, count, waits)),
        _ => Err(Errno::INVAL),
    })
}

/// Whether `fd` is a pipe, and not its `wrong` end.
fn is_pipe(fd: c_int, wrong: c_int) -> Result<(), Errno> {
    let mut status = MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: the structure has room for what is written, and it was zeroed at first.
    let mode = unsafe {
        if libc::fstat64(fd, status.as_mut_ptr()) != 0 {
            return Err(libc_next::errno());
        }
        status.assume_init().st_mode
    };
    // SAFETY: the call takes no pointers.
    let access = unsafe { libc_next::fcntl64(fd, libc::F_GETFL, 0) } & libc::O_ACCMODE;
    match mode & libc::S_IFMT {
        _ if access == wrong => Err(Errno::BADF),
        libc::S_IFIFO => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

fn vector(buffer: &mut [u8]) -> [iovec; 1] {
    [iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() }]
}

/// From a socket into a pipe: what the pipe takes is taken from the socket.
fn out_of(fd: c_int, socket: u32, pipe: c_int, count: usize, waits: bool) -> Result<isize, Errno> {
    let mut buffer = vec![0u8; count.min(PIECE)];
    let flags = libc::MSG_PEEK | if waits { 0 } else { libc::MSG_DONTWAIT };
    let piece = vector(&mut buffer);
    // SAFETY: the part is `buffer`, which outlives the call.
    let there = receive(fd, socket, unsafe { Target::new(&piece) }, flags)?.length;
    if there == 0 {
        return Ok(0);
    }
    loop {
        let piece = vector(buffer.get_mut(..there).unwrap_or_default());
        // SAFETY: the pointer is to as many readable bytes as the length says.
        let written = unsafe { libc::pwritev2(pipe, piece.as_ptr(), 1, -1, libc::RWF_NOWAIT) };
        if written > 0 {
            let taken = vector(buffer.get_mut(..written as usize).unwrap_or_default());
            // SAFETY: the part is of `buffer`, which outlives the call.
            receive(fd, socket, unsafe { Target::new(&taken) }, libc::MSG_DONTWAIT)?;
            return Ok(written);
        }
        let error = libc_next::errno();
        // SAFETY: the call takes no pointers.
        let is_nonblocking = unsafe { libc_next::fcntl64(pipe, libc::F_GETFL, 0) } & libc::O_NONBLOCK != 0;
        if error != Errno::AGAIN || !waits || is_nonblocking {
            return Err(error);
        }
        let mut room = [libc::pollfd { events: libc::POLLOUT, ..readable(pipe) }];
        sleep(&mut room, None, std::ptr::null())?;
    }
}

/// From a pipe into a socket.
fn into(socket: u32, pipe: c_int, count: usize, waits: bool) -> Result<isize, Errno> {
    let (room, may_wait) = room(socket)?;
    if room == 0 && !may_wait {
        return Err(Errno::AGAIN);
    }
    let most = if may_wait { PIECE } else { room.min(PIECE) };
    let mut buffer = vec![0u8; count.min(most)];
    let piece = vector(&mut buffer);
    let flags = if waits { 0 } else { libc::RWF_NOWAIT };
    // SAFETY: the pointer is to as many writable bytes as the length says.
    let read = unsafe { libc::preadv2(pipe, piece.as_ptr(), 1, -1, flags) };
    if read <= 0 {
        return if read == 0 { Ok(0) } else { Err(libc_next::errno()) };
    }
    let piece = vector(buffer.get_mut(..read as usize).unwrap_or_default());
    // SAFETY: the part is of `buffer`, which outlives the call.
    send_bytes(socket, unsafe { Source::new(&piece) })
}
