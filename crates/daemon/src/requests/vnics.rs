//! Requests that make, open and limit VNICs, and the end of one.

use crate::cards::maker::Maker;
use crate::cards::vnic::{Site, TRAIN_BYTES_MAX, Vnic};
use crate::clients::peer::{Endpoint, Peer, Role};
use crate::daemon::{Daemon, Owner};
use crate::error::DaemonError;
use crate::fence::injectors::Opener;
use crate::fence::tables::{self, Tables};
use crate::log::Event;
use crate::requests::served::Served;
use qanat_control::filter::{Direction, Filter, Rate};
use qanat_control::name;
use qanat_control::protocol::{Answer, Provider, QueueStatus, QueueWish, VnicEnd, VnicWish, send};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::af_xdp::HandedInjector;
use qanat_nic::vfio::FunctionDescriptors;
use std::os::fd::{AsFd, OwnedFd};

/// Services a VNIC is made with at most.
const SERVICES_MAX: usize = 64;

impl Daemon {
    pub(crate) fn create_vnic(&mut self, peer: Peer, wish: VnicWish) -> Served {
        let rule = self.rule(peer)?;
        let own = self.vnics.values().filter(|vnic| vnic.account == peer.account()).count() as u64;
        if wish.priority_queues > 0 && wish.priority_queues >= wish.queues {
            return Err("at least one queue must not be high-priority".into());
        }
        rule.check_count("VNICs", own + 1, u64::from(rule.vnics), Cause::Full)?;
        let queues = u64::from(rule.queues.min(tables::QUEUES_MAX));
        rule.check_count("queues of a VNIC", u64::from(wish.queues), queues, Cause::Forbidden)?;
        name::check(&wish.name)?;
        self.check_claims(&rule, &wish)?;
        if wish.services.len() > SERVICES_MAX {
            return Err(format!("{} services: a VNIC is made with at most {SERVICES_MAX}", wish.services.len()).into());
        }
        for service in &wish.services {
            rule.check_filter(Direction::Transmit, &Filter::service(*service))?;
        }
        let free = |slot: &u32| !self.vnics.contains_key(slot);
        let none_free = || Refusal::new(Cause::Full, "all VNICs of this machine are taken: delete some");
        let slot = (0..tables::VNICS_MAX).find(free).ok_or_else(none_free)?;
        let nic = self.wanted_nic(&wish, &rule)?;
        let function = match self.wanted_function(&wish, &rule)? {
            Some((nic, policy)) => Some((self.take_function(&policy)?, (nic, policy))),
            None => None,
        };
        let owner = self.owner_number(peer.account(), [rule.transmit, rule.receive])?;
        if wish.provider == Provider::Tap && rule.tap {
            self.let_trains_through(peer.account(), [rule.transmit, rule.receive])?;
        }
        let host = &self.policy.host;
        let mut site = Site {
            tables: &mut self.tables,
            ends: &self.ends,
            host,
            charges: &mut self.charges,
            state: &self.state,
            uplink: self.uplink.as_ref(),
        };
        let maker = Maker { rule, owner, user: peer.user, account: peer.account(), process: peer.process };
        let provider = wish.provider.clone();
        let made = match (nic, function) {
            (Some(nic), _) => Vnic::of_nic(&mut site, slot, wish, nic, maker),
            (None, Some((free, nic))) => Vnic::of_function(&mut site, slot, wish, nic, free, maker),
            (None, None) if wish.provider == Provider::Tap => Vnic::of_tap(&mut site, slot, wish, maker),
            (None, None) => Vnic::make(&mut site, slot, wish, maker),
        };
        let vnic = match made {
            Ok(vnic) => vnic,
            Err(error) => {
                self.release_nic(&provider);
                self.owners.retain(|_, owner| owner.vnics > 0);
                return Err(error);
            }
        };
        self.vnics.insert(slot, vnic);
        if let Some(owner) = self.owners.get_mut(&peer.account()) {
            owner.vnics += 1;
        }
        let given = self.give_vnic(peer, slot);
        if given.is_err() {
            self.delete_vnic(slot, VnicEnd::Unheld);
        }
        given
    }

    pub(crate) fn give_vnic(&mut self, peer: Peer, slot: u32) -> Served {
        let handle = self.make_handle(Role::Vnic(slot), peer)?;
        let vnic = self.vnics.get(&slot).ok_or("the VNIC is gone")?;
        Ok((Answer::Vnic(vnic.status(&self.tables, &self.charges)), vec![handle]))
    }

    pub(crate) fn open_queue(&mut self, slot: u32, wish: QueueWish, beside: &[OwnedFd], opener: Opener) -> Served {
        let is_tap = self.vnics.get(&slot).is_some_and(Vnic::is_tap);
        if is_tap && opener == Opener::NetCore {
            return Err("a net core's card is not a TAP device: use provider veth".into());
        }
        if is_tap && (wish.queue != 0 || !beside.is_empty()) {
            return Err("a TAP device has one queue, number 0, and takes no memory beside the request".into());
        }
        if is_tap {
            self.dirty.insert(slot);
            let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
            return Ok((Answer::Tap, vec![vnic.open_tap()?]));
        }
        if self.vnics.get(&slot).is_some_and(Vnic::is_function) {
            return self.open_function(slot, wish, beside, opener);
        }
        if !(1..=2).contains(&beside.len()) {
            let text = "a queue is opened with its memory file, or two (the frames to receive into in one of their own), \
                        and nothing else, beside the request";
            return Err(text.into());
        }
        self.dirty.insert(slot);
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let mut site = Site {
            tables: &mut self.tables,
            ends: &self.ends,
            host: &self.policy.host,
            charges: &mut self.charges,
            state: &self.state,
            uplink: self.uplink.as_ref(),
        };
        let handed = vnic.open_queue(&mut site, wish, beside, opener)?;
        let status = QueueStatus {
            fill: handed.rings.fill,
            receive: handed.rings.receive,
            transmit: handed.rings.transmit,
            completion: handed.rings.completion,
            metadata_bytes: handed.metadata_bytes,
            scatter: handed.scatter,
        };
        let mut beside = vec![handed.socket];
        beside.extend(handed.injector.into_iter().flat_map(HandedInjector::into_descriptors));
        Ok((Answer::Queue(status), beside))
    }

