//! A net core: the loop that runs the stacks of others, one for each of its cards.

use crate::runtime::SpinPolicy;
use crate::runtime::spin::Spin;
use crate::split::bell;
use crate::split::handshake::{
    Attach, Attached, CONNECTIONS_MAX, CardStatus, LARGE_BLOCK_BYTES, MESSAGE_BYTES_MAX, NetCoreStatus, Reply,
    SMALL_BLOCK_BYTES, Wish,
};
use crate::split::migration::moving::Moves;
use crate::split::net_core::accept::AcceptPolicy;
use crate::split::net_core::card_end::Holder;
use crate::split::net_core::director::Director;
use crate::split::net_core::lending::{COPIES, COPY_BYTES, Copies};
use crate::split::net_core::tenancy::Tenancy;
use crate::split::net_core::tenant::{Extent, Offence, Tenant};
use qanat_control::net_core::{CardNumber, CardOrder, SERVICE_MEMORY_BYTES};
use qanat_control::protocol::{Fault, receive, send};
use qanat_nic::foreign::refuse_rights;
use qanat_nic::{Clock, Frame, LendableFiles, MemoryPlan, MonotonicClock, Time, Vnic};
use qanat_stack::{Config, Stack};
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
/// How long they may take.
const PENDING_PATIENCE: Duration = Duration::from_secs(2);
/// A service that takes no events is looked at again after this: nobody rings when it has taken some.
const HELD_BACK_WAIT: Duration = Duration::from_millis(1);
/// While cards move, their patience is looked at so often.
const MOVES_LOOKED_AT: Duration = Duration::from_millis(10);
/// Longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// A card of a net core: a queue whose received frames can be lent.
pub struct Card {
    pub(crate) vnic: Box<dyn Vnic>,
    pub(crate) received: OwnedFd,
    /// For small messages that services keep. Theirs who have the card: one user's.
    pub(crate) copies: Copies,
    pub(crate) config: Config,
    pub(crate) plan: MemoryPlan,
    pub(crate) interface: String,
    pub(crate) driver: String,
    /// Of the first service it had: its frames may still be mapped by that user's processes, so it serves no other's.
    pub(crate) user: Option<u32>,
    pub(crate) services: u64,
    /// The present service, or services.
    pub(crate) tenancy: Option<Tenancy>,
    /// It shares the card with others that want it so.
    pub(crate) is_shareable: bool,
    /// Whether its link is there.
    pub(crate) is_up: Option<Box<dyn Fn() -> bool>>,
    /// Of the present stack.
    pub(crate) connections_max: u32,
    pub(crate) handed: Option<Handed>,
    /// Of one that was not handed over.
    pub(crate) holder: Holder,
}

/// What is special about a card the daemon has handed over.
pub(crate) struct Handed {
    /// Its number there.
    pub(crate) number: CardNumber,
    pub(crate) since: Time,
    pub(crate) order: CardOrder,
    /// Frames that are not received into.
    pub(crate) rest: OwnedFd,
    /// Closed by all who have it, the card is given up.
    pub(crate) handle: OwnedFd,
}

impl Card {
    /// A queue opened over lendable memory of `plan`; no more writers are let to its received frames from here on.
    ///
    /// # Errors
    /// What sealing says.
    pub fn new(
        vnic: Box<dyn Vnic>,
        files: &LendableFiles,
        plan: MemoryPlan,
        config: Config,
        interface: &str,
        driver: &str,
    ) -> io::Result<Card> {
        files.seal_receive()?;
        Ok(Card {
            vnic,
            received: files.receive.try_clone()?,
            copies: Copies::new(COPIES)?,
            config,
            plan,
            interface: interface.to_owned(),
            driver: driver.to_owned(),
            user: None,
            services: 0,
            tenancy: None,
            is_shareable: false,
            is_up: None,
            connections_max: 0,
            handed: None,
            holder: Holder::Own,
        })
    }

    /// The net core ends when `is_up` says that the card's link is gone.
    pub fn while_up(mut self, is_up: impl Fn() -> bool + 'static) -> Card {
        self.is_up = Some(Box::new(is_up));
        self
    }

