//! Provider `veth`: a pair of devices as a VNIC, fenced in both directions.

use crate::cards::maker::Maker;
use crate::cards::uplink;
use crate::cards::vnic::{Frame, Site, Vnic, own_all};
use crate::error::{DaemonError, say};
use crate::fence::tables::{FLAG_SWITCH, FLAG_UPLINK, Tables};
use qanat_control::address::Address;
use qanat_control::filter::Addresses;
use qanat_control::protocol::VnicWish;
use qanat_control::refusal::Refusal;
use qanat_nic::link::{self, Feature, Link, Namespace};
use std::net::IpAddr;

/// Names tried after `qanat`.
pub(crate) const NAMES_MAX: u32 = 512;
/// Packets of a VNIC, bytes.
const MTU: std::ops::RangeInclusive<u32> = 576..=9_000;
/// RFC 8200 §5.
const IPV6_MTU_MIN: u32 = 1_280;

/// Makes a card's addresses and devices known to the programs.
pub(crate) fn enter(
    tables: &mut Tables,
    slot: u32,
    wish: &VnicWish,
    host: &Link,
    end: &Link,
) -> Result<(), DaemonError> {
    own_all(tables, slot, wish)?;
    tables.name_card(slot, end.mac.0)?;
    tables.connect(slot, host.index, end.index)?;
    tables.open_port(slot, host.index)
}

impl Vnic {
    /// Makes the device, fenced from its first packet on: until its row says otherwise everything is dropped.
    pub(crate) fn make(site: &mut Site<'_>, slot: u32, mut wish: VnicWish, maker: Maker) -> Result<Vnic, Refusal> {
        wish.queues = wish.queues.max(1);
        wish.mtu = if wish.mtu == 0 { 1_500 } else { wish.mtu };
        if !MTU.contains(&wish.mtu) {
            return Err(format!("MTU {}: must be from {} to {}", wish.mtu, MTU.start(), MTU.end()).into());
        }
        if wish.mtu < IPV6_MTU_MIN && wish.addresses.iter().any(|(address, _)| !address.is_ipv4()) {
            return Err(format!("MTU {}: must be {IPV6_MTU_MIN} or more with an IPv6 address", wish.mtu).into());
        }
        let end_name = format!("vnic{slot}");
        let host = make_veth(slot, &end_name, site.ends, wish.mtu)?;
        let host_index = host.index;
        let made = Vnic::set_up(site, slot, wish, maker, host, &end_name);
        if made.is_err() {
            let _ = link::delete(host_index);
        }
        made
    }

    /// The second half of `make`.
    fn set_up(
        site: &mut Site<'_>,
        slot: u32,
        wish: VnicWish,
        maker: Maker,
        host: Link,
        end_name: &str,
    ) -> Result<Vnic, Refusal> {
        let rule = &maker.rule;
        let tables = &mut *site.tables;
        link::set_xdp(host.index, tables.gate()).map_err(|error| say("attach the gate", error))?;
        // What passes the gate goes up in as few pieces as may be: up to half as much again for the kernel's clients.
        let _ = link::set_feature(&host.name, Feature::GenericReceive, true);
        let deliver = tables.deliver();
        let end = site.ends.within(|| -> std::io::Result<Link> {
            let end = link::link(end_name)?;
            link::set_xdp(end.index, deliver)?;
            link::set_up(end.index)?;
            // With TSO on, veth judges frames from here unfit for GRO and skips batching at the other end.
            let _ = link::set_feature(end_name, Feature::TcpSegmentation, false);
            Ok(end)
        });
        let end = end.and_then(|result| result).map_err(|error| say("set up the VNIC's end", error))?;
        link::set_up(host.index).map_err(|error| say("set up the kernel's end", error))?;
        let mut flags = uplink::flags(site.uplink, rule, &wish)?;
        let wire = site.uplink.filter(|_| flags & FLAG_UPLINK != 0);
        let gateways = match wire {
            // The kernel has the address itself.
            Some(uplink) if wish.shared => uplink.gateways(),
            Some(uplink) => {
                let near: Vec<(Address, u8)> = uplink.addresses.iter().chain(site.host).copied().collect();
                address_host(&host, &wish.addresses, &near)?;
                uplink.gateways()
            }
            None => address_host(&host, &wish.addresses, site.host)?,
        };
        flags |= if rule.switch { FLAG_SWITCH } else { 0 };
        let row = maker.write_row(tables, slot, &wish, [end.mac.0, host.mac.0], flags)?;
        let entered = enter(tables, slot, &wish, &host, &end);
        let mut vnic = Vnic::assemble(slot, wish, maker, Frame { host, end, gateways, row });
        match entered.and_then(|()| vnic.write_filters(tables)) {
            Ok(()) => Ok(vnic),
            Err(error) => {
                // Rows that stayed would be nobody's to give away again.
                vnic.remove(tables, site.ends);
                Err(error.into())
            }
        }
    }
}

/// A device whose one end is here, under the first free name from the VNIC's number on, and whose other end is called
/// `end_name`.
fn make_veth(slot: u32, end_name: &str, ends: &Namespace, mtu: u32) -> Result<Link, DaemonError> {
    for number in slot..slot + NAMES_MAX {
        let name = format!("qanat{number}");
        match link::make_veth(&name, end_name, ends, mtu, 1) {
            Ok(()) => return link::link(&name).map_err(|error| say("find the veth device", error)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(say("make a veth device", error)),
        }
    }
    Err(format!("{NAMES_MAX} interfaces are called qanat…: remove some").into())
}

/// Gives the kernel's end an address towards each of the VNIC's, and only towards it; returns these.
pub(crate) fn address_host(
    host: &Link,
    addresses: &[(Address, u8)],
    own: &[(Address, u8)],
) -> Result<Vec<IpAddr>, DaemonError> {
    let mut gateways = Vec::new();
    for (address, _) in addresses {
        let family = |(candidate, _): &&(Address, u8)| candidate.is_ipv4() == address.is_ipv4();
        let near = |(candidate, length): &&(Address, u8)| {
            let prefix = Addresses::prefix(**candidate, *length);
            prefix.is_some_and(|prefix| prefix.contains(Addresses::host(**address)))
        };
        let Some((gateway, _)) = own.iter().find(near).or_else(|| own.iter().find(family)) else {
            return Err(format!("{address}: the kernel has no address of that family here: add one to `host`").into());
        };
        let gateway = gateway.ip();
        let is_there = gateways.contains(&gateway);
        match gateway.is_ipv6() && is_there {
            // The kernel keeps an IPv6 address once an interface, whatever its peer.
            true => link::add_route(host.index, address.ip(), gateway),
            false => link::add_peer_address(host.index, gateway, address.ip()),
        }
        .map_err(|error| say("give the kernel's end a way to an address", error))?;
        if !is_there {
            gateways.push(gateway);
        }
    }
    Ok(gateways)
}
