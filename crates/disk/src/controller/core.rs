//! [`Controller`]: an NVMe controller in software.

use super::admin::{Admin, EVENTS_MAX, Outcome};
use super::config::{ControllerConfig, ControllerError, Limits};
use super::flights::Flights;
use super::memory::GuestMemory;
use super::namespace::{Namespace, NamespaceConfig};
use super::offence::Offence;
use super::prp::walk;
use super::queues::{QueuePlace, Queues};
use super::registers::{Registers, VERSION};
use crate::nvme::spec::{
    Command, Configuration, IdentifyController, PAGE_BYTES, Shutdown, Status, doorbell_of, event, opcode, register,
};
use crate::vsic::{Completion, Kind, Operation, Request, Vsic};
use qanat_nic::{Frame, Pool};

/// The queue of a flush that no driver asked for.
const NO_QUEUE: u16 = u16::MAX;

/// What a turn did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Turn {
    /// Commands fetched from queues.
    pub fetched: usize,
    /// Requests that backends ended.
    pub ended: usize,
    /// Completions were posted since the last turn: the driver's event is to be signalled.
    pub has_posted: bool,
    /// There may be more to do at once.
    pub has_more: bool,
}

/// Counters of a controller since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ControllerCounters {
    /// Commands fetched, admin commands included.
    pub commands: u64,
    /// Those that never reached a backend because of what they said.
    pub refused: u64,
    /// What no driver does ([`Offence`]).
    pub offences: u64,
    /// Commands whose data were not copied.
    pub lent: u64,
}

/// A backend, and whether requests wait for its doorbell.
struct Backend<B> {
    vsic: B,
    is_queued: bool,
}

/// An NVMe controller in software: a driver's queues on one side, [`Vsic`]s on the other. The driver is not believed.
pub struct Controller<B: Vsic, M: GuestMemory> {
    registers: Registers,
    queues: Queues,
    flights: Flights,
    admin: Admin,
    namespaces: Vec<Namespace>,
    backends: Vec<Backend<B>>,
    memory: M,
    pool: Pool,
    transfer_bytes_max: u64,
    /// The queue whose turn it is.
    cursor: u16,
    /// CC.EN was cleared, and something is under way.
    is_stopping: bool,
    /// The flushes of a shutdown have begun.
    is_flushed: bool,
    passing: Vec<Completion>,
    counters: ControllerCounters,
    offence: Option<Offence>,
}

impl<B: Vsic, M: GuestMemory> std::fmt::Debug for Controller<B, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Controller({} namespaces, {} under way)", self.namespaces.len(), self.flights.under_way())
    }
}

impl<B: Vsic, M: GuestMemory> Controller<B, M> {
    /// A controller that is not enabled. Its namespaces are numbered from 1. `pool`: where data pass through, of memory that the backends
    /// know; a command takes one of its frames, as long as it is under way.
    ///
    /// # Errors
    /// [`ControllerError`].
    pub fn new(
        config: &ControllerConfig,
        backends: Vec<B>,
        namespaces: &[NamespaceConfig],
        memory: M,
        pool: Pool,
    ) -> Result<Controller<B, M>, ControllerError> {
        let geometries: Vec<_> = backends.iter().map(Vsic::geometry).collect();
        let limits = Limits::new(config, &geometries, namespaces, (pool.frame_count(), pool.region().frame_size()))?;
        let has_cache = geometries.iter().any(|geometry| geometry.volatile_cache);
        let pages = u64::from(limits.transfer_bytes_max) / PAGE_BYTES;
        let identity = IdentifyController {
            serial: config.serial.clone(),
            model: "Qanat software controller".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            transfer_pages_power: pages.ilog2() as u8,
            identifier: 1,
            version: VERSION,
            namespace_notices: true,
            doorbell_buffers: config.shadow_doorbells,
            events_max: EVENTS_MAX as u16,
            namespaces: limits.namespaces.len() as u32,
            write_zeroes: true,
            volatile_cache: has_cache,
            atomic_blocks: 1,
        };
        let admin = Admin {
            identity,
            interrupt_vectors: config.interrupt_vectors,
            has_cache,
            is_cache_on: has_cache,
            events: Vec::with_capacity(EVENTS_MAX),
            notices: 0,
            changed: Vec::with_capacity(limits.namespaces.len()),
            is_told: false,
            segments: Vec::with_capacity(2),
        };
        Ok(Controller {
            registers: Registers::new(config.queue_entries_max),
            queues: Queues::new(config.queue_pairs_max, config.queue_entries_max),
            flights: Flights::new(limits.commands_max, pages as usize + 1),
            admin,
            namespaces: limits.namespaces,
            backends: backends.into_iter().map(|vsic| Backend { vsic, is_queued: false }).collect(),
            memory,
            pool,
            // Pages are counted as if data began with one: a driver may use all of it from any offset.
            transfer_bytes_max: u64::from(limits.transfer_bytes_max),
            cursor: 0,
            is_stopping: false,
            is_flushed: false,
            passing: Vec::with_capacity(limits.commands_max as usize),
            counters: ControllerCounters::default(),
            offence: None,
        })
    }

