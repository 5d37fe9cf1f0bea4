//! TCP Fast Open of listeners (RFC 7413 section 4.2.2): which SYNs are believed at once, and how many.

use crate::config::FastOpenOptions;
use crate::stack::Stack;
use crate::tables::flow::FlowKey;
use crate::tcp::{Connection, CookieKeys, CookieVerdict, Disposition, Env, HalfOpen, OpenParameters, SegmentIn};
use crate::transport::listener::{FastOpenListener, Listener, Pending};
use crate::transport::tables::{Slot, env};
use qanat_api::{Chunk, CommandError, ConnectionId, Event, ListenerId};
use qanat_nic::Time;
use qanat_wire::tcp_options::FastOpen;
use std::net::SocketAddr;
use std::time::Duration;

/// A connection that was reset before it was proved counts for so long (section 5.1). So an attacker who has a cookie, and forges
/// the addresses of others that have one, gains nothing from their resets.
const RESET_COUNTS: Duration = Duration::from_secs(60);

/// What comes of a SYN.
pub(crate) enum FastOpenAnswer {
    /// An ordinary handshake.
    None,
    /// As well, but its SYN-ACK brings a cookie.
    Grant(Option<FastOpen>),
    /// A connection at once; its SYN-ACK brings a new cookie if the SYN's was an old key's.
    Accept(Option<FastOpen>),
}

impl Stack {
    /// Has a listener take data on SYNs (RFC 7413), or not any more; its pending connections go on.
    ///
    /// # Errors
    /// [`CommandError::Stale`].
    pub fn set_fast_open(
        &mut self,
        listener: ListenerId,
        options: Option<FastOpenOptions>,
    ) -> Result<(), CommandError> {
        let entry = self.transport.listeners.get_mut(listener.index(), listener.generation());
        let place = &mut entry.ok_or(CommandError::Stale)?.fast_open;
        let pending = place.take().map(|before| before.pending).unwrap_or_default();
        *place = options.filter(|options| options.queue_max > 0).map(|options| {
            let queue_max = u32::try_from(options.queue_max).unwrap_or(u32::MAX);
            Box::new(FastOpenListener {
                queue_max,
                without_cookie: options.without_cookie,
                keys: options.keys,
                pending,
            })
        });
        Ok(())
    }

    /// Whether data can go with a SYN to `peer`: its cookie is known.
    pub fn has_cookie(&self, now: Time, peer: SocketAddr, local: Option<std::net::IpAddr>) -> bool {
        let local = local.filter(|local| !local.is_unspecified()).or_else(|| self.network.routes.source_for(peer.ip()));
        local.is_some_and(|local| self.transport.cookies.cookie(local, peer.ip(), now).is_some())
    }

    /// Bytes that the SYN of a connection that has just been opened takes along.
    pub fn syn_room(&self, connection: ConnectionId) -> usize {
        let slot = self.transport.connections.get(connection.index(), connection.generation());
        slot.map_or(0, |slot| slot.tcp.syn_room())
    }

    fn fast_open_keys(&self, listener: &FastOpenListener) -> CookieKeys {
        listener.keys.unwrap_or_else(|| CookieKeys { first: self.secret.fast_open_key(), second: None })
    }

