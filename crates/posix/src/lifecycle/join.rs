//! How a program that a process of ours executes comes to have its sockets: it joins. The world is in memory files. With those at the same
//! addresses, and the same descriptors under the same numbers, the new program's library goes on where the old one's was.
//!
//! ```text
//!  exec ── a record with what is inherited, and one end of a line ──▶ keeper
//!    │ the other end stays open, its number is in the environment
//!    ▼
//!  new program, before its first function: "join" ──line──▶ keeper ──▶ the arena, its addresses, all descriptors
//! ```
//! Another program joins at the keeper's listening socket ([`ask`]), with no sockets yet: one that wants the same address, or that the same
//! `qanat run` has started. From then on the line is the new process's [lifeline](crate::lifecycle::fork). A program without the library
//! keeps it open too, and with it the sockets, as on Linux. Nothing in the world may point to code or constants of the library, which are
//! at other addresses in each program: no trait objects, no tables or strings that are constants.

use crate::lifecycle::join_error::JoinError;
use crate::lifecycle::registry::hand_line;
use crate::sys::arena;
use crate::sys::descriptor::{self, Entry, encode};
use crate::sys::explain::{explain, warn};
use crate::sys::libc_next;
use crate::sys::raised_limits::{copy_above, shortage, with_room};
use crate::sys::sleep::{readable, sleep};
use crate::sys::this_process::identity::identity;
use crate::sys::wakers::out_of_the_way;
use crate::world::lock::lock;
use crate::world::membership::become_process;
use crate::world::processes;
use qanat_launch::numbers::{BEYOND_OWN, OUT_OF_THE_WAY};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a request to join begins. The library's identity follows. A newcomer adds the name of its `qanat run` and one of the two words.
const JOIN: &str = "join";
/// On what ground the newcomer asks: it belongs to that `qanat run`, or it names the address.
const OF_RUN: &str = "run";
const BY_ADDRESS: &str = "address";
/// How the keeper's refusal begins. Its program's name follows.
const REFUSAL: &[u8] = b"no ";
/// What `qanat status` says.
const STATUS: &str = "status";
/// Instead of a process's number: a connection that may only ask for the status.
pub(crate) const OBSERVER: u32 = u32::MAX - 1;
/// Instead of a process's number: a newcomer that has not been admitted yet.
pub(crate) const NOBODY: u32 = u32::MAX;
/// Descriptors in one message; Linux takes 253.
const AT_ONCE: usize = 128;
/// Own descriptors that can be handed on.
const OWN_MAX: usize = 512;
/// The keeper's first message: the arena's and the shared part's addresses, the process's number, the arena's descriptor, how many
/// descriptors follow.
const HEAD: usize = 28;
/// How long the keeper may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a program that is about to be executed can join by.
pub(crate) struct Offer {
    line: RawFd,
    /// The page, to be looked at only; -1: the world is of this class for good.
    page: RawFd,
    number: u32,
    /// The library's descriptors that all processes have.
    own: Vec<RawFd>,
}

impl Offer {
    /// For the environment, of this process itself, which has the descriptors already.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let in_case =
            crate::lifecycle::detached::text_in_case(self.number, self.line, &self.own).filter(|_| self.page >= 0);
        let in_case = in_case.map(|text| (crate::lifecycle::environment::DETACHED, text));
        [(crate::lifecycle::environment::JOINS, self.value(true))].into_iter().chain(in_case).collect()
    }

    /// Has the program that is executed inherit the library's descriptors, or not.
    pub(crate) fn hand_on(&self, hands_on: bool) {
        let flag = if hands_on { 0 } else { libc::FD_CLOEXEC };
        for fd in &self.own {
            // SAFETY: the call takes no pointers.
            unsafe { libc_next::fcntl64(*fd, libc::F_SETFD, flag as libc::c_ulong) };
        }
    }

    /// For the environment; whether the new program is this same process.
    pub(crate) fn value(&self, is_same: bool) -> String {
        format!("{}:{}:{}:{}", self.line, identity(), self.page, u8::from(is_same && processes::is_first()))
    }

    /// There is no such program.
    pub(crate) fn withdraw(self) {
        // By this the keeper learns of it.
        // SAFETY: the descriptor is the library's own, and nothing else uses it.
        unsafe { libc_next::close(self.line) };
        if self.page >= 0 {
            // SAFETY: the descriptor is the library's own, and nothing else uses it.
            unsafe { libc_next::close(self.page) };
        }
    }
}

