//! [`Nvme`]: the driver of one I/O queue pair of a controller.
//!
//! ```text
//!  open ─▶ Starting ─▶ Up ─── a command is overdue ──▶ Stopping ─▶ all that was under way ends ─▶ Starting ─▶ Up
//!              │        └──── CFS, a violation, gone ─▶ Stopping ─▶ all that was under way ends ─▶ Failed
//!              └── a step fails ────────────────────────────▲
//! ```
//! A buffer comes back when the controller can't reach it any more: with its completion, or when the controller has stopped
//! (CSTS.RDY = 0), or when the transport has taken its access away. If none of these can be had, the buffer never comes back.

use super::bring_up::{BringUp, Identity, status_of};
use super::device::{Device, NvmeOptions, Pending};
use super::error::NvmeError;
use super::memory::{Mapping, Mappings};
use super::notices::Notices;
use super::spec::{Command, Configuration, IdentifyNamespace, PAGE_BYTES, register};
use super::transport::{Held, Transport};
use crate::vsic::{Completion, Operation, Request, Vsic, VsicStatistics};
use qanat_api::Geometry;
use qanat_api::StorageError;
use qanat_nic::{Clock, Frame, MonotonicClock, Region, Time};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::Duration;

/// Blocks one Write Zeroes names at most.
const ZEROES_BLOCKS_MAX: u64 = 1 << 16;
/// How often the controller's status is looked at, at least.
const WATCH: Duration = Duration::from_millis(250);
/// Calls of `complete` after which the clock is read, at most.
const CALLS: u32 = 64;

/// What the driver is at.
enum State {
    Up,
    /// The controller was told to stop. `restart`: it is brought up again.
    Stopping {
        deadline: Time,
        restart: bool,
    },
    Starting(Box<BringUp>),
    Failed,
}

/// An NVMe controller's I/O queue pair.
pub struct Nvme<T: Transport, C: Clock = MonotonicClock> {
    device: Device<T>,
    clock: C,
    state: State,
    mappings: Mappings,
    identity: Identity,
    notices: Notices,
    /// Requests that ended without a completion of the controller's. There is room for as many as the depth.
    ended: Vec<Completion>,
    /// The tail of the submission queue that the controller was told last.
    rung: u32,
    /// When to look for what is overdue.
    look_at: Time,
    /// What the controller said last of commands that it holds back, and how long it does.
    held: Held,
    held_until: Time,
    calls: u32,
    failure: Option<NvmeError>,
    resets: u64,
    withheld: u64,
    statistics: VsicStatistics,
}

impl<T: Transport, C: Clock> std::fmt::Debug for Nvme<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (model, under_way) = (&self.identity.controller.model, self.in_flight());
        write!(f, "Nvme({model}, namespace {}, {under_way} under way)", self.identity.namespace_identifier)
    }
}

impl<T: Transport, C: Clock> Nvme<T, C> {
    /// Brings a controller up. `queues`: the frame that queues will lie in, of at least [`NvmeOptions::memory_bytes`], beginning with a
    /// page, and the mapping it is of; `memory`: what all buffers will be of.
    ///
    /// # Errors
    /// [`NvmeError`]. The controller is stopped again, if it can be.
    pub fn open(
        transport: T,
        clock: C,
        options: NvmeOptions,
        queues: (Mapping, Frame),
        memory: Vec<Mapping>,
    ) -> Result<Nvme<T, C>, NvmeError> {
        for mapping in memory.iter().chain([&queues.0]) {
            let end = mapping.address.checked_add(mapping.region.length() as u64);
            if end.is_none() || !mapping.address.is_multiple_of(PAGE_BYTES) {
                return Err(NvmeError::Memory(format!("memory at {:#x}, which is no page", mapping.address)));
            }
        }
        let mut device = Device::new(transport, options, &queues.0, queues.1)?;
        let mut bring_up = BringUp::new();
        let opened = loop {
            match bring_up.advance(&mut device, clock.now()) {
                Ok(Some(identity)) => break Ok(identity),
                Ok(None) => device.transport.relax(),
                Err(error) => break Err(error),
            }
        };
        let identity = match opened {
            Ok(identity) => identity,
            Err(error) => {
                if !stop(&mut device, &clock) {
                    device.give_up();
                }
                return Err(error);
            }
        };
        let look_at = clock.now() + watch_period(&device.options);
        let speaks = identity.controller.namespace_notices;
        let notices = Notices::new(&mut device, identity.namespace_identifier, speaks);
        Ok(Nvme {
            ended: Vec::with_capacity(identity.geometry.depth as usize),
            device,
            clock,
            state: State::Up,
            mappings: Mappings::new(memory),
            identity,
            notices,
            rung: 0,
            look_at,
            held: Held::default(),
            held_until: Time::ZERO,
            calls: 0,
            failure: None,
            resets: 0,
            withheld: 0,
            statistics: VsicStatistics::default(),
        })
    }