    /// It is the daemon's, by whose order it was opened, until `handle` is closed.
    pub(crate) fn handed(mut self, order: CardOrder, handle: OwnedFd, rest: OwnedFd, now: Time) -> Card {
        self.handed = Some(Handed { number: order.number, since: now, order, rest, handle });
        self
    }

    /// Whether it is of no use any more: a card made for a service that has gone, or never came.
    fn is_done(&self, now: Time) -> bool {
        let waits = |handed: &Handed| self.services == 0 && now.since(handed.since) < PENDING_PATIENCE;
        self.tenancy.is_none() && self.handed.as_ref().is_some_and(|handed| !waits(handed))
    }

    fn is_for(&self, introduced: Option<Introduced>) -> bool {
        self.handed.as_ref().map(|handed| handed.number) == introduced.map(|introduced| introduced.card)
    }

    fn has(&self, address: Option<IpAddr>) -> bool {
        address.is_none_or(|address| self.config.addresses.iter().any(|(own, _)| *own == address))
    }

    /// The end of its services, whatever it was. What still arrives for them is thrown away when the next one comes.
    pub(crate) fn end_services(&mut self, now: Time) {
        if let Some(tenancy) = self.tenancy.take() {
            tenancy.end(now, self.vnic.as_mut());
        }
    }

    /// With its last service the stack goes, too.
    fn end_if_empty(&mut self, now: Time) {
        if self.tenancy.as_ref().is_some_and(Tenancy::is_empty) {
            self.end_services(now);
        }
    }

    /// A stack for a service that is the first.
    fn open_stack(
        &mut self,
        wish: &Attach,
        policy: AcceptPolicy,
        scratch: &mut Vec<Frame>,
        now: Time,
    ) -> Result<(), String> {
        // What came when nobody was there is nobody's.
        for _ in 0..64 {
            if self.vnic.receive(scratch, 256) == 0 {
                break;
            }
            scratch.clear();
        }
        let mut config = self.config.clone();
        config.connections_max = wish.connections.clamp(1, CONNECTIONS_MAX) as usize;
        if let Some((first, last)) = wish.ephemeral_ports {
            if first == 0 || first > last {
                return Err(format!("no ports: {first} to {last}"));
            }
            config.ephemeral_ports = first..=last;
        }
        let seed = crate::entropy().map_err(|error| format!("no entropy: {error}"))?;
        // Once for all queues of a card.
        let is_first = config.queue_share.is_none_or(|share| share.queue == 0);
        let announces = is_first && !config.shared_address;
        self.connections_max = config.connections_max as u32;
        let mut stack = Stack::new(config, seed, self.vnic.as_ref(), now);
        if announces {
            // Its peers may have asked before it was there, or know another by that address.
            stack.announce(self.vnic.as_mut());
        }
        self.is_shareable = wish.share;
        self.tenancy = Some(Tenancy::new(stack, policy));
        Ok(())
    }

    fn status(&mut self) -> CardStatus {
        let vnic = self.vnic.as_ref();
        let mut services = self.tenancy.as_mut().map(|tenancy| tenancy.status(vnic)).unwrap_or_default().into_iter();
        CardStatus {
            addresses: self.config.addresses.clone(),
            interface: self.interface.clone(),
            queue: self.config.queue_share.map_or(0, |share| share.queue),
            queues: self.config.queue_share.map_or(1, |share| share.queues),
            services: self.services,
            service: services.next(),
            sharing: services.collect(),
        }
    }
}

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

/// Who is at the other end of a socket.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub user: u32,
    pub process: i32,
}

impl Who {
    fn at(socket: &OwnedFd) -> Option<Who> {
        let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
        Some(Who { user: peer.uid.as_raw(), process: peer.pid.as_raw_nonzero().get() })
    }
}

/// Whom the daemon has introduced.
#[derive(Clone, Copy)]
pub(crate) struct Introduced {
    pub card: CardNumber,
    pub user: u32,
    pub process: i32,
}

