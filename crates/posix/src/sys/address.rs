//! Socket addresses as programs write them.

use crate::sys::program_memory::is_nowhere;
use libc::{AF_INET, AF_INET6, c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Reads one; an IPv4 address in an IPv6 one's clothes (RFC 4291 section 2.5.5.2) as itself. `None`: of another family, or
/// too short.
///
/// # Safety
/// `address` is nowhere or has `length` readable bytes.
pub(crate) unsafe fn read(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    let length = length as usize;
    if is_nowhere(address) || length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the address has so many bytes: `length` was compared with them.
    let family = c_int::from(unsafe { address.read_unaligned() }.sa_family);
    match family {
        AF_INET if length >= size_of::<sockaddr_in>() => {
            // SAFETY: the address has so many bytes: `length` was compared with them.
            let four = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(four.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(four.sin_port)))
        }
        AF_INET6 if length >= 24 => {
            let mut six: sockaddr_in6 = zeroed();
            // SAFETY: source and target have as many bytes as are copied.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    address.cast::<u8>(),
                    (&raw mut six).cast::<u8>(),
                    length.min(size_of::<sockaddr_in6>()),
                );
            }
            let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
            let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
            Some(SocketAddr::new(ip, u16::from_be(six.sin6_port)))
        }
        _ => None,
    }
}

/// Where a datagram of a socket of `family` goes to, as `sendto` reads it; `None`: to where the socket is connected.
///
/// # Errors
/// As Linux': `EFAULT` for what is nowhere, `EINVAL` for what is too short or has no port, `EAFNOSUPPORT` for what is of another family.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn destination(
    address: *const sockaddr,
    length: socklen_t,
    family: c_int,
) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() || length == 0 {
        return Ok(None);
    }
    if is_nowhere(address) {
        return Err(Errno::FAULT);
    }
    if (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the address has so many bytes: `length` was compared with them.
    let given = c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() });
    // SAFETY: `address` has `length` readable bytes: this function's condition.
    let found = match unsafe { read(address, length) } {
        // Of old, an address of no family is one of IPv4.
        None if given == libc::AF_UNSPEC && family == AF_INET && length as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: the address has so many bytes: `length` was compared with them.
            let four = unsafe { address.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(four.sin_addr.s_addr));
            SocketAddr::new(ip.into(), u16::from_be(four.sin_port))
        }
        None if given == libc::AF_UNSPEC && family == AF_INET6 => return Ok(None),
        None if given == AF_INET || given == AF_INET6 || family == AF_INET6 => return Err(Errno::INVAL),
        Some(found) if family == AF_INET6 || found.is_ipv4() && given == AF_INET => found,
        _ => return Err(Errno::AFNOSUPPORT),
    };
    if found.port() == 0 { Err(Errno::INVAL) } else { Ok(Some(found)) }
}

fn zeroed<T: Plain>() -> T {
    // SAFETY: the structure is plain numbers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

trait Plain {}
impl Plain for sockaddr_in6 {}
impl Plain for sockaddr_in {}
impl Plain for sockaddr_storage {}

/// No address, of the family that `other` is of.
pub(crate) fn unspecified_like(other: SocketAddr) -> IpAddr {
    match other {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// As a socket of `family` shows it.
pub(crate) fn encode(address: SocketAddr, family: c_int) -> (sockaddr_storage, usize) {
    let mut storage: sockaddr_storage = zeroed();
    let port = address.port().to_be();
    let length = match (address.ip(), family) {
        (IpAddr::V4(ip), AF_INET) => {
            let mut four: sockaddr_in = zeroed();
            four.sin_family = AF_INET as u16;
            four.sin_port = port;
            four.sin_addr.s_addr = ip.to_bits().to_be();
            // SAFETY: the storage is larger than any address.
            unsafe { (&raw mut storage).cast::<sockaddr_in>().write(four) };
            size_of::<sockaddr_in>()
        }
        (ip, _) => {
            let ip = match ip {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv6Addr::UNSPECIFIED,
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let mut six: sockaddr_in6 = zeroed();
            six.sin6_family = AF_INET6 as u16;
            six.sin6_port = port;
            six.sin6_addr.s6_addr = ip.octets();
            // SAFETY: the storage is larger than any address.
            unsafe { (&raw mut storage).cast::<sockaddr_in6>().write(six) };
            size_of::<sockaddr_in6>()
        }
    };
    (storage, length)
}

/// Writes one where a program wants it, cut to the room it has, and its whole length.
///
/// # Safety
/// `target` and `length` are null, or `length` is valid and says how many writable bytes `target` has.
pub(crate) unsafe fn write(address: SocketAddr, family: c_int, target: *mut sockaddr, length: *mut socklen_t) {
    if target.is_null() || length.is_null() {
        return;
    }
    let (storage, whole) = encode(address, family);
    // SAFETY: `target` and `length` are null, or `length` is valid and says how many writable bytes `target` has: this function's
    // condition.
    unsafe {
        let room = (*length as usize).min(whole);
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), target.cast::<u8>(), room);
        *length = whole as socklen_t;
    }
}
