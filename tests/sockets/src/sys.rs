//! libc's calls as safe functions that return the value and the errno: the only unsafe code of this program. Nothing is
//! retried, checked or hidden here: what the C library says is what a case sees.

use crate::address::Address;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A descriptor; any number may be tried.
pub type Fd = i32;

/// What a call gave back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ret {
    /// The value; negative after a failure.
    pub value: i64,
    /// The errno of a failure, else 0.
    pub errno: i32,
}

impl Ret {
    fn of(value: impl Into<i64>) -> Ret {
        let value = value.into();
        // SAFETY: the address of this thread's errno is always valid.
        let errno = if value < 0 { unsafe { *libc::__errno_location() } } else { 0 };
        Ret { value, errno }
    }

    fn of_long(value: isize) -> Ret {
        Ret::of(i64::try_from(value).unwrap_or(-1))
    }

    /// Of calls that return an errno instead of setting it.
    fn of_code(code: i32) -> Ret {
        if code == 0 { Ret { value: 0, errno: 0 } } else { Ret { value: -1, errno: code } }
    }

    fn opened(value: i32) -> Ret {
        let ret = Ret::of(value);
        if ret.is_ok() {
            note_open(value);
        }
        ret
    }

    /// Whether it succeeded.
    pub fn is_ok(self) -> bool {
        self.value >= 0
    }

    /// The value as a descriptor.
    pub fn fd(self) -> Fd {
        i32::try_from(self.value).unwrap_or(-1)
    }

    /// The value as a count; 0 after a failure.
    pub fn count(self) -> usize {
        usize::try_from(self.value).unwrap_or(0)
    }

    /// For values that may differ from run to run: whether it succeeded, or the errno's name.
    pub fn done(self) -> &'static str {
        if self.is_ok() { "ok" } else { crate::names::errno(self.errno) }
    }
}

impl fmt::Display for Ret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_ok() { write!(out, "{}", self.value) } else { out.write_str(crate::names::errno(self.errno)) }
    }
}

/// Descriptors that cases opened, to be closed when a case ends. Not all of the process: a library that was loaded before
/// the program may have its own.
static OPEN: Mutex<BTreeSet<Fd>> = Mutex::new(BTreeSet::new());

fn note_open(fd: Fd) {
    // Standard input and the like are put back by the case that takes them.
    if fd <= 2 {
        return;
    }
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(fd);
}

fn note_closed(fd: Fd) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&fd);
}

/// Closes all that was opened here and not closed since.
pub fn close_all() {
    let all = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    for fd in all {
        // SAFETY: the number was given out by a call of this module and nobody else has it.
        unsafe { libc::close(fd) };
    }
}

fn length(bytes: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(bytes).unwrap_or(libc::socklen_t::MAX)
}

// ---- sockets

pub fn socket(domain: i32, kind: i32, protocol: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::socket(domain, kind, protocol) })
}

/// A pair of Unix sockets.
pub fn socketpair(kind: i32) -> (Ret, Fd, Fd) {
    let mut both = [-1; 2];
    // SAFETY: room for two descriptors.
    let ret = Ret::of(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, both.as_mut_ptr()) });
    both.iter().filter(|fd| **fd >= 0).for_each(|fd| note_open(*fd));
    (ret, both[0], both[1])
}

pub fn bind(fd: Fd, address: &Address) -> Ret {
    // SAFETY: the address lives through the call and its length is true.
    Ret::of(unsafe { libc::bind(fd, address.bytes().as_ptr().cast(), length(address.bytes().len())) })
}

pub fn listen(fd: Fd, backlog: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::listen(fd, backlog) })
}

pub fn connect(fd: Fd, address: &Address) -> Ret {
    // SAFETY: the address lives through the call and its length is true.
    Ret::of(unsafe { libc::connect(fd, address.bytes().as_ptr().cast(), length(address.bytes().len())) })
}

