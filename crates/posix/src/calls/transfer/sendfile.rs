//! `sendfile` to sockets of ours: the kernel would take the bytes from a file's pages, here they are read and sent.

use crate::calls::give;
use crate::calls::transfer::send::send_bytes;
use crate::calls::transfer::vectors::{Source, one};
use crate::lifecycle::detached::socket_of;
use crate::sockets::socket::Kind;
use crate::sys::libc_next;
use crate::world::lock::lock;
use libc::{c_int, off_t, size_t, ssize_t};
use rustix::io::Errno;

/// Read at a time.
const PIECE: usize = 128 * 1024;
/// Bytes of a file that leave as one datagram.
const DATAGRAM_MAX: usize = 65_507;

/// # Safety
/// As `sendfile64`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    let Some(number) = socket_of(out) else {
        // SAFETY: `offset` is null or valid: the program's duty by sendfile(2).
        return unsafe { libc_next::sendfile64(out, from, offset, count) };
    };
    if socket_of(from).is_some() {
        return give(Err(Errno::INVAL));
    }
    // SAFETY: `offset` is null or valid: the program's duty by sendfile64(2).
    give(unsafe { send_file(number, from, offset, count) })
}

/// # Safety
/// As `sendfile`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: `offset` is null or valid: the program's duty by sendfile(2).
    unsafe { sendfile64(out, from, offset, count) }
}

/// Bytes a stream takes now, and whether it is worth waiting for more.
pub(in crate::calls) fn room(number: u32) -> Result<(usize, bool), Errno> {
    let mut guard = lock()?;
    let look = |guard: &crate::world::lock::Guard| {
        let socket = guard.sockets.get(number).ok_or(Errno::BADF)?;
        match &socket.kind {
            Kind::Stream(stream) if stream.connection.is_none() || stream.write_shut => Ok((usize::MAX, true)),
            Kind::Stream(stream) => Ok((stream.room(), !socket.is_nonblocking)),
            Kind::Datagram(_) => Ok((DATAGRAM_MAX, false)),
            _ => Err(Errno::INVAL),
        }
    };
    let (room, waits) = look(&guard)?;
    if room == 0 {
        guard.drive_now();
        return look(&guard);
    }
    Ok((room, waits))
}

/// # Safety
/// `offset` is null or valid.
unsafe fn send_file(number: u32, from: c_int, offset: *mut off_t, count: size_t) -> Result<isize, Errno> {
    let mut buffer: Vec<u8> = Vec::new();
    let mut done = 0;
    while done < count {
        let (room, waits) = room(number)?;
        if room == 0 && !waits {
            return if done > 0 { Ok(done as isize) } else { Err(Errno::AGAIN) };
        }
        let wanted = (count - done).min(PIECE).min(if waits { usize::MAX } else { room });
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        // SAFETY: the pointer is to as many writable bytes as the length says.
        let length = unsafe {
            match offset.as_ref() {
                Some(offset) => libc::pread64(from, buffer.as_mut_ptr().cast(), wanted, *offset),
                None => libc_next::read(from, buffer.as_mut_ptr().cast(), wanted),
            }
        };
        if length < 0 {
            return if done > 0 { Ok(done as isize) } else { Err(libc_next::errno()) };
        }
        if length == 0 {
            break;
        }
        let piece = one(buffer.as_ptr().cast(), length as usize);
        // SAFETY: the part is the first `length` bytes of `buffer`, which outlives the call.
        let source = unsafe { Source::new(&piece) };
        let sent = send_bytes(number, source);
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) if done == 0 => {
                // SAFETY: `offset` is null or valid: this function's condition. Takes back what was read.
                unsafe { unread(from, offset, length as usize) };
                return Err(error);
            }
            Err(_) => 0,
        };
        // SAFETY: `offset` is null or valid: this function's condition.
        unsafe {
            match offset.as_mut() {
                Some(offset) => *offset += sent as off_t,
                None => unread(from, offset, length as usize - sent as usize),
            }
        }
        done += sent as usize;
        if sent < length {
            break;
        }
    }
    Ok(done as isize)
}

/// What was read by the file's own offset and not sent is to be read again.
///
/// # Safety
/// `offset` is null or valid.
unsafe fn unread(from: c_int, offset: *mut off_t, bytes: usize) {
    if offset.is_null() && bytes > 0 {
        // SAFETY: the call takes no pointers.
        unsafe { libc::lseek64(from, -(bytes as off_t), libc::SEEK_CUR) };
    }
}
