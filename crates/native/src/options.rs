//! [`Options`]: what a program asks for before it starts, by name. The names are those of the `qanat` command's options.

use qanat::control::Address;
use qanat::nic::PortRange;
use qanat::{AreaBuffers, OwnDevice, SpinPolicy};
use qanat_control::filter::{Ports, Service};
use qanat_control::protocol::AreaPath;
use qanat_nic::sockets::SocketEngineKind;
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

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
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

fn number<T: FromStr>(name: &str, value: &str, least: T, most: T) -> Result<T, String>
where
    T: PartialOrd + std::fmt::Display,
{
    let number = value.parse().ok().filter(|number| (&least..=&most).contains(&number));
    number.ok_or_else(|| format!("{name}: `{value}` is no number from {least} to {most}"))
}

/// One of some words.
fn word<T: Copy>(name: &str, value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{name}: `{value}` is none of {}", all.join(", "))
    })
}

fn address(name: &str, value: &str) -> Result<(IpAddr, Option<u8>), String> {
    if value.contains('/') {
        let (address, length) = Address::parse_prefixed(value).map_err(|error| format!("{name}: {error}"))?;
        return Ok((address.ip(), Some(length)));
    }
    let address: Address = value.parse().map_err(|_| format!("{name}: `{value}` is no address"))?;
    Ok((address.ip(), None))
}

fn ports(name: &str, value: &str) -> Result<PortRange, String> {
    let service: Service = value.parse().map_err(|error| format!("{name}: {error}"))?;
    if service.protocol_first != service.protocol_last || ![6, 17].contains(&service.protocol_first) {
        return Err(format!("{name}: `{value}`: write tcp/80, udp/53 or tcp/8000-8099"));
    }
    Ok(PortRange { protocol: service.protocol_first, first: service.ports.first, last: service.ports.last })
}

fn buffers(name: &str, value: &str) -> Result<AreaBuffers, String> {
    let wrong = || format!("{name}: `{value}`: write COUNTxBYTES, as in 64x65536");
    let (count, bytes) = value.split_once('x').ok_or_else(wrong)?;
    let (count, bytes) = (number(name, count, 1, 65_536)?, number(name, bytes, 4_096, 131_072)?);
    if !u32::is_power_of_two(bytes) {
        return Err(format!("{name}: {bytes} is no power of two"));
    }
    Ok(AreaBuffers { count, bytes })
}

fn push<T>(name: &str, list: &mut Vec<T>, value: T) -> Result<(), String> {
    if list.len() >= REPEATED_MAX {
        return Err(format!("{name}: given more than {REPEATED_MAX} times"));
    }
    list.push(value);
    Ok(())
}

impl Options {
    /// Sets an option, or adds to one that may be repeated.
    ///
    /// # Errors
    /// Which option is wrong, and how it is written.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "placement" => {
                let words = [("linked", Placement::Linked), ("split", Placement::Split), ("kernel", Placement::Kernel)];
                self.placement = word(name, value, &words)?;
            }
            "card" => {
                self.card = word(name, value, &[("any", Card::Any), ("daemon", Card::Daemon), ("own", Card::Own)])?;
            }
            "name" => self.name = Some(value.to_owned()),
            "address" => push(name, &mut self.addresses, address(name, value)?)?,
            "port" => push(name, &mut self.ports, ports(name, value)?)?,
            "ephemeral-ports" => {
                self.ephemeral_ports = Some(value.parse().map_err(|error| format!("{name}: {error}"))?);
            }
            "gateway" => self.gateway = Some(address(name, value)?.0),
            "interface" => self.interface = Some(value.to_owned()),
            "device" => {
                let words = [("veth", OwnDevice::Veth), ("tap", OwnDevice::Tap), ("any", OwnDevice::TapOrVeth)];
                self.device = word(name, value, &words)?;
            }
            "mtu" => self.mtu = Some(number(name, value, 576, 65_535)?),
            "mss" => self.maximum_segment = Some(number(name, value, 64, 65_495)?),
            "socket" => self.daemon = Some(value.into()),
            "net" => push(name, &mut self.net, value.into())?,
            "sockets" => {
                let words = [("io-uring", SocketEngineKind::Ring), ("epoll", SocketEngineKind::Poll)];
                self.engine = Some(word(name, value, &words)?);
            }
            "connections" => self.connections = Some(number(name, value, 1, 1 << 20)?),
            "spin" => {
                let words =
                    [("adaptive", SpinPolicy::Adaptive), ("always", SpinPolicy::Always), ("never", SpinPolicy::Never)];
                self.spin = Some(word(name, value, &words)?);
            }
            "area" => {
                let wrong = || format!("area: `{value}`: write DISK/AREA, as `qanat disk list` has them");
                let (disk, area) = value.split_once('/').ok_or_else(wrong)?;
                let path = AreaPath { disk: disk.to_owned(), area: area.to_owned() };
                push(name, &mut self.areas, Area::Daemon(path))?;
            }
            "file" => push(name, &mut self.areas, Area::File(value.into()))?,
            "area-buffers" => self.buffers = buffers(name, value)?,
            _ => return Err(format!("`{name}` is no option of libqanat-native: docs/native.md has them")),
        }
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
            let error = Options::default().set(name, value).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        let mut options = Options::default();
        for _ in 0..REPEATED_MAX {
            options.set("file", "/dev/null").unwrap();
        }
        assert!(options.set("file", "/dev/null").is_err());
    }
}
