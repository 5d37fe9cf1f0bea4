//! Both sides of the handshake: announcements checked as they come, within a deadline, nothing mapped that isn't whole.

use super::config::{MemifConfig, QUEUES_MAX};
use super::control::{Channel, is_event_fd, wait_for};
use super::device::MemifDevice;
use super::error::MemifError;
use super::link::MemifLink;
use super::message::{AddRing, Hello, Init, Message, SECRET_LENGTH, VERSION};
use super::queue::{QueueParts, Side};
use super::shared::{LOG2_RING_SIZE_MAX, Mapping, SharedRing, ring_length};
use crate::base::event_fd::event_fd;
use rustix::event::PollFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// Most regions of a peer.
const REGIONS_MAX: usize = 256;
/// Most bytes of all of them. More is no interface but an attempt to have memory charged to us.
const REGION_BYTES_MAX: u64 = 8 << 30;
/// Name of the interface, for the peer's lists.
const INTERFACE: &str = "qanat";

fn name() -> String {
    concat!("qanat ", env!("CARGO_PKG_VERSION")).to_owned()
}

fn secret(config: &MemifConfig) -> Result<[u8; SECRET_LENGTH], MemifError> {
    let bytes = config.secret.as_deref().unwrap_or_default().as_bytes();
    let mut secret = [0; SECRET_LENGTH];
    let target = secret.get_mut(..bytes.len()).ok_or_else(|| MemifError::Invalid {
        reason: format!("a secret of {} bytes: at most {SECRET_LENGTH}", bytes.len()),
    })?;
    target.copy_from_slice(bytes);
    Ok(secret)
}

fn unexpected(message: &Message, awaited: &str) -> MemifError {
    match message {
        Message::Disconnect { reason, .. } => MemifError::Disconnected { reason: reason.clone() },
        other => MemifError::refused(format!("{other:?} instead of {awaited}")),
    }
}

fn duplicate(fd: &OwnedFd) -> Result<OwnedFd, MemifError> {
    fd.try_clone().map_err(|error| MemifError::system("duplicate a descriptor", error))
}

// ---------------------------------------------------------------- master

#[derive(Default)]
struct Announced {
    regions: Vec<Arc<Mapping>>,
    bytes: u64,
    to_master: Vec<(AddRing, OwnedFd)>,
    to_slave: Vec<(AddRing, OwnedFd)>,
}

impl Announced {
    fn add_region(&mut self, index: u16, length: u64, file: &OwnedFd) -> Result<(), MemifError> {
        if usize::from(index) != self.regions.len() || self.regions.len() >= REGIONS_MAX {
            return Err(MemifError::refused(format!("region {index} out of order")));
        }
        let mapping = Mapping::of_peer(file, length, REGION_BYTES_MAX - self.bytes)?;
        self.bytes += length;
        self.regions.push(Arc::new(mapping));
        Ok(())
    }

    fn add_ring(&mut self, ring: AddRing, bell: OwnedFd, queues_max: u16) -> Result<(), MemifError> {
        if !is_event_fd(&bell) {
            return Err(MemifError::refused("an interrupt descriptor that is no eventfd"));
        }
        let rings = if ring.to_master { &mut self.to_master } else { &mut self.to_slave };
        if usize::from(ring.index) != rings.len() || ring.index >= queues_max {
            return Err(MemifError::refused(format!("ring {} out of order, or beyond {queues_max}", ring.index)));
        }
        if ring.private_header_length != 0 {
            return Err(MemifError::refused("private headers"));
        }
        rings.push((ring, bell));
        Ok(())
    }

    fn ring(&self, ring: AddRing) -> Result<SharedRing, MemifError> {
        let region = self.regions.get(usize::from(ring.region));
        let region = region.ok_or_else(|| MemifError::refused(format!("a ring in region {}", ring.region)))?;
        let shared = SharedRing::new(Arc::clone(region), ring.offset, ring.log2_size)?;
        if !shared.has_cookie() {
            return Err(MemifError::refused("a ring without its cookie"));
        }
        Ok(shared)
    }

    /// All is announced: whole queues, and their bells.
    fn queues(self, config: &MemifConfig) -> Result<Ready, MemifError> {
        if self.to_master.is_empty() || self.to_master.len() != self.to_slave.len() {
            let (to, from) = (self.to_master.len(), self.to_slave.len());
            return Err(MemifError::refused(format!("{to} rings to the master and {from} to the slave")));
        }
        let regions: Arc<[Arc<Mapping>]> = self.regions.clone().into();
        let mut ready = Ready::default();
        for ((inward, receive_bell), (outward, transmit_bell)) in self.to_master.iter().zip(&self.to_slave) {
            let (receive, transmit) = (self.ring(*inward)?, self.ring(*outward)?);
            receive.set_masked(true);
            ready.receive_bells.push(duplicate(receive_bell)?);
            ready.transmit_bells.push(duplicate(transmit_bell)?);
            ready.queues.push(QueueParts {
                receive,
                transmit,
                receive_bell: duplicate(receive_bell)?,
                transmit_bell: duplicate(transmit_bell)?,
                side: Side::Master { regions: Arc::clone(&regions) },
                plan: config.memory,
            });
        }
        Ok(ready)
    }
}

