//! Default routers learnt from advertisements (RFC 4861 section 6.3): off unless configured, at most a few, each for the
//! lifetime it tells. A configured gateway goes before them.

use crate::ip::network::Network;
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::neighbor_discovery::{self, Discovery};
use std::net::Ipv6Addr;
use std::time::Duration;

/// Routers remembered. RFC 4861 section 6.3.4: "a host MUST retain at least two".
const ROUTERS_MAX: usize = 4;
/// MAX_RTR_SOLICITATIONS and RTR_SOLICITATION_INTERVAL.
const SOLICITATIONS_MAX: u8 = 3;
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// Routers, the one in use first, and the search for them.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct DefaultRouters {
    /// Advertisements count.
    enabled: bool,
    routers: Vec<(Ipv6Addr, Time)>,
    solicitations_left: u8,
    next_solicitation: Time,
}

impl DefaultRouters {
    pub(crate) fn new(enabled: bool, now: Time) -> DefaultRouters {
        let solicitations_left = if enabled { SOLICITATIONS_MAX } else { 0 };
        DefaultRouters { enabled, routers: Vec::new(), solicitations_left, next_solicitation: now }
    }

    /// The router to use.
    #[inline]
    pub(crate) fn first(&self) -> Option<Ipv6Addr> {
        self.routers.first().map(|(router, _)| *router)
    }

    /// An advertisement, already checked (section 6.1.2); whether the router is one of ours now.
    fn advertised(&mut self, router: Ipv6Addr, lifetime: Duration, now: Time) -> bool {
        let known = self.routers.iter().position(|(address, _)| *address == router);
        match known {
            Some(index) if lifetime == Duration::ZERO => {
                self.routers.remove(index);
                return false;
            }
            Some(index) => {
                if let Some((_, expires)) = self.routers.get_mut(index) {
                    *expires = now + lifetime;
                }
            }
            None if lifetime == Duration::ZERO || self.routers.len() >= ROUTERS_MAX => return false,
            None => self.routers.push((router, now + lifetime)),
        }
        self.solicitations_left = 0;
        true
    }

    /// A router does not answer: the others go first (section 6.3.6).
    pub(crate) fn failed(&mut self, router: Ipv6Addr) {
        if let Some(index) = self.routers.iter().position(|(address, _)| *address == router) {
            let entry = self.routers.remove(index);
            self.routers.push(entry);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let expiry = self.routers.iter().map(|(_, expires)| *expires).min();
        let solicitation = (self.solicitations_left > 0).then_some(self.next_solicitation);
        [expiry, solicitation].into_iter().flatten().min()
    }
}

impl Network {
    /// A router advertisement with hop limit 255 from `source`.
    pub(crate) fn learn_router(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        source: Ipv6Addr,
        lifetime_s: u16,
        options: &neighbor_discovery::Options,
    ) {
        // Section 6.1.2: "IP Source Address MUST be a link-local address."
        if !self.routes.routers.enabled || !source.is_unicast_link_local() {
            self.counters.router_advertisements_ignored += 1;
            return;
        }
        self.learn_prefixes(now, vnic, options.prefixes.iter());
        let mac = options.source_link_layer;
        if !self.routes.routers.advertised(source, Duration::from_secs(lifetime_s.into()), now) {
            self.counters.router_advertisements_ignored += u64::from(lifetime_s > 0);
            return;
        }
        self.counters.router_advertisements += 1;
        if let Some(mac) = mac {
            self.learn(now, vnic, source.into(), mac, false, true);
        }
    }

    /// Forgets routers whose time is over; asks for some at the start.
    pub(crate) fn poll_routers(&mut self, now: Time, vnic: &mut dyn Vnic) {
        let routers = &mut self.routes.routers;
        routers.routers.retain(|(_, expires)| *expires > now);
        if routers.solicitations_left == 0 || routers.next_solicitation > now {
            return;
        }
        routers.solicitations_left -= 1;
        routers.next_solicitation = now + SOLICITATION_INTERVAL;
        // Section 4.1: without a usable address from the unspecified one, and then without a link-layer address.
        let source = self
            .routes
            .own_v6()
            .find(|address| address.is_unicast_link_local() && self.routes.is_usable((*address).into()));
        let options = neighbor_discovery::Options {
            source_link_layer: source.map(|_| self.link.mac),
            ..neighbor_discovery::Options::default()
        };
        let message = neighbor_discovery::Header { discovery: Discovery::RouterSolicitation, options };
        let mac = MacAddress::for_ipv6_multicast(ALL_ROUTERS);
        let _ = self.send_discovery(vnic, source.unwrap_or(Ipv6Addr::UNSPECIFIED), ALL_ROUTERS, mac, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_and_rotated() {
        let router = |last: u16| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last);
        let mut routers = DefaultRouters::new(true, Time::ZERO);
        let minute = Duration::from_secs(60);
        for last in 1..=9 {
            assert_eq!(routers.advertised(router(last), minute, Time::ZERO), last <= 4);
        }
        assert_eq!(routers.first(), Some(router(1)));
        routers.failed(router(1));
        assert_eq!(routers.first(), Some(router(2)));
        assert!(!routers.advertised(router(2), Duration::ZERO, Time::ZERO), "lifetime 0: no longer a router");
        assert_eq!(routers.first(), Some(router(3)));
        assert_eq!(routers.next_deadline(), Some(Time::ZERO + minute));
    }
}