pub fn accept(fd: Fd) -> Ret {
    // SAFETY: null addresses are allowed.
    Ret::opened(unsafe { libc::accept(fd, null_mut(), null_mut()) })
}

pub fn accept4(fd: Fd, flags: i32) -> Ret {
    // SAFETY: null addresses are allowed.
    Ret::opened(unsafe { libc::accept4(fd, null_mut(), null_mut(), flags) })
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

fn name(call: NameCall, fd: Fd, room: usize) -> (Ret, Address, usize) {
    let mut bytes = [0_u8; 128];
    let mut size = length(room.min(bytes.len()));
    // SAFETY: there are at least `size` bytes of room.
    let ret = Ret::of(unsafe { call(fd, bytes.as_mut_ptr().cast(), &raw mut size) });
    let true_length = size as usize;
    (ret, Address::of_bytes(&bytes[..true_length.min(room).min(128)]), true_length)
}

/// With the address and its true length, which may be more than the room.
pub fn accept_from(fd: Fd, room: usize) -> (Ret, Address, usize) {
    let (ret, address, size) = name(libc::accept, fd, room);
    if ret.is_ok() {
        note_open(ret.fd());
    }
    (ret, address, size)
}

pub fn getsockname(fd: Fd) -> (Ret, Address) {
    let (ret, address, _) = name(libc::getsockname, fd, 128);
    (ret, address)
}

pub fn getsockname_in(fd: Fd, room: usize) -> (Ret, Address, usize) {
    name(libc::getsockname, fd, room)
}

pub fn getpeername(fd: Fd) -> (Ret, Address) {
    let (ret, address, _) = name(libc::getpeername, fd, 128);
    (ret, address)
}

pub fn shutdown(fd: Fd, how: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::shutdown(fd, how) })
}

pub fn close(fd: Fd) -> Ret {
    note_closed(fd);
    // SAFETY: cases close what they opened, or a number nobody has.
    Ret::of(unsafe { libc::close(fd) })
}

/// The value's bytes, as long as the kernel says they are.
pub fn getsockopt(fd: Fd, level: i32, option: i32, room: usize) -> (Ret, Vec<u8>) {
    let mut bytes = vec![0_u8; room.max(1)];
    let mut size = length(room);
    // SAFETY: there are `size` bytes of room.
    let ret = Ret::of(unsafe { libc::getsockopt(fd, level, option, bytes.as_mut_ptr().cast(), &raw mut size) });
    bytes.truncate(size as usize);
    (ret, bytes)
}

pub fn setsockopt(fd: Fd, level: i32, option: i32, value: &[u8]) -> Ret {
    // SAFETY: the value lives through the call and its length is true.
    Ret::of(unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), length(value.len())) })
}

// ---- data

pub fn read(fd: Fd, buffer: &mut [u8]) -> Ret {
    // SAFETY: the buffer is as long as said.
    Ret::of_long(unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
}

pub fn write(fd: Fd, bytes: &[u8]) -> Ret {
    // SAFETY: the bytes are as many as said.
    Ret::of_long(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
}

pub fn recv(fd: Fd, buffer: &mut [u8], flags: i32) -> Ret {
    // SAFETY: the buffer is as long as said.
    Ret::of_long(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags) })
}

/// A null buffer of length `size`: for calls that discard (`MSG_TRUNC` of TCP), and for EFAULT.
pub fn recv_nowhere(fd: Fd, size: usize, flags: i32) -> Ret {
    // SAFETY: the kernel checks the address; a null one is never written to.
    Ret::of_long(unsafe { libc::recv(fd, null_mut(), size, flags) })
}

