//! Which addresses a client may have: one place for every reason why not.

use crate::cards::vnic::{ADDRESSES_MAX, Vnic};
use crate::daemon::Daemon;
use crate::policy::Rule;
use qanat_control::address::Address;
use qanat_control::filter::Addresses;
use qanat_control::protocol::{Provider, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::link;

impl Daemon {
    /// Whether a card may have the addresses it wishes for.
    ///
    /// # Errors
    /// Names the address, and who has it or which rule forbids it.
    pub(crate) fn check_claims(&self, rule: &Rule, wish: &VnicWish) -> Result<(), Refusal> {
        if wish.addresses.is_empty() || wish.addresses.len() > ADDRESSES_MAX {
            return Err(format!("a VNIC has 1 to {ADDRESSES_MAX} addresses, not {}", wish.addresses.len()).into());
        }
        let uplink = || self.uplink.iter().flat_map(|uplink| uplink.addresses.iter().copied());
        let links: Vec<(Address, u8)> = self.policy.host.iter().copied().chain(uplink()).collect();
        for (number, (address, length)) in wish.addresses.iter().enumerate() {
            if Addresses::prefix(**address, *length).is_none() {
                return Err(format!("{address}/{length}: no such prefix length").into());
            }
            rule.check_address(*address)?;
            address.check_claim(*length, &links)?;
            let is_it = |(other, _): &(Address, u8)| other == address;
            let of_vnic = |vnic: &Vnic| vnic.wish.addresses.iter().any(is_it);
            let is_twice = wish.addresses.iter().take(number).any(is_it);
            if !wish.shared && uplink().any(|other| is_it(&other)) {
                return Err(format!(
                    "address {address} is the kernel's on the uplink: choose another (--address), or share it (`qanat vnic create \
                     --shared --address {address}/{length} --service tcp/PORT`, and then --vnic with the number it says)"
                )
                .into());
            }
            if is_twice {
                return Err(format!("address {address} is named twice: name it once (--address)").into());
            }
            if self.policy.host.iter().any(is_it) || self.vnics.values().any(of_vnic) {
                let text = format!("address {address} is taken: choose another (--address)");
                return Err(Refusal::new(Cause::Taken, text));
            }
            if self.uplink.iter().any(|uplink| uplink.gateways.contains(address)) {
                return Err(
                    format!("address {address} is the router's on the uplink: choose another (--address)").into()
                );
            }
            // The kernel's own on any interface: other cards would find this one where they look for the kernel. Of a NIC whose
            // queues are wished for its own addresses are looked at with it.
            let is_apart = !wish.shared && matches!(wish.provider, Provider::Veth | Provider::Tap);
            if is_apart && link::route_to(**address).is_ok_and(|route| route.is_local) {
                return Err(format!("address {address} is this machine's own: choose another (--address)").into());
            }
            if is_apart {
                self.is_nobody_elses_network(*address)?;
            }
        }
        Ok(())
    }

    /// Whether the kernel's address by which a card is reached is on cards alone. On another interface it is a service's that has
    /// that network without the daemon: a route to a card in it would take the service's address away.
    fn is_nobody_elses_network(&self, address: Address) -> Result<(), Refusal> {
        let is_near = |(host, length): &&(Address, u8)| {
            Addresses::prefix(**host, *length).is_some_and(|prefix| prefix.contains(Addresses::host(*address)))
        };
        let Some((host, length)) = self.policy.host.iter().find(is_near) else { return Ok(()) };
        let owner = link::owner_of(**host).ok().flatten();
        // An address alone, on the loopback interface perhaps, is no network.
        let is_way = |index: &u32| {
            link::route_to(*address).is_ok_and(|route| route.interface_index == *index && route.gateway.is_none())
        };
        let is_card = |index: &u32| self.vnics.values().any(|vnic| vnic.host.index == *index);
        let Some(other) = owner.filter(|index| !is_card(index) && is_way(index)) else { return Ok(()) };
        let name = link::link_by_index(other).map_or_else(|_| other.to_string(), |link| link.name);
        Err(format!(
            "address {address}: the network of {host}/{length} is on {name} already, which is no card of the daemon's: end the service \
             that made it, and start it again, so that the daemon gives it a card; or have another network (`host` in the policy)"
        )
        .into())
    }
}
