//! A net core: the loop that runs the stacks of others, one for each of its cards.

use crate::runtime::SpinPolicy;
use crate::split::doorbell;
use crate::split::handshake::{ABI_VERSION, Attach, CardStatus, MESSAGE_BYTES_MAX, NetCoreStatus, Reply, Wish};
use crate::split::migration::moving::{Moves, News};
use crate::split::net_core::accept::AcceptPolicy;
use crate::split::net_core::card::Card;
use crate::split::net_core::card_end::end_lost;
use crate::split::net_core::director::{Directive, Director};
use crate::split::net_core::peers::{Introduced, PENDING_PATIENCE, Pending, Who};
use crate::split::net_core::refused::Refused;
use crate::split::net_core::tenancy::Tenancy;
use crate::split::net_core::tenant::Offence;
use qanat_control::protocol::{Fault, receive, send};
use qanat_nic::Spin;
use qanat_nic::foreign::refuse_rights;
use qanat_nic::{Clock, Frame, MonotonicClock, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Sockets are looked at so often while traffic keeps the net core from sleeping.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);
/// Peers that have not said what they want.
const PENDING_MAX: usize = 16;
/// A service that takes no events is looked at again after this: nobody rings when it has taken some.
const HELD_BACK_WAIT: Duration = Duration::from_millis(1);
/// While cards move, their patience is looked at so often.
const MOVES_LOOKED_AT: Duration = Duration::from_millis(10);
/// The ends of cards are looked for so often.
const CARDS_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Orders taken at one look.
const ORDERS_PER_LOOK: usize = 16;
/// Services introduced that have not said what they want.
const INTRODUCED_MAX: usize = 256;
/// Longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// How a net core behaves.
#[derive(Clone, Debug, Default)]
pub struct NetCoreOptions {
    /// When to sleep.
    pub spin: SpinPolicy,
    /// Users whose services are served, besides root's.
    pub users: Vec<u32>,
    /// It is confined ([`confine`](crate::confine::confine)).
    pub confined: bool,
    /// The processor it is pinned to.
    pub processor: Option<u32>,
    /// Which of the services that share a listener has the next connection.
    pub accept: AcceptPolicy,
}

/// The net core.
pub struct NetCore {
    cards: Vec<Card>,
    listener: Option<OwnedFd>,
    pending: Vec<Pending>,
    director: Option<Director>,
    /// Started by one service for itself: its end is ours.
    is_private: bool,
    options: NetCoreOptions,
    clock: MonotonicClock,
    started: Time,
    /// Cards that come and go.
    moves: Moves,
    cut_off: u64,
    /// Those who connected and are no user of it.
    strangers: u64,
    last_offence: String,
    /// Time in turns in which something happened.
    busy: Duration,
    looked_at: Time,
    cards_looked_at: Time,
    scratch: Vec<Frame>,
    /// Another net core is at home on its processor, and its cards are about to move.
    is_guest: bool,
}

impl NetCore {
    /// A net core for whoever connects to `listener` (a `SOCK_SEQPACKET` Unix socket).
    /// Made before the process is confined: see `NetCore::takes_no_rights`.
    pub fn listening(cards: Vec<Card>, listener: OwnedFd, options: NetCoreOptions) -> NetCore {
        NetCore::new(cards, Some(listener), options)
    }

    /// No descriptors of others may come here: closing one takes as long as its sender likes, and every service of this net core
    /// would wait. Sockets accepted at a listener inherit this from it. Linux before 6.16 can't refuse descriptors.
    fn takes_no_rights(socket: &OwnedFd) {
        let _ = refuse_rights(socket.as_fd());
    }

    /// A net core for the one service at the other end of `socket`; it ends with it.
    pub fn private(card: Card, socket: OwnedFd, status: Option<OwnedFd>, options: NetCoreOptions) -> NetCore {
        NetCore::takes_no_rights(&socket);
        let mut core = NetCore::new(vec![card], status, options);
        core.is_private = true;
        core.pending.push(Pending::owner(socket, core.clock.now()));
        core
    }

