//! Making a TAP device.

use super::queue::Tap;
use crate::base::random::unpredictable;
use crate::error::DeviceError;
use crate::link::{self, Bystander, Link, Namespace};
use crate::plan::{FrameMemory, MemoryPlan};
use crate::veth::{VethConfig, make_host_end};
use qanat_wire::ethernet::MacAddress;
use std::fs::OpenOptions;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

/// What packets may be when they are handed over: checksums that are partial, TCP that is to be cut.
const OFFERED: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
/// Where devices come from.
const CONTROL: &str = "/dev/net/tun";

/// How to make the device.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// Name of the kernel's end; `None`: the first free of `qanat0`, `qanat1`, …
    pub host_name: Option<String>,
    /// Addresses of the kernel's end, with prefix lengths.
    pub host_addresses: Vec<(IpAddr, u8)>,
    /// Where the kernel's end goes; `None`: the calling thread's namespace.
    pub host_namespace: Option<Namespace>,
    /// Its MTU.
    pub mtu: u32,
}

/// A TAP device. It is gone when this and what was opened of it are.
#[derive(Debug)]
pub struct TapDevice {
    host: Link,
    fd: OwnedFd,
    mac: MacAddress,
    kernel_end: Arc<Bystander>,
}

/// Makes a TAP device: the kernel's end is the device, ours the descriptor.
///
/// # Errors
/// [`DeviceError::Privileges`], [`DeviceError::NameTaken`], [`DeviceError::AddressTaken`], [`DeviceError::KernelTooOld`],
/// [`DeviceError::System`].
pub fn create(config: &TapConfig) -> Result<TapDevice, DeviceError> {
    let what = "create a TAP device";
    let system = |error| DeviceError::system(what, error);
    let namespace = match &config.host_namespace {
        Some(namespace) => namespace.clone(),
        None => Namespace::current().map_err(system)?,
    };
    let host_end = VethConfig {
        host_name: config.host_name.clone(),
        host_addresses: config.host_addresses.clone(),
        mtu: config.mtu,
        ..VethConfig::default()
    };
    let make = || -> Result<(Link, OwnedFd, Bystander), DeviceError> {
        let mut fd = None;
        let host = make_host_end(&host_end, "TAP devices (CONFIG_TUN, /dev/net/tun)", &mut |name| {
            fd = Some(make(name)?);
            Ok(link::set_mtu(link::link(name)?.index, config.mtu)?)
        })?;
        link::remove_queueing(host.index).map_err(system)?;
        let kernel_end = Bystander::open(host.index).map_err(system)?;
        let fd = fd.ok_or_else(|| system(io::ErrorKind::NotFound.into()))?;
        Ok((host, fd, kernel_end))
    };
    let (host, fd, kernel_end) = namespace.within(make).map_err(system)??;
    let mac = random_address().map_err(|error| DeviceError::system("find an Ethernet address", error))?;
    Ok(TapDevice { host, fd, mac, kernel_end: Arc::new(kernel_end) })
}

/// Makes a device of the calling thread's namespace; returns its descriptor. The device is gone when all copies of that are closed, and it
/// is not set up yet.
///
/// # Errors
/// `AlreadyExists`: there is an interface of that name. `EOPNOTSUPP`: this machine has no TAP devices.
pub fn make(name: &str) -> io::Result<OwnedFd> {
    attach(name, libc::IFF_TUN_EXCL)
}

/// A descriptor of a persistent device of the calling thread's namespace, which nobody else has one of.
///
/// # Errors
/// `EBUSY`: somebody has.
pub fn open_persistent(name: &str) -> io::Result<OwnedFd> {
    attach(name, 0)
}

