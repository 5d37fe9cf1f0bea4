//! Cards that move from one net core to another: from one that is removed, and to one that is added. The two net cores do it
//! (`qanat::split::moving`); the daemon gives each one end of a socket, and is told by the old one what came of it.
//!
//! A card counts as the new one's from the start, so that a service that comes is sent there, where it waits for the card. If
//! the old one keeps it, it is the old one's again. Dies either, the card is where it is, or gone with its handle: both are seen
//! by the ends of sockets, as ever.

use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::log::Event;
use crate::net_cores::core::Standing;
use crate::net_cores::moves::Move;
use qanat_control::net_core::{CardNumber, ORDER_BYTES_MAX, Order, Report};
use qanat_control::protocol::{Fault, receive};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Between two attempts to move a guest's cards.
const AGAIN: Duration = Duration::from_secs(1);
/// Messages of one net core before others' turn: more than its socket holds, so that all a dead one has said is heard at once.
const REPORTS_PER_LOOK: usize = 1_024;

/// What a net core has said, at most so much of it, and whether it is still there.
fn heard(socket: &OwnedFd, most: usize) -> (Vec<Result<Report, Fault>>, bool) {
    let mut buffer = vec![0; ORDER_BYTES_MAX];
    let mut said = Vec::new();
    while said.len() < most {
        match receive::<Report>(socket.as_fd(), &mut buffer) {
            Ok((report, _)) => said.push(Ok(report)),
            Err(Fault::Empty) => break,
            Err(Fault::Closed) => return (said, false),
            Err(fault) => said.push(Err(fault)),
        }
    }
    (said, true)
}

impl Daemon {
    /// Where a card is said to be.
    fn list_card(&mut self, card: CardNumber, from: usize, to: usize) {
        let cores = &mut self.net_cores.cores;
        let Some(old) = cores.get_mut(from) else { return };
        let is_shared = old.shared.contains(&card);
        old.cards.retain(|own| *own != card);
        old.shared.retain(|own| *own != card);
        if let Some(new) = cores.get_mut(to) {
            new.cards.push(card);
            new.shared.extend(is_shared.then_some(card));
        }
    }