pub fn send(fd: Fd, bytes: &[u8], flags: i32) -> Ret {
    // SAFETY: the bytes are as many as said.
    Ret::of_long(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// From an address that is not mapped.
pub fn send_nothing(fd: Fd, size: usize) -> Ret {
    // SAFETY: the kernel checks the address; a null one is never read.
    Ret::of_long(unsafe { libc::send(fd, null(), size, libc::MSG_NOSIGNAL) })
}

/// A call with an address that is not mapped where one is needed.
pub fn connect_nowhere(fd: Fd, size: usize) -> Ret {
    // SAFETY: the kernel checks the address; a null one is never read.
    Ret::of(unsafe { libc::connect(fd, null(), length(size)) })
}

pub fn sendto(fd: Fd, bytes: &[u8], flags: i32, to: &Address) -> Ret {
    let name = to.bytes();
    // SAFETY: bytes and address are as long as said.
    let sent = unsafe {
        libc::sendto(fd, bytes.as_ptr().cast(), bytes.len(), flags, name.as_ptr().cast(), length(name.len()))
    };
    Ret::of_long(sent)
}

pub fn recvfrom(fd: Fd, buffer: &mut [u8], flags: i32) -> (Ret, Address) {
    let mut bytes = [0_u8; 128];
    let mut size = length(bytes.len());
    // SAFETY: buffer and room for the address are as long as said.
    let count = unsafe {
        libc::recvfrom(fd, buffer.as_mut_ptr().cast(), buffer.len(), flags, bytes.as_mut_ptr().cast(), &raw mut size)
    };
    let ret = Ret::of_long(count);
    let size = if ret.is_ok() { size as usize } else { 0 };
    (ret, Address::of_bytes(&bytes[..size.min(128)]))
}

fn pieces(buffers: &mut [&mut [u8]]) -> Vec<libc::iovec> {
    let piece = |buffer: &mut &mut [u8]| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    buffers.iter_mut().map(piece).collect()
}

fn parts(buffers: &[&[u8]]) -> Vec<libc::iovec> {
    let part = |bytes: &&[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    buffers.iter().map(part).collect()
}

fn how_many(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub fn readv(fd: Fd, buffers: &mut [&mut [u8]]) -> Ret {
    let pieces = pieces(buffers);
    // SAFETY: each piece is a buffer we hold.
    Ret::of_long(unsafe { libc::readv(fd, pieces.as_ptr(), how_many(pieces.len())) })
}

pub fn writev(fd: Fd, buffers: &[&[u8]]) -> Ret {
    let parts = parts(buffers);
    // SAFETY: each part is a buffer we hold; it is only read.
    Ret::of_long(unsafe { libc::writev(fd, parts.as_ptr(), how_many(parts.len())) })
}

/// Ancillary data: level, type and bytes.
pub type Control = (i32, i32, Vec<u8>);

const CONTROL_HEADER: usize = 16;

fn control_bytes(messages: &[Control]) -> Vec<u64> {
    let mut bytes = Vec::new();
    for (level, kind, data) in messages {
        bytes.extend_from_slice(&(CONTROL_HEADER + data.len()).to_ne_bytes());
        bytes.extend_from_slice(&level.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let word = |eight: &[u8]| u64::from_ne_bytes(eight.try_into().unwrap_or_default());
    bytes.chunks_exact(8).map(word).collect()
}

fn control_messages(words: &[u64], size: usize) -> Vec<Control> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take(size).collect();
    let mut rest = bytes.as_slice();
    let mut found = Vec::new();
    while let Some((head, _)) = rest.split_at_checked(CONTROL_HEADER) {
        let number = |at: usize| i32::from_ne_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let total = usize::from_ne_bytes(head[..8].try_into().unwrap_or_default()).clamp(CONTROL_HEADER, rest.len());
        found.push((number(8), number(12), rest[CONTROL_HEADER..total].to_vec()));
        rest = &rest[total.next_multiple_of(8).min(rest.len())..];
    }
    found
}

fn header(name: Option<&Address>, pieces: &mut [libc::iovec], control: &mut [u64]) -> libc::msghdr {
    // SAFETY: all zeroes are a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    if let Some(name) = name {
        header.msg_name = name.bytes().as_ptr().cast_mut().cast();
        header.msg_namelen = length(name.bytes().len());
    }
    header.msg_iov = pieces.as_mut_ptr();
    header.msg_iovlen = pieces.len();
    if !control.is_empty() {
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = control.len() * 8;
    }
    header
}

pub fn sendmsg(fd: Fd, buffers: &[&[u8]], to: Option<&Address>, control: &[Control], flags: i32) -> Ret {
    let mut parts = parts(buffers);
    let mut control = control_bytes(control);
    let header = header(to, &mut parts, &mut control);
    // SAFETY: everything the header points to lives until the end of this function.
    Ret::of_long(unsafe { libc::sendmsg(fd, &raw const header, flags) })
}

/// What `recvmsg` told.
#[derive(Debug)]
pub struct Message {
    pub ret: Ret,
    pub flags: i32,
    pub from: Address,
    pub control: Vec<Control>,
}

/// `control_room` in bytes, a multiple of 8.
pub fn recvmsg(fd: Fd, buffers: &mut [&mut [u8]], control_room: usize, flags: i32) -> Message {
    let mut pieces = pieces(buffers);
    let mut control = vec![0_u64; control_room / 8];
    let name = Address::of_bytes(&[0; 128]);
    let mut room = name.bytes().to_vec();
    let mut header = header(None, &mut pieces, &mut control);
    header.msg_name = room.as_mut_ptr().cast();
    header.msg_namelen = length(room.len());
    // SAFETY: everything the header points to lives until the end of this function.
    let ret = Ret::of_long(unsafe { libc::recvmsg(fd, &raw mut header, flags) });
    if !ret.is_ok() {
        return Message { ret, flags: 0, from: Address::of_bytes(&[]), control: Vec::new() };
    }
    let control = control_messages(&control, header.msg_controllen);
    for (level, kind, data) in &control {
        if (*level, *kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            data.chunks_exact(4).for_each(|four| note_open(i32::from_ne_bytes(four.try_into().unwrap_or_default())));
        }
    }
    let size = (header.msg_namelen as usize).min(room.len());
    Message { ret, flags: header.msg_flags, from: Address::of_bytes(&room[..size]), control }
}

/// Several datagrams; how many went, and the length of each.
pub fn sendmmsg(fd: Fd, datagrams: &[&[u8]], to: Option<&Address>, flags: i32) -> (Ret, Vec<u32>) {
    let mut all: Vec<[libc::iovec; 1]> = datagrams
        .iter()
        .map(|bytes| [libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }])
        .collect();
    let mut headers: Vec<libc::mmsghdr> =
        all.iter_mut().map(|one| libc::mmsghdr { msg_hdr: header(to, one, &mut []), msg_len: 0 }).collect();
    let count = u32::try_from(headers.len()).unwrap_or(0);
    // SAFETY: everything the headers point to lives until the end of this function.
    let ret = Ret::of(unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count, flags) });
    (ret, headers.iter().take(ret.count()).map(|header| header.msg_len).collect())
}

/// Up to `count` datagrams of up to `room` bytes.
pub fn recvmmsg(fd: Fd, count: usize, room: usize, flags: i32, timeout_ms: Option<i64>) -> (Ret, Vec<Vec<u8>>) {
    let mut buffers = vec![vec![0_u8; room]; count];
    let mut all: Vec<[libc::iovec; 1]> = buffers
        .iter_mut()
        .map(|bytes| [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }])
        .collect();
    let mut headers: Vec<libc::mmsghdr> =
        all.iter_mut().map(|one| libc::mmsghdr { msg_hdr: header(None, one, &mut []), msg_len: 0 }).collect();
    let mut time = timespec(timeout_ms.unwrap_or(0));
    let time = if timeout_ms.is_some() { &raw mut time } else { null_mut() };
    let number = u32::try_from(count).unwrap_or(0);
    // SAFETY: everything the headers point to lives until the end of this function.
    let ret = Ret::of(unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), number, flags, time) });
    let lengths: Vec<usize> = headers.iter().take(ret.count()).map(|header| header.msg_len as usize).collect();
    let whole = buffers.into_iter().zip(lengths).map(|(mut bytes, length)| {
        bytes.truncate(length);
        bytes
    });
    (ret, whole.collect())
}