/// Has a device stay when nobody has a descriptor of it any more, or not.
///
/// # Errors
/// What the system says.
pub fn set_persistent(device: BorrowedFd<'_>, stays: bool) -> io::Result<()> {
    // SAFETY: takes a number.
    match unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETPERSIST as _, libc::c_ulong::from(stays)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Deletes a device, in whatever namespace it is by now.
///
/// # Errors
/// What the system says: `EBADFD` if it is gone already.
pub fn delete(device: BorrowedFd<'_>) -> io::Result<()> {
    // `_IO('T', 227)` of linux/if_tun.h: the namespace that the device is in.
    const TUNGETDEVNETNS: libc::Ioctl = 0x54e3;
    // SAFETY: takes nothing, and returns a descriptor.
    let namespace = unsafe { libc::ioctl(device.as_raw_fd(), TUNGETDEVNETNS) };
    if namespace < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made just now, and nobody else owns it.
    let namespace = unsafe { OwnedFd::from_raw_fd(namespace) };
    // SAFETY: plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // SAFETY: a live request, which the kernel fills in.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNGETIFF as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let name: String =
        request.ifr_name.iter().map_while(|byte| (*byte != 0).then(|| char::from(*byte as u8))).collect();
    link::in_namespace(namespace.as_fd(), || link::delete(link::link(&name)?.index))?
}

/// Makes a TUN device of the calling thread's namespace: whole IP packets, as they are, with nothing before them. Reading its descriptor
/// waits for a packet. The device is gone when all copies of that are closed, and it is not set up yet.
///
/// # Errors
/// `AlreadyExists`: there is an interface of that name. `EOPNOTSUPP`: this machine has no TUN devices.
pub fn make_tun(name: &str) -> io::Result<OwnedFd> {
    request_device(name, libc::IFF_TUN | libc::IFF_TUN_EXCL, 0)
}

/// Attaches a descriptor to a TAP device of the calling thread's namespace, and makes that if it is not there.
fn attach(name: &str, more: libc::c_int) -> io::Result<OwnedFd> {
    let device = request_device(name, libc::IFF_TAP | libc::IFF_VNET_HDR | more, libc::O_NONBLOCK)?;
    // SAFETY: takes a number.
    if unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(OFFERED)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(device)
}

/// A descriptor, opened with `flags`, of a device of the kind that `kind` describes.
fn request_device(name: &str, kind: libc::c_int, flags: libc::c_int) -> io::Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags | libc::O_CLOEXEC).open(CONTROL);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => io::Error::from_raw_os_error(libc::EOPNOTSUPP),
        _ => error,
    })?;
    // SAFETY: plain numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: a live request with a NUL-terminated name.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } < 0 {
        let error = io::Error::last_os_error();
        // An interface has that name.
        return Err(if kind & libc::IFF_TUN_EXCL != 0 && error.raw_os_error() == Some(libc::EBUSY) {
            io::Error::from_raw_os_error(libc::EEXIST)
        } else {
            error
        });
    }
    Ok(file.into())
}

/// An Ethernet address for our end, locally administered.
///
/// # Errors
/// What the system says.
pub fn random_address() -> io::Result<MacAddress> {
    let mut bytes: [u8; 6] = unpredictable()?;
    bytes[0] = bytes[0] & 0xfc | 2;
    Ok(MacAddress(bytes))
}

impl TapDevice {
    /// The kernel's end.
    pub fn host(&self) -> &Link {
        &self.host
    }

    /// Ethernet address of our end.
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Opens its queue on this thread. A device has one queue: what two of them receive would be split between them.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] for memory that can't be had; [`DeviceError::System`].
    pub fn open(&self, plan: MemoryPlan) -> Result<Tap, DeviceError> {
        let memory = plan.allocate();
        self.open_over(memory.map_err(|error| DeviceError::Invalid { reason: format!("memory for frames: {error}") })?)
    }

    /// As [`open`](TapDevice::open), over memory that is there.
    ///
    /// # Errors
    /// [`DeviceError::System`].
    pub fn open_over(&self, memory: FrameMemory) -> Result<Tap, DeviceError> {
        let fd = self.fd.try_clone().map_err(|error| DeviceError::system("open a TAP device", error))?;
        Ok(Tap::over(fd, self.mac, self.host.mtu, memory, Some(Arc::clone(&self.kernel_end))))
    }
}

/// A device that somebody else has made, of which we have the descriptor: the kernel's end is out of sight.
#[derive(Debug)]
pub struct HandedTap {
    /// Its descriptor.
    pub fd: OwnedFd,
    /// Ethernet address of our end.
    pub mac: MacAddress,
    /// Its MTU.
    pub mtu: u32,
}

impl HandedTap {
    /// Its queue.
    pub fn open_over(self, memory: FrameMemory) -> Tap {
        Tap::over(self.fd, self.mac, self.mtu, memory, None)
    }
}