    /// A net core whose cards and services come from the process at the other end of `director`
    /// ([`Order`](qanat_control::net_core::Order)), and which ends with it.
    pub fn directed(director: OwnedFd, status: Option<OwnedFd>, options: NetCoreOptions) -> NetCore {
        let mut core = NetCore::new(Vec::new(), status, options);
        core.director = Some(Director::new(director));
        core
    }

    fn new(cards: Vec<Card>, listener: Option<OwnedFd>, options: NetCoreOptions) -> NetCore {
        listener.iter().for_each(NetCore::takes_no_rights);
        // What a stack has noted of times is good in whichever process it goes on.
        let clock = MonotonicClock::of_machine();
        NetCore {
            cards,
            listener,
            pending: Vec::with_capacity(PENDING_MAX),
            director: None,
            is_private: false,
            options,
            started: clock.now(),
            clock,
            moves: Moves::default(),
            cut_off: 0,
            strangers: 0,
            last_offence: String::new(),
            busy: Duration::ZERO,
            looked_at: Time::ZERO,
            cards_looked_at: Time::ZERO,
            scratch: Vec::with_capacity(256),
            is_guest: false,
        }
    }

    /// Takes orders. False: the daemon is gone.
    fn take_orders(&mut self, now: Time) -> bool {
        for _ in 0..ORDERS_PER_LOOK {
            let Some(director) = &mut self.director else { return true };
            match director.next(now) {
                Ok(order) => order.into_iter().for_each(|order| self.obey(order, now)),
                Err(Fault::Empty) => return true,
                Err(Fault::Closed) => return false,
                // Of another version: it says something else next, or ends.
                Err(_) => {}
            }
        }
        true
    }

    fn obey(&mut self, order: Directive, now: Time) {
        match order {
            Directive::Card(_, Ok(card)) => self.cards.push(*card),
            // The service it was for is told so when it comes.
            Directive::Card(number, Err(error)) => self.last_offence = format!("card {number}: {error}"),
            Directive::Service(pending) => {
                // Those who never say what they want go after a while, or when there are too many: the oldest first.
                if self.pending.len() >= INTRODUCED_MAX {
                    self.pending.remove(0);
                }
                self.pending.push(pending);
            }
            Directive::Leave { card, socket } => self.moves.begin_to_leave(card, socket, now),
            Directive::Join { card, socket } => self.moves.begin_to_join(card, socket, now),
            // It is there already: the daemon has seen to that.
            Directive::Processor { processor, is_guest } => {
                (self.options.processor, self.is_guest) = (Some(processor), is_guest);
            }
        }
    }

    fn go_on_with_moves(&mut self, now: Time) {
        let pending = &self.pending;
        let awaits =
            |card| pending.iter().any(|pending| pending.introduced.map(|introduced| introduced.card) == Some(card));
        let News { reports, failure } = self.moves.go_on(&mut self.cards, &awaits, &self.clock, now);
        for report in reports {
            // A daemon that is gone is seen elsewhere.
            let _ = self.director.as_ref().map(|director| send(director.socket.as_fd(), report, &[]));
        }
        if let Some(failure) = failure {
            self.last_offence = failure;
        }
    }

