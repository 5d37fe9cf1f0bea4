//! [`TlsLayer`]: between the stack and a service. What comes from the stack is opened, what the service sends is sealed.
//!
//! ```text
//!  stack ── Event (records) ──► TlsLayer::take … next ── Event (content) ──► service
//!        ◄── Commands ──────── TlsLayer::over         ◄── Commands ────────
//! ```
//! The service has one connection for each of the stack's, by the same handle. A connection that did not come to an encrypted port passes
//! as it is.
//!
//! # What is held for a connection
//! * Of what came: the chunks that were not opened yet, which keep the receive window shut, and the beginning of a record.
//! * What the service was given and has not given back: one record, and three more while there is memory.
//! * What is sealed: as much as the windows of peer and network let go at once, and 32 KiB more, so that something waits always. If the
//!   stack can't say how much that is: 128 KiB that are not acknowledged, more as the peer acknowledges, 2 MiB at most. What the service
//!   lent beyond that stays as it is.

mod blocks;
mod link;
mod over;
mod queue;
mod receiving;
mod sending;

pub use over::Over;

use crate::figures::TlsFigures;
use crate::record::{CONTENT_BYTES_MAX, EXPANSION_BYTES_MAX};
use blocks::Blocks;
use link::{Link, Stage};
use qanat_api::{CloseReason, Commands, ConnectionId, Event, ListenerId};
use qanat_nic::{Pool, Region};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A frame takes the content of a record and its padding.
const FRAME_BYTES: u32 = ((CONTENT_BYTES_MAX + EXPANSION_BYTES_MAX) as u32).next_power_of_two();
/// Records that a connection may have with the service besides the first one.
pub(crate) const EXTRA_RECORDS_MAX: u32 = 3;
/// Bytes that are sealed ahead of what the windows let go.
pub(crate) const UNSENT_BYTES: i64 = 32 << 10;
/// Bytes that are sealed ahead of the acknowledgements, at first.
pub(crate) const AHEAD_BYTES_MIN: usize = 128 << 10;
/// Bytes that are sealed ahead of the acknowledgements, at most.
pub(crate) const AHEAD_BYTES_MAX: usize = 2 << 20;

/// See the module.
pub struct TlsLayer {
    config: Arc<ServerConfig>,
    ports: Vec<u16>,
    listeners: Vec<ListenerId>,
    /// By the connection's index.
    links: Vec<Option<Box<Link>>>,
    shared: Shared,
    /// Connections of which something is to be done.
    dirty: VecDeque<ConnectionId>,
}

/// What all connections share.
pub(crate) struct Shared {
    events: VecDeque<Event>,
    /// What is opened goes there. There is a frame for each connection, and as many again.
    pool: Pool,
    /// So many frames are left for connections that have none.
    reserved: u32,
    /// What is sealed goes there.
    blocks: Blocks,
    /// Connections that wait for a frame.
    starved: VecDeque<ConnectionId>,
    figures: TlsFigures,
}

impl TlsLayer {
    /// A layer for connections to these ports, `connections_max` at once.
    ///
    /// # Errors
    /// No memory.
    pub fn new(config: Arc<ServerConfig>, ports: Vec<u16>, connections_max: u32) -> io::Result<TlsLayer> {
        let frames = connections_max.saturating_mul(2).max(2);
        let pool = Region::new(frames, FRAME_BYTES)?.pool(frames).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(TlsLayer {
            config,
            ports,
            listeners: Vec::new(),
            links: Vec::new(),
            shared: Shared {
                events: VecDeque::new(),
                pool,
                reserved: frames / 2,
                blocks: Blocks::new()?,
                starved: VecDeque::new(),
                figures: TlsFigures::default(),
            },
            dirty: VecDeque::new(),
        })
    }

    /// From now on, connections begin with this configuration. Those that there are go on with theirs.
    pub fn set_config(&mut self, config: Arc<ServerConfig>) {
        self.config = config;
    }

    /// As if a connection had sealed as many records as may be with one key.
    #[cfg(test)]
    pub(crate) fn wear(&mut self, id: ConnectionId) {
        if let Some(link) = self.link_mut(id)
            && let crate::session::Session::Established(established) = &mut link.session
        {
            established.wear();
        }
    }

    /// What was counted.
    pub fn figures(&self) -> TlsFigures {
        self.shared.figures
    }

    /// Frames in use: with the service, and of what is sealed and not acknowledged.
    pub fn frames_in_use(&self) -> u32 {
        self.shared.pool.in_use_count() + self.shared.blocks.in_use()
    }

