//! A card moves from one net core's process to another's: its stack with all connections, its queue, its services' memory.
//!
//! ```text
//!   old                                  new
//!    │ ◀────────────────── Here(build) ── │     it runs, and is of the same build
//!    │ ── Card, Queue, Service … ───────▶ │     from here on it is nobody's turn: what comes waits in the rings
//!    │ ◀──────────────── Ready ────────── │     all is mapped and read, nothing is touched
//!    │ ── Yours ────────────────────────▶ │     the old one lets go, the new one goes on
//! ```
//! *A card is never in two places.* The old process lets go when it says «yours», and the new one begins when it hears that. If either
//! process ends before that, the card stays with the other: the old one goes on, or the new one throws away what it has read. If the
//! old one dies before it has said it, or the new one dies after, the card is gone, as with any net core's death.
//!
//! *Only the same build*: state is written as this build's structures are. The daemon's net cores are all started from its own
//! executable, so that it is the same as long as the daemon is.

use crate::split::migration::error::MoveError;
use crate::split::migration::export::Belonging;
use crate::split::net_core::accept::SEATS_MAX;
use crate::split::net_core::card::Card;
use crate::split::net_core::tenancy::Tenancy;
use qanat_abi::{Access, SharedMemory};
use qanat_control::net_core::{CardNumber, ORDER_BYTES_MAX, Report};
use qanat_control::protocol::{Fault, receive, send};
use qanat_nic::{Clock, MonotonicClock, Time};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// How long the old net core waits for the new one, which may just be starting.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits for the answer, while the card stands still.
const STANDSTILL_MAX: Duration = Duration::from_secs(1);
/// Messages taken of one move at one look.
const MESSAGES_PER_LOOK: usize = 32;
/// Largest state.
const STATE_BYTES_MAX: u64 = 1 << 30;

/// Which executable it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Build {
    device: u64,
    inode: u64,
    bytes: u64,
    changed_s: i64,
    changed_ns: i64,
}

impl Build {
    fn own() -> Option<Build> {
        let it = std::fs::metadata("/proc/self/exe").ok()?;
        let (changed_s, changed_ns) = (it.ctime(), it.ctime_nsec());
        Some(Build { device: it.dev(), inode: it.ino(), bytes: it.size(), changed_s, changed_ns })
    }
}

/// What the two net cores say to each other.
#[derive(Serialize, Deserialize)]
enum Word {
    Here {
        build: Option<Build>,
    },
    /// With the card's four descriptors, behind that of its state.
    Card {
        state_bytes: u64,
        services: usize,
    },
    /// With the queue's.
    Queue,
    /// With a service's.
    Service,
    Ready,
    Refused(String),
    Yours,
}

/// A card that is to go.
struct Leaving {
    number: CardNumber,
    socket: OwnedFd,
    since: Time,
    /// As long as it stands still: since when, bytes of its state, itself.
    still: Option<(Time, u64, Card)>,
}

/// A card that is to come.
struct Arriving {
    number: CardNumber,
    socket: OwnedFd,
    since: Time,
    state: Option<(OwnedFd, u64, [OwnedFd; 4])>,
    queue: Option<Vec<OwnedFd>>,
    services: Vec<Vec<OwnedFd>>,
    services_due: usize,
    card: Option<Card>,
}

impl Arriving {
    fn new(number: CardNumber, socket: OwnedFd, since: Time) -> Arriving {
        let (state, queue, services) = (None, None, Vec::new());
        Arriving { number, socket, since, state, queue, services, services_due: 0, card: None }
    }

    /// Notes a part of the card; `false`: it is none that can come now. No more descriptors are kept than a card has.
    fn notes(&mut self, said: Word, beside: Vec<OwnedFd>) -> bool {
        match said {
            _ if self.card.is_some() => false,
            Word::Card { state_bytes, services } if self.state.is_none() && services <= SEATS_MAX => {
                let mut beside = beside.into_iter();
                let state = beside.next();
                let four = <[OwnedFd; 4]>::try_from(Vec::from_iter(beside)).ok();
                self.state = state.zip(four).map(|(state, four)| (state, state_bytes, four));
                self.services_due = services;
                self.state.is_some()
            }
            Word::Queue if self.queue.is_none() => {
                self.queue = Some(beside);
                true
            }
            Word::Service if self.services.len() < self.services_due => {
                self.services.push(beside);
                true
            }
            _ => false,
        }
    }
}

/// What has come of moves.
#[derive(Default)]
pub(crate) struct News {
    /// What the daemon is to be told.
    pub reports: Vec<Report>,
    /// Why a card did not come.
    pub failure: Option<String>,
}

/// The net core that a card leaves.
struct Place<'a> {
    cards: &'a mut Vec<Card>,
    /// Whether a service is just coming to a card.
    awaits: &'a dyn Fn(CardNumber) -> bool,
    clock: &'a MonotonicClock,
}