#[derive(Default)]
struct Ready {
    queues: Vec<QueueParts>,
    receive_bells: Vec<OwnedFd>,
    transmit_bells: Vec<OwnedFd>,
}

/// Greets a slave that has connected, and hears it out.
pub(super) fn greet(socket: OwnedFd, config: &MemifConfig) -> Result<MemifDevice, MemifError> {
    let channel = Channel::new(socket);
    let deadline = Instant::now() + config.handshake_timeout;
    match hear(&channel, config, deadline) {
        Ok((ready, peer)) => {
            channel.send(&Message::Connected(INTERFACE.to_owned()), None)?;
            device(channel, peer, ready, config)
        }
        Err(error) => {
            // It is told why; if it can't be told it is gone.
            let _ = channel.send(&Message::Disconnect { code: 1, reason: error.to_string() }, None);
            Err(error)
        }
    }
}

fn hear(channel: &Channel, config: &MemifConfig, deadline: Instant) -> Result<(Ready, String), MemifError> {
    let secret = secret(config)?;
    let queues_max = config.queues.clamp(1, QUEUES_MAX);
    let hello = Hello {
        name: name(),
        version_min: VERSION,
        version_max: VERSION,
        region_max: (REGIONS_MAX - 1) as u16,
        to_slave_ring_max: queues_max - 1,
        to_master_ring_max: queues_max - 1,
        log2_ring_size_max: LOG2_RING_SIZE_MAX,
    };
    channel.send(&Message::Hello(hello), None)?;
    let init = match channel.receive(Some(deadline))?.message {
        Message::Init(init) => init,
        other => return Err(unexpected(&other, "INIT")),
    };
    check_init(&init, config, &secret)?;
    channel.send(&Message::Ack, None)?;
    let mut announced = Announced::default();
    // Bounded: regions and rings are, and everything else ends it.
    loop {
        let mut received = channel.receive(Some(deadline))?;
        match received.message {
            Message::AddRegion { index, length } => announced.add_region(index, length, &received.descriptor()?)?,
            Message::AddRing(ring) => announced.add_ring(ring, received.descriptor()?, queues_max)?,
            Message::Connect(_) => return Ok((announced.queues(config)?, init.name)),
            other => return Err(unexpected(&other, "ADD_REGION, ADD_RING or CONNECT")),
        }
        channel.send(&Message::Ack, None)?;
    }
}

fn check_init(init: &Init, config: &MemifConfig, secret: &[u8; SECRET_LENGTH]) -> Result<(), MemifError> {
    if init.version != VERSION {
        return Err(MemifError::refused(format!("version {:#06x}", init.version)));
    }
    if init.id != config.id {
        return Err(MemifError::refused(format!("interface {}; here is {}", init.id, config.id)));
    }
    if !init.is_ethernet() {
        return Err(MemifError::refused(format!("mode {}; only Ethernet is spoken", init.mode)));
    }
    // In constant time: the socket's permissions are the real guard, but no reason to leak this one.
    let differs = init.secret.iter().zip(secret).fold(0, |sum, (theirs, ours)| sum | (theirs ^ ours));
    if differs != 0 {
        return Err(MemifError::refused("a wrong secret"));
    }
    Ok(())
}

// ---------------------------------------------------------------- slave

/// Introduces ourselves to a master on a connected socket.
pub(super) fn introduce(socket: OwnedFd, config: &MemifConfig) -> Result<MemifDevice, MemifError> {
    let channel = Channel::new(socket);
    let deadline = Instant::now() + config.handshake_timeout;
    let hello = match channel.receive(Some(deadline))?.message {
        Message::Hello(hello) => hello,
        other => return Err(unexpected(&other, "HELLO")),
    };
    if !(hello.version_min..=hello.version_max).contains(&VERSION) {
        return Err(MemifError::refused(format!("versions {:#06x}–{:#06x}", hello.version_min, hello.version_max)));
    }
    let queues = config.queues.clamp(1, QUEUES_MAX);
    let rings_max = hello.to_master_ring_max.min(hello.to_slave_ring_max);
    if queues - 1 > rings_max || queues > hello.region_max {
        return Err(MemifError::TooFewQueues { wanted: queues, available: rings_max.saturating_add(1) });
    }
    let log2_size = config.log2_ring_size.min(hello.log2_ring_size_max).min(LOG2_RING_SIZE_MAX);
    let init = Init { version: VERSION, id: config.id, mode: 0, secret: secret(config)?, name: name() };
    exchange(&channel, &Message::Init(init), None, deadline)?;
    let ready = announce(&channel, config, queues, log2_size, deadline)?;
    channel.send(&Message::Connect(INTERFACE.to_owned()), None)?;
    match channel.receive(Some(deadline))?.message {
        Message::Connected(_) => device(channel, hello.name, ready, config),
        other => Err(unexpected(&other, "CONNECTED")),
    }
}

