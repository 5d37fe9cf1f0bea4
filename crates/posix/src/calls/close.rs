//! `close`, `shutdown`, and copies of descriptors.

use super::give_int;
use super::interfaces::netlink;
use crate::lifecycle::detached::socket_of;
use crate::sockets::epoll::Change;
use crate::sockets::socket::Kind;
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::{is_explaining, is_said_by};
use crate::sys::libc_next;
use crate::world::lock::lock;
use crate::world::wait::block;
use libc::{c_int, c_uint};
use qanat_stack::tcp::State;
use rustix::io::Errno;

/// What `fd` stood for is let go of, as its number is about to be; whether somebody is to be told when it is.
fn let_go(fd: c_int, entry: Entry) -> bool {
    if crate::world::lock::remains().is_some() {
        // There is nothing to be let go of, and the number may be a file's next.
        descriptor::set(fd, Entry::Kernel);
        return false;
    }
    if let Entry::Socket(number) = entry {
        linger(number);
    }
    let Ok(mut guard) = lock() else {
        if crate::sys::this_process::departure::is_detached() {
            // The world has fallen in this moment.
            crate::lifecycle::detached::channel::close(fd);
        }
        return false;
    };
    // Somebody else may have closed it meanwhile.
    if descriptor::get(fd) != entry {
        return false;
    }
    descriptor::set(fd, Entry::Kernel);
    match entry {
        Entry::Socket(number) => guard.release(number),
        Entry::Epoll(number) => guard.release_epoll(number),
        Entry::Own | Entry::Kernel | Entry::Remote => {}
    }
    !guard.sockets.to_wake.is_empty()
}

/// Tells the threads that waited for what is gone now.
fn tell(somebody: bool) {
    if somebody && let Ok(mut guard) = lock() {
        guard.ring();
    }
}

