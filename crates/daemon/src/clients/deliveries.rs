//! Requests that wait for their descriptors, and what porters deliver. See [`porters`](super::porters).

use crate::clients::peer::{Identity, Peer, Role};
use crate::clients::porters::{Beside, Files, Waiting, Working};
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::log::Event;
use qanat_control::protocol::{Answer, DESCRIPTORS_MAX, Request};
use qanat_nic::foreign::{Delivery, Sent, Wanted, part};
use rustix::event::epoll;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A porter that is busy for so long waits for something that was sent to it. On a busy machine an honest one may need seconds, and its user's
/// requests alone wait for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// One that has had nothing to do for so long ends.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// What a request takes beside it.
fn wanted(role: Role, request: &Request) -> Wanted {
    match (role, request) {
        (Role::Vnic(_), Request::OpenQueue(_)) => Wanted::Memory,
        (Role::Vnic(_), Request::Assign { .. } | Request::Unassign) | (Role::Session, Request::Reclaim) => {
            Wanted::Socket
        }
        _ => Wanted::Nothing,
    }
}

fn refusal(wanted: Wanted, count: u8) -> String {
    match wanted {
        Wanted::Nothing => format!("this request takes no descriptors, and {count} came with it"),
        Wanted::Memory => {
            "a queue is opened with its memory file (memfd_create, sealed), or two (the frames to receive into in \
                           one of their own), and nothing else, beside the request"
                .to_owned()
        }
        Wanted::Socket => "this request takes one handle, a Unix socket, and nothing else, beside it".to_owned(),
    }
}

impl Daemon {
    /// The number of a user's porter; starts one.
    fn porter(&mut self, user: u32) -> Result<u64, DaemonError> {
        if let Some(token) = self.porters.of(user) {
            return Ok(token);
        }
        let porter = self.porters.new_porter(user)?;
        let line = porter.as_fd().try_clone_to_owned().map_err(|error| say("keep a descriptor", error))?;
        let token = self.watch(line, Role::Porter, Peer::new(user, u32::MAX, 0), None)?;
        let working = Working { user, porter, waiting: HashMap::new(), used: Instant::now(), is_killed: false };
        self.porters.working.insert(token, working);
        Ok(token)
    }