    /// Counters.
    pub fn counters(&self) -> ControllerCounters {
        self.counters
    }

    /// What the driver did last that no driver does.
    pub fn offence(&self) -> Option<Offence> {
        self.offence
    }

    /// Commands that backends work on.
    pub fn under_way(&self) -> usize {
        self.flights.under_way()
    }

    /// The driver's memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// A backend, by its place.
    pub fn backend(&self, index: usize) -> Option<&B> {
        self.backends.get(index).map(|backend| &backend.vsic)
    }

    /// The same, to be changed.
    pub fn backend_mut(&mut self, index: usize) -> Option<&mut B> {
        self.backends.get_mut(index).map(|backend| &mut backend.vsic)
    }

    /// The driver's memory, to be changed.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// A namespace, by its place, has so many blocks from now on, as its backend has. Whether it can: it does not become smaller. The driver
    /// hears of it by the next turn, if it has asked for notices.
    pub fn grow(&mut self, index: usize, blocks: u64) -> bool {
        let Some(namespace) = self.namespaces.get_mut(index) else { return false };
        let Some(backend) = self.backends.get(namespace.backend) else { return false };
        let has_grown = namespace.grow(blocks, backend.vsic.geometry());
        if has_grown {
            self.admin.changed(index as u32 + 1);
        }
        has_grown
    }

    /// Reads a register of 32 bits.
    pub fn read32(&self, offset: u32) -> u32 {
        self.registers.read(offset)
    }

    /// Reads a register of 64 bits.
    pub fn read64(&self, offset: u32) -> u64 {
        u64::from(self.registers.read(offset)) | u64::from(self.registers.read(offset.wrapping_add(4))) << 32
    }

    /// Writes a register of 32 bits, or a doorbell. Nothing is done before the next [`turn`](Controller::turn).
    pub fn write32(&mut self, offset: u32, value: u32) {
        if self.registers.is_absent {
            return;
        }
        if offset >= crate::nvme::spec::DOORBELLS {
            self.ring(offset, value);
        } else if offset == register::CC {
            self.configure(Configuration::from_bits(value));
        } else {
            self.registers.write(offset, value);
        }
    }

