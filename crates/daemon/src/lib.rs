//! The control plane's daemon: who may have a virtual card, what it may send and receive, and how fast. It decides once, in the
//! kernel's name, and then stays out of the way.
//!
//! ```text
//!   application ── control.sock ── daemon ── tables ── gate, deliver (bpf/gate.c: every packet)
//!        └────────── a socket of its own, rings and memory ─────────┘ the daemon never sees one
//! ```
//!
//! One thread, one loop over descriptors, no wait but for them: whoever is slow, silent or hostile delays himself only.
#![forbid(unsafe_code)]

pub mod accounts;
mod charges;
mod claims;
mod door;
mod fairness;
mod guests;
mod handles;
mod injectors;
mod keepers;
mod links;
mod log;
mod manager;
mod metrics;
mod moves;
pub mod names;
mod net_cores;
mod nic;
mod pages;
pub mod policy;
mod porters;
mod queues;
mod registrar;
pub mod rows;
mod serve;
mod state;
mod steering;
pub mod tables;
mod takeover;
mod tap;
mod uplink;
mod vnic;

pub use log::Event;
pub use manager::{HEIR, tell_ready};
pub use net_cores::Starter;
pub use takeover::{Leftover, clear, is_left_program, leftovers};

use crate::accounts::Subordinates;
use crate::names::InVain;
use crate::policy::{Policy, Standing};
use charges::Charges;
use fairness::{Ready, Shares, TURN};
use handles::Orphan;
use keepers::Keepers;
use net_cores::NetCores;
use porters::{Beside, Porters};
use qanat_control::filter::{Direction, Filter, Rate};
use qanat_control::protocol::{
    Answer, Fault, Glance, MESSAGE_BYTES_MAX, Request, VERSION, VnicEnd, glance, mismatch, send, send_in,
};
use qanat_nic::foreign::{refuse_rights, skip};
use qanat_nic::link::{LinkWatch, Namespace};
use registrar::Registrar;
use rustix::event::epoll;
use rustix::fs::{Mode, chmod, chown};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use serde::{Deserialize, Serialize};
use state::{FilterState, HandleState, Identity, StateDirectory};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};
use tables::Tables;
use uplink::Uplink;
use vnic::Vnic;

/// Descriptors that are ready at most: so many that all who wait are known.
const EVENTS: usize = 4_096;
/// What a descriptor is looked at for.
const WATCHED: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP);
/// Written to the stop descriptor: end, and leave everything to the next daemon.
pub const LEAVE: u8 = b'L';

/// Whose a connection or handle is, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Peer {
    /// Its rights are this user's.
    user: u32,
    group: u32,
    process: i32,
    /// What it has counts to this account: the one that has the user's number for its namespaces. `None`: to the user.
    #[serde(default)]
    account: Option<u32>,
    /// What it may have. Of sessions alone: a handle has the rule of its VNIC.
    #[serde(skip)]
    standing: Standing,
}

impl Peer {
    const fn new(user: u32, group: u32, process: i32) -> Peer {
        Peer { user, group, process, account: None, standing: Standing::NoRule }
    }

    /// Whose limits its requests count to.
    fn account(&self) -> u32 {
        self.account.unwrap_or(self.user)
    }
}

/// What a descriptor of the loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Listener,
    Metrics,
    Stop,
    Session,
    /// A process that was given a handle.
    Process,
    /// A VNIC's handle.
    Vnic(u32),
    /// A filter's handle.
    Filter(u64),
    /// Interfaces have changed.
    Links,
    /// A net core of ours.
    NetCore(usize),
    /// The memory of a service on one.
    Lease,
    /// A process that receives a user's descriptors.
    Porter,
    /// The thread that looks names up.
    Registrar,
}

