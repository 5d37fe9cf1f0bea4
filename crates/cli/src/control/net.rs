//! `qanat net`: a net core, the process that runs other processes' network stacks.

use crate::exit::{LINK_GONE, REFUSED};
use crate::host::attach::{AttachArguments, OwnDeviceKind, Prefixed};
use crate::host::card::may_pass;
use crate::host::net_core::{Accept, SOCKET_NAME};
use crate::log;
use crate::say::sayln;
use crate::signals::{self, stop_signals};
use clap::{Args, ValueEnum};
use qanat::confine::confine;
use qanat::split::{Card, NetCore, NetCoreOptions, PATIENCE};
use qanat::{AttachError, AttachOptions, Attachment, CardSource, Config, DaemonCard};
use qanat_control::client::{ClientError, default_socket as default_control};
use qanat_daemon::policy::NetPolicy;
use qanat_echo::{LinkChoice, OpenLink, own_mac};
use qanat_nic::af_xdp::PortRange;
use qanat_nic::{DESCRIPTORS_REMEDY, MemoryPlan, bind_in_place};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use rustix::process::{Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How often a net core that waits for a memif peer looks whether it is to end.
const MEMIF_INTERVAL: Duration = Duration::from_millis(100);
/// How long a net core waits for the next daemon before it says that it has none: those who start it wait longer.
const AGAIN_PATIENCE: Duration = Duration::from_secs(8);
const AGAIN_INTERVAL: Duration = Duration::from_millis(100);
/// A net core that dies sooner than this after its start is not started again at once.
const SHORT_LIFE: Duration = Duration::from_millis(500);

/// Run a net core: other programs' network stacks, in a process they can't harm
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat net                                     a net core with a virtual card at 10.77.0.2
  qanat web ./site --net /run/qanat-net.sock         a service on it, without privileges
  sudo qanat net --card 10.77.0.3/24 --user 1000     two cards, for two services
  qanat net --cores 0 --vnic 3                       on processor 0, with a card that `qanat vnic create` made
  qanat net --link memif:/tmp/net.sock --socket /tmp/net     a card over shared memory with another process: no root
  qanat status                                       shows net cores, their services, credits, queues and drops
  sudo qanat net --accept least-loaded               one user's services may share a card's listeners, by --share
A card serves one service, or several that were started with --share. If a net core dies, it is started again at once, and its
services attach to it again. When its cards are open, a net core gives up its rights: it runs as nobody, confined by landlock and
seccomp.")]
pub struct Arguments {
    /// Listen here for services (default: /run/qanat-net.sock, or qanat-net.sock in the user's run-time directory)
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
    /// One more card, for one more service; may be repeated
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    card: Vec<Prefixed>,
    /// The card's link: veth, memif:SOCKET (the net core listens there and waits for its peer), or memif-slave:SOCKET (the net core
    /// connects)
    #[arg(long, value_name = "LINK", default_value = "veth", conflicts_with_all = ["card", "interface"])]
    link: LinkChoice,
    /// Let programs of this user (a number) attach, too. Yours always may; may be repeated
    #[arg(long, value_name = "UID")]
    user: Vec<u32>,
    /// Receive frames for each card. Its service and its stack share them
    #[arg(long, value_name = "COUNT", default_value_t = 8_192, value_parser = clap::value_parser!(u32).range(256..=262_144))]
    frames: u32,
    /// Run on this processor alone, by number
    #[arg(long, visible_alias = "cores", value_name = "PROCESSOR", value_parser = one_processor)]
    core: Option<u32>,
    /// Which service gets the next connection, if several share a listener (--share)
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    accept: Accept,
    /// What to take of an address shared with the kernel
    #[arg(long, value_name = "PROTOCOL:FIRST-LAST", hide = true)]
    service: Vec<PortArgument>,
    /// What standard input is
    #[arg(long, value_enum, hide = true)]
    inherit: Option<Inherit>,
    /// Not confined: to debug, and to compare with
    #[arg(long, hide = true)]
    unconfined: bool,
    /// One before has lost the daemon's card: the next daemon is to give another
    #[arg(long, hide = true)]
    again: bool,
    /// End with whoever started this
    #[arg(long, hide = true)]
    with_parent: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    attach: AttachArguments,
}

/// What a net core's process gets from who starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Inherit {
    /// A socket to the one service it is for
    Service,
    /// The listening socket
    Listener,
    /// A socket by which the daemon says what to do
    Director,
}