/// From a file at `offset` (`None`: from its position); with the offset afterwards.
pub fn sendfile(to: Fd, from: Fd, offset: Option<i64>, count: usize) -> (Ret, i64) {
    let mut at = offset.unwrap_or(0);
    let place = if offset.is_some() { &raw mut at } else { null_mut() };
    // SAFETY: the offset is ours, or null.
    let ret = Ret::of_long(unsafe { libc::sendfile(to, from, place, count) });
    (ret, at)
}

pub fn splice(from: Fd, to: Fd, count: usize, flags: u32) -> Ret {
    // SAFETY: null offsets are allowed.
    Ret::of_long(unsafe { libc::splice(from, null_mut(), to, null_mut(), count, flags) })
}

// ---- descriptors

/// `ioctl` with an int that is read and written; with its value afterwards.
pub fn ioctl(fd: Fd, request: u64, value: i32) -> (Ret, i32) {
    let mut value = value;
    // SAFETY: the requests cases use take an int's address.
    let ret = Ret::of(unsafe { libc::ioctl(fd, request, &raw mut value) });
    (ret, value)
}

pub fn fcntl(fd: Fd, command: i32, argument: i32) -> Ret {
    // SAFETY: the commands cases use take a number.
    let ret = Ret::of(unsafe { libc::fcntl(fd, command, argument) });
    if ret.is_ok() && [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&command) {
        note_open(ret.fd());
    }
    ret
}

