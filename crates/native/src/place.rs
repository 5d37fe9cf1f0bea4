//! [`Place`]: a runtime, wherever its stack is, and how the options make it.

use crate::options::{Area, Card, Options, Placement};
use qanat::control::{CardWatch, ClientError, Session, default_socket};
use qanat::disk::{DiskOptions, OpenError, Uring};
use qanat::kernel::{KernelError, KernelOptions, KernelRuntime};
use qanat::nic::{MemoryPlan, PortRange, Region};
use qanat::split::{self, SplitError, SplitOptions, SplitRuntime};
use qanat::{
    AttachError, AttachOptions, Attachment, CardSource, DaemonArea, DaemonAreaError, DaemonCard, Doorbell, OwnCard,
    PROTOCOL_TCP, Runtime, SpinPolicy, StorageArea, WantedCard, entropy,
};
use qanat_control::filter::Ports;
use qanat_control::protocol::StackWish;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The address of whoever names none.
const ADDRESS: (IpAddr, u8) = (IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)), 24);

/// A runtime, wherever its stack is.
pub(crate) enum Place {
    /// The card is there as long as this is.
    Linked(Box<Runtime>, Option<Box<Attachment>>),
    Split(Box<SplitRuntime>),
    Kernel(Box<KernelRuntime>),
}

/// Does the same with each kind of runtime.
macro_rules! with_runtime {
    ($place:expr, $runtime:ident => $does:expr) => {
        match $place {
            $crate::place::Place::Linked($runtime, ..) => $does,
            $crate::place::Place::Split($runtime) => $does,
            $crate::place::Place::Kernel($runtime) => $does,
        }
    };
}
pub(crate) use with_runtime;

