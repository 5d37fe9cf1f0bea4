//! [`XdpFeatures`]: what an interface's driver does for XDP, by the generic netlink family `netdev` (Linux 6.3).

use super::netlink::{self, Message, find, u16_at};
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

/// One interface to be asked again and again, from any namespace.
#[derive(Debug)]
pub(crate) struct XdpFeatures {
    socket: OwnedFd,
    family: u16,
    index: u32,
}

impl XdpFeatures {
    /// For an interface of the calling thread's namespace.
    pub(crate) fn open(index: u32) -> io::Result<XdpFeatures> {
        let socket = netlink::open(libc::NETLINK_GENERIC)?;
        let message = Message::new(libc::GENL_ID_CTRL as u16, libc::NLM_F_ACK, &[CTRL_CMD_GETFAMILY, 1, 0, 0]);
        let answers = netlink::request_by(&socket, message.attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"))?;
        let family = answers.first().and_then(|answer| find(answer.get(GENERIC_HEADER..)?, CTRL_ATTR_FAMILY_ID));
        let family = family.and_then(|value| u16_at(value, 0)).ok_or(io::ErrorKind::Unsupported)?;
        Ok(XdpFeatures { socket, family, index })
    }

    /// Whether frames may be redirected to the interface now.
    pub(crate) fn takes_frames(&self) -> bool {
        let message = Message::new(self.family, libc::NLM_F_ACK, &[NETDEV_CMD_DEV_GET, 1, 0, 0]);
        let message = message.attribute(NETDEV_A_DEV_IFINDEX, &self.index.to_ne_bytes());
        let answers = netlink::request_by(&self.socket, message).unwrap_or_default();
        let features = answers.first().and_then(|answer| find(answer.get(GENERIC_HEADER..)?, NETDEV_A_DEV_XDP_FEATURES));
        let features = features.and_then(|value| value.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word));
        features & NETDEV_XDP_ACT_NDO_XMIT != 0
    }
}
