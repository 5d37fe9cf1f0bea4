//! What the launcher says in the environment: which card the program is to have.

use crate::sys::script_time::is_on;
use qanat::OwnDevice;
use qanat_control::address::Address;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What it wants.
pub(crate) struct Wishes {
    /// Addresses and prefix lengths; the first is the one that what is bound to nothing gets.
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) socket: Option<PathBuf>,
    /// An interface that is there already, instead of a card of the daemon's.
    pub(crate) interface: Option<String>,
    pub(crate) mtu: u32,
    pub(crate) device: OwnDevice,
    /// Nobody has asked for these addresses: others will do.
    pub(crate) any_address: bool,
    /// The launcher's name for what it has started.
    pub(crate) run: String,
}

fn prefixed(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = Address::parse_prefixed(text).ok()?;
    Some((address.ip(), length))
}

impl Wishes {
    /// A script's.
    pub(crate) fn of_script(addresses: Vec<(IpAddr, u8)>, mtu: u16) -> Wishes {
        Wishes {
            addresses,
            gateway: None,
            socket: None,
            interface: None,
            mtu: mtu.into(),
            device: OwnDevice::default(),
            any_address: false,
            run: String::new(),
        }
    }
}

/// A script's wishes; else what the environment says.
static SCRIPTED: OnceLock<Wishes> = OnceLock::new();

/// Wishes by other means than the environment.
pub(crate) fn wish(wishes: Wishes) {
    // The first counts.
    let _ = SCRIPTED.set(wishes);
}

/// `None`: the program was not started by the launcher, and everything is the kernel's.
pub(crate) fn wishes() -> Option<&'static Wishes> {
    static WISHES: OnceLock<Option<Wishes>> = OnceLock::new();
    if is_on() {
        return SCRIPTED.get();
    }
    let read = || {
        let addresses: Vec<_> = std::env::var("QANAT_ADDRESSES").ok()?.split(',').filter_map(prefixed).collect();
        addresses.first()?;
        let gateway = std::env::var("QANAT_GATEWAY").ok().and_then(|text| text.parse().ok());
        let mtu = std::env::var("QANAT_MTU").ok().and_then(|text| text.parse().ok()).unwrap_or(1_500);
        let interface = std::env::var("QANAT_INTERFACE").ok();
        let device = match std::env::var("QANAT_DEVICE").as_deref() {
            Ok("tap") => OwnDevice::Tap,
            Ok("veth") => OwnDevice::Veth,
            _ => OwnDevice::TapOrVeth,
        };
        let socket = std::env::var_os("QANAT_SOCKET").map(PathBuf::from).filter(|_| interface.is_none());
        let any_address = std::env::var_os("QANAT_ANY_ADDRESS").is_some();
        let run = std::env::var("QANAT_RUN").unwrap_or_default();
        Some(Wishes { addresses, gateway, socket, interface, mtu, device, any_address, run })
    };
    WISHES.get_or_init(read).as_ref()
}

pub(crate) fn contains((base, length): (IpAddr, u8), address: IpAddr) -> bool {
    match (base, address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            (base.to_bits() ^ address.to_bits()) & mask == 0
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            (base.to_bits() ^ address.to_bits()) & mask == 0
        }
        _ => false,
    }
}

/// Whether `address` is that of everybody on the VNIC's link.
pub(crate) fn is_everybody(address: IpAddr) -> bool {
    let IpAddr::V4(address) = address else { return false };
    let is_last = |(base, length): &(IpAddr, u8)| {
        let host = u32::MAX.checked_shr(u32::from(*length)).unwrap_or(0);
        base.is_ipv4() && contains((*base, *length), address.into()) && *length < 31 && address.to_bits() & host == host
    };
    address.is_broadcast() || wishes().is_some_and(|wishes| wishes.addresses.iter().any(is_last))
}

/// Whether `address` is on the VNIC's link: in a prefix of its addresses.
pub(crate) fn is_on_link(address: IpAddr) -> bool {
    wishes().is_some_and(|wishes| wishes.addresses.iter().any(|prefix| contains(*prefix, address)))
}
