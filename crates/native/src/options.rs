//! [`Options`]: what a program asks for before it starts, by name. The names are those of the `qanat` command's options.

use qanat::control::Address;
use qanat::nic::PortRange;
use qanat::{AreaBuffers, OwnDevice, SpinPolicy};
use qanat_control::filter::{Ports, Service};
use qanat_control::protocol::AreaPath;
use qanat_nic::sockets::SocketEngineKind;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Options of one kind that may be given at most: each is memory.
const REPEATED_MAX: usize = 256;

/// Where the stack is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Placement {
    #[default]
    Linked,
    Split,
    Kernel,
}

/// Whose card it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Card {
    /// The daemon's if one listens, else one of our own.
    #[default]
    Any,
    Daemon,
    Own,
}

/// An area to open.
#[derive(Clone, Debug)]
pub(crate) enum Area {
    /// One of the daemon's.
    Daemon(AreaPath),
    /// A file or block device, all of it.
    File(PathBuf),
}

/// Why an option is refused. The texts name it, and say how it is written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OptionError {
    /// There is none of this name.
    #[error("`{0}` is no option of libqanat-native: docs/native.md has them")]
    Unknown(String),
    /// It is given too often.
    #[error("{0}: given more than {REPEATED_MAX} times")]
    TooMany(&'static str),
    /// Its value means nothing.
    #[error("{name}: `{value}`: {how}")]
    Value {
        /// Which option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        how: String,
    },
}

/// An option as it was given.
#[derive(Clone, Copy)]
struct Given<'a> {
    name: &'static str,
    value: &'a str,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Names of those that were set.
    given: BTreeSet<&'static str>,
    pub(crate) placement: Placement,
    pub(crate) card: Card,
    pub(crate) name: Option<String>,
    /// Own addresses, with the lengths of their prefixes where they were given.
    pub(crate) addresses: Vec<(IpAddr, Option<u8>)>,
    pub(crate) ports: Vec<PortRange>,
    /// Ports that connections of its own are from.
    pub(crate) ephemeral_ports: Option<Ports>,
    pub(crate) gateway: Option<IpAddr>,
    pub(crate) interface: Option<String>,
    pub(crate) device: OwnDevice,
    pub(crate) mtu: Option<u32>,
    pub(crate) maximum_segment: Option<u16>,
    pub(crate) daemon: Option<PathBuf>,
    pub(crate) net: Vec<PathBuf>,
    pub(crate) engine: Option<SocketEngineKind>,
    pub(crate) connections: Option<usize>,
    pub(crate) spin: Option<SpinPolicy>,
    pub(crate) areas: Vec<Area>,
    pub(crate) buffers: AreaBuffers,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            given: BTreeSet::new(),
            placement: Placement::default(),
            card: Card::default(),
            name: None,
            addresses: Vec::new(),
            ports: Vec::new(),
            ephemeral_ports: None,
            gateway: None,
            interface: None,
            device: OwnDevice::default(),
            mtu: None,
            maximum_segment: None,
            daemon: None,
            net: Vec::new(),
            engine: None,
            connections: None,
            spin: None,
            areas: Vec::new(),
            buffers: AreaBuffers { count: 64, bytes: 65_536 },
        }
    }
}

