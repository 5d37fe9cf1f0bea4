//! What follows from a call of a connection: its place in the tables, its timer, its end, TIME-WAIT.

use crate::stack::{Stack, TimerKind};
use crate::tables::flow::{FlowKey, FlowOwner};
use crate::tcp::{Disposition, Env, TimeWait};
use crate::transport::tables::{SPARE_QUEUES_MAX, TimeWaitSlot, env};
use qanat_nic::Time;

impl Stack {
    /// Makes a connection just put into its slot known: gives it queues and its flow, in place of its `predecessor` there.
    /// Whether the flow found a place; if not, the connection is gone again.
    pub(crate) fn enter_connection(&mut self, slot: u32, predecessor: Option<FlowOwner>) -> bool {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return false };
        if let Some(queues) = self.transport.spare_queues.pop() {
            connection.tcp.adopt(queues);
        }
        let hash = connection.key.hash();
        let owner = FlowOwner::Connection(slot);
        let found_place = match predecessor {
            Some(predecessor) => self.transport.flows.replace(hash, predecessor, owner),
            None => self.transport.flows.insert(hash, owner),
        };
        if !found_place {
            self.transport.connections.discard(slot);
        }
        found_place
    }

    /// Follows up on a call of a connection: its timer, its output, its end.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time, slot: u32, disposition: Disposition) {
        match disposition {
            Disposition::Keep | Disposition::Reset => {
                let generation = self.transport.connections.generation(slot);
                let Some(connection) = self.transport.connections.at_mut(slot) else { return };
                if connection.tcp.needs_output() && !connection.ready {
                    connection.ready = true;
                    self.transport.ready.push_back(slot);
                }
                // The wheel's entry may be early (it is put right when it fires), never late: acknowledgements that
                // push the deadline on cost nothing.
                let Some(deadline) = connection.tcp.next_deadline() else { return };
                if let Some((handle, at)) = connection.timer {
                    if at <= deadline {
                        return;
                    }
                    self.wheel.cancel(handle);
                }
                let kind = TimerKind::Connection { slot, generation };
                connection.timer = self.wheel.insert(deadline, kind).map(|handle| (handle, deadline));
            }
            Disposition::Remove | Disposition::ResetAndRemove => {
                if let Some(key) = self.take_connection(now, slot) {
                    self.transport.flows.remove(key.hash(), FlowOwner::Connection(slot));
                }
            }
            Disposition::TimeWait(state) => {
                if let Some(key) = self.take_connection(now, slot)
                    && !self.enter_time_wait(key, FlowOwner::Connection(slot), state, now)
                {
                    self.transport.flows.remove(key.hash(), FlowOwner::Connection(slot));
                }
            }
        }
    }

    /// Frees a connection's slot and its timer, but leaves its flow, for the TIME-WAIT it may become.
    fn take_connection(&mut self, now: Time, slot: u32) -> Option<FlowKey> {
        let connection = self.transport.connections.at_mut(slot)?;
        let key = connection.key;
        if connection.tcp.is_unproved() {
            let id = connection.tcp.id();
            self.fast_open_ended(now, id);
        }
        let connection = self.transport.connections.at_mut(slot)?;
        if let Some((handle, _)) = connection.timer {
            self.wheel.cancel(handle);
        }
        let queues = connection.tcp.retire();
        if self.transport.spare_queues.len() < SPARE_QUEUES_MAX {
            self.transport.spare_queues.push(queues);
        }
        self.transport.connections.discard(slot);
        self.network.counters.tcp_closed += 1;
        Some(key)
    }

    /// Takes over the flow of a connection. Gives whether there was room.
    fn enter_time_wait(&mut self, key: FlowKey, predecessor: FlowOwner, state: TimeWait, now: Time) -> bool {
        if state.acknowledgment_owed {
            let acknowledgment = state.acknowledgment(&mut env!(self, now));
            self.reply(key, acknowledgment);
        }
        let Some((slot, generation)) = self.transport.time_wait.next_key() else {
            // As Linux (`tcp_max_tw_buckets`): the newest goes without. Making room would touch the oldest's memory, cold
            // since long, for every connection of a busy server.
            self.network.counters.tcp_time_wait_overflow += 1;
            return false;
        };
        let kind = TimerKind::TimeWait { slot, generation };
        let timer = self.wheel.insert(state.deadline, kind);
        if self.transport.time_wait.insert(TimeWaitSlot { key, state, timer }).is_err() {
            return false;
        }
        self.transport.flows.replace(key.hash(), predecessor, FlowOwner::TimeWait(slot))
    }

    /// Forgets a TIME-WAIT state.
    pub(crate) fn leave_time_wait(&mut self, slot: u32) {
        if let Some(gone) = self.transport.time_wait.remove(slot) {
            if let Some(timer) = gone.timer {
                self.wheel.cancel(timer);
            }
            self.transport.flows.remove(gone.key.hash(), FlowOwner::TimeWait(slot));
        }
    }

    pub(crate) fn time_wait_timer(&mut self, now: Time, slot: u32, generation: u32) {
        let Some(waiting) = self.transport.time_wait.get_mut(slot as usize, generation) else { return };
        waiting.timer = None;
        let expires = waiting.state.deadline;
        if expires > now {
            waiting.timer = self.wheel.insert(expires, TimerKind::TimeWait { slot, generation });
        } else {
            self.leave_time_wait(slot);
        }
    }

    pub(crate) fn connection_timer(&mut self, now: Time, slot: u32, generation: u32) {
        let Some(connection) = self.transport.connections.get_mut(slot as usize, generation) else { return };
        connection.timer = None;
        let due = connection.tcp.next_deadline().is_some_and(|deadline| deadline <= now);
        let disposition = if due { connection.tcp.on_timer(&mut env!(self, now)) } else { Disposition::Keep };
        if due && connection.tcp.has_timed_out() {
            self.network.neighbours.doubt(now, connection.next_hop, connection.hint);
        }
        self.settle(now, slot, disposition);
    }
}
