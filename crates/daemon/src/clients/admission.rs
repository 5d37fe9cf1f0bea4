//! The policy judges each new client, at once or when the [registrar](super::registrar) has an answer.

use crate::clients::peer::Peer;
use crate::clients::registrar::Waiting;
use crate::daemon::Daemon;
use crate::log::Event;
use qanat_nic::foreign::peer_groups;
use rustix::event::epoll;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// So long somebody waits to be judged: less than a client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);

impl Daemon {
    /// Judges somebody who has connected, now or when names are known. Until then nothing is read from the session.
    pub(crate) fn register(&mut self, token: u64, peer: Peer) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        // The groups of the process, as the kernel knows them: an account's list may have changed since it logged in.
        let mut groups = peer_groups(endpoint.fd.as_fd()).unwrap_or_default();
        groups.push(peer.group);
        self.admit(token, peer, groups, Instant::now() + PATIENCE);
    }

    fn admit(&mut self, token: u64, peer: Peer, groups: Vec<u32>, until: Instant) {
        match self.registrar.judge(&self.policy, peer, &groups) {
            Ok(standing) => {
                let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
                endpoint.peer.standing = standing;
                if endpoint.is_suspended {
                    self.resume(token);
                }
            }
            Err(question) if self.registrar.ask(question) => {
                self.registrar.waiting.insert(token, Waiting { groups, question, until });
                let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
                endpoint.is_suspended = true;
                let data = epoll::EventData::new_u64(token);
                let _ = epoll::modify(&self.epoll, &endpoint.fd, data, epoll::EventFlags::RDHUP);
            }
            Err(_) => self.cut_off(token, "too many names wait to be looked up: try again in a moment"),
        }
    }

    /// The thread has answered.
    pub(crate) fn attend_registrar(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.registrar.bell, &mut count);
        while let Ok(reply) = self.registrar.replies.try_recv() {
            let question = self.registrar.learn(reply);
            self.registrar.asked.retain(|asked| *asked != question);
            let theirs = |(token, waiting): (&u64, &Waiting)| (waiting.question == question).then_some(*token);
            let tokens: Vec<u64> = self.registrar.waiting.iter().filter_map(theirs).collect();
            for token in tokens {
                let Some(waiting) = self.registrar.waiting.remove(&token) else { continue };
                let Some(peer) = self.endpoints.get(&token).map(|endpoint| endpoint.peer) else { continue };
                self.admit(token, peer, waiting.groups, waiting.until);
            }
        }
        self.tell_of_what_is_in_vain();
    }

    /// What the policy says in vain is told once for each time its names are looked up after a change.
    fn tell_of_what_is_in_vain(&mut self) {
        let Some((_, _, names)) = &self.registrar.names else { return };
        let in_vain = names.in_vain(&self.policy.rule);
        if in_vain != self.in_vain {
            for what in &in_vain {
                (self.log)(&Event::new("policy", "failed", what.to_string()));
            }
            self.in_vain = in_vain;
        }
    }

    /// Those who have waited too long.
    pub(crate) fn look_after_unjudged(&mut self) {
        let now = Instant::now();
        let late = |(token, waiting): (&u64, &Waiting)| (waiting.until <= now).then_some(*token);
        let late: Vec<u64> = self.registrar.waiting.iter().filter_map(late).collect();
        for token in late {
            self.registrar.forget(token);
            self.cut_off(
                token,
                "this machine's name service does not answer, so nobody knows which rule is for this user: see nsswitch.conf(5), \
                 or name users and groups by number in the policy",
            );
        }
    }
}
