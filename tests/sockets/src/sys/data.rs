//! Reading and writing, in all families of calls.

use super::base::*;
use crate::address::Address;
use std::ptr::{null, null_mut};

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

/// `count` pieces that are not there.
pub fn readv_nowhere(fd: Fd, count: usize) -> Ret {
    // SAFETY: the kernel checks the address; a null one is never read.
    Ret::of_long(unsafe { libc::readv(fd, null(), how_many(count)) })
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

/// With 24 bytes of control messages, of which the first says that it is `length` long.
pub fn sendmsg_with_control_of(fd: Fd, bytes: &[u8], to: &Address, length: usize) -> Ret {
    let mut parts = parts(&[bytes]);
    let mut control = control_bytes(&[(libc::SOL_SOCKET, libc::SO_MARK, vec![0; 8])]);
    control[0] = length as u64;
    let header = header(Some(to), &mut parts, &mut control);
    // SAFETY: everything the header points to lives until the end of this function. The kernel checks the message's own length.
    Ret::of_long(unsafe { libc::sendmsg(fd, &raw const header, 0) })
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
/// `sendmmsg` of one datagram, by `syscall`.
pub fn sendmmsg_by_number(fd: Fd, bytes: &[u8]) -> Ret {
    let mut one = [libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }];
    let mut header = libc::mmsghdr { msg_hdr: header(None, &mut one, &mut []), msg_len: 0 };
    // SAFETY: everything the header points to lives until the end of this function.
    Ret::of(unsafe { libc::syscall(libc::SYS_sendmmsg, fd, &raw mut header, 1, 0) })
}

/// `recvmmsg` of one datagram of up to `room` bytes that is there, by `syscall`; its length.
pub fn recvmmsg_by_number(fd: Fd, room: usize) -> Ret {
    let mut bytes = vec![0_u8; room];
    let mut one = [libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: room }];
    let mut header = libc::mmsghdr { msg_hdr: header(None, &mut one, &mut []), msg_len: 0 };
    let none = null_mut::<libc::timespec>();
    // SAFETY: everything the header points to lives until the end of this function.
    let ret = Ret::of(unsafe { libc::syscall(libc::SYS_recvmmsg, fd, &raw mut header, 1, libc::MSG_DONTWAIT, none) });
    if ret.is_ok() { Ret::of(header.msg_len) } else { ret }
}

/// `close`, by `syscall`.
pub fn close_by_number(fd: Fd) -> Ret {
    note_closed(fd);
    // SAFETY: cases close what they opened, or a number nobody has.
    Ret::of(unsafe { libc::syscall(libc::SYS_close, fd) })
}

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
