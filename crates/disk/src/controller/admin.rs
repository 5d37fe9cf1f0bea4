//! Admin commands.

use super::memory::GuestMemory;
use super::namespace::Namespace;
use super::prp::{Segment, walk};
use super::queues::{QueuePlace, Queues};
use crate::nvme::spec::{
    ActiveNamespaces, Command, IdentifyController, IdentifyPage, Status, cns, event, feature, opcode,
};

/// Asynchronous event requests that may be outstanding.
pub(super) const EVENTS_MAX: usize = 4;
/// The largest namespace identifier that is no special one.
const NAMESPACE_MAX: u32 = 0xffff_fffd;

/// What admin commands read and change, beside queues.
pub(super) struct Admin {
    pub(super) identity: IdentifyController,
    pub(super) interrupt_vectors: u16,
    pub(super) has_cache: bool,
    /// Whether the volatile write cache is on; else every write is durable.
    pub(super) is_cache_on: bool,
    /// Outstanding asynchronous event requests.
    pub(super) events: Vec<u16>,
    /// Kinds of events that may be said (Asynchronous Event Configuration).
    pub(super) notices: u32,
    /// Namespaces that have changed since their log was read.
    pub(super) changed: Vec<u32>,
    /// That there are some was said. It is not said again before the log was read.
    pub(super) is_told: bool,
    /// Where Identify data and logs go.
    pub(super) segments: Vec<Segment>,
}

/// How an admin command ends.
pub(super) enum Outcome {
    /// With this result in double word 0.
    Done(u32),
    /// Not yet.
    Held,
    /// When the queue it deletes has nothing under way.
    Deleting(u16),
}

type Answer = Result<Outcome, Status>;

const INVALID_FIELD: Status = Status::INVALID_FIELD.without_retry();

impl Admin {
    /// The controller starts anew.
    pub(super) fn reset(&mut self) {
        self.events.clear();
        self.changed.clear();
        (self.notices, self.is_told) = (0, false);
        self.is_cache_on = self.has_cache;
    }

    /// A namespace is another than it was identified as.
    pub(super) fn changed(&mut self, namespace: u32) {
        if !self.changed.contains(&namespace) {
            self.changed.push(namespace);
        }
    }

    /// Whether that is to be said, and there is an event request by which it can be.
    pub(super) fn has_event(&self) -> bool {
        let may = self.notices & event::NAMESPACE_NOTICES != 0;
        may && !self.is_told && !self.changed.is_empty() && !self.events.is_empty()
    }

    /// The event request that says so.
    pub(super) fn take_event(&mut self) -> Option<u16> {
        self.is_told = true;
        self.events.pop()
    }

    /// Executes a command.
    ///
    /// # Errors
    /// The status that says why not.
    pub(super) fn execute(
        &mut self,
        command: &Command,
        queues: &mut Queues,
        namespaces: &[Namespace],
        memory: &impl GuestMemory,
    ) -> Answer {
        if !command.is_plain() {
            return Err(INVALID_FIELD);
        }
        match command.opcode() {
            opcode::IDENTIFY => self.identify(command, namespaces, memory),
            opcode::GET_LOG_PAGE => self.log(command, memory),
            opcode::SET_FEATURES => self.set_feature(command, queues),
            opcode::GET_FEATURES => self.get_feature(command, queues),
            opcode::CREATE_COMPLETION_QUEUE => self.create_completion(command, queues, memory),
            opcode::CREATE_SUBMISSION_QUEUE => {
                let place = place_of(command)?;
                queues.create_submission(memory, &place, command.queue_partner()).map(|()| Outcome::Done(0))
            }
            opcode::DELETE_COMPLETION_QUEUE => queues.delete_completion(command.queue()).map(|()| Outcome::Done(0)),
            opcode::DELETE_SUBMISSION_QUEUE => {
                let queue = command.queue();
                queues.delete_submission(queue, command.identifier()).map(|()| Outcome::Deleting(queue))
            }
            // What is under way can't be called back: bit 0 says that it was not aborted.
            opcode::ABORT => Ok(Outcome::Done(1)),
            opcode::ASYNCHRONOUS_EVENT_REQUEST if self.events.len() < EVENTS_MAX => {
                self.events.push(command.identifier());
                Ok(Outcome::Held)
            }
            opcode::ASYNCHRONOUS_EVENT_REQUEST => Err(Status::EVENT_LIMIT_EXCEEDED.without_retry()),
            opcode::DOORBELL_BUFFER_CONFIG if self.identity.doorbell_buffers => {
                queues.set_shadow(memory, command.prp1(), command.prp2()).map(|()| Outcome::Done(0))
            }
            _ => Err(Status::INVALID_OPCODE.without_retry()),
        }
    }