/// On what ground a program that joins believes what it is told of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    /// The program that executed it has given it this descriptor, by which the page can be known.
    Page(RawFd),
    /// The world is of its class for good, as the program that executed it says.
    Settled,
    /// The keeper, as long as that is as free as this process.
    Keeper,
}

/// Makes a record for a program that will have `inherited`; `None`: it can't join.
pub(crate) fn offer(inherited: &[(RawFd, Entry)]) -> Option<Offer> {
    arena::place()?;
    let flags = SocketFlags::CLOEXEC;
    let (theirs, keepers) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    let mut guard = lock().ok()?;
    let table = descriptor::new_table();
    for (fd, entry) in inherited {
        guard.refer(*entry);
        if let Some(cell) = table.get(*fd as usize) {
            cell.store(encode(*entry), Ordering::Relaxed);
        }
    }
    let number = guard.processes.insert(table);
    let registry = guard.processes.registry;
    // Not in the arena: it is read when the lock is given back.
    let mut own = [-1; OWN_MAX];
    own.iter_mut().zip(&guard.holdings.descriptors).for_each(|(place, fd)| *place = *fd);
    drop(guard);
    if hand_line(registry, number, &keepers).is_err() {
        lock().ok()?.process_ended(number);
        return None;
    }
    let line = out_of_the_way(theirs.into_raw_fd());
    // SAFETY: the call takes no pointers.
    unsafe { libc_next::fcntl64(line, libc::F_SETFD, 0) };
    let page = if crate::sys::page::file() < 0 { -1 } else { readable_page()? };
    let own = own.into_iter().filter(|fd| *fd >= 0).collect();
    Some(Offer { line, page, number, own })
}

/// The page's descriptor for another program, by which it can't be written: it may come into wrong hands.
fn readable_page() -> Option<RawFd> {
    let path = std::ffi::CString::new(format!("/proc/self/fd/{}", crate::sys::page::file())).ok()?;
    // SAFETY: the pointer is to a C string.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) };
    let high = copy_above(fd, OUT_OF_THE_WAY, libc::F_DUPFD);
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    unsafe { libc_next::close(fd) };
    (high >= 0).then_some(high)
}

/// The keeper's part: what comes on a process's line; whether that has ended.
pub(crate) fn has_ended(line: &OwnedFd, number: &mut u32) -> bool {
    let own = line;
    let line = own.as_fd();
    let mut bytes = [0; 256];
    match rustix::net::recv(line, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((_, 0)) => true,
        Ok((_, count)) => {
            let said = String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).into_owned();
            if matches!(*number, NOBODY | OBSERVER) && said == STATUS {
                crate::lifecycle::report::report(line);
                return true;
            }
            let run = if *number == NOBODY { admitted_run(&said) } else { None };
            let is_admitted = match *number {
                NOBODY => run.is_some(),
                OBSERVER => false,
                _ => true,
            };
            let refusal =
                if *number == NOBODY && is_admitted { crate::lifecycle::admission::refusal(own) } else { None };
            if !is_admitted || refusal.is_some() {
                let name = [REFUSAL, crate::sys::this_process::program::program().as_bytes()].concat();
                let reason = refusal.map_or_else(String::new, |reason| format!("\n{reason}"));
                let name = [name.as_slice(), reason.as_bytes()].concat();
                // If it doesn't hear it, it sees that the line is closed.
                let _ = rustix::net::send(line, &name, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                return true;
            }
            if *number == NOBODY {
                let Ok(mut guard) = lock() else { return true };
                let table = descriptor::new_table();
                *number = guard.processes.insert(table);
                guard.lets_in_run(run.unwrap_or_default());
            }
            answer(line, *number).is_none()
        }
        Err(error) => !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
    }
}

