//! The detached process's connection to its *deputy*. It trusts nothing that comes back: a number must be one that the call can give, there
//! are no more bytes than there is room for, and descriptors are never taken.

use crate::lifecycle::registry;
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::warn;
use crate::sys::program_memory::Payload;
use crate::sys::sleep::{readable, sleep};
use crate::sys::unix_pair::{pair, without_rights};
use crate::sys::wakers::out_of_the_way;
use crate::world::processes;
use libc::c_int;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a deputy may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes beside a call at most, each way: the longest are lists of descriptors.
pub(crate) const PAYLOAD_MAX: usize = 32 * 1_024;

/// Linux' number, which the `libc` crate lacks.
pub(crate) const SIOCATMARK: u64 = 0x8905;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Operation {
    /// A descriptor comes with it, for the number.
    Place = 1,
    /// All that there are: others are closed.
    Only,
    Bind,
    Listen,
    Accept,
    GetName,
    GetPeer,
    GetOption,
    SetOption,
    Shutdown,
    Close,
    Duplicate,
    Flags,
    Control,
    Poll,
    Watch,
    Fork,
    Arrived,
    Leaves,
    Pump,
}

/// What a request and an answer begin with, as words: operation, descriptor, two arguments, room; and a status.
pub(crate) const REQUEST: usize = 5 * size_of::<i64>();
pub(crate) const ANSWER: usize = size_of::<i64>();
/// Instead of a status: the process that asked is to make the kernel's call itself, and to say what came of it.
pub(crate) const YOUR_TURN: i64 = i64::MIN;

/// A request.
pub(crate) struct Request<'a> {
    operation: Operation,
    fd: c_int,
    arguments: [i64; 2],
    payload: Payload<'a>,
    room: usize,
    end: Option<BorrowedFd<'a>>,
}

enum State {
    None,
    Open(OwnedFd),
    /// It has failed, and is not tried again.
    Broken,
}

static LINE: Mutex<State> = Mutex::new(State::None);

fn line() -> MutexGuard<'static, State> {
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nobody else is in the middle of a request as long as this is held: a fork must not find one.
pub(crate) fn hold() -> impl Drop {
    struct Held(#[allow(dead_code, reason = "held")] MutexGuard<'static, State>);
    impl Drop for Held {
        fn drop(&mut self) {}
    }
    Held(line())
}

/// This process needs no deputy, or has its parent's.
pub(crate) fn hang_up() {
    let mut line = line();
    if let State::Open(own) = std::mem::replace(&mut *line, State::None) {
        descriptor::set(own.as_raw_fd(), Entry::Kernel);
    }
}

impl Request<'_> {
    pub(crate) fn new(operation: Operation, fd: c_int) -> Request<'static> {
        Request { operation, fd, arguments: [0; 2], payload: Payload::Own(&[]), room: 0, end: None }
    }

    fn with(self, arguments: [i64; 2]) -> Self {
        Request { arguments, ..self }
    }

    fn room(self, room: usize) -> Self {
        Request { room: room.min(PAYLOAD_MAX), ..self }
    }

    fn send(&self, line: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut head = Vec::with_capacity(REQUEST);
        let [first, second] = self.arguments;
        for word in [self.operation as i64, self.fd.into(), first, second, self.room as i64] {
            head.extend_from_slice(&word.to_ne_bytes());
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        let ends = self.end.map(|end| [end]);
        if let Some(ends) = &ends {
            rights.push(SendAncillaryMessage::ScmRights(ends));
        }
        // SAFETY: only the kernel reads it, while `sendmsg` runs.
        let payload = unsafe { self.payload.part() };
        let parts = [IoSlice::new(&head), payload];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(line, &parts, &mut rights, flags).map(|_| ())
    }

    /// Asks, and makes the kernel's call when it is this process's turn.
    fn ask(&self, mut own_turn: impl FnMut() -> Result<c_int, Errno>) -> Result<(c_int, Vec<u8>), Errno> {
        let mut state = line();
        if matches!(*state, State::None) {
            *state = start().map_or(State::Broken, State::Open);
            if matches!(*state, State::Broken) {
                tell_broken();
            }
        }
        let State::Open(line) = &*state else { return Err(Errno::NETDOWN) };
        let answer = self.ask_on(line.as_fd(), &mut own_turn);
        answer.unwrap_or_else(|| {
            broken(&mut state);
            Err(Errno::NETDOWN)
        })
    }

    /// `None`: nobody answers, or not as a deputy does.
    fn ask_on(
        &self,
        line: BorrowedFd<'_>,
        own_turn: &mut dyn FnMut() -> Result<c_int, Errno>,
    ) -> Option<Result<(c_int, Vec<u8>), Errno>> {
        match self.send(line) {
            Ok(()) => {}
            // The program's pointer leads nowhere. Nothing was sent, so the line is as good as before.
            Err(Errno::FAULT) => return Some(Err(Errno::FAULT)),
            Err(_) => return None,
        }
        let (mut status, mut payload) = hear(line, self.room)?;
        if status == YOUR_TURN && self.operation == Operation::Bind {
            let outcome: i64 = own_turn().map_or_else(|errno| -i64::from(errno.raw_os_error()), i64::from);
            rustix::net::send(line, &outcome.to_ne_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT).ok()?;
            (status, payload) = hear(line, self.room)?;
        }
        match status {
            -4_095..0 => Some(Err(crate::sys::libc_next::error_of(-status))),
            _ => Some(Ok((c_int::try_from(status).ok()?, payload))),
        }
    }

    fn plainly(&self) -> Result<c_int, Errno> {
        self.ask(|| Err(Errno::INVAL)).map(|(status, _)| status)
    }
}

