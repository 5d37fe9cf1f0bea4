//! The lodge and its porters: processes that allocate nothing and take no lock, because they are forked from one that may
//! have many threads.
//!
//! The lodge is forked once, early, and lets go of everything: descriptors, shared memory, rights. Porters are forked from it,
//! so they have nothing either, and their parent is not the process they work for: that one need not wait for them.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;

/// Descriptors of one message at most: `SCM_MAX_FD`.
pub(super) const RIGHTS_MAX: usize = 253;
/// The line is this descriptor, in both.
const LINE: RawFd = 0;
/// Requests whose memory files a porter keeps at once.
const HELD_MAX: usize = 64;
/// Memory files of one request at most.
pub(super) const FILES_MAX: usize = 2;

pub(super) const BURY: u8 = 0;
pub(super) const WANT_NOTHING: u8 = 1;
pub(super) const WANT_MEMORY: u8 = 2;
pub(super) const WANT_SOCKET: u8 = 3;
pub(super) const DONE: u8 = 4;

pub(super) const HELLO: u8 = 0;
pub(super) const ACCEPTED: u8 = 1;
pub(super) const REFUSED: u8 = 2;
pub(super) const BUSY: u8 = 3;

/// What a porter is told.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) what: u8,
    pub(super) pad: [u8; 7],
}

/// What it says.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Said {
    /// The order's number; of [`HELLO`] its process.
    pub(super) number: u64,
    pub(super) inode: u64,
    pub(super) cookie: u64,
    pub(super) what: u8,
    /// Memory files beside it.
    pub(super) count: u8,
    pub(super) pad: [u8; 6],
}

/// Room for a message's descriptors, aligned as `cmsghdr` is.
#[repr(C, align(8))]
pub(super) struct Space([u8; 1_040]);

impl Space {
    pub(super) const fn new() -> Space {
        Space([0; 1_040])
    }
}

// SAFETY: computes a length.
const _: () = assert!(unsafe { libc::CMSG_SPACE((RIGHTS_MAX * size_of::<RawFd>()) as u32) } as usize <= 1_040);

/// Receives one message into `bytes`; returns its length and how many of `rights` came beside it. Does not wait if `flags` say so.
pub(super) fn take(
    from: RawFd,
    bytes: &mut [u8],
    rights: &mut [RawFd; RIGHTS_MAX],
    flags: i32,
) -> Result<(usize, usize), i32> {
    let mut space = Space::new();
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: of the header's type all zeros are a value; what it points to outlives the call.
    let (length, header) = unsafe {
        let mut header: libc::msghdr = MaybeUninit::zeroed().assume_init();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut space.0).cast();
        header.msg_controllen = space.0.len() as _;
        (libc::recvmsg(from, &raw mut header, flags | libc::MSG_CMSG_CLOEXEC), header)
    };
    let Ok(length) = usize::try_from(length) else { return Err(errno()) };
    let mut count = 0;
    // SAFETY: the header and its space are as the kernel has left them; it writes whole entries only.
    unsafe {
        let mut entry = libc::CMSG_FIRSTHDR(&raw const header);
        while !entry.is_null() {
            if (*entry).cmsg_level == libc::SOL_SOCKET && (*entry).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(entry).cast::<RawFd>();
                let there =
                    ((*entry).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                for index in 0..there {
                    if let Some(place) = rights.get_mut(count) {
                        *place = ptr::read_unaligned(data.add(index));
                        count += 1;
                    }
                }
            }
            entry = libc::CMSG_NXTHDR(&raw const header, entry);
        }
    }
    Ok((length, count))
}

/// Sends one message with descriptors beside it.
pub(super) fn give(to: RawFd, bytes: &[u8], rights: &[RawFd], flags: i32) -> Result<(), i32> {
    let mut space = Space::new();
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let length = size_of_val(rights) as u32;
    // SAFETY: of the header's type all zeros are a value; what it points to outlives the call, and the space has room for
    // [`RIGHTS_MAX`] descriptors, of which nobody sends more.
    let sent = unsafe {
        let mut header: libc::msghdr = MaybeUninit::zeroed().assume_init();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        if !rights.is_empty() && rights.len() <= RIGHTS_MAX {
            header.msg_control = (&raw mut space.0).cast();
            header.msg_controllen = libc::CMSG_SPACE(length) as _;
            let entry = libc::CMSG_FIRSTHDR(&raw const header);
            (*entry).cmsg_level = libc::SOL_SOCKET;
            (*entry).cmsg_type = libc::SCM_RIGHTS;
            (*entry).cmsg_len = libc::CMSG_LEN(length) as _;
            ptr::copy_nonoverlapping(rights.as_ptr(), libc::CMSG_DATA(entry).cast(), rights.len());
        }
        libc::sendmsg(to, &raw const header, flags | libc::MSG_NOSIGNAL)
    };
    if sent >= 0 { Ok(()) } else { Err(errno()) }
}

