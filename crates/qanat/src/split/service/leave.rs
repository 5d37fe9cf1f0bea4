//! How a service that shares its listeners leaves: its share of them is the others' at once, and its connections are given
//! up to them one by one, each when nothing of it is under way in the service. No byte is lost: what was sent is in memory
//! that stays until it is acknowledged, what was received and not looked at goes to the next owner, in order.

use crate::split::service::remote::Remote;
use qanat_abi::{Command, Event as AbiEvent, Id};
use qanat_stack::ConnectionId;

impl Remote {
    /// Leaves the listeners, and asks who else has a share in them.
    pub(crate) fn ask_for_others(&mut self) {
        self.others = None;
        // Their places stay: what was accepted before this is heard still comes.
        for (handle, ..) in self.listeners.all() {
            if let Ok(Some(listener)) = self.listeners.remote(handle) {
                self.give(Command::CloseListener { listener });
            }
        }
        self.give(Command::Yield { connection: Id::NONE });
    }

    /// Whether there is somebody to give connections to, or that is not yet known, and something to give or to be heard.
    pub(crate) fn is_leaving(&mut self) -> bool {
        if self.others == Some(0) {
            return false;
        }
        let is_open = self.streams.iter().any(|stream| stream.open);
        let Some(link) = &mut self.link else { return false };
        self.others.is_none() || is_open || !link.is_heard()
    }

    /// Connections that may be given up now, as far as can be seen from here.
    pub(crate) fn movable(&self) -> Vec<ConnectionId> {
        if !self.early.is_empty() || self.second.is_some() || self.others.is_none_or(|others| others == 0) {
            return Vec::new();
        }
        let may = self.streams.iter().enumerate().filter(|(_, stream)| {
            stream.open && stream.connected && !stream.ended && !stream.has_waiting() && stream.finish.is_none()
        });
        may.map(|(slot, stream)| ConnectionId::new(slot as u32, stream.generation)).collect()
    }

    /// Gives a connection up of which the service holds nothing. One of which it does hold something is reset.
    pub(crate) fn yield_up(&mut self, connection: ConnectionId) {
        let to = self.remote_id(connection);
        let Some(stream) = self.streams.get_mut(connection.index()) else { return };
        if stream.held > 0 || stream.has_waiting() {
            self.give(Command::Abort { connection: to });
            return;
        }
        let consumed = stream.consumed.take();
        stream.give_up(&mut self.kept);
        if let Some(frame) = consumed {
            self.give(Command::Consume { connection: to, frame });
        }
        self.give(Command::Yield { connection: to });
    }

    /// Whether something is said of a connection that was given up: it is not looked at, and what it lends is not taken.
    pub(crate) fn is_of_yielded(&self, said: &AbiEvent) -> bool {
        let (AbiEvent::Data { connection, .. }
        | AbiEvent::Acked { connection, .. }
        | AbiEvent::PeerClosed { connection }
        | AbiEvent::Closed { connection, .. }) = said
        else {
            return false;
        };
        let connection = self.local_id(*connection);
        let stream = self.streams.get(connection.index());
        stream.is_some_and(|stream| stream.yielded && stream.generation == connection.generation())
    }

    /// A connection was another's; or the answer to who the others are.
    pub(crate) fn moved(&mut self, connection: Id, unacknowledged: u32) {
        if connection == Id::NONE {
            self.others = Some(unacknowledged);
            return;
        }
        let connection = self.local_id(connection);
        if let Ok(stream) = self.stream(connection) {
            stream.foreign = unacknowledged as usize;
        }
    }
}
