//! The first socket of ours: the library asks the daemon for the card, makes the stack and starts the keeper.

use crate::lifecycle::join::{self, Answer};
use crate::lifecycle::keeper;
use crate::lifecycle::keeper_image::Things;
use crate::lifecycle::registry::register;
use crate::lifecycle::signal_sockets::SignalSockets;
use crate::sys::descriptor::{self, Entry};
use crate::sys::explain::{explain, warn};
use crate::sys::raised_limits::with_room;
use crate::sys::wakers::out_of_the_way;
use crate::sys::wishes::{Wishes, contains, is_everybody, wishes};
use crate::world::assemble::{AssembleError, Ground, assemble};
use crate::world::lock::{install, lock, shared};
use crate::world::membership::become_process;
use crate::world::script::ScriptError;
use crate::world::state::{Device, World, WorldClock};
use qanat::{AttachError, AttachOptions, Attachment, CardSource, DaemonCard, OwnCard, WantedCard};
use qanat_control::client::Session;
use qanat_launch::numbers::{FIRST_OWN, OWN_MAX};
use qanat_nic::{MemoryPlan, MonotonicClock, place};
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The first port that connections leave from, as Linux has it.
const EPHEMERAL_FIRST: u16 = 32_768;
/// How long a keeper may take to make room.
const SUCCESSION: Duration = Duration::from_secs(2);
/// How long the daemon may take to hear that a card is free: for an address that somebody named, and for one that may be another.
const DAEMON_HEARS: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(300)];
/// Between two requests for a card that is taken, at first and at last.
const ASKED_AGAIN: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];
/// Addresses looked at by a program that may have any.
const ADDRESSES_TRIED: usize = 64;
/// Names the descriptor of the launcher's connection to the daemon.
const SESSION: &str = "QANAT_SESSION";

/// Has a world, with `wanted` among its addresses if it is on the link; whether there is one.
pub(crate) fn attach(wanted: Option<IpAddr>) -> bool {
    attach_for(wanted, true)
}

/// As [`attach`], for a program that only sends: nobody will ask for its address.
pub(crate) fn attach_to_send() -> bool {
    attach_for(None, false)
}

/// Has the world of another program of the same `qanat run`, if there is one; whether there is.
pub(crate) fn attach_to_run() -> bool {
    let Some(wishes) = wishes() else { return false };
    if crate::sys::this_process::standing::is_out() || crate::sys::script_time::is_on() {
        return false;
    }
    let first = wishes.addresses.first().map(|(address, _)| *address);
    let told = crate::world::runs::told();
    let joined = told
        .into_iter()
        .chain(first.filter(|first| told != Some(*first)))
        .find(|address| matches!(join::ask(*address, Some(&wishes.run), &wishes.run), Ok(Answer::Joined)));
    if let Some(address) = joined {
        explain(format_args!("shares the virtual card of another program, with {address}"));
    }
    joined.is_some()
}

/// Whether there was a card, once it was asked for: what failed is not tried again with every socket.
static TURN: Mutex<Option<bool>> = Mutex::new(None);

/// Whether the program was to be at an address that its user has named, and could not have it. It serves nobody then, rather than
/// everybody at the kernel's addresses.
pub(crate) fn lacks_named_address() -> bool {
    let is_named = wishes().is_some_and(|wishes| !wishes.any_address) && !crate::sys::script_time::is_on();
    is_named && *TURN.lock().unwrap_or_else(PoisonError::into_inner) == Some(false)
}

fn attach_for(wanted: Option<IpAddr>, serves: bool) -> bool {
    if crate::sys::this_process::standing::is_out() {
        return false;
    }
    if shared().is_some() {
        return true;
    }
    if crate::sys::arena::is_inside() {
        return false;
    }
    let Some(wishes) = wishes() else { return false };
    let mut turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if shared().is_some() {
        return true;
    }
    if let Some(outcome) = *turn {
        return outcome;
    }
    let outcome = have(wishes, wanted, serves);
    *turn = Some(outcome.is_ok());
    match outcome {
        Ok(()) => {
            crate::world::fallback_log::begin();
            true
        }
        Err(reason) => {
            match wishes.any_address {
                true => warn(format_args!("no virtual card, so all sockets are the kernel's: {reason}")),
                false => warn(format_args!(
                    "no virtual card, so nothing is served at all addresses (EADDRNOTAVAIL), and other sockets are the kernel's: {reason}"
                )),
            }
            false
        }
    }
}

