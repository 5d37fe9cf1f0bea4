//! The end of a net core's card. Services hear why before their sockets are closed: a card that somebody deleted is not to come back.
//!
//! A net core is confined, so no thread of its own waits here for the end of a handle; it looks now and then.

use crate::split::doorbell;
use crate::split::handshake::Reply;
use crate::split::net_core::card::{Card, Holder};
use qanat_control::card_watch::{has_hung_up, last_word};
use qanat_control::protocol::VnicEnd;
use qanat_nic::Time;
use std::io;

/// Of an interface of the net core's own.
const DELETED: &str = "its interface was deleted; make it again, and start the service again";

/// How a card has ended.
enum Loss {
    /// Its services are to end: why, and the remedy.
    Final(&'static str),
    /// The next daemon may give another.
    Passing,
}

impl Loss {
    fn of(end: VnicEnd) -> Loss {
        end.to_holder().map_or(Loss::Passing, Loss::Final)
    }
}

impl Card {
    fn loss(&mut self) -> Option<Loss> {
        if let Some(handed) = &self.handed {
            // Without a word: the daemon is gone, which is seen elsewhere.
            return if has_hung_up(&handed.handle) { last_word(&handed.handle).map(Loss::of) } else { None };
        }
        if let Holder::Daemon(handle) = &self.holder
            && has_hung_up(handle)
        {
            if let Some(end) = last_word(handle) {
                return Some(Loss::of(end));
            }
            self.holder = Holder::Crashed;
        }
        match self.holder {
            // Its daemon is about to say why.
            Holder::Daemon(_) => None,
            Holder::Crashed => self.vnic.is_gone().then_some(Loss::Passing),
            Holder::Own => self.vnic.is_gone().then_some(Loss::Final(DELETED)),
        }
    }

    /// Tells its services why they are to end.
    fn tell(&self, why: &str) {
        let tenants = self.tenancy.iter().flat_map(|tenancy| tenancy.tenants());
        // Who doesn't read it sees the end of the socket.
        tenants.for_each(|tenant| doorbell::say(tenant.socket_fd(), Reply::Ended(why.to_owned())));
    }
}

/// Ends cards that are no more, with their services.
///
/// # Errors
/// `ConnectionReset`: a card may come back, in another net core. Else why the last card is gone.
pub(crate) fn end_lost(cards: &mut Vec<Card>, now: Time) -> io::Result<()> {
    let (mut outcome, mut index) = (Ok(()), 0);
    while let Some(card) = cards.get_mut(index) {
        let Some(loss) = card.loss() else {
            index += 1;
            continue;
        };
        let is_own = card.handed.is_none();
        if let Loss::Final(why) = loss {
            card.tell(why);
        }
        card.end_services(now);
        cards.remove(index);
        outcome = match loss {
            Loss::Passing if is_own => Err(io::ErrorKind::ConnectionReset.into()),
            Loss::Final(why) if is_own && cards.is_empty() => Err(io::Error::other(why)),
            _ => outcome,
        };
    }
    outcome
}
