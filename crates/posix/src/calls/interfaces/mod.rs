//! The card as one of the program's interfaces. Programs that ask which addresses the machine has (`getifaddrs`, `ioctl`, netlink) are told
//! of the card as well as of the kernel's interfaces. Its name and number are those of no interface of the kernel's.

mod list;
pub(super) mod netlink;
pub(super) mod request;

use crate::lifecycle::attach::attach_to_send;
use crate::sys::wishes::wishes;
use crate::world::lock::lock;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

/// The interface's name. The kernel's end of a daemon's card is called `qanat0` and the like.
pub(crate) const NAME: &CStr = c"qanat-card";
/// Its number: far beyond those that the kernel gives, which count up from 1, and small enough for programs that take it for a signed one.
pub(crate) const INDEX: u32 = 0x0100_0000;
/// As `SIOCGIFFLAGS` and netlink say it: up, with a carrier.
const FLAGS: u32 = (libc::IFF_UP | libc::IFF_BROADCAST | libc::IFF_RUNNING | libc::IFF_MULTICAST) as u32 | LOWER_UP;
const LOWER_UP: u32 = 1 << 16;
/// Packets that may wait to be sent, as `txqueuelen` is for most devices.
const QUEUE_LENGTH: u32 = 1_000;

/// What is told of the card.
#[derive(Clone, Debug)]
struct Card {
    mtu: u32,
    mac: [u8; 6],
    addresses: Vec<(IpAddr, u8)>,
}

/// What was known of it last: a process that has left the card's memory to others can't look.
static KNOWN: Mutex<Option<Card>> = Mutex::new(None);

/// The card, which the program gets now if it has none: which address it has is not known before. `None`: there is none.
fn card() -> Option<Card> {
    let wishes = wishes().filter(|_| {
        !crate::sys::arena::is_inside() && !crate::sys::local::is_held() && !crate::sys::script_time::is_on()
    })?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if crate::sys::this_process::standing::is_out() {
        return known.clone();
    }
    if !attach_to_send() {
        return None;
    }
    let mut addresses = Vec::with_capacity(wishes.addresses.len());
    if let Ok(guard) = lock() {
        let capabilities = guard.vnic.look().capabilities();
        // There are as many as were wished for; with the lock held nothing may be taken for this process alone.
        let count = addresses.capacity();
        addresses.extend(guard.addresses.iter().take(count).copied());
        let (mtu, mac) = (u32::from(capabilities.mtu), capabilities.mac.0);
        drop(guard);
        *known = Some(Card { mtu, mac, addresses });
    }
    known.clone()
}

impl Card {
    fn first_four(&self) -> Option<(Ipv4Addr, u8)> {
        self.fours().next()
    }

    fn fours(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> + '_ {
        self.addresses.iter().filter_map(|(address, length)| match address {
            IpAddr::V4(four) => Some((*four, *length)),
            IpAddr::V6(_) => None,
        })
    }
}

/// The mask of a prefix.
fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::from_bits(bits_four(length)).into(),
        IpAddr::V6(_) => {
            Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0)).into()
        }
    }
}

fn bits_four(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0)
}

/// The address of everybody in a prefix.
fn broadcast((address, length): (Ipv4Addr, u8)) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() | !bits_four(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_have_masks_and_an_address_of_everybody() {
        let four = Ipv4Addr::new(10, 77, 0, 2);
        assert_eq!(mask(four.into(), 24).to_string(), "255.255.255.0");
        assert_eq!(mask(four.into(), 0).to_string(), "0.0.0.0");
        assert_eq!(mask(four.into(), 32).to_string(), "255.255.255.255");
        assert_eq!(mask("fd77::2".parse().unwrap(), 64).to_string(), "ffff:ffff:ffff:ffff::");
        assert_eq!(broadcast((four, 24)).to_string(), "10.77.0.255");
        assert_eq!(broadcast((four, 32)), four);
    }
}
