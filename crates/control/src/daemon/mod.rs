//! The daemon: decides once, in the kernel's name, and then stays out of the way.
//!
//! One thread, one loop over descriptors, no wait but for them: whoever is slow, silent or hostile delays himself only.

mod metrics;
mod serve;
mod spare;
pub mod tables;
mod vnic;

use crate::filter::{Direction, Filter, Rate};
use crate::policy::Policy;
use crate::protocol::{Answer, Fault, MESSAGE_BYTES_MAX, Request, Status, receive, send};
use qanat_nic::link::Namespace;
use rustix::event::epoll;
use rustix::fs::{Mode, chmod, chown};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    socketpair, sockopt,
};
use spare::Spares;
use std::collections::{BTreeMap, HashMap};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Instant;
use tables::Tables;
use vnic::Vnic;

/// Connections to the control socket at most.
const SESSIONS_MAX: usize = 256;
/// Of one user.
const SESSIONS_PER_USER_MAX: usize = 32;
/// Handles of one user at most: of VNICs and filters.
const HANDLES_PER_USER_MAX: usize = 1_024;
/// Descriptors looked at in one turn.
const EVENTS: usize = 64;

/// Whose a connection or handle is, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer {
    user: u32,
    group: u32,
    process: i32,
}

/// What a descriptor of the loop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Listener,
    Metrics,
    Stop,
    Session,
    /// A VNIC's handle.
    Vnic(u32),
    /// A filter's handle.
    Filter,
}

struct Endpoint {
    fd: OwnedFd,
    role: Role,
    peer: Peer,
    /// The inode of the end given away: how a handle that comes back is known.
    inode: u64,
}

struct FilterObject {
    direction: Direction,
    filter: Filter,
    inode: u64,
}

/// A user with a ceiling for all VNICs together.
struct Owner {
    number: u32,
    vnics: u32,
}

/// The daemon.
pub struct Daemon {
    policy: Policy,
    tables: Tables,
    spares: Spares,
    /// Of the VNICs' ends: nothing is in it but them.
    ends: Namespace,
    epoll: OwnedFd,
    endpoints: HashMap<u64, Endpoint>,
    next_token: u64,
    vnics: BTreeMap<u32, Vnic>,
    filters: HashMap<u64, FilterObject>,
    owners: HashMap<u32, Owner>,
    metrics: Option<TcpListener>,
    scrapes: Arc<AtomicU32>,
    started: Instant,
    /// Served, refused, cut off.
    requests: [u64; 3],
    buffer: Vec<u8>,
    stopping: bool,
    log: fn(&str),
}

impl Daemon {
    /// Loads the fence and opens the control socket. `stop`: a descriptor that ends the loop by becoming readable;
    /// `log`: where lines about what happened go.
    ///
    /// # Errors
    /// What is missing, and the remedy.
    pub fn start(policy: Policy, stop: OwnedFd, log: fn(&str)) -> Result<Daemon, String> {
        let listener = listen_at(&policy)?;
        let tables = Tables::load()?;
        let ends = Namespace::anonymous().map_err(|error| tables::say("make a network namespace", error))?;
        ends.within(qanat_nic::veth::silence_kernel).map_err(|error| tables::say("enter a namespace", error))?;
        let metrics = match policy.metrics {
            Some(address) => {
                Some(TcpListener::bind(address).map_err(|error| format!("metrics at {address}: {error}"))?)
            }
            None => None,
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| tables::say("epoll", error))?;
        let mut daemon = Daemon {
            policy,
            tables,
            spares: Spares::start(),
            ends,
            epoll,
            endpoints: HashMap::new(),
            next_token: 0,
            vnics: BTreeMap::new(),
            filters: HashMap::new(),
            owners: HashMap::new(),
            metrics,
            scrapes: Arc::default(),
            started: Instant::now(),
            requests: [0; 3],
            buffer: vec![0; MESSAGE_BYTES_MAX],
            stopping: false,
            log,
        };
        let nobody = Peer { user: u32::MAX, group: u32::MAX, process: 0 };
        daemon.watch(listener, Role::Listener, nobody, 0)?;
        daemon.watch(stop, Role::Stop, nobody, 0)?;
        if let Some(metrics) = &daemon.metrics {
            metrics.set_nonblocking(true).map_err(|error| tables::say("metrics", error))?;
            let metrics = metrics.try_clone().map_err(|error| tables::say("metrics", error))?;
            daemon.watch(metrics.into(), Role::Metrics, nobody, 0)?;
        }
        Ok(daemon)
    }