/// All moves under way.
#[derive(Default)]
pub(crate) struct Moves {
    leaving: Vec<Leaving>,
    arriving: Vec<Arriving>,
    buffer: Vec<u8>,
}

impl Moves {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaving.is_empty() && self.arriving.is_empty()
    }

    /// Whether a card is about to come.
    pub(crate) fn is_coming(&self, card: CardNumber) -> bool {
        self.arriving.iter().any(|arriving| arriving.number == card)
    }

    /// What to look at.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.leaving.iter().map(|leaving| &leaving.socket).chain(self.arriving.iter().map(|arriving| &arriving.socket))
    }

    /// The daemon wants a card to go.
    pub(crate) fn begin_to_leave(&mut self, number: CardNumber, socket: OwnedFd, now: Time) {
        self.leaving.push(Leaving { number, socket, since: now, still: None });
    }

    /// The daemon wants a card to come.
    pub(crate) fn begin_to_join(&mut self, number: CardNumber, socket: OwnedFd, now: Time) {
        // Without it, or with one that has gone, there is nothing to wait for.
        if say(&socket, Word::Here { build: Build::own() }, &[]).is_ok() {
            self.arriving.push(Arriving::new(number, socket, now));
        }
    }

    /// Goes on with all moves of a net core that has `cards`. `awaits` tells whether a service is just coming to a card.
    pub(crate) fn go_on(
        &mut self,
        cards: &mut Vec<Card>,
        awaits: &dyn Fn(CardNumber) -> bool,
        clock: &MonotonicClock,
        now: Time,
    ) -> News {
        let mut news = News::default();
        if self.is_empty() {
            return news;
        }
        self.buffer.resize(ORDER_BYTES_MAX, 0);
        for mut leaving in std::mem::take(&mut self.leaving) {
            match self.go_on_leaving(&mut leaving, &mut Place { cards, awaits, clock }, now) {
                Step::Waits => self.leaving.push(leaving),
                Step::Gone => {
                    if let Some((since, bytes, card)) = leaving.still {
                        drop(card);
                        let stood_still_us = clock.now().since(since).as_micros() as u64;
                        news.reports.push(Report::Left { card: leaving.number, stood_still_us, bytes });
                    }
                }
                Step::Over(why) => {
                    if let Some((.., card)) = leaving.still {
                        card.set_anothers(false);
                        cards.push(card);
                    }
                    news.reports.push(Report::Stayed { card: leaving.number, why: why.to_string() });
                }
            }
        }
        for mut arriving in std::mem::take(&mut self.arriving) {
            match self.go_on_arriving(&mut arriving, now) {
                Step::Waits => self.arriving.push(arriving),
                Step::Gone => {
                    if let Some(card) = arriving.card {
                        card.set_anothers(false);
                        cards.push(card);
                    }
                }
                Step::Over(why) => news.failure = Some(format!("card {} did not come: {why}", arriving.number)),
            }
        }
        news
    }

    fn go_on_leaving(&mut self, leaving: &mut Leaving, place: &mut Place<'_>, now: Time) -> Step {
        for _ in 0..MESSAGES_PER_LOOK {
            let outcome = match receive::<Word>(leaving.socket.as_fd(), &mut self.buffer) {
                Ok((Word::Here { build }, _)) if leaving.still.is_none() => let_stand_still(leaving, build, place),
                Ok((Word::Ready, _)) if leaving.still.is_some() => match say(&leaving.socket, Word::Yours, &[]) {
                    Ok(()) => return Step::Gone,
                    Err(why) => Err(why),
                },
                Ok((Word::Refused(why), _)) => Err(MoveError::Refused(why)),
                Ok(_) => Err(MoveError::PeerBroken),
                Err(Fault::Empty) => break,
                Err(fault) => Err(fault.into()),
            };
            if let Err(why) = outcome {
                return Step::Over(why);
            }
        }
        let (since, patience) = match &leaving.still {
            Some((since, ..)) => (*since, STANDSTILL_MAX),
            None => (leaving.since, PATIENCE),
        };
        if now.since(since) > patience { Step::Over(MoveError::PeerSilent) } else { Step::Waits }
    }

    fn go_on_arriving(&mut self, arriving: &mut Arriving, now: Time) -> Step {
        for _ in 0..MESSAGES_PER_LOOK {
            let (said, beside) = match receive::<Word>(arriving.socket.as_fd(), &mut self.buffer) {
                Ok(heard) => heard,
                Err(Fault::Empty) => break,
                Err(fault) => return Step::Over(MoveError::Fault(fault)),
            };
            if matches!(said, Word::Yours) && arriving.card.is_some() {
                return Step::Gone;
            }
            if !arriving.notes(said, beside) {
                return Step::Over(MoveError::PeerBroken);
            }
            if arriving.queue.is_some() && arriving.services.len() == arriving.services_due && arriving.card.is_none() {
                let said = match unpack(arriving, now) {
                    Ok(card) => {
                        arriving.card = Some(card);
                        Word::Ready
                    }
                    Err(why) => Word::Refused(why.to_string()),
                };
                let outcome = say(&arriving.socket, said, &[]);
                if arriving.card.is_none() || outcome.is_err() {
                    return Step::Over(MoveError::NotTaken);
                }
            }
        }
        // Once it has said that it is ready, it may be told that the card is its own: until the other's end.
        let is_late = arriving.card.is_none() && now.since(arriving.since) > PATIENCE;
        if is_late { Step::Over(MoveError::PeerSilent) } else { Step::Waits }
    }
}