pub fn dup(fd: Fd) -> Ret {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::dup(fd) })
}

pub fn dup2(fd: Fd, onto: Fd) -> Ret {
    // SAFETY: cases name their own descriptors.
    Ret::opened(unsafe { libc::dup2(fd, onto) })
}

pub fn dup3(fd: Fd, onto: Fd, flags: i32) -> Ret {
    // SAFETY: cases name their own descriptors.
    Ret::opened(unsafe { libc::dup3(fd, onto, flags) })
}

/// The reading end, then the writing one.
pub fn pipe(flags: i32) -> (Fd, Fd) {
    let mut both = [-1; 2];
    // SAFETY: room for two descriptors.
    unsafe { libc::pipe2(both.as_mut_ptr(), flags) };
    both.iter().for_each(|fd| note_open(*fd));
    (both[0], both[1])
}

pub fn eventfd(value: u32, flags: i32) -> Fd {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::eventfd(value, flags) }).fd()
}

/// A timer that expires once, `after_ms` from now.
pub fn timerfd(after_ms: i64) -> Fd {
    // SAFETY: takes numbers only.
    let fd = Ret::opened(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, 0) }).fd();
    let when = libc::itimerspec { it_interval: timespec(0), it_value: timespec(after_ms) };
    // SAFETY: the time lives through the call.
    unsafe { libc::timerfd_settime(fd, 0, &raw const when, null_mut()) };
    fd
}

/// A file in memory with these bytes, at its beginning.
pub fn file(bytes: &[u8]) -> Fd {
    // SAFETY: the name is a C string.
    let fd = Ret::opened(unsafe { libc::memfd_create(c"case".as_ptr(), 0) }).fd();
    write(fd, bytes);
    seek(fd, 0);
    fd
}

pub fn seek(fd: Fd, offset: i64) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::lseek(fd, offset, libc::SEEK_SET) })
}

/// The file's position.
pub fn position(fd: Fd) -> Ret {
    // SAFETY: takes numbers only.
    Ret::of(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) })
}

