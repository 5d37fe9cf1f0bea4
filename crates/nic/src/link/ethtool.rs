//! The few ethtool requests needed.

use super::netlink::text;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::AsRawFd;

const ETHTOOL_GDRVINFO: u32 = 0x3;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_SFLAGS: u32 = 0x26;
/// The device takes the VLAN tag out of received frames and hands it over beside them.
const FLAG_RECEIVE_VLAN: u32 = 1 << 8;
const DRIVER_INFORMATION_BYTES: usize = 196;

/// An offload of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feature {
    /// The device fills in transmit checksums; off: the kernel does, so that a receiver can check them.
    TransmitChecksum,
    /// TCP segmentation.
    TcpSegmentation,
    /// Generic receive offload.
    GenericReceive,
    /// Generic segmentation.
    GenericSegmentation,
}

impl Feature {
    fn set_command(self) -> u32 {
        match self {
            Feature::TransmitChecksum => 0x17,
            Feature::TcpSegmentation => 0x1f,
            Feature::GenericReceive => 0x2c,
            Feature::GenericSegmentation => 0x24,
        }
    }
}

/// Switches an offload of an interface of the calling thread's namespace.
///
/// # Errors
/// `EOPNOTSUPP` if the driver can't, `EPERM`, `ENODEV`.
pub fn set_feature(interface: &str, feature: Feature, on: bool) -> io::Result<()> {
    let mut value = [feature.set_command(), u32::from(on)];
    request(interface, value.as_mut_ptr().cast())
}

/// Has an interface of the calling thread's namespace leave VLAN tags in received frames (`ethtool -K … rxvlan off`). The
/// kernel's own VLAN interfaces over it go on working: the kernel takes them out then.
///
/// # Errors
/// `EINVAL` or `EOPNOTSUPP` if the driver can't do otherwise, `EPERM`, `ENODEV`.
pub fn keep_vlan_tags(interface: &str) -> io::Result<()> {
    let mut value = [ETHTOOL_GFLAGS, 0];
    request(interface, value.as_mut_ptr().cast())?;
    if value[1] & FLAG_RECEIVE_VLAN == 0 {
        return Ok(());
    }
    let mut value = [ETHTOOL_SFLAGS, value[1] & !FLAG_RECEIVE_VLAN];
    request(interface, value.as_mut_ptr().cast())
}

/// Name of the driver of an interface of the calling thread's namespace.
///
/// # Errors
/// `ENODEV`, or `EOPNOTSUPP` of a device without one (loopback).
pub fn driver(interface: &str) -> io::Result<String> {
    let mut information = [0u8; DRIVER_INFORMATION_BYTES];
    information[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
    request(interface, information.as_mut_ptr().cast())?;
    Ok(text(&information[4..36]))
}

/// Receive queues in use of an interface of the calling thread's namespace. A driver may have made more than it uses: a veth device has
/// one for each processor, and uses one of them.
///
/// # Errors
/// `EOPNOTSUPP` if the driver has no channels to choose from, `ENODEV`.
pub fn receive_queues_in_use(interface: &str) -> io::Result<u32> {
    // `struct ethtool_channels`: the command; most of receive, transmit, other, and combined channels; then how many are in use.
    let mut value = [0; 9];
    value[0] = ETHTOOL_GCHANNELS;
    request(interface, value.as_mut_ptr().cast())?;
    let [.., receive, _transmit, _other, combined] = value;
    Ok(receive.saturating_add(combined))
}

fn request(interface: &str, data: *mut libc::c_char) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero ifreq is valid.
    let mut message: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= message.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (target, byte) in message.ifr_name.iter_mut().zip(interface.bytes()) {
        *target = byte as libc::c_char;
    }
    message.ifr_ifru.ifru_data = data;
    // SAFETY: `data` points to the structure its command word announces, live in the caller; the kernel fills at most it.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut message) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