struct Endpoint {
    fd: OwnedFd,
    role: Role,
    peer: Peer,
    /// Of the end given away: how a handle that comes back is known.
    identity: Option<Identity>,
    /// Descriptors may wait in its queue: it is not read, nor closed, without a look.
    takes_rights: bool,
    /// It is not read here: a porter reads it, or there is no room for who comes.
    is_suspended: bool,
    /// The turn in which it was served last.
    served: u64,
}

struct FilterObject {
    direction: Direction,
    filters: Vec<Filter>,
    /// Descriptors that hold it.
    handles: u32,
}

/// How [`Daemon::run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With everything it made.
    Down,
    /// Everything it made is left to the next daemon.
    Left,
}

/// How long a daemon that is to end when it is not used waits for somebody to use it.
pub const UNUSED_MAX: Duration = Duration::from_secs(5);

/// A user with a ceiling for all VNICs together.
struct Owner {
    number: u32,
    vnics: u32,
    /// Trains fit through the ceiling.
    takes_trains: bool,
}

/// The daemon.
pub struct Daemon {
    policy: Policy,
    subordinates: Subordinates,
    tables: Tables,
    charges: Charges,
    _keepers: Keepers,
    /// What the next daemon must know.
    state: StateDirectory,
    /// VNICs and filters of which it does not know the last yet.
    dirty: BTreeSet<u32>,
    dirty_filters: BTreeSet<u64>,
    /// Handles of an earlier daemon's that somebody still holds.
    orphans: Vec<Orphan>,
    /// Of these, those that nobody holds any more.
    orphans_dead: Vec<Orphan>,
    last_look: Instant,
    /// Between two looks: longer where there are many sockets to be looked at.
    look_interval: Duration,
    next_filter: u64,
    link_watch: LinkWatch,
    /// Cards that have changed and are not looked at yet.
    unlooked: BTreeSet<u32>,
    /// Of the VNICs' ends: nothing is in it but them.
    ends: Namespace,
    epoll: OwnedFd,
    endpoints: HashMap<u64, Endpoint>,
    next_token: u64,
    vnics: BTreeMap<u32, Vnic>,
    filters: HashMap<u64, FilterObject>,
    owners: HashMap<u32, Owner>,
    uplink: Option<Uplink>,
    net_cores: NetCores,
    porters: Porters,
    registrar: Registrar,
    /// Names in the policy that nobody has: told already.
    in_vain: Vec<InVain>,
    shares: Shares,
    turn: u64,
    /// Listeners that are not listened to until then.
    paused: Vec<(Instant, u64)>,
    metrics: Option<TcpListener>,
    scrapes: Arc<AtomicU32>,
    /// What was told last.
    last_scrape: Option<(Instant, Arc<str>)>,
    started: Instant,
    /// Served, refused, cut off.
    requests: [u64; 3],
    buffer: Vec<u8>,
    stopping: Option<Ending>,
    /// Ends by itself when nobody has used it since then.
    unused_since: Option<Instant>,
    log: fn(&Event),
}

