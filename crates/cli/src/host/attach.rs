//! Options that say where the VNIC comes from; the same for every service.

use crate::daemon::Card;
use clap::{Args, ValueEnum};
use qanat::{
    AttachError, AttachOptions, Attachment, CardSource, DaemonCard, DuplicateAddressDetection, FunctionCard,
    InterfaceCard, OwnCard, OwnDevice, OwnKind, RouterAdvertisements, SpinPolicy, WantedCard,
};
use qanat_control::address::Address;
use qanat_control::client::{ClientError, default_socket};
use qanat_control::protocol::VnicWish;
use qanat_nic::DeviceError;
use qanat_nic::af_xdp::{Mode, PortRange};
use qanat_nic::link::Namespace;
use qanat_nic::vfio::{AddressError, PciAddress};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of a packet, unless it is said otherwise.
const MTU: u32 = 1_500;

/// An address with the length of its prefix, `10.77.0.2/24`.
#[derive(Clone, Copy, Debug)]
pub struct Prefixed {
    pub address: IpAddr,
    pub length: u8,
}

impl FromStr for Prefixed {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefixed, String> {
        let (address, length) = Address::parse_prefixed(text)?;
        Ok(Prefixed { address: address.ip(), length })
    }
}

/// When an idle runtime sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Spin {
    /// Spin a bounded, adapting time, then sleep.
    #[default]
    Adaptive,
    /// Never sleep: lowest latency, one core always busy.
    Always,
    /// Sleep at once.
    Never,
}

impl From<Spin> for SpinPolicy {
    fn from(spin: Spin) -> SpinPolicy {
        match spin {
            Spin::Adaptive => SpinPolicy::Adaptive,
            Spin::Always => SpinPolicy::Always,
            Spin::Never => SpinPolicy::Never,
        }
    }
}

/// Which IPv6 addresses and routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Ipv6 {
    /// The options alone
    #[default]
    Given,
    /// Routers by advertisement, too
    Routers,
    /// Addresses and routers by advertisement, too (SLAAC)
    Auto,
}

/// When an address is used, if other hosts may have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Trial {
    /// Don't ask; use them at once
    Off,
    /// Use them after one to two seconds in which no other host answers
    On,
    /// Use them at once, and give them up if another host answers
    Optimistic,
}

/// The kind of our own virtual interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OwnDeviceKind {
    /// A TAP device: 64 KiB at a time to and from this machine's kernel; one queue
    Tap,
    /// One end of a veth pair, by AF_XDP: several queues, and clients that use AF_XDP too
    Veth,
}

impl From<OwnDeviceKind> for OwnDevice {
    fn from(kind: OwnDeviceKind) -> OwnDevice {
        match kind {
            OwnDeviceKind::Tap => OwnDevice::Tap,
            OwnDeviceKind::Veth => OwnDevice::Veth,
        }
    }
}