fn broken(state: &mut State) {
    if let State::Open(line) = std::mem::replace(state, State::Broken) {
        descriptor::set(line.as_raw_fd(), Entry::Kernel);
        tell_broken();
    }
}

fn tell_broken() {
    warn(format_args!(
        "the process that has this one's sockets for it does not answer: they are gone (ENETDOWN); start this program anew"
    ));
}

/// An answer: its status, and what comes with it.
fn hear(line: BorrowedFd<'_>, room: usize) -> Option<(i64, Vec<u8>)> {
    let start = std::time::Instant::now();
    loop {
        let rest = PATIENCE.checked_sub(start.elapsed())?;
        match sleep(&mut [readable(line.as_raw_fd())], Some(rest), std::ptr::null()) {
            Ok(1) => break,
            Err(Errno::INTR) => {}
            _ => return None,
        }
    }
    let mut bytes = vec![0; ANSWER + room];
    let (_, count) = rustix::net::recv(line, &mut *bytes, RecvFlags::DONTWAIT | RecvFlags::TRUNC).ok()?;
    // Longer than there is room for: it is not what was asked for.
    let (status, payload) = bytes.get(..count)?.split_at_checked(ANSWER)?;
    Some((i64::from_ne_bytes(status.try_into().ok()?), payload.to_vec()))
}

/// Has a deputy made, and gives it this process's descriptors.
fn start() -> Option<OwnedFd> {
    let line = registry::ask_keeper(crate::lifecycle::registry::DEPUTY, &processes::number().to_ne_bytes())?;
    let line = out_of_the_way(line.into_raw_fd());
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    let line = unsafe { OwnedFd::from_raw_fd(line) };
    descriptor::set(line.as_raw_fd(), Entry::Own);
    without_rights(line.as_fd());
    let ours: Vec<c_int> = descriptor::all().filter(|(_, entry)| *entry != Entry::Own).map(|(fd, _)| fd).collect();
    for fd in &ours {
        // SAFETY: the program's, which has it open: it is noted.
        let borrowed = unsafe { BorrowedFd::borrow_raw(*fd) };
        let stands_in = i64::from(descriptor::is_stand_in(*fd));
        let place = Request { end: Some(borrowed), ..Request::new(Operation::Place, *fd).with([stands_in, 0]) };
        // One that is not open in the kernel, or not taken, is closed by the next.
        let _ = place.ask_on(line.as_fd(), &mut || Err(Errno::INVAL))?;
    }
    let list: Vec<u8> = ours.iter().take(PAYLOAD_MAX / size_of::<c_int>()).flat_map(|fd| fd.to_ne_bytes()).collect();
    let only = Request { payload: Payload::Own(&list), ..Request::new(Operation::Only, 0) };
    only.ask_on(line.as_fd(), &mut || Err(Errno::INVAL))?.ok()?;
    Some(line)
}

/// `fd`, a socket of the kernel's, is bound to `address`; `real_bind` is the kernel's part.
///
/// # Errors
/// As `bind`.
pub(crate) fn bind(
    fd: c_int,
    address: Payload<'_>,
    real_bind: impl FnMut() -> Result<c_int, Errno>,
) -> Result<c_int, Errno> {
    // SAFETY: the program has the descriptor open as long as this call runs.
    let end = unsafe { BorrowedFd::borrow_raw(fd) };
    let request =
        Request { payload: address, end: Some(end), ..Request::new(Operation::Bind, fd).room(size_of::<u32>()) };
    let (status, word) = request.ask(real_bind)?;
    become_ours(fd, &word);
    Ok(status)
}