    /// What the controller and its namespace said of themselves.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Why the controller is not to be used any more; `None`: it is, or is being reset.
    pub fn failure(&self) -> Option<&NvmeError> {
        self.failure.as_ref()
    }

    /// Whether it will never do anything any more, and nothing of it is under way.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed) && self.in_flight() == 0
    }

    /// How often the controller was reset because of an overdue command.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// Buffers that never came back, because the controller could not be stopped.
    pub fn withheld(&self) -> u64 {
        self.withheld
    }

    /// When [`complete`](Vsic::complete) should be called even if nothing seems to come: `None` if nothing is under way.
    pub fn next_look(&self) -> Option<Time> {
        match self.state {
            State::Up => (self.device.io.under_way() > 0).then_some(self.look_at),
            State::Stopping { .. } | State::Starting(_) => Some(self.clock.now() + Duration::from_millis(1)),
            State::Failed => None,
        }
    }

    /// From now on buffers may be of this memory, which the controller reaches.
    pub(crate) fn add_memory(&mut self, mapping: Mapping) {
        self.mappings.add(mapping);
    }

    /// From now on they may not. None of it is under way.
    pub(crate) fn remove_memory(&mut self, region: &Rc<Region>) {
        self.mappings.remove(region);
    }

    /// The way to the controller.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.device.transport
    }

    fn end(&mut self, pending: Pending, result: Result<(), StorageError>) -> Completion {
        self.statistics.count(pending.kind, pending.bytes, result);
        Completion { token: pending.token, frame: pending.frame, result }
    }

    fn refuse(&mut self, request: Request, error: StorageError) {
        self.statistics.failures += 1;
        self.ended.push(request.refused(error));
    }

    /// The command of what is pending, of which `self.device.io.next_index` will be the number.
    #[inline]
    fn command_of(&self, operation: &Operation, index: usize) -> Result<Command, StorageError> {
        let namespace = self.identity.namespace_identifier;
        let (block, frame) = match operation {
            Operation::Flush => return Ok(Command::flush(namespace)),
            Operation::WriteZeroes { block, blocks } => {
                return Ok(Command::write_zeroes(namespace, *block, (*blocks).min(ZEROES_BLOCKS_MAX) as u32));
            }
            Operation::Read { block, frame } | Operation::Write { block, frame, .. } => (*block, frame),
        };
        let blocks = (frame.len() >> self.identity.namespace.block_power) as u32;
        let address = self.mappings.address_of(frame).ok_or(StorageError::Foreign)?;
        let lists = &self.device.lists;
        let (prp1, prp2) = lists.build(index, address, frame.len() as u64).ok_or(StorageError::TooLong)?;
        let command = match operation {
            Operation::Write { durable, .. } => Command::write(namespace, block, blocks, *durable),
            _ => Command::read(namespace, block, blocks),
        };
        Ok(command.with_prps(prp1, prp2))
    }

    #[inline]
    fn pending_of(&self, request: Request) -> Pending {
        let (token, kind, bytes) = (request.token, request.operation.kind(), request.bytes());
        let is_durable = matches!(request.operation, Operation::Write { durable: true, .. });
        let (block, blocks_left) = match request.operation {
            Operation::WriteZeroes { block, blocks } => {
                let first = blocks.min(ZEROES_BLOCKS_MAX);
                (block.saturating_add(first), blocks - first)
            }
            _ => (0, 0),
        };
        let then_flush = is_durable && !self.identity.geometry.forced_unit_access;
        Pending {
            token,
            kind,
            then_flush,
            frame: request.operation.into_frame(),
            bytes,
            block,
            blocks_left,
            deadline: None,
        }
    }

    /// Tells the controller of what was put into the submission queue.
    fn ring_submissions(&mut self) {
        let tail = self.device.io.tail();
        if tail == self.rung || !matches!(self.state, State::Up) {
            return;
        }
        let (queue, moved) = (self.device.io.identifier(), (self.rung, tail));
        self.rung = tail;
        if self.device.doorbells.ring(&mut self.device.transport, queue, false, moved) {
            self.statistics.doorbells += 1;
        }
    }

    /// Takes the controller's completions.
    #[inline]
    fn reap(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        let (mut count, old) = (0, self.device.io.head());
        while count < completions_max {
            match self.device.io.next() {
                Ok(None) => break,
                Ok(Some((entry, pending))) => {
                    if let Some(completion) = self.completed(pending, entry.status.result()) {
                        completions.push(completion);
                        count += 1;
                    }
                }
                Err(violation) => {
                    self.fail(violation.into());
                    return count;
                }
            }
        }
        let (queue, new) = (self.device.io.identifier(), self.device.io.head());
        if new != old {
            self.device.doorbells.ring(&mut self.device.transport, queue, true, (old, new));
            // What goes on after a part is started by this.
            self.ring_submissions();
        }
        count
    }

    /// A command has completed: its request's end, or `None` if it goes on.
    #[inline]
    fn completed(&mut self, mut pending: Pending, result: Result<(), StorageError>) -> Option<Completion> {
        let namespace = self.identity.namespace_identifier;
        let goes_on = result.is_ok() && (pending.blocks_left > 0 || pending.then_flush);
        if !goes_on {
            return Some(self.end(pending, result));
        }
        pending.deadline = None;
        let command = if pending.blocks_left > 0 {
            let (block, blocks) = (pending.block, pending.blocks_left.min(ZEROES_BLOCKS_MAX));
            pending.block = block.saturating_add(blocks);
            pending.blocks_left -= blocks;
            Command::write_zeroes(namespace, block, blocks as u32)
        } else {
            pending.then_flush = false;
            Command::flush(namespace)
        };
        match self.device.io.submit(command, pending) {
            Ok(()) => None,
            // Only if the controller lies about the head of the submission queue.
            Err(pending) => Some(self.end(pending, Err(StorageError::Gone))),
        }
    }

    /// Hears what the controller says unasked: one thing at a time, for it may say the next at once.
    #[inline]
    fn listen(&mut self) {
        if !self.device.admin.has_next() {
            return;
        }
        match self.notices.advance(&mut self.device) {
            Ok(None) => {}
            Ok(Some(namespace)) => self.changed(namespace),
            Err(violation) => self.fail(violation.into()),
        }
    }

    /// The namespace is another now. What is beyond the end of one that shrank is refused by the controller.
    fn changed(&mut self, namespace: IdentifyNamespace) {
        let known = &mut self.identity.namespace;
        let format = |of: &IdentifyNamespace| (of.block_power, of.metadata_bytes);
        if namespace.blocks > 0 && format(&namespace) != format(known) {
            return self.fail(NvmeError::Unsupported("the namespace was given another format".into()));
        }
        known.blocks = known.blocks.max(namespace.blocks);
        self.identity.geometry.blocks = known.blocks;
    }

    /// Looks for what is overdue, and whether the controller says that it has failed.
    fn watch(&mut self) {
        let now = self.clock.now();
        if now < self.look_at {
            return;
        }
        self.look_at = now + watch_period(&self.device.options);
        match status_of(&mut self.device) {
            Err(error) => return self.fail(error),
            Ok(status) if status.is_failed() || !status.is_ready() => return self.fail(NvmeError::Failed),
            Ok(_) => {}
        }
        // Nobody asks for the time at each request: it counts from the first look that finds it under way.
        // What is held by a rate is not lost: time counts from when it is not held any more. A controller that stands still says nothing new.
        let held = self.device.transport.held();
        let is_held_anew = held != self.held;
        if is_held_anew {
            (self.held, self.held_until) = (held, now + held.time);
        }
        let deadline = now.max(self.held_until) + self.device.options.time_out;
        let is_rung = self.rung == self.device.io.tail();
        let mut is_any_overdue = false;
        for pending in self.device.io.iter_mut().filter(|_| is_rung) {
            let due = pending.deadline.get_or_insert(deadline);
            if is_held_anew {
                *due = deadline.max(*due);
            }
            is_any_overdue |= *due <= now;
        }
        if is_any_overdue {
            self.resets += 1;
            self.stop(now, true);
        }
    }

    /// From here on nothing of the controller counts.
    fn fail(&mut self, failure: NvmeError) {
        self.failure = Some(failure);
        self.stop(self.clock.now(), false);
    }

    fn stop(&mut self, now: Time, restart: bool) {
        self.device.transport.write32(register::CC, Configuration::DISABLED.bits());
        self.state = State::Stopping { deadline: now + self.device.capabilities.timeout(), restart };
    }

    /// Gets on with a reset, as far as it gets.
    fn recover(&mut self) {
        let now = self.clock.now();
        if let State::Stopping { deadline, restart } = self.state {
            let has_stopped = match status_of(&mut self.device) {
                Ok(status) if !status.is_ready() => true,
                Ok(_) if now < deadline => return,
                Ok(_) => {
                    let milliseconds = self.device.capabilities.timeout().as_millis() as u64;
                    self.failure.get_or_insert(NvmeError::TimedOut { what: "stop", milliseconds });
                    false
                }
                Err(error) => {
                    self.failure.get_or_insert(error);
                    false
                }
            };
            let is_harmless = has_stopped || self.device.transport.isolate();
            let restarts = restart && has_stopped;
            self.end_all(now, is_harmless, restarts);
            self.state = if restarts { State::Starting(Box::new(BringUp::new())) } else { State::Failed };
        }
        if let State::Starting(bring_up) = &mut self.state {
            match bring_up.advance(&mut self.device, now) {
                Ok(None) => {}
                Ok(Some(identity)) if identity.geometry.is_at_least(&self.identity.geometry) => {
                    let speaks = identity.controller.namespace_notices;
                    self.notices = Notices::new(&mut self.device, identity.namespace_identifier, speaks);
                    self.identity = identity;
                    self.rung = 0;
                    self.look_at = now + watch_period(&self.device.options);
                    self.state = State::Up;
                }
                Ok(Some(_)) => self
                    .fail(NvmeError::Unsupported("the controller has become smaller, or another, by a reset".into())),
                Err(error) => self.fail(error),
            }
        }
    }

    /// Ends all that was under way. `is_harmless`: the controller can't write to buffers any more; else they are kept for good.
    fn end_all(&mut self, now: Time, is_harmless: bool, was_reset: bool) {
        // What it did before it stopped counts, if it is still believed.
        while was_reset && let Ok(Some((entry, pending))) = self.device.io.next() {
            let is_whole = pending.blocks_left == 0 && !pending.then_flush;
            let result = if is_whole { entry.status.result() } else { Err(StorageError::Aborted) };
            let completion = self.end(pending, result);
            self.ended.push(completion);
        }
        while let Some(mut pending) = self.device.io.take_any() {
            let is_overdue = pending.deadline.is_some_and(|deadline| deadline <= now);
            let error = match (was_reset, is_overdue) {
                (false, _) => StorageError::Gone,
                (true, true) => StorageError::TimedOut,
                (true, false) => StorageError::Aborted,
            };
            if !is_harmless && let Some(frame) = pending.frame.take() {
                std::mem::forget(frame);
                self.withheld += 1;
            }
            let completion = self.end(pending, Err(error));
            self.ended.push(completion);
        }
        if !is_harmless {
            self.mappings.give_up();
            self.device.give_up();
        }
    }
}