/// Occupies the low numbers of descriptors while `make` runs.
fn with_high_descriptors<T>(make: impl FnOnce() -> T) -> T {
    let mut fillers = Vec::new();
    loop {
        // SAFETY: the only pointer is to a constant.
        let fd = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if fd < 0 {
            break;
        }
        fillers.push(fd);
        if fd >= FIRST_OWN {
            break;
        }
    }
    // The last is where the first own one belongs, or there are no more.
    if let Some(last) = fillers.pop() {
        // SAFETY: the descriptor is the library's own, and nothing else uses it.
        unsafe { crate::sys::libc_next::close(last) };
    }
    let made = make();
    for filler in fillers {
        // SAFETY: the descriptor is the library's own, and nothing else uses it.
        unsafe { crate::sys::libc_next::close(filler) };
    }
    made
}

/// Open descriptors among the numbers of own ones. They are asked one by one, because a process that has become another user may not
/// look into `/proc`.
fn open_descriptors() -> Vec<RawFd> {
    // SAFETY: the call takes no pointers.
    let is_open = |fd: &RawFd| unsafe { crate::sys::libc_next::fcntl64(*fd, libc::F_GETFD, 0) } >= 0;
    (FIRST_OWN..FIRST_OWN + OWN_MAX).filter(is_open).collect()
}

/// Gets a world: a new one, or that of another program at the address.
fn have(wishes: &Wishes, wanted: Option<IpAddr>, serves: bool) -> Result<(), Lack> {
    if crate::sys::script_time::is_on() {
        return Ok(crate::world::script::make(wishes)?);
    }
    // Without room something would be made, and then not the rest.
    if let Some(shortage) = crate::sys::raised_limits::shortage() {
        return Err(Lack::Shortage(shortage));
    }
    let first = wanted.unwrap_or(wishes.addresses.first().ok_or(Lack::NoAddress)?.0);
    let is_fixed = wanted.is_some() || !wishes.any_address;
    let launchers = session();
    let mut taken = String::new();
    for address in others_too(first, wishes).take(if is_fixed { 1 } else { ADDRESSES_TRIED }) {
        let _lock = AddressLock::take(address);
        // A program that names the address means it. Else only programs of one command share a card.
        let answer = join::ask(address, (!is_fixed).then_some(wishes.run.as_str()), &wishes.run);
        let reason = match answer {
            Ok(Answer::Joined) => {
                explain(format_args!("shares the virtual card of another program, with {address}"));
                return Ok(());
            }
            Ok(Answer::Refused(name, None)) => format!("{address} is {name}'s"),
            Ok(Answer::Refused(name, Some(reason))) => {
                explain(format_args!("{name} has {address}, and does not let this program share it: {reason}"));
                format!("{address} is {name}'s ({reason})")
            }
            Err(reason) => format!("{address} is another program's, which this one can't join ({reason})"),
            Ok(Answer::Nobody) => match make(Plot {
                wishes,
                wanted: Some(address).filter(|_| address != first).or(wanted),
                launchers: launchers.as_ref(),
                patience: DAEMON_HEARS[usize::from(!is_fixed)],
            }) {
                Ok(()) => {
                    tell_address(address, &taken, serves);
                    return Ok(());
                }
                Err(lack) if lack.is_taken() && !is_fixed => format!("{address} is taken"),
                Err(lack) => return Err(lack),
            },
        };
        taken = if taken.is_empty() { reason } else { taken };
    }
    Err(Lack::AllTaken(taken))
}

