//! Addresses as the kernel has them: `sockaddr_in`, `sockaddr_in6`, and the control messages that name a datagram's own address
//! (ip(7): `IP_PKTINFO`; RFC 3542 section 6: `IPV6_PKTINFO`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of the longer one.
pub(super) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();
/// Bytes of a control message's head.
const CONTROL_HEAD_BYTES: usize = size_of::<libc::cmsghdr>();
/// Bytes that are set aside for a control message: the longest one has its head, an address and an interface.
pub(super) const CONTROL_BYTES: usize = (CONTROL_HEAD_BYTES + 20).next_multiple_of(8);

/// An address in the kernel's bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Name {
    bytes: [u8; NAME_BYTES],
    length: u32,
}

impl Name {
    /// No address.
    pub(super) const NONE: Name = Name { bytes: [0; NAME_BYTES], length: 0 };

    pub(super) fn new(address: SocketAddr) -> Name {
        let mut bytes = [0; NAME_BYTES];
        let mut put = |at, what: &[u8]| write(&mut bytes, at, what);
        put(2, &address.port().to_be_bytes());
        let length = match address {
            SocketAddr::V4(address) => {
                put(0, &(libc::AF_INET as u16).to_ne_bytes());
                put(4, &address.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(address) => {
                put(0, &(libc::AF_INET6 as u16).to_ne_bytes());
                put(4, &address.flowinfo().to_ne_bytes());
                put(8, &address.ip().octets());
                put(24, &address.scope_id().to_ne_bytes());
                NAME_BYTES
            }
        };
        Name { bytes, length: length as u32 }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }
}

/// Writes a field that has room.
fn write(bytes: &mut [u8], at: usize, what: &[u8]) {
    if let Some(target) = bytes.get_mut(at..at + what.len()) {
        target.copy_from_slice(what);
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The address that these bytes of the kernel's are.
pub(super) fn address_of(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match family {
        libc::AF_INET => {
            let address: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(SocketAddr::from((address, port)))
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            Some(SocketAddrV6::new(address.into(), port, word(bytes, 4)?, word(bytes, 24)?).into())
        }
        _ => None,
    }
}

/// A control message that says which own address a datagram is sent from.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; CONTROL_BYTES],
    length: usize,
}

impl Control {
    /// None: the kernel chooses.
    pub(super) const NONE: Control = Control { bytes: [0; CONTROL_BYTES], length: 0 };

    /// It is sent from this address.
    pub(super) fn from(address: IpAddr) -> Control {
        let mut bytes = [0; CONTROL_BYTES];
        let mut put = |at, what: &[u8]| write(&mut bytes, at, what);
        // Interface, own address, and a third that is for receiving; of IPv6 address and interface.
        let (level, kind, length) = match address {
            IpAddr::V4(address) => {
                put(CONTROL_HEAD_BYTES + 4, &address.octets());
                (libc::IPPROTO_IP, libc::IP_PKTINFO, CONTROL_HEAD_BYTES + 12)
            }
            IpAddr::V6(address) => {
                put(CONTROL_HEAD_BYTES, &address.octets());
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, CONTROL_HEAD_BYTES + 20)
            }
        };
        put(0, &length.to_ne_bytes());
        put(8, &level.to_ne_bytes());
        put(12, &kind.to_ne_bytes());
        Control { bytes, length: length.next_multiple_of(8) }
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }
}

/// The own address that a datagram came to, by its control messages.
pub(super) fn own_address_of(mut bytes: &[u8]) -> Option<IpAddr> {
    while let Some(length) = bytes.first_chunk().map(|length| usize::from_ne_bytes(*length)) {
        if length < CONTROL_HEAD_BYTES || length > bytes.len() {
            return None;
        }
        let (level, kind) = (word(bytes, 8)? as i32, word(bytes, 12)? as i32);
        let data = bytes.get(CONTROL_HEAD_BYTES..length)?;
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                return Some(Ipv4Addr::from(*data.get(4..)?.first_chunk::<4>()?).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                return Some(Ipv6Addr::from(*data.first_chunk::<16>()?).into());
            }
            _ => bytes = bytes.get(length.next_multiple_of(8)..)?,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_come_back(four: bool, bytes: [u8; 16], port: u16, flow: u32, scope: u32) {
            let address: SocketAddr = match (four, bytes) {
                (true, [a, b, c, d, ..]) => ([a, b, c, d], port).into(),
                _ => SocketAddrV6::new(bytes.into(), port, flow, scope).into(),
            };
            let name = Name::new(address);
            prop_assert_eq!(address_of(&name.bytes[..name.length as usize]), Some(address));
            // What is sent names the place at which what is received does, but for IPv4's third field.
            let control = Control::from(address.ip());
            prop_assert_eq!(own_address_of(&control.bytes[..control.length]), Some(address.ip()));
        }

        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (address_of(&bytes), own_address_of(&bytes));
        }
    }
}