    /// What comes of a SYN for a listener.
    pub(crate) fn fast_open_answer(
        &mut self,
        now: Time,
        key: &FlowKey,
        listener: ListenerId,
        (segment, payload): (&SegmentIn<'_>, Option<&Chunk>),
    ) -> FastOpenAnswer {
        let option = segment.options.fast_open;
        if option.is_none() && segment.payload_length == 0 {
            return FastOpenAnswer::None;
        }
        let entry = self.transport.listeners.get(listener.index(), listener.generation());
        let Some(fast_open) = entry.and_then(|entry| entry.fast_open.as_deref()) else { return FastOpenAnswer::None };
        let (keys, without_cookie) = (self.fast_open_keys(fast_open), fast_open.without_cookie);
        if !self.has_fast_open_room(now, listener) {
            self.transport.counters.fast_open_queue_full += 1;
            return FastOpenAnswer::None;
        }
        // Without its payload at hand it can't be taken.
        let is_whole = payload.map_or(0, Chunk::len) == segment.payload_length as usize;
        if without_cookie && is_whole {
            return FastOpenAnswer::Accept(None);
        }
        let Some(option) = option else { return FastOpenAnswer::None };
        let (remote, local) = (key.remote_address(), key.local_address());
        let fresh = keys.make(remote, local, option.is_experimental());
        if option.cookie().is_empty() {
            self.transport.counters.fast_open_cookies_requested += 1;
            return FastOpenAnswer::Grant(fresh);
        }
        match keys.judge(option.cookie(), remote, local) {
            CookieVerdict::Good if is_whole => FastOpenAnswer::Accept(None),
            CookieVerdict::Aging if is_whole => FastOpenAnswer::Accept(fresh),
            CookieVerdict::Good | CookieVerdict::Aging => FastOpenAnswer::None,
            CookieVerdict::Wrong => {
                self.transport.counters.fast_open_cookies_wrong += 1;
                FastOpenAnswer::Grant(fresh)
            }
        }
    }

    /// Whether one more connection may wait for the end of its handshake.
    fn has_fast_open_room(&mut self, now: Time, listener: ListenerId) -> bool {
        let transport = &mut self.transport;
        let entry = transport.listeners.get_mut(listener.index(), listener.generation());
        let Some(fast_open) = entry.and_then(|entry| entry.fast_open.as_deref_mut()) else { return false };
        // Those that are over stay listed until the queue is full: it has an end, whatever it was told.
        let most = (fast_open.queue_max as usize).min(transport.connections.limit());
        if fast_open.pending.len() < most {
            return true;
        }
        let connections = &transport.connections;
        fast_open.pending.retain(|pending| match pending.until {
            Some(until) => until > now,
            None => {
                let id = pending.connection;
                connections.get(id.index(), id.generation()).is_some_and(|slot| slot.tcp.is_unproved())
            }
        });
        fast_open.pending.len() < most
    }

    /// An unproved connection is over.
    #[cold]
    pub(crate) fn fast_open_ended(&mut self, now: Time, connection: ConnectionId) {
        let is_of = |listener: &Listener| {
            let pending = listener.fast_open.as_deref().map_or(&[][..], |fast_open| &fast_open.pending);
            pending.iter().any(|pending| pending.connection == connection)
        };
        let slot = self.transport.listeners.iter().find(|(_, listener)| is_of(listener)).map(|(slot, _)| slot);
        let listener = slot.and_then(|slot| self.transport.listeners.at_mut(slot));
        for pending in listener
            .and_then(|listener| listener.fast_open.as_deref_mut())
            .into_iter()
            .flat_map(|fast_open| &mut fast_open.pending)
        {
            if pending.connection == connection {
                pending.until = Some(now + RESET_COUNTS);
            }
        }
    }

    /// Makes the connection of a SYN that is believed. Gives whether there was room.
    pub(crate) fn accept_fast(
        &mut self,
        now: Time,
        key: FlowKey,
        listener: ListenerId,
        (mut open, half, cookie): (OpenParameters, HalfOpen, Option<FastOpen>),
        (segment, payload): (&SegmentIn<'_>, Option<Chunk>),
    ) -> bool {
        let Some(next_hop) = self.network.routes.next_hop(key.remote_address()) else { return false };
        let Some((slot, generation)) = self.transport.connections.next_key() else { return false };
        let connection = ConnectionId::new(slot, generation);
        open.id = connection;
        let make = || {
            let tcp = Connection::from_fast_open(&open, half, cookie, segment, &mut env!(self, now));
            Slot::new(key, next_hop, tcp)
        };
        if self.transport.connections.insert_with(make).is_none() || !self.enter_connection(slot, None) {
            return false;
        }
        self.network.counters.tcp_accepted += 1;
        let entry = self.transport.listeners.get_mut(listener.index(), listener.generation());
        if let Some(fast_open) = entry.and_then(|entry| entry.fast_open.as_deref_mut()) {
            fast_open.pending.push(Pending { connection, until: None });
        }
        self.events.push_back(Event::Accepted { connection, listener, peer: key.remote() });
        let disposition = match self.transport.connections.at_mut(slot) {
            Some(slot) => slot.tcp.receive_syn_data(segment, payload, &mut env!(self, now)),
            None => Disposition::Keep,
        };
        self.settle(now, slot, disposition);
        true
    }
}