pub(super) fn errno() -> i32 {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// The bytes of something that has no padding.
///
/// # Safety
/// `T` has none, and any bytes are a value of it.
unsafe fn bytes_of<T: Copy>(value: &mut T) -> &mut [u8] {
    // SAFETY: a live value of this size, borrowed mutably. It has no padding and takes any bytes: the function's contract, which its
    // two callers keep with structures of integers.
    unsafe { std::slice::from_raw_parts_mut((&raw mut *value).cast(), size_of::<T>()) }
}

impl Order {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: 8, 1 and 7 bytes of integers.
        unsafe { bytes_of(self) }
    }
}

impl Said {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: three times 8, twice 1 and 6 bytes of integers.
        unsafe { bytes_of(self) }
    }
}

/// Forks the lodge, whose line is `line`; returns in the caller only.
///
/// # Errors
/// What `fork` says.
pub(super) fn start(line: RawFd) -> Result<(), i32> {
    // SAFETY: signals wait until the child has no handlers of ours any more. The children do nothing but what a forked process
    // of one with many threads may do: system calls, on memory of their own stack.
    unsafe {
        let (mut all, mut before) = (MaybeUninit::<libc::sigset_t>::uninit(), MaybeUninit::<libc::sigset_t>::uninit());
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        // Twice, so that it is nobody's child.
        let child = libc::fork();
        if child == 0 {
            match libc::fork() {
                0 => lodge(line),
                -1 => libc::_exit(1),
                _ => libc::_exit(0),
            }
        }
        let failed = errno();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if child < 0 {
            return Err(failed);
        }
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, 0) < 0 && errno() == libc::EINTR {}
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 { Ok(()) } else { Err(libc::EAGAIN) }
    }
}

/// Keeps `line`, as [`LINE`], and no other descriptor.
fn keep_only(line: RawFd) {
    // SAFETY: takes no pointers. Nothing here uses another descriptor from now on.
    unsafe {
        libc::dup2(line, LINE);
        libc::syscall(libc::SYS_close_range, LINE as u32 + 1, u32::MAX, 0);
    }
}

