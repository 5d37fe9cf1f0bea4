//! One server behind a memif link, in either placement, and where it runs.
//!
//! ```text
//!   linked:  processor 0: stack and service                processor 1: the client
//!   split:   processor 0: the net core, its stack          processor 1: the client, and the service, turn by turn
//! ```
//! Three loops that poll need three processors; where there are two, client and service share one thread, which turns one,
//! then the other: neither ever sleeps, and each waits for one turn of the other.

use super::player::Player;
use crate::harness::{HarnessError, cpu};
use qanat::nic::memif::{self, MemifListener};
use qanat::nic::{MemifConfig, MemoryPlan};
use qanat::split::{Card, NetCore, NetCoreOptions, NetCoreStatus, SplitOptions, SplitRuntime, ask_status};
use qanat::wire::ethernet::MacAddress;
use qanat::{Config, Runtime, Service, SpinPolicy, entropy};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;
const PATIENCE: Duration = Duration::from_secs(10);
pub const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 2));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 1));

/// Where the server's stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Linked,
    Split,
}

/// Time spent in turns in which something happened.
pub struct Meter {
    last: Instant,
    busy: Duration,
}

impl Meter {
    pub fn new() -> Meter {
        Meter { last: Instant::now(), busy: Duration::ZERO }
    }

    /// A turn begins.
    pub fn begins(&mut self) {
        self.last = Instant::now();
    }

    /// It has ended.
    pub fn ends(&mut self, busy: bool) {
        if busy {
            self.busy += self.last.elapsed();
        }
    }

    pub fn busy_ns(&self) -> u64 {
        self.busy.as_nanos() as u64
    }
}

/// What the server's side has done.
#[derive(Clone, Copy, Default)]
pub struct Work {
    /// Stack: of a linked server, all.
    pub net_ns: u64,
    /// Service.
    pub app_ns: u64,
    pub events: u64,
    pub commands: u64,
    pub bells: u64,
}

/// The scene.
pub struct Scene {
    pub client: Runtime,
    service: Option<(SplitRuntime, Player, Meter)>,
    status: PathBuf,
    linked_ns: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<(), String>>>,
    _directory: crate::harness::scratch::Scratch,
}

fn plan() -> MemoryPlan {
    MemoryPlan { frame_size: 2048, receive_frames: 4_096, transmit_frames: 4_096, prepared_frames: 0 }
}

fn link(socket: &Path, mac: u8) -> MemifConfig {
    let mut config = MemifConfig::new(socket, MacAddress([2, 0, 0, 0, 0, mac]));
    config.memory = plan();
    config
}

fn config(address: IpAddr) -> Config {
    Config::new(address, 24)
}

