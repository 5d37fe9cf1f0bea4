//! Handles: one end of a socket pair is given away, the other watched here. Closing the last copy gives the object up.
//!
//! A daemon that ends closes its ends, and the next one can't have them back. What was given away still exists, though, and
//! is proof: nothing but the very socket has its inode and cookie. So an *orphan* handle is as good as ever where it is
//! shown, is exchanged for a new one on demand ([`Request::Reclaim`](qanat_control::protocol::Request::Reclaim)), and counts as
//! held until the kernel has no such socket any more.

use crate::clients::fairness::TURN;
use crate::clients::orphan::{LOOK_INTERVAL, Orphan, identity, open_sockets};
use crate::clients::peer::{Endpoint, Identity, Peer, Role};
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use qanat_control::protocol::{Answer, VnicEnd};
use qanat_control::refusal::{Cause, Refusal};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Handles of one user at most: of VNICs and filters.
const HANDLES_PER_USER_MAX: usize = 1_024;
/// A look may take one part in so many of the time.
const LOOK_SHARE: u32 = 20;

impl Daemon {
    /// Makes a handle: keeps one end, returns the other.
    pub(crate) fn make_handle(&mut self, role: Role, peer: Peer) -> Result<OwnedFd, Refusal> {
        let is_handle = |role| matches!(role, Role::Vnic(_) | Role::Filter(_));
        let own = |endpoint: &&Endpoint| endpoint.peer.account() == peer.account() && is_handle(endpoint.role);
        let orphans = self.orphans.iter().filter(|orphan| orphan.handle.peer.account() == peer.account()).count();
        let orphans = orphans + self.porters.parked_of(peer.account());
        if self.endpoints.values().filter(own).count() + orphans >= HANDLES_PER_USER_MAX {
            let text = format!("user {} has {HANDLES_PER_USER_MAX} handles: close some", peer.account());
            return Err(Refusal::new(Cause::Full, text));
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (kept, given) = pair.map_err(|error| say("make a handle", error))?;
        // The client waits for its answers.
        rustix::io::ioctl_fionbio(&given, false).map_err(|error| say("make a handle", error))?;
        let identity = identity(&given)?;
        self.watch(kept, role, peer, Some(identity))?;
        self.watch_process(peer);
        self.count_handle(role, 1);
        Ok(given)
    }

    /// Watches a process that was given a handle. One that dies may leave it in the queue of a socket that nobody can reach,
    /// and the kernel looks for such only when a Unix socket is closed somewhere.
    fn watch_process(&mut self, peer: Peer) {
        let of_user =
            |endpoint: &&Endpoint| endpoint.role == Role::Process && endpoint.peer.account() == peer.account();
        let (mut count, mut is_watched) = (0, false);
        for endpoint in self.endpoints.values().filter(of_user) {
            count += 1;
            is_watched |= endpoint.peer.process == peer.process;
        }
        let process = rustix::process::Pid::from_raw(peer.process);
        if is_watched || count >= HANDLES_PER_USER_MAX {
            return;
        }
        // Gone already, or in a namespace of its own: then it ends without our help, only perhaps later.
        let opened = process.and_then(|p| rustix::process::pidfd_open(p, rustix::process::PidfdFlags::empty()).ok());
        if let Some(opened) = opened {
            let _ = self.watch(opened, Role::Process, peer, None);
        }
    }

    /// A process that was given a handle has ended: has the kernel look for sockets nobody can reach.
    pub(crate) fn process_ended(&mut self, token: u64) {
        self.close(token);
        let flags = SocketFlags::CLOEXEC;
        // Closed at once, which is what it is for.
        let _ = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    }

    /// The number by which this side knows a handle it has made.
    pub(crate) fn token_of(&self, handle: &OwnedFd) -> Result<u64, DaemonError> {
        let identity = Some(identity(handle)?);
        let found = self.endpoints.iter().find(|(_, endpoint)| endpoint.identity == identity);
        found.map(|(token, _)| *token).ok_or_else(|| "the handle is gone".into())
    }

    /// Counts handles of an object up or down; the last one's end is the object's.
    pub(crate) fn count_handle(&mut self, role: Role, change: i32) {
        match role {
            Role::Vnic(slot) => {
                self.dirty.insert(slot);
                let Some(vnic) = self.vnics.get_mut(&slot) else { return };
                vnic.handles = vnic.handles.saturating_add_signed(change);
                if vnic.handles == 0 && !vnic.wish.persistent {
                    self.delete_vnic(slot, VnicEnd::Unheld);
                }
            }
            Role::Filter(number) => {
                self.dirty_filters.insert(number);
                let Some(filter) = self.filters.get_mut(&number) else { return };
                filter.handles = filter.handles.saturating_add_signed(change);
                if filter.handles == 0 {
                    self.delete_filter(number);
                }
            }
            _ => {}
        }
    }

    /// What a descriptor is a handle of.
    fn role_of(&self, wanted: Identity) -> Option<Role> {
        let live = self.endpoints.values().find(|endpoint| endpoint.identity == Some(wanted));
        let orphan = || self.orphans.iter().find(|orphan| orphan.handle.identity == wanted).map(|orphan| orphan.role);
        live.map(|endpoint| endpoint.role).or_else(orphan)
    }

    /// The filter whose handle came along.
    pub(crate) fn presented_filter(&self, handle: Option<Identity>) -> Result<u64, Refusal> {
        let handle = handle.ok_or("send the filter's handle, and nothing else, along")?;
        match self.role_of(handle) {
            Some(Role::Filter(number)) => Ok(number),
            _ => Err("that descriptor is no filter's handle".into()),
        }
    }

    /// Gives a new handle for one of an earlier daemon's.
    pub(crate) fn reclaim(&mut self, handle: Option<Identity>) -> Result<(Answer, Vec<OwnedFd>), Refusal> {
        let wanted = handle.ok_or("send the old handle, and nothing else, along")?;
        let orphan = self.orphans.iter().find(|orphan| orphan.handle.identity == wanted).copied();
        let Some(Orphan { role, handle }) = orphan else {
            let text = "that descriptor is no handle of an earlier daemon's whose object is still there";
            return Err(Refusal::new(Cause::Forgotten, text));
        };
        // The rights are the handle's, not those of who shows it.
        let given = self.make_handle(role, handle.peer)?;
        match role {
            Role::Vnic(slot) => {
                let vnic = self.vnics.get(&slot).ok_or("the VNIC is gone")?;
                Ok((Answer::Vnic(vnic.status(&self.tables, &self.charges)), vec![given]))
            }
            Role::Filter(number) => Ok((Answer::Filter(number), vec![given])),
            _ => Err("nothing but VNICs and filters has handles".into()),
        }
    }

    /// Gives up orphans that nobody holds any more. `now`: whether or not it is time.
    pub(crate) fn look_after_orphans(&mut self, now: bool) {
        let begun = Instant::now();
        if !self.orphans.is_empty() && (now || self.last_look.elapsed() >= self.look_interval) {
            // An unreadable list says nothing about who is dead.
            if let Some(open) = open_sockets() {
                let is_open = |orphan: &Orphan| open.contains(&orphan.handle.identity.inode);
                let (alive, dead): (Vec<Orphan>, Vec<Orphan>) = self.orphans.drain(..).partition(is_open);
                self.orphans = alive;
                self.orphans_dead.extend(dead);
            }
            self.last_look = Instant::now();
            // The list is of all Unix sockets of the machine, whoever has made them.
            self.look_interval = LOOK_INTERVAL.max(begun.elapsed() * LOOK_SHARE);
        }
        // To end an object takes long: the others have their turn in between.
        while let Some(orphan) = self.orphans_dead.pop() {
            self.count_handle(orphan.role, -1);
            if !now && begun.elapsed() > TURN {
                break;
            }
        }
    }
}