/// The `qanat run` of a newcomer that says this. `None`: it may not join.
fn admitted_run(said: &str) -> Option<&str> {
    let mut words = said.split(' ');
    let is_well = words.next() == Some(JOIN) && words.next() == Some(identity()) && !identity().is_empty();
    let (run, how) = (words.next()?, words.next()?);
    let may = match how {
        BY_ADDRESS => true,
        OF_RUN => lock().is_ok_and(|guard| guard.has_run(run)),
        _ => false,
    };
    (is_well && may && arena::place().is_some()).then_some(run)
}

fn answer(line: BorrowedFd<'_>, number: u32) -> Option<()> {
    let (file, base) = arena::place()?;
    // Not in the arena: it is read when the lock is given back.
    let mut descriptors = [-1; OWN_MAX];
    let guard = lock().ok()?;
    let own = &guard.holdings.descriptors;
    let count = own.len();
    descriptors.get_mut(..count)?.copy_from_slice(own);
    let shared = std::ptr::from_ref(guard.shared()).addr();
    drop(guard);
    let mut head = Vec::with_capacity(HEAD);
    head.extend_from_slice(&(base as u64).to_ne_bytes());
    head.extend_from_slice(&(shared as u64).to_ne_bytes());
    head.extend_from_slice(&number.to_ne_bytes());
    head.extend_from_slice(&file.to_ne_bytes());
    head.extend_from_slice(&(count as u32).to_ne_bytes());
    let page = crate::sys::page::file();
    let file_and_page = [file, page];
    give(line, &head, if page < 0 { &file_and_page[..1] } else { &file_and_page })?;
    for some in descriptors.get(..count)?.chunks(AT_ONCE) {
        let numbers: Vec<u8> = some.iter().flat_map(|fd| fd.to_ne_bytes()).collect();
        give(line, &numbers, some)?;
    }
    Some(())
}

fn give(line: BorrowedFd<'_>, bytes: &[u8], descriptors: &[RawFd]) -> Option<()> {
    // SAFETY: the library's own, open as long as the keeper lives.
    let descriptors: Vec<_> = descriptors.iter().map(|fd| unsafe { BorrowedFd::borrow_raw(*fd) }).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(line, &[IoSlice::new(bytes)], &mut ancillary, flags).ok().map(|_| ())
}

