//! Socket addresses as their bytes, so that wrong ones can be written too.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A `sockaddr` of any family and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    bytes: Vec<u8>,
}

impl Address {
    /// An `AF_INET` or `AF_INET6` address.
    pub fn new(ip: IpAddr, port: u16) -> Address {
        let mut bytes = Vec::with_capacity(28);
        match ip {
            IpAddr::V4(ip) => {
                bytes.extend_from_slice(&2_u16.to_ne_bytes());
                bytes.extend_from_slice(&port.to_be_bytes());
                bytes.extend_from_slice(&ip.octets());
                bytes.resize(16, 0);
            }
            IpAddr::V6(ip) => {
                bytes.extend_from_slice(&10_u16.to_ne_bytes());
                bytes.extend_from_slice(&port.to_be_bytes());
                bytes.extend_from_slice(&[0; 4]);
                bytes.extend_from_slice(&ip.octets());
                bytes.extend_from_slice(&[0; 4]);
            }
        }
        Address { bytes }
    }

    /// Any bytes.
    pub fn of_bytes(bytes: &[u8]) -> Address {
        Address { bytes: bytes.to_vec() }
    }

    /// Only a family, as in `connect(AF_UNSPEC)`.
    pub fn family_only(family: i32) -> Address {
        let mut bytes = u16::try_from(family).unwrap_or(0).to_ne_bytes().to_vec();
        bytes.resize(16, 0);
        Address { bytes }
    }

    /// The same with another family.
    #[must_use]
    pub fn with_family(mut self, family: i32) -> Address {
        self.bytes[..2].copy_from_slice(&u16::try_from(family).unwrap_or(0).to_ne_bytes());
        self
    }

    /// The first `length` bytes.
    #[must_use]
    pub fn cut(mut self, length: usize) -> Address {
        self.bytes.truncate(length);
        self
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// `None` for other families and for addresses that are too short.
    pub fn parts(&self) -> Option<SocketAddr> {
        let family = u16::from_ne_bytes(self.bytes.get(..2)?.try_into().ok()?);
        let port = u16::from_be_bytes(self.bytes.get(2..4)?.try_into().ok()?);
        match family {
            2 => {
                let octets: [u8; 4] = self.bytes.get(4..8)?.try_into().ok()?;
                Some(SocketAddr::new(octets.into(), port))
            }
            10 => {
                let octets: [u8; 16] = self.bytes.get(8..24)?.try_into().ok()?;
                Some(SocketAddr::new(Ipv6Addr::from(octets).into(), port))
            }
            _ => None,
        }
    }

    /// 0 if there is none.
    pub fn port(&self) -> u16 {
        self.parts().map_or(0, |parts| parts.port())
    }
}
