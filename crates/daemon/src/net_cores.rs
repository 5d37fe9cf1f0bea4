//! Net cores the daemon starts: one process for each processor of `[net] cores`. One that dies is started again at once;
//! services find it by asking the daemon again.
//!
//! A service's card is made by the service's own rule, on its user's account, and handed to the net core with a handle: when
//! the net core closes that, or dies, the card is gone. So there is nothing to tidy up, and nothing to tell.

use super::injectors::Opener;
use super::moves::Moves;
use super::vnic::Vnic;
use super::{Daemon, Event, Peer, Role, tables};
use qanat_control::net_core::{CardNumber, CardOrder, ORDER_BYTES_MAX, Order, SERVICE_MEMORY_BYTES, plan_of};
use qanat_control::protocol::{Answer, NetCoreState, Provider, QueueWish, StackWish, VnicStatus, VnicWish, send};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::MemoryPlan;
use qanat_nic::foreign::refuse_rights;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// A net core that dies sooner than this after its start is started again only then.
const SHORT_LIFE: Duration = Duration::from_millis(500);
/// One that has lived for so long has started.
const STARTED: Duration = Duration::from_secs(2);
/// So many starts on end that fail, and its cards are for others until one doesn't.
const FAILURES_MAX: u32 = 3;
/// Each further one doubles the time to the next start, so many times.
const DOUBLINGS_MAX: u32 = 3;
/// Frames to send headers and copied data from.
const TRANSMIT_FRAMES: u32 = 8_192;

/// How long one that has been killed may keep its cards: the kernel tells of their end when it ends.
const DYING_PATIENCE: Duration = Duration::from_secs(1);
/// How long the daemon's own end waits for theirs.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Starts a net core for a processor, which takes its orders from the socket.
pub type Starter = Box<dyn Fn(u32, OwnedFd) -> io::Result<Child> + Send>;

/// What a net core is to its processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Started for it, and started again.
    AtHome,
    /// Removed from another, this one: it takes no more cards, and ends when its own have moved.
    Guest(u32),
    /// It has ended, and is not started again: its place is the next one's.
    Gone,
}

/// One net core.
pub(super) struct NetCore {
    pub(super) processor: u32,
    pub(super) standing: Standing,
    /// Its process and our end of its socket; `None`: to be started again, if it is at home.
    pub(super) running: Option<(Child, OwnedFd)>,
    pub(super) started: Instant,
    restarts: u64,
    /// Starts on end that failed.
    failures: u32,
    /// Queues of VNICs that it serves.
    pub(super) cards: Vec<CardNumber>,
    /// Of these, those whose services share them.
    pub(super) shared: Vec<CardNumber>,
    /// Those that have come from other net cores.
    pub(super) cards_moved: u64,
}

impl NetCore {
    /// Not yet running.
    pub(super) fn new(processor: u32) -> NetCore {
        NetCore {
            processor,
            standing: Standing::AtHome,
            running: None,
            started: Instant::now(),
            restarts: 0,
            failures: 0,
            cards: Vec::new(),
            shared: Vec::new(),
            cards_moved: 0,
        }
    }

    /// The processor it was started for.
    pub(super) fn home(&self) -> u32 {
        if let Standing::Guest(from) = self.standing { from } else { self.processor }
    }

    pub(super) fn is_at_home(&self) -> bool {
        self.standing == Standing::AtHome
    }

    /// Whether it dies at each start: it is not waited for.
    fn is_failing(&self) -> bool {
        self.failures >= FAILURES_MAX
    }

    /// Whether it can be given cards.
    pub(super) fn takes_cards(&self) -> bool {
        self.is_at_home() && self.running.is_some() && !self.is_failing()
    }

    /// When, after its last start, it is to be started again.
    fn pause(&self) -> Duration {
        SHORT_LIFE * (1 << self.failures.saturating_sub(FAILURES_MAX).min(DOUBLINGS_MAX))
    }