    /// Serves until `stop` is readable or, private, until its service is gone.
    ///
    /// # Errors
    /// A failing wait; `ConnectionReset`: a card's link is gone, or its daemon with it; `Other`: the last card is, for good.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> io::Result<()> {
        let mut spin = Spin::new(self.options.spin);
        let mut idle_since: Option<Time> = None;
        let mut busy_since: Option<Time> = None;
        loop {
            let now = self.clock.now();
            // Of the turn before: the clock is read once a turn.
            self.busy += busy_since.take().map_or(Duration::ZERO, |since| now.since(since));
            let busy = self.turn(now);
            busy_since = busy.then_some(now);
            if now.since(self.looked_at) >= LOOK_INTERVAL || !self.moves.is_empty() {
                self.looked_at = now;
                if !self.look(stop, Duration::ZERO)? {
                    break;
                }
            }
            if busy {
                idle_since = None;
                continue;
            }
            let idle = now.since(*idle_since.get_or_insert(now));
            // Its doorbell is asked for last: to ask for it is to have it rung (memif unmasks its peer's interrupts).
            let has_bell = |card: &Card| card.tenancy.is_none() || card.vnic.doorbell().is_some();
            let is_awake = !self.is_guest && !spin.should_sleep(idle);
            if is_awake || !self.cards.iter().all(has_bell) {
                std::hint::spin_loop();
                continue;
            }
            if !self.sleep(stop, now)? {
                break;
            }
            spin.slept(self.clock.now().since(now));
            idle_since = None;
        }
        let now = self.clock.now();
        self.cards.iter_mut().for_each(|card| card.end_services(now));
        Ok(())
    }

    /// A turn of every service's. Whether anything happened.
    fn turn(&mut self, now: Time) -> bool {
        let mut busy = false;
        let mut offences: Vec<Offence> = Vec::new();
        for card in &mut self.cards {
            let Some(tenancy) = &mut card.tenancy else { continue };
            busy |= tenancy.turn(now, card.vnic.as_mut(), &mut offences);
            if let Some(last) = offences.last() {
                self.cut_off += offences.len() as u64;
                self.last_offence = last.to_string();
                offences.clear();
                card.end_if_empty(now);
            }
        }
        busy
    }

    /// Sleeps until something happens, unless something has. False: it is over.
    fn sleep(&mut self, stop: BorrowedFd<'_>, now: Time) -> io::Result<bool> {
        let mut limit = if self.moves.is_empty() { SLEEP_MAX } else { MOVES_LOOKED_AT };
        let mut may_sleep = true;
        for card in &mut self.cards {
            let Some(tenancy) = &mut card.tenancy else { continue };
            may_sleep &= tenancy.falls_asleep();
            let until = match tenancy.is_held_back() {
                true => HELD_BACK_WAIT,
                false => tenancy.next_deadline().map_or(SLEEP_MAX, |deadline| deadline.since(now)),
            };
            limit = limit.min(until);
        }
        let outcome = if may_sleep { self.look(stop, limit) } else { Ok(true) };
        self.cards.iter_mut().filter_map(|card| card.tenancy.as_mut()).for_each(Tenancy::wakes);
        outcome
    }

    /// Looks at all descriptors, waiting at most `timeout`. False: it is over.
    fn look(&mut self, stop: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
        let mut fds = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let first_director = fds.len();
        fds.extend(self.director.as_ref().map(|director| PollFd::new(&director.socket, PollFlags::IN)));
        fds.extend(self.moves.sockets().map(|socket| PollFd::new(socket, PollFlags::IN)));
        let first_pending = fds.len();
        fds.extend(self.pending.iter().map(|pending| PollFd::new(&pending.socket, PollFlags::IN)));
        let first_tenant = fds.len();
        let tenants = self.cards.iter().filter_map(|card| card.tenancy.as_ref()).flat_map(Tenancy::tenants);
        fds.extend(tenants.map(|tenant| PollFd::new(tenant.socket_fd(), PollFlags::IN)));
        let first_card = fds.len();
        // Who does not wait reads the cards anyway, and needs not have their bells rung.
        let waiting = self.cards.iter().filter(|card| card.tenancy.is_some() && !timeout.is_zero());
        let bells = waiting.filter_map(|card| card.vnic.doorbell());
        fds.extend(bells.map(|bell| PollFd::from_borrowed_fd(bell, PollFlags::IN)));
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let is_ready = |index: usize| ready.get(index).copied().unwrap_or(false);
        if is_ready(0) {
            return Ok(false);
        }
        if self.cards.iter().any(|card| card.is_up.as_ref().is_some_and(|is_up| !is_up())) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let now = self.clock.now();
        self.look_at_tenants(ready.get(first_tenant..first_card).unwrap_or(&[]), now);
        if self.is_private && self.cards.iter().all(|card| card.tenancy.is_none() && card.services > 0) {
            return Ok(false);
        }
        let waiting = ready.get(first_pending..first_tenant).unwrap_or(&[]).to_vec();
        self.look_at_pending(&waiting, now);
        if now.since(self.cards_looked_at) >= CARDS_LOOK_INTERVAL {
            self.cards_looked_at = now;
            end_lost(&mut self.cards, now)?;
        }
        self.cards.retain(|card| !card.is_done(now));
        if first_director < first_pending && is_ready(first_director) && !self.take_orders(now) {
            return Ok(false);
        }
        self.go_on_with_moves(now);
        if self.listener.is_some() && is_ready(1) {
            self.accept(now);
        }
        let owner_waits = self.pending.iter().any(|pending| pending.may_attach);
        Ok(!(self.is_private && !owner_waits && self.cards.iter().all(|card| card.tenancy.is_none())))
    }

    fn look_at_tenants(&mut self, ready: &[bool], now: Time) {
        let mut ready = ready.iter().copied();
        for card in &mut self.cards {
            if let Some(tenancy) = &mut card.tenancy {
                tenancy.look_at_sockets(&mut ready, now);
            }
            card.end_if_empty(now);
        }
    }

    fn look_at_pending(&mut self, ready: &[bool], now: Time) {
        let all = std::mem::take(&mut self.pending);
        for (index, pending) in all.into_iter().enumerate() {
            // Of a card that is about to come: then.
            let is_early = pending.introduced.is_some_and(|introduced| self.moves.is_coming(introduced.card));
            if ready.get(index).copied().unwrap_or(false) && !is_early {
                self.hear(pending, now);
            } else if now.since(pending.since) < PENDING_PATIENCE || (self.is_private && pending.may_attach) {
                self.pending.push(pending);
            }
        }
    }

    fn accept(&mut self, now: Time) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..PENDING_MAX {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(socket) = accept_with(listener, flags) else { return };
            // Before a word is heard. Nothing came with whoever is turned away.
            let Some(who) = Who::at(&socket).filter(|who| self.is_known(who.user)) else {
                self.strangers += 1;
                turn_away(&socket);
                continue;
            };
            // The oldest is the likeliest never to speak.
            if self.pending.len() >= PENDING_MAX {
                let oldest = self.pending.iter().position(|pending| !pending.may_attach || !self.is_private);
                self.pending.remove(oldest.unwrap_or(0));
            }
            let may_attach = !self.is_private && self.director.is_none();
            self.pending.push(Pending {
                socket,
                since: now,
                may_attach,
                introduced: None,
                lease: None,
                who: Some(who),
            });
        }
    }

    /// Whether this user is served, here or by the daemon.
    fn is_known(&self, user: u32) -> bool {
        user == 0 || self.options.users.contains(&user) || self.cards.iter().any(|card| card.user == Some(user))
    }

    /// Whether this user is told of others' services, too.
    fn may_see_all(&self, user: u32) -> bool {
        user == 0 || self.options.users.contains(&user)
    }

    /// Somebody says what it wants.
    fn hear(&mut self, pending: Pending, now: Time) {
        let Pending { socket, since, may_attach, introduced, lease, who } = pending;
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        let outcome = match receive::<Wish>(socket.as_fd(), &mut buffer) {
            Ok((Wish::Status, _)) => {
                // Who was introduced is told at the listener, as everybody is.
                let user = who.filter(|_| introduced.is_none()).map(|who| who.user);
                let status = user.map(|user| self.status_for(user));
                let reply = status.map_or_else(|| Reply::Refused("who asks?".to_owned()), Reply::Status);
                let _ = send(socket.as_fd(), reply, &[]);
                return;
            }
            Ok((Wish::Attach(_), _)) if !may_attach => Err(Refused::NotHere),
            Ok((Wish::Attach(wish), _)) => self.attach(&socket, wish, (introduced, who), lease, now),
            Err(Fault::Empty) => {
                self.pending.push(Pending { socket, since, may_attach, introduced, lease, who });
                return;
            }
            Err(fault) => Err(fault.into()),
        };
        if let Err(why) = outcome {
            drop(send(socket.as_fd(), Reply::Refused(why.to_string()), &[]));
        }
    }

    /// User and process of a service, if it may be served.
    fn identify(&self, introduced: Option<Introduced>, who: Option<Who>) -> Result<(u32, i32), Refused> {
        if let Some(Introduced { user, process, .. }) = introduced {
            return Ok((user, process));
        }
        let Who { user, process } = who.ok_or(Refused::Unknown)?;
        if user != 0 && !self.is_private && !self.options.users.contains(&user) {
            return Err(Refused::User(user));
        }
        Ok((user, process))
    }

    fn attach(
        &mut self,
        socket: &OwnedFd,
        wish: Attach,
        (introduced, who): (Option<Introduced>, Option<Who>),
        lease: Option<OwnedFd>,
        now: Time,
    ) -> Result<(), Refused> {
        if !wish.is_of_this_build() {
            return Err(Refused::OtherBuild { service: wish.version, own: ABI_VERSION });
        }
        let (user, process) = self.identify(introduced, who)?;
        let index = self.find_card(&wish, introduced, user)?;
        let card = self.cards.get_mut(index).ok_or(Refused::NoSuchCard)?;
        if card.tenancy.is_none() {
            card.open_stack(&wish, self.options.accept, &mut self.scratch, now)?;
        }
        let name: String = wish.name.chars().filter(|letter| !letter.is_control()).take(64).collect();
        let outcome = card.admit(socket, (name, process, user), lease);
        card.end_if_empty(now);
        outcome
    }

    /// The card for a service: one it shares, or one that is free.
    fn find_card(&self, wish: &Attach, introduced: Option<Introduced>, user: u32) -> Result<usize, Refused> {
        let fits =
            |card: &Card| card.is_for(introduced) && card.has(wish.address) && card.user.is_none_or(|own| own == user);
        let has_room = |card: &Card| card.is_shareable && card.tenancy.as_ref().is_some_and(Tenancy::has_room);
        let is_shared = |card: &Card| wish.share && has_room(card) && fits(card);
        let shared = self.cards.iter().position(is_shared);
        let free = || self.cards.iter().position(|card| card.tenancy.is_none() && fits(card));
        shared.or_else(free).ok_or_else(|| match introduced {
            Some(Introduced { card, .. }) => Refused::CardGone { card, last_offence: self.last_offence.clone() },
            None => self.why_no_card(wish.address, user),
        })
    }

    fn why_no_card(&self, address: Option<IpAddr>, user: u32) -> Refused {
        let named: Vec<&Card> = self.cards.iter().filter(|card| card.has(address)).collect();
        match (named.is_empty(), named.iter().any(|card| card.tenancy.is_none())) {
            (true, _) => {
                let own: Vec<String> =
                    self.cards.iter().flat_map(|card| &card.config.addresses).map(|(a, _)| a.to_string()).collect();
                Refused::NoSuchAddress(own.join(", "))
            }
            (false, true) => Refused::AnotherUsers(user),
            (false, false) => Refused::Occupied,
        }
    }

    /// How things are, as far as this user is concerned.
    fn status_for(&mut self, user: u32) -> NetCoreStatus {
        let sees_all = self.may_see_all(user);
        let mut cards = self.cards.iter_mut().filter(|card| sees_all || card.user == Some(user));
        let cards = cards.by_ref().map(Card::status).collect();
        let status = self.status_of(cards);
        // Whose service it was is nobody else's affair.
        if sees_all { status } else { NetCoreStatus { last_offence: String::new(), ..status } }
    }

    /// How things are.
    pub fn status(&mut self) -> NetCoreStatus {
        let cards = self.cards.iter_mut().map(Card::status).collect();
        self.status_of(cards)
    }

    fn status_of(&self, cards: Vec<CardStatus>) -> NetCoreStatus {
        NetCoreStatus {
            process: std::process::id(),
            uptime_s: self.clock.now().since(self.started).as_secs(),
            busy_ns: u64::try_from(self.busy.as_nanos()).unwrap_or(u64::MAX),
            confined: self.options.confined,
            processor: self.options.processor,
            cut_off: self.cut_off,
            last_offence: self.last_offence.clone(),
            strangers: self.strangers,
            cards,
        }
    }
}

/// Tells a stranger that it is one. What it has said is thrown away, so that it hears this.
fn turn_away(socket: &OwnedFd) {
    let user = Who::at(socket).map_or_else(|| "this user".to_owned(), |who| format!("user {}", who.user));
    let why = format!("this net core does not serve {user}: start it with --user");
    doorbell::silence(socket);
    let _ = send(socket.as_fd(), Reply::Refused(why), &[]);
}
