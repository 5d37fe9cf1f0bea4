//! The *deputy* is a process that has the sockets of a process that has [left](crate::lifecycle::detached) the world, and makes its calls.
//! The keeper forks it, so it has none of that process's memory, and no more rights than the least of those who share the world. Each side
//! checks what the other says, because it may be anything.

use crate::calls::remote::requests as remote;
use crate::lifecycle::detached::channel::{ANSWER, Operation, PAYLOAD_MAX, REQUEST, YOUR_TURN};
use crate::lifecycle::detached::socket_of;
use crate::lifecycle::fork;
use crate::sys::descriptor::{self, Entry};
use crate::sys::libc_next;
use crate::sys::sleep::{readable, sleep};
use crate::world::lock::lock;
use crate::world::membership;
use libc::{c_int, pollfd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};

/// Waits looked after at once.
const WATCHES_MAX: usize = 256;

/// A wait: the socket by which its end is told, and what is waited for.
struct Watch {
    teller: OwnedFd,
    set: Vec<pollfd>,
}

/// A request as it came.
struct Asked {
    operation: i64,
    fd: c_int,
    arguments: [i64; 2],
    room: usize,
    payload: Vec<u8>,
    end: Option<OwnedFd>,
}

/// Becomes the deputy of process `number`, which asks by `line`; in a child of the keeper's that has nothing else open.
pub(in crate::calls) fn serve(line: &OwnedFd, number: u32) {
    // The process that made the pair.
    let id = rustix::net::sockopt::socket_peercred(line).map_or(0, |peer| peer.pid.as_raw_nonzero().get());
    let is_known = lock().is_ok_and(|guard| {
        let record = guard.processes.records.get(number as usize).and_then(Option::as_ref);
        record.map(|record| membership::stand_in_for(number, record, id)).is_some()
    });
    if !is_known {
        return;
    }
    let mut watches: Vec<Watch> = Vec::new();
    loop {
        let mut fds = vec![readable(line.as_raw_fd())];
        for watch in &watches {
            fds.push(readable(watch.teller.as_raw_fd()));
            fds.extend(&watch.set);
        }
        if remote::wait(&mut fds).is_err() {
            // The world is broken, and the line's end says so.
            return;
        }
        tell(&mut watches, fds.get(1..).unwrap_or_default());
        if fds.first().is_some_and(|fd| fd.revents != 0) {
            match hear(line.as_fd()) {
                Heard::Request(asked) => {
                    if answer(line.as_fd(), asked, &mut watches).is_none() {
                        return;
                    }
                }
                Heard::Nothing => {}
                Heard::End => return,
            }
        }
    }
}