/// Where the VNIC comes from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub struct AttachArguments {
    /// Use this interface instead of a virtual one of our own. Its other traffic stays the kernel's. vf:ADDRESS (vf:0000:02:10.0) is a
    /// virtual function of a network card, which vfio-pci must have: it is driven by this process, and is all its own. vf:NAME (vf:eth1) is
    /// one that the daemon gives, without privileges. Its policy must trust you
    #[arg(long, value_name = "NAME", requires = "address")]
    pub interface: Option<String>,
    /// Our address. With --interface it may be one of the kernel's. Then only the service's port is taken
    #[arg(long, value_name = "ADDRESS/LENGTH", default_value = "10.77.0.2/24")]
    pub address: Prefixed,
    /// One more address of ours (IPv6, say); may be repeated
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    pub also: Vec<Prefixed>,
    /// Next hop for everything off the prefix (default: the kernel's; on an interface of our own, its kernel end)
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Option<IpAddr>,
    /// Network namespace of the interface: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,
    /// MTU of our own virtual interface; one that is there already keeps its own
    #[arg(long, value_name = "BYTES", conflicts_with = "interface", default_value_t = MTU, value_parser = clap::value_parser!(u32).range(576..=9_000))]
    pub mtu: u32,
    /// Longest TCP segment to announce and send, without headers (default: by the MTU). For clients behind tunnels whose routers drop
    /// larger packets silently
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(536..=8_960))]
    pub mss: Option<u16>,
    /// The 802.1Q VLAN of --interface to use, 1 to 4094. Frames must carry their tags, so rx-vlan-offload is switched off. At the
    /// other end of a veth do `ethtool -K PEER txvlan off`
    #[arg(long, value_name = "ID", requires = "interface", value_parser = clap::value_parser!(u16).range(1..=4_094))]
    pub vlan: Option<u16>,
    /// Where IPv6 addresses and routers come from: the options alone, or router advertisements, too
    #[arg(long, value_enum, default_value_t)]
    pub ipv6: Ipv6,
    /// Duplicate address detection: ask the link whether another host has our addresses (default: on with --interface, else off)
    #[arg(long, value_enum, value_name = "WHEN")]
    pub dad: Option<Trial>,
    /// Copy frames even if the driver can avoid it
    #[arg(long)]
    pub force_copy: bool,
    /// Make the device in this process, as root, even if a daemon runs (`qanat up`)
    #[arg(long)]
    pub direct: bool,
    /// The kind of our own virtual interface (default: tap where there can be one, else veth; of a net core veth)
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["interface", "vnic", "queue"])]
    pub device: Option<OwnDeviceKind>,
    /// Use this card of yours, by the number or name that `qanat vnic create` gave it, with its addresses
    #[arg(long, value_name = "CARD", conflicts_with_all = ["interface", "direct", "also", "mtu"])]
    pub vnic: Option<Card>,
    /// Get this queue of --interface from the daemon, without privileges. Its policy must trust you
    #[arg(long, value_name = "NUMBER", requires = "interface", conflicts_with_all = ["direct", "vnic", "vlan"])]
    pub queue: Option<u32>,
    /// When to sleep
    #[arg(long, value_enum, default_value_t)]
    pub spin: Spin,
}

/// The namespace called `name`, or at a path.
pub fn namespace(name: Option<&str>) -> Result<Option<Namespace>, String> {
    let Some(name) = name else { return Ok(None) };
    let path = if name.contains('/') { name.to_owned() } else { format!("/var/run/netns/{name}") };
    match Namespace::open(Path::new(&path)) {
        Ok(namespace) => Ok(Some(namespace)),
        Err(error) => Err(format!("network namespace {name}: {error}; `ip netns list` shows those there are")),
    }
}

impl AttachArguments {
    /// The address, unless it is the one everybody gets.
    pub fn address_given(&self) -> Option<IpAddr> {
        Some(self.address.address).filter(|address| *address != IpAddr::from([10, 77, 0, 2]))
    }

    /// Whether anything was said about which card it is to be.
    fn is_particular(&self) -> bool {
        let names = [&self.interface, &self.netns].into_iter().any(Option::is_some);
        let numbers = self.vnic.is_some() || self.queue.is_some() || self.vlan.is_some() || self.device.is_some();
        names || numbers || self.address_given().is_some() || !self.also.is_empty() || self.gateway.is_some()
    }