/// The type bits of `fstat`, as a name.
pub fn kind_of(fd: Fd) -> &'static str {
    // SAFETY: all zeroes are a valid stat.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: room for one stat.
    if unsafe { libc::fstat(fd, &raw mut status) } < 0 {
        return "no descriptor";
    }
    match status.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => "socket",
        libc::S_IFIFO => "pipe",
        libc::S_IFREG => "file",
        _ => "other",
    }
}

// ---- readiness

fn timespec(milliseconds: i64) -> libc::timespec {
    libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}

/// Descriptors with the events asked for; gives the events told.
pub fn poll(entries: &[(Fd, i16)], timeout_ms: i32) -> (Ret, Vec<i16>) {
    let mut all: Vec<libc::pollfd> =
        entries.iter().map(|(fd, events)| libc::pollfd { fd: *fd, events: *events, revents: 0 }).collect();
    // SAFETY: as many entries as said.
    let ret = Ret::of(unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, timeout_ms) });
    (ret, all.iter().map(|entry| entry.revents).collect())
}

/// The same with a signal mask.
pub fn ppoll(entries: &[(Fd, i16)], timeout_ms: Option<i64>, unblocked: Option<i32>) -> (Ret, Vec<i16>) {
    let mut all: Vec<libc::pollfd> =
        entries.iter().map(|(fd, events)| libc::pollfd { fd: *fd, events: *events, revents: 0 }).collect();
    let time = timespec(timeout_ms.unwrap_or(0));
    let time = if timeout_ms.is_some() { &raw const time } else { null() };
    let mask = mask_without(unblocked);
    let mask = if unblocked.is_some() { &raw const mask } else { null() };
    // SAFETY: as many entries as said; time and mask live through the call.
    let ret = Ret::of(unsafe { libc::ppoll(all.as_mut_ptr(), all.len() as libc::nfds_t, time, mask) });
    (ret, all.iter().map(|entry| entry.revents).collect())
}

/// Three sets of descriptors, each below `FD_SETSIZE`.
pub type Sets<'a> = [&'a [Fd]; 3];

fn set_of(fds: &[Fd]) -> libc::fd_set {
    // SAFETY: all zeroes are an empty set.
    let mut set: libc::fd_set = unsafe { std::mem::zeroed() };
    for fd in fds.iter().filter(|fd| (0..1024).contains(*fd)) {
        // SAFETY: the number is within the set.
        unsafe { libc::FD_SET(*fd, &raw mut set) };
    }
    set
}

fn members(fds: &[Fd], set: &libc::fd_set) -> Vec<Fd> {
    // SAFETY: the number is within the set.
    let is_member = |fd: &&Fd| (0..1024).contains(*fd) && unsafe { libc::FD_ISSET(**fd, set) };
    fds.iter().filter(is_member).copied().collect()
}

fn beyond(sets: &Sets<'_>) -> i32 {
    sets.iter().flat_map(|set| set.iter()).max().map_or(0, |fd| fd + 1)
}

pub fn select(sets: Sets<'_>, timeout_ms: Option<i64>) -> (Ret, [Vec<Fd>; 3]) {
    let mut all = sets.map(set_of);
    let milliseconds = timeout_ms.unwrap_or(0);
    let mut time = libc::timeval { tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000 };
    let time = if timeout_ms.is_some() { &raw mut time } else { null_mut() };
    let [reads, writes, excepts] = &mut all;
    // SAFETY: three sets and a time that live through the call.
    let ret = Ret::of(unsafe { libc::select(beyond(&sets), reads, writes, excepts, time) });
    (ret, std::array::from_fn(|which| members(sets[which], &all[which])))
}

pub fn pselect(sets: Sets<'_>, timeout_ms: Option<i64>, unblocked: Option<i32>) -> (Ret, [Vec<Fd>; 3]) {
    let mut all = sets.map(set_of);
    let time = timespec(timeout_ms.unwrap_or(0));
    let time = if timeout_ms.is_some() { &raw const time } else { null() };
    let mask = mask_without(unblocked);
    let mask = if unblocked.is_some() { &raw const mask } else { null() };
    let [reads, writes, excepts] = &mut all;
    // SAFETY: three sets, a time and a mask that live through the call.
    let ret = Ret::of(unsafe { libc::pselect(beyond(&sets), reads, writes, excepts, time, mask) });
    (ret, std::array::from_fn(|which| members(sets[which], &all[which])))
}

