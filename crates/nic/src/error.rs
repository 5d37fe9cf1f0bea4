//! [`DeviceError`]: why a device can't be created or opened, and what to do about it.

use crate::link::Holder;
use std::io;
use std::net::IpAddr;

/// How a process is allowed more descriptors.
pub const DESCRIPTORS_REMEDY: &str = "`ulimit -n 1024` as root (LimitNOFILE=1024 in a unit)";

/// Why a device can't be had. The text names the place and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The process may not do `what`.
    #[error(
        "{what}: not permitted. It needs root or CAP_NET_ADMIN+CAP_BPF+CAP_NET_RAW (CAP_SYS_ADMIN to create a veth device): {}",
        crate::privilege::remedy()
    )]
    Privileges {
        /// What was tried.
        what: &'static str,
    },
    /// There is no such interface in the namespace.
    #[error("no interface {name}: `ip link` lists what there is")]
    NoSuchInterface {
        /// Its name.
        name: String,
    },
    /// The interface is down, and so is what should pass through it.
    #[error("{name} is down: `ip link set {name} up`")]
    InterfaceDown {
        /// Its name.
        name: String,
    },
    /// Another XDP program is attached.
    #[error("{}", occupied(name, *program, holder.as_ref()))]
    Occupied {
        /// The interface.
        name: String,
        /// The kernel's number of that program, if it told.
        program: Option<u32>,
        /// Whose it is, if that can be seen.
        holder: Option<Holder>,
    },
    /// The kernel has a server at a port that was asked for, of an address that is shared with it.
    #[error("{}", port_taken(address, *protocol, *port))]
    PortTaken {
        /// The address.
        address: IpAddr,
        /// IP protocol number.
        protocol: u8,
        /// The port.
        port: u16,
    },
    /// Another AF_XDP socket is bound to the queue.
    #[error(
        "queue {queue} of {name} has another AF_XDP socket: stop the program that owns it (`ss --xdp -p`), or choose another \
         interface"
    )]
    QueueBusy {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// The interface uses fewer queues.
    #[error(
        "{name} uses {available} queues, not {wanted}: ask for fewer, or turn more on by `ethtool -L {name} combined {wanted}` (a veth \
         device: `rx {wanted} tx {wanted}`)"
    )]
    TooFewQueues {
        /// The interface.
        name: String,
        /// Queues asked for.
        wanted: u32,
        /// Queues in use.
        available: u32,
    },
    /// The interface's driver has no native XDP.
    #[error("{}", no_native_xdp(name, driver))]
    NoNativeXdp {
        /// The interface.
        name: String,
        /// Its driver.
        driver: String,
    },
    /// Packets of this MTU don't fit the driver's XDP buffers.
    #[error(
        "MTU {mtu} of {name} is too large for its driver's XDP: `ip link set {name} mtu 3498` or less (on veth: of both ends)"
    )]
    MtuTooLarge {
        /// The interface.
        name: String,
        /// Its MTU.
        mtu: u32,
    },
    /// The kernel lacks something.
    #[error("this kernel lacks {missing}: Linux 6.6 or newer is needed, built with CONFIG_XDP_SOCKETS")]
    KernelTooOld {
        /// What is missing.
        missing: &'static str,
    },
    /// Frame memory exceeds the locked-memory limit.
    #[error(
        "{bytes} bytes of frame memory exceed the locked-memory limit: `ulimit -l unlimited`, CAP_IPC_LOCK, or fewer frames"
    )]
    LockedMemory {
        /// Bytes to lock.
        bytes: usize,
    },
    /// The process has as many descriptors as it may.
    #[error("{what}: this process has as many descriptors as it may: raise the limit, {DESCRIPTORS_REMEDY}")]
    Descriptors {
        /// What was tried.
        what: String,
    },
    /// The interface name is taken.
    #[error(
        "interface {name} exists already: stop the program that made it, choose another name, or `ip link del {name}` if nothing uses \
         it"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The address to assign is on another interface already.
    #[error(
        "{interface} has address {address} already: stop the program that made it, or choose another network (--address)"
    )]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// The interface that has it.
        interface: String,
    },
    /// A setting makes no sense.
    #[error("{reason}")]
    Invalid {
        /// What and why.
        reason: String,
    },
    /// Anything else the system said.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl DeviceError {
    /// Wraps a system error, telling missing privileges apart.
    pub(crate) fn system(what: &'static str, source: io::Error) -> DeviceError {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => DeviceError::Privileges { what },
            Some(libc::EMFILE) => DeviceError::Descriptors { what: what.to_owned() },
            _ => DeviceError::System { what: what.to_owned(), source },
        }
    }
}

/// The text of [`DeviceError::PortTaken`].
fn port_taken(address: &IpAddr, protocol: u8, port: u16) -> String {
    let (name, letter) = if protocol == 17 { ("UDP", 'u') } else { ("TCP", 't') };
    format!(
        "another program serves {name} port {port} of {address} by the kernel: stop it (`ss -{letter}lnp 'sport = :{port}'` names \
         it), or choose another port (--port)"
    )
}

/// The text of [`DeviceError::Occupied`].
fn occupied(name: &str, program: Option<u32>, holder: Option<&Holder>) -> String {
    match (holder, program) {
        (Some(holder), _) if holder.is_qanat() => format!(
            "{name} is used by {holder}: stop it, or let both have cards of one daemon (`qanat up --uplink {name}`, then start \
             them without --interface)"
        ),
        (Some(holder), _) => {
            format!("{name} has another XDP program, of {holder}: stop that process, or choose another interface")
        }
        (None, program) => {
            let whose = program.map_or_else(String::new, |program| {
                format!(" (id {program}; `bpftool prog show id {program}` says whose)")
            });
            format!(
                "{name} has another XDP program{whose}: stop that program, or remove it with `ip link set {name} xdp off` (in the \
                 namespace of {name}; `bpftool link detach` if a link holds it)"
            )
        }
    }
}

/// The text of [`DeviceError::NoNativeXdp`].
fn no_native_xdp(name: &str, driver: &str) -> String {
    match driver {
        "" => format!("{name} has no driver with native XDP: use a veth device, or a card"),
        driver => format!("driver {driver} of {name} has no native XDP: use a veth device, or another card"),
    }
}

impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> io::Error {
        let kind = match &error {
            DeviceError::Privileges { .. } => io::ErrorKind::PermissionDenied,
            DeviceError::NoSuchInterface { .. } => io::ErrorKind::NotFound,
            DeviceError::Invalid { .. } => io::ErrorKind::InvalidInput,
            DeviceError::System { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