    /// Whether a card can be had: by who may make one, or by a daemon. Who asks for a particular one is told what is missing.
    pub fn can_be_had(&self) -> bool {
        let may_make = rustix::thread::capabilities(None)
            .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::NET_ADMIN));
        may_make || self.direct || default_socket().exists() || self.is_particular()
    }

    /// Makes sure that nothing is said about a card, where there is none.
    ///
    /// # Errors
    /// Something is, and the remedy.
    pub fn check_unused(&self) -> Result<(), String> {
        let is_said = self.is_particular() || self.direct || self.force_copy || self.mss.is_some() || self.mtu != MTU;
        match is_said || self.dad.is_some() || self.ipv6 != Ipv6::Given {
            true => Err("the kernel placement has no card: leave out the options of one (--address, --interface, --mss …). --listen \
                         ADDRESS says where it listens"
                .to_owned()),
            false => Ok(()),
        }
    }

    /// Addresses of the first one's family, all of them together.
    fn alike(&self) -> impl Iterator<Item = &Prefixed> {
        let is_like_first = |other: &&Prefixed| other.address.is_ipv4() == self.address.address.is_ipv4();
        std::iter::once(&self.address).chain(&self.also).filter(is_like_first)
    }

    /// The kind of an interface of our own that has so many queues.
    fn own_kind(&self, queues: u32) -> Result<OwnKind, String> {
        match self.device {
            Some(OwnDeviceKind::Tap) if queues > 1 => {
                Err(format!("a TAP device has one queue, not {queues}: use --device veth"))
            }
            Some(OwnDeviceKind::Tap) if self.force_copy => Err("--force-copy is for --device veth".to_owned()),
            Some(OwnDeviceKind::Tap) => Ok(OwnKind::Tap),
            None if self.may_be_tap(queues) => Ok(OwnKind::Tap),
            Some(OwnDeviceKind::Veth) | None => Ok(OwnKind::Veth { mode: self.mode() }),
        }
    }

    /// Whether nothing was asked for that a TAP device hasn't.
    fn may_be_tap(&self, queues: u32) -> bool {
        queues == 1 && !self.force_copy
    }

    fn mode(&self) -> Mode {
        if self.force_copy { Mode::Copy } else { Mode::Auto }
    }

    /// How many these are.
    pub fn addresses_alike(&self) -> usize {
        self.alike().count()
    }

    /// As many cards, each with its share of the addresses: of the first's family one each, at least.
    pub fn deal(&self, count: usize) -> Result<Vec<AttachArguments>, String> {
        if self.interface.is_some() || self.vnic.is_some() {
            return Err("each net core has a card of its own: leave out --interface and --vnic".to_owned());
        }
        let mut cards = vec![AttachArguments { also: Vec::new(), ..self.clone() }; count];
        let alike = self.addresses_alike();
        if alike < count {
            return Err(format!(
                "{count} net cores need an address each, not {alike} in all: name them by --address and --also"
            ));
        }
        for (number, address) in self.alike().enumerate() {
            let Some(card) = cards.get_mut(number % count) else { break };
            if number < count { card.address = *address } else { card.also.push(*address) }
        }
        let is_other = |other: &&Prefixed| other.address.is_ipv4() != self.address.address.is_ipv4();
        for (number, address) in self.also.iter().filter(is_other).enumerate() {
            cards.get_mut(number % count).into_iter().for_each(|card| card.also.push(*address));
        }
        Ok(cards)
    }

    /// Makes or opens the device, taking `services` where the address is shared with the kernel.
    pub fn open(&self, services: Vec<PortRange>) -> Result<Attachment, String> {
        self.open_queues(services, 1)
    }

    /// As [`open`](AttachArguments::open), with so many queues, each for a stack of its own.
    pub fn open_queues(&self, services: Vec<PortRange>, queues: u32) -> Result<Attachment, String> {
        if queues > 1 && self.ipv6 != Ipv6::Given {
            // They come by one of the queues, whose stack alone would know.
            return Err("router advertisements need one queue: leave out --ipv6, or --queues".to_owned());
        }
        // To a card that is there, and to queues of an interface, there is no way but the daemon.
        let needs_daemon = self.vnic.is_some() || self.queue.is_some() || self.daemons_function().is_some();
        let socket = default_socket();
        let has_daemon = needs_daemon || !self.direct && socket.exists();
        let mut options = self.options(services, queues, has_daemon.then_some(socket))?;
        // A daemon that may not be asked is one more reason to do without it, for who can.
        let unreachable = |error: &AttachError| matches!(error, AttachError::Control(ClientError::Unreachable(..)));
        match Attachment::open(&options) {
            Err(error) if unreachable(&error) && !needs_daemon && rustix::process::geteuid().is_root() => {
                options.source = self.source(queues, None)?;
                Attachment::open(&options).map_err(|error| error.to_string())
            }
            outcome => outcome.map_err(|error| error.to_string()),
        }
    }

    /// As [`open_queues`](AttachArguments::open_queues), by asking the daemon, whether or not one is there.
    pub fn open_daemons(&self, services: Vec<PortRange>, queues: u32) -> Result<Attachment, AttachError> {
        let invalid = |reason: String| AttachError::Device(DeviceError::Invalid { reason });
        Attachment::open(&self.options(services, queues, Some(default_socket())).map_err(invalid)?)
    }

    /// Whether a daemon's net core could have the card: nothing is asked for that only this process can do.
    pub fn suits_a_daemons_net_core(&self) -> bool {
        let is_tap = self.device == Some(OwnDeviceKind::Tap);
        let own = self.interface.is_some() || self.netns.is_some() || self.direct || self.force_copy || is_tap;
        !own && self.vnic.is_none() && self.queue.is_none() && self.dad.is_none() && self.ipv6 == Ipv6::Given
    }

    /// The card to ask the daemon for.
    pub fn vnic_wish(&self, services: Vec<PortRange>, queues: u32) -> Result<VnicWish, String> {
        Ok(self.options(services, queues, Some(default_socket()))?.vnic_wish())
    }

    /// What these arguments say. `daemon`: where one listens that is to give the card.
    fn options(&self, services: Vec<PortRange>, queues: u32, daemon: Option<PathBuf>) -> Result<AttachOptions, String> {
        let mut options = AttachOptions::new(self.address.address, self.address.length);
        options.source = self.source(queues, daemon)?;
        options.more_addresses = self.also.iter().map(|also| (also.address, also.length)).collect();
        options.gateway = self.gateway;
        options.services = services;
        options.queues = queues;
        options.maximum_segment = self.mss;
        options.duplicate_address_detection = self.dad.map(|trial| match trial {
            Trial::Off => DuplicateAddressDetection::Off,
            Trial::On => DuplicateAddressDetection::On,
            Trial::Optimistic => DuplicateAddressDetection::Optimistic,
        });
        Ok(options)
    }

    /// A virtual function of a network card.
    fn function(&self, address: &str, router_advertisements: RouterAdvertisements) -> Result<FunctionCard, String> {
        let address: PciAddress =
            address.parse().map_err(|error: AddressError| format!("--interface {FUNCTION}…: {error}"))?;
        Ok(FunctionCard { address, router_advertisements })
    }

    /// What follows `vf:` if it is an interface, a function of which the daemon gives; of addresses of functions none has a name.
    fn daemons_function(&self) -> Option<&str> {
        let name = self.interface.as_deref()?.strip_prefix(FUNCTION)?;
        (!name.contains(':')).then_some(name)
    }

    /// Refuses what is not for virtual functions.
    fn check_function(&self) -> Result<(), String> {
        let refused = [
            (self.vlan.is_some(), "--vlan", "its host puts it into one: `ip link set NIC vf NUMBER vlan ID`"),
            (self.netns.is_some(), "--netns", "it is in no network namespace"),
            (self.force_copy, "--force-copy", "nothing is copied"),
            (self.queue.is_some(), "--queue", "it has one, which no daemon hands out"),
        ];
        match refused.iter().find(|(is_given, ..)| *is_given) {
            Some((_, option, why)) => Err(format!("{option} is not for a virtual function: {why}")),
            None => Ok(()),
        }
    }

    /// Where the card comes from.
    fn source(&self, queues: u32, daemon: Option<PathBuf>) -> Result<CardSource, String> {
        let namespace = namespace(self.netns.as_deref())?;
        let kind = self.own_kind(queues)?;
        let router_advertisements = match self.ipv6 {
            Ipv6::Given => RouterAdvertisements::Ignore,
            Ipv6::Routers => RouterAdvertisements::Routers,
            Ipv6::Auto => RouterAdvertisements::Addresses,
        };
        if let Some(function) = self.interface.as_deref().and_then(|name| name.strip_prefix(FUNCTION)) {
            self.check_function()?;
            if self.daemons_function().is_none() {
                return self.function(function, router_advertisements).map(CardSource::Function);
            }
            let card = WantedCard::Function { interface: function.to_owned() };
            return Ok(CardSource::Daemon(DaemonCard { card, ..DaemonCard::new(default_socket()) }));
        }
        if let (Some(name), None) = (&self.interface, self.queue) {
            let (vlan, mode) = (self.vlan, self.mode());
            let interface = InterfaceCard::new(name, namespace);
            return Ok(CardSource::Interface(InterfaceCard { vlan, mode, router_advertisements, ..interface }));
        }
        let Some(socket) = daemon else {
            return Ok(CardSource::Own(OwnCard { kind, mtu: self.mtu, namespace, router_advertisements }));
        };
        if router_advertisements != RouterAdvertisements::Ignore {
            let reason = "a daemon's device has the addresses the daemon gave it: without it by --direct, as root";
            return Err(reason.to_owned());
        }
        let card = match (&self.vnic, &self.interface, self.queue) {
            (Some(card), ..) => WantedCard::Made(card.number(&socket)?),
            (None, Some(interface), Some(first)) => {
                WantedCard::Queues { interface: interface.clone(), namespace, first }
            }
            _ => WantedCard::New(match self.device {
                Some(device) => device.into(),
                None if self.may_be_tap(queues) => OwnDevice::TapOrVeth,
                None => OwnDevice::Veth,
            }),
        };
        Ok(CardSource::Daemon(DaemonCard { mtu: self.mtu, card, ..DaemonCard::new(socket) }))
    }
}

