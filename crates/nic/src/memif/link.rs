//! What the queues of a connection share: whether it is up, and the end of it.

use super::control::{Channel, ring, silence};
use super::error::{MemifError, Violation};
use super::message::Message;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

struct State {
    channel: Channel,
    down: AtomicBool,
    reason: OnceLock<String>,
    /// Eventfds of rings this end consumes: rung at the end, so that sleepers look.
    receive_bells: Vec<OwnedFd>,
    /// Eventfds of rings this end produces: emptied at the end, so that nobody is stuck writing.
    transmit_bells: Vec<OwnedFd>,
    peer: String,
}

/// A connection's fate. Clones are the same connection; it ends when the last of them and of the queues is dropped.
#[derive(Clone)]
pub struct MemifLink {
    end: Arc<End>,
}

/// Ends the connection when nobody uses it any more; the watcher has only the state.
struct End {
    state: Arc<State>,
}

impl MemifLink {
    /// Watches `channel` in a thread of its own: the data path only ever reads one flag.
    pub(super) fn watch(
        channel: Channel,
        peer: String,
        receive_bells: Vec<OwnedFd>,
        transmit_bells: Vec<OwnedFd>,
    ) -> Result<MemifLink, MemifError> {
        let down = AtomicBool::new(false);
        let state = Arc::new(State { channel, down, reason: OnceLock::new(), receive_bells, transmit_bells, peer });
        let watched = Arc::clone(&state);
        std::thread::Builder::new()
            .name("memif-link".to_owned())
            .spawn(move || {
                let reason = match watched.channel.receive(None) {
                    Ok(received) => match received.message {
                        Message::Disconnect { reason, .. } => format!("the peer disconnected: {reason}"),
                        other => format!("the peer sent {other:?} on an established connection"),
                    },
                    Err(error) => error.to_string(),
                };
                watched.take_down(reason);
            })
            .map_err(|error| MemifError::system("start the thread that watches the peer", error))?;
        Ok(MemifLink { end: Arc::new(End { state }) })
    }

    /// Whether packets may flow.
    #[inline]
    pub fn is_up(&self) -> bool {
        !self.end.state.down.load(Ordering::Relaxed)
    }

    /// Why they may not any more.
    pub fn reason(&self) -> Option<&str> {
        self.end.state.reason.get().map(String::as_str)
    }

    /// What the peer calls itself.
    pub fn peer(&self) -> &str {
        &self.end.state.peer
    }

    /// Ends the connection because of what the peer did.
    pub(super) fn cut(&self, violation: Violation) {
        self.end.state.disconnect(&violation.to_string());
    }
}

impl std::fmt::Debug for MemifLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemifLink({}, up: {})", self.peer(), self.is_up())
    }
}

impl State {
    fn take_down(&self, reason: String) {
        // The first reason is the cause; what follows are consequences.
        let _ = self.reason.set(reason);
        self.down.store(true, Ordering::Release);
        for bell in &self.transmit_bells {
            silence(bell);
            // The peer may be about to sleep on it.
            ring(bell);
        }
        self.receive_bells.iter().for_each(ring);
    }

    fn disconnect(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.down.store(true, Ordering::Release);
        // A peer that is gone, or reads nothing, need not be told.
        let _ = self.channel.send(&Message::Disconnect { code: 0, reason: reason.to_owned() }, None);
        // Wakes the watcher, which does the rest.
        let _ = rustix::net::shutdown(self.channel.socket(), rustix::net::Shutdown::Both);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.state.down.load(Ordering::Relaxed) {
            self.state.disconnect("closed");
        }
    }
}