fn take(line: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), JoinError> {
    let waited = sleep(&mut [readable(line.as_raw_fd())], Some(PATIENCE), std::ptr::null());
    if waited != Ok(1) {
        return Err(JoinError::NoAnswer);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = match recvmsg(line, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags) {
        // It has ended, and has not heard what was said.
        Err(rustix::io::Errno::CONNRESET) => return Ok((0, Vec::new())),
        received => received?,
    };
    let rights = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let descriptors = rights.flatten().collect();
    Ok((received.bytes, descriptors))
}

/// What a process says by `line` that offers this program to join, as the environment has it.
/// `in_case`: what it has if the world falls before.
pub(crate) fn accept(text: &str, in_case: Option<&str>) {
    let mut words = text.split(':');
    let (Some(line), Some(theirs), Some(page)) = (words.next(), words.next(), words.next()) else { return };
    let (Ok(line), Ok(page)) = (line.parse::<RawFd>(), page.parse::<RawFd>()) else { return };
    if theirs != identity() {
        warn(format_args!("sockets are not carried over to this program: its libqanat.so is another one"));
        return;
    }
    processes::set_first(words.next() == Some("1"));
    let inherited = in_case.map(crate::lifecycle::detached::descriptors_in).unwrap_or_default();
    let to_look = copy_above(page, OUT_OF_THE_WAY, libc::F_DUPFD_CLOEXEC);
    let trust = if page < 0 { Trust::Settled } else { Trust::Page(page) };
    let joined = with_room(|| join(line, JOIN, trust, &inherited));
    let fallen_to = crate::sys::page::class_in(to_look);
    // SAFETY: the descriptor is the library's own, or none.
    unsafe { libc_next::close(to_look) };
    match joined {
        Ok(_) => explain(format_args!("has the sockets of who executed it")),
        Err(_)
            if fallen_to.is_some()
                && in_case.is_some_and(|text| crate::lifecycle::detached::begin(text, fallen_to).is_some()) =>
        {
            explain(format_args!(
                "has the sockets of who executed it, by messages: the world has fallen to another class"
            ));
        }
        Err(reason) => warn(format_args!("sockets are not carried over to this program: {reason}")),
    }
}

fn word<const COUNT: usize>(bytes: &[u8], at: usize) -> Option<[u8; COUNT]> {
    bytes.get(at..at + COUNT)?.try_into().ok()
}

/// What comes of asking to join.
#[derive(Debug)]
pub(crate) enum Answer {
    Joined,
    /// It is this program's, and it lets nobody in, or not this one, for a reason.
    Refused(String, Option<String>),
    /// There is no such program, or it has ended just now.
    Nobody,
}

/// Asks the keeper of the program that has `address` to let this one in, which is of `own` call of `qanat run`: if `run` is given, only if
/// that has others there.
///
/// # Errors
/// It let this one in, but that can't have what it needs.
pub(crate) fn ask(address: IpAddr, run: Option<&str>, own: &str) -> Result<Answer, JoinError> {
    let Some(line) = crate::lifecycle::rendezvous::connect_to_keeper(address)? else { return Ok(Answer::Nobody) };
    // No own descriptor of another program has so high a number.
    let line = copy_above(line.as_raw_fd(), BEYOND_OWN, libc::F_DUPFD_CLOEXEC);
    if line < 0 {
        return Err(shortage().map_or(JoinError::NoDescriptorLeft, JoinError::Shortage));
    }
    let how = if run.is_some() { OF_RUN } else { BY_ADDRESS };
    let said = format!("{JOIN} {} {own} {how}", identity());
    let answer = with_room(|| join(line, &said, Trust::Keeper, &[]));
    if !matches!(answer, Ok(Answer::Joined)) {
        // SAFETY: the descriptor is the library's own, and nothing else uses it.
        unsafe { libc_next::close(line) };
    }
    answer
}

/// `inherited`: own descriptors that this program has already.
fn join(line: RawFd, said: &str, trust: Trust, inherited: &[RawFd]) -> Result<Answer, JoinError> {
    crate::sys::this_process::class::look_around();
    // SAFETY: the descriptor is open, and it was opened for this.
    let borrowed = unsafe { BorrowedFd::borrow_raw(line) };
    if rustix::net::send(borrowed, said.as_bytes(), SendFlags::NOSIGNAL).is_err() {
        return Ok(Answer::Nobody);
    }
    let mut head = [0; 1_024];
    let (length, files) = take(borrowed, &mut head)?;
    if length == 0 {
        explain(format_args!("a keeper has gone"));
        return Ok(Answer::Nobody);
    }
    if let Some(name) = head.get(..length).and_then(|said| said.strip_prefix(REFUSAL)) {
        let said = String::from_utf8_lossy(name);
        let (name, reason) = said.split_once('\n').map_or((&*said, None), |(name, reason)| (name, Some(reason)));
        return Ok(Answer::Refused(name.to_owned(), reason.map(str::to_owned)));
    }
    let parse = || {
        let (base, shared) = (u64::from_ne_bytes(word(&head, 0)?), u64::from_ne_bytes(word(&head, 8)?));
        let number = u32::from_ne_bytes(word(&head, 16)?);
        let (file, count) = (i32::from_ne_bytes(word(&head, 20)?), u32::from_ne_bytes(word(&head, 24)?));
        Some((base as usize, shared as usize, number, file, count as usize))
    };
    let (base, shared, number, file, count) = parse().ok_or(JoinError::Malformed)?;
    let arena = files.first().ok_or(JoinError::NoMemory)?;
    let mut own: Vec<RawFd> = Vec::with_capacity(count);
    while own.len() < count {
        let mut numbers = [0; AT_ONCE * size_of::<RawFd>()];
        let (length, descriptors) = take(borrowed, &mut numbers)?;
        if length == 0 {
            return Err(JoinError::KeeperGone);
        }
        let numbers = numbers.get(..length).unwrap_or_default().chunks_exact(size_of::<RawFd>());
        for (number, descriptor) in numbers.zip(descriptors) {
            own.push(put(descriptor, word(number, 0).map_or(-1, RawFd::from_ne_bytes), inherited)?);
        }
    }
    believe(borrowed, trust, files.get(1))?;
    arena::adopt(arena.as_raw_fd(), file, base).map_err(|errno| JoinError::Memory(errno.into()))?;
    crate::sys::shared_place::adopt(shared);
    let mut extents = [None; crate::sys::this_process::departure::EXTENTS_MAX];
    let mapped = lock().map_err(JoinError::System).and_then(|guard| {
        extents.iter_mut().zip(&guard.holdings.places).for_each(|(extent, place)| *extent = Some(place.extent()));
        guard.holdings.places.iter().try_for_each(|place| place.map().map_err(JoinError::Memory))
    });
    if let Err(reason) = mapped {
        crate::sys::page::let_go(crate::sys::page::Instead::Belongs);
        crate::sys::shared_place::abandon();
        arena::abandon();
        return Err(reason);
    }
    crate::sys::this_process::departure::remember(shared, extents.into_iter().flatten().collect());
    let guard = lock()?;
    crate::world::processes::note_registry(guard.processes.registry);
    let record = guard.processes.records.get(number as usize).and_then(Option::as_ref).ok_or(JoinError::NoRecord)?;
    let nested = guard.sockets.epolls.iter().flatten().filter(|epoll| epoll.is_nested).count();
    crate::sockets::epoll::NESTED.store(nested as u32, Ordering::Relaxed);
    // SAFETY: the call takes no pointers.
    unsafe { libc_next::fcntl64(line, libc::F_SETFD, libc::FD_CLOEXEC as libc::c_ulong) };
    become_process(number, line, record);
    descriptor::read_table(&record.table);
    for fd in own.into_iter().chain([line, crate::sys::page::file()]) {
        descriptor::set(fd, Entry::Own);
    }
    Ok(Answer::Joined)
}

/// Has the page by which this process learns that the world falls, if it can; nothing of the world has been looked at so far.
fn believe(line: BorrowedFd<'_>, trust: Trust, page: Option<&OwnedFd>) -> Result<(), JoinError> {
    let numbers = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|file| (file.st_dev, file.st_ino)).ok();
    match trust {
        Trust::Settled => {
            crate::sys::this_process::standing::settle();
            return Ok(());
        }
        Trust::Page(known) => {
            // SAFETY: who executed this program has opened it for this.
            let known = unsafe { OwnedFd::from_raw_fd(known) };
            let is_it = page.is_some_and(|page| numbers(page.as_fd()) == numbers(known.as_fd()));
            if !is_it {
                return Err(JoinError::Fallen);
            }
        }
        Trust::Keeper => {
            let line =
                line.try_clone_to_owned().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?;
            // Now that it has said all: it was as free as this when it did, since it does not become freer.
            if let Some(reason) = crate::lifecycle::admission::mismatch(
                &crate::sys::this_process::class::Class::own(),
                crate::lifecycle::admission::peer_class(&line).as_ref(),
            ) {
                return Err(JoinError::Mismatch(reason));
            }
        }
    }
    let page = page.and_then(|page| page.try_clone().ok()).ok_or(JoinError::NoPage)?;
    let page = out_of_the_way(page.into_raw_fd());
    Ok(crate::sys::page::adopt(page)?)
}

/// Gives a descriptor its number.
fn put(descriptor: OwnedFd, number: RawFd, inherited: &[RawFd]) -> Result<RawFd, JoinError> {
    if inherited.contains(&number) {
        // SAFETY: the call takes no pointers.
        unsafe { libc_next::fcntl64(number, libc::F_SETFD, libc::FD_CLOEXEC as libc::c_ulong) };
        return Ok(number);
    }
    if descriptor.as_raw_fd() == number {
        return Ok(descriptor.into_raw_fd());
    }
    // SAFETY: the call takes no pointers.
    if number < 0 || unsafe { libc_next::fcntl64(number, libc::F_GETFD, 0) } >= 0 {
        return Err(JoinError::NumberTaken(number));
    }
    // SAFETY: both descriptors are the library's own.
    if unsafe { libc_next::dup3(descriptor.as_raw_fd(), number, libc::O_CLOEXEC) } < 0 {
        let error = libc_next::errno();
        return Err(shortage().map_or(JoinError::Descriptor(number, error), JoinError::Shortage));
    }
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) }.into_raw_fd())
}