/// Who has connected and not yet said why.
pub(crate) struct Pending {
    pub socket: OwnedFd,
    pub since: Time,
    /// It may be served, not only told how things are.
    pub may_attach: bool,
    pub introduced: Option<Introduced>,
    /// Closed, the daemon charges nobody for the service's memory any more.
    pub lease: Option<OwnedFd>,
    /// Has connected, and is this.
    pub who: Option<Who>,
}

impl Pending {
    /// The service that a net core is for alone.
    fn owner(socket: OwnedFd, since: Time) -> Pending {
        let who = Who::at(&socket);
        Pending { socket, since, may_attach: true, introduced: None, lease: None, who }
    }
}

/// The net core.
pub struct NetCore {
    pub(crate) cards: Vec<Card>,
    listener: Option<OwnedFd>,
    pub(crate) pending: Vec<Pending>,
    pub(crate) director: Option<Director>,
    /// Started by one service for itself: its end is ours.
    is_private: bool,
    options: NetCoreOptions,
    pub(crate) clock: MonotonicClock,
    started: Time,
    /// Cards that come and go.
    pub(crate) moves: Moves,
    cut_off: u64,
    /// Those who connected and are no user of it.
    strangers: u64,
    pub(crate) last_offence: String,
    /// Time in turns in which something happened.
    busy: Duration,
    looked_at: Time,
    pub(crate) cards_looked_at: Time,
    scratch: Vec<Frame>,
    /// Another net core is at home on its processor, and its cards are about to move.
    is_guest: bool,
}

impl NetCore {
    /// A net core for whoever connects to `listener` (a `SOCK_SEQPACKET` Unix socket).
    /// Made before the process is confined: see [`NetCore::takes_no_rights`].
    pub fn listening(cards: Vec<Card>, listener: OwnedFd, options: NetCoreOptions) -> NetCore {
        NetCore::new(cards, Some(listener), options)
    }

    /// Others' descriptors are never to come here: to close one takes as long as whoever sent it likes, and every service of this
    /// net core would wait. Who is accepted at a listener has it from that. Before Linux 6.16 it can't be helped.
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

    /// A net core that has its cards and services from whoever is at the other end of `director`
    /// ([`Order`](qanat_control::net_core::Order)), and ends with it.
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