    /// How many of a VNIC's queues it serves.
    fn queues_of(&self, vnic: u32) -> usize {
        self.cards.iter().filter(|card| card.vnic == vnic).count()
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct NetCores {
    starter: Option<Starter>,
    /// Numbered: places are not moved.
    pub(super) cores: Vec<NetCore>,
    pub(super) moves: Moves,
    /// What net cores hold VNICs by: the card of each handle's token. A VNIC of several queues has several.
    handles: HashMap<u64, CardNumber>,
    /// Processes that have been told to die. Nobody waits for one: it may hang in the kernel.
    dying: Vec<Dying>,
}

/// A net core that is to be no more.
struct Dying {
    child: Child,
    since: Instant,
    /// Numbers of the handles it may still hold.
    handles: Vec<u64>,
    /// What is to be said of its end.
    event: Option<Event>,
}

impl NetCores {
    /// A VNIC is gone.
    pub(super) fn forget_vnic(&mut self, slot: u32) {
        self.forget(|card| card.vnic == slot);
    }

    /// A handle is closed: if it was a net core's, that one has the card no more. Others may have other queues of the VNIC.
    pub(super) fn handle_closed(&mut self, token: u64) {
        // By a net core started again it may be had by another handle already.
        let Some(card) = self.handles.remove(&token) else { return };
        if !self.handles.values().any(|other| *other == card) {
            self.forget(|other| *other == card);
        }
    }

    fn forget(&mut self, is_gone: impl Fn(&CardNumber) -> bool) {
        self.cores.iter_mut().for_each(|core| {
            core.cards.retain(|card| !is_gone(card));
            core.shared.retain(|card| !is_gone(card));
        });
        self.moves.forget(is_gone);
    }

    /// Whether one is to be started again, or to be seen to live.
    pub(super) fn is_one_missing(&self) -> bool {
        self.cores.iter().any(|core| core.is_at_home() && (core.running.is_none() || core.failures > 0))
    }

    /// Has a net core's process end, which has these cards. `event`: said when it has, with how.
    pub(super) fn end(&mut self, mut child: Child, cards: &[CardNumber], event: Event) {
        let _ = child.kill();
        let held = self.handles.iter().filter(|(_, card)| cards.contains(card));
        let handles = held.map(|(token, _)| *token).collect();
        self.dying.push(Dying { child, since: Instant::now(), handles, event: Some(event) });
    }

    /// Whether a process has been killed and is still there.
    pub(super) fn is_one_dying(&self) -> bool {
        !self.dying.is_empty()
    }

    pub(super) fn states(&self) -> Vec<NetCoreState> {
        let state = |core: &NetCore| NetCoreState {
            processor: core.processor,
            process: core.running.as_ref().map_or(0, |(child, _)| child.id()),
            uptime_s: core.started.elapsed().as_secs(),
            restarts: core.restarts,
            is_failing: core.is_failing(),
            vnics: core.cards.iter().map(|card| card.vnic).collect(),
            queues: core.cards.iter().map(|card| card.queue).collect(),
            cards_moved: core.cards_moved,
            removed_from: if let Standing::Guest(from) = core.standing { Some(from) } else { None },
        };
        self.cores.iter().filter(|core| core.standing != Standing::Gone).map(state).collect()
    }
}

/// Whether a service may have that queue of such a card on a net core.
fn check_queue(card: &VnicWish, queue: u32) -> Result<(), String> {
    if queue >= card.queues {
        return Err(format!("a card of {} queues, from 0, has no queue {queue}", card.queues));
    }
    if card.queues > 1 && (card.priority_queues > 0 || card.provider != Provider::Veth) {
        return Err("several queues on net cores are a virtual card's, and none is high-priority".to_owned());
    }
    Ok(())
}

/// It ends with the daemon, whatever it is doing; if it hangs in the kernel, after it.
impl Drop for NetCores {
    fn drop(&mut self) {
        let mut children: Vec<Child> = std::mem::take(&mut self.dying).into_iter().map(|dying| dying.child).collect();
        for (mut child, socket) in self.cores.iter_mut().filter_map(|core| core.running.take()) {
            drop(socket);
            let _ = child.kill();
            children.push(child);
        }
        let begun = Instant::now();
        while !children.is_empty() && begun.elapsed() < LAST_PATIENCE {
            children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Daemon {
    /// Starts the net cores of the policy.
    ///
    /// # Errors
    /// What the system says.
    pub fn start_net_cores(&mut self, starter: Starter) -> Result<(), String> {
        self.net_cores.starter = Some(starter);
        for processor in self.policy.net.cores.clone() {
            self.net_cores.cores.push(NetCore::new(processor));
            self.start_net_core(self.net_cores.cores.len() - 1)?;
        }
        Ok(())
    }

    pub(super) fn start_net_core(&mut self, index: usize) -> Result<(), String> {
        let Some(core) = self.net_cores.cores.get_mut(index) else { return Ok(()) };
        let Some(starter) = &self.net_cores.starter else { return Ok(()) };
        let say = |error| tables::say("start a net core", error);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, its) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).map_err(say)?;
        // Orders wait here while it starts.
        sockopt::set_socket_send_buffer_size(&ours, 64 * ORDER_BYTES_MAX).map_err(say)?;
        let watched = ours.try_clone().map_err(|error| tables::say("start a net core", error))?;
        core.started = Instant::now();
        let child = starter(core.processor, its).map_err(|error| tables::say("start a net core", error))?;
        let peer = Peer::new(0, 0, i32::try_from(child.id()).unwrap_or(0));
        core.running = Some((child, ours));
        let text = format!("processor {}", core.processor);
        self.watch(watched, Role::NetCore(index), peer, None)?;
        (self.log)(&Event::new("net-core-start", "done", text).by(peer));
        Ok(())
    }

    /// Handles a dying net core held may be closed before its socket is: a look at that comes first.
    pub(super) fn look_for_dead_net_cores(&mut self) {
        let sockets = self.endpoints.iter().filter_map(|(token, endpoint)| match endpoint.role {
            Role::NetCore(index) => Some((*token, index, &endpoint.fd)),
            _ => None,
        });
        let is_closed = |fd: &OwnedFd| {
            let mut looked = [PollFd::new(fd, PollFlags::RDHUP)];
            matches!(poll(&mut looked, Some(&Timespec::default())), Ok(1..))
        };
        let dead: Vec<(u64, usize)> =
            sockets.filter(|(.., fd)| is_closed(fd)).map(|(token, index, _)| (token, index)).collect();
        for (token, index) in dead {
            // What it said last counts.
            self.attend_net_core(token, index);
        }
    }

    /// A net core says something, or is gone.
    pub(super) fn attend_net_core(&mut self, token: u64, index: usize) {
        let socket = self.endpoints.get(&token).and_then(|endpoint| endpoint.fd.try_clone().ok());
        if !socket.is_some_and(|socket| self.hear_net_core(&socket, index)) {
            self.net_core_ended(token, index);
        }
    }

    /// Its socket says that a net core is gone.
    fn net_core_ended(&mut self, token: u64, index: usize) {
        self.close(token);
        let Some(core) = self.net_cores.cores.get_mut(index) else { return };
        let Some((child, _socket)) = core.running.take() else { return };
        // It has closed its socket: it is dead, or of no use.
        self.end_moves_of(index);
        let Some(core) = self.net_cores.cores.get_mut(index) else { return };
        let cards = std::mem::take(&mut core.cards);
        core.shared.clear();
        let text = match core.standing {
            Standing::AtHome => {
                core.restarts += 1;
                core.failures = if core.started.elapsed() < STARTED { core.failures + 1 } else { 0 };
                format!("processor {}, started again for the {}. time", core.processor, core.restarts)
            }
            _ => {
                core.standing = Standing::Gone;
                format!("a guest on processor {}", core.processor)
            }
        };
        self.net_cores.end(child, &cards, Event::new("net-core-end", "failed", text));
        self.tell_of_failing(index);
        self.look_after_net_cores();
    }

    /// Sees to processes that have been killed: they are given their time, but not their cards.
    pub(super) fn look_after_dying(&mut self) {
        let mut left = Vec::new();
        for mut dying in std::mem::take(&mut self.net_cores.dying) {
            let how = match dying.child.try_wait() {
                Ok(Some(status)) => Some(status.to_string()),
                Ok(None) if dying.since.elapsed() < DYING_PATIENCE => None,
                Ok(None) => Some("it has been killed, and hangs in the kernel".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            let Some(how) = how else {
                left.push(dying);
                continue;
            };
            if let Some(event) = dying.event.take() {
                (self.log)(&Event { detail: format!("{}: {how}", event.detail), ..event });
            }
            if matches!(dying.child.try_wait(), Ok(None)) {
                // It holds them for nothing: their addresses are for whoever asks.
                std::mem::take(&mut dying.handles).into_iter().for_each(|token| self.close(token));
                left.push(dying);
            }
        }
        self.net_cores.dying.extend(left);
    }

    /// Says, once, that a net core is not waited for any more.
    fn tell_of_failing(&self, index: usize) {
        if let Some(core) = self.net_cores.cores.get(index).filter(|core| core.failures == FAILURES_MAX) {
            let text = format!(
                "processor {}: it dies at each start: its cards are for others until it does not",
                core.processor
            );
            (self.log)(&Event::new("net-core-fail", "failed", text));
        }
    }

    /// Starts net cores again that have died, but for one that died at once.
    pub(super) fn look_after_net_cores(&mut self) {
        self.end_idle_guests();
        if self.has_guests() {
            self.move_cards_of_guests(false);
        }
        let which = |wanted: &dyn Fn(&NetCore) -> bool| -> Vec<usize> {
            let all = self.net_cores.cores.iter().enumerate();
            all.filter(|(_, core)| core.is_at_home() && wanted(core)).map(|(index, _)| index).collect()
        };
        let due = which(&|core| core.running.is_none() && core.started.elapsed() >= core.pause());
        let lives = |core: &NetCore| core.running.is_some() && core.started.elapsed() >= STARTED;
        let recovered = which(&|core| core.failures > 0 && lives(core));
        for index in due {
            if let Err(error) = self.start_net_core(index) {
                if let Some(core) = self.net_cores.cores.get_mut(index) {
                    core.started = Instant::now();
                    core.failures += 1;
                }
                (self.log)(&Event::new("net-core-start", "failed", error));
                self.tell_of_failing(index);
            }
        }
        for index in recovered {
            let Some(core) = self.net_cores.cores.get_mut(index) else { continue };
            if std::mem::take(&mut core.failures) >= FAILURES_MAX {
                let text = format!("processor {}: it lives again, and has cards of others", core.processor);
                self.share_cards_with(index);
                (self.log)(&Event::new("net-core-fail", "done", text));
            }
        }
    }

    /// Gives a service a card on the net core that has the fewest: a socket to it.
    pub(super) fn attach_net_core(
        &mut self,
        peer: Peer,
        card: VnicWish,
        stack: StackWish,
    ) -> Result<(Answer, Vec<OwnedFd>), Refusal> {
        if self.net_cores.cores.is_empty() {
            return Ok((Answer::Done, Vec::new()));
        }
        let card = VnicWish { persistent: false, queues: card.queues.max(1), ..card };
        check_queue(&card, stack.queue)?;
        if let Some((index, number)) = stack.share.then(|| self.card_to_share(peer, &card, stack.queue)).flatten() {
            self.check_service_memory(peer, 0)?;
            let socket = self.hand_service(index, number, peer)?;
            return Ok((Answer::Done, vec![socket]));
        }
        let begun = self.vnic_begun(peer, &card, stack.share);
        let index = self.choose_net_core(peer, &stack, begun)?;
        let wish = self.queue_wish(stack.queue, card.mtu);
        self.check_service_memory(peer, plan_of(wish).length() as u64)?;
        let (answer, handles) = match begun {
            Some(slot) => self.give_vnic(peer, slot)?,
            None => self.create_vnic(peer, card)?,
        };
        let (Answer::Vnic(status), [handle]) = (answer, handles.as_slice()) else {
            return Err("no card was made".into());
        };
        let number = CardNumber { vnic: status.vnic, queue: stack.queue };
        // From here on the handle's end is the card's.
        let token = self.token_of(handle)?;
        self.net_cores.handles.insert(token, number);
        let is_shared = stack.share;
        self.hand_card(index, &status, handle, stack)?;
        if let Some(core) = self.net_cores.cores.get_mut(index) {
            core.cards.push(number);
            core.shared.extend(is_shared.then_some(number));
        }
        let socket = self.hand_service(index, number, peer)?;
        Ok((Answer::Done, vec![socket]))
    }

    /// The VNIC of several queues of which this process has had another queue handed to a net core, or one that shares it.
    fn vnic_begun(&self, peer: Peer, wish: &VnicWish, share: bool) -> Option<u32> {
        let is_on = |slot: u32, shared: bool| {
            let lists = self.net_cores.cores.iter().map(|core| if shared { &core.shared } else { &core.cards });
            lists.flatten().any(|card| card.vnic == slot)
        };
        let is_it = |vnic: &&Vnic| {
            let own = &vnic.wish;
            wish.queues > 1
                && vnic.user == peer.user
                && (&own.addresses, &own.services, own.queues) == (&wish.addresses, &wish.services, wish.queues)
                && ((vnic.process == peer.process && is_on(vnic.slot, false)) || (share && is_on(vnic.slot, true)))
        };
        self.vnics.values().find(is_it).map(|vnic| vnic.slot)
    }

    /// The net core with the fewest cards, of those where the service is not yet. Of a VNIC some of whose queues are on net cores
    /// already (`begun`): one that has the fewest of these.
    fn choose_net_core(&self, peer: Peer, stack: &StackWish, begun: Option<u32>) -> Result<usize, String> {
        let is_its = |card: &CardNumber| {
            let vnic = self.vnics.get(&card.vnic).filter(|vnic| vnic.user == peer.user);
            let first = vnic.and_then(|vnic| vnic.wish.addresses.first());
            first.is_some_and(|(address, _)| stack.apart_from.contains(address))
        };
        let number = begun.map(|vnic| CardNumber { vnic, queue: stack.queue });
        if let Some(number) = number.filter(|number| self.net_cores.cores.iter().any(|c| c.cards.contains(number))) {
            return Err(format!("card {number} is served already: it is given up in a moment, or another's"));
        }
        let at_home = || self.net_cores.cores.iter().enumerate().filter(|(_, core)| core.is_at_home());
        let (running, failing) =
            (at_home().filter(|(_, core)| core.takes_cards()), at_home().filter(|(_, core)| core.is_failing()).count());
        let siblings = |core: &NetCore| begun.map_or(0, |vnic| core.queues_of(vnic));
        let is_taken = |core: &NetCore| core.cards.iter().any(is_its);
        let best = running.clone().min_by_key(|(_, core)| (is_taken(core), siblings(core), core.cards.len()));
        // Better one that may die than none.
        let best = best.or_else(|| at_home().find(|(_, core)| core.running.is_some()));
        let Some((index, core)) = best else {
            return Err("all net cores have died just now: they are started again in a moment".to_owned());
        };
        let count = running.count();
        // For one that dies at each start another stands in.
        if is_taken(core) && failing == 0 {
            return Err(format!(
                "the service is on each of the {count} net cores already: ask for fewer (--net-cores)"
            ));
        }
        // The place of the one that has just died is not to be filled up by its neighbour.
        match siblings(core) > 0 && count + failing < at_home().count() {
            true => Err("a net core has died just now: it is started again in a moment".to_owned()),
            false => Ok(index),
        }
    }

    /// The net core and the number of a card that this one may share.
    fn card_to_share(&self, peer: Peer, wish: &VnicWish, queue: u32) -> Option<(usize, CardNumber)> {
        let is_it = |card: &&CardNumber| {
            let vnic = self.vnics.get(&card.vnic).filter(|vnic| vnic.user == peer.user && card.queue == queue);
            vnic.is_some_and(|vnic| {
                let own = &vnic.wish;
                let is_alike = own.addresses.first() == wish.addresses.first() && own.services == wish.services;
                is_alike && own.queues == wish.queues
            })
        };
        let cores = self.net_cores.cores.iter().enumerate().filter(|(_, core)| core.running.is_some());
        cores.into_iter().find_map(|(index, core)| Some((index, *core.shared.iter().find(is_it)?)))
    }

    /// The queue of a net core's card.
    fn queue_wish(&self, queue: u32, mtu: u32) -> QueueWish {
        QueueWish {
            queue,
            frame_size: MemoryPlan::frame_size_for(mtu),
            receive_frames: self.policy.net.frames,
            transmit_frames: TRANSMIT_FRAMES,
            prepared_frames: 0,
        }
    }

    /// Makes memory for a card, opens its queue over it, and gives both to a net core.
    fn hand_card(
        &mut self,
        index: usize,
        status: &VnicStatus,
        handle: &OwnedFd,
        stack: StackWish,
    ) -> Result<(), Refusal> {
        let queue = self.queue_wish(stack.queue, status.mtu);
        let memory = plan_of(queue).allocate_lendable();
        let (_mapped_until_registered, files) = memory.map_err(|error| tables::say("make frame memory", error))?;
        let (receive, rest) = (files.receive.as_fd(), files.rest.as_fd());
        let owned =
            |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|error| tables::say("keep a descriptor", error));
        let (answer, beside) =
            self.open_queue(status.vnic, queue, &[owned(receive)?, owned(rest)?], Opener::NetCore)?;
        let Answer::Queue(opened) = answer else { return Err("no queue was opened".into()) };
        let mut gateways: Vec<IpAddr> = stack.gateway.into_iter().collect();
        if gateways.is_empty() {
            gateways.clone_from(&status.gateways);
        }
        let card = CardOrder {
            number: CardNumber { vnic: status.vnic, queue: stack.queue },
            queues: status.queues,
            addresses: status.addresses.clone(),
            gateways,
            shared: status.shared,
            mac: status.mac,
            mtu: status.mtu,
            interface: status.interface.clone(),
            driver: status.driver.clone(),
            maximum_segment: stack.maximum_segment,
            queue: opened,
        };
        self.order(index, Order::Memory(queue), &[handle.as_fd(), receive, rest])?;
        let beside: Vec<BorrowedFd<'_>> = beside.iter().map(AsFd::as_fd).collect();
        Ok(self.order(index, Order::Card(Box::new(card)), &beside)?)
    }

    /// Introduces a service to the net core that has its card: the service's end of their socket. The memory that the net core
    /// makes for it is the user's, until the net core gives it back or dies.
    fn hand_service(&mut self, index: usize, card: CardNumber, peer: Peer) -> Result<OwnedFd, String> {
        let pair = || {
            let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
            pair.map_err(|error| tables::say("make a pair of sockets", error))
        };
        let ((services, its), (lease, its_lease)) = (pair()?, pair()?);
        // The net core serves others, too: it is not to close what this one sends. Before Linux 6.16 it can't be helped.
        let _ = refuse_rights(its.as_fd());
        let token = self.watch(lease, Role::Lease, peer, None)?;
        self.charges.lease(token, peer.account(), SERVICE_MEMORY_BYTES);
        let order = Order::Service { card, user: peer.user, process: peer.process };
        // Not taken, it is closed here, and the lease is over.
        self.order(index, order, &[its.as_fd(), its_lease.as_fd()])?;
        Ok(services)
    }

    /// Whether the user may have the memory of one more service, and so many bytes for its card.
    fn check_service_memory(&mut self, peer: Peer, card_bytes: u64) -> Result<(), Refusal> {
        let rule = self.rule(peer)?;
        self.charges.settle(&self.state, peer.account());
        let left = (rule.memory_mib << 20).saturating_sub(self.charges.of(peer.account()));
        if left >= SERVICE_MEMORY_BYTES + card_bytes {
            return Ok(());
        }
        let text = format!(
            "rule \"{}\" allows {} MiB of memory, of which {} are left, and a service on a net core takes {}, its card {}: have \
             fewer services or app cores (--app-cores), or raise memory_mib",
            rule.name,
            rule.memory_mib,
            left >> 20,
            SERVICE_MEMORY_BYTES >> 20,
            card_bytes.div_ceil(1 << 20),
        );
        Err(Refusal::new(Cause::Full, text))
    }

    /// Says something to a net core. One that does not listen is not waited for.
    pub(super) fn order(&self, index: usize, order: Order, beside: &[BorrowedFd<'_>]) -> Result<(), String> {
        let core = self.net_cores.cores.get(index).ok_or("there is no such net core")?;
        let (_, socket) = core.running.as_ref().ok_or("the net core has just died: it is started again in a moment")?;
        send(socket.as_fd(), order, beside)
            .map_err(|fault| format!("the net core on processor {} takes no orders: {fault}", core.processor))
    }
}