impl Scene {
    /// With `player` as the service.
    pub fn new(place: Place, player: Player) -> Result<Scene, HarnessError> {
        let system = |what: &'static str| move |error: io::Error| HarnessError::system(what, error);
        let directory = crate::harness::scratch::Scratch::create("split")?;
        let socket = directory.path().join("card");
        let status = PathBuf::from(format!("@qanat-bench-{}", std::process::id()));
        let (stop, stopped) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        let (over, linked_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let net_socket = (place == Place::Split).then(|| listen_at(&status)).transpose();
        let net_socket = net_socket.map_err(system("listen for services"))?;
        let (its_socket, its_over, its_ns, its_player) =
            (socket.clone(), Arc::clone(&over), Arc::clone(&linked_ns), player.clone());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            cpu::pin(SERVER_CPU).map_err(|error| error.to_string())?;
            let listener = MemifListener::bind(link(&its_socket, 2)).map_err(|error| error.to_string())?;
            let _ = ready.send(());
            match net_socket {
                Some(net_socket) => net_core(&listener, net_socket, &stopped),
                None => linked(&listener, its_player, &its_over, &its_ns),
            }
        });
        is_ready.recv_timeout(PATIENCE).map_err(|_| HarnessError::Child("the server did not start".to_owned()))?;
        cpu::pin(CLIENT_CPU)?;
        let device = memif::connect(&link(&socket, 1), PATIENCE).and_then(memif::MemifDevice::open);
        let device = device.map_err(|error| HarnessError::Child(error.to_string()))?;
        let seed = entropy().map_err(system("find entropy"))?;
        let client = Runtime::new(Box::new(device), config(CLIENT), seed);
        let service = match place {
            Place::Linked => None,
            Place::Split => Some(attach(&status, player)?),
        };
        Ok(Scene {
            client,
            service,
            status,
            linked_ns,
            over,
            stop: Some(stop),
            thread: Some(thread),
            _directory: directory,
        })
    }

    /// A turn of all that this thread has to do.
    #[inline]
    pub fn turn(&mut self, client: &mut Player) {
        self.client.turn(client);
        self.turn_service();
    }

    /// The client's alone: the service of a net core stands still.
    #[inline]
    pub fn turn_client(&mut self, client: &mut Player) {
        self.client.turn(client);
    }

    /// The service's alone.
    #[inline]
    fn turn_service(&mut self) {
        if let Some((runtime, player, meter)) = &mut self.service {
            meter.begins();
            let busy = runtime.turn(player);
            meter.ends(busy);
        }
    }

    /// So far.
    pub fn work(&mut self) -> Result<Work, HarnessError> {
        let Some((runtime, _, meter)) = &self.service else {
            return Ok(Work { net_ns: self.linked_ns.load(Ordering::Acquire), ..Work::default() });
        };
        let status: NetCoreStatus =
            ask_status(&self.status).map_err(|error| HarnessError::system("ask the net core", error))?;
        let figures = runtime.figures();
        let bells = figures.bells
            + status.cards.first().and_then(|card| card.service.as_ref()).map_or(0, |service| service.bells);
        Ok(Work {
            net_ns: status.busy_ns,
            app_ns: meter.busy_ns(),
            events: figures.events,
            commands: figures.commands,
            bells,
        })
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.service = None;
        self.stop = None;
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let name = path.to_str().and_then(|name| name.strip_prefix('@')).unwrap_or_default();
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    listen(&socket, 8)?;
    Ok(socket)
}

fn attach(path: &Path, mut player: Player) -> Result<(SplitRuntime, Player, Meter), HarnessError> {
    let runtime = SplitRuntime::attach(SplitRuntime::at(path.to_owned()), SplitOptions::new("bench"));
    let mut runtime = runtime.map_err(|error| HarnessError::Child(error.to_string()))?;
    runtime.with_context(|context| player.start(context)).map_err(HarnessError::Child)?;
    Ok((runtime, player, Meter::new()))
}

fn net_core(listener: &MemifListener, socket: OwnedFd, stopped: &UnixStream) -> Result<(), String> {
    let device = listener.accept(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let (memory, files) = plan().allocate_lendable().map_err(|error| error.to_string())?;
    let opener = device.into_openers().into_iter().next().ok_or("no queue")?;
    let vnic = opener.open_over(Some(memory)).map_err(|error| error.to_string())?;
    let card = Card::new(Box::new(vnic), &files, plan(), config(SERVER), "memif", "memif");
    let card = card.map_err(|error| error.to_string())?;
    let users = vec![rustix::process::geteuid().as_raw()];
    let options = NetCoreOptions { spin: SpinPolicy::Always, users, confined: false, processor: None };
    NetCore::listening(vec![card], socket, options).run(stopped.as_fd()).map_err(|error| error.to_string())
}

fn linked(listener: &MemifListener, mut player: Player, over: &AtomicBool, busy_ns: &AtomicU64) -> Result<(), String> {
    let device = listener.accept(Some(PATIENCE)).map_err(|error| error.to_string())?;
    let vnic = device.open().map_err(|error| error.to_string())?;
    let seed = entropy().map_err(|error| error.to_string())?;
    let mut runtime = Runtime::new(Box::new(vnic), config(SERVER), seed);
    runtime.with_context(|context| player.start(context))?;
    let mut meter = Meter::new();
    while !over.load(Ordering::Relaxed) {
        meter.begins();
        let busy = runtime.turn(&mut player);
        meter.ends(busy);
        if busy {
            busy_ns.store(meter.busy_ns(), Ordering::Release);
        }
    }
    Ok(())
}