/// A range of ports, `6:80-80`.
#[derive(Clone, Copy, Debug)]
struct PortArgument(PortRange);

impl FromStr for PortArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<PortArgument, String> {
        let parse = || {
            let (protocol, ports) = text.split_once(':')?;
            let (first, last) = ports.split_once('-')?;
            let (protocol, first, last) = (protocol.parse().ok()?, first.parse().ok()?, last.parse().ok()?);
            Some(PortArgument(PortRange { protocol, first, last }))
        };
        parse().ok_or_else(|| "write it as PROTOCOL:FIRST-LAST".to_owned())
    }
}

fn one_processor(text: &str) -> Result<u32, String> {
    if text.contains(['-', ',']) {
        return Err("a net core runs on one processor: start one for each, with a --socket of its own, or have the daemon start \
                    them (`[net] cores` of its policy, `qanat net-core add`)"
            .to_owned());
    }
    let processor = text.parse().map_err(|_| "write a processor's number, from 0 on".to_owned())?;
    if processor < 1_024 { Ok(processor) } else { Err("there are 1,024 at most".to_owned()) }
}

/// Where net cores listen unless told otherwise.
pub fn default_socket() -> PathBuf {
    let run = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    run.map_or_else(|| PathBuf::from("/run"), PathBuf::from).join(format!("{SOCKET_NAME}.sock"))
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match arguments.inherit {
        Some(inherit) => work(arguments, inherit),
        None => supervise(arguments),
    }
}

/// A net core of the daemon's, which tells it by `orders` what to do.
pub fn start_directed(processor: u32, orders: OwnedFd, net: &NetPolicy) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["net", "--inherit", "director", "--core", &processor.to_string(), "--spin", &net.spin]);
    command.args(["--accept", &net.accept]).args(log::forwarded());
    // A terminal's Ctrl-C is for the daemon.
    command.process_group(0);
    command.stdin(Stdio::from(orders)).stdout(Stdio::null()).spawn()
}

/// This process's threads, of which there is one, run on one processor.
fn pin(processor: u32) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(processor as usize);
    sched_setaffinity(None, &set)
        .map_err(|error| format!("processor {processor}: {error}; `nproc` says how many there are, from 0 on"))
}

/// The parent: holds the listening socket, and starts the net core again when it dies. Services that come meanwhile wait.
fn supervise(arguments: &Arguments) -> Result<(), String> {
    if arguments.with_parent {
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    let path = arguments.socket.clone().unwrap_or_else(default_socket);
    let listener = listen_at(&path)?;
    let stop = stop_signals(&signals::ends())?;
    let passed: Vec<String> = std::env::args().skip(2).collect();
    // Since when it has been without a link: the next daemon, or peer, is waited for.
    let mut gone_since: Option<Instant> = None;
    let outcome = loop {
        let started = Instant::now();
        let again = gone_since.filter(|_| arguments.link == LinkChoice::Veth).map(|_| "--again");
        let mut child = match start(&listener, &passed, again) {
            Ok(child) => child,
            Err(error) => break Err(format!("starting the net core: {error}")),
        };
        match watch(&mut child, &stop) {
            Ended::Told => break Ok(()),
            Ended::Failed(code) => break Err(format!("the net core ended with {code}")),
            Ended::LinkGone if arguments.link == LinkChoice::Veth => {
                let is_new = started.elapsed() > AGAIN_PATIENCE + SHORT_LIFE * 4 || gone_since.is_none();
                let since = gone_since.filter(|_| !is_new).unwrap_or_else(Instant::now);
                gone_since = Some(since);
                if is_new {
                    log::warning!(
                        "card-lost",
                        "the card is gone: its daemon has ended; waiting for the daemon, at most {} s",
                        PATIENCE.as_secs()
                    );
                } else if since.elapsed() > PATIENCE {
                    break Err(format!(
                        "no daemon has come for {} s: start one (`sudo qanat up`), then this again",
                        PATIENCE.as_secs()
                    ));
                }
            }
            ended @ (Ended::Died(_) | Ended::LinkGone) => {
                let how = if let Ended::Died(how) = ended { how } else { "its link's peer has left".to_owned() };
                log::warning!("net-core-died", "the net core died ({how}): started again");
                std::thread::sleep(SHORT_LIFE.saturating_sub(started.elapsed()).min(SHORT_LIFE));
            }
        }
    };
    let _ = std::fs::remove_file(&path);
    outcome
}

fn start(listener: &OwnedFd, passed: &[String], again: Option<&str>) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg("net").args(["--inherit", "listener"]).args(passed).args(again);
    command.stdin(Stdio::from(listener.try_clone()?)).spawn()
}

