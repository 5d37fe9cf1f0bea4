//! A *detached* process has [left](crate::sys::this_process::departure) its world. It asks a *deputy*, a process of the world's class,
//! by messages to do what it still does with its sockets there. A process that becomes of the world's class returns to it.

use crate::sys::arena;
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::{explain, warn};
use crate::sys::libc_next;
use crate::sys::page::{self, Instead};
use crate::sys::this_process::class::Class;
use crate::sys::this_process::departure::{is_detached, known};
use crate::sys::this_process::standing;
use crate::sys::wakers::out_of_the_way;
use crate::world::lock;
use crate::world::membership;
use crate::world::processes;
use qanat_nic::place::Extent;
use std::os::fd::RawFd;

/// This process has become what it is now: if that is the world's class, it returns.
pub(crate) fn return_if_like() {
    if !is_detached() {
        return;
    }
    let known = known();
    let Some((file, base)) = known.arena.filter(|_| known.class.as_ref() == Some(&Class::own())) else { return };
    // Both are written by this class alone, and by those of no more rights than it has now.
    let is_there = arena::return_to(file, base).is_ok() && known.places.iter().all(|place| place.map_again().is_ok());
    if !is_there {
        arena::leave();
        known.places.iter().for_each(|place| arena::cover(place.address, place.length));
        warn(format_args!(
            "a socket's memory can't be mapped again: this process goes on with its sockets by messages"
        ));
        return;
    }
    page::let_go(Instead::Belongs);
    crate::sys::shared_place::adopt(known.shared);
    drop(known);
    crate::lifecycle::detached::channel::hang_up();
    standing::settle();
    let is_back = lock::lock().is_ok_and(|guard| {
        let record = guard.processes.records.get(processes::number() as usize).and_then(Option::as_ref);
        record.map(membership::is_own).is_some()
    });
    if is_back {
        explain(format_args!("is of the world's class now, and shares it again"));
    }
}