/// How often to look for what is overdue.
fn watch_period(options: &NvmeOptions) -> Duration {
    (options.time_out / 8).clamp(Duration::from_millis(1), WATCH)
}

/// Stops a controller and waits for it; whether it can't reach memory any more.
fn stop<T: Transport>(device: &mut Device<T>, clock: &impl Clock) -> bool {
    device.transport.write32(register::CC, Configuration::DISABLED.bits());
    let deadline = clock.now() + device.capabilities.timeout();
    loop {
        match status_of(device) {
            Ok(status) if !status.is_ready() => return true,
            Ok(_) if clock.now() < deadline => device.transport.relax(),
            Ok(_) | Err(_) => return device.transport.isolate(),
        }
    }
}

impl<T: Transport, C: Clock> Vsic for Nvme<T, C> {
    fn geometry(&self) -> Geometry {
        self.identity.geometry
    }

    /// None while the controller is being reset.
    #[inline]
    fn room(&self) -> usize {
        match self.state {
            State::Up | State::Failed => (self.identity.geometry.depth as usize).saturating_sub(self.in_flight()),
            State::Stopping { .. } | State::Starting(_) => 0,
        }
    }

    #[inline]
    fn submit(&mut self, request: Request) -> Result<(), Request> {
        if self.room() == 0 {
            return Err(request);
        }
        if let Err(error) = request.check(&self.identity.geometry) {
            self.refuse(request, error);
            return Ok(());
        }
        let index = match self.device.io.next_index() {
            Some(index) if matches!(self.state, State::Up) => index,
            _ => {
                self.refuse(request, StorageError::Gone);
                return Ok(());
            }
        };
        let command = match self.command_of(&request.operation, index) {
            Ok(command) => command,
            Err(error) => {
                self.refuse(request, error);
                return Ok(());
            }
        };
        let pending = self.pending_of(request);
        if let Err(pending) = self.device.io.submit(command, pending) {
            // Only if the controller lies about the head of the submission queue.
            let completion = self.end(pending, Err(StorageError::Gone));
            self.ended.push(completion);
        }
        Ok(())
    }

