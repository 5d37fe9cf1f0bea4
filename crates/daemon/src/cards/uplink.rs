//! The uplink: a physical NIC, or a veth device standing in for one, from which what is for a VNIC leaves the kernel's path.
//!
//! A VNIC whose addresses are in the uplink's prefixes is on its wire, if its rule says `uplink = true`:
//!
//! * with addresses of its own it has its own Ethernet address there, and answers ARP and ND itself;
//! * with an address that is the kernel's too (`shared`) it has nothing but its services of it. On the wire it goes by the
//!   uplink's Ethernet address, the kernel answers who asks for that, and answers to what the VNIC asked are the VNIC's.
//!
//! Everything else on the uplink is the kernel's, as if this were not there. The NIC's driver must be able to send what XDP
//! programs redirect to it (`ndo_xdp_xmit`); so veth's peer must have GRO or an XDP program.

use crate::error::{DaemonError, say};
use crate::fence::tables::{self, FLAG_SHARED, FLAG_UPLINK, Tables};
use crate::policy::{Policy, Rule};
use qanat_control::address::Address;
use qanat_control::filter::Addresses;
use qanat_control::protocol::VnicWish;
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::link::{self, Link};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The uplink, as it was when the daemon started.
pub(crate) struct Uplink {
    pub(crate) link: Link,
    /// The kernel's own addresses on it.
    pub(crate) addresses: Vec<(Address, u8)>,
    prefixes: Vec<Addresses>,
    /// Next hops off the prefixes.
    pub(crate) gateways: Vec<Address>,
}

impl Uplink {
    /// Takes the policy's, if it names one: attaches to it.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn take(policy: &Policy, tables: &mut Tables) -> Result<Option<Uplink>, DaemonError> {
        let Some(wanted) = &policy.uplink else { return Ok(None) };
        let name = &wanted.interface;
        let explain = |what: &str| {
            let what = format!("uplink {name}: {what}");
            move |error: std::io::Error| say(&what, error)
        };
        let link = link::link(name).map_err(explain("look at it"))?;
        if !link.is_up {
            return Err(format!("uplink {name} is down: ip link set {name} up").into());
        }
        let addresses = link::addresses(link.index).map_err(explain("read its addresses"))?;
        let addresses: Vec<(Address, u8)> = addresses.into_iter().map(|(own, length)| (own.into(), length)).collect();
        let of_kernel = |(address, length): &(Address, u8)| Addresses::prefix(**address, *length);
        let prefixes: Vec<Addresses> = match wanted.prefixes.is_empty() {
            true => addresses.iter().filter_map(of_kernel).collect(),
            false => wanted.prefixes.clone(),
        };
        let program = tables.other("uplink")?;
        let own = tables::program_id(program, "uplink")?;
        if link.xdp_program.is_some_and(|id| id != own && !tables::is_called(id, "uplink")) {
            return Err(format!("uplink {name} has another's XDP program: ip link set {name} xdp off").into());
        }
        if prefixes.is_empty() {
            return Err(format!(
                "uplink {name} has no address: name its prefixes ([uplink] prefixes = [\"192.0.2.0/24\"])"
            )
            .into());
        }
        let gateways = match wanted.gateways.is_empty() {
            true => default_gateways(link.index),
            false => wanted.gateways.clone(),
        };
        tables.set_uplink(link.index, link.mac.0)?;
        tables.set_gateways(&gateways)?;
        // Tags must be where the program looks for them; a device that has no such offload has them there.
        let _ = link::keep_vlan_tags(name);
        // VNICs have Ethernet addresses of their own.
        link::set_promiscuous(link.index).map_err(explain("have it take others' Ethernet addresses"))?;
        link::set_xdp(link.index, tables.other("uplink")?).map_err(explain(
            "attach to it; its driver must have native XDP, its MTU must suit that, and no other XDP program be there",
        ))?;
        Ok(Some(Uplink { link, addresses, prefixes, gateways }))
    }

    /// It has changed: cards that go by its Ethernet address go by the one it has now.
    ///
    /// # Errors
    /// It is gone, or the table can't be written.
    pub(crate) fn follow(&mut self, tables: &mut Tables) -> Result<(), DaemonError> {
        let name = &self.link.name;
        let now = link::link_by_index(self.link.index).map_err(|error| {
            format!("uplink {name} is gone ({error}): cards on its wire are cut off until the daemon is reloaded")
        })?;
        if now.mac != self.link.mac {
            tables.set_uplink(now.index, now.mac.0)?;
            self.link.mac = now.mac;
        }
        Ok(())
    }

    /// Next hops, as a card is told them.
    pub(crate) fn gateways(&self) -> Vec<IpAddr> {
        self.gateways.iter().map(|gateway| gateway.ip()).collect()
    }

    /// Gives it back to the kernel.
    pub(crate) fn release(&self) {
        // Gone meanwhile: just as well.
        let _ = link::clear_xdp(self.link.index);
    }

    fn holds(&self, address: Address) -> bool {
        self.prefixes.iter().any(|prefix| prefix.contains(Addresses::host(*address)))
    }

    fn is_kernels(&self, address: Address) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }
}

/// The flags a VNIC has by what it wishes and its rule allows.
///
/// # Errors
/// The refusal.
pub(crate) fn flags(uplink: Option<&Uplink>, rule: &Rule, wish: &VnicWish) -> Result<u32, Refusal> {
    let addresses = || wish.addresses.iter().map(|(address, _)| *address);
    let on_wire = uplink.filter(|uplink| rule.uplink && addresses().all(|address| uplink.holds(address)));
    if !wish.shared {
        return Ok(if on_wire.is_some() { FLAG_UPLINK } else { 0 });
    }
    let Some(uplink) = on_wire else {
        let text = format!(
            "rule \"{}\" allows no address shared with the kernel: it needs `uplink = true`, and an uplink that has it",
            rule.name
        );
        return Err(Refusal::new(Cause::Forbidden, text));
    };
    if !addresses().all(|address| uplink.is_kernels(address)) {
        return Err("a shared address is an address of the kernel's on the uplink".into());
    }
    let all = |service: &qanat_control::filter::Service| service.ports.first == 0 && service.ports.last == u16::MAX;
    if wish.services.is_empty() || wish.services.iter().any(all) {
        return Err("of a shared address name the ports that are to be yours: the rest is the kernel's".into());
    }
    Ok(FLAG_UPLINK | FLAG_SHARED)
}

/// The kernel's next hops to elsewhere through an interface.
pub(crate) fn default_gateways(index: u32) -> Vec<Address> {
    // Addresses off every local prefix ask for the default route; nothing is sent there (RFC 5737, RFC 3849).
    let elsewhere = [Ipv4Addr::new(203, 0, 113, 1).into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()];
    let found = elsewhere.into_iter().filter_map(|address| link::route_to(address).ok());
    found.filter(|route| route.interface_index == index).filter_map(|route| Some(route.gateway?.into())).collect()
}
