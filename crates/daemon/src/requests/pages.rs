//! Answers of any length, in parts that fit a message: the kernel takes no message longer than a socket's buffer.
//!
//! Nothing is kept between two parts: each says where the next begins. What comes or goes meanwhile is in the list or not, as
//! with a directory that is read; what is there throughout is told once.

use crate::cards::vnic::Vnic;
use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use qanat_control::protocol::{NetCoreState, Place, Status, VnicStatus};
use qanat_control::refusal::Refusal;

/// Bytes after which a part ends. One card's part may come on top of it, and that is a good deal shorter.
pub(crate) const PAGE_BYTES: usize = 64 * 1024;
/// The same of the one answer to those who know of no parts.
const WHOLE_BYTES: usize = 128 * 1024;
/// Filters of one card in one part of its listing.
const FILTERS: usize = 64;

impl Daemon {
    /// What there is, for who knows of no parts.
    ///
    /// # Errors
    /// It is too long.
    pub(crate) fn whole_status(&self, peer: Peer) -> Result<Status, Refusal> {
        match self.status_page(peer, Place::default(), WHOLE_BYTES) {
            (status, None) => Ok(status),
            _ => Err(
                "there is more than one message holds, and this program does not ask for parts: start it anew with \
                      the daemon's version of qanat"
                    .into(),
            ),
        }
    }

    /// What there is, from a place on, and where the next part begins.
    pub(crate) fn status_part(&self, peer: Peer, from: Place) -> (Status, Option<Place>) {
        self.status_page(peer, from, PAGE_BYTES)
    }

    fn status_page(&self, peer: Peer, from: Place, bytes: usize) -> (Status, Option<Place>) {
        let is_first = from == Place::default();
        let is_visible = |user: u32| peer.user == 0 || user == peer.user;
        let sessions = self.endpoints.values().filter(|e| e.role == Role::Session && is_visible(e.peer.user)).count();
        let mut status = Status {
            daemon: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            sessions: sessions as u32,
            vnics: Vec::new(),
            // How many others make would tell what they do.
            requests: if peer.user == 0 { self.requests } else { [0; 3] },
            uplink: self.uplink.as_ref().map(|uplink| uplink.link.name.clone()),
            net_cores_started: if is_first { self.net_cores_for(peer) } else { Vec::new() },
            dashboard: self.dashboard.clone().filter(|_| is_first && peer.user == 0),
        };
        let visible = self.visible(peer, from.major);
        let (mut room, mut next) = (bytes, None);
        'cards: for vnic in visible {
            let mut skipped = if vnic.slot == from.major { from.minor as usize } else { 0 };
            loop {
                if room == 0 {
                    next = Some(Place { major: vnic.slot, minor: skipped as u32 });
                    break 'cards;
                }
                let part = self.part(vnic, skipped);
                // What can't be written is refused when it is sent.
                room = room.saturating_sub(serde_json::to_vec(&part).map_or(usize::MAX, |text| text.len()));
                status.vnics.push(part);
                skipped += FILTERS;
                if skipped >= vnic.filter_count() {
                    break;
                }
            }
        }
        (status, next)
    }

    /// The net cores, with the cards that a user may know of.
    fn net_cores_for(&self, peer: Peer) -> Vec<NetCoreState> {
        let mut net_cores = self.net_cores.states();
        for core in net_cores.iter_mut().filter(|_| peer.user != 0) {
            let own = |number: &u32| self.vnics.get(number).is_some_and(|vnic| vnic.user == peer.user);
            let all = std::mem::take(&mut core.vnics).into_iter().zip(std::mem::take(&mut core.queues));
            (core.vnics, core.queues) = all.filter(|(vnic, _)| own(vnic)).unzip();
            core.cards_moved = 0;
        }
        net_cores
    }

    /// A user's cards, or all for root, from a number on.
    pub(crate) fn visible(&self, peer: Peer, from: u32) -> impl Iterator<Item = &Vnic> {
        let cards = self.vnics.range(from..).map(|(_, vnic)| vnic);
        cards.filter(move |vnic| peer.user == 0 || vnic.user == peer.user)
    }

    /// A card with some of its filters; but for the first part nothing else.
    fn part(&self, vnic: &Vnic, skipped: usize) -> VnicStatus {
        let mut part = match skipped {
            0 => vnic.status(&self.tables, &self.charges),
            _ => VnicStatus { vnic: vnic.slot, name: vnic.wish.name.clone(), ..VnicStatus::default() },
        };
        let [transmit, receive] = vnic.steered(skipped, FILTERS);
        (part.transmit.filters, part.receive.filters) = (transmit, receive);
        part
    }
}
