//! The door: a process that connects is let in, or turned away together with what it has sent already.

use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::log::Event;
use qanat_control::protocol::{Answer, send};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::foreign::part;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, shutdown, sockopt};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Connections to the control socket at most.
const SESSIONS_MAX: usize = 256;
/// Of one user.
const SESSIONS_PER_USER_MAX: usize = 32;
/// Let in at one look.
const AT_ONCE: usize = 64;
/// Those who wait to be let in: so many that nobody who comes and goes all the time keeps others out.
pub(crate) const BACKLOG: i32 = 1_024;
/// A listener is left alone for so long when nobody can be let in: it would say for ever that somebody waits.
const PAUSE: Duration = Duration::from_millis(100);

impl Daemon {
    /// Somebody connects.
    pub(crate) fn accept(&mut self, token: u64) {
        for _ in 0..AT_ONCE {
            let begun = Instant::now();
            let Some(listener) = self.endpoints.get(&token) else { return };
            match accept_with(&listener.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    let user = self.let_in(socket);
                    self.shares.charge(user, begun.elapsed());
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return self.pause(token, error),
            }
        }
    }

    /// Nobody can be let in, most likely for lack of descriptors. Those who wait are let in when there are some.
    pub(crate) fn pause(&mut self, token: u64, error: Errno) {
        let is_door = |token: &u64| self.endpoints.get(token).is_some_and(|paused| paused.role != Role::Links);
        if !self.paused.iter().any(|(_, paused)| is_door(paused)) {
            (self.log)(&Event::new("connect", "failed", format!("{error}: nobody is let in for a moment")));
        }
        self.leave_alone(token, PAUSE);
    }

    /// Does not listen there for a while.
    pub(crate) fn leave_alone(&mut self, token: u64, pause: Duration) {
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
        endpoint.is_suspended = true;
        let data = epoll::EventData::new_u64(token);
        let _ = epoll::modify(&self.epoll, &endpoint.fd, data, epoll::EventFlags::empty());
        self.paused.push((Instant::now() + pause, token));
    }

    /// Listens again.
    pub(crate) fn look_after_doors(&mut self) {
        let now = Instant::now();
        for (until, token) in std::mem::take(&mut self.paused) {
            if until > now {
                self.paused.push((until, token));
            } else {
                self.resume(token);
            }
        }
    }

    /// Lets somebody in, or not; returns whose account it is.
    fn let_in(&mut self, socket: OwnedFd) -> u32 {
        let Ok(credentials) = sockopt::socket_peercred(&socket) else {
            self.retire(socket, u32::MAX, false);
            return u32::MAX;
        };
        let user = credentials.uid.as_raw();
        let account = self.subordinates.owner_of(user).filter(|_| !self.policy.names(user));
        let (group, process) = (credentials.gid.as_raw(), credentials.pid.as_raw_nonzero().get());
        let peer = Peer { account, ..Peer::new(user, group, process) };
        let sessions = self.endpoints.values().filter(|endpoint| endpoint.role == Role::Session);
        let (mut all, mut own) = (0, 0);
        for session in sessions {
            all += 1;
            own += usize::from(session.peer.account() == peer.account());
        }
        own += self.porters.parked_of(peer.account());
        // Root may look at a daemon that others have filled.
        if own >= SESSIONS_PER_USER_MAX || (all >= SESSIONS_MAX && peer.user != 0) {
            self.requests[2] += 1;
            let text = format!("{own} connections of user {} already: close some", peer.account());
            let _ = send(socket.as_fd(), Answer::Refused(Refusal::new(Cause::Full, text)), &[]);
            self.retire(socket, peer.account(), false);
            return peer.account();
        }
        match self.watch(socket, Role::Session, peer, None) {
            Ok(token) => self.register(token, peer),
            Err(error) => (self.log)(&Event::new("connect", "failed", error).by(peer)),
        }
        peer.account()
    }

    /// Those who have connected and have not been let in, in whose queues descriptors wait. Nobody comes after them.
    pub(crate) fn waiting_at_door(&self, listener: u64) -> Vec<OwnedFd> {
        let Some(listener) = self.endpoints.get(&listener) else { return Vec::new() };
        let _ = shutdown(&listener.fd, Shutdown::Read);
        let next = || accept_with(&listener.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok();
        std::iter::from_fn(next).filter(|socket| !part(socket.as_fd())).collect()
    }
}
