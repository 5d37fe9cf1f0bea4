//! Router discovery (RFC 4861 section 6): advertisements taken, solicitations sent.

use crate::ip::network::Network;
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use qanat_wire::neighbor_discovery::{self, Discovery};
use std::net::Ipv6Addr;
use std::time::Duration;

const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

impl Network {
    /// A router advertisement with hop limit 255 from `source`.
    pub(super) fn learn_router(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        source: Ipv6Addr,
        lifetime_s: u16,
        options: &neighbor_discovery::Options,
    ) {
        // Section 6.1.2: "IP Source Address MUST be a link-local address."
        if !self.routes.routers.is_enabled() || !source.is_unicast_link_local() {
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
    pub(super) fn poll_routers(&mut self, now: Time, vnic: &mut dyn Vnic) {
        if !self.routes.routers.poll(now) {
            return;
        }
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
