//! Own addresses, local prefixes and next hops.

use crate::config::Config;
use crate::ip::default_router::DefaultRouters;
use crate::ip::own_address::AddressState;
use crate::tables::flow::{is_mapped, to_bits};
use qanat_nic::Time;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An own address and the prefix it is on.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
struct Interface {
    address: IpAddr,
    /// As bits, IPv4 in mapped form, so that one comparison serves both.
    bits: u128,
    /// Ones where the prefix is.
    mask: u128,
    /// The prefix has a broadcast address: IPv4, and at least two hosts (RFC 3021).
    has_broadcast: bool,
    state: AddressState,
}

impl Interface {
    fn new(address: IpAddr, prefix_length: u8) -> Interface {
        let (length, has_broadcast) = match address {
            IpAddr::V4(_) => (96 + u32::from(prefix_length.min(32)), prefix_length < 31),
            IpAddr::V6(_) => (u32::from(prefix_length.min(128)), false),
        };
        let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
        Interface { address, bits: to_bits(address), mask, has_broadcast, state: AddressState::Usable }
    }

    #[inline]
    fn reaches(&self, bits: u128) -> bool {
        // A short IPv6 prefix must not take in IPv4.
        (self.bits ^ bits) & self.mask == 0 && is_mapped(self.bits) == is_mapped(bits)
    }

    #[inline]
    fn is_broadcast(&self, bits: u128) -> bool {
        self.has_broadcast && self.reaches(bits) && bits | self.mask == u128::MAX
    }
}

/// 255.255.255.255 in mapped form.
const LIMITED_BROADCAST: u128 = 0xffff_ffff_ffff;

/// What is local, and where everything else goes.
#[derive(serde::Serialize, serde::Deserialize)]
pub(crate) struct Routes {
    interfaces: Vec<Interface>,
    gateway_v4: Option<Ipv4Addr>,
    gateway_v6: Option<Ipv6Addr>,
    pub(crate) routers: DefaultRouters,
    /// The only IPv4 address, as most hosts have it: the source of all that is sent. Unspecified: none, or more.
    sole_v4: Ipv4Addr,
    /// Changes of own addresses. (Routers learnt are of IPv6 and nowhere remembered.)
    pub(crate) version: u64,
}

impl Routes {
    pub(crate) fn new(config: &Config, now: Time) -> Routes {
        let interfaces = config.addresses.iter().map(|&(address, length)| Interface::new(address, length)).collect();
        let routers = DefaultRouters::new(config.wants_router_advertisements(), now);
        let gateway_v4 = config.gateways.iter().find_map(|gateway| match gateway {
            IpAddr::V4(v4) => Some(*v4),
            IpAddr::V6(_) => None,
        });
        let gateway_v6 = config.gateways.iter().find_map(|gateway| match gateway {
            IpAddr::V6(v6) => Some(*v6),
            IpAddr::V4(_) => None,
        });
        let mut routes =
            Routes { interfaces, gateway_v4, gateway_v6, routers, sole_v4: Ipv4Addr::UNSPECIFIED, version: 0 };
        routes.find_sole_v4();
        routes
    }

    /// An own address came, went, or is another than before.
    fn changed(&mut self) {
        self.version += 1;
        self.find_sole_v4();
    }

    fn find_sole_v4(&mut self) {
        let mut usable =
            self.interfaces.iter().filter(|interface| interface.state.is_usable()).filter_map(|interface| {
                match interface.address {
                    IpAddr::V4(v4) => Some(v4),
                    IpAddr::V6(_) => None,
                }
            });
        self.sole_v4 = usable.next().filter(|_| usable.next().is_none()).unwrap_or(Ipv4Addr::UNSPECIFIED);
    }

    /// What is known of an own address. Gives `None` if it is not ours.
    pub(crate) fn state(&self, address: IpAddr) -> Option<AddressState> {
        self.interfaces.iter().find(|interface| interface.address == address).map(|interface| interface.state)
    }

    pub(crate) fn set_state(&mut self, address: IpAddr, state: AddressState) {
        for interface in self.interfaces.iter_mut().filter(|interface| interface.address == address) {
            interface.state = state;
        }
        self.changed();
    }

    /// Adds an own address.
    pub(crate) fn add(&mut self, address: IpAddr, prefix_length: u8) {
        self.interfaces.push(Interface::new(address, prefix_length));
        self.changed();
    }

