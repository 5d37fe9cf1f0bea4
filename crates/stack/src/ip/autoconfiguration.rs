//! Stateless address autoconfiguration (RFC 4862) with stable identifiers that tell nothing (RFC 7217): off unless
//! configured.
//!
//! ```text
//!  start ── link-local address, on trial ── router solicitation
//!  advertisement, prefix of 64 bits with A ── address, on trial ── usable ── deprecated (used last) ── gone
//! ```

use crate::config::Autoconfiguration;
use crate::ip::formed_address::{Formed, until};
use crate::ip::network::Network;
use qanat_nic::{Time, Vnic};
use qanat_wire::neighbor_discovery::Prefix;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Addresses formed at most, beside the link-local one: routers are not asked how many prefixes they announce.
const ADDRESSES_MAX: usize = 4;
/// Identifiers tried for one prefix (RFC 7217 section 7, IDGEN_RETRIES).
const ATTEMPTS_MAX: u8 = 3;
/// Bits of a prefix that an address is formed from (RFC 4291 section 2.5.1).
const PREFIX_LENGTH: u8 = 64;
/// RFC 4862 section 5.5.3 (e): a shorter lifetime is believed only down to this, or a forged message would end addresses.
const TWO_HOURS: Duration = Duration::from_secs(7_200);
const LINK_LOCAL: Prefix = Prefix {
    address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
    length: PREFIX_LENGTH,
    on_link: true,
    autonomous: true,
    valid_lifetime_s: u32::MAX,
    preferred_lifetime_s: u32::MAX,
};

/// Whether an interface identifier is reserved (RFC 5453).
fn is_reserved(identifier: u64) -> bool {
    identifier == 0
        || (0xfdff_ffff_ffff_ff80..=0xfdff_ffff_ffff_ffff).contains(&identifier)
        || (0x0200_5eff_fe00_0000..=0x0200_5eff_feff_ffff).contains(&identifier)
}

impl Network {
    /// The address for a prefix (RFC 7217 section 5).
    fn form(&self, settings: &Autoconfiguration, prefix: Ipv6Addr, attempt: u8) -> Ipv6Addr {
        let network = prefix.to_bits() & u128::MAX << 64;
        let mut counter = u32::from(attempt);
        // Ends: not one in 2^40 identifiers is reserved.
        loop {
            let mut hasher = SipHasher24::new_with_key(&settings.secret);
            hasher.write_u128(network);
            hasher.write(&self.link.mac.0);
            hasher.write_u16(self.link.vlan);
            hasher.write_u32(counter);
            let identifier = hasher.finish();
            if !is_reserved(identifier) {
                return Ipv6Addr::from_bits(network | u128::from(identifier));
            }
            counter = counter.wrapping_add(1 << 8);
        }
    }

    /// Prefixes of a router advertisement that is valid (RFC 4861 section 6.1.2).
    pub(super) fn learn_prefixes<'a>(
        &mut self,
        now: Time,
        vnic: &mut dyn Vnic,
        prefixes: impl Iterator<Item = &'a Prefix>,
    ) {
        if self.autoconfigured.settings.is_none() {
            return;
        }
        for prefix in prefixes {
            // RFC 4862 section 5.5.3 (a) to (d).
            if !prefix.autonomous
                || prefix.length != PREFIX_LENGTH
                || prefix.address.is_unicast_link_local()
                || prefix.address.is_multicast()
                || prefix.preferred_lifetime_s > prefix.valid_lifetime_s
            {
                self.counters.router_prefixes_ignored += 1;
                continue;
            }
            self.learn_prefix(now, vnic, *prefix);
        }
    }

    fn learn_prefix(&mut self, now: Time, vnic: &mut dyn Vnic, prefix: Prefix) {
        let network = |address: Ipv6Addr| address.to_bits() >> 64;
        let valid_until = until(now, prefix.valid_lifetime_s);
        let same = |formed: &&mut Formed| network(formed.prefix.address) == network(prefix.address);
        if let Some(formed) = self.autoconfigured.formed.iter_mut().find(same) {
            formed.preferred_until = until(now, prefix.preferred_lifetime_s);
            formed.deprecated &= formed.preferred_until <= now;
            // (e): "the Two-Hour rule".
            if valid_until.since(now) > TWO_HOURS || valid_until > formed.valid_until {
                formed.valid_until = valid_until;
            } else if formed.valid_until.since(now) > TWO_HOURS {
                formed.valid_until = now + TWO_HOURS;
            }
            return;
        }
        let full = self.autoconfigured.formed.len() > ADDRESSES_MAX;
        if prefix.valid_lifetime_s == 0 || full || !self.add_formed(now, vnic, prefix, 0) {
            self.counters.router_prefixes_ignored += 1;
        }
    }

    /// Forms an address and puts it on trial.
    fn add_formed(&mut self, now: Time, vnic: &mut dyn Vnic, prefix: Prefix, attempt: u8) -> bool {
        let Some(settings) = self.autoconfigured.settings else { return false };
        let address = self.form(&settings, prefix.address, attempt);
        if self.routes.is_own(address.into()) || !vnic.claim_address(address.into()) {
            return false;
        }
        self.autoconfigured.formed.push(Formed {
            prefix,
            address,
            attempt,
            valid_until: until(now, prefix.valid_lifetime_s),
            preferred_until: until(now, prefix.preferred_lifetime_s),
            deprecated: false,
        });
        // Neighbours only of a prefix that the router says is on the link (RFC 4861 section 6.3.4).
        self.routes.add(address.into(), if prefix.on_link { prefix.length } else { 128 });
        self.counters.addresses_formed += 1;
        self.start_detection_of(address, now);
        true
    }

    /// Another has `address`: if it was formed here, the next one is (RFC 7217 section 6). False: it was given.
    pub(super) fn replace_formed(&mut self, now: Time, vnic: &mut dyn Vnic, address: Ipv6Addr) -> bool {
        let formed = &mut self.autoconfigured.formed;
        let Some(index) = formed.iter().position(|formed| formed.address == address) else { return false };
        let Formed { prefix, attempt, .. } = formed.remove(index);
        self.remove_formed(now, vnic, address);
        if attempt + 1 < ATTEMPTS_MAX {
            self.add_formed(now, vnic, prefix, attempt + 1);
        }
        true
    }

    fn remove_formed(&mut self, now: Time, vnic: &mut dyn Vnic, address: Ipv6Addr) {
        self.routes.remove(address.into());
        self.end_detection_of(address);
        self.listener.change(address, false, now);
        vnic.release_address(address.into());
        self.autoconfigured.lost.push(address);
    }

    /// Begins with the link-local address; deprecates and forgets addresses whose time is over.
    pub(super) fn poll_autoconfiguration(&mut self, now: Time, vnic: &mut dyn Vnic) {
        if std::mem::take(&mut self.autoconfigured.begins) {
            let has_one = self.routes.own_v6().any(|address| address.is_unicast_link_local());
            if !has_one {
                self.add_formed(now, vnic, LINK_LOCAL, 0);
            }
        }
        let mut index = 0;
        while let Some(formed) = self.autoconfigured.formed.get_mut(index) {
            let address = formed.address;
            if formed.valid_until <= now {
                self.autoconfigured.formed.remove(index);
                self.remove_formed(now, vnic, address);
                continue;
            }
            if formed.preferred_until <= now && !std::mem::replace(&mut formed.deprecated, true) {
                self.routes.defer(address.into());
            }
            index += 1;
        }
    }
}
