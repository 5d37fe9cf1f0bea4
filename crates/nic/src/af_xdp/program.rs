//! The XDP program: loaded, attached by a link that dies with the process, its rules and counters.
//!
//! Layouts here are the twins of `bpf/steer.c`.

use crate::error::DeviceError;
use crate::link::Holder;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf, XskMap};
use aya::programs::Xdp;
use aya::{Ebpf, EbpfError, Pod};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Own addresses at most, per family.
pub const ADDRESSES_MAX: usize = 64;
/// Services at most of one shared address.
pub const SERVICES_MAX: usize = 8;
/// Queues at most.
pub const QUEUES_MAX: u32 = 64;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/steer.o"));

/// What the server takes of the traffic to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The destination address; of no meaning for [`Take::Everything`].
    pub address: IpAddr,
    /// How much of it.
    pub take: Take,
}

/// See [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Everything, ARP and ND for it included: the kernel must not have the address.
    Address,
    /// Only these services; the kernel answers ARP, ND and ICMP echo and keeps all other ports. ICMP errors about
    /// packets from these ports are taken too.
    Services(Vec<PortRange>),
    /// Every frame that arrives, whatever it carries and wherever it is to go: a forwarder's rule.
    Everything,
}

/// A range of ports of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// IP protocol number: 6 (TCP) or 17 (UDP).
    pub protocol: u8,
    /// First port.
    pub first: u16,
    /// Last port, inclusive.
    pub last: u16,
}

impl Rule {
    /// All of `address`.
    pub fn whole(address: IpAddr) -> Rule {
        Rule { address, take: Take::Address }
    }

    /// Every frame: nothing that arrives reaches the kernel.
    pub fn everything() -> Rule {
        Rule { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), take: Take::Everything }
    }

    /// Only some ports of `address`, which the kernel has too.
    pub fn shared(address: IpAddr, services: &[PortRange]) -> Rule {
        Rule { address, take: Take::Services(services.to_vec()) }
    }
}

/// Packets seen by the program, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Left to the kernel: not ours.
    pub passed: u64,
    /// Taken: ARP for a whole address.
    pub taken_arp: u64,
    /// Taken: neighbour solicitations for a whole address.
    pub taken_nd: u64,
    /// Taken: to a whole address.
    pub taken_address: u64,
    /// Taken: to a service of a shared address.
    pub taken_service: u64,
    /// Taken: ICMP errors about a shared address's service.
    pub taken_error: u64,
    /// Ours, but no socket is on the queue it came by: left to the kernel.
    pub no_socket: u64,
    /// Cut short within headers: left to the kernel.
    pub malformed: u64,
    /// Taken: by the rule that takes every frame.
    pub taken_everything: u64,
    /// For all nodes of the link: left to the kernel, and copied to us.
    pub copied: u64,
    /// The same, but too long to be copied (1,016 bytes), or too many at once.
    pub copy_lost: u64,
}

/// What holds for all rules.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Settings {
    everything: u32,
    vlan: u32,
    copies: u32,
}

// SAFETY: plain integers without padding.
unsafe impl Pod for Settings {}