impl Daemon {
    /// Opens the control socket, and loads the fence or takes back what an earlier daemon left running. `stop`: a descriptor
    /// that ends the loop by becoming readable ([`LEAVE`]: and leaves everything); `log`: where events go.
    ///
    /// # Errors
    /// What is missing, and the remedy.
    pub fn start(policy: Policy, stop: OwnedFd, log: fn(&Event)) -> Result<Daemon, String> {
        // First: it is to have nothing of what comes.
        let porters = Porters::open()?;
        let listener = listen_at(&policy)?;
        let state = StateDirectory::of(&policy.socket);
        let ground = takeover::ground(&state)?;
        let metrics = match policy.metrics {
            Some(address) => {
                Some(TcpListener::bind(address).map_err(|error| format!("metrics at {address}: {error}"))?)
            }
            None => None,
        };
        // Before the cards are looked at.
        let link_watch = LinkWatch::open().map_err(|error| tables::say("watch the interfaces", error))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| tables::say("epoll", error))?;
        let keepers = Keepers::start([ground.tables.gate(), ground.tables.deliver()]);
        let subordinates = Subordinates::of(&policy.subordinate_users);
        let registrar = Registrar::start(&policy)?;
        let mut daemon = Daemon {
            policy,
            subordinates,
            tables: ground.tables,
            charges: ground.charges,
            _keepers: keepers,
            state,
            dirty: BTreeSet::new(),
            dirty_filters: BTreeSet::new(),
            orphans: Vec::new(),
            last_look: Instant::now(),
            next_filter: 0,
            link_watch,
            unlooked: BTreeSet::new(),
            ends: ground.ends,
            epoll,
            endpoints: HashMap::new(),
            next_token: 0,
            vnics: BTreeMap::new(),
            filters: HashMap::new(),
            owners: HashMap::new(),
            uplink: None,
            net_cores: NetCores::default(),
            porters,
            registrar,
            in_vain: Vec::new(),
            shares: Shares::default(),
            turn: 0,
            paused: Vec::new(),
            last_scrape: None,
            orphans_dead: Vec::new(),
            look_interval: handles::LOOK_INTERVAL,
            metrics,
            scrapes: Arc::default(),
            started: Instant::now(),
            requests: [0; 3],
            buffer: vec![0; MESSAGE_BYTES_MAX],
            stopping: None,
            unused_since: None,
            log,
        };
        let nobody = Peer::new(u32::MAX, u32::MAX, 0);
        daemon.watch(listener, Role::Listener, nobody, None)?;
        daemon.watch(stop, Role::Stop, nobody, None)?;
        daemon.watch(daemon.registrar.bell()?, Role::Registrar, nobody, None)?;
        if let Some(metrics) = &daemon.metrics {
            metrics.set_nonblocking(true).map_err(|error| tables::say("metrics", error))?;
            let metrics = metrics.try_clone().map_err(|error| tables::say("metrics", error))?;
            daemon.watch(metrics.into(), Role::Metrics, nobody, None)?;
        }
        let links =
            rustix::io::dup(daemon.link_watch.as_fd()).map_err(|error| tables::say("watch the interfaces", error))?;
        daemon.watch(links, Role::Links, nobody, None)?;
        if !ground.remark.is_empty() {
            log(&Event::new("take-back", "failed", ground.remark));
        }
        if let Some(kept) = ground.kept {
            let count = daemon.adopt(kept, ground.is_new);
            log(&Event::new("take-back", "done", format!("{count} VNICs")));
        }
        daemon.uplink = Uplink::take(&daemon.policy, &mut daemon.tables)?;
        daemon.own_kernels();
        Ok(daemon)
    }

    /// The cards' namespace, for the program that this process becomes: a descriptor that it inherits, to be named by [`HEIR`].
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn bequeath(&self) -> Result<OwnedFd, String> {
        rustix::io::dup(&self.ends).map_err(|error| tables::say("keep the cards' namespace", error))
    }

    /// The tables: for tests.
    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// It is to end by itself once nobody has had a card, or a connection to it, for [`UNUSED_MAX`].
    pub fn end_when_unused(&mut self) {
        self.unused_since = Some(Instant::now());
    }

    fn look_for_use(&mut self) {
        let is_used = !self.vnics.is_empty() || self.endpoints.values().any(|endpoint| endpoint.role == Role::Session);
        if let Some(since) = self.unused_since.as_mut() {
            if is_used {
                *since = Instant::now();
            } else if since.elapsed() >= UNUSED_MAX {
                self.stopping = Some(Ending::Down);
            }
        }
    }

    /// Serves until told to stop. Everything it made goes with it, unless it is told to leave it.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn run(&mut self) -> Result<Ending, String> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let ending = loop {
            if let Some(ending) = self.stopping {
                break ending;
            }
            events.clear();
            // Orphans tell nobody when they are closed.
            let looks = !self.orphans.is_empty() || !self.orphans_dead.is_empty() || self.unused_since.is_some();
            let looks = looks || !self.unlooked.is_empty();
            let looks = looks || self.net_cores.is_one_missing() || self.has_guests() || self.porters.is_one_there();
            let looks =
                looks || !self.paused.is_empty() || self.net_cores.is_one_dying() || self.registrar.is_waited_for();
            let patience = looks.then(|| handles::LOOK_INTERVAL.try_into().ok()).flatten();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), patience.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(tables::say("wait for clients", error)),
            }
            self.look_for_dead_net_cores();
            self.serve_ready(&events);
            self.look_after_orphans(false);
            self.look_after_links();
            self.look_after_net_cores();
            self.look_after_porters();
            self.look_after_doors();
            self.look_after_unjudged();
            self.look_after_dying();
            self.look_for_use();
            self.record();
        };
        // Before its cards: it has nothing to do without them.
        drop(std::mem::take(&mut self.net_cores));
        if ending == Ending::Down {
            let slots: Vec<u32> = self.vnics.keys().copied().collect();
            for slot in slots {
                self.delete_vnic(slot, VnicEnd::DaemonEnds);
            }
            self.uplink.iter().for_each(Uplink::release);
            self.state.clear();
        }
        let _ = std::fs::remove_file(&self.policy.socket);
        self.part_with_all();
        Ok(ending)
    }

    /// Serves who is ready, as fairly as may be: until all have been served once, or the turn is over.
    fn serve_ready(&mut self, events: &[epoll::Event]) {
        // Net cores first, which are started again before their cards are taken down: that takes long. Handles before sessions:
        // what a client gave up before it asked is free when it is answered.
        let look = |event: &epoll::Event| {
            let token = event.data.u64();
            let endpoint = self.endpoints.get(&token)?;
            let is_ours = matches!(
                endpoint.role,
                Role::Listener | Role::Metrics | Role::Stop | Role::Links | Role::NetCore(_) | Role::Registrar
            );
            let rank = if endpoint.role == Role::Session { 2 } else { 1 };
            Some(Ready { user: (!is_ours).then_some(endpoint.peer.account()), rank, served: endpoint.served, token })
        };
        let mut ready: Vec<Ready> = events.iter().filter_map(look).collect();
        self.shares.order(&mut ready);
        self.turn += 1;
        let begun = Instant::now();
        let mut since = begun;
        for Ready { user, token, .. } in ready {
            // One message of each: whoever asks without end asks again in the next turn.
            if let Some(endpoint) = self.endpoints.get_mut(&token) {
                endpoint.served = self.turn;
            }
            self.attend(token);
            let now = Instant::now();
            if let Some(user) = user {
                self.shares.charge(user, now - since);
            }
            since = now;
            // What is still ready is told again.
            if now - begun > TURN {
                break;
            }
        }
    }

    /// Writes down what has changed; before it is answered for.
    fn record(&mut self) {
        let mut outcome = Ok(());
        for slot in std::mem::take(&mut self.dirty) {
            match self.vnics.get(&slot) {
                Some(vnic) => {
                    let owner = self.owners.get(&vnic.account).map(|owner| owner.number);
                    let written = self.state.write_vnic(&vnic.state(owner, self.handles_of(Role::Vnic(slot))));
                    outcome = outcome.and(written);
                }
                None => self.state.remove_vnic(slot),
            }
        }
        for number in std::mem::take(&mut self.dirty_filters) {
            match self.filters.get(&number) {
                Some(FilterObject { direction, filters, .. }) => {
                    let handles = self.handles_of(Role::Filter(number));
                    let state = FilterState { number, direction: *direction, filters: filters.clone(), handles };
                    outcome = outcome.and(self.state.write_filter(&state));
                }
                None => self.state.remove_filter(number),
            }
        }
        if let Err(error) = outcome {
            (self.log)(&Event::new("state-write", "failed", format!("{}: {error}", self.state.path().display())));
        }
    }

    fn handles_of(&self, role: Role) -> Vec<HandleState> {
        let live = self.endpoints.values().filter(|endpoint| endpoint.role == role);
        let live = live.filter_map(|endpoint| Some(HandleState { identity: endpoint.identity?, peer: endpoint.peer }));
        let orphans = self.orphans.iter().filter(|orphan| orphan.role == role).map(|orphan| orphan.handle);
        live.chain(orphans).collect()
    }

    /// The number it is known by from now on.
    fn watch(&mut self, fd: OwnedFd, role: Role, peer: Peer, identity: Option<Identity>) -> Result<u64, String> {
        let token = self.next_token;
        let takes_rights = match role {
            Role::Session | Role::Vnic(_) => true,
            // Before Linux 6.16 it can't be refused.
            Role::Filter(_) | Role::NetCore(_) | Role::Lease => refuse_rights(fd.as_fd()).is_err(),
            _ => false,
        };
        epoll::add(&self.epoll, &fd, epoll::EventData::new_u64(token), WATCHED)
            .map_err(|error| tables::say("watch a descriptor", error))?;
        self.next_token += 1;
        let endpoint = Endpoint { fd, role, peer, identity, takes_rights, is_suspended: false, served: 0 };
        self.endpoints.insert(token, endpoint);
        Ok(token)
    }

    fn attend(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        let (role, peer) = (endpoint.role, endpoint.peer);
        match role {
            Role::Stop => {
                let mut byte = [0];
                let read = rustix::io::read(&endpoint.fd, &mut byte);
                let leave = read == Ok(1) && byte == [LEAVE];
                self.stopping = Some(if leave { Ending::Left } else { Ending::Down });
            }
            Role::Listener => self.accept(token),
            Role::Metrics => self.scrape(token),
            Role::Links => self.follow_links(token),
            Role::Process => self.process_ended(token),
            Role::NetCore(index) => self.attend_net_core(token, index),
            // Nothing is ever said there: the other end is closed.
            Role::Lease => {
                self.charges.end_lease(token);
                self.close(token);
            }
            Role::Porter => self.attend_porter(token),
            Role::Registrar => self.attend_registrar(),
            Role::Session | Role::Vnic(_) | Role::Filter(_) if endpoint.is_suspended => self.close(token),
            Role::Session | Role::Vnic(_) | Role::Filter(_) => self.hear(token, role, peer),
        }
    }

    /// A client says something.
    fn hear(&mut self, token: u64, role: Role, peer: Peer) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        match glance::<Request>(endpoint.fd.as_fd(), &mut self.buffer) {
            Ok(Glance { said: Ok(request), has_rights: true }) => self.await_descriptors(token, request),
            Ok(Glance { said: Ok(request), has_rights: false }) => {
                skip(endpoint.fd.as_fd());
                self.answer(token, role, peer, request, Beside::Nothing);
            }
            Ok(Glance { said: Err(Fault::Version(told)), .. }) => {
                let why = mismatch(VERSION, told);
                // In words it understands: this answer has been the same in every version.
                let _ = send_in(told, endpoint.fd.as_fd(), Answer::Refused(why.as_str().into()), &[]);
                self.end_peer(token, &why);
            }
            Err(Fault::Empty) => {}
            Err(Fault::Closed) => self.close(token),
            Ok(Glance { said: Err(fault), .. }) | Err(fault) => self.cut_off(token, &fault.to_string()),
        }
    }

    fn answer(&mut self, token: u64, role: Role, peer: Peer, request: Request, beside: Beside) {
        let (name, changes) = (request.name(), request.changes());
        let vnic = if let Role::Vnic(slot) = role { Some(slot) } else { request.vnic() };
        let outcome = self.serve(role, peer, request, beside);
        let vnic = vnic.or(match &outcome {
            Ok((Answer::Vnic(status), _)) => Some(status.vnic),
            _ => None,
        });
        if changes || outcome.is_err() {
            let rule = self.rule_name(peer, vnic);
            let (result, detail) = match &outcome {
                Ok((Answer::Vnic(status), _)) => ("done", format!("{} on {}", status.name, status.interface)),
                Ok(_) => ("done", String::new()),
                Err(why) => ("refused", why.text.clone()),
            };
            (self.log)(&Event { vnic, ..Event::new(name, result, detail).by(peer).under(rule.as_deref()) });
        }
        let (answer, descriptors) = match outcome {
            Ok(served) => {
                self.requests[0] += 1;
                served
            }
            Err(why) => {
                self.requests[1] += 1;
                (Answer::Refused(why), Vec::new())
            }
        };
        let beside: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        self.tell(token, answer, &beside);
    }

    fn tell(&mut self, token: u64, answer: Answer, beside: &[BorrowedFd<'_>]) {
        // What is answered for survives us.
        self.record();
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        // A client that does not read its answers is not waited for.
        let sent = match send(endpoint.fd.as_fd(), answer, beside) {
            Err(Fault::TooLong(bytes)) => {
                let why =
                    format!("the answer has {bytes} bytes, which is more than a message holds: ask for less at once");
                send(endpoint.fd.as_fd(), Answer::Refused(why.into()), &[])
            }
            sent => sent,
        };
        if let Err(fault) = sent {
            self.cut_off(token, &format!("its answer could not be sent: {fault}"));
        }
    }

    /// The rule a request is judged by: the VNIC's, or the user's.
    fn rule_name(&self, peer: Peer, vnic: Option<u32>) -> Option<String> {
        let of_vnic = vnic.and_then(|slot| self.vnics.get(&slot)).map(|vnic| vnic.rule.name.clone());
        of_vnic.or_else(|| self.policy.rule_of(peer.standing).map(|rule| rule.name.clone()))
    }

    /// Ends a connection or takes back a handle, with what depends on it.
    fn close(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.remove(&token) else { return };
        let _ = epoll::delete(&self.epoll, &endpoint.fd);
        self.net_cores.handle_closed(token);
        self.registrar.forget(token);
        self.count_handle(endpoint.role, -1);
        if endpoint.takes_rights {
            self.retire(endpoint.fd, endpoint.peer.account(), endpoint.is_suspended);
        }
    }

    fn cut_off(&mut self, token: u64, why: &str) {
        if let Some(endpoint) = self.endpoints.get(&token) {
            let _ = send(endpoint.fd.as_fd(), Answer::Refused(why.into()), &[]);
        }
        self.end_peer(token, why);
    }

    /// Ends a peer that has been told why.
    fn end_peer(&mut self, token: u64, why: &str) {
        self.requests[2] += 1;
        if let Some(endpoint) = self.endpoints.get(&token) {
            let vnic = if let Role::Vnic(slot) = endpoint.role { Some(slot) } else { None };
            (self.log)(&Event { vnic, ..Event::new("peer", "cut-off", why).by(endpoint.peer) });
        }
        self.close(token);
    }

    fn delete_vnic(&mut self, slot: u32, why: VnicEnd) {
        let Some(vnic) = self.vnics.remove(&slot) else { return };
        let event = Event::new("vnic-end", "done", format!("{}: {why}", vnic.wish.name)).of(slot);
        (self.log)(&Event { who: Some((vnic.user, None, vnic.process)), ..event.under(Some(&vnic.rule.name)) });
        self.dirty.insert(slot);
        let account = vnic.account;
        let provider = vnic.wish.provider.clone();
        vnic.charges().for_each(|charge| self.charges.revoke(charge));
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

    fn delete_filter(&mut self, number: u64) {
        self.filters.remove(&number);
        self.dirty_filters.insert(number);
        for vnic in self.vnics.values_mut() {
            if vnic.assigned.remove(&number).is_none() {
                continue;
            }
            self.dirty.insert(vnic.slot);
            if let Err(error) = vnic.write_filters(&mut self.tables) {
                (self.log)(&Event::new("filter-end", "failed", error).of(vnic.slot));
            }
        }
    }

    /// The number of an account with a ceiling, with the ceiling set.
    fn owner_number(&mut self, account: u32, ceilings: [Rate; 2]) -> Result<Option<u32>, String> {
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
    fn let_trains_through(&mut self, account: u32, ceilings: [Rate; 2]) -> Result<(), String> {
        let Some(owner) = self.owners.get_mut(&account).filter(|owner| !owner.takes_trains) else { return Ok(()) };
        owner.takes_trains = true;
        for (direction, ceiling) in [Direction::Transmit, Direction::Receive].into_iter().zip(ceilings) {
            self.tables.set_limit(Tables::owner_limit(owner.number, direction), ceiling, tap::TRAIN_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// It is root who is told this.
const ELSEWHERE: &str = "name a place that can be written, by --socket or `socket` in the policy";

/// Opens the control socket, in place of one that nobody listens at any more.
fn listen_at(policy: &Policy) -> Result<OwnedFd, String> {
    let path = policy.socket.as_path();
    let name = path.display();
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}; {ELSEWHERE}", directory.display()))?;
    }
    let address = SocketAddrUnix::new(path).map_err(|error| format!("{name}: {error}; choose a shorter path"))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = open().map_err(|error| tables::say("open a socket", error))?;
    if let Ok(about) = std::fs::symlink_metadata(path) {
        if !about.file_type().is_socket() {
            return Err(format!("{name} is there, and no socket; {ELSEWHERE}"));
        }
        let probe = open().map_err(|error| tables::say("open a socket", error))?;
        if connect(&probe, &address).is_ok() {
            return Err(format!("a daemon listens at {name} already: `qanat down` ends it"));
        }
        std::fs::remove_file(path).map_err(|error| format!("{name}: {error}"))?;
    }
    // Under its name there is never a socket that does not listen yet, or that its group may not use yet.
    let mut hidden = path.as_os_str().to_owned();
    hidden.push("+");
    let hidden = Path::new(&hidden);
    let hidden_address =
        SocketAddrUnix::new(hidden).map_err(|error| format!("{name}: {error}; choose a shorter path"))?;
    // Left by one that was killed just here.
    let _ = std::fs::remove_file(hidden);
    bind(&socket, &hidden_address).map_err(|error| format!("{name}: {error}; {ELSEWHERE}"))?;
    restrict(hidden, policy)?;
    listen(&socket, door::BACKLOG).map_err(|error| format!("{name}: {error}"))?;
    std::fs::rename(hidden, path).map_err(|error| format!("{name}: {error}"))?;
    Ok(socket)
}

/// A file's owner may give it to a group it is in. So a thread joins the group for this, and the daemon needs no right to give any
/// file to anybody (CAP_CHOWN), which would also be a right over files that are not its own.
fn give_to_group(path: &Path, group: rustix::process::Gid) -> rustix::io::Result<()> {
    std::thread::scope(|scope| {
        let give = || {
            rustix::thread::set_thread_res_gid(group, group, group)?;
            chown(path, None, Some(group))
        };
        // A panic in it would be one here.
        scope.spawn(give).join().unwrap_or(Err(rustix::io::Errno::PERM))
    })
}

/// Root and the group only; before anybody can connect, as nobody finds it yet.
fn restrict(path: &Path, policy: &Policy) -> Result<(), String> {
    let name = path.display();
    let mode = match policy.socket_group()? {
        Some(group) => {
            let group = rustix::process::Gid::from_raw(group);
            give_to_group(path, group).map_err(|error| format!("{name}: {error}"))?;
            0o660
        }
        None => 0o600,
    };
    chmod(path, Mode::from_raw_mode(mode)).map_err(|error| format!("{name}: {error}"))
}