    /// Writes a register of 64 bits: its lower half first.
    pub fn write64(&mut self, offset: u32, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset.wrapping_add(4), (value >> 32) as u32);
    }

    /// Takes the controller away from its driver: nothing of the driver's memory is touched any more, and its registers read as all ones.
    /// Whether that is so at once; else when nothing is under way any more.
    pub fn cut(&mut self) -> bool {
        self.registers.is_absent = true;
        !self.flights.is_any_lent()
    }

    /// Serves the driver: fetches at most so many commands, and takes at most so many completions of each backend. Never blocks.
    pub fn turn(&mut self, commands_max: usize) -> Turn {
        let mut turn = Turn { ended: self.reap(commands_max), ..Turn::default() };
        if self.is_running() {
            match self.queues.hear_shadows(&self.memory) {
                Ok(is_all) => turn.has_more = !is_all,
                Err(offence) => self.offend(offence),
            }
        }
        while turn.fetched < commands_max && self.is_running() {
            let Some(queue) = self.next_queue() else { break };
            self.serve(queue);
            turn.fetched += 1;
        }
        self.notify();
        self.settle();
        let mut is_any_queued = false;
        for backend in self.backends.iter_mut().filter(|backend| backend.is_queued) {
            backend.vsic.ring();
            backend.is_queued = false;
            is_any_queued = true;
        }
        if is_any_queued {
            // A backend may have done at once what it was told.
            turn.ended += self.reap(commands_max);
        }
        turn.has_more |= turn.fetched >= commands_max;
        turn.has_posted = std::mem::take(&mut self.queues.has_posted);
        turn
    }

    fn is_running(&self) -> bool {
        self.is_answering() && self.registers.shutdown == Shutdown::None
    }

    fn is_answering(&self) -> bool {
        let registers = &self.registers;
        registers.is_ready && !registers.has_failed && !registers.is_absent && !self.is_stopping
    }

    fn offend(&mut self, offence: Offence) {
        self.counters.offences += 1;
        self.offence = Some(offence);
        self.registers.has_failed = true;
    }

    fn ring(&mut self, offset: u32, value: u32) {
        if !self.is_answering() {
            return;
        }
        let rung = match doorbell_of(offset) {
            Some((queue, is_completion)) => self.queues.doorbell(queue, is_completion, value),
            None => Err(Offence::Register { offset, value: u64::from(value) }),
        };
        if let Err(offence) = rung {
            self.offend(offence);
        }
    }

    /// CC is written.
    fn configure(&mut self, new: Configuration) {
        let old = std::mem::replace(&mut self.registers.configuration, new);
        if old.is_enabled() && !new.is_enabled() {
            self.is_stopping = true;
        } else if new.is_enabled() && !old.is_enabled() && !self.is_stopping {
            self.enable();
        }
        if new.is_shutdown() && self.is_running() {
            self.registers.shutdown = Shutdown::Normal;
            self.is_flushed = false;
        }
        self.settle();
    }

    fn enable(&mut self) {
        let (sizes, submission, completion) = self.registers.admin_queues();
        let configuration = self.registers.configuration;
        self.queues.clear();
        let completion = QueuePlace { queue: 0, address: completion, entries: sizes.completion };
        let submission = QueuePlace { queue: 0, address: submission, entries: sizes.submission };
        let created = self.queues.create_completion(&self.memory, &completion);
        let created = created.and_then(|()| self.queues.create_submission(&self.memory, &submission, 0));
        if !configuration.is_usual() || created.is_err() {
            return self.offend(Offence::Configuration(configuration.bits()));
        }
        self.registers.is_ready = true;
    }

    /// What waits for nothing to be under way: a reset, a shutdown.
    fn settle(&mut self) {
        if self.flights.under_way() > 0 {
            return;
        }
        if self.is_stopping {
            self.is_stopping = false;
            self.queues.clear();
            self.admin.reset();
            self.registers.is_ready = false;
            self.registers.has_failed = false;
            self.registers.shutdown = Shutdown::None;
            if self.registers.configuration.is_enabled() && !self.registers.is_absent {
                self.enable();
            }
        } else if self.registers.shutdown == Shutdown::Normal {
            if !std::mem::replace(&mut self.is_flushed, true) {
                (0..self.backends.len()).for_each(|backend| self.flush_unasked(backend));
            }
            if self.flights.under_way() == 0 {
                self.registers.shutdown = Shutdown::Complete;
            }
        }
    }

    /// A flush that no driver asked for, if the backend has something to flush.
    fn flush_unasked(&mut self, backend: usize) {
        let Some(target) = self.backends.get_mut(backend) else { return };
        if !target.vsic.geometry().volatile_cache {
            return;
        }
        let Some((token, flight)) = self.flights.begin() else { return };
        (flight.queue, flight.kind, flight.backend) = (NO_QUEUE, Kind::Flush, backend);
        (flight.is_lent, flight.then_flush) = (false, false);
        let token = u64::from(token);
        match target.vsic.submit(Request { token, operation: Operation::Flush }) {
            Ok(()) => target.is_queued = true,
            Err(_) => self.flights.end(token),
        }
    }

    /// The next queue in turn of which a command may be fetched.
    #[inline]
    fn next_queue(&mut self) -> Option<u16> {
        let count = self.queues.count();
        let has_room = self.flights.has_room() && self.pool.free_count() > 0;
        for _ in 0..count {
            let queue = self.cursor;
            self.cursor = if queue + 1 >= count { 0 } else { queue + 1 };
            if (queue == 0 || has_room) && self.queues.is_fetchable(queue) {
                return Some(queue);
            }
        }
        None
    }

    /// Fetches a command and begins with it.
    #[inline]
    fn serve(&mut self, queue: u16) {
        let command = match self.queues.fetch(&self.memory, queue) {
            Ok(command) => command,
            Err(offence) => return self.offend(offence),
        };
        self.counters.commands += 1;
        let answer = if queue == 0 {
            match self.admin.execute(&command, &mut self.queues, &self.namespaces, &self.memory) {
                Ok(Outcome::Done(result)) => Ok(result),
                Ok(Outcome::Held) => return self.queues.hold(queue),
                Ok(Outcome::Deleting(deleted)) => return self.finish_deletion(deleted),
                Err(status) => Err(status),
            }
        } else {
            match self.begin(queue, &command) {
                Ok(()) => return,
                Err(status) => Err(status),
            }
        };
        self.counters.refused += u64::from(answer.is_err());
        let (status, result) = match answer {
            Ok(result) => (Status::SUCCESS, result),
            Err(status) => (status, 0),
        };
        self.post((queue, command.identifier()), status, result);
    }

    #[inline]
    fn post(&mut self, place: (u16, u16), status: Status, result: u32) {
        if let Err(offence) = self.queues.post(&self.memory, place, status, result) {
            self.offend(offence);
        }
    }

    /// Answers an event request, if something is to be said.
    #[inline]
    fn notify(&mut self) {
        if self.admin.has_event()
            && self.is_running()
            && self.queues.resume(0)
            && let Some(identifier) = self.admin.take_event()
        {
            self.post((0, identifier), Status::SUCCESS, event::NAMESPACE_ATTRIBUTE_CHANGED);
        }
    }

    /// Answers the command that deletes a queue, if nothing of the queue is under way.
    fn finish_deletion(&mut self, queue: u16) {
        if let Some(identifier) = self.queues.take_deleted(queue) {
            self.post((0, identifier), Status::SUCCESS, 0);
        }
    }

    /// Gives an I/O command to its backend.
    ///
    /// # Errors
    /// The status that says why not.
    #[inline]
    fn begin(&mut self, queue: u16, command: &Command) -> Result<(), Status> {
        let kind = match command.opcode() {
            opcode::READ => Kind::Read,
            opcode::WRITE => Kind::Write,
            opcode::FLUSH => Kind::Flush,
            opcode::WRITE_ZEROES => Kind::Zero,
            _ => return Err(Status::INVALID_OPCODE.without_retry()),
        };
        if !command.is_plain() {
            return Err(Status::INVALID_FIELD.without_retry());
        }
        let index = (command.namespace() as usize).wrapping_sub(1);
        let invalid = Status::INVALID_NAMESPACE.without_retry();
        let namespace = *self.namespaces.get(index).ok_or(invalid)?;
        if namespace.read_only && matches!(kind, Kind::Write | Kind::Zero) {
            return Err(Status::WRITE_PROTECTED.without_retry());
        }
        let block = if kind == Kind::Flush { 0 } else { namespace.place(command)? };
        let is_transfer = matches!(kind, Kind::Read | Kind::Write);
        let bytes =
            if is_transfer { u64::from(command.blocks()) * u64::from(namespace.geometry.block_bytes) } else { 0 };
        if bytes > self.transfer_bytes_max {
            return Err(Status::INVALID_FIELD.without_retry());
        }
        let busy = Status::NAMESPACE_NOT_READY;
        let backend = self.backends.get_mut(namespace.backend).ok_or(busy)?;
        let (token, flight) = self.flights.begin().ok_or(busy)?;
        let is_durable = namespace.geometry.volatile_cache && (command.is_durable() || !self.admin.is_cache_on);
        (flight.queue, flight.identifier, flight.kind) = (queue, command.identifier(), kind);
        (flight.backend, flight.is_lent) = (namespace.backend, false);
        flight.then_flush = is_durable && kind == Kind::Zero;
        let token = u64::from(token);
        let data = if is_transfer {
            let data = walk(&self.memory, (command.prp1(), command.prp2()), bytes, &mut flight.segments)
                .and_then(|()| data_of(&self.memory, &self.pool, flight, bytes as usize));
            match data {
                Ok(frame) => Some(frame),
                Err(status) => {
                    self.flights.end(token);
                    return Err(status);
                }
            }
        } else {
            None
        };
        self.counters.lent += u64::from(flight.is_lent);
        let operation = match (kind, data) {
            (Kind::Read, Some(frame)) => Operation::Read { block, frame },
            (Kind::Write, Some(frame)) => Operation::Write { block, frame, durable: is_durable },
            (Kind::Zero, _) => Operation::WriteZeroes { block, blocks: u64::from(command.blocks()) },
            _ => Operation::Flush,
        };
        if backend.vsic.submit(Request { token, operation }).is_err() {
            self.flights.end(token);
            return Err(busy);
        }
        backend.is_queued = true;
        Ok(())
    }

    /// Takes what backends have ended; how much.
    fn reap(&mut self, completions_max: usize) -> usize {
        if self.flights.under_way() == 0 {
            return 0;
        }
        let mut passing = std::mem::take(&mut self.passing);
        for backend in &mut self.backends {
            // As many as there is room for without allocating.
            let room = passing.capacity() - passing.len();
            backend.vsic.complete(&mut passing, completions_max.min(room));
        }
        let count = passing.len();
        for completion in passing.drain(..) {
            self.ended(completion);
        }
        self.passing = passing;
        self.settle();
        count
    }

    /// A backend has ended a command's request.
    #[inline]
    fn ended(&mut self, completion: Completion) {
        let Completion { token, frame, result } = completion;
        let is_answering = self.is_answering();
        let Some(flight) = self.flights.get(token) else { return };
        if result.is_ok() && std::mem::take(&mut flight.then_flush) && is_answering {
            let backend = self.backends.get_mut(flight.backend);
            if let Some(backend) = backend
                && backend.vsic.submit(Request { token, operation: Operation::Flush }).is_ok()
            {
                backend.is_queued = true;
                return;
            }
            let place = (flight.queue, flight.identifier);
            self.flights.end(token);
            return self.post(place, Status::NAMESPACE_NOT_READY, 0);
        }
        let (queue, is_read) = (flight.queue, flight.kind == Kind::Read);
        let place = (queue, flight.identifier);
        let mut status = Status::of_result(result, is_read);
        if is_answering && is_read && !flight.is_lent && result.is_ok() {
            let mut rest = frame.as_ref().map(Frame::bytes).unwrap_or_default();
            for segment in &flight.segments {
                let (part, others) = rest.split_at_checked(segment.bytes as usize).unwrap_or((rest, &[]));
                if !self.memory.write(segment.address, part) {
                    status = Status::DATA_TRANSFER_ERROR;
                }
                rest = others;
            }
        }
        self.flights.end(token);
        if is_answering && queue != NO_QUEUE {
            self.post(place, status, 0);
            self.finish_deletion(queue);
        }
    }
}

