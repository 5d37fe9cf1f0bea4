//! Lists by netlink (RFC 3549): a program that asks the kernel for all links, addresses or routes finds the card's before the message
//! that says that there are no more. Anything else on such a socket is the kernel's alone.

use super::{Card, FLAGS, INDEX, NAME, QUEUE_LENGTH, broadcast, card};
use crate::sys::descriptor::DESCRIPTORS_MAX;
use crate::sys::program_memory::is_nowhere;
use libc::c_int;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// `struct nlmsghdr`: length, type, flags, sequence number, port.
const HEAD: usize = 16;
const REQUEST: u16 = 1;
const MULTI: u16 = 2;
/// Either of `NLM_F_ROOT` and `NLM_F_MATCH`.
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Types of answers; those of the requests are two more.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const TO_ASK: u16 = 2;

/// Longest request looked at: they are tens of bytes.
const REQUEST_MAX: usize = 1_024;
/// Lists under way at once.
const DUMPS_MAX: usize = 256;
/// More than our part of any list. A program that asks for the message's length is told that it is so much longer.
const OURS_MAX: usize = 4_096;

/// A list that was asked for and has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Dump {
    /// The type of its messages.
    kind: u16,
    sequence: u32,
    family: u8,
    /// Only of this interface; 0: of all.
    index: u32,
    /// Only of this table; 0: of all.
    table: u8,
}

static DUMPS: Mutex<BTreeMap<c_int, Dump>> = Mutex::new(BTreeMap::new());
/// How many there are: looked at with each message of the kernel's.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn change<T>(what: impl FnOnce(&mut BTreeMap<c_int, Dump>) -> T) -> T {
    let mut dumps = DUMPS.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = what(&mut dumps);
    COUNT.store(dumps.len(), Ordering::Release);
    outcome
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Descriptors of sockets that lists are asked for by, a bit each: what is sent by others is not looked at.
static ROUTERS: [AtomicU64; DESCRIPTORS_MAX / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS_MAX / 64];

fn bit(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok()?;
    Some((ROUTERS.get(fd / 64)?, 1 << (fd % 64)))
}