/// Why there is no stack, or no area. The texts are for the user, with the remedy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// An address has no prefix.
    #[error("address: `{0}`: write it with its prefix length, as in {0}/24")]
    NoLength(IpAddr),
    /// Options that do not go together.
    #[error("{0}")]
    Mixture(&'static str),
    /// An option that means nothing here.
    #[error(
        "{0}: it means nothing in this placement: leave it out, or choose another `placement` (docs/native.md has which)"
    )]
    OutOfPlace(&'static str),
    /// There is no card.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// It has none.
    #[error(
        "the daemon has no net cores: give it some ([net] cores of its policy), or name one (`qanat net`) by the option `net`"
    )]
    NoNetCores,
    /// A net core can't be used.
    #[error("{which}: {error}")]
    NetCore {
        /// Which.
        which: String,
        /// Why.
        error: SplitError,
    },
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An area of the daemon's.
    #[error(transparent)]
    Area(#[from] DaemonAreaError),
    /// A file.
    #[error(transparent)]
    File(#[from] OpenError),
    /// Something that the process lacks.
    #[error("{what}: {error}; raise the process's limits (`ulimit -n`, `ulimit -l`)")]
    Lacks {
        /// What for.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

fn lacks(what: &'static str) -> impl Fn(io::Error) -> PlaceError {
    move |error| PlaceError::Lacks { what, error }
}

/// The addresses of a card, with their prefixes.
fn prefixed(options: &Options) -> Result<Vec<(IpAddr, u8)>, PlaceError> {
    if options.addresses.is_empty() {
        return Ok(vec![ADDRESS]);
    }
    let with_length = |(address, length): &(IpAddr, Option<u8>)| {
        length.map(|length| (*address, length)).ok_or(PlaceError::NoLength(*address))
    };
    options.addresses.iter().map(with_length).collect()
}

fn daemon(options: &Options) -> PathBuf {
    options.daemon.clone().unwrap_or_else(default_socket)
}

/// What card is to be had, of `source`.
fn attach_options(options: &Options, source: CardSource) -> Result<AttachOptions, PlaceError> {
    let addresses = prefixed(options)?;
    let Some(((address, length), more)) = addresses.split_first() else {
        return Err(PlaceError::Mixture("address: there is none"));
    };
    let mut attach = AttachOptions::new(*address, *length);
    attach.more_addresses = more.to_vec();
    attach.gateway = options.gateway;
    attach.services.clone_from(&options.ports);
    // Of a card with services only these may be sent from.
    attach.services.extend(options.ephemeral_ports.map(|Ports { first, last }| PortRange {
        protocol: PROTOCOL_TCP,
        first,
        last,
    }));
    attach.maximum_segment = options.maximum_segment;
    attach.source = source;
    Ok(attach)
}

/// Where the card of a stack in this process comes from.
fn source(options: &Options) -> Result<CardSource, PlaceError> {
    let socket = daemon(options);
    Ok(match (&options.interface, options.card) {
        (Some(_), Card::Daemon) => {
            return Err(PlaceError::Mixture(
                "interface: the daemon's cards are new ones: leave out `card` or `interface`",
            ));
        }
        (Some(_), _) if options.mtu.is_some() => {
            return Err(PlaceError::Mixture("mtu: an interface that is there already has its own: leave it out"));
        }
        (Some(interface), _) => CardSource::interface(interface, None),
        (None, Card::Daemon) => of_daemon(options, socket),
        (None, Card::Any) if Session::connect(&socket).is_ok() => of_daemon(options, socket),
        (None, Card::Own | Card::Any) => {
            let own = OwnCard { kind: options.device.into(), ..OwnCard::default() };
            let mtu = options.mtu.unwrap_or(own.mtu);
            CardSource::Own(OwnCard { mtu, ..own })
        }
    })
}

fn of_daemon(options: &Options, socket: PathBuf) -> CardSource {
    let mut card = DaemonCard::new(socket);
    card.name = Some(name(options));
    card.mtu = options.mtu.unwrap_or(card.mtu);
    card.card = WantedCard::New(options.device);
    CardSource::Daemon(card)
}

/// What listings call the program.
fn name(options: &Options) -> String {
    let own = || {
        let program = std::env::current_exe().ok();
        let file = program.as_ref().and_then(|program| program.file_name());
        file.map_or_else(|| "native".to_owned(), |file| file.to_string_lossy().into_owned())
    };
    options.name.clone().unwrap_or_else(own)
}

fn linked(options: &Options) -> Result<Place, PlaceError> {
    let attachment = Attachment::open(&attach_options(options, source(options)?)?)?;
    let frame_size = MemoryPlan::frame_size_for(attachment.mtu());
    let plan = MemoryPlan { frame_size, ..MemoryPlan::default() };
    let queue = attachment.open_queue(0, plan)?;
    let seed = entropy().map_err(lacks("entropy"))?;
    let mut config = attachment.config().clone();
    if let Some(Ports { first, last }) = options.ephemeral_ports {
        config.ephemeral_ports = first..=last;
    }
    config.connections_max = options.connections.unwrap_or(config.connections_max);
    let mut runtime = Runtime::new(Box::new(queue), config, seed);
    if let Some(vnic) = attachment.vnic() {
        let watch = CardWatch::start(vnic).map_err(lacks("a watch over the card"))?;
        runtime.watch_card(&Arc::new(watch)).map_err(lacks("a watch over the card"))?;
    }
    Ok(Place::Linked(Box::new(runtime), Some(Box::new(attachment))))
}

fn on_net_cores(options: &Options) -> Result<Place, PlaceError> {
    let mut wish = SplitOptions::new(&name(options));
    wish.connections_max = options.connections.unwrap_or(wish.connections_max);
    wish.ephemeral_ports = options.ephemeral_ports.map(|Ports { first, last }| first..=last);
    let connectors = if options.net.is_empty() {
        let socket = daemon(options);
        let attach = attach_options(options, of_daemon(options, socket.clone()))?;
        let stack =
            StackWish { gateway: options.gateway, maximum_segment: options.maximum_segment, ..StackWish::default() };
        let found = split::daemons_net_core(&socket, attach.vnic_wish(), stack)?;
        let connector = found.ok_or(PlaceError::NoNetCores)?;
        vec![(connector, None)]
    } else {
        if options.addresses.len() > options.net.len() {
            return Err(PlaceError::Mixture("address: there are more than net cores (`net`), of which each has one"));
        }
        let addresses = options.addresses.iter().map(|(address, _)| Some(*address)).chain(std::iter::repeat(None));
        options.net.iter().map(|path| SplitRuntime::at(path.clone())).zip(addresses).collect()
    };
    let named = |path: &PathBuf| format!("net: {}", path.display());
    let which = options.net.first().map_or_else(|| "the daemon's net core".to_owned(), named);
    let attached = SplitRuntime::attach_all(connectors, wish);
    Ok(Place::Split(Box::new(attached.map_err(|error| PlaceError::NetCore { which, error })?)))
}

fn over_kernel(options: &Options) -> Result<Place, PlaceError> {
    let mut wish = KernelOptions::new(options.ports.clone());
    wish.addresses = options.addresses.iter().map(|(address, _)| *address).collect();
    wish.connections_max = options.connections.unwrap_or(wish.connections_max);
    wish.engine = options.engine;
    Ok(Place::Kernel(Box::new(KernelRuntime::over_kernel(wish)?)))
}

/// An area, opened.
fn open_area(area: &Area, options: &Options) -> Result<StorageArea, PlaceError> {
    let buffers = options.buffers;
    match area {
        // Commands of an area that is lost end with ENODEV until it is back: that is how a program hears of it.
        Area::Daemon(path) => Ok(DaemonArea::open(daemon(options), path.clone(), buffers, Arc::new(|_| {}))?),
        Area::File(path) => {
            let memory = lacks("memory for buffers");
            let region = Region::new(buffers.count, buffers.bytes).map_err(&memory)?;
            let pool = region.pool(buffers.count).ok_or_else(|| memory(io::ErrorKind::OutOfMemory.into()))?;
            let wish = DiskOptions { depth: buffers.depth(), ..DiskOptions::default() };
            let disk = Uring::open(path, wish, &[region])?;
            Ok(StorageArea::new(Box::new(disk), pool))
        }
    }
}

impl Place {
    /// Makes the runtime that the options ask for, with its areas.
    pub(crate) fn open(options: &Options) -> Result<Place, PlaceError> {
        if let Some(name) = options.out_of_place() {
            return Err(PlaceError::OutOfPlace(name));
        }
        let mut place = match options.placement {
            Placement::Linked => linked(options)?,
            Placement::Split => on_net_cores(options)?,
            Placement::Kernel => over_kernel(options)?,
        };
        for area in &options.areas {
            let area = open_area(area, options)?;
            with_runtime!(&mut place, runtime => runtime.add_area(area));
        }
        Ok(place)
    }

    /// Has the program's `waker` be heard.
    pub(crate) fn watch_waker(&mut self, waker: &Doorbell, token: u64) -> Result<(), PlaceError> {
        let watched = with_runtime!(self, runtime => runtime.watch(waker.as_fd(), token));
        watched.map_err(lacks("a doorbell"))
    }

    /// When it sleeps. To poll the kernel for a while would be system calls in vain.
    pub(crate) fn spin(&self, options: &Options) -> SpinPolicy {
        let usual = if matches!(self, Place::Kernel(_)) { SpinPolicy::Never } else { SpinPolicy::Adaptive };
        options.spin.unwrap_or(usual)
    }

    /// The addresses it has; none: all of the machine.
    pub(crate) fn addresses(&self, options: &Options) -> Vec<IpAddr> {
        match self {
            Place::Linked(_, Some(attachment)) => attachment.addresses(),
            Place::Split(runtime) => runtime.addresses(),
            Place::Linked(_, None) | Place::Kernel(_) => {
                options.addresses.iter().map(|(address, _)| *address).collect()
            }
        }
    }
}
