//! Conversations: descriptors that the loop watches, what is heard on them and answered, and how they end.

use crate::clients::peer::{Endpoint, Identity, Peer, Role};
use crate::clients::porters::Beside;
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::log::Event;
use crate::requests::served::Served;
use qanat_control::protocol::{Answer, Fault, Glance, Request, VERSION, glance, mismatch, send, send_in};
use qanat_nic::foreign::{refuse_rights, skip};
use rustix::event::epoll;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a descriptor is looked at for.
const WATCHED: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP);

/// A request that was served, as the log tells of it.
pub(crate) struct Said {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether it changes anything.
    pub(crate) changes: bool,
    /// The VNIC it is about.
    pub(crate) vnic: Option<u32>,
    /// What else it is about.
    pub(crate) about: String,
}

impl Daemon {
    /// The number it is known by from now on.
    pub(crate) fn watch(
        &mut self,
        fd: OwnedFd,
        role: Role,
        peer: Peer,
        identity: Option<Identity>,
    ) -> Result<u64, DaemonError> {
        let token = self.next_token;
        let takes_rights = match role {
            Role::Session | Role::Vnic(_) => true,
            // Before Linux 6.16 it can't be refused.
            Role::Filter(_) | Role::NetCore(_) | Role::Lease | Role::DiskCore(_) | Role::AreaLease(..) => {
                refuse_rights(fd.as_fd()).is_err()
            }
            _ => false,
        };
        epoll::add(&self.epoll, &fd, epoll::EventData::new_u64(token), WATCHED)
            .map_err(|error| say("watch a descriptor", error))?;
        self.next_token += 1;
        let endpoint = Endpoint { fd, role, peer, identity, takes_rights, is_suspended: false, served: 0 };
        self.endpoints.insert(token, endpoint);
        Ok(token)
    }