    /// The next message of an endpoint has descriptors beside it: has them received. Until then the endpoint is not read.
    pub(crate) fn await_descriptors(&mut self, token: u64, request: Request) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        let (role, user) = (endpoint.role, endpoint.peer.account());
        let asked = self.porter(user).and_then(|its| {
            let number = self.porters.next_number;
            let working = self.porters.working.get_mut(&its).ok_or("the porter is gone")?;
            let endpoint = self.endpoints.get_mut(&token).ok_or("the connection is gone")?;
            let asked = working.porter.receive(endpoint.fd.as_fd(), wanted(role, &request), number);
            asked.map_err(|error| say("have descriptors received", error))?;
            self.porters.next_number += 1;
            let since = Instant::now();
            working.waiting.insert(number, Waiting { token, request, since });
            endpoint.is_suspended = true;
            // Its end alone is heard of: what is given up is free at once, whatever is still to be received.
            let data = epoll::EventData::new_u64(token);
            let _ = epoll::modify(&self.epoll, &endpoint.fd, data, epoll::EventFlags::RDHUP);
            Ok(())
        });
        if let Err(why) = asked {
            self.cut_off(token, &why.to_string());
        }
    }

    /// A porter says something, or is gone.
    pub(crate) fn attend_porter(&mut self, its: u64) {
        let Some(working) = self.porters.working.get_mut(&its) else { return };
        working.used = Instant::now();
        match working.porter.hear() {
            Ok(Some(delivery)) => self.deliver(its, delivery),
            Ok(None) => {}
            Err(_) => {
                let gone = self.porters.working.remove(&its);
                self.close(its);
                gone.into_iter().for_each(|working| self.give_up(working.waiting, "its descriptors were lost"));
            }
        }
    }

    /// Those who wait in vain.
    fn give_up(&mut self, waiting: HashMap<u64, Waiting>, why: &str) {
        waiting.into_values().for_each(|Waiting { token, .. }| self.cut_off(token, why));
    }

    fn deliver(&mut self, porter: u64, Delivery { number, sent }: Delivery) {
        let working = self.porters.working.get_mut(&porter);
        let waiting = working.and_then(|working| working.waiting.remove(&number));
        let is_well = !matches!(sent, Sent::Other(_) | Sent::Busy);
        if let Some(count) = self.porters.counts.get_mut(usize::from(!is_well)) {
            *count += 1;
        }
        let Some(Waiting { token, request, .. }) = waiting.filter(|waiting| self.resume(waiting.token)) else {
            if let Sent::Memory(files) = sent {
                self.release(Files { files, porter, number });
            }
            return;
        };
        let Some((role, peer)) = self.endpoints.get(&token).map(|endpoint| (endpoint.role, endpoint.peer)) else {
            return;
        };
        match sent {
            Sent::Memory(files) => {
                self.answer(token, role, peer, request, Beside::Files(Files { files, porter, number }));
            }
            Sent::Socket { inode, cookie } => {
                self.answer(token, role, peer, request, Beside::Handle(Identity { inode, cookie }));
            }
            Sent::Other(count) if usize::from(count) > DESCRIPTORS_MAX => {
                self.cut_off(token, "a message with too many descriptors");
            }
            Sent::Other(count) => self.refuse(token, peer, &request, refusal(wanted(role, &request), count)),
            Sent::Busy => {
                let why = format!("user {} has too many queues being opened: wait for their answers", peer.account());
                self.refuse(token, peer, &request, why);
            }
        }
    }

    fn refuse(&mut self, token: u64, peer: Peer, request: &Request, why: String) {
        self.requests[1] += 1;
        (self.log)(&Event::new(request.name(), "refused", why.clone()).by(peer));
        self.tell(token, Answer::Refused(why.into()), &[]);
    }

    /// Memory files have served: closes them here, and then where they are closed last.
    pub(crate) fn release(&mut self, files: Files) {
        let Files { files, porter, number } = files;
        drop(files);
        if let Some(working) = self.porters.working.get_mut(&porter) {
            // One that is gone has closed them already.
            let _ = working.porter.done(number);
        }
    }

    /// Closes a connection; elsewhere, if descriptors wait in its queue. `is_read`: a porter reads from it.
    pub(crate) fn retire(&mut self, fd: OwnedFd, user: u32, is_read: bool) {
        if is_read {
            let _ = rustix::net::shutdown(&fd, rustix::net::Shutdown::Both);
        } else if part(fd.as_fd()) {
            return;
        }
        self.bury(fd, user);
    }

    fn bury(&mut self, fd: OwnedFd, user: u32) {
        let porter = self.porter(user).ok().and_then(|its| self.porters.working.get(&its));
        let left = match porter {
            Some(working) => working.porter.bury(fd).err(),
            None => Some(fd),
        };
        self.porters.parked.extend(left.map(|fd| (user, fd)));
    }

    /// Ends porters that are kept waiting or have nothing to do, and has closed what could not be closed before.
    pub(crate) fn look_after_porters(&mut self) {
        let now = Instant::now();
        let mut ended = Vec::new();
        for (its, working) in &self.porters.working {
            let oldest = working.waiting.values().map(|waiting| waiting.since).min();
            let is_idle = oldest.is_none() && now.duration_since(working.used) > IDLE_MAX;
            let is_stuck = oldest.is_some_and(|since| now.duration_since(since) > PATIENCE);
            // One that is killed counts until it is gone, or a user would have any number that can't be.
            if working.is_killed || !(is_idle || is_stuck) || !working.porter.kill() {
                continue;
            }
            ended.push((*its, is_stuck));
        }
        for (its, is_stuck) in ended {
            let Some(working) = self.porters.working.get_mut(&its) else { continue };
            working.is_killed = true;
            if !is_stuck {
                continue;
            }
            let (user, waiting) = (working.user, std::mem::take(&mut working.waiting));
            self.porters.counts[2] += 1;
            let peer = Peer::new(user, u32::MAX, 0);
            (self.log)(&Event::new("porter", "failed", "a descriptor of this user's can't be closed").by(peer));
            self.give_up(waiting, "a descriptor it sent before keeps whoever closes it waiting");
        }
        for (user, fd) in std::mem::take(&mut self.porters.parked) {
            self.bury(fd, user);
        }
    }

    /// Ends all conversations, so that nothing of others' is closed by this process's end.
    pub(crate) fn part_with_all(&mut self) {
        let tokens: Vec<u64> = self.endpoints.keys().copied().collect();
        let mut left = Vec::new();
        for token in tokens {
            let is_listener = self.endpoints.get(&token).is_some_and(|endpoint| endpoint.role == Role::Listener);
            if is_listener {
                left.extend(self.waiting_at_door(token));
            }
            let Some(endpoint) = self.endpoints.remove(&token) else { continue };
            if endpoint.takes_rights && (endpoint.is_suspended || !part(endpoint.fd.as_fd())) {
                left.push(endpoint.fd);
            }
        }
        left.extend(std::mem::take(&mut self.porters.parked).into_iter().map(|(_, fd)| fd));
        if left.is_empty() {
            return;
        }
        // One of its own for the last: those of users may be busy.
        let porter = self.porters.lodge.as_ref().and_then(|lodge| lodge.porter().ok());
        for fd in left {
            let left = match &porter {
                Some(porter) => porter.bury(fd).err(),
                None => Some(fd),
            };
            let Some(fd) = left else { continue };
            // Kept open, over an exec too, rather than waited for.
            let _ = rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty());
            std::mem::forget(fd);
        }
    }
}