/// The frame a backend is to use for a command's data: the driver's own memory if it is in one piece and can be lent, else one of ours,
/// which what is to be written is copied into. (The copy is not waste alone: what a backend writes, sums or encrypts does not change while
/// it does, and data in pieces become one request.)
#[inline]
fn data_of<M: GuestMemory>(
    memory: &M,
    pool: &Pool,
    flight: &mut super::flights::Flight,
    bytes: usize,
) -> Result<Frame, Status> {
    if let [segment] = flight.segments.as_slice()
        && segment.address.is_multiple_of(512)
        && let Some(frame) = memory.lend(segment.address, bytes)
    {
        flight.is_lent = true;
        return Ok(frame);
    }
    let mut frame = pool.allocate(0).ok_or(Status::NAMESPACE_NOT_READY)?;
    let mut rest = frame.append(bytes).ok_or(Status::INTERNAL_ERROR)?;
    if flight.kind == Kind::Write {
        for segment in &flight.segments {
            let (part, others) = rest.split_at_mut_checked(segment.bytes as usize).ok_or(Status::INTERNAL_ERROR)?;
            if !memory.read(segment.address, part) {
                return Err(Status::DATA_TRANSFER_ERROR.without_retry());
            }
            rest = others;
        }
    }
    Ok(frame)
}
