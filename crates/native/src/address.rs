//! [`Address`]: where an end of a connection is, in memory as C has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IP address and a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Address {
    /// The address in network order: IPv4 has 4 bytes, and the others are 0.
    pub ip: [u8; 16],
    /// The port, in the machine's own order.
    pub port: u16,
    /// 4 or 6; 0: none.
    pub family: u8,
    /// 0.
    pub reserved: [u8; 5],
}

impl From<SocketAddr> for Address {
    #[inline]
    fn from(address: SocketAddr) -> Address {
        Address { port: address.port(), ..Address::from(address.ip()) }
    }
}

impl From<IpAddr> for Address {
    #[inline]
    fn from(address: IpAddr) -> Address {
        let mut ip = [0; 16];
        let family = match address {
            IpAddr::V4(address) => {
                let (first, _) = ip.split_at_mut(4);
                first.copy_from_slice(&address.octets());
                4
            }
            IpAddr::V6(address) => {
                ip = address.octets();
                6
            }
        };
        Address { ip, port: 0, family, reserved: [0; 5] }
    }
}

impl Address {
    /// As the standard library has it. `None`: it is of no family.
    #[inline]
    pub fn to_socket(self) -> Option<SocketAddr> {
        let [a, b, c, d, ..] = self.ip;
        let ip: IpAddr = match self.family {
            4 => Ipv4Addr::new(a, b, c, d).into(),
            6 => Ipv6Addr::from(self.ip).into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was() {
        for text in ["10.77.0.2:80", "[fd77::2]:65535", "0.0.0.0:0", "[::]:53"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Address::from(address).to_socket(), Some(address));
        }
        assert_eq!(Address::default().to_socket(), None);
        assert_eq!((size_of::<Address>(), align_of::<Address>()), (24, 2));
    }
}
