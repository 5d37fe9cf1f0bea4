//! [`Queues`]: submission and completion queues, from the controller's side.
//!
//! A command is fetched only when there is room for its completion, so that none ever waits for a driver that takes none.

use super::memory::GuestMemory;
use super::offence::Offence;
use crate::nvme::spec::{COMMAND_BYTES, COMPLETION_BYTES, Command, CompletionEntry, PAGE_BYTES, Status};
use std::sync::atomic::{Ordering, fence};

/// How often a turn looks whether more was told in memory.
const SHADOW_ROUNDS_MAX: u32 = 4;

/// Entries from one place on to another.
#[inline]
fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { to + entries - from }
}

/// The place after one.
#[inline]
fn after(place: u32, entries: u32) -> u32 {
    if place + 1 >= entries { 0 } else { place + 1 }
}

/// A submission queue.
struct Submission {
    base: u64,
    entries: u32,
    head: u32,
    /// The driver's, as told and judged.
    tail: u32,
    completion: u16,
    /// Commands fetched and not completed.
    under_way: u32,
    /// The admin command that deletes it.
    deleted_by: Option<u16>,
}

/// A completion queue.
struct Completion {
    base: u64,
    entries: u32,
    /// The driver's, as told and judged.
    head: u32,
    tail: u32,
    phase: bool,
    /// Entries that commands under way will take.
    reserved: u32,
    /// Submission queues that complete here.
    users: u32,
}

impl Completion {
    #[inline]
    fn has_room(&self) -> bool {
        self.reserved + distance(self.head, self.tail, self.entries) + 1 < self.entries
    }
}

/// Where a queue is to be.
pub(super) struct QueuePlace {
    pub(super) queue: u16,
    pub(super) address: u64,
    pub(super) entries: u32,
}

/// All queues of a controller, by number; the first are the admin queues.
pub(super) struct Queues {
    submissions: Vec<Option<Submission>>,
    completions: Vec<Option<Completion>>,
    entries_max: u32,
    /// Addresses of the pages of shadow doorbells and event indices.
    shadow: Option<(u64, u64)>,
    /// Completions were posted since somebody asked.
    pub(super) has_posted: bool,
}

impl Queues {
    /// For `pairs` pairs for I/O, of at most so many entries each.
    pub(super) fn new(pairs: u16, entries_max: u32) -> Queues {
        let count = usize::from(pairs) + 1;
        Queues {
            submissions: (0..count).map(|_| None).collect(),
            completions: (0..count).map(|_| None).collect(),
            entries_max,
            shadow: None,
            has_posted: false,
        }
    }

    /// How many submission queues there may be, the admin queue included.
    pub(super) fn count(&self) -> u16 {
        self.submissions.len() as u16
    }

    /// There is none any more.
    pub(super) fn clear(&mut self) {
        self.submissions.fill_with(|| None);
        self.completions.fill_with(|| None);
        self.shadow = None;
    }

    /// Whether there is any for I/O.
    pub(super) fn has_io(&self) -> bool {
        self.submissions.iter().skip(1).any(Option::is_some) || self.completions.iter().skip(1).any(Option::is_some)
    }

    fn submission(&mut self, queue: u16) -> Option<&mut Submission> {
        self.submissions.get_mut(usize::from(queue))?.as_mut()
    }

    fn completion(&mut self, queue: u16) -> Option<&mut Completion> {
        self.completions.get_mut(usize::from(queue))?.as_mut()
    }