/// # Errors
/// As `listen`.
pub(crate) fn listen(fd: c_int, backlog: c_int) -> Result<c_int, Errno> {
    // SAFETY: the program has the descriptor open as long as this call runs.
    let end = unsafe { BorrowedFd::borrow_raw(fd) };
    let request = Request::new(Operation::Listen, fd).with([backlog.into(), 0]).room(size_of::<u32>());
    let (status, word) = Request { end: Some(end), ..request }.ask(|| Err(Errno::INVAL))?;
    become_ours(fd, &word);
    Ok(status)
}

/// The deputy says which socket of the world's `fd` is, if it is one; here only that it is one counts.
fn become_ours(fd: c_int, word: &[u8]) {
    if let Ok(word) = word.try_into() {
        descriptor::put_remote(fd, u32::from_ne_bytes(word));
    }
}

/// A connection that waits at listener `fd`: the end of it, and the peer's address as the call writes it.
///
/// # Errors
/// `EAGAIN`: there is none; else as `accept`.
pub(crate) fn accept(fd: c_int, room: usize) -> Result<(OwnedFd, Vec<u8>), Errno> {
    let (own, theirs) = pair(SocketType::STREAM).ok_or(Errno::MFILE)?;
    let request = Request { end: Some(theirs.as_fd()), ..Request::new(Operation::Accept, fd).room(room) };
    let (_, address) = request.ask(|| Err(Errno::INVAL))?;
    Ok((own, address))
}

/// `getsockname` or `getpeername`.
///
/// # Errors
/// As these.
pub(crate) fn name(operation: Operation, fd: c_int, room: usize) -> Result<Vec<u8>, Errno> {
    Request::new(operation, fd).room(room).ask(|| Err(Errno::INVAL)).map(|(_, name)| name)
}

/// # Errors
/// As `getsockopt`.
pub(crate) fn option(fd: c_int, level: c_int, name: c_int, room: usize) -> Result<Vec<u8>, Errno> {
    let request = Request::new(Operation::GetOption, fd).with([level.into(), name.into()]).room(room);
    request.ask(|| Err(Errno::INVAL)).map(|(_, value)| value)
}

/// # Errors
/// As `setsockopt`.
pub(crate) fn set_option(fd: c_int, level: c_int, name: c_int, value: Payload<'_>) -> Result<c_int, Errno> {
    if value.length() > PAYLOAD_MAX {
        return Err(Errno::INVAL);
    }
    Request { payload: value, ..Request::new(Operation::SetOption, fd).with([level.into(), name.into()]) }.plainly()
}

/// # Errors
/// As `shutdown`.
pub(crate) fn shutdown(fd: c_int, how: c_int) -> Result<c_int, Errno> {
    Request::new(Operation::Shutdown, fd).with([how.into(), 0]).plainly()
}

/// `fd` is closed, or about to be.
pub(crate) fn close(fd: c_int) {
    // Without a deputy there is nothing to tell: a later one is told what is open then.
    let has_none = matches!(*line(), State::None);
    descriptor::set(fd, Entry::Kernel);
    if has_none && processes::number() == u32::MAX {
        return;
    }
    let _ = Request::new(Operation::Close, fd).plainly();
}

/// `new` is a copy of `old`.
pub(crate) fn duplicate(old: c_int, new: c_int) {
    descriptor::set_like(new, old);
    // One that could not be noted there is closed with the process.
    let _ = Request::new(Operation::Duplicate, old).with([new.into(), 0]).plainly();
}

/// `F_GETFL` and `F_SETFL`.
///
/// # Errors
/// As `fcntl`.
pub(crate) fn flags(fd: c_int, command: c_int, argument: u64) -> Result<c_int, Errno> {
    Request::new(Operation::Flags, fd).with([command.into(), argument as i64]).plainly()
}

/// Whether the argument of an `ioctl` is a pointer to a number, so that a deputy can make the call.
pub(crate) fn is_about_number(request: u64) -> bool {
    matches!(request, libc::FIONBIO | libc::FIONREAD | libc::TIOCOUTQ | SIOCATMARK)
}

/// An `ioctl` that is given a number, and gives one back.
///
/// # Errors
/// As `ioctl`.
pub(crate) fn control(fd: c_int, request: u64, value: c_int) -> Result<c_int, Errno> {
    let asked = Request::new(Operation::Control, fd).with([request as i64, value.into()]);
    let (_, answer) = asked.room(size_of::<c_int>()).ask(|| Err(Errno::INVAL))?;
    Ok(answer.try_into().map_or(0, c_int::from_ne_bytes))
}