    /// Forgets an own address and its prefix.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        self.interfaces.retain(|interface| interface.address != address);
        self.changed();
    }

    /// Makes an own address the last choice for what begins from now on.
    pub(crate) fn defer(&mut self, address: IpAddr) {
        if let Some(index) = self.interfaces.iter().position(|interface| interface.address == address) {
            let interface = self.interfaces.remove(index);
            self.interfaces.push(interface);
            self.changed();
        }
    }

    /// Own addresses with the lengths of their prefixes, and whether they may be used.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (IpAddr, u8, AddressState)> + '_ {
        self.interfaces.iter().map(|interface| {
            let ones = interface.mask.count_ones() as u8;
            let length = if interface.address.is_ipv4() { ones.saturating_sub(96) } else { ones };
            (interface.address, length, interface.state)
        })
    }

    /// Own IPv6 addresses.
    pub(crate) fn own_v4(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.interfaces.iter().filter_map(|interface| match interface.address {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        })
    }

    pub(crate) fn own_v6(&self) -> impl Iterator<Item = Ipv6Addr> + use<> {
        let addresses: Vec<Ipv6Addr> = self
            .interfaces
            .iter()
            .filter_map(|interface| match interface.address {
                IpAddr::V6(v6) => Some(v6),
                IpAddr::V4(_) => None,
            })
            .collect();
        addresses.into_iter()
    }

    /// Whether `address` is ours, and may be used.
    #[inline]
    pub(crate) fn is_usable(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| interface.address == address && interface.state.is_usable())
    }

    /// Whether `address` is ours, used or not.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|interface| interface.address == address)
    }

    /// Whether `address` is on a local prefix, other than as a broadcast address.
    pub(crate) fn is_on_link(&self, address: IpAddr) -> bool {
        if let IpAddr::V6(v6) = address
            && v6.is_unicast_link_local()
        {
            return true;
        }
        let bits = to_bits(address);
        self.interfaces.iter().any(|interface| interface.reaches(bits)) && !self.is_broadcast(address)
    }

    /// Whether `address` is the limited broadcast address or that of a local IPv4 prefix.
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        let bits = to_bits(address);
        bits == LIMITED_BROADCAST || self.interfaces.iter().any(|interface| interface.is_broadcast(bits))
    }

    /// The neighbour that a packet to `destination` goes through. Gives `None` without a route, or if the address is not unicast.
    pub(crate) fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        let bits = to_bits(destination);
        if destination.is_multicast() || destination.is_unspecified() || bits == LIMITED_BROADCAST {
            return None;
        }
        let mut on_link = matches!(destination, IpAddr::V6(v6) if v6.is_unicast_link_local());
        for interface in self.interfaces.iter().filter(|interface| interface.reaches(bits)) {
            if interface.is_broadcast(bits) {
                return None;
            }
            on_link = true;
        }
        if on_link {
            return Some(destination);
        }
        match destination {
            IpAddr::V4(_) => self.gateway_v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.gateway_v6.or_else(|| self.routers.first()).map(IpAddr::V6),
        }
    }

    /// [`source_for`](Routes::source_for) for IPv4, at once for a host with one address.
    #[inline]
    pub(crate) fn source_for_v4(&self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        if self.sole_v4 != Ipv4Addr::UNSPECIFIED {
            return Some(self.sole_v4);
        }
        match self.source_for(destination.into()) {
            Some(IpAddr::V4(v4)) => Some(v4),
            _ => None,
        }
    }

    /// The own address to use towards `destination`: one on its prefix, else the first of its family (RFC 6724 rules 1
    /// and 8 in short).
    pub(crate) fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let of_family = || {
            let usable = |interface: &&Interface| {
                interface.address.is_ipv4() == destination.is_ipv4() && interface.state.is_usable()
            };
            self.interfaces.iter().filter(usable)
        };
        let link_local = |address: IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        of_family()
            .find(|interface| interface.reaches(to_bits(destination)))
            .or_else(|| of_family().find(|interface| link_local(interface.address) == link_local(destination)))
            .or_else(|| of_family().next())
            .map(|interface| interface.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_by_prefix_then_gateway() {
        let mut config = Config::new("10.77.0.2".parse().unwrap(), 24);
        config.addresses.push(("2001:db8::2".parse().unwrap(), 64));
        config.gateways.push("10.77.0.1".parse().unwrap());
        let routes = Routes::new(&config, Time::ZERO);
        let hop = |text: &str| routes.next_hop(text.parse().unwrap()).map(|address| address.to_string());
        assert_eq!(hop("10.77.0.9").as_deref(), Some("10.77.0.9"));
        assert_eq!(hop("192.0.2.1").as_deref(), Some("10.77.0.1"));
        assert_eq!(hop("10.77.0.255"), None);
        assert_eq!(hop("255.255.255.255"), None);
        assert_eq!(hop("224.0.0.1"), None);
        assert_eq!(hop("2001:db8::99").as_deref(), Some("2001:db8::99"));
        assert_eq!(hop("2001:db9::1"), None);
        assert_eq!(routes.source_for("192.0.2.1".parse().unwrap()), Some("10.77.0.2".parse().unwrap()));
    }
}
