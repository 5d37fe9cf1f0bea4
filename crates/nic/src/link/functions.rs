//! Virtual functions of an interface's card (SR-IOV), as its driver is told of them.

use super::netlink::{Message, interface_header, request};
use qanat_wire::ethernet::MacAddress;
use std::io;

/// `IFLA_VF_INFO`, in a list of them.
const INFO: u16 = 1;
/// What is said of one: numbers of `linux/if_link.h`.
const MAC: u16 = 1;
const VLAN: u16 = 2;
const SPOOFCHK: u16 = 4;
const RATE: u16 = 6;
/// Bytes of the longest hardware address.
const ADDRESS_BYTES: usize = 32;

/// Words as a structure has them.
fn words(of: &[u32]) -> Vec<u8> {
    of.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn set(index: u32, kind: u16, value: &[u8]) -> io::Result<()> {
    let message = Message::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &interface_header(index, 0, 0));
    let message = message.nest(libc::IFLA_VFINFO_LIST, &[], |list| {
        list.nest(INFO, &[], |information| information.attribute(kind, value))
    });
    request(message)?;
    Ok(())
}

/// Gives virtual function `function` of the card of interface `index` an Ethernet address and a VLAN (0: none), which its holder can't
/// change; and has the card drop what it sends from another address, or in another VLAN.
///
/// # Errors
/// What netlink says: the driver may not be able to do that.
pub fn set_function(index: u32, function: u32, mac: MacAddress, vlan: u16) -> io::Result<()> {
    let mut address = words(&[function]);
    address.extend(mac.0);
    address.resize(4 + ADDRESS_BYTES, 0);
    set(index, SPOOFCHK, &words(&[function, 1]))?;
    set(index, VLAN, &words(&[function, u32::from(vlan), 0]))?;
    set(index, MAC, &address)
}

/// Limits what virtual function `function` of the card of interface `index` sends, in Mbit/s; 0: no limit.
///
/// # Errors
/// What netlink says: the driver may not be able to do that, or the link be down.
pub fn set_function_rate(index: u32, function: u32, mbit_per_s: u32) -> io::Result<()> {
    set(index, RATE, &words(&[function, 0, mbit_per_s]))
}