/// How a net core ended.
enum Ended {
    /// It was told to.
    Told,
    /// It could not start.
    Failed(String),
    /// By a signal.
    Died(String),
    /// Its link is gone.
    LinkGone,
}

fn watch(child: &mut Child, stop: &UnixStream) -> Ended {
    let pid = rustix::process::Pid::from_child(child);
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
    loop {
        let mut fds = vec![PollFd::new(stop, PollFlags::IN)];
        fds.extend(pidfd.as_ref().ok().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let _ = poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
        if fds.first().is_some_and(|fd| !fd.revents().is_empty()) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = child.wait();
            return Ended::Told;
        }
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) if status.success() => return Ended::Told,
            Ok(Some(status)) if status.code() == Some(LINK_GONE) => {
                return Ended::LinkGone;
            }
            Ok(Some(status)) if status.code().is_some() => return Ended::Failed(status.to_string()),
            Ok(Some(status)) => return Ended::Died(status.to_string()),
            Err(error) => return Ended::Failed(error.to_string()),
        }
    }
}

fn listen_at(path: &Path) -> Result<OwnedFd, String> {
    let say = |error: io::Error| format!("socket {}: {error}; name another with --socket", path.display());
    let is_file = !path.to_string_lossy().starts_with('@');
    let address = match path.to_str().and_then(|text| text.strip_prefix('@')) {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        None => SocketAddrUnix::new(path),
    };
    let address = address.map_err(|error| say(error.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let socket = socket.map_err(|error| say(error.into()))?;
    let bind_to = || bind(&socket, &address).map_err(io::Error::from);
    let bound = if is_file { bind_in_place(path, bind_to) } else { bind_to() };
    bound.map_err(say)?;
    // Who may come is decided by who they are, when they do.
    if is_file {
        std::fs::set_permissions(path, Permissions::from_mode(0o666))
            .map_err(|error| format!("socket {}: {error}", path.display()))?;
    }
    listen(&socket, 16).map_err(|error| say(error.into()))?;
    Ok(socket)
}

/// The child: opens its cards, gives up its rights, serves.
fn work(arguments: &Arguments, inherit: Inherit) -> Result<(), String> {
    let inherited =
        std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| format!("standard input: {error}"))?;
    let stop = stop_signals(&signals::ends())?;
    arguments.core.map_or(Ok(()), pin)?;
    let mut attachments = Vec::new();
    let mut cards = Vec::new();
    if let (LinkChoice::Memif { socket, master }, Inherit::Listener | Inherit::Service) = (&arguments.link, inherit) {
        match open_memif(arguments, socket, *master, &stop)? {
            Some(card) => cards.push(card),
            None => return Ok(()),
        }
    }
    let is_made = inherit == Inherit::Director || !cards.is_empty();
    let own = std::iter::once(None).chain(arguments.card.iter().copied().map(Some));
    for address in own.filter(|_| !is_made) {
        let (attachment, card) = open_card(arguments, address)?;
        attachments.push(attachment);
        cards.push(card);
    }
    let mut users = arguments.user.clone();
    users.push(rustix::process::geteuid().as_raw());
    // Who became root to start it means to use it.
    users.extend(std::env::var("SUDO_UID").ok().and_then(|user| user.parse::<u32>().ok()));
    let status = (inherit != Inherit::Listener).then(status_socket).flatten();
    if inherit == Inherit::Listener {
        announce(arguments, &attachments);
    }
    let options = NetCoreOptions {
        spin: arguments.attach.spin.into(),
        users,
        confined: !arguments.unconfined,
        processor: arguments.core,
        accept: arguments.accept.into(),
    };
    let mut core = match (inherit, cards.pop()) {
        (Inherit::Director, _) => NetCore::directed(inherited, status, options),
        (Inherit::Service, Some(card)) => NetCore::private(card, inherited, status, options),
        (_, last) => {
            cards.extend(last);
            NetCore::listening(cards, inherited, options)
        }
    };
    if !arguments.unconfined {
        confine().map_err(|error| error.to_string())?;
    }
    if inherit != Inherit::Service {
        // After the change of user, which clears it.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    match core.run(stop.as_fd()) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => std::process::exit(LINK_GONE),
        // Its service has been told why, and says so.
        Err(error) if error.kind() == std::io::ErrorKind::Other && inherit == Inherit::Service => {
            std::process::exit(REFUSED)
        }
        Err(error) if error.kind() == std::io::ErrorKind::Other => Err(format!("the card is gone: {error}")),
        outcome => outcome.map_err(|error| format!("waiting: {error}")),
    }
}

/// Waits for a memif link's peer: a card over shared memory with it.
fn open_memif(
    arguments: &Arguments,
    socket: &Path,
    is_master: bool,
    stop: &UnixStream,
) -> Result<Option<Card>, String> {
    let (own, receive_frames) = (arguments.attach.address, arguments.frames.next_multiple_of(2));
    let frame_size = MemoryPlan::frame_size_for(arguments.attach.mtu);
    let plan = MemoryPlan { frame_size, receive_frames, transmit_frames: 8_192, prepared_frames: 0 };
    let mtu = u16::try_from(arguments.attach.mtu).map_err(|error| error.to_string())?;
    let link = OpenLink::memif(socket.to_owned(), is_master, own_mac(true), mtu, 10, plan)
        .map_err(|error| error.to_string())?;
    let device = loop {
        let mut told = [PollFd::new(stop, PollFlags::IN)];
        let _ = poll(&mut told, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if !told.iter().all(|fd| fd.revents().is_empty()) {
            return Ok(None);
        }
        let next = link.next(MEMIF_INTERVAL, &mut |text| log::info!("link", "{text}"));
        match next.map_err(|error| error.to_string())? {
            Some(device) => break device,
            None => continue,
        }
    };
    let fate = device.link().clone();
    let (memory, files) = plan.allocate_lendable().map_err(|error| format!("memory for frames: {error}"))?;
    let opener = device.into_openers().into_iter().next().ok_or("a memif link without a queue")?;
    let vnic = opener.open_over(Some(memory)).map_err(|error| error.to_string())?;
    let mut config = Config::new(own.address, own.length);
    config.gateways.extend(arguments.attach.gateway);
    config.tcp.maximum_segment = arguments.attach.mss;
    let card = Card::new(Box::new(vnic), &files, plan, config, &socket.display().to_string(), "memif");
    let card = card.map_err(|error| format!("sealing received frames: {error}"))?;
    // Who comes next finds the socket: it is not removed with this.
    std::mem::forget(link);
    Ok(Some(card.while_up(move || fate.is_up())))
}

fn open_card(arguments: &Arguments, address: Option<Prefixed>) -> Result<(Attachment, Card), String> {
    let mut attach = arguments.attach.clone();
    if let Some(address) = address {
        attach.address = address;
    }
    // A TAP device stops receiving before the last frame is held, so that the kernel and no service counts what is dropped.
    attach.device.get_or_insert(OwnDeviceKind::Veth);
    let attachment = match arguments.again {
        true => open_again(arguments, &attach)?,
        false => {
            let services = match services(arguments, &attach) {
                // Without a daemon the card is its own. That is decided once: a daemon that comes meanwhile would make a client's card, from
                // which no datagram leaves, of a list with nothing in it.
                Err(error) if may_be_own(&attach, &error) => {
                    attach.direct = true;
                    Vec::new()
                }
                outcome => outcome.map_err(|error| error.to_string())?,
            };
            attach.open(services)?
        }
    };
    let frame_size = MemoryPlan::frame_size_for(attachment.mtu());
    let receive_frames = arguments.frames.next_multiple_of(2);
    let plan = MemoryPlan { frame_size, receive_frames, transmit_frames: 8_192, prepared_frames: 0 };
    let (vnic, files) = attachment.open_lendable_queue(0, plan).map_err(|error| error.to_string())?;
    let config = attachment.config().clone();
    let card = Card::new(Box::new(vnic), &files, plan, config, attachment.interface(), attachment.driver());
    let mut card = card.map_err(|error| format!("sealing received frames: {error}"))?;
    if let Some(vnic) = attachment.vnic() {
        let handle = vnic.as_fd().try_clone_to_owned();
        card = card.held_by(
            handle.map_err(|error| format!("watch the card: {error}; raise the limit, {DESCRIPTORS_REMEDY}"))?,
        );
    }
    Ok((attachment, card))
}

/// What the card may send as. Which services come to a net core started by hand nobody knows yet, so it is all that the daemon lets
/// this user offer. Without a daemon nothing is left out.
fn services(arguments: &Arguments, attach: &AttachArguments) -> Result<Vec<PortRange>, AttachError> {
    let named: Vec<PortRange> = arguments.service.iter().map(|service| service.0).collect();
    let is_daemons = attach.interface.is_none() && !attach.direct && attach.vnic.is_none();
    if !named.is_empty() || !is_daemons {
        return Ok(named);
    }
    let mut options = AttachOptions::new(attach.address.address, attach.address.length);
    options.source = CardSource::Daemon(DaemonCard::new(default_control()));
    options.offer_everything()?;
    Ok(options.services)
}

/// Whether a daemon that can't be asked is none, and a device of its own is what is left. Who may not make one is told by that.
fn may_be_own(attach: &AttachArguments, error: &AttachError) -> bool {
    let is_unreachable = matches!(error, AttachError::Control(ClientError::Unreachable(..)));
    let may_do_without = rustix::process::geteuid().is_root() || !default_control().exists();
    is_unreachable && attach.queue.is_none() && may_do_without
}

/// A card of the daemon that comes next; without one the net core ends, and is started again.
fn open_again(arguments: &Arguments, attach: &AttachArguments) -> Result<Attachment, String> {
    let begun = Instant::now();
    loop {
        match services(arguments, attach).and_then(|services| attach.open_daemons(services, 1)) {
            Ok(attachment) => return Ok(attachment),
            Err(error) if !may_pass(attach, &error) => {
                log::error!("card-lost", "the card is gone, and there is no other: {error}");
                std::process::exit(REFUSED)
            }
            Err(_) if begun.elapsed() > AGAIN_PATIENCE => std::process::exit(LINK_GONE),
            Err(_) => std::thread::sleep(AGAIN_INTERVAL),
        }
    }
}

fn announce(arguments: &Arguments, attachments: &[Attachment]) {
    let mut addresses: Vec<String> =
        attachments.iter().flat_map(Attachment::addresses).map(|address| address.to_string()).collect();
    if let LinkChoice::Memif { socket, .. } = &arguments.link {
        addresses.push(format!("{} over {}", arguments.attach.address.address, socket.display()));
    }
    let text = format!("Net core with a card at {}  (Ctrl-C stops)", addresses.join(" and one at "));
    match log::is_json() {
        true => {
            let line = serde_json::json!({ "event": "serving", "addresses": addresses, "text": text });
            sayln!("{}", log::stamped(&line.to_string()));
        }
        false if log::tells(log::Level::Info) => sayln!("{text}"),
        false => {}
    }
}

/// Where a service's own net core tells how it is: a name without a file, gone with it.
fn status_socket() -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    let name = format!("{SOCKET_NAME}-{}", std::process::id());
    bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?).ok()?;
    listen(&socket, 4).ok()?;
    Some(socket)
}