/// What a virtual function's address follows in `--interface`.
const FUNCTION: &str = "vf:";

/// How content is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// In plain text.
    Http,
    /// Over TLS.
    Https,
}

/// `http://…` or `https://…` of an address and port.
pub fn url(scheme: Scheme, address: IpAddr, port: u16) -> String {
    let host = match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    let (name, usual_port) = match scheme {
        Scheme::Http => ("http", 80),
        Scheme::Https => ("https", 443),
    };
    if port == usual_port { format!("{name}://{host}/") } else { format!("{name}://{host}:{port}/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_checked() {
        assert!("10.0.0.1/24".parse::<Prefixed>().is_ok());
        assert!("fd00::1/64".parse::<Prefixed>().is_ok());
        for wrong in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "fd00::1/129", "/"] {
            assert!(wrong.parse::<Prefixed>().is_err(), "{wrong}");
        }
        let (four, six) = ("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        assert_eq!(url(Scheme::Http, four, 8_080), "http://10.0.0.1:8080/");
        assert_eq!(url(Scheme::Http, six, 80), "http://[fd00::1]/");
        assert_eq!(url(Scheme::Https, four, 80), "https://10.0.0.1:80/");
        assert_eq!(url(Scheme::Https, six, 443), "https://[fd00::1]/");
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        attach: AttachArguments,
    }

    #[test]
    fn a_virtual_function_is_named_by_its_address() {
        let source = |more: &[&str]| {
            let words = ["qanat", "--address", "10.9.0.2/24"].iter().chain(more);
            <Line as clap::Parser>::try_parse_from(words).unwrap().attach.source(1, None)
        };
        let Ok(CardSource::Function(card)) = source(&["--interface", "vf:02:10.0"]) else { panic!("another source") };
        assert_eq!(card.address.to_string(), "0000:02:10.0");
        let refused = |more: &[&str]| source(&[&["--interface", "vf:02:10.0"], more].concat()).unwrap_err();
        assert!(refused(&["--vlan", "7"]).contains("ip link set"));
        assert!(refused(&["--force-copy"]).contains("--force-copy") && refused(&["--queue", "0"]).contains("--queue"));
        assert!(source(&["--interface", "vf:02:10"]).unwrap_err().contains("lspci"));
        let Ok(CardSource::Daemon(card)) = source(&["--interface", "vf:eth1"]) else { panic!("another source") };
        assert!(matches!(card.card, WantedCard::Function { interface } if interface == "eth1"));
        assert!(matches!(source(&["--interface", "vf0"]), Ok(CardSource::Interface(_))));
    }
}
