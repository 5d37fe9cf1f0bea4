//! The loop: what is ready is served, in turns.

use crate::cards::uplink::Uplink;
use crate::clients::fairness::{Ready, TURN};
use crate::clients::orphan::LOOK_INTERVAL;
use crate::clients::peer::Role;
use crate::daemon::{Daemon, Ending, UNUSED_MAX};
use crate::error::{DaemonError, say};
use qanat_control::protocol::VnicEnd;
use rustix::event::epoll;
use std::time::Instant;

/// Descriptors that are ready at most: so many that all who wait are known.
const EVENTS: usize = 4_096;
/// Written to the stop descriptor: end, and leave everything to the next daemon.
pub const LEAVE: u8 = b'L';

impl Daemon {
    /// Serves until told to stop. Everything it made goes with it, unless it is told to leave it.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn run(&mut self) -> Result<Ending, DaemonError> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let ending = loop {
            if let Some(ending) = self.stopping {
                break ending;
            }
            events.clear();
            // Orphans tell nobody when they are closed.
            let looks = !self.orphans.is_empty() || !self.orphans_dead.is_empty() || self.unused_since.is_some();
            let looks = looks || !self.unlooked.is_empty() || self.disks.is_one_dying();
            let looks = looks || self.net_cores.is_one_missing() || self.has_guests() || self.porters.is_one_there();
            let looks =
                looks || !self.paused.is_empty() || self.net_cores.is_one_dying() || self.registrar.is_waited_for();
            let patience = looks.then(|| LOOK_INTERVAL.try_into().ok()).flatten();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), patience.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(say("wait for clients", error)),
            }
            self.look_for_dead_net_cores();
            self.serve_ready(&events);
            self.look_after_orphans(false);
            self.look_after_links();
            self.look_after_net_cores();
            self.look_after_porters();
            self.look_after_doors();
            self.look_after_unjudged();
            self.look_after_dying();
            self.look_after_dying_disk_cores();
            self.look_for_use();
            self.record();
        };
        // Before its cards: it has nothing to do without them.
        drop(std::mem::take(&mut self.net_cores));
        if ending == Ending::Down {
            let slots: Vec<u32> = self.vnics.keys().copied().collect();
            for slot in slots {
                self.delete_vnic(slot, VnicEnd::DaemonEnds);
            }
            self.remove_functions();
            self.uplink.iter().for_each(Uplink::release);
            self.state.clear();
        }
        let _ = std::fs::remove_file(&self.policy.socket);
        self.part_with_all();
        Ok(ending)
    }

    /// Serves who is ready, as fairly as may be: until all have been served once, or the turn is over.
    fn serve_ready(&mut self, events: &[epoll::Event]) {
        // Net cores first, which are started again before their cards are taken down: that takes long. Handles before sessions:
        // what a client gave up before it asked is free when it is answered.
        let look = |event: &epoll::Event| {
            let token = event.data.u64();
            let endpoint = self.endpoints.get(&token)?;
            let is_ours = matches!(
                endpoint.role,
                Role::Listener
                    | Role::Metrics
                    | Role::Stop
                    | Role::Links
                    | Role::NetCore(_)
                    | Role::Registrar
                    | Role::Disks
                    | Role::DiskCore(_)
            );
            let rank = if endpoint.role == Role::Session { 2 } else { 1 };
            Some(Ready { user: (!is_ours).then_some(endpoint.peer.account()), rank, served: endpoint.served, token })
        };
        let mut ready: Vec<Ready> = events.iter().filter_map(look).collect();
        self.shares.order(&mut ready);
        self.turn += 1;
        let begun = Instant::now();
        let mut since = begun;
        for Ready { user, token, .. } in ready {
            // One message of each: whoever asks without end asks again in the next turn.
            if let Some(endpoint) = self.endpoints.get_mut(&token) {
                endpoint.served = self.turn;
            }
            self.attend(token);
            let now = Instant::now();
            if let Some(user) = user {
                self.shares.charge(user, now - since);
            }
            since = now;
            // What is still ready is told again.
            if now - begun > TURN {
                break;
            }
        }
    }

    fn attend(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        let (role, peer) = (endpoint.role, endpoint.peer);
        match role {
            Role::Stop => {
                let mut byte = [0];
                let read = rustix::io::read(&endpoint.fd, &mut byte);
                let leave = read == Ok(1) && byte == [LEAVE];
                self.stopping = Some(if leave { Ending::Left } else { Ending::Down });
            }
            Role::Listener => self.accept(token),
            Role::Metrics => self.scrape(token),
            Role::Links => self.follow_links(token),
            Role::Process => self.process_ended(token),
            Role::NetCore(index) => self.attend_net_core(token, index),
            // Nothing is ever said there: the other end is closed.
            Role::Lease => {
                self.charges.end_lease(token);
                self.close(token);
            }
            Role::Porter => self.attend_porter(token),
            Role::Registrar => self.attend_registrar(),
            Role::Disks => self.attend_disks(),
            Role::DiskCore(number) => self.attend_disk_core(number),
            // Nothing is ever said there: the other end is closed.
            Role::AreaLease(number, tenant) => self.area_lease_ended(token, number, tenant),
            Role::Session | Role::Vnic(_) | Role::Filter(_) if endpoint.is_suspended => self.close(token),
            Role::Session | Role::Vnic(_) | Role::Filter(_) => self.hear(token, role, peer),
        }
    }

    fn look_for_use(&mut self) {
        let is_used = !self.vnics.is_empty() || self.endpoints.values().any(|endpoint| endpoint.role == Role::Session);
        if let Some(since) = self.unused_since.as_mut() {
            if is_used {
                *since = Instant::now();
            } else if since.elapsed() >= UNUSED_MAX {
                self.stopping = Some(Ending::Down);
            }
        }
    }
}
