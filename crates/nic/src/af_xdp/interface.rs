//! [`Interface`]: an interface with the XDP program attached; [`QueueOpener`]: the right to open one of its queues.

use super::config::AttachConfig;
use super::program::{Program, QUEUES_MAX, Rule, Verdicts};
use crate::error::DeviceError;
use crate::link::{self, Link};
use aya::maps::{MapData, RingBuf};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// What an interface's queues share.
pub(super) struct Attachment {
    pub(super) config: AttachConfig,
    pub(super) link: Link,
    pub(super) driver: String,
    pub(super) scatter: bool,
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
    pub(super) attachment: Arc<Attachment>,
    pub(super) queue: u32,
    pub(super) injects: bool,
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

    /// The ring of copies, if this queue is to read it and no other does.
    pub(super) fn take_copies(&self) -> Option<RingBuf<MapData>> {
        if self.queue != 0 {
            return None;
        }
        self.attachment.program().take_copies()
    }

    pub(super) fn claim(&self, address: IpAddr) -> Result<(), DeviceError> {
        self.attachment.program().claim(address)
    }

    pub(super) fn release(&self, address: IpAddr) -> Result<(), DeviceError> {
        self.attachment.program().release(address)
    }

    pub(super) fn register(&self, socket: BorrowedFd<'_>) -> Result<(), DeviceError> {
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