impl Given<'_> {
    fn wrong(self, how: impl ToString) -> OptionError {
        OptionError::Value { name: self.name, value: self.value.to_owned(), how: how.to_string() }
    }

    fn number<T: FromStr + PartialOrd + Display>(self, least: T, most: T) -> Result<T, OptionError> {
        let number = self.value.parse().ok().filter(|number| (&least..=&most).contains(&number));
        number.ok_or_else(|| self.wrong(format!("write a number from {least} to {most}")))
    }

    /// One of some words.
    fn word<T: Copy>(self, words: &[(&str, T)]) -> Result<T, OptionError> {
        let found = words.iter().find(|(word, _)| *word == self.value);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(format!("write one of {}", all.join(", ")))
        })
    }

    fn address(self) -> Result<(IpAddr, Option<u8>), OptionError> {
        if self.value.contains('/') {
            let (address, length) = Address::parse_prefixed(self.value).map_err(|error| self.wrong(error))?;
            return Ok((address.ip(), Some(length)));
        }
        let address: Address = self.value.parse().map_err(|_| self.wrong("that is no address"))?;
        Ok((address.ip(), None))
    }

    fn ports(self) -> Result<PortRange, OptionError> {
        let service: Service = self.value.parse().map_err(|error| self.wrong(error))?;
        if service.protocol_first != service.protocol_last || ![6, 17].contains(&service.protocol_first) {
            return Err(self.wrong("write tcp/80, udp/53 or tcp/8000-8099"));
        }
        Ok(PortRange { protocol: service.protocol_first, first: service.ports.first, last: service.ports.last })
    }

    fn area(self) -> Result<Area, OptionError> {
        let path = self.value.split_once('/').filter(|(disk, area)| !disk.is_empty() && !area.is_empty());
        let (disk, area) = path.ok_or_else(|| self.wrong("write DISK/AREA, as `qanat disk list` has them"))?;
        Ok(Area::Daemon(AreaPath { disk: disk.to_owned(), area: area.to_owned() }))
    }

    fn buffers(self) -> Result<AreaBuffers, OptionError> {
        let wrong = || self.wrong("write COUNTxBYTES, as in 64x65536: bytes are a power of two");
        let (count, bytes) = self.value.split_once('x').ok_or_else(wrong)?;
        let count = Given { value: count, ..self }.number(1, 65_536)?;
        let bytes: u32 = Given { value: bytes, ..self }.number(4_096, 131_072)?;
        if bytes.is_power_of_two() { Ok(AreaBuffers { count, bytes }) } else { Err(wrong()) }
    }

    fn push<T>(self, list: &mut Vec<T>, value: T) -> Result<(), OptionError> {
        if list.len() >= REPEATED_MAX {
            return Err(OptionError::TooMany(self.name));
        }
        list.push(value);
        Ok(())
    }
}

/// The name of an option, as long as the program runs.
fn known(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 19] = [
        "placement",
        "card",
        "name",
        "address",
        "port",
        "ephemeral-ports",
        "gateway",
        "interface",
        "device",
        "mtu",
        "mss",
        "socket",
        "net",
        "sockets",
        "connections",
        "spin",
        "area",
        "file",
        "area-buffers",
    ];
    NAMES.into_iter().find(|known| *known == name)
}