    pub(crate) fn is_placed(&mut self, processor: u32, is_guest: bool) {
        (self.options.processor, self.is_guest) = (Some(processor), is_guest);
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
        self.look_at_cards(now)?;
        self.cards.retain(|card| !card.is_done(now));
        if first_director < first_pending && is_ready(first_director) && !self.take_orders(now) {
            return Ok(false);
        }
        self.look_at_moves(now);
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
            Ok((Wish::Attach(_), _)) if !may_attach => {
                Err("this net core is one service's own, or the daemon's, which is to be asked".to_owned())
            }
            Ok((Wish::Attach(wish), _)) => self.attach(&socket, wish, (introduced, who), lease, now),
            Err(Fault::Empty) => {
                self.pending.push(Pending { socket, since, may_attach, introduced, lease, who });
                return;
            }
            Err(fault) => Err(fault.to_string()),
        };
        if let Err(why) = outcome {
            drop(send(socket.as_fd(), Reply::Refused(why), &[]));
        }
    }

    /// User and process of a service, if it may be served.
    fn identify(&self, introduced: Option<Introduced>, who: Option<Who>) -> Result<(u32, i32), String> {
        if let Some(Introduced { user, process, .. }) = introduced {
            return Ok((user, process));
        }
        let Who { user, process } = who.ok_or("who is it?")?;
        if user != 0 && !self.is_private && !self.options.users.contains(&user) {
            return Err(format!("this net core does not serve user {user}: start it with --user {user}"));
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
    ) -> Result<(), String> {
        if let Some(mismatch) = wish.mismatch() {
            return Err(mismatch);
        }
        let (user, process) = self.identify(introduced, who)?;
        let index = self.find_card(&wish, introduced, user)?;
        let card = self.cards.get_mut(index).ok_or("no such card")?;
        if card.tenancy.is_none() {
            card.open_stack(&wish, self.options.accept, &mut self.scratch, now)?;
        }
        let name: String = wish.name.chars().filter(|letter| !letter.is_control()).take(64).collect();
        let outcome = admit(card, socket, (name, process, user), lease);
        card.end_if_empty(now);
        outcome
    }

    /// The card for a service: one it shares, or one that is free.
    fn find_card(&self, wish: &Attach, introduced: Option<Introduced>, user: u32) -> Result<usize, String> {
        let fits =
            |card: &Card| card.is_for(introduced) && card.has(wish.address) && card.user.is_none_or(|own| own == user);
        let has_room = |card: &Card| card.is_shareable && card.tenancy.as_ref().is_some_and(Tenancy::has_room);
        let is_shared = |card: &Card| wish.share && has_room(card) && fits(card);
        let shared = self.cards.iter().position(is_shared);
        let free = || self.cards.iter().position(|card| card.tenancy.is_none() && fits(card));
        shared.or_else(free).ok_or_else(|| match introduced {
            Some(Introduced { card, .. }) => format!("there is no card {card} here ({})", self.last_offence),
            None => self.why_no_card(wish.address, user),
        })
    }

    fn why_no_card(&self, address: Option<IpAddr>, user: u32) -> String {
        let named: Vec<&Card> = self.cards.iter().filter(|card| card.has(address)).collect();
        match (named.is_empty(), named.iter().find(|card| card.tenancy.is_none())) {
            (true, _) => {
                let own: Vec<String> =
                    self.cards.iter().flat_map(|card| &card.config.addresses).map(|(a, _)| a.to_string()).collect();
                format!("no card has that address; those there are: {}", own.join(", "))
            }
            (false, Some(_)) => format!(
                "the free card was another user's before, who may still read what it receives; user {user} needs one of \
                 its own"
            ),
            (false, None) => "every such card has a service already, and they do not share it (--share)".to_owned(),
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
    bell::silence(socket);
    let _ = send(socket.as_fd(), Reply::Refused(why), &[]);
}

/// Makes a service's memory, tells it, and lets it have its share of a card.
fn admit(card: &mut Card, socket: &OwnedFd, who: (String, i32, u32), lease: Option<OwnedFd>) -> Result<(), String> {
    let (user, own) = (who.2, socket.try_clone().map_err(|error| error.to_string())?);
    const USUAL: Extent = Extent::usual(0);
    const _: () = assert!(USUAL.bytes() + COPIES as u64 * COPY_BYTES as u64 <= SERVICE_MEMORY_BYTES);
    const _: () = assert!(
        (USUAL.small_blocks as u64 * SMALL_BLOCK_BYTES as u64 + USUAL.large_blocks as u64 * LARGE_BLOCK_BYTES as u64)
            < 1 << 32
    );
    let (mut tenant, handed) = Tenant::new(own, who, Extent::usual(card.plan.receive_frames), lease)
        .map_err(|error| format!("memory for the service: {error}"))?;
    let capabilities = card.vnic.capabilities();
    let attached = Attached {
        addresses: card.config.addresses.clone(),
        mac: capabilities.mac.0,
        mtu: capabilities.mtu,
        interface: card.interface.clone(),
        driver: card.driver.clone(),
        receive_frames: card.plan.receive_frames,
        frame_size: card.plan.frame_size,
        small_blocks: USUAL.small_blocks,
        large_blocks: USUAL.large_blocks,
        connections: card.connections_max,
        copies: card.copies.count(),
    };
    tenant.use_copies(&card.copies);
    let (received, copies) = (card.received.as_fd(), card.copies.file());
    let files = [handed.control.as_fd(), received, handed.small.as_fd(), handed.large.as_fd(), copies];
    send(socket.as_fd(), Reply::Attached(Box::new(attached)), &files).map_err(|fault| fault.to_string())?;
    card.user = Some(user);
    card.services += 1;
    if let Some(tenancy) = &mut card.tenancy {
        tenancy.enter(tenant);
    }
    Ok(())
}
