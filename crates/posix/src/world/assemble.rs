//! A world is made of a device, a clock and addresses.

use crate::sys::descriptor;
use crate::sys::wakers::{Wakers, new_event};
use crate::world::processes::Processes;
use crate::world::state::{Device, Parts, World, WorldClock};
use qanat::Config;
use qanat_nic::Clock;
use qanat_stack::Stack;
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::RawFd;

/// What a world stands on.
pub(crate) struct Ground {
    pub(crate) config: Config,
    pub(crate) device: Device,
    pub(crate) clock: WorldClock,
    pub(crate) addresses: Vec<(IpAddr, u8)>,
    /// Where processes register with the keeper.
    pub(crate) registry: RawFd,
}

/// Why there can be no world.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AssembleError {
    #[error("no entropy: {0}")]
    Entropy(std::io::Error),
    #[error("descriptors: {0}")]
    Descriptors(Errno),
}

/// Makes a world; with the lock held.
///
/// # Errors
/// The kernel gives no random bytes, or there is no room for descriptors.
pub(crate) fn assemble(ground: Ground) -> Result<World, AssembleError> {
    let Ground { config, device: mut vnic, clock, addresses, registry } = ground;
    let entropy = qanat::entropy().map_err(AssembleError::Entropy)?;
    let stack = Stack::new(config.clone(), entropy, vnic.get(), clock.now());
    let wakers = Wakers::new().map_err(AssembleError::Descriptors)?;
    let mut processes = Processes { registry, ..Processes::default() };
    let table = descriptor::new_table();
    descriptor::use_table(&table);
    processes.insert(table);
    let keeper_waker = new_event().map_err(AssembleError::Descriptors)?;
    Ok(World::new(Parts { stack, vnic, clock, wakers, processes, keeper_waker, addresses, config }))
}
