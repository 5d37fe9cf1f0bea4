//! What to attach: addresses, what goes over them, and where the card comes from.

use qanat_nic::af_xdp::{Mode, PortRange};
use qanat_nic::link::Namespace;
use qanat_nic::vfio::PciAddress;
use qanat_stack::DuplicateAddressDetection;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// MTU of a device that is made for us, unless another is named.
pub(super) const MTU: u32 = 1_500;

/// What is believed of IPv6 router advertisements. The kernel gets them too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RouterAdvertisements {
    /// Nothing.
    #[default]
    Ignore,
    /// That a router is there.
    Routers,
    /// That, and prefixes to form addresses from (RFC 4862), stable ones that tell nothing of the device (RFC 7217).
    Addresses,
}

/// Of which kind a device is that is made for us, by ourselves or by a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OwnDevice {
    /// One end of a veth pair, by AF_XDP: any number of queues, and the quickest way to a peer that uses AF_XDP as well.
    #[default]
    Veth,
    /// A TAP device: one queue, and 64 KiB at a time to and from the kernel of this machine.
    Tap,
    /// Of a daemon's, a TAP device where there can be one, else a veth. A device of our own is a veth.
    TapOrVeth,
}

/// What to attach.
#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Where the card comes from.
    pub source: CardSource,
    /// Own address and prefix length.
    pub address: (IpAddr, u8),
    /// Further own addresses.
    pub more_addresses: Vec<(IpAddr, u8)>,
    /// Next hop off the prefix.
    pub gateway: Option<IpAddr>,
    /// Queues.
    pub queues: u32,
    /// Services (protocol and ports), for an address shared with the kernel.
    pub services: Vec<PortRange>,
    /// Whether IPv6 addresses are put on trial (RFC 4862 section 5.4). `None`: on an interface that is there already they
    /// are, on one of our own nobody else can have them.
    pub duplicate_address_detection: Option<DuplicateAddressDetection>,
    /// Longest TCP segment announced and sent, without headers; `None`: what the device takes.
    pub maximum_segment: Option<u16>,
}

/// Where a card comes from.
#[derive(Clone, Debug)]
pub enum CardSource {
    /// A device is made: takes root's rights.
    Own(OwnCard),
    /// An interface that is there already is shared with the kernel: takes root's rights.
    Interface(InterfaceCard),
    /// A virtual function of a network card is driven by this process: takes the right to open its VFIO group.
    Function(FunctionCard),
    /// A daemon gives it: needs no privilege.
    Daemon(DaemonCard),
}

/// A device of our own.
#[derive(Clone, Debug)]
pub struct OwnCard {
    /// Of which kind.
    pub kind: OwnKind,
    /// Its MTU.
    pub mtu: u32,
    /// The network namespace of the kernel's end; `None`: this process's.
    pub namespace: Option<Namespace>,
    /// What router advertisements are good for.
    pub router_advertisements: RouterAdvertisements,
}

/// Of which kind a device of our own is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnKind {
    /// One end of a veth pair.
    Veth {
        /// Copy or not.
        mode: Mode,
    },
    /// A TAP device.
    Tap,
}

/// An interface that is there already.
#[derive(Clone, Debug)]
pub struct InterfaceCard {
    /// Its name.
    pub name: String,
    /// Its network namespace; `None`: this process's.
    pub namespace: Option<Namespace>,
    /// The 802.1Q VLAN to be in, 1 to 4094; `None`: untagged frames.
    pub vlan: Option<u16>,
    /// Copy or not.
    pub mode: Mode,
    /// What router advertisements are good for.
    pub router_advertisements: RouterAdvertisements,
}

/// A virtual function of a network card (SR-IOV), which vfio-pci has. It has one queue, and all of it is this process's.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCard {
    /// Where it is.
    pub address: PciAddress,
    /// What router advertisements are good for.
    pub router_advertisements: RouterAdvertisements,
}

