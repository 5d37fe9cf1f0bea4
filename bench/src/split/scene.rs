//! One server behind a link, in either placement, and where it runs.
//!
//! ```text
//!   linked:  processor 0: stack and service                processor 1: the client
//!   split:   processor 0: the net core, its stack          processor 1: the client, and the service, turn by turn
//! ```
//! Three loops that poll need three processors; where there are two, client and service share one thread, which turns one,
//! then the other: neither ever sleeps, and each waits for one turn of the other.

use super::error::ServerError;
use super::player::Player;
use crate::harness::topology::{SERVER_OWN, Topology};
use crate::harness::{HarnessError, cpu};
use qanat::nic::link::Namespace;
use qanat::nic::memif::{self, MemifListener};
use qanat::nic::{LendableFiles, MemifConfig, MemoryPlan, Vnic};
use qanat::split::{Card, NetCore, NetCoreOptions, NetCoreStatus, SplitOptions, SplitRuntime, ask_status};
use qanat::wire::ethernet::MacAddress;
use qanat::{AttachOptions, Attachment, CardSource, Config, Runtime, Service, SpinPolicy, entropy};
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
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 2));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 1));

/// Where the server's stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Linked,
    Split,
}

/// What is between client and server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// Shared memory, MTU 1500.
    Memif,
    /// Shared memory, packets as large as loopback's, and like there no checksums.
    Large,
    /// A veth with AF_XDP at both ends, MTU 1500.
    Veth,
    /// The same, MTU 9000: packets in several frames.
    Jumbo,
}

impl Wire {
    fn plan(self) -> MemoryPlan {
        let (frame_size, frames) = match self {
            Wire::Large => (65_536, 512),
            Wire::Memif | Wire::Veth | Wire::Jumbo => {
                (MemoryPlan::frame_size_for(self.veth_mtu().unwrap_or(1_500)), 4_096)
            }
        };
        MemoryPlan { frame_size, receive_frames: frames, transmit_frames: frames, prepared_frames: 0 }
    }

    fn memif(self, socket: &Path, mac: u8) -> MemifConfig {
        let mut config = MemifConfig::new(socket, MacAddress([2, 0, 0, 0, 0, mac]));
        config.memory = self.plan();
        if self == Wire::Large {
            // 2 MiB of buffers each way: see `log2_ring_size`. Linux takes its pages from the top of a stack.
            (config.mtu, config.log2_ring_size, config.checksums) = (65_000, 5, false);
        }
        config
    }

    /// `None`: it is no veth.
    fn veth_mtu(self) -> Option<u32> {
        match self {
            Wire::Memif | Wire::Large => None,
            Wire::Veth => Some(1_500),
            Wire::Jumbo => Some(9_000),
        }
    }

    /// The veth, if it is one.
    ///
    /// # Errors
    /// What the system says.
    pub fn topology(self) -> Result<Option<Topology>, HarnessError> {
        self.veth_mtu().map(Topology::new).transpose()
    }

    /// Where the server is.
    pub fn server(self) -> IpAddr {
        if self.veth_mtu().is_some() { SERVER_OWN.into() } else { SERVER }
    }
}

/// Time spent in turns in which something happened.
pub struct Meter {
    /// Off where times count: a look at the clock takes as long as an idle turn.
    is_on: bool,
    last: Instant,
    busy: Duration,
}

impl Meter {
    pub fn new(is_on: bool) -> Meter {
        Meter { is_on, last: Instant::now(), busy: Duration::ZERO }
    }

    /// A turn begins.
    #[inline]
    pub fn begins(&mut self) {
        if self.is_on {
            self.last = Instant::now();
        }
    }

