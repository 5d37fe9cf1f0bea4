//! `qanat run`: a program as it is, its sockets on a stack of its own.
//!
//! Exit codes until the program begins are those of `env`: 125 it can't be started so, 126 it can't be executed, 127 there is no such
//! program. From then on the exit code is the program's.

mod failure;
mod wishes;

use crate::exit::{NOT_EXECUTABLE, NOT_FOUND};
use crate::host::attach::{OwnDeviceKind, Prefixed};
use crate::log;
use crate::program;
use crate::say::say;
use clap::Args;
use failure::Failure;
use qanat::OwnDevice;
use qanat_control::client::{ClientError, Session, default_socket};
use qanat_launch::memory_limits::{self, ADDRESS_SPACE_MIN, FILE_LENGTH};
use qanat_launch::numbers::{FIRST_OWN, LIMIT_MIN, shortage_of};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::Read;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Names the library takes, installed or as it is built.
const LIBRARIES: [&str; 4] = ["libqanat.so", "libqanat_posix.so", "../lib/qanat/libqanat.so", "../lib/libqanat.so"];
/// What a card gets if nobody says another.
const ADDRESS: &str = "10.77.0.2/24";
/// Numbers of descriptors that the library inherits, and how many there are at most: none that programs and shells choose, and below
/// the library's own, so that its processes don't hold them open.
const FIRST_INHERITED: RawFd = 500;
const INHERITED_MAX: u64 = 50;
const _: () = assert!(FIRST_INHERITED as u64 + INHERITED_MAX <= FIRST_OWN as u64);
/// How long a daemon may take to come up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Run an unmodified program with its sockets on a user-level stack
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat run -- redis-server --bind 10.77.0.2 --protected-mode no
  sudo qanat run -- memcached -u nobody -l 10.77.0.5     the card gets the address that the program binds
  sudo qanat run -- python3 -m http.server               all addresses: the card's and the kernel's
  sudo qanat run -- curl http://10.77.0.1/               peers on the card's link are reached over the card
  sudo qanat run --interface eth1 --address 10.5.0.7/24 -- nginx    an address of its own on an existing network
  qanat run --explain -- nginx -g 'daemon off;'          as an ordinary user, with a daemon (`qanat up`)
A socket is the stack's if it is bound or connected to an address that the card leads to. All other sockets, files and pipes stay the
kernel's. Children share the sockets after fork, and keep what they inherit over exec. A second program gets the next free address, or
shares the one that it names. If no daemon runs (`qanat up`), root gets one that ends with its last card. `--support` lists the calls and
options that are supported.")]
pub struct Arguments {
    /// The card's address. If the program binds another address of the prefix, the card gets that one. May be repeated (IPv6, say). If
    /// programs of one user name the same address, they share it. [default: 10.77.0.2/24, or the next free one]
    #[arg(long, value_name = "ADDRESS/LENGTH")]
    address: Vec<Prefixed>,
    /// Next hop for everything off the prefix
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<IpAddr>,
    /// Use this interface, without a daemon, as root. Its other addresses stay the kernel's
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// MTU of the card
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(576..=9_000))]
    mtu: u32,
    /// The kind of card. A TAP device is faster if the peers are kernel sockets of this machine [default: tap where possible, else
    /// veth]
    #[arg(long, value_enum, value_name = "KIND", env = "QANAT_DEVICE")]
    device: Option<OwnDeviceKind>,
    /// Say on standard error which sockets are the stack's, which are the kernel's, and why
    #[arg(long)]
    explain: bool,
    /// List the supported calls, options and flags, and exit
    #[arg(long)]
    support: bool,
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "support", value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Becomes the program. Returns only if that can't be.
pub fn run(arguments: &Arguments) -> ExitCode {
    if arguments.support {
        say!("{}", crate::support::markdown());
        return ExitCode::SUCCESS;
    }
    let Err(Failure { code, reason }) = become_program(arguments) else { return ExitCode::SUCCESS };
    log::error!("failed", "{reason}");
    ExitCode::from(code)
}