/// A daemon's card.
#[derive(Clone, Debug)]
pub struct DaemonCard {
    /// Where the daemon listens.
    pub socket: PathBuf,
    /// A connection to it that is there already, whose maker's rights count. `None`: one is made.
    pub session: Option<Arc<OwnedFd>>,
    /// What it calls the card. `None`: as this program's first argument is.
    pub name: Option<String>,
    /// The card's MTU, if it is made.
    pub mtu: u32,
    /// Which card.
    pub card: WantedCard,
}

/// Which card of a daemon's.
#[derive(Clone, Debug)]
pub enum WantedCard {
    /// A new one.
    New(OwnDevice),
    /// One of the same user that is there already, by its number, with its addresses.
    Made(u32),
    /// A virtual function of an interface's card.
    Function {
        /// The interface.
        interface: String,
    },
    /// Queues of an interface.
    Queues {
        /// Its name.
        interface: String,
        /// Its network namespace; `None`: this process's.
        namespace: Option<Namespace>,
        /// The first of its queues.
        first: u32,
    },
}

impl AttachOptions {
    /// A device of our own with `address` on our end.
    pub fn new(address: IpAddr, prefix_length: u8) -> AttachOptions {
        AttachOptions {
            source: CardSource::Own(OwnCard::default()),
            address: (address, prefix_length),
            more_addresses: Vec::new(),
            gateway: None,
            queues: 1,
            services: Vec::new(),
            duplicate_address_detection: None,
            maximum_segment: None,
        }
    }

    /// All own addresses.
    pub(super) fn addresses(&self) -> Vec<(IpAddr, u8)> {
        std::iter::once(self.address).chain(self.more_addresses.iter().copied()).collect()
    }
}

impl CardSource {
    /// An interface that is there already, in `namespace`, without a VLAN.
    pub fn interface(name: &str, namespace: Option<Namespace>) -> CardSource {
        CardSource::Interface(InterfaceCard::new(name, namespace))
    }

    /// What is believed of router advertisements. A daemon's card has the addresses that the daemon gave it.
    pub(super) fn router_advertisements(&self) -> RouterAdvertisements {
        match self {
            CardSource::Own(own) => own.router_advertisements,
            CardSource::Interface(interface) => interface.router_advertisements,
            CardSource::Function(function) => function.router_advertisements,
            CardSource::Daemon(_) => RouterAdvertisements::Ignore,
        }
    }

    /// Whether it is, or has queues of, an interface that is there already.
    pub(super) fn is_there(&self) -> bool {
        match self {
            CardSource::Own(_) => false,
            CardSource::Interface(_) | CardSource::Function(_) => true,
            CardSource::Daemon(daemon) => {
                matches!(daemon.card, WantedCard::Queues { .. } | WantedCard::Function { .. })
            }
        }
    }
}

impl Default for OwnCard {
    fn default() -> OwnCard {
        OwnCard {
            kind: OwnKind::Veth { mode: Mode::Auto },
            mtu: MTU,
            namespace: None,
            router_advertisements: RouterAdvertisements::default(),
        }
    }
}

impl From<OwnDevice> for OwnKind {
    fn from(device: OwnDevice) -> OwnKind {
        match device {
            OwnDevice::Tap => OwnKind::Tap,
            OwnDevice::Veth | OwnDevice::TapOrVeth => OwnKind::Veth { mode: Mode::Auto },
        }
    }
}

impl InterfaceCard {
    /// In `namespace`, without a VLAN.
    pub fn new(name: &str, namespace: Option<Namespace>) -> InterfaceCard {
        InterfaceCard {
            name: name.to_owned(),
            namespace,
            vlan: None,
            mode: Mode::Auto,
            router_advertisements: RouterAdvertisements::default(),
        }
    }
}

impl DaemonCard {
    /// A new card, of the daemon that listens at `socket`.
    pub fn new(socket: PathBuf) -> DaemonCard {
        DaemonCard { socket, session: None, name: None, mtu: MTU, card: WantedCard::New(OwnDevice::default()) }
    }
}