    /// It has ended.
    #[inline]
    pub fn ends(&mut self, busy: bool) {
        if busy && self.is_on {
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
    /// Of either kind.
    pub batches: u64,
    pub bells: u64,
}

/// The scene.
pub struct Scene<S> {
    pub client: Runtime,
    service: Option<(SplitRuntime, S, Meter)>,
    status: PathBuf,
    linked_ns: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
    _directory: crate::harness::scratch::Scratch,
    // After what uses it.
    _attachment: Option<Attachment>,
    _topology: Option<Topology>,
}

/// The server's card, opened where it is used.
struct Opened {
    vnic: Box<dyn Vnic>,
    files: Option<LendableFiles>,
    config: Config,
    _attachment: Option<Attachment>,
}

/// What the server's thread needs to have its card.
enum End {
    Memif(Wire, PathBuf),
    Veth(Wire, Namespace, String),
}

impl End {
    /// `ready` is called when the client may come; received frames are to be lent, or not.
    fn open(self, is_lending: bool, ready: impl FnOnce()) -> Result<Opened, ServerError> {
        match self {
            End::Memif(wire, socket) => {
                let listener = MemifListener::bind(wire.memif(&socket, 2))?;
                ready();
                let device = listener.accept(Some(PATIENCE))?;
                let config = Config::new(SERVER, 24);
                let (memory, files) = match is_lending {
                    true => wire.plan().allocate_lendable().map(|(memory, files)| (Some(memory), Some(files))),
                    false => Ok((None, None)),
                }?;
                let opener = device.into_openers().into_iter().next().ok_or(ServerError::NoQueue)?;
                let vnic = Box::new(opener.open_over(memory)?);
                Ok(Opened { vnic, files, config, _attachment: None })
            }
            End::Veth(wire, namespace, interface) => {
                let plan = wire.plan();
                let mut options = AttachOptions::new(SERVER_OWN.into(), 24);
                options.source = CardSource::interface(&interface, Some(namespace));
                let attachment = Attachment::open(&options)?;
                let config = attachment.config().clone();
                let (vnic, files): (Box<dyn Vnic>, _) = if is_lending {
                    let opened = attachment.open_lendable_queue(0, plan);
                    opened.map(|(vnic, files)| (Box::new(vnic) as Box<dyn Vnic>, Some(files)))
                } else {
                    attachment.open_queue(0, plan).map(|vnic| (Box::new(vnic) as Box<dyn Vnic>, None))
                }?;
                ready();
                Ok(Opened { vnic, files, config, _attachment: Some(attachment) })
            }
        }
    }
}

impl<S: Service + 'static> Scene<S> {
    /// With the service that `make` makes, where it is to run. `metered`: what is done is timed.
    pub fn new(
        place: Place,
        wire: Wire,
        metered: bool,
        make: impl FnOnce() -> Result<S, ServerError> + Send + 'static,
    ) -> Result<Scene<S>, HarnessError> {
        let system = |what: &'static str| move |error: io::Error| HarnessError::system(what, error);
        let directory = crate::harness::scratch::Scratch::create("split")?;
        let socket = directory.path().join("card");
        let topology = wire.topology()?;
        let end = match &topology {
            Some(topology) => End::Veth(wire, topology.server().clone(), topology.server_interface().to_owned()),
            None => End::Memif(wire, socket.clone()),
        };
        let status = PathBuf::from(format!("@qanat-bench-{}", std::process::id()));
        let (stop, stopped) = UnixStream::pair().map_err(system("make a pair of sockets"))?;
        let (over, linked_ns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let net_socket = (place == Place::Split).then(|| listen_at(&status)).transpose();
        let net_socket = net_socket.map_err(system("listen for services"))?;
        let (its_over, its_ns) = (Arc::clone(&over), Arc::clone(&linked_ns));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let mut make = Some(make);
        let its_make = if place == Place::Linked { make.take() } else { None };
        let thread = std::thread::spawn(move || {
            cpu::pin(SERVER_CPU)?;
            let opened = end.open(net_socket.is_some(), || ready.send(()).unwrap_or_default())?;
            match (net_socket, its_make) {
                (Some(net_socket), _) => net_core(opened, wire, net_socket, &stopped),
                (None, Some(make)) => linked(opened, make()?, metered, &its_over, &its_ns),
                (None, None) => Err(ServerError::NoService),
            }
        });
        if is_ready.recv_timeout(PATIENCE).is_err() {
            let why = thread.join().ok().and_then(Result::err).map_or_else(String::new, |error| error.to_string());
            return Err(HarnessError::Child(format!("the server did not start: {why}")));
        }
        cpu::pin(CLIENT_CPU)?;
        let (device, config, attachment) = client_end(wire, &socket, topology.as_ref())?;
        let seed = entropy().map_err(system("find entropy"))?;
        let client = Runtime::new(device, config, seed);
        let service = make.map(|make| attach(&status, make, metered)).transpose()?;
        Ok(Scene {
            client,
            service,
            status,
            linked_ns,
            over,
            stop: Some(stop),
            thread: Some(thread),
            _directory: directory,
            _attachment: attachment,
            _topology: topology,
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
            batches: figures.command_batches
                + status.cards.first().and_then(|card| card.service.as_ref()).map_or(0, |s| s.event_batches),
            bells,
        })
    }
}

impl<S> Drop for Scene<S> {
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

type ClientEnd = (Box<dyn Vnic>, Config, Option<Attachment>);

fn client_end(wire: Wire, socket: &Path, topology: Option<&Topology>) -> Result<ClientEnd, HarnessError> {
    let Some(topology) = topology else {
        let device = memif::connect(&wire.memif(socket, 1), PATIENCE).and_then(memif::MemifDevice::open);
        let device = device.map_err(|error| HarnessError::Child(error.to_string()))?;
        return Ok((Box::new(device), Config::new(CLIENT, 24), None));
    };
    let failed = |error: qanat::AttachError| HarnessError::Child(error.to_string());
    let sources: Vec<IpAddr> = topology.client_addresses(1).into_iter().map(IpAddr::V4).collect();
    let attachment = Attachment::towards(SERVER_OWN.into(), &sources, 1, Some(topology.client())).map_err(failed)?;
    let vnic = attachment.open_queue(0, wire.plan()).map_err(failed)?;
    Ok((Box::new(vnic), attachment.config().clone(), Some(attachment)))
}

fn attach<S: Service>(
    path: &Path,
    make: impl FnOnce() -> Result<S, ServerError>,
    metered: bool,
) -> Result<(SplitRuntime, S, Meter), HarnessError> {
    let mut service = make().map_err(|error| HarnessError::Child(error.to_string()))?;
    let runtime = SplitRuntime::attach(SplitRuntime::at(path.to_owned()), SplitOptions::new("bench"));
    let mut runtime = runtime.map_err(|error| HarnessError::Child(error.to_string()))?;
    runtime.with_context(|context| service.start(context))?;
    Ok((runtime, service, Meter::new(metered)))
}

fn net_core(opened: Opened, wire: Wire, socket: OwnedFd, stopped: &UnixStream) -> Result<(), ServerError> {
    let files = opened.files.ok_or(ServerError::NotLent)?;
    let card = Card::new(opened.vnic, &files, wire.plan(), opened.config, "bench", "bench")?;
    let users = vec![rustix::process::geteuid().as_raw()];
    let options = NetCoreOptions {
        spin: SpinPolicy::Always,
        users,
        confined: false,
        processor: None,
        ..NetCoreOptions::default()
    };
    Ok(NetCore::listening(vec![card], socket, options).run(stopped.as_fd())?)
}

fn linked<S: Service>(
    opened: Opened,
    mut service: S,
    metered: bool,
    over: &AtomicBool,
    busy_ns: &AtomicU64,
) -> Result<(), ServerError> {
    let mut runtime = Runtime::new(opened.vnic, opened.config, entropy()?);
    runtime.with_context(|context| service.start(context))?;
    let mut meter = Meter::new(metered);
    while !over.load(Ordering::Relaxed) {
        meter.begins();
        let busy = runtime.turn(&mut service);
        meter.ends(busy);
        if busy {
            busy_ns.store(meter.busy_ns(), Ordering::Release);
        }
    }
    Ok(())
}