/// A frame for all nodes as the program copies it: its length, a reserved word, its bytes.
const COPY_HEADER: usize = 8;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Service {
    first_port: u16,
    last_port: u16,
    protocol: u8,
    reserved: [u8; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Ownership {
    whole: u32,
    services: [Service; SERVICES_MAX],
}

// SAFETY: plain integers without padding: 4 + 8 × 8 bytes.
unsafe impl Pod for Ownership {}
const _: () = assert!(size_of::<Ownership>() == 4 + 8 * SERVICES_MAX);

/// The attached program. Dropping it detaches it.
pub(super) struct Program {
    sockets: XskMap<MapData>,
    settings: Array<MapData, Settings>,
    set: Settings,
    /// Until a queue takes it.
    copies: Option<RingBuf<MapData>>,
    addresses_v4: HashMap<MapData, u32, Ownership>,
    addresses_v6: HashMap<MapData, [u8; 16], Ownership>,
    verdicts: PerCpuArray<MapData, u64>,
    rules: BTreeSet<IpAddr>,
    _link: OwnedFd,
    /// Whether it takes packets of several buffers.
    pub(super) scatter: bool,
    _object: Ebpf,
}

impl Program {
    /// Loads the program and attaches it natively to the interface. To be called inside its namespace.
    pub(super) fn attach(index: u32, name: &str, mtu: u32, driver: &str) -> Result<Program, DeviceError> {
        let mut object = super::object::load(OBJECT).map_err(load_error)?;
        // A driver that knows packets of several buffers bears any MTU; others refuse that program.
        let (link, scatter) = match try_attach(&mut object, "steer_frags", index) {
            Ok(link) => (link, true),
            Err(Attempt::Load(error)) => return Err(load_error(EbpfError::ProgramError(error))),
            Err(Attempt::Link(_)) => match try_attach(&mut object, "steer_linear", index) {
                Ok(link) => (link, false),
                Err(Attempt::Load(error)) => return Err(load_error(EbpfError::ProgramError(error))),
                Err(Attempt::Link(error)) => return Err(link_error(error, name, mtu, driver)),
            },
        };
        Ok(Program {
            sockets: map(&mut object, "sockets")?,
            settings: map(&mut object, "settings")?,
            set: Settings::default(),
            copies: Some(map(&mut object, "copies")?),
            addresses_v4: map(&mut object, "addresses_v4")?,
            addresses_v6: map(&mut object, "addresses_v6")?,
            verdicts: map(&mut object, "verdicts")?,
            rules: BTreeSet::new(),
            _link: link,
            scatter,
            _object: object,
        })
    }

    /// Sends what is taken on `queue` to this socket.
    pub(super) fn set_socket(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), DeviceError> {
        self.sockets.set(queue, socket.as_raw_fd(), 0).map_err(|error| map_error("register the AF_XDP socket", error))
    }

    /// Replaces the rules: new ones first, so that an address in both is never without.
    pub(super) fn set_rules(&mut self, rules: &[Rule]) -> Result<(), DeviceError> {
        let what = "set steering rules";
        self.set.everything = u32::from(rules.iter().any(|rule| rule.take == Take::Everything));
        self.settings.set(0, self.set, 0).map_err(|error| map_error(what, error))?;
        let ownerships = check(rules)?;
        let kept: BTreeSet<IpAddr> = ownerships.iter().map(|(address, _)| *address).collect();
        // The old ones must go first if both don't fit.
        let overfull = self.rules.union(&kept).count() > ADDRESSES_MAX;
        let stale: Vec<IpAddr> = self.rules.difference(&kept).copied().collect();
        if overfull {
            self.remove(&stale).map_err(|error| map_error(what, error))?;
        }
        for (address, ownership) in ownerships {
            self.insert(address, ownership).map_err(|error| map_error(what, error))?;
        }
        if !overfull {
            self.remove(&stale).map_err(|error| map_error(what, error))?;
        }
        Ok(())
    }

    /// The VLAN in which rules hold (0: untagged frames), and whether to copy what is for all nodes.
    pub(super) fn set_link(&mut self, vlan: u16, copies: bool) -> Result<(), DeviceError> {
        (self.set.vlan, self.set.copies) = (vlan.into(), copies.into());
        self.settings.set(0, self.set, 0).map_err(|error| map_error("set up steering", error))
    }

    /// Takes everything for one more address.
    pub(super) fn claim(&mut self, address: IpAddr) -> Result<(), DeviceError> {
        let what = "steer to a further address";
        if self.rules.len() >= ADDRESSES_MAX {
            let reason = format!("{ADDRESSES_MAX} own addresses already");
            return Err(DeviceError::Invalid { reason });
        }
        let whole = Ownership { whole: 1, ..Ownership::default() };
        self.insert(address, whole).map_err(|error| map_error(what, error))
    }

    /// Leaves an address to the kernel again.
    pub(super) fn release(&mut self, address: IpAddr) -> Result<(), DeviceError> {
        if !self.rules.contains(&address) {
            return Ok(());
        }
        self.remove(&[address]).map_err(|error| map_error("leave an address to the kernel", error))
    }

    /// The ring of copies, for a queue to read; `None`: another has it.
    pub(super) fn take_copies(&mut self) -> Option<RingBuf<MapData>> {
        self.copies.take().filter(|_| self.set.copies != 0)
    }

    fn insert(&mut self, address: IpAddr, ownership: Ownership) -> Result<(), MapError> {
        match address {
            IpAddr::V4(address) => self.addresses_v4.insert(u32::from_ne_bytes(address.octets()), ownership, 0)?,
            IpAddr::V6(address) => self.addresses_v6.insert(address.octets(), ownership, 0)?,
        }
        self.rules.insert(address);
        Ok(())
    }

    fn remove(&mut self, addresses: &[IpAddr]) -> Result<(), MapError> {
        for address in addresses {
            match address {
                IpAddr::V4(address) => self.addresses_v4.remove(&u32::from_ne_bytes(address.octets()))?,
                IpAddr::V6(address) => self.addresses_v6.remove(&address.octets())?,
            }
            self.rules.remove(address);
        }
        Ok(())
    }

    /// The program's counters, summed over processors.
    pub(super) fn verdicts(&self) -> Result<Verdicts, DeviceError> {
        let read = |slot: u32| -> Result<u64, DeviceError> {
            let values = self.verdicts.get(&slot, 0).map_err(|error| map_error("read XDP counters", error))?;
            Ok(values.iter().sum())
        };
        Ok(Verdicts {
            passed: read(0)?,
            taken_arp: read(1)?,
            taken_nd: read(2)?,
            taken_address: read(3)?,
            taken_service: read(4)?,
            taken_error: read(5)?,
            no_socket: read(6)?,
            malformed: read(7)?,
            taken_everything: read(8)?,
            copied: read(9)?,
            copy_lost: read(10)?,
        })
    }
}

/// The frame in an entry of the ring of copies.
pub(super) fn copied_frame(entry: &[u8]) -> Option<&[u8]> {
    let (length, rest) = entry.split_first_chunk::<4>()?;
    let length = u32::from_ne_bytes(*length) as usize;
    rest.get(COPY_HEADER - 4..)?.get(..length)
}

/// Rules about addresses, in the program's form.
fn check(rules: &[Rule]) -> Result<Vec<(IpAddr, Ownership)>, DeviceError> {
    if rules.len() > ADDRESSES_MAX {
        let reason = format!("{} own addresses: at most {ADDRESSES_MAX}", rules.len());
        return Err(DeviceError::Invalid { reason });
    }
    let convert = |rule: &Rule| {
        let mut ownership = Ownership::default();
        match &rule.take {
            Take::Address | Take::Everything => ownership.whole = 1,
            Take::Services(ranges) => {
                let valid = |range: &PortRange| matches!(range.protocol, 6 | 17) && range.first <= range.last;
                if ranges.is_empty() || ranges.len() > SERVICES_MAX || !ranges.iter().all(valid) {
                    let reason = format!(
                        "services of {}: 1 to {SERVICES_MAX} ranges of TCP or UDP ports, first to last",
                        rule.address
                    );
                    return Err(DeviceError::Invalid { reason });
                }
                for (service, range) in ownership.services.iter_mut().zip(ranges) {
                    let (first_port, last_port) = (range.first, range.last);
                    *service = Service { first_port, last_port, protocol: range.protocol, reserved: [0; 3] };
                }
            }
        }
        Ok((rule.address, ownership))
    };
    rules.iter().filter(|rule| rule.take != Take::Everything).map(convert).collect()
}

enum Attempt {
    Load(aya::programs::ProgramError),
    Link(io::Error),
}

fn try_attach(object: &mut Ebpf, name: &str, index: u32) -> Result<OwnedFd, Attempt> {
    use aya::programs::ProgramError;
    let program = object.program_mut(name).ok_or(Attempt::Load(ProgramError::UnexpectedProgramType))?;
    let program: &mut Xdp = program.try_into().map_err(Attempt::Load)?;
    super::object::load_program(program, Xdp::load).map_err(Attempt::Load)?;
    let fd = program.fd().map_err(Attempt::Load)?;
    create_link(fd.as_fd(), index, XDP_FLAGS_DRV_MODE).map_err(Attempt::Link)
}

/// Native mode.
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// `BPF_LINK_CREATE`. Not aya's `attach`: that falls back to netlink, whose attachment would outlive us.
pub(super) fn create_link(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    const BPF_LINK_CREATE: i64 = 28;
    const BPF_XDP: u32 = 37;
    #[repr(C, align(8))]
    struct Attributes {
        program: u32,
        target: u32,
        attach_type: u32,
        flags: u32,
        rest: [u64; 4],
    }
    let attributes =
        Attributes { program: program.as_raw_fd() as u32, target: index, attach_type: BPF_XDP, flags, rest: [0; 4] };
    // SAFETY: a live attribute block of this length, zero beyond the fields this command has.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const attributes, size_of_val(&attributes)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn link_error(error: io::Error, name: &str, mtu: u32, driver: &str) -> DeviceError {
    let name = name.to_owned();
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            let program = crate::link::link(&name).ok().and_then(|link| link.xdp_program);
            let holder = program.and_then(Holder::of_program);
            DeviceError::Occupied { name, program, holder }
        }
        Some(libc::EOPNOTSUPP) => DeviceError::NoNativeXdp { name, driver: driver.to_owned() },
        Some(libc::ERANGE) => DeviceError::MtuTooLarge { name, mtu },
        Some(libc::ENODEV) => DeviceError::NoSuchInterface { name },
        Some(libc::ENOSPC) => DeviceError::Invalid {
            reason: format!(
                "{name} has fewer receive queues than its veth peer has transmit queues: make it with as many"
            ),
        },
        _ => DeviceError::system("attach the XDP program", error),
    }
}