    /// A client says something.
    pub(crate) fn hear(&mut self, token: u64, role: Role, peer: Peer) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        match glance::<Request>(endpoint.fd.as_fd(), &mut self.buffer) {
            Ok(Glance { said: Ok(request), has_rights: true }) => self.await_descriptors(token, request),
            Ok(Glance { said: Ok(request), has_rights: false }) => {
                skip(endpoint.fd.as_fd());
                self.answer(token, role, peer, request, Beside::Nothing);
            }
            Ok(Glance { said: Err(Fault::Version(told)), .. }) => {
                let why = mismatch(VERSION, told);
                // In words it understands: this answer has been the same in every version.
                let _ = send_in(told, endpoint.fd.as_fd(), Answer::Refused(why.as_str().into()), &[]);
                self.end_peer(token, &why);
            }
            Err(Fault::Empty) => {}
            Err(Fault::Closed) => self.close(token),
            Ok(Glance { said: Err(fault), .. }) | Err(fault) => self.cut_off(token, &fault.to_string()),
        }
    }

    pub(super) fn answer(&mut self, token: u64, role: Role, peer: Peer, request: Request, beside: Beside) {
        let (name, changes) = (request.name(), request.changes());
        let vnic = if let Role::Vnic(slot) = role { Some(slot) } else { request.vnic() };
        let outcome = if role == Role::Session && request.is_for_disk() {
            match self.ask_of_disk(token, peer, request) {
                // It is answered when the disk has done it.
                Ok(()) => return,
                Err(why) => Err(why),
            }
        } else {
            self.serve(role, peer, request, beside)
        };
        let vnic = vnic.or(match &outcome {
            Ok((Answer::Vnic(status), _)) => Some(status.vnic),
            _ => None,
        });
        self.conclude(Some(token), peer, &Said { name, changes, vnic, about: String::new() }, outcome);
    }

    /// What came of a request: for the log, and for who asked, if somebody waits.
    pub(crate) fn conclude(&mut self, token: Option<u64>, peer: Peer, said: &Said, outcome: Served) {
        let Said { name, changes, vnic, about } = said;
        if *changes || outcome.is_err() {
            let rule = self.rule_name(peer, *vnic);
            let (result, detail) = match &outcome {
                Ok((Answer::Vnic(status), _)) => ("done", format!("{} on {}", status.name, status.interface)),
                Ok(_) => ("done", about.clone()),
                Err(why) => ("refused", why.text.clone()),
            };
            (self.log)(&Event { vnic: *vnic, ..Event::new(name, result, detail).by(peer).under(rule.as_deref()) });
        }
        let (answer, descriptors) = match outcome {
            Ok(served) => {
                self.requests[0] += 1;
                served
            }
            Err(why) => {
                self.requests[1] += 1;
                (Answer::Refused(why), Vec::new())
            }
        };
        let beside: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        if let Some(token) = token {
            // One that was not read meanwhile is read again.
            if self.endpoints.get(&token).is_some_and(|endpoint| endpoint.is_suspended) {
                self.resume(token);
            }
            self.tell(token, answer, &beside);
        }
    }

    /// Does not read an endpoint until its request is answered. Its end alone is heard of: what is given up is free at once.
    pub(crate) fn suspend(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
        endpoint.is_suspended = true;
        let data = epoll::EventData::new_u64(token);
        let _ = epoll::modify(&self.epoll, &endpoint.fd, data, epoll::EventFlags::RDHUP);
    }

    pub(super) fn tell(&mut self, token: u64, answer: Answer, beside: &[BorrowedFd<'_>]) {
        // What is answered for survives us.
        self.record();
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        // A client that does not read its answers is not waited for.
        let sent = match send(endpoint.fd.as_fd(), answer, beside) {
            Err(Fault::TooLong(bytes)) => {
                let why =
                    format!("the answer has {bytes} bytes, which is more than a message holds: ask for less at once");
                send(endpoint.fd.as_fd(), Answer::Refused(why.into()), &[])
            }
            sent => sent,
        };
        if let Err(fault) = sent {
            self.cut_off(token, &format!("its answer could not be sent: {fault}"));
        }
    }

    /// The rule a request is judged by: the VNIC's, or the user's.
    fn rule_name(&self, peer: Peer, vnic: Option<u32>) -> Option<String> {
        let of_vnic = vnic.and_then(|slot| self.vnics.get(&slot)).map(|vnic| vnic.rule.name.clone());
        of_vnic.or_else(|| self.policy.rule_of(peer.standing).map(|rule| rule.name.clone()))
    }

    /// Ends a connection or takes back a handle, with what depends on it.
    pub(crate) fn close(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.remove(&token) else { return };
        let _ = epoll::delete(&self.epoll, &endpoint.fd);
        self.net_cores.handle_closed(token);
        self.registrar.forget(token);
        self.count_handle(endpoint.role, -1);
        if endpoint.takes_rights {
            self.retire(endpoint.fd, endpoint.peer.account(), endpoint.is_suspended);
        }
    }

    pub(super) fn cut_off(&mut self, token: u64, why: &str) {
        if let Some(endpoint) = self.endpoints.get(&token) {
            let _ = send(endpoint.fd.as_fd(), Answer::Refused(why.into()), &[]);
        }
        self.end_peer(token, why);
    }

    /// Ends a peer that has been told why.
    fn end_peer(&mut self, token: u64, why: &str) {
        self.requests[2] += 1;
        if let Some(endpoint) = self.endpoints.get(&token) {
            let vnic = if let Role::Vnic(slot) = endpoint.role { Some(slot) } else { None };
            (self.log)(&Event { vnic, ..Event::new("peer", "cut-off", why).by(endpoint.peer) });
        }
        self.close(token);
    }

    /// Listens to an endpoint again; false: it is gone.
    pub(crate) fn resume(&mut self, token: u64) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(&token) else { return false };
        endpoint.is_suspended = false;
        let data = epoll::EventData::new_u64(token);
        epoll::modify(&self.epoll, &endpoint.fd, data, WATCHED).is_ok()
    }
}
