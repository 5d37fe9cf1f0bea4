//! Which addresses may be claimed without a daemon, and which ports of the kernel's. A daemon checks the same for its cards.

use qanat_control::address::Address;
use qanat_control::field::Addresses;
use qanat_nic::DeviceError;
use qanat_nic::af_xdp::PortRange;
use qanat_nic::link::{self, Namespace};
use std::io;
use std::net::IpAddr;

/// Whether an address means another host on each link. One link is all there is here.
fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Checks what a user names, before anything is made: own addresses with the lengths of their prefixes, and the next hop.
///
/// # Errors
/// `Invalid`: an address that no host can have; a next hop that is an own address, or on the link of none. With the remedy.
pub fn check_addresses(addresses: &[(IpAddr, u8)], gateway: Option<IpAddr>) -> Result<(), DeviceError> {
    no_host_has(addresses)?;
    no_way_by(gateway, addresses)
}

/// Refuses addresses that no host can have: special ones, and a prefix's own and its broadcast address.
fn no_host_has(addresses: &[(IpAddr, u8)]) -> Result<(), DeviceError> {
    for (address, length) in addresses.iter().filter(|(address, _)| !is_link_local(*address)) {
        let claim = Address::from(*address).check_claim(*length, &[]);
        claim.map_err(|reason| DeviceError::Invalid { reason: format!("{reason}: name another with --address") })?;
    }
    Ok(())
}

/// Refuses a next hop that is oneself, or that no prefix of `addresses` has on the link.
pub(super) fn no_way_by(gateway: Option<IpAddr>, addresses: &[(IpAddr, u8)]) -> Result<(), DeviceError> {
    let Some(gateway) = gateway else { return Ok(()) };
    if addresses.iter().any(|(address, _)| *address == gateway) {
        let reason = format!("the next hop {gateway} is an own address: name the router's with --gateway");
        return Err(DeviceError::Invalid { reason });
    }
    let is_near = |(address, length): &(IpAddr, u8)| {
        Addresses::prefix(address.to_canonical(), *length)
            .is_some_and(|prefix| prefix.contains(Addresses::host(gateway.to_canonical())))
    };
    if is_link_local(gateway) || addresses.iter().any(is_near) {
        return Ok(());
    }
    let reason = format!(
        "the next hop {gateway} is on the link of no own address: give --gateway one that is, or --address a shorter prefix"
    );
    Err(DeviceError::Invalid { reason })
}

/// Refuses addresses that the kernel has on an interface other than `interface`: it would answer for them as well, and what this
/// machine sends there would never reach us.
pub(super) fn no_other_has(
    addresses: &[(IpAddr, u8)],
    interface: Option<&str>,
    namespace: Option<&Namespace>,
) -> Result<(), DeviceError> {
    let look = || -> io::Result<Option<(IpAddr, String)>> {
        let own = interface.map(link::link).transpose()?.map(|link| link.index);
        for (address, _) in addresses {
            if let Some(index) = link::owner_of(*address)?.filter(|index| Some(*index) != own) {
                return Ok(Some((*address, link::link_by_index(index)?.name)));
            }
        }
        Ok(None)
    };
    let found = match namespace {
        Some(namespace) => namespace.within(look).and_then(|found| found),
        None => look(),
    };
    // A missing interface is reported, with its remedy, when attaching to it.
    match found.ok().flatten() {
        Some((address, interface)) => Err(DeviceError::AddressTaken { address, interface }),
        None => Ok(()),
    }
}

/// Refuses ports of an address shared with the kernel at which it has a server, who would hear nothing any more. Of ranges nothing is
/// said: whoever asks for one may not want each port of it.
pub(super) fn no_server_has(
    services: &[PortRange],
    addresses: &[(IpAddr, u8)],
    namespace: Option<&Namespace>,
) -> Result<(), DeviceError> {
    let look = || {
        for PortRange { protocol, first, .. } in services.iter().filter(|range| range.first == range.last) {
            let is_taken = |(address, _): &&(IpAddr, u8)| link::kernel_listens(*protocol, *address, *first);
            if let Some((address, _)) = addresses.iter().find(is_taken) {
                return Err(DeviceError::PortTaken { address: *address, protocol: *protocol, port: *first });
            }
        }
        Ok(())
    };
    match namespace {
        Some(namespace) => namespace.within(look).unwrap_or(Ok(())),
        None => look(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixed(text: &str) -> (IpAddr, u8) {
        let (address, length) = text.split_once('/').unwrap();
        (address.parse().unwrap(), length.parse().unwrap())
    }

    #[test]
    fn addresses_and_next_hops_that_can_not_be_are_refused() {
        for good in ["10.77.0.2/24", "169.254.7.7/16", "fe80::5/64", "fd77::2/64", "::ffff:10.77.0.2/120"] {
            check_addresses(&[prefixed(good)], None).unwrap();
        }
        for wrong in
            ["10.77.0.0/24", "10.77.0.255/24", "224.0.0.1/24", "0.0.0.0/24", "127.0.0.1/8", "10.77.0.2/0", "ff02::1/64"]
        {
            let error = check_addresses(&[prefixed("10.77.0.2/24"), prefixed(wrong)], None).unwrap_err().to_string();
            assert!(error.contains("--address"), "{wrong}: {error}");
        }
        let by =
            |gateway: &str| check_addresses(&[prefixed("10.77.0.2/24"), prefixed("fd77::2/64")], gateway.parse().ok());
        for good in ["10.77.0.1", "fd77::1", "fe80::1", "::ffff:10.77.0.1"] {
            by(good).unwrap();
        }
        for wrong in ["10.77.0.2", "10.78.0.1", "fd78::1", "fd77::2"] {
            let error = by(wrong).unwrap_err().to_string();
            assert!(error.contains("--gateway"), "{wrong}: {error}");
        }
    }
}
