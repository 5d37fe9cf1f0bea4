//! Passive opens: listeners, half-open connections, SYN cookies under pressure (RFC 4987).

use crate::stack::{Stack, TimerKind};
use crate::tables::flow::{FlowKey, FlowOwner};
use crate::tcp::{
    Connection, Disposition, Env, HalfOpen, HalfOpenTimer, HalfOpenVerdict, OpenParameters, SegmentIn, TimeWaitVerdict,
    syn_cookie,
};
use crate::transport::fast_open::FastOpenAnswer;
use crate::transport::listener::{HalfOpenSlot, Listener};
use crate::transport::tables::{Slot, env};
use qanat_api::{Chunk, ConnectionId, Event, ListenerId};
use qanat_nic::Time;
use qanat_wire::tcp::{Flags, SequenceNumber};
use std::net::IpAddr;
use std::time::Duration;

/// Cookies are believed for so long after the last one was sent.
const COOKIE_LIFE: Duration = Duration::from_secs(180);

/// One peer may have so manieth a part of the half-open connections.
const HALF_OPEN_SHARE: usize = 2;

impl Stack {
    fn is_held(&self, listener: ListenerId) -> bool {
        let entry = self.transport.listeners.get(listener.index(), listener.generation());
        entry.is_some_and(|entry| entry.is_held)
    }

    fn listener_for(&self, key: &FlowKey) -> Option<ListenerId> {
        let (address, port) = (key.local_address(), key.local_port());
        let matching = |(slot, listener): (u32, &Listener)| Some((listener.openness(address, port)?, slot));
        // The most specific listener gets it.
        let (_, slot) = self.transport.listeners.iter().filter_map(matching).min()?;
        Some(ListenerId::new(slot, self.transport.listeners.generation(slot)))
    }

    /// A segment for no known flow, sent to one of our addresses.
    pub(crate) fn input_no_flow(&mut self, now: Time, key: FlowKey, segment: &SegmentIn<'_>, payload: Option<Chunk>) {
        if segment.flags.contains(Flags::RST) {
            self.network.counters.tcp_no_connection += 1;
            return;
        }
        let Some(listener) = self.listener_for(&key) else {
            self.network.counters.tcp_no_connection += 1;
            self.reply_reset(now, key, segment);
            return;
        };
        if segment.flags.contains(Flags::ACK) {
            // RFC 9293 section 3.10.7.2: "any acknowledgment is bad if it arrives on a connection still in LISTEN".
            if !self.input_cookie(now, key, listener, segment, payload) {
                self.network.counters.tcp_no_connection += 1;
                self.reply_reset(now, key, segment);
            }
        } else if segment.flags.contains(Flags::SYN) && !segment.flags.contains(Flags::FIN) {
            self.network.counters.tcp_syns_received += 1;
            self.input_syn(now, key, listener, (segment, payload), None);
        } else {
            self.network.counters.tcp_no_connection += 1;
        }
    }

    /// Whether one more half-open connection is kept where `count` of `limit` are; if not, its SYN is answered with a cookie. The
    /// fuller it is, the less often one more is kept: if the last place were given as surely as the first, an attacker that holds all
    /// others would see whether a forged SYN took it, and so whether its connection exists (Ensafi and others 2010).
    fn is_admitted(&mut self, limit: usize, count: usize) -> bool {
        let free = limit.saturating_sub(count) as u64;
        let half = limit as u64 / 2;
        free > 0 && (free >= half || self.secret.draw() % half < free)
    }

    /// Whether `peer` may have one more half-open connection: one host that answers no SYN-ACK leaves room for all others.
    fn has_half_open_share(&self, peer: IpAddr) -> bool {
        let most = (self.transport.half_open.limit() / HALF_OPEN_SHARE).max(1);
        !self.transport.half_open_of.reaches(peer, most)
    }

