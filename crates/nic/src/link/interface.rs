//! [`Link`]: an interface as the kernel describes it.

use super::ethtool::receive_queues_in_use;
use super::netlink::{Message, find, interface_header, name_bytes, request, text, u32_at};
use qanat_wire::ethernet::MacAddress;
use std::io;

const IFLA_XDP_PROG_ID: u16 = 4;

/// What the kernel says about an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address.
    pub mac: MacAddress,
    /// Largest layer-3 packet, bytes.
    pub mtu: u32,
    /// Whether it is set up.
    pub is_up: bool,
    /// Receive queues in use, from number 0. If the driver can't tell, those that it was created with.
    pub receive_queues: u32,
    /// The XDP program attached.
    pub xdp_program: Option<u32>,
}

/// An interface of the calling thread's namespace, by name.
///
/// # Errors
/// `NotFound` (`ENODEV`) if there is none.
pub fn link(name: &str) -> io::Result<Link> {
    if name.is_empty() || name.len() > 15 {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let message = Message::new(libc::RTM_GETLINK, libc::NLM_F_ACK, &interface_header(0, 0, 0));
    first_link(request(message.attribute(libc::IFLA_IFNAME, &name_bytes(name))).map_err(io::Error::from)?)
}

/// An interface of the calling thread's namespace, by number.
///
/// # Errors
/// `ENODEV` if there is none.
pub fn link_by_index(index: u32) -> io::Result<Link> {
    let header = interface_header(index, 0, 0);
    first_link(request(Message::new(libc::RTM_GETLINK, libc::NLM_F_ACK, &header)).map_err(io::Error::from)?)
}

/// All interfaces of the calling thread's namespace.
///
/// # Errors
/// What netlink says.
pub fn links() -> io::Result<Vec<Link>> {
    let message = Message::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, &interface_header(0, 0, 0));
    Ok(request(message)?.iter().filter_map(|answer| parse_link(answer)).collect())
}

fn first_link(answers: Vec<Vec<u8>>) -> io::Result<Link> {
    let answer = answers.first().and_then(|answer| parse_link(answer));
    answer.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
}

pub(super) fn parse_link(answer: &[u8]) -> Option<Link> {
    let attributes = answer.get(16..)?;
    let number = |kind| find(attributes, kind).and_then(|value| u32_at(value, 0));
    let mac = find(attributes, libc::IFLA_ADDRESS).and_then(|value| value.first_chunk().copied());
    let program = find(attributes, libc::IFLA_XDP).and_then(|xdp| find(xdp, IFLA_XDP_PROG_ID));
    let name = find(attributes, libc::IFLA_IFNAME).map(text)?;
    let in_use = receive_queues_in_use(&name).ok().filter(|count| *count > 0);
    Some(Link {
        index: u32_at(answer, 4)?,
        mac: MacAddress(mac.unwrap_or_default()),
        mtu: number(libc::IFLA_MTU)?,
        is_up: u32_at(answer, 8)? & libc::IFF_UP as u32 != 0,
        name,
        receive_queues: in_use.or_else(|| number(libc::IFLA_NUM_RX_QUEUES)).unwrap_or(1),
        xdp_program: program.and_then(|value| u32_at(value, 0)).filter(|id| *id != 0),
    })
}