/// What a card's end of a move has come to.
enum Step {
    Waits,
    /// The new one has it.
    Gone,
    /// It stays, or does not come; why.
    Over(MoveError),
}

fn say(socket: &OwnedFd, word: Word, beside: &[BorrowedFd<'_>]) -> Result<(), MoveError> {
    Ok(send(socket.as_fd(), word, beside)?)
}

/// A memory file of those bytes.
fn file_of(bytes: &[u8]) -> Result<OwnedFd, MoveError> {
    let made = SharedMemory::create(bytes.len()).and_then(|file| {
        let mut file = File::from(file);
        file.write_all(bytes)?;
        Ok(file.into())
    });
    made.map_err(MoveError::StateMemory)
}

/// The bytes of one. A copy: the other might go on writing.
fn bytes_of(file: &OwnedFd, length: u64) -> Result<Vec<u8>, MoveError> {
    let length = usize::try_from(length.min(STATE_BYTES_MAX)).unwrap_or(usize::MAX);
    let memory = SharedMemory::map(file.as_fd(), length, Access::Read);
    memory.map(|memory| memory.as_ref().to_vec()).map_err(MoveError::State)
}

/// Sends all there is of a card.
fn pack(card: &Card, socket: &OwnedFd) -> Result<u64, MoveError> {
    let bytes = card.export()?;
    let state = file_of(&bytes)?;
    let all = card.belongings().ok_or(MoveError::NotDaemons)?;
    let (state_bytes, services) = (bytes.len() as u64, all.services.len());
    let [handle, received, rest, copies] = all.card;
    say(socket, Word::Card { state_bytes, services }, &[state.as_fd(), handle, received, rest, copies])?;
    say(socket, Word::Queue, &all.queue)?;
    all.services.iter().try_for_each(|service| say(socket, Word::Service, service))?;
    Ok(state_bytes)
}

/// The other net core is there: the card is packed, and has no more turns here.
fn let_stand_still(leaving: &mut Leaving, build: Option<Build>, place: &mut Place<'_>) -> Result<(), MoveError> {
    if build.is_none() || build != Build::own() {
        return Err(MoveError::OtherBuild);
    }
    if (place.awaits)(leaving.number) {
        return Err(MoveError::ServiceComing);
    }
    let is_it = |card: &Card| card.handed.as_ref().map(|handed| handed.number) == Some(leaving.number);
    let index = place.cards.iter().position(is_it).ok_or(MoveError::NoSuchCard)?;
    let since = place.clock.now();
    let mut card = place.cards.remove(index);
    card.tenancy.iter_mut().for_each(Tenancy::wakes);
    card.set_anothers(true);
    let packed = pack(&card, &leaving.socket);
    // Whatever has been sent: without «yours» it is not the other's.
    let bytes = packed.as_ref().copied().unwrap_or(0);
    leaving.still = Some((since, bytes, card));
    packed.map(drop)
}

/// The card, made of what has come.
fn unpack(arriving: &mut Arriving, now: Time) -> Result<Card, MoveError> {
    let (state, length, card) = arriving.state.take().ok_or(MoveError::NoDescriptors)?;
    let queue = arriving.queue.take().ok_or(MoveError::NoQueue)?;
    let services = std::mem::take(&mut arriving.services);
    Card::resume(&bytes_of(&state, length)?, Belonging { card, queue, services }, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptors(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| SharedMemory::create(4_096).expect("a memory file")).collect()
    }

    fn arriving(services: usize) -> (Arriving, bool) {
        let mut arriving = Arriving::new(CardNumber { vnic: 1, queue: 0 }, descriptors(1).remove(0), Time::ZERO);
        let is_noted = arriving.notes(Word::Card { state_bytes: 1, services }, descriptors(5));
        (arriving, is_noted)
    }

    #[test]
    fn no_more_is_kept_than_a_card_has() {
        assert!(!arriving(SEATS_MAX + 1).1 && !arriving(usize::MAX).1, "more services than there are seats");
        let (mut one, is_noted) = arriving(1);
        assert!(is_noted);
        assert!(!one.notes(Word::Card { state_bytes: 1, services: 2 }, descriptors(5)), "another card");
        assert!(one.notes(Word::Service, descriptors(1)));
        assert!(!one.notes(Word::Service, descriptors(1)), "a service that was not announced");
        assert!(one.notes(Word::Queue, descriptors(1)));
        assert!(!one.notes(Word::Queue, descriptors(1)), "another queue");
        assert_eq!((one.services.len(), one.services_due), (1, 1));
    }
}