/// Tells the waits that are over, but for those that have gone.
fn tell(watches: &mut Vec<Watch>, mut fds: &[pollfd]) {
    watches.retain(|watch| {
        let Some((own, rest)) = fds.split_at_checked(1 + watch.set.len()) else { return true };
        fds = rest;
        let is_over = own.iter().any(|fd| fd.revents != 0);
        if is_over {
            let _ = rustix::net::send(&watch.teller, b"!", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        !is_over
    });
}

enum Heard {
    Request(Asked),
    Nothing,
    End,
}

fn hear(line: BorrowedFd<'_>) -> Heard {
    let mut bytes = vec![0; REQUEST + PAYLOAD_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = match recvmsg(line, &mut [IoSliceMut::new(&mut bytes)], &mut rights, flags) {
        Ok(received) if received.bytes == 0 => return Heard::End,
        Ok(received) => received,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Heard::Nothing,
        Err(_) => return Heard::End,
    };
    let end = rights.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    // Out of the way of numbers that the program has.
    let end = end.map(|end| crate::sys::wakers::out_of_the_way(end.into_raw_fd()));
    // SAFETY: the memory is this process's alone.
    let end = end.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    let Some((head, payload)) = bytes.get(..received.bytes).and_then(|bytes| bytes.split_at_checked(REQUEST)) else {
        return Heard::End;
    };
    let mut words = head.chunks_exact(8).map(|word| word.try_into().map_or(0, i64::from_ne_bytes));
    let mut word = || words.next().unwrap_or(0);
    let (operation, fd, first, second, room) = (word(), word(), word(), word(), word());
    Heard::Request(Asked {
        operation,
        fd: c_int::try_from(fd).unwrap_or(-1),
        arguments: [first, second],
        room: usize::try_from(room).unwrap_or(0).min(PAYLOAD_MAX),
        payload: payload.to_vec(),
        end,
    })
}

/// An answer: a status or an error, and what comes with it.
type Outcome = Result<(c_int, Vec<u8>), Errno>;

/// `None`: nobody hears it.
fn answer(line: BorrowedFd<'_>, asked: Asked, watches: &mut Vec<Watch>) -> Option<()> {
    let room = asked.room;
    let outcome = carry_out(line, asked, watches);
    let (status, mut payload) = match outcome {
        Ok((status, payload)) => (i64::from(status), payload),
        Err(errno) => (-i64::from(errno.raw_os_error()), Vec::new()),
    };
    payload.truncate(room);
    let mut bytes = Vec::with_capacity(ANSWER + payload.len());
    bytes.extend_from_slice(&status.to_ne_bytes());
    bytes.append(&mut payload);
    rustix::net::send(line, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok().map(|_| ())
}

fn plain(status: c_int) -> Outcome {
    if status < 0 { Err(libc_next::errno()) } else { Ok((status, Vec::new())) }
}

fn pairs(payload: &[u8]) -> Vec<pollfd> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, i32::from_ne_bytes);
    let of = |pair: &[u8]| pollfd { fd: word(&pair[..4]), events: word(&pair[4..]) as i16, revents: 0 };
    // What is not a socket of ours is not to be looked at for anybody.
    payload.chunks_exact(8).map(of).map(|one| if is_ours(one.fd) { one } else { pollfd { fd: -1, ..one } }).collect()
}

fn is_ours(fd: c_int) -> bool {
    matches!(descriptor::get(fd), Entry::Socket(_) | Entry::Epoll(_))
}

/// Which socket `fd` is, for the process that has it as well.
fn word_of(fd: c_int) -> Vec<u8> {
    if is_ours(fd) { (descriptor::word(fd)).to_ne_bytes().to_vec() } else { Vec::new() }
}

fn carry_out(line: BorrowedFd<'_>, asked: Asked, watches: &mut Vec<Watch>) -> Outcome {
    let Asked { operation, fd, arguments: [first, second], room, payload, mut end } = asked;
    let argument = c_int::try_from(first).unwrap_or(-1);
    let is = |wanted: Operation| operation == wanted as i64;
    // Of what there is already; the others bring one along, or say none.
    let is_about_ours = !(is(Operation::Place)
        || is(Operation::Only)
        || is(Operation::Bind)
        || is(Operation::Listen)
        || is(Operation::Poll)
        || is(Operation::Watch)
        || is(Operation::Fork)
        || is(Operation::Arrived));
    if is_about_ours && !is_ours(fd) {
        return Err(Errno::BADF);
    }
    match operation {
        _ if is(Operation::Place) => place(fd, end.ok_or(Errno::INVAL)?, first != 0),
        _ if is(Operation::Only) => {
            let kept: Vec<c_int> =
                payload.chunks_exact(4).map(|word| word.try_into().map_or(-1, i32::from_ne_bytes)).collect();
            for (fd, entry) in descriptor::all().collect::<Vec<_>>() {
                if entry != Entry::Own && !kept.contains(&fd) {
                    remote::close(fd);
                }
            }
            Ok((0, Vec::new()))
        }
        _ if is(Operation::Bind) => {
            take_unless_ours(fd, &mut end)?;
            let status = remote::bind(fd, &payload, || ask_back(line))?;
            let word = word_of(fd);
            forget_unless_ours(fd);
            Ok((status, word))
        }
        _ if is(Operation::Listen) => {
            take_unless_ours(fd, &mut end)?;
            let status = remote::listen(fd, argument);
            let word = word_of(fd);
            forget_unless_ours(fd);
            plain(status).map(|(status, _)| (status, word))
        }
        _ if is(Operation::Accept) => remote::accept(fd, end.ok_or(Errno::INVAL)?, room).map(|name| (0, name)),
        _ if is(Operation::GetName) => remote::name(fd, room, false).map(|name| (0, name)),
        _ if is(Operation::GetPeer) => remote::name(fd, room, true).map(|name| (0, name)),
        _ if is(Operation::GetOption) => {
            let name = c_int::try_from(second).unwrap_or(-1);
            remote::option(fd, argument, name, room).map(|value| (0, value))
        }
        _ if is(Operation::SetOption) => {
            plain(remote::set_option(fd, argument, c_int::try_from(second).unwrap_or(-1), &payload))
        }
        _ if is(Operation::Shutdown) => plain(remote::shutdown(fd, argument)),
        _ if is(Operation::Close) => plain(remote::close(fd)),
        _ if is(Operation::Duplicate) => plain(remote::duplicate(fd, argument)),
        _ if is(Operation::Flags) => plain(remote::flags(fd, argument, second as u64)),
        _ if is(Operation::Control) => {
            let value = remote::control(fd, first as u64, c_int::try_from(second).unwrap_or(0))?;
            Ok((0, value.to_ne_bytes().to_vec()))
        }
        _ if is(Operation::Poll) => {
            let mut set = pairs(&payload);
            remote::look(&mut set)?;
            Ok((0, set.iter().flat_map(|one| one.revents.to_ne_bytes()).collect()))
        }
        _ if is(Operation::Watch) => {
            if watches.len() == WATCHES_MAX {
                return Err(Errno::NOBUFS);
            }
            watches.push(Watch { teller: end.ok_or(Errno::INVAL)?, set: pairs(&payload) });
            Ok((0, Vec::new()))
        }
        _ if is(Operation::Fork) => {
            let number = fork::record_for_child(&end.ok_or(Errno::INVAL)?)?;
            Ok((c_int::try_from(number).map_err(|_| Errno::NOMEM)?, Vec::new()))
        }
        _ if is(Operation::Arrived) => {
            place(fd, end.ok_or(Errno::INVAL)?, false)?;
            crate::lifecycle::transit::receive(fd);
            let word = word_of(fd);
            forget_unless_ours(fd);
            Ok((0, word))
        }
        _ if is(Operation::Leaves) => {
            let number = socket_of(fd).ok_or(Errno::BADF)?;
            crate::lifecycle::transit::send(fd, number).ok_or(Errno::NOBUFS)?;
            Ok((0, Vec::new()))
        }
        _ if is(Operation::Pump) => remote::pump(fd, end.ok_or(Errno::INVAL)?).map(|()| (0, Vec::new())),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Gives the kernel's part of a socket its number.
fn place(fd: c_int, kernels: OwnedFd, stands_in: bool) -> Outcome {
    let is_placeable = fd >= 0 && (fd as usize) < descriptor::DESCRIPTORS_MAX && descriptor::get(fd) != Entry::Own;
    if !is_placeable || is_busy(fd) {
        return Err(Errno::BADF);
    }
    if kernels.as_raw_fd() == fd {
        let _ = kernels.into_raw_fd();
    // SAFETY: the call takes no pointers.
    } else if unsafe { libc_next::dup3(kernels.as_raw_fd(), fd, libc::O_CLOEXEC) } < 0 {
        return Err(libc_next::errno());
    }
    if stands_in && let Entry::Socket(number) = descriptor::get(fd) {
        descriptor::set_stand_in(fd, number);
    }
    Ok((0, Vec::new()))
}

/// Whether `fd` is one of the descriptors this process needs for itself: its line, and those of waits.
fn is_busy(fd: c_int) -> bool {
    // Those are all out of the way, and noted.
    descriptor::get(fd) == Entry::Own
}

fn take_unless_ours(fd: c_int, end: &mut Option<OwnedFd>) -> Result<(), Errno> {
    if is_ours(fd) {
        return Ok(());
    }
    place(fd, end.take().ok_or(Errno::BADF)?, false).map(|_| ())
}

/// What stayed the kernel's alone is none of this process's.
fn forget_unless_ours(fd: c_int) {
    if !is_ours(fd) {
        // SAFETY: the value was put there just now.
        unsafe { libc_next::close(fd) };
    }
}

/// The process that has the right to makes the kernel's call.
fn ask_back(line: BorrowedFd<'_>) -> Result<c_int, Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::send(line, &YOUR_TURN.to_ne_bytes(), flags)?;
    sleep(&mut [readable(line.as_raw_fd())], None, std::ptr::null())?;
    let mut bytes = [0; 8];
    let count = rustix::net::recv(line, &mut bytes, RecvFlags::DONTWAIT)?.1;
    match i64::from_ne_bytes(bytes) {
        _ if count != bytes.len() => Err(Errno::IO),
        status @ 0.. => Ok(c_int::try_from(status).unwrap_or(0)),
        errno => Err(libc_next::error_of(errno.saturating_neg())),
    }
}
