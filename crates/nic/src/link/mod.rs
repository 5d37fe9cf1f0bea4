//! Interfaces of the kernel: looking at them, and making the few changes a virtual NIC needs. No program is run.

mod classifier;
mod ethtool;
mod functions;
mod holder;
mod interface;
mod listener;
mod namespace;
pub(crate) mod netlink;
mod observer;
mod program;
mod watch;

pub use classifier::{Side, classifiers, set_classifier};
pub use ethtool::{Feature, driver, keep_vlan_tags, receive_queues_in_use, set_feature};
pub use functions::{set_function, set_function_rate};
pub use holder::Holder;
pub use interface::{Link, link, link_by_index, links};
pub use listener::kernel_listens;
pub use namespace::{Namespace, in_namespace};
pub(crate) use observer::{Bystander, Departures, Observer};
pub use program::{ask_program, clear_xdp, set_generic_xdp, set_xdp};
pub use watch::{LinkChanges, LinkWatch};

use netlink::{Message, Refusal, find, interface_header, name_bytes, request, u32_at};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

const VETH_INFO_PEER: u16 = 1;
const IFA_F_NODAD: u8 = 0x02;

/// Whether frames that are redirected to an interface of the calling thread's namespace arrive: of a veth device, both ends are up,
/// and the other one takes them.
pub fn takes_frames(index: u32) -> bool {
    Observer::open(index).ok().and_then(|observer| observer.look()).is_some_and(|look| look.takes_frames)
}

/// Addresses of an interface of the calling thread's namespace, with prefix lengths; of all interfaces for `index` 0.
///
/// # Errors
/// What netlink says.
pub fn addresses(index: u32) -> io::Result<Vec<(IpAddr, u8)>> {
    let all = all_addresses()?.into_iter();
    Ok(all.filter(|(owner, ..)| index == 0 || *owner == index).map(|(_, address, prefix)| (address, prefix)).collect())
}

/// Which interface of the calling thread's namespace has `address`.
///
/// # Errors
/// What netlink says.
pub fn owner_of(address: IpAddr) -> io::Result<Option<u32>> {
    Ok(all_addresses()?.into_iter().find(|(_, found, _)| *found == address).map(|(index, ..)| index))
}

fn all_addresses() -> io::Result<Vec<(u32, IpAddr, u8)>> {
    let answers = request(Message::new(libc::RTM_GETADDR, libc::NLM_F_DUMP, &[0; 8]))?;
    let parse = |answer: &Vec<u8>| {
        let attributes = answer.get(8..)?;
        let value = find(attributes, libc::IFA_LOCAL).or_else(|| find(attributes, libc::IFA_ADDRESS))?;
        Some((u32_at(answer, 4)?, to_address(value)?, *answer.get(1)?))
    };
    Ok(answers.iter().filter_map(parse).collect())
}

/// How the kernel would send to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Through which interface.
    pub interface_index: u32,
    /// By which next hop; `None`: directly.
    pub gateway: Option<IpAddr>,
    /// From which of its own addresses.
    pub source: Option<IpAddr>,
    /// The address is the machine's own.
    pub is_local: bool,
}

/// How the kernel of the calling thread's namespace would send to `destination`.
///
/// # Errors
/// `ENETUNREACH` if there is no way.
pub fn route_to(destination: IpAddr) -> io::Result<Route> {
    let bytes = address_bytes(destination);
    let mut header = [0u8; 12];
    header[0] = family(destination);
    header[1] = (bytes.len() * 8) as u8;
    let message = Message::new(libc::RTM_GETROUTE, libc::NLM_F_ACK, &header).attribute(libc::RTA_DST, &bytes);
    let answers = request(message).map_err(io::Error::from)?;
    let parse = |answer: &Vec<u8>| {
        let attributes = answer.get(12..)?;
        Some(Route {
            interface_index: u32_at(find(attributes, libc::RTA_OIF)?, 0)?,
            gateway: find(attributes, libc::RTA_GATEWAY).and_then(to_address),
            source: find(attributes, libc::RTA_PREFSRC).and_then(to_address),
            is_local: *answer.get(7)? == libc::RTN_LOCAL,
        })
    };
    answers.first().and_then(parse).ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))
}

/// Gives an interface an address, usable at once (no duplicate address detection).
///
/// # Errors
/// `EEXIST` if it has it; else what netlink says.
pub fn add_address(index: u32, address: IpAddr, prefix_length: u8) -> io::Result<()> {
    let bytes = address_bytes(address);
    let mut header = vec![family(address), prefix_length, IFA_F_NODAD, 0];
    header.extend(index.to_ne_bytes());
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let message = Message::new(libc::RTM_NEWADDR, flags, &header);
    request(message.attribute(libc::IFA_LOCAL, &bytes).attribute(libc::IFA_ADDRESS, &bytes))?;
    Ok(())
}

/// Gives an interface an address whose only neighbour is `peer`: the kernel routes to it, and nothing else, this way.
///
/// # Errors
/// `EEXIST` if it has it; else what netlink says.
pub fn add_peer_address(index: u32, address: IpAddr, peer: IpAddr) -> io::Result<()> {
    let (own, other) = (address_bytes(address), address_bytes(peer));
    let mut header = vec![family(address), (other.len() * 8) as u8, IFA_F_NODAD, 0];
    header.extend(index.to_ne_bytes());
    let message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL, &header);
    request(message.attribute(libc::IFA_LOCAL, &own).attribute(libc::IFA_ADDRESS, &other))?;
    Ok(())
}

