//! [`TlsLayer`]: which connections there are, and whose turn it is.

use super::link::{Link, Stage};
use super::shared::Shared;
use crate::figures::TlsFigures;
use qanat_api::{CloseReason, Commands, ConnectionId, Event, ListenerId};
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// Between the stack and a service: what comes from the stack is opened, what the service sends is sealed.
pub struct TlsLayer {
    config: Arc<ServerConfig>,
    pub(super) ports: Vec<u16>,
    pub(super) listeners: Vec<ListenerId>,
    /// By the connection's index.
    links: Vec<Option<Box<Link>>>,
    pub(super) shared: Shared,
    /// Connections of which something is to be done.
    dirty: VecDeque<ConnectionId>,
}

impl TlsLayer {
    /// A layer for connections to these ports, `connections_max` at once.
    ///
    /// # Errors
    /// No memory.
    pub fn new(config: Arc<ServerConfig>, ports: Vec<u16>, connections_max: u32) -> io::Result<TlsLayer> {
        Ok(TlsLayer {
            config,
            ports,
            listeners: Vec::new(),
            links: Vec::new(),
            shared: Shared::new(connections_max)?,
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

    /// The protocol within that both sides of a connection agreed on (ALPN, RFC 7301); `None`: on none, or the handshake goes on.
    pub fn protocol(&self, connection: ConnectionId) -> Option<&[u8]> {
        self.link(connection)?.protocol.as_deref()
    }

    pub(super) fn link(&self, id: ConnectionId) -> Option<&Link> {
        self.links.get(id.index())?.as_deref().filter(|link| link.id == id)
    }

    pub(super) fn link_mut(&mut self, id: ConnectionId) -> Option<&mut Link> {
        self.links.get_mut(id.index())?.as_deref_mut().filter(|link| link.id == id)
    }

    /// Something is to be done for a connection.
    pub(super) fn mark(&mut self, id: ConnectionId) {
        if let Some(link) = self.link_mut(id)
            && !std::mem::replace(&mut link.is_dirty, true)
        {
            self.dirty.push_back(id);
        }
    }

    /// A connection that waits for a frame tries again; whether it waited.
    pub(super) fn feed(&mut self, id: ConnectionId) -> bool {
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
}

impl std::fmt::Debug for TlsLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsLayer").field("ports", &self.ports).finish_non_exhaustive()
    }
}
