//! A socket of the kernel's becomes ours.

use super::option_notes::Note;
use super::{copies, options};
use crate::calls::waiting::epoll;
use crate::sockets::socket::Socket;
use crate::sys::descriptor::{self, Entry};
use crate::world::lock::Guard;
use libc::c_int;
use rustix::io::Errno;

/// Makes `fd` a socket of ours, with what was set on it before, and moves it from the kernel's instances of `epoll` to ours.
pub(super) fn adopt(guard: &mut Guard, fd: c_int, mut socket: Socket, note: Option<Note>) -> Result<u32, Errno> {
    options::read_set(fd, &mut socket, note);
    socket.references = 1;
    let number = guard.sockets.insert(socket);
    if !descriptor::set(fd, Entry::Socket(number)) {
        guard.sockets.remove(number);
        return Err(Errno::MFILE);
    }
    epoll::adopted(guard, fd, number);
    for copy in copies::of(fd) {
        if descriptor::set(copy, Entry::Socket(number))
            && let Some(socket) = guard.sockets.get_mut(number)
        {
            socket.references += 1;
            epoll::adopted(guard, copy, number);
        }
    }
    Ok(number)
}
