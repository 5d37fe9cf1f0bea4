//! What a user may have, and has.

use crate::clients::peer::Peer;
use crate::daemon::Daemon;
use crate::fence::tables;
use qanat_control::protocol::{Limits, Provider};
use qanat_control::refusal::Refusal;

impl Daemon {
    pub(super) fn limits(&mut self, peer: Peer) -> Result<Limits, Refusal> {
        let rule = self.rule(peer)?;
        self.charges.settle(&self.state, peer.account());
        let own = self.vnics.values().filter(|vnic| vnic.account == peer.account()).count() as u32;
        let has = self.area_usage(peer.account());
        let disks = self.names_of_disks(&rule);
        Ok(Limits {
            vnics: [rule.vnics, own],
            queues: rule.queues.min(tables::QUEUES_MAX),
            memory_bytes: [rule.memory_mib << 20, self.charges.of(peer.account())],
            filters: tables::VNIC_FILTERS_MAX as u32,
            addresses: rule.addresses.iter().map(ToString::to_string).collect(),
            services: rule.services.iter().map(ToString::to_string).collect(),
            peers: rule.peers.iter().map(ToString::to_string).collect(),
            transmit: rule.transmit,
            receive: rule.receive,
            vlans: rule.vlans.iter().map(ToString::to_string).collect(),
            ethertypes: rule.ethertypes.iter().map(ToString::to_string).collect(),
            macs: rule.macs.iter().map(ToString::to_string).collect(),
            reach: [
                (rule.icmp, "ICMP"),
                (rule.switch, "other cards"),
                (rule.uplink && self.uplink.is_some(), "the uplink's wire"),
            ]
            .into_iter()
            .filter(|(allowed, _)| *allowed)
            .map(|(_, name)| name.to_owned())
            .collect(),
            providers: [Provider::Veth.name().to_owned()]
                .into_iter()
                .chain(rule.tap.then(|| Provider::Tap.name().to_owned()))
                .chain(rule.trusted.then(|| self.free_nic_queues()).into_iter().flatten())
                .collect(),
            offloads: vec!["scatter-gather above MTU 1774".to_owned()],
            disks,
            areas: [rule.areas, has.areas],
            area_bytes: [rule.area_mib.saturating_mul(1 << 20), has.bytes],
            disk_rate: rule.disk_rate,
            rule: rule.name,
        })
    }
}
