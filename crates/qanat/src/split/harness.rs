//! A service's side of a net core and the net core's side of it, in one thread and without a loop: for fuzzers, and for
//! counting instructions. Not in a build without the feature `harness`.

use crate::service::Service;
use crate::split::handshake::Attached;
use crate::split::memory::Extent;
use crate::split::net_core::accept::AcceptPolicy;
use crate::split::net_core::lending::{COPY_BYTES, Copies};
use crate::split::net_core::tenancy::Tenancy;
use crate::split::net_core::tenant::{Offence, Tenant};
use crate::split::service::link::Link;
use crate::split::service::options::SplitOptions;
use crate::split::service::runtime::SplitRuntime;
use qanat_abi::ring::Words;
use qanat_abi::{Command, Consumer, ControlMemory, Event, Message, Producer, Rings};
use qanat_nic::{LendableFiles, MemoryPlan, Time, Vnic};
use qanat_stack::{Stack, Usage};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Why the net core cut a service off.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CutOff(Offence);

/// Bytes of transmit memory: small blocks, then large ones.
pub const TRANSMIT_BYTES: (u32, u32) = (8 * 2_048, 2 * 65_536);

/// Small buffers, and the bytes of one.
pub const COPIES: (u32, u32) = (16, COPY_BYTES);

/// A tenant, and what its service holds.
pub struct Harness {
    tenancy: Tenancy,
    commands: Producer<ControlMemory>,
    events: Consumer<ControlMemory>,
    _socket: OwnedFd,
}

impl Harness {
    /// A service with so many received frames, whose packets `stack` has.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(stack: Stack, receive_frames: u32) -> io::Result<Harness> {
        let (its, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let extent = Extent { ring_messages: 256, small_blocks: 8, large_blocks: 2, receive_frames };
        let (mut tenant, handed) = Tenant::new(its, (String::new(), 0, 0), extent, None)?;
        let copies = Copies::new(COPIES.0)?;
        tenant.use_copies(&copies);
        let tenancy = occupied(stack, tenant);
        let rings = Rings::open(handed.control.as_fd()).map_err(io::Error::other)?;
        let (commands, events) = (Producer::new(rings.commands), Consumer::new(rings.events));
        Ok(Harness { tenancy, commands, events, _socket: ours })
    }

    /// The service says something, whatever it is; false: the ring is full.
    pub fn say(&mut self, words: Words) -> bool {
        let said = matches!(self.commands.push(words), Ok(true));
        self.commands.publish();
        said
    }

    /// As [`say`](Harness::say).
    pub fn command(&mut self, command: Command) -> bool {
        self.say(command.encode())
    }

    /// A turn of the net core's. Why the service is cut off, if it is.
    ///
    /// # Errors
    /// The offence.
    pub fn turn(&mut self, now: Time, vnic: &mut dyn Vnic) -> Result<bool, CutOff> {
        turn(&mut self.tenancy, now, vnic)
    }

    /// What the service is told next.
    ///
    /// # Panics
    /// If the net core says what is no event.
    pub fn hear(&mut self) -> Option<Event> {
        let words = self.events.pop()?;
        self.events.release();
        Some(Event::decode(words).expect("an event"))
    }

    /// Frames lent, and what the stack holds.
    pub fn usage(&self) -> (u32, Usage) {
        self.tenancy.usage()
    }

    /// When there is something to do next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.tenancy.next_deadline()
    }

    /// The service's end.
    pub fn end(self, now: Time, vnic: &mut dyn Vnic) {
        self.tenancy.end(now, vnic);
    }
}

fn occupied(stack: Stack, tenant: Tenant) -> Tenancy {
    let mut tenancy = Tenancy::new(stack, AcceptPolicy::default());
    tenancy.enter(tenant);
    tenancy
}

fn turn(tenancy: &mut Tenancy, now: Time, vnic: &mut dyn Vnic) -> Result<bool, CutOff> {
    let mut offences = Vec::new();
    let busy = tenancy.turn(now, vnic, &mut offences);
    offences.pop().map_or(Ok(busy), |offence| Err(CutOff(offence)))
}

/// A tenant and the library of its service, each taking turns when told to.
pub struct Placed {
    tenancy: Tenancy,
    runtime: SplitRuntime,
}

impl Placed {
    /// A service that listens at `local`, whose packets `stack` has; they are received into frames of `plan`, in `files`.
    ///
    /// # Errors
    /// What the system, or the service, says.
    pub fn start(
        stack: Stack,
        (plan, files): (MemoryPlan, &LendableFiles),
        local: SocketAddr,
        service: &mut dyn Service,
    ) -> io::Result<Placed> {
        let (its, ours) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let extent = Extent::usual(plan.receive_frames);
        let (tenant, handed) = Tenant::new(its, (String::new(), 0, 0), extent, None)?;
        let mut tenancy = occupied(stack, tenant);
        let attached = Attached {
            mtu: 1_500,
            receive_frames: plan.receive_frames,
            frame_size: plan.frame_size,
            small_blocks: extent.small_blocks,
            large_blocks: extent.large_blocks,
            ..Attached::default()
        };
        let files = [handed.control, files.receive.try_clone()?, handed.small, handed.large];
        let link = Link::open(ours, &attached, &files).map_err(io::Error::other)?;
        let mut runtime = SplitRuntime::over(link, attached, SplitOptions::new(""))?;
        // The service waits for the answer, in the thread that is to give it: so it is given before.
        let nothing = MemoryPlan { frame_size: 2_048, receive_frames: 2, transmit_frames: 2, prepared_frames: 0 };
        let mut unused = qanat_nic::pair(qanat_nic::PairConfig::default())?.0.open(nothing)?;
        tenancy
            .expect_listen(Time::ZERO, &mut unused, local)
            .map_err(|offence| io::Error::other(offence.to_string()))?;
        runtime.with_context(|context| service.start(context)).map_err(io::Error::other)?;
        Ok(Placed { tenancy, runtime })
    }

    /// A turn of the net core's.
    ///
    /// # Errors
    /// The offence.
    pub fn net_turn(&mut self, now: Time, vnic: &mut dyn Vnic) -> Result<bool, CutOff> {
        turn(&mut self.tenancy, now, vnic)
    }

    /// A turn of the service's.
    pub fn service_turn(&mut self, service: &mut dyn Service) -> bool {
        self.runtime.turn(service)
    }
}