/// Says where a server is that is not where it was to be expected.
fn tell_address(address: IpAddr, taken: &str, serves: bool) {
    match (taken.is_empty(), serves) {
        (true, _) => {}
        (false, true) => warn(format_args!("{taken}, so this program has {address}")),
        (false, false) => explain(format_args!("{taken}, so this program has {address}")),
    }
}

/// `first`, and those behind it in its prefix.
fn others_too(first: IpAddr, wishes: &Wishes) -> impl Iterator<Item = IpAddr> {
    let prefix = wishes.addresses.iter().copied().find(|prefix| contains(*prefix, first));
    let next = |address: IpAddr| match address {
        IpAddr::V4(address) => IpAddr::V4(address.to_bits().wrapping_add(1).into()),
        IpAddr::V6(address) => IpAddr::V6(address.to_bits().wrapping_add(1).into()),
    };
    let is_usable =
        move |address: &IpAddr| prefix.is_some_and(|prefix| contains(prefix, *address)) && !is_everybody(*address);
    std::iter::successors(Some(first), move |address| Some(next(*address)).filter(is_usable))
}

/// Held by the one process that may find out whether an address is free or can be shared.
struct AddressLock(#[allow(dead_code, reason = "held")] Option<OwnedFd>);

impl AddressLock {
    /// Takes it as soon as nobody else has it. After a while the process goes on without it.
    fn take(address: IpAddr) -> AddressLock {
        let start = Instant::now();
        loop {
            let socket = crate::lifecycle::rendezvous::lock_address(address);
            if socket.is_some() || start.elapsed() > SUCCESSION {
                return AddressLock(socket);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Why there is no card.
#[derive(Debug, thiserror::Error)]
enum Lack {
    #[error("no address")]
    NoAddress,
    /// The program's limits leave no room.
    #[error("{0}")]
    Shortage(String),
    #[error(transparent)]
    Script(#[from] ScriptError),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// There is a card, but not its queue.
    #[error(transparent)]
    Queue(AttachError),
    #[error("memory: {0}")]
    Memory(Errno),
    #[error("descriptors: {0}")]
    Descriptors(Errno),
    #[error("the keeper: {0}")]
    Keeper(Errno),
    #[error("the lock")]
    Lock,
    #[error(transparent)]
    System(Errno),
    /// Others have the addresses that were tried; what is said of the first.
    #[error("{0}: give this one an address of its own, `qanat run --address ADDRESS/LENGTH`")]
    AllTaken(String),
}

impl Lack {
    /// Whether somebody has the address: another one may be free.
    fn is_taken(&self) -> bool {
        matches!(self, Lack::Attach(AttachError::Control(error)) if error.is_taken())
    }
}

fn make(plot: Plot<'_>) -> Result<(), Lack> {
    with_room(|| make_with_room(plot))
}

/// Where a world is to be made.
#[derive(Clone, Copy)]
struct Plot<'a> {
    wishes: &'a Wishes,
    wanted: Option<IpAddr>,
    launchers: Option<&'a Arc<OwnedFd>>,
    /// How long a card that is taken is waited for.
    patience: Duration,
}

fn make_with_room(plot: Plot<'_>) -> Result<(), Lack> {
    let before = open_descriptors();
    crate::sys::this_process::class::look_around();
    if crate::sys::arena::place().is_none() {
        crate::sys::page::make().map_err(Lack::Memory)?;
        crate::sys::arena::reserve().map_err(Lack::Memory)?;
    }
    // Open until all own descriptors are where they belong: a low number that became free would be the next one's.
    let (registry, successor) = with_high_descriptors(|| make_here(plot))?;
    // Whatever is new, and out of the way, is ours. The memory's files may be of an attempt before this one.
    let of_memory = [crate::sys::arena::place().map_or(-1, |(file, _)| file), crate::sys::page::file()];
    let own = open_descriptors().into_iter().filter(|fd| !before.contains(fd) || of_memory.contains(fd));
    let own: Vec<RawFd> = own.inspect(|fd| _ = descriptor::set(*fd, Entry::Own)).collect();
    let Ok(mut guard) = lock() else { return Err(Lack::Lock) };
    let is_everybodys = |fd: &&RawFd| **fd != registry && **fd != successor;
    let of_world = own.iter().filter(is_everybodys).filter(|fd| **fd != crate::sys::page::file());
    guard.holdings.descriptors = of_world.copied().collect();
    guard.lets_in_run(&plot.wishes.run);
    let (waker, registry_of_processes) = (guard.keeper_waker, guard.processes.registry);
    let shared = std::ptr::from_ref(guard.shared()).addr();
    let mut extents = [None; crate::sys::this_process::departure::EXTENTS_MAX];
    // Not in the arena: they are read when the lock is given back.
    extents.iter_mut().zip(&guard.holdings.places).for_each(|(extent, place)| *extent = Some(place.extent()));
    let addresses: Vec<String> = guard.addresses.iter().map(|(address, _)| address.to_string()).collect();
    let text = addresses.join(", ");
    drop(guard);
    crate::sys::this_process::departure::remember(shared, extents.into_iter().flatten().collect());
    crate::world::processes::note_registry(registry_of_processes);
    let (is_ready, ready) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(Lack::System)?;
    let ready = out_of_the_way(ready.into_raw_fd());
    let signal_sockets = SignalSockets::for_this();
    signal_sockets.all().into_iter().for_each(|fd| _ = descriptor::set(fd, Entry::Own));
    let started = keeper::start(&Things { registry, waker, successor, ready, signal_sockets }, &is_ready, FIRST_OWN);
    signal_sockets.drop_here();
    started.map_err(Lack::Keeper)?;
    for keepers in [registry, successor] {
        descriptor::set(keepers, Entry::Kernel);
        // SAFETY: ours, and the keeper's, who has it too.
        unsafe { crate::sys::libc_next::close(keepers) };
    }
    let line = register(registry_of_processes, 0).map_err(Lack::Keeper)?;
    let line = out_of_the_way(line.into_raw_fd());
    descriptor::set(line, Entry::Own);
    if let Ok(guard) = lock()
        && let Some(Some(record)) = guard.processes.records.first()
    {
        become_process(0, line, record);
        crate::world::processes::set_first(true);
    }
    explain(format_args!("has a virtual card with {text}"));
    Ok(())
}

/// The launcher's connection to the daemon. By it a program that has become another user has the rights of the user who started it,
/// and the daemon stays up until somebody has a card. Then it is closed.
fn session() -> Option<Arc<OwnedFd>> {
    let fd: RawFd = std::env::var(SESSION).ok()?.parse().ok()?;
    // Programs that close everything close it too; and its number may be a file's by now.
    let is_socket =
        crate::sys::kernel_socket::kernel_option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_SEQPACKET);
    // SAFETY: the launcher's, for this.
    is_socket.then(|| Arc::new(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// The VNIC. One that is taken may be that of a program that has ended, and its keeper sees its connections through. The
/// keeper makes room for the next program. Or the program has just ended, and the daemon is about to hear of it.
fn open(options: &mut AttachOptions, mut patience: Duration) -> Result<Attachment, Lack> {
    let start = Instant::now();
    let [mut pause, longest] = ASKED_AGAIN;
    loop {
        // Not without what it may offer: a card that was asked for with nothing is a client's, and sends no datagram.
        let outcome = options.offer_everything().map_err(AttachError::from);
        let outcome = outcome.and_then(|()| Attachment::open(options));
        let may_pass = match &outcome {
            Err(AttachError::Control(error)) => error.may_pass(),
            outcome => outcome.is_err() && matches!(options.source, CardSource::Interface(_)),
        };
        if !may_pass || start.elapsed() > patience {
            return Ok(outcome?);
        }
        if crate::lifecycle::rendezvous::ask_to_give_up(options.address.0, SUCCESSION) {
            (patience, pause) = (SUCCESSION, ASKED_AGAIN[0]);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(longest);
    }
}

/// Where the card comes from.
fn source(wishes: &Wishes, launchers: Option<&Arc<OwnedFd>>) -> CardSource {
    let (mtu, device) = (wishes.mtu, wishes.device);
    match (&wishes.interface, &wishes.socket) {
        (Some(interface), _) => CardSource::interface(interface, None),
        (None, None) => CardSource::Own(OwnCard { kind: device.into(), mtu, ..OwnCard::default() }),
        (None, Some(socket)) => {
            // With its own rights, if it has any: several programs of one launcher would take each other's answers.
            let has_rights = Session::connect(socket).is_ok();
            let session = launchers.filter(|_| !has_rights).map(Arc::clone);
            let name = Some(crate::sys::this_process::program::program().to_owned()).filter(|name| !name.is_empty());
            CardSource::Daemon(DaemonCard { socket: socket.clone(), session, name, mtu, card: WantedCard::New(device) })
        }
    }
}

/// Makes the world; gives the keeper's end of the registry, and where it hears of a successor.
fn make_here(plot: Plot<'_>) -> Result<(RawFd, RawFd), Lack> {
    let Plot { wishes, wanted, launchers, patience } = plot;
    let mut addresses = wishes.addresses.clone();
    if let Some(wanted) = wanted
        && !addresses.iter().any(|(address, _)| *address == wanted)
    {
        // It takes the place of the one of its prefix that everybody gets.
        if let Some(slot) = addresses.iter_mut().find(|prefix| contains(**prefix, wanted)) {
            slot.0 = wanted;
        }
    }
    let (first, rest) = addresses.split_first().ok_or(Lack::NoAddress)?;
    let mut options = AttachOptions::new(first.0, first.1);
    options.more_addresses = rest.to_vec();
    options.gateway = wishes.gateway;
    options.source = source(wishes, launchers);
    let mut reader = -1;
    install(|| -> Result<World, Lack> {
        let attachment = open(&mut options, patience)?;
        place::begin(crate::sys::arena::BEHIND);
        // Until the stack is made, too, which has memory of its own for datagrams that come in fragments.
        let noted = Noted;
        let plan = MemoryPlan { frame_size: MemoryPlan::frame_size_for(attachment.mtu()), ..MemoryPlan::default() };
        let vnic = attachment.open_shared_queue(0, plan).map_err(Lack::Queue)?;
        let mut config = attachment.config().clone();
        // As on Linux: small segments wait for acknowledgements unless the program says TCP_NODELAY.
        config.tcp.no_delay = false;
        config.tcp.urgent_data = true;
        config.listeners_max = 1_024;
        // Where the daemon lets it send from some ports only, those are the ones connections leave from.
        let ranges = options.services.iter().filter(|range| range.protocol == qanat::PROTOCOL_TCP);
        if let Some(widest) = ranges.max_by_key(|range| range.last - range.first) {
            config.ephemeral_ports = widest.first.max(EPHEMERAL_FIRST).min(widest.last)..=widest.last;
        }
        config.udp_sockets_max = 1_024;
        config.udp_errors = true;
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let pair =
            rustix::net::socketpair(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET, flags, None);
        let (here, there) = pair.map_err(Lack::Descriptors)?;
        reader = here.into_raw_fd();
        let (device, clock) =
            (Device::Card(qanat_nic::metered(vnic), attachment), WorldClock::Machine(MonotonicClock::new()));
        // In the arena: another program has nothing else of this one's.
        let addresses = addresses.clone();
        let mut world = assemble(Ground { config, device, clock, addresses, registry: there.into_raw_fd() })?;
        world.holdings.places = noted.end();
        Ok(world)
    })?;
    // Without a place nobody else finds this program, and the daemon alone decides.
    let successor = crate::lifecycle::rendezvous::bind(options.address.0).map_or(-1, IntoRawFd::into_raw_fd);
    Ok((reader, successor))
}

/// Mappings are noted until this is gone.
struct Noted;

impl Noted {
    fn end(self) -> Vec<place::Place> {
        place::end()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        place::end();
    }
}
