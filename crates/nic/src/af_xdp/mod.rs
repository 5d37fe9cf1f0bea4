//! The AF_XDP driver: frames between an interface's queues and this process without the kernel's network stack.
//!
//! [`Interface::attach`] loads the XDP program once and hands out one [`QueueOpener`] per queue; each is sent to the
//! thread that will use the queue and opened there into an [`AfXdp`], which is a [`Vnic`](crate::Vnic). The program stays
//! attached as long as the interface or one of its queues is open, and never longer than the process lives.

mod account;
mod call;
mod copies;
mod handed;
mod inject;
mod injection;
mod moved;
mod object;
mod pace;
mod program;
mod queue;
mod ring;
mod socket;
mod take_over;

pub use handed::{HandedCard, HandedQueue, MemoryFiles, hand_over};
pub use inject::{HandedInjector, is_injectable};
pub use injection::{INJECT, INJECTION_BYTES, INJECTION_OBJECT, INJECTION_ROWS_MAX, Injection, PreparedBatch};
pub use moved::{Parted, Parting};
pub use object::load_program;
pub use program::{ADDRESSES_MAX, PortRange, QUEUES_MAX, Rule, SERVICES_MAX, Take, Verdicts};
pub use queue::{AfXdp, open_pair};

use crate::error::DeviceError;
use crate::link::{self, Link, Namespace};
use crate::plan::{FrameMemory, MemoryPlan};
use aya::maps::{MapData, RingBuf};
use program::Program;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Whether frames are copied between the device and frame memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Zero-copy if the driver can, else copy.
    #[default]
    Auto,
    /// Copy.
    Copy,
    /// Zero-copy, or an error.
    ZeroCopy,
}

/// Entries of a queue's rings; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Frames lent to the kernel to receive into.
    pub fill: u32,
    /// Frames received and not yet taken.
    pub receive: u32,
    /// Frames queued for transmission.
    pub transmit: u32,
    /// Frames sent and not yet reclaimed.
    pub completion: u32,
}

impl Default for RingSizes {
    /// 2048 each, and as many completions as can be under way.
    fn default() -> RingSizes {
        RingSizes { fill: 2048, receive: 2048, transmit: 2048, completion: 4096 }
    }
}

/// How to attach to an interface.
#[derive(Clone, Debug)]
pub struct AttachConfig {
    /// The interface's name.
    pub interface: String,
    /// Its namespace; `None`: the calling thread's.
    pub namespace: Option<Namespace>,
    /// Queues to open, from 0. What arrives on further ones goes to the kernel.
    pub queues: u32,
    /// What to take from the kernel.
    pub rules: Vec<Rule>,
    /// The 802.1Q VLAN in which the rules hold, 1 to 4094; `None`: untagged frames. The device is told to leave tags in
    /// received frames (rx-vlan-offload off); a veth's other end must do so too (`ethtool -K PEER txvlan off`).
    pub vlan: Option<u16>,
    /// Give queue 0 copies of what is for all nodes of the link: IPv6 router advertisements, and queries for multicast
    /// listeners. The kernel gets them all the same.
    pub all_nodes: bool,
    /// Copy or not.
    pub mode: Mode,
    /// Ring sizes.
    pub rings: RingSizes,
    /// Let transmitted packets consist of several frames. Set by itself when the MTU needs it.
    pub transmit_scatter: bool,
    /// Offer transmit checksum offload where the kernel has it and frames are not injected.
    pub transmit_checksum: bool,
    /// Send large batches through veth without socket buffers, where the kernel can. Off for a forwarder: the frames of
    /// a sender on this machine have their checksums to be filled in, which only the offload does.
    pub injection: bool,
}

impl Default for AttachConfig {
    /// One queue, no rules; zero-copy, checksum offload and injection if possible. The interface must be named.
    fn default() -> AttachConfig {
        AttachConfig {
            interface: String::new(),
            namespace: None,
            queues: 1,
            rules: Vec::new(),
            vlan: None,
            all_nodes: false,
            mode: Mode::Auto,
            rings: RingSizes::default(),
            transmit_scatter: false,
            transmit_checksum: true,
            injection: true,
        }
    }
}

/// What an interface's queues share.
struct Attachment {
    config: AttachConfig,
    link: Link,
    driver: String,
    scatter: bool,
    /// Locked on the control path only.
    program: Mutex<Program>,
}

