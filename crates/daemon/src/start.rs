//! The daemon's start: its socket, its ground, and what it takes back.

use crate::cards::uplink::Uplink;
use crate::clients::door;
use crate::clients::fairness::Shares;
use crate::clients::orphan::LOOK_INTERVAL;
use crate::clients::peer::{Peer, Role};
use crate::clients::porters::Porters;
use crate::clients::registrar::Registrar;
use crate::daemon::Daemon;
use crate::disks::disk::Disks;
use crate::error::{DaemonError, say};
use crate::fence::keepers::Keepers;
use crate::log::Event;
use crate::net_cores::pool::NetCores;
use crate::policy::{Policy, Subordinates};
use crate::state::StateDirectory;
use crate::takeover::ground::ground;
use qanat_control::protocol::MESSAGE_BYTES_MAX;
use qanat_nic::link::LinkWatch;
use rustix::event::epoll;
use rustix::fs::{Mode, chmod, chown};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

impl Daemon {
    /// Opens the control socket, and loads the fence or takes back what an earlier daemon left running. `stop`: a descriptor
    /// that ends the loop by becoming readable ([`LEAVE`](crate::LEAVE): and leaves everything); `log`: where events go.
    ///
    /// # Errors
    /// What is missing, and the remedy.
    pub fn start(policy: Policy, stop: OwnedFd, log: fn(&Event)) -> Result<Daemon, DaemonError> {
        // First: it is to have nothing of what comes.
        let porters = Porters::open()?;
        let listener = listen_at(&policy)?;
        let state = StateDirectory::of(&policy.socket);
        let ground = ground(&state)?;
        let metrics = match policy.metrics {
            Some(address) => {
                Some(TcpListener::bind(address).map_err(|error| format!("metrics at {address}: {error}"))?)
            }
            None => None,
        };
        // Before the cards are looked at.
        let link_watch = LinkWatch::open().map_err(|error| say("watch the interfaces", error))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| say("epoll", error))?;
        let keepers = Keepers::start([ground.tables.gate(), ground.tables.deliver()]);
        let subordinates = Subordinates::of(&policy.subordinate_users);
        let registrar = Registrar::start(&policy)?;
        let disks = Disks::at(policy.disk_directory())?;
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
            strays: Vec::new(),
            ends: ground.ends,
            epoll,
            endpoints: HashMap::new(),
            next_token: 0,
            vnics: BTreeMap::new(),
            filters: HashMap::new(),
            owners: HashMap::new(),
            uplink: None,
            net_cores: NetCores::default(),
            disks,
            porters,
            registrar,
            in_vain: Vec::new(),
            shares: Shares::default(),
            turn: 0,
            paused: Vec::new(),
            last_scrape: None,
            orphans_dead: Vec::new(),
            look_interval: LOOK_INTERVAL,
            metrics,
            dashboard: None,
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
        daemon.watch(daemon.disks.bell()?, Role::Disks, nobody, None)?;
        if let Some(metrics) = &daemon.metrics {
            metrics.set_nonblocking(true).map_err(|error| say("metrics", error))?;
            let metrics = metrics.try_clone().map_err(|error| say("metrics", error))?;
            daemon.watch(metrics.into(), Role::Metrics, nobody, None)?;
        }
        let links = rustix::io::dup(daemon.link_watch.as_fd()).map_err(|error| say("watch the interfaces", error))?;
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
        daemon.open_disks(false);
        daemon.prepare_functions();
        Ok(daemon)
    }
}

/// It is root who is told this.
const ELSEWHERE: &str = "name a place that can be written, by --socket or `socket` in the policy";

/// Opens the control socket, in place of one that nobody listens at any more.
fn listen_at(policy: &Policy) -> Result<OwnedFd, DaemonError> {
    let path = policy.socket.as_path();
    let name = path.display();
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}; {ELSEWHERE}", directory.display()))?;
    }
    let address = SocketAddrUnix::new(path).map_err(|error| format!("{name}: {error}; choose a shorter path"))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = open().map_err(|error| say("open a socket", error))?;
    if let Ok(about) = std::fs::symlink_metadata(path) {
        if !about.file_type().is_socket() {
            return Err(format!("{name} is there, and no socket; {ELSEWHERE}").into());
        }
        let probe = open().map_err(|error| say("open a socket", error))?;
        if connect(&probe, &address).is_ok() {
            return Err(format!("a daemon listens at {name} already: `qanat down` ends it").into());
        }
        if !qanat_nic::remove_left_behind(path).map_err(|error| format!("{name}: {error}"))? {
            return Err(format!("{name} is another program's socket; {ELSEWHERE}").into());
        }
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
fn restrict(path: &Path, policy: &Policy) -> Result<(), DaemonError> {
    let name = path.display();
    let mode = match policy.socket_group()? {
        Some(group) => {
            let group = rustix::process::Gid::from_raw(group);
            give_to_group(path, group).map_err(|error| format!("{name}: {error}"))?;
            0o660
        }
        None => 0o600,
    };
    chmod(path, Mode::from_raw_mode(mode)).map_err(|error| say(&name.to_string(), error))
}