/// Whether a program that is executed has `fd`.
fn is_inherited(fd: RawFd) -> bool {
    // SAFETY: the call takes no pointers.
    let flags = unsafe { libc_next::fcntl64(fd, libc::F_GETFD, 0) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Whether no socket of the world's stays open over `exec`.
pub(crate) fn has_nothing_to_hand_on() -> bool {
    !descriptor::all().any(|(fd, entry)| entry != Entry::Own && is_inherited(fd))
}

/// For a program that this one executes: what the new one needs to be away as this one is.
pub(crate) fn text() -> Option<String> {
    let class = known().class.as_ref().map(Class::text)?;
    let own: Vec<RawFd> = descriptor::all().filter(|(_, entry)| *entry == Entry::Own).map(|(fd, _)| fd).collect();
    text_for(processes::number(), processes::lifeline(), &class, &own)
}

/// For a program that this one executes as one of the world's: what it needs if that falls before it has begun.
pub(crate) fn text_in_case(number: u32, line: RawFd, own: &[RawFd]) -> Option<String> {
    text_for(number, line, "", own)
}

fn text_for(number: u32, lifeline: RawFd, class: &str, own: &[RawFd]) -> Option<String> {
    let known = known();
    let (file, base) = known.arena?;
    let places: Vec<String> = known.places.iter().map(Extent::text).collect();
    let sockets: Vec<String> = descriptor::all()
        .filter(|(fd, entry)| *entry != Entry::Own && is_inherited(*fd))
        .map(|(fd, _)| format!("{fd}={}", descriptor::word(fd)))
        .collect();
    let own: Vec<String> = own.iter().map(RawFd::to_string).collect();
    Some(format!(
        "{number};{lifeline};{file};{base};{};{};{class};{};{};{};{}",
        known.shared,
        processes::registry(),
        places.join(","),
        own.join(","),
        sockets.join(","),
        u8::from(processes::is_first())
    ))
}

/// The library's descriptors that a program has by such a text.
pub(crate) fn descriptors_in(text: &str) -> Vec<RawFd> {
    text.split(';').nth(8).unwrap_or_default().split(',').filter_map(|fd| fd.parse().ok()).collect()
}

/// Begins as a detached process, as `text` of its predecessor says; `fallen_to`: whose the world is, if that one didn't know.
pub(crate) fn begin(text: &str, fallen_to: Option<Class>) -> Option<()> {
    let mut parts = text.split(';');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (record, lifeline, file, base) = (number()?, number()?, number()?, number()?);
    let (shared, registry) = (number()?, number()?);
    let said = parts.next()?;
    let class = fallen_to.or_else(|| Class::read(said))?;
    let list = |text: &str| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let places: Option<Vec<Extent>> = list(parts.next()?).iter().map(|text| Extent::read(text)).collect();
    let (own, sockets) = (list(parts.next()?), list(parts.next()?));
    processes::set_first(parts.next() == Some("1"));
    standing::set_left();
    let lifeline = RawFd::try_from(lifeline).ok()?;
    processes::begin_detached(u32::try_from(record).ok()?, lifeline, RawFd::try_from(registry).ok()?);
    for fd in own.iter().filter_map(|text| text.parse::<RawFd>().ok()).chain([lifeline]) {
        descriptor::set(fd, Entry::Own);
        // SAFETY: the call takes no pointers.
        unsafe { libc_next::fcntl64(fd, libc::F_SETFD, libc::FD_CLOEXEC as libc::c_ulong) };
    }
    for text in &sockets {
        let (fd, word) = text.split_once('=')?;
        descriptor::put_remote(fd.parse().ok()?, word.parse().ok()?);
    }
    page::let_go(Instead::IsOut);
    // Where the arena was: nothing else is to come there.
    let mut known = known();
    arena::hold_place(usize::try_from(base).ok()?);
    known.shared = usize::try_from(shared).ok()?;
    known.arena = Some((RawFd::try_from(file).ok()?, usize::try_from(base).ok()?));
    (known.places, known.class) = (places?, Some(class));
    Some(())
}

pub(crate) mod channel;

/// A call that moves data, or anything else that has no way of its own, is about to be made on `fd`.
pub(crate) fn used(fd: RawFd) {
    let end = channel::pumped(fd);
    if end.is_some() {
        explain(format_args!(
            "fd {fd}: a connection of a world that this process has left, which a process pumps to the kernel's"
        ));
    } else {
        warn(format_args!(
            "fd {fd}: this process has given its virtual card over to one of fewer rights, so it can't send, receive or wait on this \
             socket by this call (docs/posix.md, «Privileges»)"
        ));
    }
    // SAFETY: the call takes no pointers. What is connected to nothing says so to every call.
    let end =
        end.unwrap_or_else(|| unsafe { libc_next::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) });
    channel::close(fd);
    descriptor::set(fd, Entry::Kernel);
    // SAFETY: the call takes no pointers.
    unsafe {
        let is_closed_by_exec = libc_next::fcntl64(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
        libc_next::dup3(end, fd, if is_closed_by_exec { libc::O_CLOEXEC } else { 0 });
        libc_next::close(end);
    }
}

/// Forks a detached process. The child is detached, too.
///
/// # Safety
/// As `fork`.
pub(crate) unsafe fn fork() -> libc::pid_t {
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok();
    let (read, write) = pipe.map_or((None, None), |(read, write)| (Some(read), Some(write)));
    let number = read.as_ref().and_then(channel::fork);
    drop(read);
    let lifeline = write.map_or(-1, |fd| out_of_the_way(std::os::fd::IntoRawFd::into_raw_fd(fd)));
    let held = channel::hold();
    // SAFETY: nobody relies on threads that the child does not have: the program's duty by fork(2).
    let process = unsafe { libc_next::fork() };
    if process == 0 {
        crate::sys::local::forked();
        crate::sys::this_process::finish::note_process();
        drop(held);
        channel::hang_up();
        processes::child_of_detached(number.unwrap_or(u32::MAX), lifeline);
        return process;
    }
    drop(held);
    // SAFETY: the descriptor is the library's own, and nothing else uses it.
    unsafe { libc_next::close(lifeline) };
    process
}

/// The socket `fd` is, if it is ours. One of a world that was left becomes as much of a socket of the kernel's as it can.
#[inline]
pub(crate) fn socket_of(fd: RawFd) -> Option<u32> {
    match descriptor::get(fd) {
        Entry::Socket(socket) => Some(socket),
        Entry::Remote => {
            used(fd);
            None
        }
        _ => None,
    }
}
