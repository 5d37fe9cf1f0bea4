//! Which addresses a client may have: one place for every reason why not.

use super::Daemon;
use super::vnic::{ADDRESSES_MAX, Vnic};
use crate::address::Address;
use crate::filter::Addresses;
use crate::policy::Rule;
use crate::protocol::{Provider, VnicWish};
use qanat_nic::link;

/// Letters of a VNIC's name at most.
const NAME_MAX: usize = 64;

/// Whether a card may be called so: what lists show of it must not change what they show of others.
///
/// # Errors
/// What it may be.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    match name.chars().count() <= NAME_MAX && !name.chars().any(is_unseen) {
        true => Ok(()),
        false => Err(format!(
            "a VNIC's name has at most {NAME_MAX} letters, and no characters that control, turn round, or can't be seen"
        )),
    }
}

/// Controls, separators of lines, marks of direction, and what takes no room (Unicode's categories Cc, Cf, Zl and Zp).
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

impl Daemon {
    /// Whether a card may have the addresses it wishes for.
    ///
    /// # Errors
    /// Names the address, and who has it or which rule forbids it.
    pub(super) fn check_claims(&self, rule: &Rule, wish: &VnicWish) -> Result<(), String> {
        if wish.addresses.is_empty() || wish.addresses.len() > ADDRESSES_MAX {
            return Err(format!("a VNIC has 1 to {ADDRESSES_MAX} addresses, not {}", wish.addresses.len()));
        }
        let uplink = || self.uplink.iter().flat_map(|uplink| uplink.addresses.iter().copied());
        let links: Vec<(Address, u8)> = self.policy.host.iter().copied().chain(uplink()).collect();
        for (number, (address, length)) in wish.addresses.iter().enumerate() {
            if Addresses::prefix(**address, *length).is_none() {
                return Err(format!("{address}/{length}: no such prefix length"));
            }
            rule.check_address(*address)?;
            address.check_claim(*length, &links)?;
            let is_it = |(other, _): &(Address, u8)| other == address;
            let of_vnic = |vnic: &Vnic| vnic.wish.addresses.iter().any(is_it);
            let is_twice = wish.addresses.iter().take(number).any(is_it);
            let is_hosts = self.policy.host.iter().any(is_it) || (!wish.shared && uplink().any(|other| is_it(&other)));
            if is_twice || is_hosts || self.vnics.values().any(of_vnic) {
                return Err(format!("address {address} is taken: choose another (--address)"));
            }
            if self.uplink.iter().any(|uplink| uplink.gateways.contains(address)) {
                return Err(format!("address {address} is the router's on the uplink: choose another (--address)"));
            }
            // The kernel's own on any interface: other cards would find this one where they look for the kernel. Of a NIC whose
            // queues are wished for its own addresses are looked at with it.
            let is_apart = !wish.shared && wish.provider == Provider::Veth;
            if is_apart && link::route_to(**address).is_ok_and(|route| route.is_local) {
                return Err(format!("address {address} is this machine's own: choose another (--address)"));
            }
        }
        Ok(())
    }
}
