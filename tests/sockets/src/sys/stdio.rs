//! The C library's streams.

use super::base::*;
use std::ffi::CStr;
use std::ptr::null_mut;

/// A stream of C's standard library over a descriptor, which it owns.
#[derive(Debug)]
pub struct Stream(*mut libc::FILE);

unsafe extern "C" {
    fn dprintf(fd: i32, format: *const libc::c_char, ...) -> i32;
}

/// Formats a word and a number onto a descriptor.
pub fn print_to(fd: Fd, word: &CStr, number: i32) -> Ret {
    // SAFETY: the format asks for a C string and an int.
    Ret::of(unsafe { dprintf(fd, c"%s %d\n".as_ptr(), word.as_ptr(), number) })
}

impl Stream {
    /// `None`: the call failed.
    pub fn open(fd: Fd, mode: &CStr) -> Option<Stream> {
        // SAFETY: the mode is a C string.
        let stream = unsafe { libc::fdopen(fd, mode.as_ptr()) };
        if stream.is_null() {
            return None;
        }
        note_closed(fd);
        Some(Stream(stream))
    }

    pub fn print(&self, word: &CStr, number: i32) -> Ret {
        // SAFETY: the stream is open; the format asks for a C string and an int.
        Ret::of(unsafe { libc::fprintf(self.0, c"%s %d\n".as_ptr(), word.as_ptr(), number) })
    }

    pub fn flush(&self) -> Ret {
        // SAFETY: the stream is open.
        Ret::of(unsafe { libc::fflush(self.0) })
    }

    pub fn unbuffered(&self) -> Ret {
        // SAFETY: the stream is open; a null buffer is allowed.
        Ret::of(unsafe { libc::setvbuf(self.0, null_mut(), libc::_IONBF, 0) })
    }

    /// One line, with its end; `None` at the end of the stream.
    pub fn line(&self) -> Option<String> {
        let mut buffer = [0_u8; 256];
        // SAFETY: the stream is open; the buffer is longer than said.
        let line = unsafe { libc::fgets(buffer.as_mut_ptr().cast(), 255, self.0) };
        let text = CStr::from_bytes_until_nul(&buffer).ok()?;
        (!line.is_null()).then(|| text.to_string_lossy().into_owned())
    }

    /// Up to a whole buffer.
    pub fn read(&self, buffer: &mut [u8]) -> usize {
        // SAFETY: the stream is open; the buffer is as long as said.
        unsafe { libc::fread(buffer.as_mut_ptr().cast(), 1, buffer.len(), self.0) }
    }

    pub fn is_at_end(&self) -> bool {
        // SAFETY: the stream is open.
        unsafe { libc::feof(self.0) != 0 }
    }

    pub fn close(self) -> Ret {
        // SAFETY: the stream is open and this is its last use.
        Ret::of(unsafe { libc::fclose(self.0) })
    }
}