    /// Hands a virtual function to who has its card.
    fn open_function(&mut self, slot: u32, wish: QueueWish, beside: &[OwnedFd], opener: Opener) -> Served {
        if opener == Opener::NetCore {
            return Err("a net core's card is not a virtual function: use provider veth".into());
        }
        if wish.queue != 0 || !beside.is_empty() {
            return Err("a virtual function has one queue, number 0, and takes no memory beside the request".into());
        }
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let FunctionDescriptors { address, identity, device, group, container } = vnic.open_function()?;
        Ok((Answer::Function { address, identity }, vec![device, group, container]))
    }

    pub(super) fn set_rate(&mut self, slot: u32, direction: Direction, rate: Rate) -> Served {
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let ceiling = match direction {
            Direction::Transmit => vnic.rule.transmit,
            Direction::Receive => vnic.rule.receive,
        };
        vnic.rule.check_rate(ceiling, rate)?;
        self.dirty.insert(slot);
        vnic.set_function_rate(direction, rate)?;
        vnic.set_rate(&mut self.tables, direction, rate)?;
        Ok((Answer::Done, Vec::new()))
    }

    pub(crate) fn delete_vnic(&mut self, slot: u32, why: VnicEnd) {
        let Some(vnic) = self.vnics.remove(&slot) else { return };
        let event = Event::new("vnic-end", "done", format!("{}: {why}", vnic.wish.name)).of(slot);
        (self.log)(&Event { who: Some((vnic.user, None, vnic.process)), ..event.under(Some(&vnic.rule.name)) });
        self.dirty.insert(slot);
        let account = vnic.account;
        let provider = vnic.wish.provider.clone();
        vnic.charges().for_each(|charge| self.charges.revoke(charge));
        if let Err(error) = vnic.cut_off_function() {
            (self.log)(&Event::new("function-end", "failed", error.to_string()).of(slot));
        }
        vnic.remove(&mut self.tables, &self.ends);
        self.release_nic(&provider);
        self.forget_way(slot);
        self.net_cores.forget_vnic(slot);
        // An address that was shared is all the kernel's again.
        self.own_kernels();
        let stale = |(token, endpoint): (&u64, &Endpoint)| (endpoint.role == Role::Vnic(slot)).then_some(*token);
        // Revoked: whoever still has a handle finds it closed.
        let stale: Vec<u64> = self.endpoints.iter().filter_map(stale).collect();
        for token in stale {
            if let Some(endpoint) = self.endpoints.get(&token) {
                // Nobody waits for who does not read: the end of the handle says that the card is gone, too.
                let _ = send(endpoint.fd.as_fd(), Answer::Ended(why), &[]);
            }
            self.close(token);
        }
        self.orphans.retain(|orphan| orphan.role != Role::Vnic(slot));
        self.orphans_dead.retain(|orphan| orphan.role != Role::Vnic(slot));
        if let Some(owner) = self.owners.get_mut(&account) {
            owner.vnics = owner.vnics.saturating_sub(1);
            if owner.vnics == 0 {
                self.owners.remove(&account);
            }
        }
    }

    /// The number of an account with a ceiling, with the ceiling set.
    fn owner_number(&mut self, account: u32, ceilings: [Rate; 2]) -> Result<Option<u32>, DaemonError> {
        if ceilings == [Rate::UNLIMITED; 2] {
            return Ok(None);
        }
        if let Some(owner) = self.owners.get(&account) {
            return Ok(Some(owner.number));
        }
        let is_free = |number: &u32| self.owners.values().all(|owner| owner.number != *number);
        let number = (0..tables::OWNERS_MAX).find(is_free).ok_or("too many users with a ceiling at once")?;
        for (direction, ceiling) in [Direction::Transmit, Direction::Receive].into_iter().zip(ceilings) {
            self.tables.set_limit(Tables::owner_limit(number, direction), ceiling, 9_000)?;
        }
        self.owners.insert(account, Owner { number, vnics: 0, takes_trains: false });
        Ok(Some(number))
    }

    /// Has trains fit through a user's ceilings, as he has a TAP card. Once: what was counted until then is forgotten by it.
    fn let_trains_through(&mut self, account: u32, ceilings: [Rate; 2]) -> Result<(), DaemonError> {
        let Some(owner) = self.owners.get_mut(&account).filter(|owner| !owner.takes_trains) else { return Ok(()) };
        owner.takes_trains = true;
        for (direction, ceiling) in [Direction::Transmit, Direction::Receive].into_iter().zip(ceilings) {
            self.tables.set_limit(Tables::owner_limit(owner.number, direction), ceiling, TRAIN_BYTES_MAX)?;
        }
        Ok(())
    }
}