    #[inline]
    fn ring(&mut self) {
        self.ring_submissions();
    }

    #[inline]
    fn complete(&mut self, completions: &mut Vec<Completion>, completions_max: usize) -> usize {
        // Before the queue is looked at: what completes after the look is announced again.
        if !self.device.transport.silence() && matches!(self.state, State::Up) {
            self.fail(NvmeError::Absent);
        }
        if !matches!(self.state, State::Up) {
            self.recover();
        }
        let mut count = self.ended.len().min(completions_max);
        completions.extend(self.ended.drain(..count));
        if matches!(self.state, State::Up) {
            count += self.reap(completions, completions_max - count);
            self.calls = self.calls.wrapping_add(1);
            if (count == 0 || self.calls.is_multiple_of(CALLS)) && matches!(self.state, State::Up) {
                self.listen();
                if matches!(self.state, State::Up) {
                    self.watch();
                }
            }
        }
        count
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.device.io.under_way() + self.ended.len()
    }

    fn doorbell(&self) -> Option<BorrowedFd<'_>> {
        if matches!(self.state, State::Failed) {
            return None;
        }
        self.device
            .transport
            .event(&|| !self.ended.is_empty() || self.device.io.has_next() || self.device.admin.has_next())
    }

    fn is_lost(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    fn statistics(&self) -> VsicStatistics {
        self.statistics
    }
}

impl<T: Transport, C: Clock> Drop for Nvme<T, C> {
    /// Shuts the controller down and stops it: its memory is the device's until then.
    fn drop(&mut self) {
        if matches!(self.state, State::Failed) {
            return;
        }
        if matches!(self.state, State::Up) {
            self.device.transport.write32(register::CC, Configuration::ENABLED.with_shutdown().bits());
            let deadline = self.clock.now() + self.device.capabilities.timeout();
            while status_of(&mut self.device).is_ok_and(|status| !status.is_shut_down() && !status.is_failed())
                && self.clock.now() < deadline
            {
                self.device.transport.relax();
            }
        }
        let is_harmless = stop(&mut self.device, &self.clock);
        self.end_all(self.clock.now(), is_harmless, false);
    }
}