    fn identify(&mut self, command: &Command, namespaces: &[Namespace], memory: &impl GuestMemory) -> Answer {
        let namespace = command.namespace();
        let invalid = Status::INVALID_NAMESPACE.without_retry();
        let page: Box<IdentifyPage> = match command.double_word(10) as u8 {
            cns::CONTROLLER => Box::new(self.identity.to_page()),
            cns::NAMESPACE => {
                let index = (namespace as usize).checked_sub(1).ok_or(invalid)?;
                Box::new(namespaces.get(index).ok_or(invalid)?.identify().to_page())
            }
            cns::ACTIVE_NAMESPACES if namespace <= NAMESPACE_MAX => {
                let active = 1..=namespaces.len() as u32;
                Box::new(ActiveNamespaces::to_page(active.filter(|identifier| *identifier > namespace)))
            }
            cns::ACTIVE_NAMESPACES => return Err(invalid),
            _ => return Err(INVALID_FIELD),
        };
        self.give(command, page.as_slice(), memory)
    }

    /// The log of namespaces that have changed, which are not said again unless the command is to retain the event (RAE). There is no other.
    fn log(&mut self, command: &Command, memory: &impl GuestMemory) -> Answer {
        let word = command.double_word(10);
        if word as u8 != event::CHANGED_NAMESPACES {
            return Err(Status::INVALID_LOG_PAGE.without_retry());
        }
        let has_offset = command.double_word(12) != 0 || command.double_word(13) != 0;
        let page: Box<IdentifyPage> = Box::new(ActiveNamespaces::to_page(self.changed.iter().copied()));
        let part = usize::try_from(command.log_bytes()).ok().and_then(|bytes| page.get(..bytes));
        let outcome = self.give(command, part.filter(|_| !has_offset).ok_or(INVALID_FIELD)?, memory)?;
        if word >> 15 & 1 == 0 {
            self.changed.clear();
            self.is_told = false;
        }
        Ok(outcome)
    }

    /// Writes `data` to where the command says.
    fn give(&mut self, command: &Command, data: &[u8], memory: &impl GuestMemory) -> Answer {
        walk(memory, (command.prp1(), command.prp2()), data.len() as u64, &mut self.segments)?;
        let mut rest = data;
        for segment in &self.segments {
            let (part, others) = rest.split_at_checked(segment.bytes as usize).unwrap_or((rest, &[]));
            if !memory.write(segment.address, part) {
                return Err(Status::DATA_TRANSFER_ERROR.without_retry());
            }
            rest = others;
        }
        Ok(Outcome::Done(0))
    }

    fn set_feature(&mut self, command: &Command, queues: &Queues) -> Answer {
        let value = command.double_word(11);
        match command.double_word(10) as u8 {
            feature::NUMBER_OF_QUEUES if value & 0xffff == 0xffff || value >> 16 == 0xffff => Err(INVALID_FIELD),
            feature::NUMBER_OF_QUEUES if queues.has_io() => Err(Status::SEQUENCE_ERROR.without_retry()),
            feature::NUMBER_OF_QUEUES => Ok(Outcome::Done(number_of_queues(queues))),
            feature::VOLATILE_WRITE_CACHE if self.has_cache => {
                self.is_cache_on = value & 1 != 0;
                Ok(Outcome::Done(0))
            }
            feature::ASYNCHRONOUS_EVENT_CONFIGURATION if value & !event::NAMESPACE_NOTICES == 0 => {
                self.notices = value;
                Ok(Outcome::Done(0))
            }
            _ => Err(INVALID_FIELD),
        }
    }

    fn get_feature(&self, command: &Command, queues: &Queues) -> Answer {
        // The current value only (SEL = 0).
        match command.double_word(10) & 0x7ff {
            feature if feature == u32::from(feature::NUMBER_OF_QUEUES) => Ok(Outcome::Done(number_of_queues(queues))),
            feature if feature == u32::from(feature::VOLATILE_WRITE_CACHE) && self.has_cache => {
                Ok(Outcome::Done(u32::from(self.is_cache_on)))
            }
            feature if feature == u32::from(feature::ASYNCHRONOUS_EVENT_CONFIGURATION) => {
                Ok(Outcome::Done(self.notices))
            }
            _ => Err(INVALID_FIELD),
        }
    }

    fn create_completion(&self, command: &Command, queues: &mut Queues, memory: &impl GuestMemory) -> Answer {
        let place = place_of(command)?;
        if command.interrupts() && command.queue_partner() >= self.interrupt_vectors {
            return Err(Status::INVALID_INTERRUPT_VECTOR.without_retry());
        }
        queues.create_completion(memory, &place).map(|()| Outcome::Done(0))
    }
}

/// All that there may be are given, whatever is asked for: both counts are less one.
fn number_of_queues(queues: &Queues) -> u32 {
    let pairs = u32::from(queues.count()).saturating_sub(2);
    pairs << 16 | pairs
}

/// The queue that a command creates.
fn place_of(command: &Command) -> Result<QueuePlace, Status> {
    if !command.is_contiguous() {
        return Err(INVALID_FIELD);
    }
    if command.queue() == 0 {
        return Err(Status::INVALID_QUEUE_IDENTIFIER.without_retry());
    }
    Ok(QueuePlace { queue: command.queue(), address: command.prp1(), entries: command.queue_entries() })
}
