//! A virtual NIC made of a veth device, crash-proof by construction.
//!
//! ```text
//!   the caller's namespace                 an anonymous namespace, kept only by this process's descriptor
//!   kernel ── qanat0 10.77.0.1/24 ═══════ qanat-device ── XDP program ── AF_XDP sockets ── the stack
//! ```
//!
//! Whatever ends the process (`exit`, a panic, `kill -9`) closes the descriptor; the kernel then destroys the namespace,
//! the device in it, and with it the other end. Nothing is left behind, so there is nothing to clean up at the next start.

use crate::af_xdp::{AttachConfig, Interface};
use crate::error::DeviceError;
use crate::link::netlink::Refusal;
use crate::link::{self, Feature, Link, Namespace};
use qanat_wire::ethernet::MacAddress;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Name of the end in the anonymous namespace.
const DEVICE_NAME: &str = "qanat-device";
/// The kernel removes a dead process's device within some 30 ms, later on a busy machine; wait this long for it.
const LEFTOVER_WAIT: Duration = Duration::from_secs(2);
/// Numbers tried after `qanat`.
const NAMES_MAX: u32 = 64;

/// How to make the device.
#[derive(Clone, Debug)]
pub struct VethConfig {
    /// Name of the kernel's end; `None`: the first free of `qanat0`, `qanat1`, …
    pub host_name: Option<String>,
    /// Addresses of the kernel's end, with prefix lengths.
    pub host_addresses: Vec<(IpAddr, u8)>,
    /// Where the kernel's end goes; `None`: the calling thread's namespace.
    pub host_namespace: Option<Namespace>,
    /// MTU of both ends.
    pub mtu: u32,
    /// Queues of both ends.
    pub queues: u32,
    /// Run the receive processing of the kernel's end in a kernel thread, in batches, instead of in our `sendto`.
    pub threaded: bool,
    /// The kernel fills in the checksums of what it sends us; off (the default of veth): they arrive partial.
    pub host_checksums: bool,
}

impl Default for VethConfig {
    /// The first free name, no address, MTU 1500, one queue.
    fn default() -> VethConfig {
        VethConfig {
            host_name: None,
            host_addresses: Vec::new(),
            host_namespace: None,
            mtu: 1500,
            queues: 1,
            threaded: false,
            host_checksums: false,
        }
    }
}

/// A veth device with its inner end in an anonymous namespace. Dropping it removes both ends, as soon as no
/// [`Interface`] or queue of it is left.
#[derive(Debug)]
pub struct Veth {
    host: Link,
    device: Link,
    namespace: Namespace,
    host_namespace: Namespace,
}

/// Makes a veth device.
///
/// # Errors
/// [`DeviceError::Privileges`], [`DeviceError::NameTaken`], [`DeviceError::AddressTaken`], [`DeviceError::System`].
pub fn create(config: &VethConfig) -> Result<Veth, DeviceError> {
    let what = "create a veth device";
    let host_namespace = match &config.host_namespace {
        Some(namespace) => namespace.clone(),
        None => Namespace::current().map_err(|error| DeviceError::system(what, error))?,
    };
    let namespace = Namespace::anonymous().map_err(|error| DeviceError::system("create a network namespace", error))?;
    let quiet = namespace.within(silence_kernel);
    quiet.map_err(|error| DeviceError::system(what, error))?;
    let make = &mut |name: &str| link::create_veth(name, DEVICE_NAME, &namespace, config.mtu, config.queues.max(1));
    let host = host_namespace.within(|| make_host_end(config, "veth devices (CONFIG_VETH)", make));
    let host = host.map_err(|error| DeviceError::system(what, error))??;
    let device = namespace.within(|| {
        let device = link::link(DEVICE_NAME)?;
        link::set_up(device.index)?;
        // With TSO on, veth judges frames from here unfit for GRO and skips batching at the other end.
        let _ = link::set_feature(DEVICE_NAME, Feature::TcpSegmentation, false);
        link::link(DEVICE_NAME)
    });
    let device = device.and_then(|result| result).map_err(|error| DeviceError::system(what, error))?;
    Ok(Veth { host, device, namespace, host_namespace })
}

impl Veth {
    /// Name of the kernel's end.
    pub fn host_name(&self) -> &str {
        &self.host.name
    }

    /// The kernel's end.
    pub fn host(&self) -> &Link {
        &self.host
    }

    /// Where the kernel's end is.
    pub fn host_namespace(&self) -> &Namespace {
        &self.host_namespace
    }

    /// Our end.
    pub fn device(&self) -> &Link {
        &self.device
    }