impl Attachment {
    fn program(&self) -> std::sync::MutexGuard<'_, Program> {
        // A panic elsewhere leaves the maps as the kernel has them: still usable.
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An interface with the XDP program attached. Clones are the same attachment.
#[derive(Clone)]
pub struct Interface {
    attachment: Arc<Attachment>,
}

impl Interface {
    /// Loads the program, attaches it, and sets the rules.
    ///
    /// # Errors
    /// See [`DeviceError`]: no privileges, no such interface, occupied, too few queues, no native XDP, MTU.
    pub fn attach(config: AttachConfig) -> Result<Interface, DeviceError> {
        check(&config)?;
        let attach = || -> Result<(Link, String, Program), DeviceError> {
            let name = &config.interface;
            let link = link::link(name).map_err(|error| match error.raw_os_error() {
                Some(libc::ENODEV) => DeviceError::NoSuchInterface { name: name.clone() },
                _ => DeviceError::system("look at the interface", error),
            })?;
            if !link.is_up {
                return Err(DeviceError::InterfaceDown { name: name.clone() });
            }
            if link.receive_queues < config.queues {
                let (wanted, available) = (config.queues, link.receive_queues);
                return Err(DeviceError::TooFewQueues { name: name.clone(), wanted, available });
            }
            let driver = link::driver(name).unwrap_or_default();
            let mut program = Program::attach(link.index, name, link.mtu, &driver)?;
            program.set_link(config.vlan.unwrap_or(0), config.all_nodes)?;
            program.set_rules(&config.rules)?;
            if config.vlan.is_some() {
                // A tag taken out by the device is where an XDP program doesn't see it.
                link::keep_vlan_tags(name).map_err(|error| DeviceError::Invalid {
                    reason: format!("{name} can't leave VLAN tags in frames ({error}): see `ethtool -k {name}`"),
                })?;
            }
            Ok((link, driver, program))
        };
        let (link, driver, program) = match &config.namespace {
            Some(namespace) => {
                namespace.within(attach).map_err(|error| DeviceError::system("enter the namespace", error))??
            }
            None => attach()?,
        };
        let scatter = program.scatter;
        let attachment = Attachment { config, link, driver, scatter, program: Mutex::new(program) };
        Ok(Interface { attachment: Arc::new(attachment) })
    }

    /// One opener per queue asked for.
    pub fn openers(&self) -> Vec<QueueOpener> {
        let opener = |queue| QueueOpener { attachment: Arc::clone(&self.attachment), queue, injects: true };
        (0..self.attachment.config.queues).map(opener).collect()
    }

    /// Replaces what is taken from the kernel, while packets flow.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] for more rules than fit.
    pub fn set_rules(&self, rules: &[Rule]) -> Result<(), DeviceError> {
        self.attachment.program().set_rules(rules)
    }

    /// What the program did so far.
    ///
    /// # Errors
    /// What reading its map says.
    pub fn verdicts(&self) -> Result<Verdicts, DeviceError> {
        self.attachment.program().verdicts()
    }

    /// The interface as it was when attached.
    pub fn link(&self) -> &Link {
        &self.attachment.link
    }

    /// Its driver.
    pub fn driver(&self) -> &str {
        &self.attachment.driver
    }
}

/// The right to open one queue, on any thread, once at a time.
#[derive(Clone)]
pub struct QueueOpener {
    attachment: Arc<Attachment>,
    queue: u32,
    injects: bool,
}

impl QueueOpener {
    /// Everything is sent by the ring.
    #[must_use]
    pub fn without_injector(self) -> QueueOpener {
        QueueOpener { injects: false, ..self }
    }

    /// The queue's number.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Maps frame memory, opens the queue on this thread, and starts receiving.
    ///
    /// # Errors
    /// [`DeviceError::QueueBusy`], [`DeviceError::LockedMemory`], [`DeviceError::MtuTooLarge`] if packets need several
    /// frames and the driver can't; else what the system says.
    pub fn open(self, plan: MemoryPlan) -> Result<AfXdp, DeviceError> {
        AfXdp::open(self, plan)
    }

    /// As [`open`](QueueOpener::open), over memory made by `plan`.
    ///
    /// # Errors
    /// As there.
    pub fn open_over(self, plan: MemoryPlan, memory: FrameMemory) -> Result<AfXdp, DeviceError> {
        AfXdp::open_over(self, plan, memory)
    }

    /// The ring of copies, if this queue is to read it and no other does.
    fn take_copies(&self) -> Option<RingBuf<MapData>> {
        if self.queue != 0 {
            return None;
        }
        self.attachment.program().take_copies()
    }

    fn claim(&self, address: IpAddr) -> Result<(), DeviceError> {
        self.attachment.program().claim(address)
    }

    fn release(&self, address: IpAddr) -> Result<(), DeviceError> {
        self.attachment.program().release(address)
    }

    fn register(&self, socket: BorrowedFd<'_>) -> Result<(), DeviceError> {
        self.attachment.program().set_socket(self.queue, socket)
    }
}

fn check(config: &AttachConfig) -> Result<(), DeviceError> {
    let rings = config.rings;
    let sizes = [rings.fill, rings.receive, rings.transmit, rings.completion];
    if !sizes.iter().all(|size| size.is_power_of_two() && (64..=65_536).contains(size)) {
        let reason = format!("ring sizes {sizes:?}: must be powers of two from 64 to 65536");
        return Err(DeviceError::Invalid { reason });
    }
    if let Some(vlan) = config.vlan
        && !(1..=4_094).contains(&vlan)
    {
        return Err(DeviceError::Invalid { reason: format!("VLAN {vlan}: 1 to 4094") });
    }
    if config.queues == 0 || config.queues > QUEUES_MAX {
        return Err(DeviceError::Invalid { reason: format!("{} queues: 1 to {QUEUES_MAX}", config.queues) });
    }
    Ok(())
}
