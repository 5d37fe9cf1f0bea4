//! The end of a world in which a process was killed in the middle of the stack's work, so that nobody can go on with the stack. The keeper
//! resets the peers, wakes all threads that wait, so that they learn of it, and gives up the card, so that its address is free.
//!
//! A peer is told by TCP's own means, RFC 9293 section 3.5.1 (half-open connections). A new stack, which knows of no connection, sends a
//! SYN from the old one's ports. The peer answers with an acknowledgement of something that was never sent (a challenge ACK, RFC 5961
//! section 4). The reset that this draws has exactly the number the peer expects. So only the addresses and ports need be known.

use crate::sys::sleep::{readable, sleep};
use crate::world::lock;
use crate::world::state::Device;
use qanat::{ConnectOptions, ConnectionId, Event, Time};
use qanat_nic::{Clock, MonotonicClock, Queue, Vnic};
use qanat_stack::Stack;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// Peers told at a time.
const AT_ONCE: usize = 250;
/// How long they have to answer before the next are told: as many as the stack has resets for at once, and then as many as it may
/// send a second.
const PAUSE: Duration = Duration::from_millis(20);
const RESETS_AT_ONCE: usize = 1_000;
const PAUSE_THEN: Duration = Duration::from_millis(250);
/// How long the last ones have.
const PAUSE_LAST: Duration = Duration::from_millis(300);
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the world that is broken. `successor`: the listening socket, at which another program may ask for the address.
pub(crate) fn publish(successor: RawFd) {
    let Some(world) = lock::remains() else { return };
    world.wakers.wake_all();
    let Device::Card(card, attachment) = &world.vnic else { return };
    if let Ok(card) = card.device().take_over()
        && let Ok(entropy) = qanat::entropy()
    {
        let clock = MonotonicClock::new();
        let mut stack = Stack::new(world.config.clone(), entropy, &card, clock.now());
        // Many connections may be one peer's.
        stack.lift_reset_limit();
        let mut teller = Teller { stack, card, clock, successor, told: Vec::new() };
        let end = clock.now() + PATIENCE;
        let mut all = world.sockets.peers.iter().peekable();
        let mut count = 0;
        while all.peek().is_some() && teller.clock.now() < end {
            for (local, peer) in all.by_ref().take(AT_ONCE) {
                teller.tell(ConnectOptions { local: Some(local), ..ConnectOptions::default() }, peer);
                count += 1;
            }
            let pause = if count < RESETS_AT_ONCE { PAUSE } else { PAUSE_THEN };
            if !teller.wait(if all.peek().is_some() { pause } else { PAUSE_LAST }) {
                break;
            }
        }
        teller.leave();
    }
    attachment.give_up();
}

struct Teller {
    stack: Stack,
    card: Queue,
    clock: MonotonicClock,
    successor: RawFd,
    told: Vec<ConnectionId>,
}

impl Teller {
    fn tell(&mut self, from: ConnectOptions, peer: std::net::SocketAddr) {
        // Without room, or a route, it learns of it when it sends.
        self.told.extend(self.stack.connect(self.clock.now(), peer, from));
    }

    /// Answers for so long; whether it was so long, and nobody wants the address.
    fn wait(&mut self, time: Duration) -> bool {
        let end = self.clock.now() + time;
        loop {
            let now = self.turn();
            if now >= end {
                return true;
            }
            let until = self.stack.next_deadline().map_or(end, |deadline| deadline.min(end));
            let card = self.card.doorbell().map_or(-1, |fd| fd.as_raw_fd());
            let mut fds = [readable(card), readable(self.successor)];
            if sleep(&mut fds, Some(until.since(now)), std::ptr::null()).is_err() || fds[1].revents != 0 {
                self.turn();
                return false;
            }
        }
    }

    fn turn(&mut self) -> Time {
        let now = self.clock.now();
        self.stack.receive(now, &mut self.card);
        while let Some(event) = self.stack.next_event() {
            // It had forgotten, and took it for a new one.
            if let Event::Connected { connection } = event {
                let _ = self.stack.abort(now, connection);
            }
        }
        self.stack.transmit(now, &mut self.card);
        self.card.flush();
        now
    }

    /// No SYN is to be sent again: the peer would take it for a new connection's.
    fn leave(mut self) {
        let now = self.clock.now();
        for connection in std::mem::take(&mut self.told) {
            let _ = self.stack.abort(now, connection);
        }
        self.turn();
        self.stack.transmit_last(self.clock.now(), &mut self.card);
    }
}