    /// The tables: for tests.
    pub fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Serves until told to stop. Everything it made goes with it.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn run(&mut self) -> Result<(), String> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        while !self.stopping {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(tables::say("wait for clients", error)),
            }
            // Handles before sessions: what a client gave up before it asked is free when it is answered.
            let is_session = |token: u64| self.endpoints.get(&token).is_some_and(|e| e.role == Role::Session);
            let mut tokens: Vec<(bool, u64)> =
                events.iter().map(|e| (is_session(e.data.u64()), e.data.u64())).collect();
            tokens.sort_unstable();
            for (_, token) in tokens {
                // One message of each per turn, so that none who asks without end delays another.
                self.attend(token);
            }
        }
        let slots: Vec<u32> = self.vnics.keys().copied().collect();
        for slot in slots {
            self.delete_vnic(slot, "the daemon ends");
        }
        let _ = std::fs::remove_file(&self.policy.socket);
        Ok(())
    }

    fn watch(&mut self, fd: OwnedFd, role: Role, peer: Peer, inode: u64) -> Result<u64, String> {
        let token = self.next_token;
        let events = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.epoll, &fd, epoll::EventData::new_u64(token), events)
            .map_err(|error| tables::say("watch a descriptor", error))?;
        self.next_token += 1;
        self.endpoints.insert(token, Endpoint { fd, role, peer, inode });
        Ok(token)
    }

    fn attend(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        let (role, peer) = (endpoint.role, endpoint.peer);
        match role {
            Role::Stop => self.stopping = true,
            Role::Listener => self.accept(token),
            Role::Metrics => self.scrape(),
            Role::Session | Role::Vnic(_) | Role::Filter => {
                match receive::<Request>(endpoint.fd.as_fd(), &mut self.buffer) {
                    Ok((request, beside)) => self.answer(token, role, peer, request, &beside),
                    Err(Fault::Empty) => {}
                    Err(Fault::Closed) => self.close(token),
                    Err(fault) => self.cut_off(token, &fault.to_string()),
                }
            }
        }
    }

    fn answer(&mut self, token: u64, role: Role, peer: Peer, request: Request, beside: &[OwnedFd]) {
        let (answer, descriptors) = match self.serve(role, peer, request, beside) {
            Ok(served) => {
                self.requests[0] += 1;
                served
            }
            Err(why) => {
                self.requests[1] += 1;
                (self.log)(&format!("refused user {} (process {}): {why}", peer.user, peer.process));
                (Answer::Refused(why), Vec::new())
            }
        };
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        let beside: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        // A client that does not read its answers is not waited for.
        if let Err(fault) = send(endpoint.fd.as_fd(), answer, &beside) {
            self.cut_off(token, &format!("its answer could not be sent: {fault}"));
        }
    }

    fn accept(&mut self, token: u64) {
        let Some(listener) = self.endpoints.get(&token) else { return };
        let Ok(socket) = accept_with(&listener.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) else { return };
        let Ok(credentials) = sockopt::socket_peercred(&socket) else { return };
        let peer = Peer {
            user: credentials.uid.as_raw(),
            group: credentials.gid.as_raw(),
            process: credentials.pid.as_raw_nonzero().get(),
        };
        let sessions = self.endpoints.values().filter(|endpoint| endpoint.role == Role::Session);
        let (mut all, mut own) = (0, 0);
        for session in sessions {
            all += 1;
            own += usize::from(session.peer.user == peer.user);
        }
        // Root may look at a daemon that others have filled.
        if own >= SESSIONS_PER_USER_MAX || (all >= SESSIONS_MAX && peer.user != 0) {
            self.requests[2] += 1;
            let refusal = Answer::Refused(format!("{own} connections of user {} already: close some", peer.user));
            let _ = send(socket.as_fd(), refusal, &[]);
            return;
        }
        if let Err(error) = self.watch(socket, Role::Session, peer, 0) {
            (self.log)(&error);
        }
    }

    /// Ends a connection or takes back a handle, with what depends on it.
    fn close(&mut self, token: u64) {
        let Some(endpoint) = self.endpoints.remove(&token) else { return };
        let _ = epoll::delete(&self.epoll, &endpoint.fd);
        match endpoint.role {
            Role::Vnic(slot) => {
                let Some(vnic) = self.vnics.get_mut(&slot) else { return };
                vnic.handles = vnic.handles.saturating_sub(1);
                if vnic.handles == 0 && !vnic.wish.persistent {
                    self.delete_vnic(slot, "its last handle is closed");
                }
            }
            Role::Filter => self.delete_filter(token),
            _ => {}
        }
    }

    fn cut_off(&mut self, token: u64, why: &str) {
        self.requests[2] += 1;
        if let Some(endpoint) = self.endpoints.get(&token) {
            let Peer { user, process, .. } = endpoint.peer;
            (self.log)(&format!("cut off user {user} (process {process}): {why}"));
            let _ = send(endpoint.fd.as_fd(), Answer::Refused(why.to_owned()), &[]);
        }
        self.close(token);
    }

    /// Makes a handle: keeps one end, returns the other.
    fn make_handle(&mut self, role: Role, peer: Peer) -> Result<(u64, OwnedFd), String> {
        let own = |endpoint: &&Endpoint| endpoint.peer.user == peer.user && endpoint.role != Role::Session;
        if self.endpoints.values().filter(own).count() >= HANDLES_PER_USER_MAX {
            return Err(format!("user {} has {HANDLES_PER_USER_MAX} handles: close some", peer.user));
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (kept, given) = pair.map_err(|error| tables::say("make a handle", error))?;
        // The client waits for its answers.
        rustix::io::ioctl_fionbio(&given, false).map_err(|error| tables::say("make a handle", error))?;
        let inode = inode(&given)?;
        Ok((self.watch(kept, role, peer, inode)?, given))
    }

    fn delete_vnic(&mut self, slot: u32, why: &str) {
        let Some(vnic) = self.vnics.remove(&slot) else { return };
        (self.log)(&format!("VNIC {slot} \"{}\" of user {} deleted: {why}", vnic.wish.name, vnic.user));
        let user = vnic.user;
        vnic.remove(&mut self.tables);
        let stale = |(token, endpoint): (&u64, &Endpoint)| (endpoint.role == Role::Vnic(slot)).then_some(*token);
        // Revoked: whoever still has a handle finds it closed.
        let stale: Vec<u64> = self.endpoints.iter().filter_map(stale).collect();
        for token in stale {
            self.close(token);
        }
        if let Some(owner) = self.owners.get_mut(&user) {
            owner.vnics = owner.vnics.saturating_sub(1);
            if owner.vnics == 0 {
                self.owners.remove(&user);
            }
        }
    }

    fn delete_filter(&mut self, number: u64) {
        self.filters.remove(&number);
        for vnic in self.vnics.values_mut() {
            if vnic.assigned.remove(&number).is_some()
                && let Err(error) = vnic.write_filters(&mut self.tables)
            {
                (self.log)(&error);
            }
        }
    }

    fn status(&self, peer: Peer) -> Status {
        let visible = self.vnics.values().filter(|vnic| peer.user == 0 || vnic.user == peer.user);
        let sessions = self.endpoints.values().filter(|endpoint| endpoint.role == Role::Session).count();
        Status {
            daemon: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            sessions: sessions as u32,
            vnics: visible.map(|vnic| vnic.status(&self.tables)).collect(),
            requests: self.requests,
        }
    }

    /// The number of a user with a ceiling, with the ceiling set.
    fn owner_number(&mut self, user: u32, ceilings: [Rate; 2]) -> Result<Option<u32>, String> {
        if ceilings == [Rate::UNLIMITED; 2] {
            return Ok(None);
        }
        if let Some(owner) = self.owners.get(&user) {
            return Ok(Some(owner.number));
        }
        let is_free = |number: &u32| self.owners.values().all(|owner| owner.number != *number);
        let number = (0..tables::OWNERS_MAX).find(is_free).ok_or("too many users with a ceiling at once")?;
        for (direction, ceiling) in [Direction::Transmit, Direction::Receive].into_iter().zip(ceilings) {
            self.tables.set_limit(Tables::owner_limit(number, direction), ceiling, 9_000)?;
        }
        self.owners.insert(user, Owner { number, vnics: 0 });
        Ok(Some(number))
    }
}