/// Has the kernel send to `destination` by this interface, directly, from `source`, which is an address of the interface's. The
/// interface must be up.
///
/// # Errors
/// `EEXIST` if there is such a route; else what netlink says.
pub fn add_route(index: u32, destination: IpAddr, source: IpAddr) -> io::Result<()> {
    let (to, from) = (address_bytes(destination), address_bytes(source));
    // struct rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type, flags.
    let length = (to.len() * 8) as u8;
    let main = libc::RT_TABLE_MAIN;
    let header = [
        family(destination),
        length,
        0,
        0,
        main,
        libc::RTPROT_STATIC,
        libc::RT_SCOPE_LINK,
        libc::RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    let message = Message::new(libc::RTM_NEWROUTE, libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL, &header);
    let message = message.attribute(libc::RTA_DST, &to).attribute(libc::RTA_PREFSRC, &from);
    request(message.attribute(libc::RTA_OIF, &index.to_ne_bytes()))?;
    Ok(())
}

/// Creates a veth device: one end in the calling thread's namespace, the other in `peer_namespace`. Both are down.
///
/// # Errors
/// `EEXIST` for a name that is taken; else what netlink says.
pub fn make_veth(name: &str, peer_name: &str, peer_namespace: &Namespace, mtu: u32, queues: u32) -> io::Result<()> {
    Ok(create_veth(name, peer_name, peer_namespace, mtu, queues)?)
}

/// Sets an interface up.
///
/// # Errors
/// What netlink says.
pub fn set_up(index: u32) -> io::Result<()> {
    let up = libc::IFF_UP as u32;
    request(Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &interface_header(index, up, up)))?;
    Ok(())
}

/// Has an interface take frames for every Ethernet address.
///
/// # Errors
/// What netlink says.
pub fn set_promiscuous(index: u32) -> io::Result<()> {
    let flag = libc::IFF_PROMISC as u32;
    request(Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &interface_header(index, flag, flag)))?;
    Ok(())
}

/// Sets an interface's MTU.
///
/// # Errors
/// What netlink says.
pub fn set_mtu(index: u32, mtu: u32) -> io::Result<()> {
    let message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &interface_header(index, 0, 0));
    request(message.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes()))?;
    Ok(())
}

/// Removes an interface (and a veth device's other end).
///
/// # Errors
/// What netlink says.
pub fn delete(index: u32) -> io::Result<()> {
    request(Message::new(libc::RTM_DELLINK, libc::NLM_F_ACK, &interface_header(index, 0, 0)))?;
    Ok(())
}

/// Takes the queueing discipline off an interface: its packets go to the device at once, as a veth device's do.
///
/// # Errors
/// What netlink says.
pub fn remove_queueing(index: u32) -> io::Result<()> {
    const TC_H_ROOT: u32 = 0xffff_ffff;
    // `struct tcmsg`: family, interface, handle, parent, information.
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    request(Message::new(libc::RTM_NEWQDISC, flags, &header).attribute(libc::TCA_KIND, b"noqueue\0"))?;
    Ok(())
}

/// Creates a veth device in the calling thread's namespace, its other end in `peer_namespace`.
pub(crate) fn create_veth(
    name: &str,
    peer_name: &str,
    peer_namespace: &Namespace,
    mtu: u32,
    queues: u32,
) -> Result<(), Refusal> {
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let end = |message: Message, name: &str| {
        message
            .attribute(libc::IFLA_IFNAME, &name_bytes(name))
            .attribute(libc::IFLA_MTU, &mtu.to_ne_bytes())
            .attribute(libc::IFLA_NUM_TX_QUEUES, &queues.to_ne_bytes())
            .attribute(libc::IFLA_NUM_RX_QUEUES, &queues.to_ne_bytes())
    };
    let fd = peer_namespace.as_fd().as_raw_fd();
    let message = end(Message::new(libc::RTM_NEWLINK, flags, &interface_header(0, 0, 0)), name);
    let message = message.nest(libc::IFLA_LINKINFO, &[], |info| {
        info.attribute(libc::IFLA_INFO_KIND, b"veth").nest(libc::IFLA_INFO_DATA, &[], |data| {
            data.nest(VETH_INFO_PEER, &interface_header(0, 0, 0), |peer| {
                end(peer, peer_name).attribute(libc::IFLA_NET_NS_FD, &fd.to_ne_bytes())
            })
        })
    });
    request(message).map(|_| ())
}

fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn address_bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn to_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into()),
        16 => bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there() {
        let loopback = link("lo").unwrap();
        assert_eq!(link_by_index(loopback.index).unwrap(), loopback);
        assert!(links().unwrap().contains(&loopback));
        assert_eq!(link("nic-nosuch0").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        if loopback.is_up {
            let route = route_to(Ipv4Addr::LOCALHOST.into()).unwrap();
            assert!(route.is_local && route.interface_index == loopback.index);
            assert!(addresses(loopback.index).unwrap().contains(&(Ipv4Addr::LOCALHOST.into(), 8)));
        }
    }
}
