//! A VNIC as it is listed.

use crate::cards::charges::Charges;
use crate::cards::vnic::Vnic;
use crate::fence::tables::{FLAG_UPLINK, Tables};
use qanat_control::filter::Direction;
use qanat_control::protocol::{DirectionStatus, Provider, Steered, VnicStatus};
use qanat_nic::link;

impl Vnic {
    pub(crate) fn status(&self, tables: &Tables, charges: &Charges) -> VnicStatus {
        let [transmit, receive] = self.steered(0, 64);
        let direction = |direction: Direction, filters: Vec<Steered>| DirectionStatus {
            filters,
            rate: self.rates[direction as usize],
            counts: tables.counts(self.slot, direction),
        };
        let (queues_open, memory_bytes) = self.open_queues(charges);
        VnicStatus {
            vnic: self.slot,
            name: self.wish.name.clone(),
            user: self.user,
            process: self.process,
            rule: self.rule.name.clone(),
            mac: self.end.mac.0,
            interface: self.host.name.clone(),
            mtu: self.wish.mtu,
            addresses: self.wish.addresses.iter().map(|(address, length)| (address.ip(), *length)).collect(),
            gateways: self.gateways.clone(),
            queues: self.wish.queues,
            queues_open,
            memory_bytes,
            persistent: self.wish.persistent,
            priority_queues: self.wish.priority_queues,
            uplink: self.row.flags & FLAG_UPLINK != 0,
            provider: self.wish.provider.clone(),
            driver: match self.wish.provider {
                Provider::Queue { .. } => link::driver(&self.end.name).unwrap_or_default(),
                Provider::Tap => "tun".to_owned(),
                Provider::Vf { .. } => "vfio-pci".to_owned(),
                Provider::Veth => "veth".to_owned(),
            },
            shared: self.wish.shared,
            transmit: direction(Direction::Transmit, transmit),
            receive: direction(Direction::Receive, receive),
        }
    }

    /// How many queues are open, and how much memory they have.
    pub(crate) fn open_queues(&self, charges: &Charges) -> (u32, u64) {
        // Its opener may have ended, and a persistent VNIC stays.
        let is_open = |queue: &u32| self.sockets.get(queue).is_none_or(|charge| charges.is_held(*charge));
        let open = self.queues.iter().filter(|(queue, _)| is_open(queue));
        open.fold((0, 0), |(count, sum), (_, length)| (count + 1, sum + length))
    }
}