fn lodge(line: RawFd) -> ! {
    keep_only(line);
    // SAFETY: takes no pointers but to constants and to its own stack.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"qanat-lodge".as_ptr());
        for signal in 1..=libc::SIGRTMAX() {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Porters that end are nobody's to wait for.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
    drop_shared_memory();
    drop_rights();
    loop {
        let (mut byte, mut rights) = ([0; 1], [-1; RIGHTS_MAX]);
        match take(LINE, &mut byte, &mut rights, 0) {
            Err(libc::EINTR) => continue,
            Err(_) | Ok((0, _)) => exit(),
            Ok(_) => {}
        }
        let line = rights[0];
        // SAFETY: a process with one thread.
        match unsafe { libc::fork() } {
            0 => porter(line),
            // A process that waits for the porter sees the end of its line.
            _ => close(line),
        }
    }
}

fn exit() -> ! {
    // SAFETY: ends the process without handlers of the program's.
    unsafe { libc::_exit(0) }
}

fn close(fd: RawFd) {
    // SAFETY: takes no pointers; nothing here uses it afterwards.
    unsafe { libc::close(fd) };
}

/// Lets go of memory shared with others: rings and queues end when nobody has them mapped any more.
fn drop_shared_memory() {
    // SAFETY: a constant string.
    let maps = unsafe { libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let (mut line, mut length, mut piece) = ([0u8; 64], 0, [0u8; 1_024]);
    loop {
        // SAFETY: so many writable bytes.
        let count = unsafe { libc::read(maps, piece.as_mut_ptr().cast(), piece.len()) };
        let Some(read) = usize::try_from(count).ok().filter(|count| *count > 0) else { break };
        for byte in piece.iter().take(read) {
            if *byte != b'\n' {
                // Only a line's beginning counts.
                if let Some(place) = line.get_mut(length) {
                    *place = *byte;
                    length += 1;
                }
                continue;
            }
            if let Some((start, end)) = line.get(..length).and_then(shared_range) {
                // SAFETY: no code, no stack and nothing of this process's own is shared memory.
                unsafe { libc::munmap(start as *mut libc::c_void, end - start) };
            }
            length = 0;
        }
    }
    close(maps);
}

/// Where a mapping is, by a line like `7f1200-7f1300 rw-s …`; `None`: it is not shared.
fn shared_range(line: &[u8]) -> Option<(usize, usize)> {
    let (mut numbers, mut which, mut at) = ([0usize; 2], 0, 0);
    for byte in line {
        at += 1;
        match byte {
            b'-' => which = 1,
            b' ' => break,
            _ => {
                let number = numbers.get_mut(which)?;
                *number = number.checked_mul(16)?.checked_add(char::from(*byte).to_digit(16)? as usize)?;
            }
        }
    }
    let [start, end] = numbers;
    (line.get(at + 3) == Some(&b's') && start < end).then_some((start, end))
}

/// Has no capabilities and can't get any; others of the same user can't look into it.
fn drop_rights() {
    let header = [0x2008_0522u32, 0];
    let none = [0u32; 6];
    // SAFETY: the version-3 header and its two sets of three words.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr());
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

/// Memory files that are kept until the request they came with is done: so it is here that they are closed last.
struct Held {
    places: [Option<(u64, [RawFd; FILES_MAX])>; HELD_MAX],
}

impl Held {
    fn keep(&mut self, number: u64, files: &[RawFd]) -> bool {
        let Some(free) = self.places.iter_mut().find(|place| place.is_none()) else { return false };
        let mut kept = [-1; FILES_MAX];
        kept.iter_mut().zip(files).for_each(|(place, file)| *place = *file);
        *free = Some((number, kept));
        true
    }

    fn release(&mut self, number: u64) {
        for place in &mut self.places {
            if let Some((_, files)) = place.take_if(|(held, _)| *held == number) {
                files.into_iter().filter(|file| *file >= 0).for_each(close);
            }
        }
    }
}

fn porter(line: RawFd) -> ! {
    keep_only(line);
    // SAFETY: a constant; takes no pointers.
    let process = unsafe {
        libc::prctl(libc::PR_SET_NAME, c"qanat-porter".as_ptr());
        libc::getpid()
    };
    let mut hello = Said { number: process as u64, what: HELLO, ..Said::default() };
    let (mut held, mut buried) = (Held { places: [None; HELD_MAX] }, -1);
    if give(LINE, hello.bytes(), &[], 0).is_err() {
        exit();
    }
    loop {
        let (mut order, mut rights) = (Order { number: 0, what: 0, pad: [0; 7] }, [-1; RIGHTS_MAX]);
        match take(LINE, order.bytes(), &mut rights, 0) {
            Err(libc::EINTR) => continue,
            Err(_) | Ok((0, _)) => exit(),
            Ok(_) => {}
        }
        // The giver has closed its own by now.
        if buried >= 0 {
            close(std::mem::replace(&mut buried, -1));
        }
        let socket = rights[0];
        match order.what {
            BURY => buried = socket,
            WANT_NOTHING | WANT_MEMORY | WANT_SOCKET => receive(order, socket, &mut held),
            DONE => held.release(order.number),
            _ => {}
        }
    }
}

/// Receives one message of `socket` and says what came beside it; then closes what is not kept, however long it takes.
fn receive(order: Order, socket: RawFd, held: &mut Held) {
    let (mut byte, mut rights) = ([0; 1], [-1; RIGHTS_MAX]);
    let count = take(socket, &mut byte, &mut rights, libc::MSG_DONTWAIT).map_or(0, |(_, count)| count);
    let there = rights.get(..count).unwrap_or(&[]);
    let mut said = judge(order, there);
    let is_memory = said.what == ACCEPTED && order.what == WANT_MEMORY;
    let is_kept = is_memory && held.keep(order.number, there);
    if is_memory && !is_kept {
        said.what = BUSY;
    }
    let beside = if is_kept { there } else { &[] };
    if give(LINE, said.bytes(), beside, 0).is_err() {
        exit();
    }
    close(socket);
    if !is_kept {
        there.iter().for_each(|fd| close(*fd));
    }
}

fn judge(order: Order, there: &[RawFd]) -> Said {
    let refused = Said { number: order.number, what: REFUSED, count: there.len() as u8, ..Said::default() };
    match (order.what, there) {
        (WANT_MEMORY, [_] | [_, _]) if there.iter().all(|fd| is_memory(*fd)) => Said { what: ACCEPTED, ..refused },
        (WANT_SOCKET, [fd]) => match identity(*fd) {
            Some((inode, cookie)) => Said { what: ACCEPTED, inode, cookie, ..refused },
            None => refused,
        },
        _ => refused,
    }
}

/// Whether it is a memory file: see the table in [`super`].
fn is_memory(fd: RawFd) -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::fcntl(fd, libc::F_GET_SEALS) >= 0 }
}

/// Inode and cookie of a Unix socket.
fn identity(fd: RawFd) -> Option<(u64, u64)> {
    let domain = option::<libc::c_int>(fd, libc::SO_DOMAIN)?;
    if domain != libc::AF_UNIX {
        return None;
    }
    let cookie = option::<u64>(fd, libc::SO_COOKIE)?;
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: so many writable bytes, of which the kernel writes all if it says so.
    let inode = unsafe { (libc::fstat(fd, status.as_mut_ptr()) == 0).then(|| status.assume_init().st_ino) };
    inode.map(|inode| (inode, cookie))
}

fn option<T: Default>(fd: RawFd, name: libc::c_int) -> Option<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    // SAFETY: integers only, of which any bytes are a value; so many are writable.
    let got = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    (got == 0 && length as usize == size_of::<T>()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_found_in_its_list() {
        let shared = b"7f12a000-7f12b000 rw-s 00000000 00:01 7   /memfd:x (deleted)";
        assert_eq!(shared_range(shared), Some((0x7f12_a000, 0x7f12_b000)));
        for other in [
            &b"7f12a000-7f12b000 r-xp 00000000 00:01 7"[..],
            b"7f12a000-7f12b000",
            b"",
            b"x-y rw-s",
            b"7f12b000-7f12a000 rw-s",
            b"fffffffffffffffff-7f12a000 rw-s",
        ] {
            assert_eq!(shared_range(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