/// Tells missing privileges apart in aya's nested errors.
pub(super) fn load_error(error: EbpfError) -> DeviceError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(system) = current.downcast_ref::<io::Error>() {
            // EACCES would be the verifier, not a privilege.
            if system.raw_os_error() == Some(libc::EPERM) {
                return DeviceError::Privileges { what: "load the XDP program" };
            }
            if system.raw_os_error() == Some(libc::ENOSYS) {
                return DeviceError::KernelTooOld { missing: "the bpf system call" };
            }
            if system.raw_os_error() == Some(libc::EMFILE) {
                return DeviceError::Descriptors { what: "load the XDP program".to_owned() };
            }
        }
        cause = current.source();
    }
    DeviceError::System { what: "load the XDP program".to_owned(), source: io::Error::other(whole(&error)) }
}

/// An error with its causes: aya's say what they were about, and leave what the system said to their sources.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        let said = current.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = current.source();
    }
    text
}

pub(super) fn map<T: TryFrom<Map, Error = MapError>>(object: &mut Ebpf, name: &'static str) -> Result<T, DeviceError> {
    let missing = || DeviceError::Invalid { reason: format!("the XDP program has no map {name}: rebuild") };
    let map = object.take_map(name).ok_or_else(missing)?;
    T::try_from(map).map_err(|error| map_error("open the XDP program's maps", error))
}

pub(super) fn map_error(what: &'static str, error: MapError) -> DeviceError {
    match error {
        MapError::SyscallError(error) => DeviceError::system(what, error.io_error),
        other => DeviceError::System { what: what.to_owned(), source: io::Error::other(whole(&other)) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn copies_have_the_length_they_say() {
        assert_eq!(copied_frame(&[2, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9]), Some([7, 8].as_slice()));
        assert_eq!(copied_frame(&[4, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9]), None);
        assert_eq!(copied_frame(&[1, 0, 0, 0, 0]), None);
    }

    #[test]
    fn rules_are_checked() {
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        let range = PortRange { protocol: 6, first: 80, last: 80 };
        assert!(check(&[Rule::whole(address), Rule::shared(address, &[range])]).is_ok());
        for bad in [
            Rule::shared(address, &[]),
            Rule::shared(address, &[PortRange { protocol: 1, ..range }]),
            Rule::shared(address, &[PortRange { first: 81, ..range }]),
            Rule::shared(address, &[range; SERVICES_MAX + 1]),
        ] {
            assert!(check(&[bad]).is_err());
        }
        assert!(check(&vec![Rule::whole(address); ADDRESSES_MAX + 1]).is_err());
    }
}