impl Options {
    /// The first option that was set and means nothing in the placement.
    pub(crate) fn out_of_place(&self) -> Option<&'static str> {
        const OF_CARDS: [&str; 7] = ["ephemeral-ports", "card", "gateway", "interface", "device", "mtu", "mss"];
        let unknown: &[&str] = match self.placement {
            Placement::Linked => &["net", "sockets"],
            // Whose net core it is has its card.
            Placement::Split if !self.net.is_empty() => {
                &["sockets", "card", "gateway", "interface", "device", "mtu", "mss"]
            }
            Placement::Split => &["sockets", "card", "interface", "device"],
            Placement::Kernel => {
                return self.given.iter().copied().find(|name| *name == "net" || OF_CARDS.contains(name));
            }
        };
        self.given.iter().copied().find(|name| unknown.contains(name))
    }

    /// Sets an option, or adds to one that may be repeated.
    ///
    /// # Errors
    /// Which option is wrong, and how it is written.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let name = known(name).ok_or_else(|| OptionError::Unknown(name.to_owned()))?;
        let given = Given { name, value };
        match name {
            "placement" => {
                let words = [("linked", Placement::Linked), ("split", Placement::Split), ("kernel", Placement::Kernel)];
                self.placement = given.word(&words)?;
            }
            "card" => self.card = given.word(&[("any", Card::Any), ("daemon", Card::Daemon), ("own", Card::Own)])?,
            "name" => self.name = Some(value.to_owned()),
            "address" => given.push(&mut self.addresses, given.address()?)?,
            "port" => given.push(&mut self.ports, given.ports()?)?,
            "ephemeral-ports" => self.ephemeral_ports = Some(value.parse().map_err(|error| given.wrong(error))?),
            "gateway" => self.gateway = Some(given.address()?.0),
            "interface" => self.interface = Some(value.to_owned()),
            "device" => {
                let words = [("veth", OwnDevice::Veth), ("tap", OwnDevice::Tap), ("any", OwnDevice::TapOrVeth)];
                self.device = given.word(&words)?;
            }
            "mtu" => self.mtu = Some(given.number(576, 65_535)?),
            "mss" => self.maximum_segment = Some(given.number(64, 65_495)?),
            "socket" => self.daemon = Some(value.into()),
            "net" => given.push(&mut self.net, value.into())?,
            "sockets" => {
                let words = [("io-uring", SocketEngineKind::Ring), ("epoll", SocketEngineKind::Poll)];
                self.engine = Some(given.word(&words)?);
            }
            "connections" => self.connections = Some(given.number(1, 1 << 20)?),
            "spin" => {
                let words =
                    [("adaptive", SpinPolicy::Adaptive), ("always", SpinPolicy::Always), ("never", SpinPolicy::Never)];
                self.spin = Some(given.word(&words)?);
            }
            "area" => given.push(&mut self.areas, given.area()?)?,
            "file" => given.push(&mut self.areas, Area::File(value.into()))?,
            _ => self.buffers = given.buffers()?,
        }
        self.given.insert(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_once_into_what_they_mean() {
        let mut options = Options::default();
        let given = [
            ("placement", "split"),
            ("address", "10.77.0.2/24"),
            ("address", "fd77::2"),
            ("port", "tcp/80"),
            ("port", "udp/8000-8099"),
            ("area", "nvme0/log"),
            ("area-buffers", "8x4096"),
            ("spin", "never"),
        ];
        for (name, value) in given {
            options.set(name, value).unwrap();
        }
        assert_eq!(options.placement, Placement::Split);
        assert_eq!(options.addresses, [("10.77.0.2".parse().unwrap(), Some(24)), ("fd77::2".parse().unwrap(), None)]);
        assert_eq!((options.ports[1].protocol, options.ports[1].first, options.ports[1].last), (17, 8_000, 8_099));
        assert_eq!((options.buffers.count, options.buffers.bytes), (8, 4_096));
    }

    #[test]
    fn what_means_nothing_in_a_placement_is_named() {
        let out_of_place = |given: &[(&str, &str)]| {
            let mut options = Options::default();
            given.iter().for_each(|(name, value)| options.set(name, value).unwrap());
            options.out_of_place()
        };
        assert_eq!(out_of_place(&[("gateway", "10.0.0.1"), ("file", "/x"), ("address", "10.0.0.2/24")]), None);
        assert_eq!(out_of_place(&[("net", "@x")]), Some("net"));
        assert_eq!(out_of_place(&[("placement", "split"), ("net", "@x"), ("port", "tcp/80")]), None);
        assert_eq!(out_of_place(&[("placement", "split"), ("net", "@x"), ("mtu", "1500")]), Some("mtu"));
        assert_eq!(out_of_place(&[("placement", "split"), ("interface", "eth1")]), Some("interface"));
        assert_eq!(out_of_place(&[("placement", "kernel"), ("sockets", "epoll"), ("address", "127.0.0.1")]), None);
        assert_eq!(out_of_place(&[("card", "own"), ("placement", "kernel")]), Some("card"));
    }

    #[test]
    fn what_is_wrong_names_the_option() {
        let wrong = [
            ("placement", "Linked"),
            ("address", "10.77.0.300"),
            ("address", "10.77.0.2/33"),
            ("port", "80"),
            ("port", "any"),
            ("port", "icmp/1"),
            ("port", "tcp/0"),
            ("ephemeral-ports", "2-1"),
            ("mtu", "1"),
            ("mss", "-1"),
            ("connections", "0"),
            ("area", "nvme0"),
            ("area-buffers", "8x5000"),
            ("area-buffers", "0x4096"),
            ("colour", "blue"),
        ];
        for (name, value) in wrong {
            let error = Options::default().set(name, value).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        let mut options = Options::default();
        for _ in 0..REPEATED_MAX {
            options.set("file", "/dev/null").unwrap();
        }
        assert!(options.set("file", "/dev/null").is_err());
    }
}