    /// `after`: the sequence number a predecessor in TIME-WAIT had reached.
    fn input_syn(
        &mut self,
        now: Time,
        key: FlowKey,
        listener: ListenerId,
        (segment, payload): (&SegmentIn<'_>, Option<Chunk>),
        after: Option<SequenceNumber>,
    ) {
        if self.network.routes.next_hop(key.remote_address()).is_none() {
            self.network.counters.ip_no_route += 1;
            return;
        }
        let Some(entry) = self.transport.listeners.get_mut(listener.index(), listener.generation()) else { return };
        if entry.is_held {
            self.network.counters.tcp_accept_overflow += 1;
            return;
        }
        let (backlog, half_open) = (entry.backlog, entry.half_open);
        let (most, window) = (entry.maximum_segment, entry.receive_window);
        let may_wait = (backlog == 0 || self.is_admitted(backlog, half_open))
            && self.is_admitted(self.transport.half_open.limit(), self.transport.half_open.len())
            && self.has_half_open_share(key.remote_address());
        // The handle is not known before the handshake is over; nothing looks at this one.
        let mut open = self.open_parameters(now, ConnectionId::new(0, 0), key);
        open.limit_segment(most);
        open.receive_window = self.transport.config.receive_window_max(window);
        if !may_wait {
            let hash = |initial, count| self.secret.cookie_hash(&key, initial, count);
            let header = syn_cookie::syn_ack(&open, segment, &hash, &self.transport.config, now);
            self.transport.cookie_sent = Some(now);
            self.network.counters.tcp_cookies_sent += 1;
            self.reply(key, header);
            return;
        }
        if let Some(reached) = after
            && !open.initial_sequence.after(reached)
        {
            open.initial_sequence = reached + 0x1_0000;
        }
        let mut state = HalfOpen::new(&open, segment, &self.transport.config, now);
        let mut grant = None;
        match self.fast_open_answer(now, &key, listener, (segment, payload.as_ref())) {
            FastOpenAnswer::None => {}
            FastOpenAnswer::Grant(cookie) => grant = cookie,
            FastOpenAnswer::Accept(cookie) => {
                if self.accept_fast(now, key, listener, (open, state, cookie), (segment, payload)) {
                    return;
                }
            }
        }
        let mut header = state.syn_ack(&mut env!(self, now));
        header.options.fast_open = grant;
        let deadline = state.deadline;
        let Ok((slot, generation)) =
            self.transport.half_open.insert(HalfOpenSlot { key, listener, state, timer: None })
        else {
            return;
        };
        if !self.transport.flows.insert(key.hash(), FlowOwner::HalfOpen(slot)) {
            self.transport.half_open.remove(slot);
            self.network.counters.tcp_syns_dropped += 1;
            return;
        }
        self.transport.half_open_of.add(key.remote_address());
        let timer = self.wheel.insert(deadline, TimerKind::HalfOpen { slot, generation });
        if let Some(half) = self.transport.half_open.at_mut(slot) {
            half.timer = timer;
        }
        if let Some(entry) = self.transport.listeners.get_mut(listener.index(), listener.generation()) {
            entry.half_open += 1;
        }
        self.reply(key, header);
    }

    /// Forgets a half-open connection.
    pub(crate) fn remove_half_open(&mut self, slot: u32) {
        if let Some((key, ..)) = self.take_half_open(slot) {
            self.transport.flows.remove(key.hash(), FlowOwner::HalfOpen(slot));
        }
    }

    /// Takes a half-open connection out of its table, but leaves its flow, for whatever it becomes.
    fn take_half_open(&mut self, slot: u32) -> Option<(FlowKey, ListenerId, HalfOpen)> {
        let half = self.transport.half_open.remove(slot)?;
        self.transport.half_open_of.remove(half.key.remote_address());
        if let Some(timer) = half.timer {
            self.wheel.cancel(timer);
        }
        let listener = half.listener;
        if let Some(entry) = self.transport.listeners.get_mut(listener.index(), listener.generation()) {
            entry.half_open = entry.half_open.saturating_sub(1);
        }
        Some((half.key, listener, half.state))
    }

    pub(crate) fn input_half_open(&mut self, now: Time, slot: u32, segment: &SegmentIn<'_>, payload: Option<Chunk>) {
        let Some(half) = self.transport.half_open.at_mut(slot) else { return };
        let (key, listener) = (half.key, half.listener);
        let verdict = half.state.input(segment, &mut env!(self, now));
        match verdict {
            HalfOpenVerdict::Ignore => {}
            HalfOpenVerdict::Repeat => self.repeat_syn_ack(now, slot),
            HalfOpenVerdict::Acknowledge => {
                let header = half.state.acknowledgment(&mut env!(self, now));
                self.reply(key, header);
            }
            HalfOpenVerdict::Reset => self.reply_reset(now, key, segment),
            HalfOpenVerdict::Remove => self.remove_half_open(slot),
            HalfOpenVerdict::Establish => {
                if self.transport.connections.is_full() || self.is_held(listener) {
                    // The peer will repeat its ACK or data; by then there may be room.
                    self.network.counters.tcp_accept_overflow += 1;
                    return;
                }
                let predecessor = FlowOwner::HalfOpen(slot);
                if let Some((key, listener, state)) = self.take_half_open(slot)
                    && !self.establish(now, key, listener, &state, Some(predecessor), segment, payload)
                {
                    self.transport.flows.remove(key.hash(), predecessor);
                }
            }
        }
    }

    fn repeat_syn_ack(&mut self, now: Time, slot: u32) {
        let generation = self.transport.half_open.generation(slot);
        let Some(half) = self.transport.half_open.at_mut(slot) else { return };
        let header = half.state.syn_ack(&mut env!(self, now));
        if let Some(timer) = half.timer.take() {
            self.wheel.cancel(timer);
        }
        half.timer = self.wheel.insert(half.state.deadline, TimerKind::HalfOpen { slot, generation });
        let key = half.key;
        self.reply(key, header);
    }

    pub(crate) fn half_open_timer(&mut self, now: Time, slot: u32, generation: u32) {
        let Some(half) = self.transport.half_open.get_mut(slot as usize, generation) else { return };
        half.timer = None;
        let remote = half.key.remote_address();
        match half.state.on_timer(&mut env!(self, now)) {
            HalfOpenTimer::Repeat => {
                // The next hop may have another Ethernet address by now.
                if let Some(next_hop) = self.network.routes.next_hop(remote) {
                    self.network.neighbours.doubt_address(now, next_hop);
                }
                self.repeat_syn_ack(now, slot);
            }
            HalfOpenTimer::GiveUp => self.remove_half_open(slot),
        }
    }

    /// Makes the connection of a completed handshake. Gives whether there was room and a route. It takes over the flow of its
    /// `predecessor`, if that was kept in the table.
    #[allow(clippy::too_many_arguments, reason = "the handshake, and the segment that completes it")]
    fn establish(
        &mut self,
        now: Time,
        key: FlowKey,
        listener: ListenerId,
        half: &HalfOpen,
        predecessor: Option<FlowOwner>,
        segment: &SegmentIn<'_>,
        payload: Option<Chunk>,
    ) -> bool {
        let Some(next_hop) = self.network.routes.next_hop(key.remote_address()) else { return false };
        let Some((slot, generation)) = self.transport.connections.next_key() else {
            self.network.counters.tcp_accept_overflow += 1;
            return false;
        };
        let connection = ConnectionId::new(slot, generation);
        let open = OpenParameters {
            id: connection,
            local_port: key.local_port(),
            peer_port: key.remote_port(),
            initial_sequence: half.initial,
            timestamp_offset: half.timestamp_offset,
            maximum_segment: half.local_segment,
            receive_window: half.receive_window,
        };
        let make = || Slot::new(key, next_hop, Connection::from_half_open(&open, half, segment, &mut env!(self, now)));
        if self.transport.connections.insert_with(make).is_none() || !self.enter_connection(slot, predecessor) {
            return false;
        }
        self.network.counters.tcp_accepted += 1;
        self.events.push_back(Event::Accepted { connection, listener, peer: key.remote() });
        self.input_connection(now, slot, key, segment, payload);
        true
    }

    /// Looks at an ACK that may prove a handshake kept in a cookie. Gives whether it was dealt with.
    fn input_cookie(
        &mut self,
        now: Time,
        key: FlowKey,
        listener: ListenerId,
        segment: &SegmentIn<'_>,
        payload: Option<Chunk>,
    ) -> bool {
        if self.transport.cookie_sent.is_none_or(|sent| now.since(sent) > COOKIE_LIFE) {
            return false;
        }
        let mut open = self.open_parameters(now, ConnectionId::new(0, 0), key);
        let entry = self.transport.listeners.get(listener.index(), listener.generation());
        open.limit_segment(entry.and_then(|entry| entry.maximum_segment));
        open.receive_window = self.transport.config.receive_window_max(entry.and_then(|entry| entry.receive_window));
        let hash = |initial, count| self.secret.cookie_hash(&key, initial, count);
        let half = syn_cookie::half_open_from_ack(&open, segment, &hash, &self.transport.config, now);
        let Some(half) = half else {
            self.network.counters.tcp_cookies_invalid += 1;
            return false;
        };
        if self.transport.connections.is_full() || self.is_held(listener) {
            self.network.counters.tcp_accept_overflow += 1;
            return true;
        }
        self.network.counters.tcp_cookies_accepted += 1;
        self.establish(now, key, listener, &half, None, segment, payload);
        true
    }

    pub(crate) fn input_time_wait(&mut self, now: Time, slot: u32, segment: &SegmentIn<'_>) {
        let Some(waiting) = self.transport.time_wait.at_mut(slot) else { return };
        let key = waiting.key;
        match waiting.state.input(segment, &mut env!(self, now)) {
            TimeWaitVerdict::Ignore => {}
            TimeWaitVerdict::Acknowledge(header) => self.reply(key, header),
            TimeWaitVerdict::Reuse => {
                let reached = waiting.state.send_next;
                let Some(listener) = self.listener_for(&key) else { return };
                if self.is_held(listener) {
                    // The SYN would be dropped: until it can be taken, what is in TIME-WAIT stays.
                    self.network.counters.tcp_accept_overflow += 1;
                    return;
                }
                self.leave_time_wait(slot);
                self.network.counters.tcp_time_wait_reused += 1;
                self.network.counters.tcp_syns_received += 1;
                self.input_syn(now, key, listener, (segment, None), Some(reached));
            }
        }
    }

    /// Gives a segment to its connection.
    #[inline]
    pub(crate) fn input_connection(
        &mut self,
        now: Time,
        slot: u32,
        key: FlowKey,
        segment: &SegmentIn<'_>,
        payload: Option<Chunk>,
    ) {
        let Some(connection) = self.transport.connections.at_mut(slot) else { return };
        let disposition = connection.tcp.input(segment, payload, &mut env!(self, now));
        if matches!(disposition, Disposition::Reset | Disposition::ResetAndRemove) {
            self.reply_reset(now, key, segment);
        }
        self.settle(now, slot, disposition);
    }
}
