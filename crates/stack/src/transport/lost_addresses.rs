//! What becomes of connections, the device and the service if an own address is lost.

use crate::ip::own_address::{AddressState, LostAddress};
use crate::stack::Stack;
use crate::tcp::Env;
use crate::transport::tables::env;
use qanat_api::{CloseReason, Event};
use qanat_nic::{Time, Vnic};
use qanat_wire::ethernet::MacAddress;
use std::net::IpAddr;

impl Stack {
    /// An address is another's: what was done from it ends, the device leaves it to others unless another address takes its
    /// place, and the service is told.
    pub(crate) fn give_address_up(&mut self, now: Time, vnic: &mut dyn Vnic, lost: LostAddress) {
        let LostAddress { address, holder, is_replaced } = lost;
        self.drop_connections_of(now, address);
        if !is_replaced {
            vnic.release_address(address);
            self.lost_address.get_or_insert((address, holder));
        }
        self.events.push_back(Event::AddressConflict { address, holder });
    }

    /// The first own address that was found to be another's, and the host that has it. Gives `None` while any own address is left.
    pub fn lost_address(&self) -> Option<(IpAddr, MacAddress)> {
        let are_all_lost = || self.network.routes.addresses().all(|(.., state)| state == AddressState::Duplicate);
        self.lost_address.filter(|_| are_all_lost())
    }

    /// Ends what was done from addresses whose lifetime is over.
    pub(crate) fn drop_lost_addresses(&mut self, now: Time) {
        for address in std::mem::take(&mut self.network.autoconfigured.lost) {
            self.drop_connections_of(now, address.into());
        }
    }

    /// Own addresses with the lengths of their prefixes, and whether each may be used.
    pub fn addresses(&self) -> impl Iterator<Item = (IpAddr, u8, AddressState)> + '_ {
        self.network.routes.addresses()
    }

    /// Ends what an optimistic address was used for. Nothing is sent: the address is another's.
    pub(crate) fn drop_connections_of(&mut self, now: Time, address: IpAddr) {
        // A walk over all connections, once an address at most.
        let lost: Vec<u32> = self
            .transport
            .connections
            .iter()
            .filter(|(_, slot)| slot.key.local_address() == address)
            .map(|(slot, _)| slot)
            .collect();
        for slot in lost {
            if let Some(connection) = self.transport.connections.at_mut(slot) {
                let disposition = connection.tcp.vanish(CloseReason::Unreachable, &mut env!(self, now));
                self.settle(now, slot, disposition);
            }
        }
    }

    /// Whether an own address may be used. Gives `None` if it is not ours.
    pub fn address_state(&self, address: IpAddr) -> Option<AddressState> {
        self.network.routes.state(address)
    }
}
