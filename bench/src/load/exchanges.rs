//! The connections of a load: they are opened at once, each has a state of its own, and they are reset in the end.

use qanat::{Commands, ConnectOptions, ConnectionId, Context, StartError};
use std::net::SocketAddr;

/// States, by the connection's slot.
pub struct Exchanges<T>(Vec<Option<(ConnectionId, T)>>);

impl<T> Exchanges<T> {
    /// Without a connection.
    pub fn new() -> Exchanges<T> {
        Exchanges(Vec::new())
    }

    /// Asks for `count` connections to `target`.
    ///
    /// # Errors
    /// What the stack says to the first that is refused.
    pub fn open(target: SocketAddr, count: usize, context: &mut Context<'_>) -> Result<(), StartError> {
        for _ in 0..count {
            context.connect(target, ConnectOptions::default())?;
        }
        Ok(())
    }

    /// A connection is there, and has this state.
    pub fn insert(&mut self, connection: ConnectionId, state: T) {
        let index = connection.index();
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index] = Some((connection, state));
    }

    /// The connection in a slot, and its state.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut (ConnectionId, T)> {
        self.0.get_mut(index)?.as_mut()
    }

    /// A connection has ended.
    pub fn remove(&mut self, connection: ConnectionId) {
        if let Some(slot) = self.0.get_mut(connection.index()) {
            *slot = None;
        }
    }

    /// All slots there have been.
    pub fn slots(&self) -> std::ops::Range<usize> {
        0..self.0.len()
    }

    /// Whether no connection is there.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Resets all connections.
    pub fn abort_all(&self, context: &mut Context<'_>) {
        for (connection, _) in self.0.iter().flatten() {
            // A connection that is gone already has ended as well.
            let _ = context.abort(*connection);
        }
    }
}

impl<T> Default for Exchanges<T> {
    fn default() -> Self {
        Exchanges::new()
    }
}