#[inline]
fn is_router(fd: c_int) -> bool {
    bit(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// The program has made a socket.
pub(crate) fn made(fd: c_int, family: c_int, protocol: c_int) {
    if let Some((word, bit)) = bit(fd).filter(|_| family == libc::AF_NETLINK && protocol == libc::NETLINK_ROUTE) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// What list a message asks for.
fn asked(bytes: &[u8]) -> Option<Dump> {
    let (length, kind, flags) = (word(bytes, 0)? as usize, short(bytes, 4)?, short(bytes, 6)?);
    let kind = kind.checked_sub(TO_ASK).filter(|kind| [NEW_LINK, NEW_ADDRESS, NEW_ROUTE].contains(kind))?;
    if length <= HEAD || length > bytes.len() || flags & REQUEST == 0 || flags & DUMP == 0 {
        return None;
    }
    let body = bytes.get(HEAD..length)?;
    // A body of a single byte, the family, will do.
    let index = if kind == NEW_ROUTE { 0 } else { word(body, 4).unwrap_or(0) };
    let table = if kind == NEW_ROUTE { body.get(4).copied().unwrap_or(0) } else { 0 };
    Some(Dump { kind, sequence: word(bytes, 8)?, family: *body.first()?, index, table })
}

/// The program sends `bytes` by `fd`, a socket that lists are asked for by.
#[cold]
fn note(fd: c_int, bytes: &[u8]) {
    if crate::sys::wishes::wishes().is_none() || crate::sys::arena::is_inside() {
        return;
    }
    // The card first, as the kernel's end of one that is made now is in the kernel's list.
    if let Some(dump) = asked(bytes).filter(|_| card().is_some()) {
        change(|dumps| {
            if dumps.len() < DUMPS_MAX || dumps.contains_key(&fd) {
                dumps.insert(fd, dump);
            }
        });
    }
}

/// A descriptor of the kernel's is closed.
pub(crate) fn closed(fd: c_int) {
    if let Some((word, bit)) = bit(fd).filter(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0) {
        word.fetch_and(!bit, Ordering::Relaxed);
        change(|dumps| dumps.remove(&fd));
    }
}

/// The kernel has written `count` bytes to `buffer` of `fd`, received with `flags`: how many there are with ours.
///
/// # Safety
/// The buffer has `room` writable bytes.
#[inline]
pub(crate) unsafe fn received(fd: c_int, buffer: *mut u8, room: usize, count: isize, flags: c_int) -> isize {
    if COUNT.load(Ordering::Acquire) == 0 || count <= 0 {
        return count;
    }
    let Some(dump) = change(|dumps| dumps.get(&fd).copied()) else { return count };
    if flags & libc::MSG_PEEK != 0 {
        // A program that asks how much there is, is told to have room for ours, too.
        return if flags & libc::MSG_TRUNC != 0 { count + OURS_MAX as isize } else { count };
    }
    let length = count as usize;
    if buffer.is_null() || length > room {
        return count;
    }
    // A program may say that there is more room than there can be.
    let room = room.min(length + OURS_MAX);
    // SAFETY: the buffer has `room` writable bytes: this function's condition.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, room) };
    match place(bytes.get(..length).unwrap_or_default(), dump.sequence) {
        Place::NotYet => count,
        Place::Ended => {
            change(|dumps| dumps.remove(&fd));
            count
        }
        Place::At(at, port) => {
            change(|dumps| dumps.remove(&fd));
            let Some(card) = card() else { return count };
            let ours = messages(&card, dump, port);
            // Without room for it the list is as the kernel has it.
            if length + ours.len() > room {
                return count;
            }
            bytes.copy_within(at..length, at + ours.len());
            if let Some(place) = bytes.get_mut(at..at + ours.len()) {
                place.copy_from_slice(&ours);
            }
            (length + ours.len()) as isize
        }
    }
}

/// Where ours belong among messages.
#[derive(PartialEq, Eq, Debug)]
enum Place {
    /// The list goes on.
    NotYet,
    /// It has ended with an error.
    Ended,
    /// At this byte, before the message that ends it. The port is the one in the messages.
    At(usize, u32),
}

fn place(bytes: &[u8], sequence: u32) -> Place {
    let mut at = 0;
    while let (Some(length), Some(kind)) = (word(bytes, at), short(bytes, at + 4)) {
        let is_of_it = word(bytes, at + 8) == Some(sequence);
        match kind {
            DONE if is_of_it => return Place::At(at, word(bytes, at + 12).unwrap_or(0)),
            ERROR if is_of_it => return Place::Ended,
            _ => {}
        }
        if (length as usize) < HEAD {
            break;
        }
        at += (length as usize).next_multiple_of(4);
    }
    Place::NotYet
}

/// One message of a list.
struct Message(Vec<u8>);

impl Message {
    fn new(dump: Dump, port: u32, body: &[u8]) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&dump.kind.to_ne_bytes());
        bytes.extend_from_slice(&MULTI.to_ne_bytes());
        bytes.extend_from_slice(&dump.sequence.to_ne_bytes());
        bytes.extend_from_slice(&port.to_ne_bytes());
        bytes.extend_from_slice(body);
        Message(bytes)
    }

    /// Adds an attribute.
    fn with(mut self, kind: u16, value: &[u8]) -> Message {
        let length = (4 + value.len()) as u16;
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn end(mut self) -> Vec<u8> {
        let length = self.0.len() as u32;
        if let Some(place) = self.0.get_mut(..4) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        self.0
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

/// The card's part of a list.
fn messages(card: &Card, dump: Dump, port: u32) -> Vec<u8> {
    if dump.index != 0 && dump.index != INDEX {
        return Vec::new();
    }
    if dump.kind == NEW_LINK {
        let is_meant = [libc::AF_UNSPEC, libc::AF_PACKET].contains(&c_int::from(dump.family));
        return if is_meant { link(card, dump, port) } else { Vec::new() };
    }
    let is_meant = |address: &&(IpAddr, u8)| dump.family == 0 || dump.family == family(address.0);
    let addresses = card.addresses.iter().filter(is_meant);
    let ours = addresses.map(|(address, length)| match dump.kind {
        NEW_ADDRESS => address_message(*address, *length, dump, port),
        _ => route(*address, *length, dump, port),
    });
    let ours: Vec<u8> = ours.flatten().collect();
    if ours.len() > OURS_MAX { Vec::new() } else { ours }
}

/// `struct ifinfomsg`, and what matters of its attributes.
fn link(card: &Card, dump: Dump, port: u32) -> Vec<u8> {
    const UP: u8 = 6;
    let mut body = vec![0, 0];
    body.extend_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
    body.extend_from_slice(&INDEX.to_ne_bytes());
    body.extend_from_slice(&FLAGS.to_ne_bytes());
    body.extend_from_slice(&[0; 4]);
    Message::new(dump, port, &body)
        .with(libc::IFLA_IFNAME, NAME.to_bytes_with_nul())
        .with(libc::IFLA_TXQLEN, &QUEUE_LENGTH.to_ne_bytes())
        .with(libc::IFLA_OPERSTATE, &[UP])
        .with(libc::IFLA_LINKMODE, &[0])
        .with(libc::IFLA_MTU, &card.mtu.to_ne_bytes())
        .with(libc::IFLA_QDISC, b"noqueue\0")
        .with(libc::IFLA_ADDRESS, &card.mac)
        .with(libc::IFLA_BROADCAST, &[0xff; 6])
        .end()
}

/// `struct ifaddrmsg`.
fn address_message(address: IpAddr, length: u8, dump: Dump, port: u32) -> Vec<u8> {
    const PERMANENT: u8 = 0x80;
    let mut body = vec![family(address), length, PERMANENT, libc::RT_SCOPE_UNIVERSE];
    body.extend_from_slice(&INDEX.to_ne_bytes());
    let message = Message::new(dump, port, &body).with(libc::IFA_ADDRESS, &octets(address));
    let message = match address {
        IpAddr::V4(four) => message
            .with(libc::IFA_LOCAL, &four.octets())
            .with(libc::IFA_BROADCAST, &broadcast((four, length)).octets())
            .with(libc::IFA_LABEL, NAME.to_bytes_with_nul()),
        IpAddr::V6(_) => message,
    };
    message.with(IFA_FLAGS, &u32::from(PERMANENT).to_ne_bytes()).end()
}

/// Linux' number that the `libc` crate lacks.
const IFA_FLAGS: u16 = 8;

/// `struct rtmsg`: the prefix is on the card's link.
fn route(address: IpAddr, length: u8, dump: Dump, port: u32) -> Vec<u8> {
    let table = libc::RT_TABLE_MAIN;
    if dump.table != 0 && dump.table != table {
        return Vec::new();
    }
    let mut body = vec![family(address), length, 0, 0, table];
    body.extend_from_slice(&[libc::RTPROT_KERNEL, libc::RT_SCOPE_LINK, libc::RTN_UNICAST, 0, 0, 0, 0]);
    let prefix = match (address, super::mask(address, length)) {
        (IpAddr::V4(four), IpAddr::V4(mask)) => {
            IpAddr::V4(std::net::Ipv4Addr::from_bits(four.to_bits() & mask.to_bits()))
        }
        (IpAddr::V6(six), IpAddr::V6(mask)) => {
            IpAddr::V6(std::net::Ipv6Addr::from_bits(six.to_bits() & mask.to_bits()))
        }
        (other, _) => other,
    };
    Message::new(dump, port, &body)
        .with(libc::RTA_TABLE, &u32::from(table).to_ne_bytes())
        .with(libc::RTA_DST, &octets(prefix))
        .with(libc::RTA_PREFSRC, &octets(address))
        .with(libc::RTA_OIF, &INDEX.to_ne_bytes())
        .end()
}

/// As [`received`], of a message in parts: ours are added if there is one part.
///
/// # Safety
/// As `recvmsg`, which has been called.
pub(crate) unsafe fn received_message(fd: c_int, message: *mut libc::msghdr, count: isize, flags: c_int) -> isize {
    if COUNT.load(Ordering::Acquire) == 0 || count <= 0 {
        return count;
    }
    // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
    let part = unsafe { message.as_ref().filter(|message| message.msg_iovlen == 1).map(|message| *message.msg_iov) };
    // SAFETY: the message, its parts, its name and its control buffer are writable: the program's duty by recvmsg(2).
    part.map_or(count, |part| unsafe { received(fd, part.iov_base.cast(), part.iov_len, count, flags) })
}

/// The program sends a message by `fd`, which is the kernel's.
///
/// # Safety
/// As `sendmsg`.
pub(crate) unsafe fn sends_message(fd: c_int, message: &libc::msghdr) {
    if is_router(fd) && message.msg_iovlen == 1 && !is_nowhere(message.msg_iov) {
        // SAFETY: the message, its parts, its name and its control buffer are readable: the program's duty by sendmsg(2).
        unsafe { sends_part(fd, (*message.msg_iov).iov_base, (*message.msg_iov).iov_len) };
    }
}

/// The program sends so many bytes by `fd`, which is the kernel's.
///
/// # Safety
/// So many readable bytes.
#[inline]
pub(crate) unsafe fn sends_part(fd: c_int, buffer: *const libc::c_void, count: usize) {
    if is_router(fd) && (HEAD + 1..=REQUEST_MAX).contains(&count) && !is_nowhere(buffer) {
        // SAFETY: the pointer is to as many readable bytes as the length says: this function's condition.
        note(fd, unsafe { std::slice::from_raw_parts(buffer.cast(), count) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: u16, family: u8) -> Vec<u8> {
        let dump = Dump { kind, sequence: 7, family, index: 0, table: 0 };
        let mut bytes = Message::new(dump, 0, &[family, 0, 0, 0, 0, 0, 0, 0]).end();
        bytes[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
        bytes
    }

    #[test]
    fn lists_are_known_by_their_requests() {
        let dump = asked(&request(22, 2)).unwrap();
        assert_eq!(dump, Dump { kind: NEW_ADDRESS, sequence: 7, family: 2, index: 0, table: 0 });
        assert!(asked(&request(30, 2)).is_none(), "neighbours");
        let mut one = request(18, 0);
        one[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
        assert!(asked(&one).is_none(), "of one alone");
        for length in 0..HEAD + 1 {
            assert!(asked(&request(18, 0)[..length]).is_none());
        }
        assert!(asked(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_none());
    }

    #[test]
    fn ours_come_before_the_end() {
        let card = Card {
            mtu: 1_500,
            mac: [2; 6],
            addresses: vec![("10.77.0.2".parse().unwrap(), 24), ("fd77::2".parse().unwrap(), 64)],
        };
        for (kind, count) in [(NEW_LINK, 1), (NEW_ADDRESS, 2), (NEW_ROUTE, 2)] {
            let dump = Dump { kind, sequence: 7, family: 0, index: 0, table: 0 };
            let mut all = messages(&card, dump, 99);
            let (mut at, mut found) = (0, 0);
            while at < all.len() {
                assert_eq!(
                    (short(&all, at + 4), word(&all, at + 8), word(&all, at + 12)),
                    (Some(kind), Some(7), Some(99))
                );
                (at, found) = (at + word(&all, at).unwrap() as usize, found + 1);
            }
            assert_eq!((at, found), (all.len(), count));
            assert_eq!(place(&all, 7), Place::NotYet);
            let end = Message::new(Dump { kind: DONE, ..dump }, 99, &[0; 4]).end();
            let before = all.len();
            all.extend(end);
            assert_eq!(place(&all, 7), Place::At(before, 99));
            assert_eq!(place(&all, 8), Place::NotYet);
        }
        let of_another = Dump { kind: NEW_ADDRESS, sequence: 7, family: 0, index: 1, table: 0 };
        assert!(messages(&card, of_another, 0).is_empty());
        let of_six = Dump { family: libc::AF_INET6 as u8, index: 0, ..of_another };
        assert!(messages(&card, of_six, 0).len() < messages(&card, Dump { family: 0, ..of_six }, 0).len());
        // What comes from the kernel may be cut off anywhere.
        for length in 0..40 {
            assert_eq!(place(&vec![0; length], 7), Place::NotYet);
        }
    }
}