/// What `poll` would say of `set` now.
///
/// # Errors
/// There is no deputy.
pub(crate) fn poll(set: &[(c_int, i16)]) -> Result<Vec<i16>, Errno> {
    let list = listed(set);
    let request =
        Request { payload: Payload::Own(&list), ..Request::new(Operation::Poll, 0).room(set.len() * size_of::<i16>()) };
    let (_, ready) = request.ask(|| Err(Errno::INVAL))?;
    let ready: Vec<i16> = ready.chunks_exact(2).map(|word| i16::from_ne_bytes([word[0], word[1]])).collect();
    if ready.len() == set.len() { Ok(ready) } else { Err(Errno::NETDOWN) }
}

/// A descriptor that becomes readable when one of `set` is ready.
///
/// # Errors
/// There is no deputy.
pub(crate) fn watch(set: &[(c_int, i16)]) -> Result<OwnedFd, Errno> {
    let (own, theirs) = pair(SocketType::SEQPACKET).ok_or(Errno::MFILE)?;
    let list = listed(set);
    let request =
        Request { payload: Payload::Own(&list), end: Some(theirs.as_fd()), ..Request::new(Operation::Watch, 0) };
    request.plainly()?;
    Ok(own)
}

fn listed(set: &[(c_int, i16)]) -> Vec<u8> {
    let most = PAYLOAD_MAX / 8;
    set.iter()
        .take(most)
        .flat_map(|(fd, events)| [fd.to_ne_bytes(), i32::from(*events).to_ne_bytes()].concat())
        .collect()
}

/// Makes a record for a child, of whose end the keeper learns by `pipe`: its number.
pub(crate) fn fork(pipe: &OwnedFd) -> Option<u32> {
    let request = Request { end: Some(pipe.as_fd()), ..Request::new(Operation::Fork, 0) };
    request.plainly().ok().and_then(|number| u32::try_from(number).ok())
}

/// `fd`, which was received, may be a socket of the world's; whether it is.
pub(crate) fn arrived(fd: c_int) -> bool {
    // SAFETY: the descriptor was received just now, and nobody else owns it.
    let end = unsafe { BorrowedFd::borrow_raw(fd) };
    let request = Request { end: Some(end), ..Request::new(Operation::Arrived, fd).room(size_of::<u32>()) };
    let Ok((_, word)) = request.ask(|| Err(Errno::INVAL)) else { return false };
    become_ours(fd, &word);
    descriptor::get(fd) == Entry::Remote
}

/// `fd` is about to be sent to a process of the world's.
pub(crate) fn leaves(fd: c_int) {
    // If this fails, the receiver finds the kernel's socket alone.
    let _ = Request::new(Operation::Leaves, fd).plainly();
}

/// The end of a pair of Unix sockets that is as good as connection `fd`; `None`: it is none.
pub(crate) fn pumped(fd: c_int) -> Option<RawFd> {
    let is_nonblocking = flags(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0);
    let (own, theirs) = pair(SocketType::STREAM)?;
    Request { end: Some(theirs.as_fd()), ..Request::new(Operation::Pump, fd) }.plainly().ok()?;
    if is_nonblocking {
        rustix::io::ioctl_fionbio(&own, true).ok()?;
    }
    Some(own.into_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux says `EFAULT`, and the next call works.
    #[test]
    fn a_pointer_to_nowhere_is_refused_and_the_line_stays() {
        let (own, theirs) = pair(SocketType::SEQPACKET).expect("a pair");
        for start in [std::ptr::null(), std::ptr::without_provenance(8)] {
            let payload = Payload::Program { start, length: 4 };
            let request = Request { payload, ..Request::new(Operation::SetOption, 3) };
            let outcome = request.ask_on(own.as_fd(), &mut || Err(Errno::INVAL)).expect("the line is good");
            assert_eq!(outcome, Err(Errno::FAULT));
        }
        let nothing = rustix::net::recv(&theirs, &mut [0u8; 64], RecvFlags::DONTWAIT);
        assert_eq!(nothing.map(|(_, count)| count), Err(Errno::AGAIN), "nothing was sent");
        let payload = Payload::Own(b"four");
        Request { payload, ..Request::new(Operation::SetOption, 3) }.send(own.as_fd()).expect("a good pointer");
        let mut bytes = [0; 64];
        let (_, count) = rustix::net::recv(&theirs, &mut bytes, RecvFlags::DONTWAIT).expect("a request");
        assert_eq!(&bytes[REQUEST..count], b"four");
    }
}