/// What to type instead of `words`, a command line that this command does not understand: it names a program without `--` before it.
pub fn tip(words: &[OsString]) -> Option<String> {
    let (own, rest) = words.split_first().filter(|_| !words.iter().any(|word| word == "--"))?;
    let (_, rest) = rest.split_first().filter(|(command, _)| *command == "run")?;
    let takes_value = |word: &OsString| VALUED.iter().any(|name| word == name);
    let mut at = 0;
    while rest.get(at).is_some_and(|word| word.as_encoded_bytes().starts_with(b"-")) {
        at += if takes_value(&rest[at]) { 2 } else { 1 };
    }
    let (options, program) = rest.split_at_checked(at).filter(|(_, program)| !program.is_empty())?;
    let words = |part: &[OsString]| part.iter().map(|word| format!(" {}", word.display())).collect::<String>();
    Some(format!("put `--` before the program: {} run{} --{}", own.display(), words(options), words(program)))
}

/// Options that the next word belongs to.
const VALUED: [&str; 7] = ["--address", "--gateway", "--interface", "--mtu", "--device", "--log-level", "--log-format"];

fn become_program(arguments: &Arguments) -> Result<(), Failure> {
    let (name, rest) = arguments.command.split_first().ok_or_else(|| "no program".to_owned())?;
    let path = program::find(name)?;
    program::check(&path)?;
    if let Some(most) = getrlimit(Resource::Nofile).maximum.filter(|most| *most < LIMIT_MIN) {
        return Err(shortage_of(most).into());
    }
    if let Some(limit) = getrlimit(Resource::As).current.filter(|limit| *limit < ADDRESS_SPACE_MIN) {
        return Err(memory_limits::shortage_of(limit).into());
    }
    // The library raises its own limit as far as it may.
    if let Some(most) = getrlimit(Resource::Fsize).maximum.filter(|most| *most < FILE_LENGTH) {
        return Err(memory_limits::file_shortage_of(most).into());
    }
    let library = library()?;
    let interface = match arguments.interface.as_slice() {
        [] => None,
        [one] => Some(one),
        _ => {
            return Err("a program has one card, so one --interface: it may have addresses of several networks there (--address, \
                        repeated); several interfaces are one as a bridge or a bond"
                .to_owned()
                .into());
        }
    };
    let socket = default_socket();
    if interface.is_some() && arguments.device == Some(OwnDeviceKind::Tap) {
        let reason =
            "--device tap is a card of the daemon's: leave it out (or QANAT_DEVICE), or --interface".to_owned();
        return Err(reason.into());
    }
    let session = interface.is_none().then(|| connect(&socket)).transpose()?;
    let everybodys: Prefixed = ADDRESS.parse()?;
    let named = wishes::Named {
        addresses: &arguments.address,
        everybodys: (everybodys.address, everybodys.length),
        interface: interface.map(String::as_str),
        gateway: arguments.gateway,
        mtu: arguments.mtu,
        device: arguments.device.map_or(OwnDevice::TapOrVeth, OwnDevice::from),
    };
    wishes::check(&named, session.as_ref())?;
    let named: Vec<String> =
        arguments.address.iter().map(|prefix| format!("{}/{}", prefix.address, prefix.length)).collect();
    let addresses = if named.is_empty() { ADDRESS.to_owned() } else { named.join(",") };
    let mut command = Command::new(&path);
    command
        .arg0(name)
        .args(rest)
        .env("LD_PRELOAD", preloads(&library))
        .env("QANAT_ADDRESSES", addresses)
        .env("QANAT_RUN", name_of_run())
        .env("QANAT_MTU", arguments.mtu.to_string());
    match arguments.device {
        // Of a launcher around this one.
        None => command.env_remove("QANAT_DEVICE"),
        Some(OwnDeviceKind::Veth) => command.env("QANAT_DEVICE", "veth"),
        Some(OwnDeviceKind::Tap) => command.env("QANAT_DEVICE", "tap"),
    };
    log::forward_to(&mut command);
    if named.is_empty() && interface.is_none() {
        command.env("QANAT_ANY_ADDRESS", "1");
    }
    if let Some(interface) = interface {
        command.env("QANAT_INTERFACE", interface);
    }
    if let Some(session) = &session {
        // It keeps the daemon up until the program has its card.
        let fd = inherited(session.as_fd()).map_err(|error| format!("the daemon's connection: {error}"))?;
        command.env("QANAT_SOCKET", &socket).env("QANAT_SESSION", fd.to_string());
    }
    if let Some(gateway) = arguments.gateway {
        command.env("QANAT_GATEWAY", gateway.to_string());
    }
    if arguments.explain {
        // Standard error may be closed or be a log by the time there is something to say.
        let fd = inherited(std::io::stderr().as_fd()).map_err(|error| format!("standard error: {error}"))?;
        command.env("QANAT_EXPLAIN", fd.to_string());
    }
    let error = command.exec();
    let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    Err(Failure { code, reason: format!("{}: {error}", path.display()) })
}

