//! What each request does, and who may ask it.

use super::injectors::Opener;
use super::porters::Beside;
use super::state::Identity;
use super::vnic::{Maker, Site, Vnic};
use super::{Daemon, Ending, FilterObject, Peer, Role, tables, tap};
use crate::policy::{Rule, Standing};
use qanat_control::filter::{Direction, Filter, Rate, VOLUMES_MAX};
use qanat_control::name;
use qanat_control::protocol::{Answer, Limits, Provider, QueueStatus, QueueWish, Request, Steered, VnicEnd, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::af_xdp::HandedInjector;
use std::os::fd::OwnedFd;

/// Services a VNIC is made with at most.
const SERVICES_MAX: usize = 64;
/// Filters of one user's VNICs together: a share of a table that all users share.
const FILTERS_PER_USER_MAX: usize = 2_048;

/// An answer and the descriptors that go with it.
type Served = Result<(Answer, Vec<OwnedFd>), Refusal>;

impl Daemon {
    /// Does what is asked.
    pub(super) fn serve(&mut self, role: Role, peer: Peer, request: Request, beside: Beside) -> Served {
        let (handle, files) = match beside {
            Beside::Nothing => (None, None),
            Beside::Handle(handle) => (Some(handle), None),
            Beside::Files(files) => (None, Some(files)),
        };
        let outcome = self.serve_with(role, peer, request, handle, files.as_ref().map_or(&[], |files| &files.files));
        files.into_iter().for_each(|files| self.release(files));
        outcome
    }

    fn serve_with(
        &mut self,
        role: Role,
        peer: Peer,
        request: Request,
        handle: Option<Identity>,
        files: &[OwnedFd],
    ) -> Served {
        match (role, request) {
            (Role::Session, Request::CreateVnic(wish)) => self.create_vnic(peer, wish),
            (Role::Session, Request::AttachNetCore { card, stack }) => self.attach_net_core(peer, card, stack),
            (Role::Session, Request::OpenVnic { vnic }) => {
                self.owned(peer, vnic)?;
                self.give_vnic(peer, vnic)
            }
            (Role::Session, Request::CreateFilter { direction, filters }) => {
                self.create_filter(peer, direction, filters)
            }
            (Role::Session, Request::DeleteVnic { vnic }) => {
                self.owned(peer, vnic)?;
                self.delete_vnic(vnic, VnicEnd::Deleted);
                Ok((Answer::Done, Vec::new()))
            }
            (Role::Session, Request::Status) => Ok((Answer::Status(self.whole_status(peer)?), Vec::new())),
            (Role::Session, Request::StatusPart { from }) => {
                let (status, next) = self.status_part(peer, from);
                Ok((Answer::StatusPart { status, next }, Vec::new()))
            }
            (Role::Session, Request::Limits) => Ok((Answer::Limits(self.limits(peer)?), Vec::new())),
            (Role::Session, Request::Metrics) if peer.user == 0 => Ok((Answer::Text(self.metrics_text()), Vec::new())),
            (Role::Session, Request::MetricsPart { from }) if peer.user == 0 => {
                let (text, next) = self.metrics_part(from);
                Ok((Answer::TextPart { text, next }, Vec::new()))
            }
            (Role::Session, Request::Stop) if peer.user == 0 => {
                self.stopping = Some(Ending::Down);
                Ok((Answer::Done, Vec::new()))
            }
            (Role::Session, Request::Leave) if peer.user == 0 => {
                self.stopping = Some(Ending::Left);
                Ok((Answer::Done, Vec::new()))
            }
            (Role::Session, Request::AddNetCore { processor }) if peer.user == 0 => self.add_net_core(processor, peer),
            (Role::Session, Request::RemoveNetCore { processor }) if peer.user == 0 => {
                self.remove_net_core(processor, peer)
            }
            (Role::Session, Request::Reclaim) => self.reclaim(handle),
            (
                Role::Session,
                Request::Metrics
                | Request::MetricsPart { .. }
                | Request::Stop
                | Request::Leave
                | Request::AddNetCore { .. }
                | Request::RemoveNetCore { .. },
            ) => Err(Refusal::new(Cause::Forbidden, "only root may ask this: run with sudo")),
            (Role::Vnic(slot), Request::OpenQueue(wish)) => self.open_queue(slot, wish, files, Opener::Client),
            (Role::Vnic(slot), Request::Assign { queue }) => self.assign(slot, handle, queue),
            (Role::Vnic(slot), Request::Unassign) => {
                let number = self.presented_filter(handle)?;
                self.unassign_filter(slot, number)?;
                Ok((Answer::Done, Vec::new()))
            }
            (role, Request::AddFilter { vnic, direction, filter, queue }) => {
                let slot = self.target(role, peer, vnic)?;
                self.add_filter(slot, direction, Steered { filter, queue })
            }
            (role, Request::RemoveFilter { vnic, direction, filter }) => {
                let slot = self.target(role, peer, vnic)?;
                self.remove_filter(slot, direction, filter)
            }
            (role, Request::SetRate { vnic, direction, rate }) => {
                let slot = self.target(role, peer, vnic)?;
                self.set_rate(slot, direction, rate)
            }
            (Role::Vnic(_) | Role::Filter(_), _) => Err("this handle has no such request".into()),
            _ => Err("this is asked on a VNIC's handle, not on the control socket".into()),
        }
    }

    /// The VNIC a request is about: the handle's, or one of the peer's by number.
    fn target(&self, role: Role, peer: Peer, vnic: Option<u32>) -> Result<u32, String> {
        match (role, vnic) {
            (Role::Vnic(slot), None) => Ok(slot),
            (Role::Session, Some(slot)) => self.owned(peer, slot).map(|()| slot),
            _ => Err("name the VNIC on the control socket, and none on a handle".to_owned()),
        }
    }

    /// Others' VNICs and none look alike: their numbers are not to be found out.
    fn owned(&self, peer: Peer, slot: u32) -> Result<(), String> {
        let vnic = self.vnics.get(&slot).filter(|vnic| peer.user == 0 || vnic.user == peer.user);
        vnic.map(|_| ()).ok_or_else(|| format!("user {} has no VNIC {slot}: see `qanat vnic list`", peer.user))
    }

    /// The rule of who asks, as it was judged when it connected.
    pub(super) fn rule(&self, peer: Peer) -> Result<Rule, Refusal> {
        let user = peer.user;
        let rule = self.policy.rule_of(peer.standing).ok_or_else(|| {
            let text = format!(
                "no rule is for user {user} or one of its groups: add one; who was added to a group is in it from the next \
                 login on"
            );
            Refusal::new(Cause::NoRule, text)
        })?;
        match peer.standing {
            // Of such numbers one user may have many; whose they are, nobody could tell.
            Standing::NoAccount(_) => {
                let text = format!(
                    "rule \"{}\" is for members of groups, and user {user} is no account's and in no range of one's \
                     ({}): name the number among the rule's users",
                    rule.name,
                    self.policy.subordinate_users.display()
                );
                Err(Refusal::new(Cause::NoRule, text))
            }
            _ => Ok(rule.clone()),
        }
    }

    pub(super) fn create_vnic(&mut self, peer: Peer, wish: VnicWish) -> Served {
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
        let made = match nic {
            Some(nic) => Vnic::of_nic(&mut site, slot, wish, nic, maker),
            None if wish.provider == Provider::Tap => Vnic::of_tap(&mut site, slot, wish, maker),
            None => Vnic::make(&mut site, slot, wish, maker),
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

    pub(super) fn give_vnic(&mut self, peer: Peer, slot: u32) -> Served {
        let handle = self.make_handle(Role::Vnic(slot), peer)?;
        let vnic = self.vnics.get(&slot).ok_or("the VNIC is gone")?;
        Ok((Answer::Vnic(vnic.status(&self.tables, &self.charges)), vec![handle]))
    }

    pub(super) fn open_queue(&mut self, slot: u32, wish: QueueWish, beside: &[OwnedFd], opener: Opener) -> Served {
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

    /// Whether the owner of a VNIC may have so many more filters.
    fn check_filter_count(&self, slot: u32, more: usize) -> Result<(), Refusal> {
        let user = self.vnics.get(&slot).ok_or("the VNIC is gone")?.account;
        let count: usize = self.vnics.values().filter(|vnic| vnic.account == user).map(Vnic::filter_count).sum();
        match count + more <= FILTERS_PER_USER_MAX {
            true => Ok(()),
            false => {
                let text = format!("user {user} has {count} filters, which is the most: delete some");
                Err(Refusal::new(Cause::Full, text))
            }
        }
    }

    fn create_filter(&mut self, peer: Peer, direction: Direction, filters: Vec<Filter>) -> Served {
        let rule = self.rule(peer)?;
        if filters.is_empty() || filters.len() > VOLUMES_MAX {
            return Err(format!("a filter has 1 to {VOLUMES_MAX} sub-volumes, not {}", filters.len()).into());
        }
        filters.iter().try_for_each(|filter| rule.check_filter(direction, filter))?;
        let number = self.next_filter;
        self.next_filter += 1;
        self.filters.insert(number, FilterObject { direction, filters, handles: 0 });
        match self.make_handle(Role::Filter(number), peer) {
            Ok(handle) => Ok((Answer::Filter(number), vec![handle])),
            Err(error) => {
                self.filters.remove(&number);
                Err(error)
            }
        }
    }

    fn assign(&mut self, slot: u32, filter: Option<Identity>, queue: Option<u32>) -> Served {
        let number = self.presented_filter(filter)?;
        let volumes = self.filters.get(&number).map_or(0, |filter| filter.filters.len());
        self.check_filter_count(slot, volumes)?;
        self.assign_filter(slot, number, queue)?;
        Ok((Answer::Done, Vec::new()))
    }

    fn add_filter(&mut self, slot: u32, direction: Direction, wanted: Steered) -> Served {
        self.check_filter_count(slot, 1)?;
        self.dirty.insert(slot);
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        vnic.rule.check_filter(direction, &wanted.filter)?;
        if vnic.is_tap() {
            tap::check_filter(&wanted.filter)?;
        }
        vnic.check_queue(direction, wanted.queue)?;
        let filters = vnic.filters.get_mut(direction as usize).ok_or("no such direction")?;
        filters.push(wanted);
        if let Err(error) = vnic.write_filters(&mut self.tables) {
            if let Some(filters) = vnic.filters.get_mut(direction as usize) {
                filters.pop();
            }
            return Err(error.into());
        }
        Ok((Answer::Done, Vec::new()))
    }

    fn remove_filter(&mut self, slot: u32, direction: Direction, filter: Filter) -> Served {
        self.dirty.insert(slot);
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let filters = vnic.filters.get_mut(direction as usize).ok_or("no such direction")?;
        let before = filters.clone();
        filters.retain(|other| other.filter != filter);
        if filters.len() == before.len() {
            return Err(format!("VNIC {slot} has no {direction} filter \"{filter}\": see `qanat filter list`").into());
        }
        if let Err(error) = vnic.write_filters(&mut self.tables) {
            if let Some(filters) = vnic.filters.get_mut(direction as usize) {
                *filters = before;
            }
            return Err(error.into());
        }
        Ok((Answer::Done, Vec::new()))
    }

    fn set_rate(&mut self, slot: u32, direction: Direction, rate: Rate) -> Served {
        let vnic = self.vnics.get_mut(&slot).ok_or("the VNIC is gone")?;
        let ceiling = match direction {
            Direction::Transmit => vnic.rule.transmit,
            Direction::Receive => vnic.rule.receive,
        };
        vnic.rule.check_rate(ceiling, rate)?;
        self.dirty.insert(slot);
        vnic.set_rate(&mut self.tables, direction, rate)?;
        Ok((Answer::Done, Vec::new()))
    }

    fn limits(&mut self, peer: Peer) -> Result<Limits, Refusal> {
        let rule = self.rule(peer)?;
        self.charges.settle(&self.state, peer.account());
        let own = self.vnics.values().filter(|vnic| vnic.account == peer.account()).count() as u32;
        Ok(Limits {
            vnics: [rule.vnics, own],
            queues: rule.queues.min(tables::QUEUES_MAX),
            memory_bytes: [rule.memory_mib << 20, self.charges.of(peer.account())],
            filters: tables::VNIC_FILTERS_MAX as u32,
            addresses: rule.addresses.iter().map(ToString::to_string).collect(),
            services: rule.services.iter().map(ToString::to_string).collect(),
            peers: rule.peers.iter().map(ToString::to_string).collect(),
            transmit: rule.transmit,
            receive: rule.receive,
            vlans: rule.vlans.iter().map(ToString::to_string).collect(),
            ethertypes: rule.ethertypes.iter().map(ToString::to_string).collect(),
            macs: rule.macs.iter().map(ToString::to_string).collect(),
            reach: [
                (rule.icmp, "ICMP"),
                (rule.switch, "other cards"),
                (rule.uplink && self.uplink.is_some(), "the uplink's wire"),
            ]
            .into_iter()
            .filter(|(allowed, _)| *allowed)
            .map(|(_, name)| name.to_owned())
            .collect(),
            providers: [Provider::Veth.name().to_owned()]
                .into_iter()
                .chain(rule.tap.then(|| Provider::Tap.name().to_owned()))
                .chain(rule.trusted.then(|| self.free_nic_queues()).into_iter().flatten())
                .collect(),
            offloads: vec!["scatter-gather above MTU 1774".to_owned()],
            rule: rule.name,
        })
    }
}