    /// Has a card move.
    fn move_card(&mut self, card: CardNumber, from: usize, to: usize) -> Result<(), DaemonError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (old, new) = pair.map_err(|error| say("make a pair of sockets", error))?;
        self.order(to, Order::Join { card }, &[new.as_fd()])?;
        self.order(from, Order::Leave { card }, &[old.as_fd()])?;
        self.net_cores.moves.under_way.push(Move { card, from, to });
        self.list_card(card, from, to);
        Ok(())
    }

    /// A net core may have said something; whether it is still there.
    pub(crate) fn hear_net_core(&mut self, socket: &OwnedFd, index: usize) -> bool {
        let (said, is_there) = heard(socket, REPORTS_PER_LOOK);
        for report in said {
            match report {
                Ok(report) => self.take_report(report, index),
                // One that talks nonsense is not to be relied on, but its cards are. It may go on for ever.
                Err(fault) if !std::mem::replace(&mut self.net_cores.moves.nonsense_told, true) => {
                    (self.log)(&Event::new("card-move", "failed", fault.to_string()));
                }
                Err(_) => {}
            }
        }
        is_there
    }

    fn take_report(&mut self, report: Report, index: usize) {
        let (Report::Left { card, .. } | Report::Stayed { card, .. }) = report;
        // Of moves it has been told to make, and no others.
        let is_it = |one: &Move| one.card == card && one.from == index;
        let Some(place) = self.net_cores.moves.under_way.iter().position(is_it) else { return };
        let Move { from, to, .. } = self.net_cores.moves.under_way.remove(place);
        let processor = |index: usize| self.net_cores.cores.get(index).map_or(0, |core| core.home());
        let ways =
            format!("card {card}, from the net core of processor {} to that of {}", processor(from), processor(to));
        match report {
            Report::Left { stood_still_us, bytes, .. } => {
                self.net_cores.moves.told.remove(&card);
                if let Some(core) = self.net_cores.cores.get_mut(to) {
                    core.cards_moved += 1;
                }
                let text = format!("{ways}: it stood still for {stood_still_us} µs, {bytes} bytes of state");
                (self.log)(&Event::new("card-move", "done", text));
            }
            Report::Stayed { why, .. } => {
                self.list_card(card, to, from);
                // Tried again and again, and said once.
                if self.net_cores.moves.told.insert(card) {
                    (self.log)(&Event::new("card-move", "failed", format!("{ways}: it stays: {why}")));
                }
            }
        }
    }

    /// A net core is gone. Cards that were coming to it are where they were, or gone with it.
    pub(crate) fn end_moves_of(&mut self, index: usize) {
        let all = std::mem::take(&mut self.net_cores.moves.under_way);
        for one in all {
            if one.to == index {
                self.list_card(one.card, one.to, one.from);
            }
            // Of one that is gone nothing will be heard.
            if one.from != index && one.to != index {
                self.net_cores.moves.under_way.push(one);
            }
        }
    }

    /// Whether cards of guests are still to be moved.
    pub(crate) fn has_guests(&self) -> bool {
        let is_guest = |standing: Standing| matches!(standing, Standing::Guest(_));
        self.net_cores.cores.iter().any(|core| is_guest(core.standing) && !core.cards.is_empty())
    }

    /// Has guests' cards move to net cores that are at home, those with the fewest; at once, or again after a while.
    pub(crate) fn move_cards_of_guests(&mut self, at_once: bool) {
        let is_due = self.net_cores.moves.tried.is_none_or(|tried| tried.elapsed() >= AGAIN);
        if !at_once && !is_due {
            return;
        }
        self.net_cores.moves.tried = Some(Instant::now());
        for from in 0..self.net_cores.cores.len() {
            let Some(core) = self.net_cores.cores.get(from) else { continue };
            if !matches!(core.standing, Standing::Guest(_)) {
                continue;
            }
            for card in core.cards.clone() {
                let Some(to) = self.emptiest(card) else { return };
                self.try_to_move(card, from, to);
            }
        }
    }

    fn try_to_move(&mut self, card: CardNumber, from: usize, to: usize) {
        if self.net_cores.moves.has(card) {
            return;
        }
        if let Err(why) = self.move_card(card, from, to)
            && self.net_cores.moves.told.insert(card)
        {
            (self.log)(&Event::new("card-move", "failed", format!("card {card} stays: {why}")));
        }
    }

    /// The net core at home with the fewest cards; of several, one that has none of the card's own service, if that has several.
    fn emptiest(&self, card: CardNumber) -> Option<usize> {
        let all = self.net_cores.cores.iter().enumerate();
        let running = all.filter(|(_, core)| core.takes_cards());
        running
            .min_by_key(|(_, core)| (core.cards.len(), self.of_same_process(card, &core.cards)))
            .map(|(index, _)| index)
    }

    /// How many of those cards are of the process that has `card`.
    fn of_same_process(&self, card: CardNumber, others: &[CardNumber]) -> usize {
        let process = |card: &CardNumber| self.vnics.get(&card.vnic).map(|vnic| vnic.process);
        let own = process(&card);
        others.iter().filter(|other| own.is_some() && process(other) == own).count()
    }

    /// A net core has been added: others give it cards of theirs, the fullest first, until none has two more than it.
    pub(crate) fn share_cards_with(&mut self, index: usize) {
        loop {
            let own = self.net_cores.cores.get(index).map_or(0, |core| core.cards.len());
            let all = self.net_cores.cores.iter().enumerate();
            let others = all.filter(|(other, core)| *other != index && core.takes_cards());
            let Some((from, fullest)) = others.max_by_key(|(_, core)| core.cards.len()) else { return };
            if fullest.cards.len() < own + 2 {
                return;
            }
            // One of a service that has another there; else the one that came last.
            let free = fullest.cards.iter().filter(|card| !self.net_cores.moves.has(**card));
            let Some(card) = free.copied().max_by_key(|card| self.of_same_process(*card, &fullest.cards)) else {
                return;
            };
            if let Err(why) = self.move_card(card, from, index) {
                (self.log)(&Event::new("card-move", "failed", format!("card {card} stays: {why}")));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qanat_control::protocol::send;

    #[test]
    fn one_that_never_stops_has_its_turn_and_no_more() {
        let (ours, its) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).expect("a pair");
        for card in 0..4 {
            let card = CardNumber { vnic: card, queue: 0 };
            send(its.as_fd(), Report::Stayed { card, why: "busy".to_owned() }, &[]).expect("room");
        }
        rustix::net::send(&its, b"nonsense", rustix::net::SendFlags::empty()).expect("room");
        let (said, is_there) = heard(&ours, 3);
        assert!(is_there && said.len() == 3 && said.iter().all(Result::is_ok));
        // All it said before its end counts.
        drop(its);
        let (said, is_there) = heard(&ours, 3);
        assert!(!is_there && said.len() == 2 && said[0].is_ok() && said[1].is_err());
    }
}