/// `SO_LINGER`: waits until everything is acknowledged, as long as was asked for.
fn linger(number: u32) {
    let time = {
        let Ok(guard) = lock() else { return };
        let Some(socket) = guard.sockets.get(number).filter(|socket| socket.references == 1) else { return };
        let waits = matches!(&socket.kind, Kind::Stream(stream) if stream.connection.is_some());
        socket.linger.filter(|time| waits && !time.is_zero())
    };
    if let Some(time) = time {
        let _ = block(number, Some(time), None, |guard| match &guard.sockets.get(number)?.kind {
            Kind::Stream(stream) if stream.unacknowledged > 0 && stream.connection.is_some() => None,
            _ => Some(Ok(())),
        });
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn close(fd: c_int) -> c_int {
    match descriptor::get(fd) {
        Entry::Kernel if is_said_by(fd) => return give_int(Err(Errno::BADF)),
        Entry::Kernel => {
            crate::calls::waiting::epoll::closed(fd);
            super::bound_to_all::closed(fd);
            super::copies::closed(fd);
            netlink::closed(fd);
        }
        Entry::Remote => return crate::calls::remote::client::close(fd),
        // Programs that close what they don't know of don't mean these.
        Entry::Own if !crate::sys::arena::is_inside() => return give_int(Err(Errno::BADF)),
        Entry::Own => {
            descriptor::set(fd, Entry::Kernel);
        }
        entry => {
            let somebody = let_go(fd, entry);
            // SAFETY: the call takes no pointers.
            let status = unsafe { libc_next::close(fd) };
            tell(somebody);
            return status;
        }
    }
    // SAFETY: the call takes no pointers.
    unsafe { libc_next::close(fd) }
}

#[unsafe(no_mangle)]
extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if crate::world::lock::shared().is_none() && !is_explaining() || flags != 0 {
        // SAFETY: the call takes no pointers.
        return unsafe { libc_next::close_range(first, last, flags) };
    }
    if first > last {
        return give_int(Err(Errno::INVAL));
    }
    // In runs between those of ours.
    let end = last.min(descriptor::DESCRIPTORS_MAX as c_uint - 1);
    let mut run = first;
    for fd in first..=end {
        if descriptor::get(fd as c_int) != Entry::Kernel || is_said_by(fd as c_int) {
            if run < fd {
                // SAFETY: the call takes no pointers.
                unsafe { libc_next::close_range(run, fd - 1, 0) };
            }
            close(fd as c_int);
            run = fd + 1;
        }
    }
    if run <= last {
        // SAFETY: the call takes no pointers.
        return unsafe { libc_next::close_range(run, last, 0) };
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn closefrom(first: c_int) {
    close_range(first.max(0) as c_uint, c_uint::MAX, 0);
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if descriptor::is_remote(fd) {
        return crate::calls::remote::client::shutdown(fd, how);
    }
    let Some(number) = socket_of(fd) else {
        // SAFETY: the call takes no pointers.
        return unsafe { libc_next::shutdown(fd, how) };
    };
    give_int(shut(fd, number, how))
}

fn shut(fd: c_int, number: u32, how: c_int) -> Result<i32, Errno> {
    if !(libc::SHUT_RD..=libc::SHUT_RDWR).contains(&how) {
        return Err(Errno::INVAL);
    }
    let (reads, writes) = (how != libc::SHUT_WR, how != libc::SHUT_RD);
    let mut guard = lock()?;
    let now = guard.clock_now();
    let world = &mut *guard;
    let socket = world.sockets.get_mut(number).ok_or(Errno::BADF)?;
    let is_dual = socket.is_dual;
    match &mut socket.kind {
        Kind::Bound => return Err(Errno::NOTCONN),
        Kind::Listener(listener) => {
            if reads {
                let ids = std::mem::take(&mut listener.listeners);
                for id in ids {
                    world.sockets.disown_listener(id, number, &mut world.stack);
                }
                if is_dual {
                    // SAFETY: the call takes no pointers.
                    unsafe { libc_next::shutdown(fd, how) };
                }
            }
        }
        Kind::Stream(stream) => {
            let connection = stream.connection.ok_or(Errno::NOTCONN)?;
            let state = world.stack.connection_info(connection).map(|(_, _, info)| info.state);
            if stream.is_connecting && state.is_none_or(|state| state == State::SynSent) {
                // As on Linux: the attempt is over. (When the peer's SYN has crossed ours it is not: a FIN follows.)
                world.sockets.disown_connection(connection);
                let _ = world.stack.abort(now, connection);
                if let Some(socket) = world.sockets.get_mut(number) {
                    (socket.kind, socket.error) = (Kind::Bound, Some(Errno::CONNRESET));
                }
                guard.sockets.notify(number, Change::ANY);
                guard.ring();
                return Ok(0);
            }
            stream.read_shut |= reads;
            if writes && !stream.write_shut {
                stream.write_shut = true;
                world.stack.shutdown(now, connection).map_err(crate::sockets::socket::errno_of_command)?;
                world.sent(now);
            }
        }
        Kind::Datagram(datagram) => {
            if socket.peer.is_none() {
                return Err(Errno::NOTCONN);
            }
            datagram.read_shut |= reads;
            datagram.write_shut |= writes;
        }
    }
    guard.sockets.notify(number, Change::ANY);
    guard.ring();
    Ok(0)
}

/// `new` is a copy of `old`.
pub(super) fn copied(old: c_int, new: c_int) {
    let entry = descriptor::get(old);
    if new < 0 {
        return;
    }
    if entry == Entry::Kernel {
        super::option_notes::forget(old);
        super::copies::note(old, new);
        return;
    }
    if entry == Entry::Remote {
        crate::lifecycle::detached::channel::duplicate(old, new);
        return;
    }
    let Ok(mut guard) = lock() else { return };
    if entry == Entry::Own {
        return;
    }
    guard.refer(entry);
    match entry {
        Entry::Socket(number) if descriptor::is_stand_in(old) => descriptor::set_stand_in(new, number),
        entry => descriptor::set(new, entry),
    };
}

#[unsafe(no_mangle)]
extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the call takes no pointers.
    let new = unsafe { libc_next::dup(fd) };
    copied(fd, new);
    new
}

/// Makes room for a copy at `onto`.
fn make_room(fd: c_int, onto: c_int) -> Result<(), Errno> {
    // SAFETY: the call takes no pointers.
    let is_open = unsafe { libc_next::fcntl64(fd, libc::F_GETFD, 0) } >= 0;
    match descriptor::get(onto) {
        _ if !is_open || fd == onto => Ok(()),
        Entry::Kernel => {
            crate::calls::waiting::epoll::closed(onto);
            super::bound_to_all::closed(onto);
            super::copies::closed(onto);
            Ok(())
        }
        Entry::Own => Err(Errno::BUSY),
        Entry::Remote => {
            crate::lifecycle::detached::channel::close(onto);
            Ok(())
        }
        entry => {
            tell(let_go(onto, entry));
            Ok(())
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn dup2(fd: c_int, onto: c_int) -> c_int {
    if let Err(error) = make_room(fd, onto) {
        return give_int(Err(error));
    }
    // SAFETY: the call takes no pointers.
    let new = unsafe { libc_next::dup2(fd, onto) };
    if new != fd {
        copied(fd, new);
    }
    new
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int {
    if let Err(error) = make_room(fd, onto) {
        return give_int(Err(error));
    }
    // SAFETY: the call takes no pointers.
    let new = unsafe { libc_next::dup3(fd, onto, flags) };
    copied(fd, new);
    new
}
