//! A service's card on a net core.

use crate::cards::vnic::Vnic;
use crate::clients::peer::{Peer, Role};
use crate::daemon::Daemon;
use crate::error::{DaemonError, say};
use crate::fence::injectors::Opener;
use crate::net_cores::core::NetCore;
use qanat_control::net_core::{CardNumber, CardOrder, Order, SERVICE_MEMORY_BYTES, plan_of};
use qanat_control::protocol::{Answer, Provider, QueueWish, StackWish, VnicStatus, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::MemoryPlan;
use qanat_nic::foreign::refuse_rights;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Frames to send headers and copied data from.
const TRANSMIT_FRAMES: u32 = 8_192;

/// Whether a service may have that queue of such a card on a net core.
fn check_queue(card: &VnicWish, queue: u32) -> Result<(), Refusal> {
    if queue >= card.queues {
        return Err(format!("a card of {} queues, from 0, has no queue {queue}", card.queues).into());
    }
    if card.queues > 1 && (card.priority_queues > 0 || card.provider != Provider::Veth) {
        return Err("several queues on net cores are a virtual card's, and none is high-priority".into());
    }
    Ok(())
}

impl Daemon {
    /// Gives a service a card on the net core that has the fewest: a socket to it.
    pub(crate) fn attach_net_core(
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
    fn choose_net_core(&self, peer: Peer, stack: &StackWish, begun: Option<u32>) -> Result<usize, Refusal> {
        let is_its = |card: &CardNumber| {
            let vnic = self.vnics.get(&card.vnic).filter(|vnic| vnic.user == peer.user);
            let first = vnic.and_then(|vnic| vnic.wish.addresses.first());
            first.is_some_and(|(address, _)| stack.apart_from.contains(address))
        };
        let number = begun.map(|vnic| CardNumber { vnic, queue: stack.queue });
        if let Some(number) = number.filter(|number| self.net_cores.cores.iter().any(|c| c.cards.contains(number))) {
            return Err(format!("card {number} is served already: it is given up in a moment, or another's").into());
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
            return Err("all net cores have died just now: they are started again in a moment".into());
        };
        let count = running.count();
        // For one that dies at each start another stands in.
        if is_taken(core) && failing == 0 {
            return Err(format!(
                "the service is on each of the {count} net cores already: ask for fewer (--net-cores)"
            )
            .into());
        }
        // The place of the one that has just died is not to be filled up by its neighbour.
        match siblings(core) > 0 && count + failing < at_home().count() {
            true => Err("a net core has died just now: it is started again in a moment".into()),
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
        let (_mapped_until_registered, files) = memory.map_err(|error| say("make frame memory", error))?;
        let (receive, rest) = (files.receive.as_fd(), files.rest.as_fd());
        let owned = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|error| say("keep a descriptor", error));
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
    fn hand_service(&mut self, index: usize, card: CardNumber, peer: Peer) -> Result<OwnedFd, DaemonError> {
        let pair = || {
            let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
            pair.map_err(|error| say("make a pair of sockets", error))
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
}