/// Sends a message and waits for its ACK.
fn exchange(
    channel: &Channel,
    message: &Message,
    descriptor: Option<&OwnedFd>,
    deadline: Instant,
) -> Result<(), MemifError> {
    match channel.send(message, descriptor.map(AsFd::as_fd)) {
        // It may have said why before it went.
        Ok(()) | Err(MemifError::Gone) => {}
        Err(error) => return Err(error),
    }
    match channel.receive(Some(deadline))?.message {
        Message::Ack => Ok(()),
        other => Err(unexpected(&other, "ACK")),
    }
}

/// Makes and announces region 0 with all rings, a region of frames for each queue, and the rings.
fn announce(
    channel: &Channel,
    config: &MemifConfig,
    queues: u16,
    log2_size: u8,
    deadline: Instant,
) -> Result<Ready, MemifError> {
    let memory = |error| MemifError::system("make shared memory", error);
    let (mapping, file) = Mapping::create(ring_length(log2_size) * 2 * usize::from(queues)).map_err(memory)?;
    let rings = Arc::new(mapping);
    exchange(channel, &Message::AddRegion { index: 0, length: rings.length() as u64 }, Some(&file), deadline)?;
    let mut files = Vec::new();
    for queue in 0..queues {
        // Mapped again by the thread that will use it.
        let (_, file) = config.memory.allocate_in_memory_file().map_err(memory)?;
        let message = Message::AddRegion { index: queue + 1, length: config.memory.length() as u64 };
        exchange(channel, &message, Some(&file), deadline)?;
        files.push(file);
    }
    let mut ready = Ready::default();
    let mut made = Vec::new();
    for to_master in [true, false] {
        for index in 0..queues {
            let place = usize::from(index) + if to_master { 0 } else { usize::from(queues) };
            let offset = (place * ring_length(log2_size)) as u32;
            let ring = SharedRing::new(Arc::clone(&rings), offset, log2_size)?;
            ring.initialise();
            let bell = event_fd().map_err(|error| MemifError::system("make an eventfd", error))?;
            let add = AddRing { to_master, index, region: 0, offset, log2_size, private_header_length: 0 };
            exchange(channel, &Message::AddRing(add), Some(&bell), deadline)?;
            made.push((ring, bell));
        }
    }
    let inward = made.split_off(usize::from(queues));
    for (index, (((transmit, transmit_bell), (receive, receive_bell)), file)) in
        made.into_iter().zip(inward).zip(files).enumerate()
    {
        ready.receive_bells.push(duplicate(&receive_bell)?);
        ready.transmit_bells.push(duplicate(&transmit_bell)?);
        let side = Side::Slave { file, region: index as u16 + 1 };
        ready.queues.push(QueueParts { receive, transmit, receive_bell, transmit_bell, side, plan: config.memory });
    }
    Ok(ready)
}

fn device(channel: Channel, peer: String, ready: Ready, config: &MemifConfig) -> Result<MemifDevice, MemifError> {
    let link = MemifLink::watch(channel, peer, ready.receive_bells, ready.transmit_bells)?;
    Ok(MemifDevice::new(link, ready.queues, config))
}

/// What a plan must be for memif: a region's descriptors have 32-bit offsets.
pub(super) fn check_config(config: &MemifConfig) -> Result<(), MemifError> {
    let length = config.memory.length() as u64;
    if length > u64::from(u32::MAX) {
        let reason = format!("{length} bytes of frames in a queue: descriptors reach 4 GiB");
        return Err(MemifError::Invalid { reason });
    }
    if config.log2_ring_size > LOG2_RING_SIZE_MAX {
        let reason = format!("rings of 2^{} descriptors: at most 2^{LOG2_RING_SIZE_MAX}", config.log2_ring_size);
        return Err(MemifError::Invalid { reason });
    }
    secret(config).map(|_| ())
}

/// Waits for a connection on a listening socket.
pub(super) fn await_peer(listener: &OwnedFd, deadline: Option<Instant>) -> Result<bool, MemifError> {
    wait_for(listener.as_fd(), PollFlags::IN, deadline).map_err(|error| MemifError::system("wait for a peer", error))
}