    /// Whether a queue can be there.
    fn check(&self, memory: &impl GuestMemory, place: &QueuePlace, entry_bytes: usize) -> Result<(), Status> {
        if place.entries < 2 || place.entries > self.entries_max {
            return Err(Status::INVALID_QUEUE_SIZE.without_retry());
        }
        if !place.address.is_multiple_of(PAGE_BYTES) {
            return Err(Status::INVALID_PRP_OFFSET.without_retry());
        }
        if !memory.contains(place.address, u64::from(place.entries) * entry_bytes as u64) {
            return Err(Status::DATA_TRANSFER_ERROR.without_retry());
        }
        Ok(())
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    /// The status that says why not.
    pub(super) fn create_completion(&mut self, memory: &impl GuestMemory, place: &QueuePlace) -> Result<(), Status> {
        let invalid = Status::INVALID_QUEUE_IDENTIFIER.without_retry();
        if !matches!(self.completions.get(usize::from(place.queue)), Some(None)) {
            return Err(invalid);
        }
        self.check(memory, place, COMPLETION_BYTES)?;
        let slot = self.completions.get_mut(usize::from(place.queue)).ok_or(invalid)?;
        *slot = Some(Completion {
            base: place.address,
            entries: place.entries,
            head: 0,
            tail: 0,
            phase: true,
            reserved: 0,
            users: 0,
        });
        self.tell_shadow(memory, place.queue, true);
        Ok(())
    }

    /// Makes a submission queue that completes to `completion`.
    ///
    /// # Errors
    /// The status that says why not.
    pub(super) fn create_submission(
        &mut self,
        memory: &impl GuestMemory,
        place: &QueuePlace,
        completion: u16,
    ) -> Result<(), Status> {
        let invalid = Status::INVALID_QUEUE_IDENTIFIER.without_retry();
        if !matches!(self.submissions.get(usize::from(place.queue)), Some(None)) {
            return Err(invalid);
        }
        // The admin queue's is its own.
        if (completion == 0) != (place.queue == 0) || self.completion(completion).is_none() {
            return Err(Status::COMPLETION_QUEUE_INVALID.without_retry());
        }
        self.check(memory, place, COMMAND_BYTES)?;
        let slot = self.submissions.get_mut(usize::from(place.queue)).ok_or(invalid)?;
        *slot = Some(Submission {
            base: place.address,
            entries: place.entries,
            head: 0,
            tail: 0,
            completion,
            under_way: 0,
            deleted_by: None,
        });
        if let Some(completion) = self.completion(completion) {
            completion.users += 1;
        }
        self.tell_shadow(memory, place.queue, false);
        Ok(())
    }

    /// Begins to delete a submission queue for an admin command, which is answered by [`Queues::take_deleted`].
    ///
    /// # Errors
    /// There is none, or it is being deleted, or is the admin queue.
    pub(super) fn delete_submission(&mut self, queue: u16, identifier: u16) -> Result<(), Status> {
        match self.submission(queue) {
            Some(submission) if queue > 0 && submission.deleted_by.is_none() => {
                submission.deleted_by = Some(identifier);
                Ok(())
            }
            _ => Err(Status::INVALID_QUEUE_IDENTIFIER.without_retry()),
        }
    }

    /// A submission queue to be deleted that has nothing under way is gone now; the admin command that deleted it.
    pub(super) fn take_deleted(&mut self, queue: u16) -> Option<u16> {
        let submission = self.submission(queue)?;
        if submission.under_way > 0 {
            return None;
        }
        let (identifier, completion) = (submission.deleted_by?, submission.completion);
        *self.submissions.get_mut(usize::from(queue))? = None;
        if let Some(completion) = self.completion(completion) {
            completion.users = completion.users.saturating_sub(1);
        }
        Some(identifier)
    }

    /// Deletes a completion queue.
    ///
    /// # Errors
    /// There is none, or a submission queue completes there, or it is the admin queue.
    pub(super) fn delete_completion(&mut self, queue: u16) -> Result<(), Status> {
        match self.completion(queue) {
            Some(completion) if queue > 0 && completion.users > 0 => {
                Err(Status::INVALID_QUEUE_DELETION.without_retry())
            }
            Some(_) if queue > 0 => {
                if let Some(slot) = self.completions.get_mut(usize::from(queue)) {
                    *slot = None;
                }
                Ok(())
            }
            _ => Err(Status::INVALID_QUEUE_IDENTIFIER.without_retry()),
        }
    }

    /// A doorbell is rung.
    ///
    /// # Errors
    /// It tells what can't be.
    pub(super) fn doorbell(&mut self, queue: u16, is_completion: bool, value: u32) -> Result<(), Offence> {
        match self.shadow_of(queue, is_completion) {
            // What counts is told in memory, where it may be newer already.
            Some(_) => Ok(()),
            None => self.told(queue, is_completion, value),
        }
    }

    /// A driver tells a tail, or a completion queue's head.
    ///
    /// # Errors
    /// It tells what can't be: there is no such queue, no such entry, or it goes back.
    fn told(&mut self, queue: u16, is_completion: bool, value: u32) -> Result<(), Offence> {
        let offence = Offence::Doorbell { queue, value };
        if is_completion {
            let completion = self.completion(queue).ok_or(offence)?;
            let (head, entries) = (completion.head, completion.entries);
            // Not beyond what was posted.
            if value >= entries || distance(head, value, entries) > distance(head, completion.tail, entries) {
                return Err(offence);
            }
            completion.head = value;
        } else {
            let submission = self.submission(queue).ok_or(offence)?;
            let (head, entries) = (submission.head, submission.entries);
            // Not back: what was told is told.
            if value >= entries || distance(head, value, entries) < distance(head, submission.tail, entries) {
                return Err(offence);
            }
            submission.tail = value;
        }
        Ok(())
    }

    /// Whether a command of this queue may be fetched.
    #[inline]
    pub(super) fn is_fetchable(&self, queue: u16) -> bool {
        let Some(Some(submission)) = self.submissions.get(usize::from(queue)) else { return false };
        let Some(Some(completion)) = self.completions.get(usize::from(submission.completion)) else { return false };
        submission.head != submission.tail && submission.deleted_by.is_none() && completion.has_room()
    }

    /// Fetches a command: one copy, after which the memory is not looked at again.
    ///
    /// # Errors
    /// The queue's memory is not there any more.
    #[inline]
    pub(super) fn fetch(&mut self, memory: &impl GuestMemory, queue: u16) -> Result<Command, Offence> {
        let gone = Offence::Memory(queue);
        let submission = self.submission(queue).ok_or(gone)?;
        let mut words = [0; COMMAND_BYTES / 8];
        if !memory.load(submission.base + u64::from(submission.head) * COMMAND_BYTES as u64, &mut words) {
            return Err(gone);
        }
        submission.head = after(submission.head, submission.entries);
        submission.under_way += 1;
        let completion = submission.completion;
        self.completion(completion).ok_or(gone)?.reserved += 1;
        Ok(Command::from_words(words))
    }

    /// A command that was fetched stays unanswered for now, and keeps no room.
    pub(super) fn hold(&mut self, queue: u16) {
        let Some(submission) = self.submission(queue) else { return };
        submission.under_way = submission.under_way.saturating_sub(1);
        let completion = submission.completion;
        if let Some(completion) = self.completion(completion) {
            completion.reserved = completion.reserved.saturating_sub(1);
        }
    }

    /// A command that was held is to be answered now; `false`: there is no room for the answer yet.
    pub(super) fn resume(&mut self, queue: u16) -> bool {
        let Some(completion) = self.submission(queue).map(|submission| submission.completion) else { return false };
        let Some(completion) = self.completion(completion).filter(|completion| completion.has_room()) else {
            return false;
        };
        completion.reserved += 1;
        if let Some(submission) = self.submission(queue) {
            submission.under_way += 1;
        }
        true
    }

    /// Posts the completion of a command that was fetched.
    ///
    /// # Errors
    /// The queue's memory is not there any more.
    #[inline]
    pub(super) fn post(
        &mut self,
        memory: &impl GuestMemory,
        (queue, identifier): (u16, u16),
        status: Status,
        result: u32,
    ) -> Result<(), Offence> {
        let gone = Offence::Memory(queue);
        let submission = self.submission(queue).ok_or(gone)?;
        submission.under_way = submission.under_way.saturating_sub(1);
        let (head, completion) = (submission.head, submission.completion);
        let completion = self.completion(completion).ok_or(gone)?;
        completion.reserved = completion.reserved.saturating_sub(1);
        let entry = CompletionEntry {
            result,
            submission_head: head as u16,
            submission_queue: queue,
            identifier,
            phase: completion.phase,
            status,
        };
        let place = completion.base + u64::from(completion.tail) * COMPLETION_BYTES as u64;
        let (lower, upper) = entry.to_words();
        completion.tail = after(completion.tail, completion.entries);
        completion.phase ^= completion.tail == 0;
        // The upper word has the phase bit.
        if !memory.store(place, lower) || !memory.store(place + 8, upper) {
            return Err(gone);
        }
        self.has_posted = true;
        Ok(())
    }

    /// From now on doorbells of queues for I/O are told in memory as well: two pages of it.
    ///
    /// # Errors
    /// The status that says why not.
    pub(super) fn set_shadow(&mut self, memory: &impl GuestMemory, shadow: u64, events: u64) -> Result<(), Status> {
        if !shadow.is_multiple_of(PAGE_BYTES) || !events.is_multiple_of(PAGE_BYTES) {
            return Err(Status::INVALID_PRP_OFFSET.without_retry());
        }
        if shadow == events || !memory.contains(shadow, PAGE_BYTES) || !memory.contains(events, PAGE_BYTES) {
            return Err(Status::INVALID_FIELD.without_retry());
        }
        self.shadow = Some((shadow, events));
        for queue in 1..self.count() {
            self.tell_shadow(memory, queue, false);
            self.tell_shadow(memory, queue, true);
        }
        Ok(())
    }

    /// Where a doorbell is told in memory; where the driver looks whether it has to ring as well; what was told.
    fn shadow_of(&self, queue: u16, is_completion: bool) -> Option<(u64, u64, u32)> {
        let (shadow, events) = self.shadow?;
        let told = if is_completion {
            self.completions.get(usize::from(queue))?.as_ref()?.head
        } else {
            self.submissions.get(usize::from(queue))?.as_ref()?.tail
        };
        let place = 4 * (2 * u64::from(queue) + u64::from(is_completion));
        (queue > 0 && place < PAGE_BYTES).then_some((shadow + place, events + place, told))
    }

    /// Puts what was told so far into the shadow: a queue begins, or shadows do.
    fn tell_shadow(&self, memory: &impl GuestMemory, queue: u16, is_completion: bool) {
        if let Some((shadow, event, told)) = self.shadow_of(queue, is_completion) {
            memory.store_half(shadow, told);
            memory.store_half(event, told);
        }
    }

    /// Hears what was told in memory; whether that is all there is for now.
    ///
    /// # Errors
    /// It can't be.
    pub(super) fn hear_shadows(&mut self, memory: &impl GuestMemory) -> Result<bool, Offence> {
        if self.shadow.is_none() {
            return Ok(true);
        }
        // We say from where on we want to hear, then look again: what is told meanwhile is seen by one of the two (see
        // `nvme::doorbells`). A driver that never stops telling gets the next turn.
        for round in 0..SHADOW_ROUNDS_MAX {
            let mut is_new = false;
            for queue in 1..self.count() {
                for is_completion in [false, true] {
                    let Some((shadow, event, told)) = self.shadow_of(queue, is_completion) else { continue };
                    let value = memory.load_half(shadow).ok_or(Offence::Memory(queue))?;
                    if value != told {
                        self.told(queue, is_completion, value)?;
                        is_new = true;
                    }
                    memory.store_half(event, value);
                }
            }
            fence(Ordering::SeqCst);
            if round > 0 && !is_new {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
