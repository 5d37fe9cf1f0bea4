//! [`Observer`]: looks at one interface again and again, from whatever namespace the thread is in.

use super::interface::parse_link;
use super::netlink::{self, Message, find, interface_header, u16_at, u32_at};
use std::io;
use std::os::fd::OwnedFd;

const GENERIC_HEADER: usize = 4;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 4;

/// `struct rtnl_link_stats64` has these as its second and eighth word.
const TRANSMITTED: usize = 8;
const TRANSMIT_DROPPED: usize = 7 * 8;
const IFLA_STATS64: u16 = 23;
/// Set up, and its other end too.
const UP: u32 = (libc::IFF_UP | libc::IFF_LOWER_UP) as u32;

/// What a device says of what was to leave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departures {
    /// Packets sent; of a veth device: that arrived at its other end.
    pub(crate) packets: u64,
    /// Packets that it dropped, and counted.
    pub(crate) dropped: u64,
}

/// What an answer about a link says of them.
fn departures(answer: &[u8]) -> Option<Departures> {
    let statistics = find(answer.get(16..)?, IFLA_STATS64)?;
    let word = |offset: usize| statistics.get(offset..)?.first_chunk().map(|word| u64::from_ne_bytes(*word));
    Some(Departures { packets: word(TRANSMITTED)?, dropped: word(TRANSMIT_DROPPED)? })
}

/// Looks at an interface that something else than AF_XDP sends to.
#[derive(Debug)]
pub(crate) struct Bystander {
    route: OwnedFd,
    index: u32,
}

impl Bystander {
    /// Of an interface of the calling thread's namespace.
    pub(crate) fn open(index: u32) -> io::Result<Bystander> {
        Ok(Bystander { route: netlink::open(libc::NETLINK_ROUTE)?, index })
    }

    /// Whether an XDP program is on it, and what left it; `None` if the kernel won't tell: it is gone.
    pub(crate) fn look(&self) -> Option<(bool, Departures)> {
        let message = Message::new(libc::RTM_GETLINK, libc::NLM_F_ACK, &interface_header(self.index, 0, 0));
        let answers = netlink::request_by(&self.route, message).ok()?;
        let answer = answers.first()?;
        let has_xdp = parse_link(answer)?.xdp_program.is_some();
        Some((has_xdp, departures(answer)?))
    }
}

/// How an interface is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Frames redirected to it arrive: both ends are up, and the other one takes them.
    pub(crate) takes_frames: bool,
    /// What it says of what was to leave it since it exists.
    pub(crate) departures: Departures,
}

/// Sockets in the interface's namespace.
#[derive(Debug)]
pub(crate) struct Observer {
    route: OwnedFd,
    generic: OwnedFd,
    /// The number of the generic netlink family `netdev` (Linux 6.3).
    family: u16,
    index: u32,
}

impl Observer {
    /// Of an interface of the calling thread's namespace.
    pub(crate) fn open(index: u32) -> io::Result<Observer> {
        let socket = netlink::open(libc::NETLINK_GENERIC)?;
        let message = Message::new(libc::GENL_ID_CTRL as u16, libc::NLM_F_ACK, &[CTRL_CMD_GETFAMILY, 1, 0, 0]);
        let answers = netlink::request_by(&socket, message.attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"))?;
        let family = answers.first().and_then(|answer| find(answer.get(GENERIC_HEADER..)?, CTRL_ATTR_FAMILY_ID));
        let family = family.and_then(|value| u16_at(value, 0)).ok_or(io::ErrorKind::Unsupported)?;
        Ok(Observer { route: netlink::open(libc::NETLINK_ROUTE)?, generic: socket, family, index })
    }

    /// How the interface is now; `None` if the kernel won't tell: it is gone.
    pub(crate) fn look(&self) -> Option<Look> {
        let message = Message::new(libc::RTM_GETLINK, libc::NLM_F_ACK, &interface_header(self.index, 0, 0));
        let answers = netlink::request_by(&self.route, message).ok()?;
        let answer = answers.first()?;
        // A veth device whose other end is down still says that it takes frames.
        let is_up = u32_at(answer, 8)? & UP == UP;
        Some(Look { takes_frames: is_up && self.is_taken_there(), departures: departures(answer)? })
    }

    fn is_taken_there(&self) -> bool {
        let message = Message::new(self.family, libc::NLM_F_ACK, &[NETDEV_CMD_DEV_GET, 1, 0, 0]);
        let message = message.attribute(NETDEV_A_DEV_IFINDEX, &self.index.to_ne_bytes());
        let answers = netlink::request_by(&self.generic, message).unwrap_or_default();
        let features =
            answers.first().and_then(|answer| find(answer.get(GENERIC_HEADER..)?, NETDEV_A_DEV_XDP_FEATURES));
        let features = features.and_then(|value| value.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word));
        features & NETDEV_XDP_ACT_NDO_XMIT != 0
    }
}