pub fn epoll_create(flags: i32) -> Ret {
    // SAFETY: takes numbers only.
    Ret::opened(unsafe { libc::epoll_create1(flags) })
}

pub fn epoll_ctl(epoll: Fd, operation: i32, fd: Fd, events: i32, data: u64) -> Ret {
    let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: data };
    // SAFETY: the event lives through the call.
    Ret::of(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })
}

/// Up to `room` events and their data.
pub fn epoll_wait(epoll: Fd, room: usize, timeout_ms: i32) -> (Ret, Vec<(u32, u64)>) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room.max(1)];
    // SAFETY: room for as many events as said.
    let ret = Ret::of(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), how_many(room), timeout_ms) });
    events.truncate(ret.count());
    (ret, events.iter().map(|event| (event.events, event.u64)).collect())
}

/// The same with all signals blocked but `unblocked`.
pub fn epoll_pwait(epoll: Fd, room: usize, timeout_ms: i32, unblocked: i32) -> (Ret, Vec<(u32, u64)>) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; room.max(1)];
    let mask = mask_without(Some(unblocked));
    // SAFETY: room for as many events as said; the mask lives through the call.
    let ret =
        Ret::of(unsafe { libc::epoll_pwait(epoll, events.as_mut_ptr(), how_many(room), timeout_ms, &raw const mask) });
    events.truncate(ret.count());
    (ret, events.iter().map(|event| (event.events, event.u64)).collect())
}

// ---- signals

static CAUGHT: [AtomicU32; 65] = [const { AtomicU32::new(0) }; 65];

extern "C" fn count(signal: i32) {
    if let Some(counter) = usize::try_from(signal).ok().and_then(|signal| CAUGHT.get(signal)) {
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// How often the handler ran for this signal since it was set.
pub fn caught(signal: i32) -> u32 {
    usize::try_from(signal).ok().and_then(|signal| CAUGHT.get(signal)).map_or(0, |count| count.load(Ordering::SeqCst))
}

/// What a signal shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    Default,
    Ignore,
    /// Run a handler that counts, with these flags (`SA_RESTART`).
    Count(i32),
}

pub fn on_signal(signal: i32, disposition: Disposition) -> Ret {
    if let Some(counter) = usize::try_from(signal).ok().and_then(|signal| CAUGHT.get(signal)) {
        counter.store(0, Ordering::SeqCst);
    }
    // SAFETY: all zeroes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    match disposition {
        Disposition::Default => action.sa_sigaction = libc::SIG_DFL,
        Disposition::Ignore => action.sa_sigaction = libc::SIG_IGN,
        Disposition::Count(flags) => {
            action.sa_sigaction = count as extern "C" fn(i32) as usize;
            action.sa_flags = flags;
        }
    }
    // SAFETY: the handler only touches an atomic.
    Ret::of(unsafe { libc::sigaction(signal, &raw const action, null_mut()) })
}

fn mask_without(unblocked: Option<i32>) -> libc::sigset_t {
    // SAFETY: all zeroes are a valid set.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours.
    unsafe { libc::sigfillset(&raw mut mask) };
    if let Some(signal) = unblocked {
        // SAFETY: the set is ours.
        unsafe { libc::sigdelset(&raw mut mask, signal) };
    }
    mask
}

/// Blocks or unblocks one signal for this thread.
pub fn block_signal(signal: i32, blocked: bool) {
    // SAFETY: all zeroes are an empty set.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is ours and lives through the calls.
    unsafe {
        libc::sigaddset(&raw mut mask, signal);
        libc::pthread_sigmask(how, &raw const mask, null_mut());
    }
}