    /// Whether a connection is encrypted.
    pub fn is_encrypted(&self, connection: ConnectionId) -> bool {
        self.link(connection).is_some()
    }

    fn link(&self, id: ConnectionId) -> Option<&Link> {
        self.links.get(id.index())?.as_deref().filter(|link| link.id == id)
    }

    fn link_mut(&mut self, id: ConnectionId) -> Option<&mut Link> {
        self.links.get_mut(id.index())?.as_deref_mut().filter(|link| link.id == id)
    }

    /// Something is to be done for a connection.
    fn mark(&mut self, id: ConnectionId) {
        if let Some(link) = self.link_mut(id)
            && !std::mem::replace(&mut link.is_dirty, true)
        {
            self.dirty.push_back(id);
        }
    }

    /// A connection that waits for a frame tries again; whether it waited.
    fn feed(&mut self, id: ConnectionId) -> bool {
        let waited = self.link_mut(id).is_some_and(|link| std::mem::replace(&mut link.is_starved, false));
        if waited {
            self.mark(id);
        }
        waited
    }

    /// Takes an event of the stack. What the service is to know comes from [`next`](TlsLayer::next).
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Accepted { connection, listener, .. } if self.listeners.contains(&listener) => {
                self.accepted(connection);
            }
            Event::Data { connection, chunk } => {
                if let Some(link) = self.link_mut(connection) {
                    link.held.push_back((chunk, 0));
                    return self.mark(connection);
                }
                return self.shared.events.push_back(Event::Data { connection, chunk });
            }
            Event::Acked { connection, bytes } => {
                if let Some(link) = self.link_mut(connection) {
                    let content = link.acknowledged(bytes);
                    if content > 0 {
                        self.shared.events.push_back(Event::Acked { connection, bytes: content });
                    }
                    return self.mark(connection);
                }
            }
            Event::PeerClosed { connection } => {
                if let Some(link) = self.link_mut(connection) {
                    link.is_ended = true;
                    return self.mark(connection);
                }
            }
            // The byte is in a record.
            Event::Urgent { connection, .. } if self.link(connection).is_some() => return,
            Event::Closed { connection, why } => {
                let why = self.closed(connection, why);
                return self.shared.events.push_back(Event::Closed { connection, why });
            }
            _ => {}
        }
        self.shared.events.push_back(event);
    }

    /// A connection is gone. Returns why, as the service is to hear it.
    fn closed(&mut self, id: ConnectionId, why: CloseReason) -> CloseReason {
        let slot = self.links.get_mut(id.index());
        let Some(link) = slot.and_then(|slot| slot.take_if(|link| link.id == id)) else { return why };
        let is_unfinished = link.stage == Stage::Open && !link.session.is_open();
        self.shared.figures.handshakes_failed += u64::from(is_unfinished);
        // All was taken, and both end. Whoever does not wait for the other's last word has it refused by its kernel, or by our stack.
        let is_refused = matches!(why, CloseReason::ResetByPeer | CloseReason::Aborted);
        let is_in_order = is_refused && link.is_farewell_sent && !link.owes_content();
        if is_in_order { CloseReason::Finished } else { why }
    }

    fn accepted(&mut self, id: ConnectionId) {
        if id.index() >= self.links.len() {
            self.links.resize_with(id.index() + 1, || None);
        }
        if let Some(slot) = self.links.get_mut(id.index()) {
            *slot = Some(Box::new(Link::new(id, &self.config)));
        }
    }

    /// What the service is to be told next; `None`: nothing before the stack's next event. To be called until then after each
    /// [`take`](TlsLayer::take), and after the service gave commands for another reason: what it sent goes to the stack by that.
    pub fn next<C: Commands>(&mut self, below: &mut C) -> Option<Event> {
        // Ends: a connection is worked on again only after the service was told something, or gave a command.
        while self.shared.events.is_empty() {
            let id = self.dirty.pop_front()?;
            let Some(link) = self.links.get_mut(id.index()).and_then(|slot| slot.as_deref_mut()) else { continue };
            if link.id == id {
                link.is_dirty = false;
                link.receive(&mut self.shared, below);
                link.send(&mut self.shared, below);
            }
        }
        self.shared.events.pop_front()
    }

    /// What the service gives its commands to.
    pub fn over<'a, C: Commands>(&'a mut self, below: &'a mut C) -> Over<'a, C> {
        Over { layer: self, below }
    }
}

impl std::fmt::Debug for TlsLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsLayer").field("ports", &self.ports).finish_non_exhaustive()
    }
}