/// A copy of `fd` for the program's library, out of the way of the numbers that programs and shells choose: what the program opens first
/// has the number it would have without us. A limit below that is raised for the moment, if it may be.
fn inherited(fd: BorrowedFd<'_>) -> rustix::io::Result<RawFd> {
    let limit = getrlimit(Resource::Nofile);
    let is_low = limit.current.is_some_and(|now| now <= FIRST_INHERITED as u64 + INHERITED_MAX);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(FIRST_INHERITED as u64 + INHERITED_MAX);
    if is_low {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })?;
    }
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, FIRST_INHERITED).or_else(|_| rustix::io::dup(fd));
    if is_low {
        setrlimit(Resource::Nofile, limit)?;
    }
    let copy = copy?;
    fcntl_setfd(&copy, FdFlags::empty())?;
    Ok(copy.into_raw_fd())
}

/// A name that no other run has: what this one starts stays together by it.
fn name_of_run() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}", std::process::id(), since.as_nanos())
}

/// What is loaded before the program's libraries: ours, then what was to be anyway.
fn preloads(library: &Path) -> OsString {
    let mut preloads = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preloads.push(":");
        preloads.push(others);
    }
    preloads
}

/// Where the library is.
fn library() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("QANAT_LIBRARY") {
        return Ok(PathBuf::from(named));
    }
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let found = LIBRARIES.iter().map(|name| beside.join(name)).find(|path| path.exists());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        format!(
            "libqanat.so is not beside {}: `cargo build --release -p qanat-posix` makes it, or name it in QANAT_LIBRARY",
            own.display()
        )
    })
}

/// A connection to the daemon, which is started if there is none and this is root.
fn connect(socket: &Path) -> Result<Session, String> {
    match Session::connect(socket) {
        Err(ClientError::Unreachable(..)) if rustix::process::geteuid().is_root() => start_daemon(socket),
        Err(ClientError::Unreachable(_, error)) if error.kind() != std::io::ErrorKind::PermissionDenied => {
            Err("no daemon is up to give the program a card: start one with `sudo qanat up`, or run this with sudo"
                .to_owned())
        }
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Starts a daemon that ends with its last card.
fn start_daemon(socket: &Path) -> Result<Session, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    // As leader of a session of its own it isn't ended by the terminal's Ctrl-C; and the program has no child it doesn't know.
    let mut daemon = Command::new("setsid")
        .arg("--fork")
        .arg(&own)
        .args(["up", "--until-unused", "--socket"])
        .arg(socket)
        .args(log::forwarded())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("starting the daemon: {error}"))?;
    let _ = daemon.wait();
    let Some(mut says) = daemon.stderr.take() else { return Err("starting the daemon: no pipe".to_owned()) };
    let start = Instant::now();
    loop {
        if let Ok(session) = Session::connect(socket) {
            return Ok(session);
        }
        // Nobody has the pipe any more: it has ended.
        let mut look = [PollFd::new(&says, PollFlags::empty())];
        let step = rustix::event::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        let _ = poll(&mut look, Some(&step));
        if look[0].revents().contains(PollFlags::HUP) {
            // Somebody else's may have been first.
            if let Ok(session) = Session::connect(socket) {
                return Ok(session);
            }
            let mut said = String::new();
            let _ = says.read_to_string(&mut said);
            return Err(format!("the daemon did not come up: {}", said.trim()));
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("the daemon does not answer at {}; `qanat doctor` may tell why", socket.display()));
        }
    }
}