/// The calling thread's number in /proc.
pub fn thread_id() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

/// The calling thread, for [`signal_thread`].
pub fn this_thread() -> u64 {
    // SAFETY: takes nothing.
    unsafe { libc::pthread_self() }
}

/// The thread must not have been joined.
pub fn signal_thread(thread: u64, signal: i32) {
    // SAFETY: cases signal threads they have not joined.
    unsafe { libc::pthread_kill(thread, signal) };
}

pub fn kill(process: i32, signal: i32) -> Ret {
    // SAFETY: cases signal their own children.
    Ret::of(unsafe { libc::kill(process, signal) })
}

// ---- processes

/// Runs `child` in a new process, which ends with its value. Gives the parent the process id.
pub fn fork(child: impl FnOnce() -> i32) -> Ret {
    // SAFETY: the child has the one thread; it runs a case's few calls and ends without unwinding past here.
    let process = unsafe { libc::fork() };
    if process == 0 {
        exit(child());
    }
    Ret::of(process)
}

/// Ends at once, as `_exit` does.
pub fn exit(code: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(code) }
}

/// Waits for a child; its exit code, or 1000 and the signal that ended it.
pub fn wait(process: i32) -> (Ret, i32) {
    let mut status = 0;
    // SAFETY: room for one status.
    let ret = Ret::of(unsafe { libc::waitpid(process, &raw mut status, 0) });
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1000 + libc::WTERMSIG(status) };
    (ret, code)
}

fn arguments(words: &[&str]) -> Vec<CString> {
    words.iter().filter_map(|word| CString::new(*word).ok()).collect()
}

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Starts a program by `posix_spawn` with `stdin` and `stdout` as its first two descriptors.
pub fn spawn(words: &[&str], stdin: Fd, stdout: Fd) -> Ret {
    let words = arguments(words);
    let mut list: Vec<*mut libc::c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    list.push(null_mut());
    let mut process = 0;
    // SAFETY: all zeroes are room for what init fills in.
    let mut actions: libc::posix_spawn_file_actions_t = unsafe { std::mem::zeroed() };
    // SAFETY: the list of words ends with null and lives through the calls; the environment is the process's own.
    let code = unsafe {
        libc::posix_spawn_file_actions_init(&raw mut actions);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, stdin, 0);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, stdout, 1);
        let code = libc::posix_spawnp(&raw mut process, list[0], &raw const actions, null(), list.as_ptr(), environ);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        code
    };
    if code == 0 { Ret::of(process) } else { Ret::of_code(code) }
}

/// Replaces this process by a program, with `stdin` and `stdout` as its first two descriptors. Returns if it can't.
pub fn exec(words: &[&str], stdin: Fd, stdout: Fd) -> Ret {
    let words = arguments(words);
    let mut list: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    list.push(null());
    // SAFETY: the list of words ends with null and lives through the calls.
    Ret::of(unsafe {
        libc::dup2(stdin, 0);
        libc::dup2(stdout, 1);
        libc::execvp(list[0], list.as_ptr())
    })
}

/// The same in a child made by `vfork`.
#[allow(deprecated, reason = "programs do this, so it has to be tried")]
#[inline(never)]
pub fn vfork_exec(words: &[&str], stdin: Fd, stdout: Fd) -> Ret {
    let words = arguments(words);
    let mut list: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    list.push(null());
    let (program, list) = (list[0], list.as_ptr());
    // SAFETY: between the two returns the child makes system calls only, with values computed before, and never returns.
    let process = unsafe {
        let process = libc::vfork();
        if process == 0 {
            libc::dup2(stdin, 0);
            libc::dup2(stdout, 1);
            libc::execvp(program, list);
            libc::_exit(127);
        }
        process
    };
    Ret::of(process)
}

/// A process group of its own, so that all of it can be ended.
pub fn own_group() {
    // SAFETY: takes numbers only.
    unsafe { libc::setpgid(0, 0) };
}

// ---- stdio

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