fn inode(fd: &OwnedFd) -> Result<u64, String> {
    rustix::fs::fstat(fd).map(|status| status.st_ino).map_err(|error| tables::say("look at a descriptor", error))
}

/// Opens the control socket, in place of one that nobody listens at any more.
fn listen_at(policy: &Policy) -> Result<OwnedFd, String> {
    let path = policy.socket.as_path();
    let name = path.display();
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}; run with sudo", directory.display()))?;
    }
    let address = SocketAddrUnix::new(path).map_err(|error| format!("{name}: {error}; choose a shorter path"))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = open().map_err(|error| tables::say("open a socket", error))?;
    if path.exists() {
        let probe = open().map_err(|error| tables::say("open a socket", error))?;
        if connect(&probe, &address).is_ok() {
            return Err(format!("a daemon listens at {name} already: `qanat down` ends it"));
        }
        std::fs::remove_file(path).map_err(|error| format!("{name}: {error}"))?;
    }
    bind(&socket, &address).map_err(|error| format!("{name}: {error}; run with sudo"))?;
    restrict(path, policy)?;
    listen(&socket, 64).map_err(|error| format!("{name}: {error}"))?;
    Ok(socket)
}

/// Root and the group only; before anybody can connect, as nobody listens yet.
fn restrict(path: &Path, policy: &Policy) -> Result<(), String> {
    let name = path.display();
    let mode = match policy.socket_group() {
        Some(group) => {
            let group = rustix::process::Gid::from_raw(group.as_raw());
            chown(path, None, Some(group)).map_err(|error| format!("{name}: {error}"))?;
            0o660
        }
        None => 0o600,
    };
    chmod(path, Mode::from_raw_mode(mode)).map_err(|error| format!("{name}: {error}"))
}
