//! Requests by `ioctl` that are about interfaces: the kernel's answer, and the card's where it is meant or listed.

use super::{Card, FLAGS, INDEX, NAME, QUEUE_LENGTH, broadcast, card, mask};
use crate::sys::libc_next;
use libc::{c_int, c_ulong, sockaddr_in};
use rustix::io::Errno;
use std::net::Ipv4Addr;

const NAME_OF: c_ulong = 0x8910;
const LIST: c_ulong = 0x8912;
const FLAGS_OF: c_ulong = 0x8913;
const ADDRESS: c_ulong = 0x8915;
const PEER: c_ulong = 0x8917;
const BROADCAST: c_ulong = 0x8919;
const MASK: c_ulong = 0x891b;
const METRIC: c_ulong = 0x891d;
const MTU: c_ulong = 0x8921;
const HARDWARE: c_ulong = 0x8927;
const INDEX_OF: c_ulong = 0x8933;
const QUEUE: c_ulong = 0x8942;
const MAP: c_ulong = 0x8970;

/// `struct ifreq`: a name, and what is asked for.
const NAME_MAX: usize = 16;
const VALUE_MAX: usize = 24;
type Value = [u8; VALUE_MAX];
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Request {
    name: [u8; NAME_MAX],
    value: Value,
}

/// `struct ifconf`.
#[repr(C)]
struct List {
    length: c_int,
    requests: *mut Request,
}

fn own_name() -> [u8; NAME_MAX] {
    let mut name = [0; NAME_MAX];
    name.iter_mut().zip(NAME.to_bytes()).for_each(|(place, byte)| *place = *byte);
    name
}

fn is_own(name: &[u8; NAME_MAX]) -> bool {
    name.split(|byte| *byte == 0).next() == Some(NAME.to_bytes())
}

fn value(bytes: &[u8]) -> Value {
    let mut value = [0; VALUE_MAX];
    value.iter_mut().zip(bytes).for_each(|(place, byte)| *place = *byte);
    value
}

fn internet(address: Ipv4Addr) -> Value {
    let mut bytes = [0; size_of::<sockaddr_in>()];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[4..8].copy_from_slice(&address.octets());
    value(&bytes)
}

/// Answers a request about interfaces on `fd`; `None`: it is the kernel's alone.
///
/// # Safety
/// As `ioctl`.
pub(crate) unsafe fn answer(fd: c_int, request: c_ulong, argument: c_ulong) -> Option<Result<c_int, Errno>> {
    if !(NAME_OF..=MAP).contains(&request) || argument == 0 || crate::sys::wishes::wishes().is_none() {
        return None;
    }
    let pointer = std::ptr::with_exposed_provenance_mut::<Request>(argument as usize);
    match request {
        // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
        LIST => unsafe { list(fd, argument) },
        NAME_OF => {
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
            let asked = unsafe { pointer.read_unaligned() };
            let is_it = asked.value[..4] == INDEX.to_ne_bytes() && is_socket(fd) && card().is_some();
            if !is_it {
                return None;
            }
            let answered = Request { name: own_name(), value: asked.value };
            // SAFETY: as above.
            unsafe { pointer.write_unaligned(answered) };
            Some(Ok(0))
        }
        FLAGS_OF | ADDRESS | PEER | BROADCAST | MASK | METRIC | MTU | HARDWARE | INDEX_OF | QUEUE | MAP => {
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
            let asked = unsafe { pointer.read_unaligned() };
            let card = if is_own(&asked.name) && is_socket(fd) { card() } else { None }?;
            let value = match answer_of(&card, request) {
                Ok(value) => value,
                Err(error) => return Some(Err(error)),
            };
            let answered = Request { name: asked.name, value };
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
            unsafe { pointer.write_unaligned(answered) };
            Some(Ok(0))
        }
        _ => None,
    }
}

fn is_socket(fd: c_int) -> bool {
    crate::sys::kernel_socket::kernel_option(fd, libc::SOL_SOCKET, libc::SO_TYPE).is_some()
}

fn answer_of(card: &Card, request: c_ulong) -> Result<Value, Errno> {
    let four = card.first_four().ok_or(Errno::ADDRNOTAVAIL);
    Ok(match request {
        FLAGS_OF => value(&(FLAGS as u16).to_ne_bytes()),
        ADDRESS | PEER => internet(four?.0),
        BROADCAST => internet(broadcast(four?)),
        MASK => four.map(|(address, length)| match mask(address.into(), length) {
            std::net::IpAddr::V4(mask) => internet(mask),
            std::net::IpAddr::V6(_) => value(&[]),
        })?,
        MTU => value(&card.mtu.to_ne_bytes()),
        HARDWARE => {
            let kind = libc::ARPHRD_ETHER.to_ne_bytes();
            value(&[kind.as_slice(), &card.mac].concat())
        }
        INDEX_OF => value(&INDEX.to_ne_bytes()),
        QUEUE => value(&QUEUE_LENGTH.to_ne_bytes()),
        _ => value(&[]),
    })
}

/// The kernel's list, and the card's addresses behind it, as far as there is room.
///
/// # Safety
/// As `ioctl`.
unsafe fn list(fd: c_int, argument: c_ulong) -> Option<Result<c_int, Errno>> {
    let pointer = std::ptr::with_exposed_provenance_mut::<List>(argument as usize);
    // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2).
    let room = unsafe { pointer.read_unaligned() };
    let card = card();
    // SAFETY: as above.
    if unsafe { libc_next::ioctl(fd, LIST, argument) } != 0 {
        return Some(Err(libc_next::errno()));
    }
    let Some(card) = card else { return Some(Ok(0)) };
    // SAFETY: as above.
    let mut list = unsafe { pointer.read_unaligned() };
    let each = size_of::<Request>() as c_int;
    for (address, _) in card.fours() {
        if !room.requests.is_null() {
            if list.length + each > room.length {
                break;
            }
            let own = Request { name: own_name(), value: internet(address) };
            // SAFETY: `argument` is what `request` demands, a valid pointer where it is one: the program's duty by ioctl(2). There is
            // room for so many bytes.
            unsafe { list.requests.byte_add(list.length as usize).write_unaligned(own) };
        }
        list.length += each;
    }
    // SAFETY: as above.
    unsafe { pointer.write_unaligned(list) };
    Some(Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_the_kernels() {
        assert_eq!(size_of::<Request>(), size_of::<libc::ifreq>());
        assert_eq!(size_of::<List>(), 16);
        assert!(is_own(&own_name()) && !is_own(&[0; NAME_MAX]));
        let card = Card { mtu: 1_500, mac: [2, 0, 0, 0, 0, 1], addresses: vec![("10.77.0.2".parse().unwrap(), 24)] };
        assert_eq!(answer_of(&card, MASK).unwrap()[4..8], [255, 255, 255, 0]);
        assert_eq!(answer_of(&card, BROADCAST).unwrap()[4..8], [10, 77, 0, 255]);
        assert_eq!(answer_of(&card, HARDWARE).unwrap()[..8], [1, 0, 2, 0, 0, 0, 0, 1]);
        let none = Card { addresses: vec![("fd77::2".parse().unwrap(), 64)], ..card };
        assert_eq!(answer_of(&none, ADDRESS), Err(Errno::ADDRNOTAVAIL));
    }
}