    /// Ethernet address of our end.
    pub fn device_mac(&self) -> MacAddress {
        self.device.mac
    }

    /// Where our end is.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Loads and attaches the XDP program on our end. `config`'s interface and namespace are filled in here.
    ///
    /// # Errors
    /// Those of [`Interface::attach`].
    pub fn attach(&self, config: AttachConfig) -> Result<Interface, DeviceError> {
        Interface::attach(AttachConfig {
            interface: self.device.name.clone(),
            namespace: Some(self.namespace.clone()),
            ..config
        })
    }
}

/// Keeps the kernel of the calling thread's namespace, an anonymous one, from speaking (IPv6 autoconfiguration, MLD) on
/// devices to come.
pub fn silence_kernel() {
    for scope in ["default", "all"] {
        // Without IPv6 in the kernel there is nothing to silence.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
}

/// Makes a device by its name.
type Make<'a> = &'a mut dyn FnMut(&str) -> Result<(), Refusal>;

/// Makes the kernel's end by `make`, and sets it up; `missing`: what a kernel lacks that doesn't support it. Runs inside the host namespace.
pub(crate) fn make_host_end(config: &VethConfig, missing: &'static str, make: Make<'_>) -> Result<Link, DeviceError> {
    wait_for_addresses(config)?;
    let name = match &config.host_name {
        Some(name) => create_named(name, missing, make, LEFTOVER_WAIT)?,
        None => create_numbered(missing, make)?,
    };
    let what = "configure the veth device";
    let host = link::link(&name).map_err(|error| DeviceError::system(what, error))?;
    let finish = || -> io::Result<Link> {
        for (address, prefix_length) in &config.host_addresses {
            link::add_address(host.index, *address, *prefix_length)?;
        }
        // Receive processing in batches (NAPI), which injected frames need.
        link::set_feature(&name, Feature::GenericReceive, true)?;
        if config.host_checksums {
            link::set_feature(&name, Feature::TransmitChecksum, false)?;
        }
        link::set_up(host.index)?;
        if config.threaded {
            set_threaded(&name)?;
        }
        link::link(&name)
    };
    finish().map_err(|error| DeviceError::system(what, error))
}

fn create_numbered(missing: &'static str, make: Make<'_>) -> Result<String, DeviceError> {
    for number in 0..NAMES_MAX {
        match create_named(&format!("qanat{number}"), missing, make, Duration::ZERO) {
            Err(DeviceError::NameTaken { .. }) => {}
            result => return result,
        }
    }
    Err(DeviceError::NameTaken { name: format!("qanat{}", NAMES_MAX - 1) })
}

fn create_named(name: &str, missing: &'static str, make: Make<'_>, wait: Duration) -> Result<String, DeviceError> {
    if name.is_empty() || name.len() > 15 || name.contains(['/', ' ', '\0']) {
        return Err(DeviceError::Invalid {
            reason: format!("interface name '{name}': 1 to 15 characters, no / or space"),
        });
    }
    let deadline = Instant::now() + wait;
    loop {
        match make(name) {
            Ok(()) => return Ok(name.to_owned()),
            Err(refusal) if refusal.errno() == libc::EEXIST => {
                if Instant::now() >= deadline {
                    return Err(DeviceError::NameTaken { name: name.to_owned() });
                }
            }
            Err(refusal) if refusal.errno() == libc::EOPNOTSUPP => {
                return Err(DeviceError::KernelTooOld { missing });
            }
            Err(refusal) => return Err(DeviceError::system("create a virtual device", refusal.into())),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Two interfaces with one address would both answer for it: wait for a dying one, refuse a living one.
fn wait_for_addresses(config: &VethConfig) -> Result<(), DeviceError> {
    let system = |error| DeviceError::system("read addresses", error);
    let deadline = Instant::now() + LEFTOVER_WAIT;
    for (address, _) in &config.host_addresses {
        while let Some(index) = link::owner_of(*address).map_err(system)? {
            if Instant::now() >= deadline {
                let interface =
                    link::link_by_index(index).map_or_else(|_| format!("interface {index}"), |link| link.name);
                return Err(DeviceError::AddressTaken { address: *address, interface });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Threaded NAPI, by sysfs. That shows the namespace it was mounted in: mount this thread's namespace's own, unseen by
/// anybody else.
fn set_threaded(name: &str) -> io::Result<()> {
    // SAFETY: no file descriptors are unshared. This helper thread alone gets the new mount namespace.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    // Mounts here become private, so that this thread alone sees the one that follows.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("sysfs", "/sys", "sysfs", MountFlags::empty(), None)?;
    std::fs::write(format!("/sys/class/net/{name}/threaded"), "1")
}
