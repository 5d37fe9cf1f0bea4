//! What a case has at hand: the world's addresses, sockets of either kind, the peer, and a place to note what it saw.

use crate::address::Address;
use crate::names;
use crate::sys::{self, Fd, Ret};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a case waits for something that nothing but looking again tells.
pub const PATIENCE: Duration = Duration::from_secs(4);
/// A timeout for what must come, milliseconds: longer than the watchdog waits.
pub const LONG_MS: i32 = 30_000;
/// A timeout for what must not come, milliseconds.
pub const SHORT_MS: i32 = 50;

/// The addresses of a run.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub here4: Ipv4Addr,
    pub here6: Ipv6Addr,
    pub there4: Ipv4Addr,
    pub there6: Ipv6Addr,
}

/// Which sockets a case uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`.
    V6,
    /// `AF_INET6` with IPv4 inside (mapped addresses).
    Dual,
}

impl Net {
    pub fn name(self) -> &'static str {
        match self {
            Net::V4 => "v4",
            Net::V6 => "v6",
            Net::Dual => "dual",
        }
    }
}

struct Link {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

static LINK: OnceLock<Mutex<Link>> = OnceLock::new();

/// Joins the peer. Kept for the run.
///
/// # Errors
/// It is not there.
pub fn join(control: &Path) -> std::io::Result<()> {
    let stream = UnixStream::connect(control)?;
    let lines = BufReader::new(stream.try_clone()?);
    LINK.set(Mutex::new(Link { stream, lines })).map_err(|_| std::io::ErrorKind::AlreadyExists.into())
}

fn link() -> std::sync::MutexGuard<'static, Link> {
    LINK.get().expect("joined before the first case").lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the peer begin something; [`finish`] gives its answer.
pub fn begin(command: &str) {
    link().stream.write_all(format!("{command}\n").as_bytes()).expect("the peer");
}

/// The answer to what was begun.
pub fn finish() -> String {
    let mut line = String::new();
    link().lines.read_line(&mut line).expect("the peer");
    line.trim_end().to_owned()
}

/// Has the peer do something.
pub fn ask(command: &str) -> String {
    begin(command);
    finish()
}

/// A socket of the peer's.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    handle: u32,
}

impl Peer {
    /// From an answer that begins with a handle.
    ///
    /// # Panics
    /// The answer is an error.
    pub fn of(answer: &str) -> Peer {
        let handle = answer.split(' ').next().and_then(|word| word.parse().ok());
        Peer { handle: handle.unwrap_or_else(|| panic!("the peer: {answer}")) }
    }

    fn does(self, command: &str, rest: impl Display) -> String {
        ask(&format!("{command} {} {rest}", self.handle))
    }

    /// Sends a text; how many bytes went.
    pub fn say(self, text: &str) -> String {
        self.say_with(text, 0)
    }

    pub fn say_with(self, text: &str, flags: i32) -> String {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        self.does("say", format!("{hex} {flags}"))
    }

    /// Receives up to `count` bytes of text; what came and why no more.
    pub fn hear(self, count: usize) -> String {
        let answer = self.does("hear", count);
        let Some((hex, end)) = answer.split_once("- ") else { return answer };
        format!("{:?} {end}", String::from_utf8_lossy(&crate::peer::unhex(hex)))
    }

    /// Sends this many bytes of the pattern.
    pub fn send(self, count: usize) -> String {
        self.does("send", count)
    }

    /// The same without waiting for it: [`finish`] gives the answer.
    pub fn begin_send(self, count: usize) {
        begin(&format!("send {} {count}", self.handle));
    }

    /// Receives this many bytes of the pattern, or what comes before the end.
    pub fn read(self, count: usize) -> String {
        self.does("read", count)
    }

    pub fn begin_read(self, count: usize) {
        begin(&format!("read {} {count}", self.handle));
    }

    /// Receives until the end of the stream.
    pub fn drain(self) -> String {
        self.read(usize::MAX >> 1)
    }

    pub fn shut(self, how: i32) -> String {
        self.does("shut", how)
    }

    pub fn close(self) -> String {
        self.does("close", "")
    }

    /// Closes with a reset.
    pub fn abort(self) -> String {
        self.does("abort", "")
    }

    /// The state of its TCP connection.
    pub fn state(self) -> String {
        self.does("state", "")
    }

    /// The events the peer sees, after at most `timeout_ms`.
    pub fn poll(self, events: i16, timeout_ms: i32) -> String {
        self.does("poll", format!("{events} {timeout_ms}"))
    }

    /// How many bytes it has and did not read.
    pub fn unread(self) -> usize {
        self.does("unread", "").parse().unwrap_or(0)
    }

    /// How many bytes it sent that were not acknowledged.
    pub fn unsent(self) -> usize {
        self.does("unsent", "").parse().unwrap_or(0)
    }

    /// Waits until it has this many bytes.
    pub fn has(self, count: usize) -> bool {
        until(|| self.unread() >= count)
    }

    /// Its port and that of its other end.
    pub fn ports(self) -> (u16, u16) {
        let answer = self.does("ports", "");
        let mut words = answer.split(' ').map(|word| word.parse().unwrap_or(0));
        (words.next().unwrap_or(0), words.next().unwrap_or(0))
    }

    pub fn error(self) -> String {
        self.does("error", "")
    }

    /// Sets an option of type int.
    pub fn set(self, level: i32, name: i32, value: i32) -> String {
        self.does("option", format!("{level} {name} {value}"))
    }

    /// Of a listener: takes one connection.
    ///
    /// # Panics
    /// None comes.
    pub fn accept(self) -> Peer {
        Peer::of(&self.does("accept", ""))
    }

    /// Sends a datagram of pattern bytes.
    pub fn to(self, ip: IpAddr, port: u16, count: usize) -> String {
        self.does("to", format!("{ip} {port} {count}"))
    }

    /// Receives one: its length, whether it is of the pattern, and the sender's port.
    pub fn from(self) -> (String, u16) {
        let answer = self.does("from", "");
        let (told, port) = answer.rsplit_once(' ').unwrap_or((&answer, ""));
        (told.to_owned(), port.parse().unwrap_or(0))
    }

    /// Of a datagram socket: `connect`.
    pub fn plug(self, ip: IpAddr, port: u16) -> String {
        self.does("plug", format!("{ip} {port}"))
    }
}

/// Waits until it is so; `false` if it never is.
pub fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if start.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a call in a thread of its own, and waits until that sleeps in it (or has ended).
pub fn waiting<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let thread = Arc::new(AtomicI32::new(0));
    let told = Arc::clone(&thread);
    let handle = std::thread::spawn(move || {
        told.store(sys::thread_id(), Ordering::SeqCst);
        call()
    });
    let sleeps = || {
        let number = thread.load(Ordering::SeqCst);
        let status = std::fs::read_to_string(format!("/proc/self/task/{number}/stat")).unwrap_or_default();
        status.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    };
    until(|| handle.is_finished() || (sleeps() && sleeps()));
    handle
}

/// What a thread gave back.
pub fn joined<T>(handle: JoinHandle<T>) -> T {
    handle.join().expect("a thread of the case")
}

/// Waits until `poll` tells one of the events (or an error); gives what it told.
pub fn ready(fd: Fd, events: i16) -> String {
    let (_, told) = sys::poll(&[(fd, events)], LONG_MS);
    names::events(u32::from(told[0].cast_unsigned()))
}

/// What `poll` tells at once.
pub fn now(fd: Fd, events: i16) -> String {
    let (_, told) = sys::poll(&[(fd, events)], 0);
    names::events(u32::from(told[0].cast_unsigned()))
}

/// All that a poll for readiness asks for.
pub const ALL: i16 = libc::POLLIN | libc::POLLOUT | libc::POLLRDHUP | libc::POLLPRI;

/// A case under way.
pub struct Case {
    pub world: World,
    pub net: Net,
}

/// What the running case noted: here, so that the watchdog can say how far it came.
static LOG: Mutex<String> = Mutex::new(String::new());

/// Takes the log, leaving an empty one.
pub fn take_log() -> String {
    std::mem::take(&mut *LOG.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Adds to the log.
pub fn note(text: &str) {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if !log.is_empty() {
        log.push_str("; ");
    }
    log.push_str(text);
}

impl Case {
    /// Notes one observation.
    pub fn see(&self, what: &str, value: impl Display) {
        note(&format!("{what}={value}"));
    }

    /// Notes bytes as text.
    pub fn see_text(&self, what: &str, ret: Ret, bytes: &[u8]) {
        if ret.is_ok() {
            let text = String::from_utf8_lossy(&bytes[..ret.count().min(bytes.len())]).into_owned();
            self.see(what, format!("{ret} {text:?}"));
        } else {
            self.see(what, ret);
        }
    }

    /// Receives once and notes what came, as text.
    pub fn see_recv(&self, what: &str, fd: Fd, room: usize, flags: i32) -> Ret {
        let mut bytes = vec![0; room];
        let ret = sys::recv(fd, &mut bytes, flags);
        self.see_text(what, ret, &bytes);
        ret
    }

    /// The socket's `SO_ERROR`, which this clears.
    pub fn error_of(&self, fd: Fd) -> &'static str {
        names::errno(int_option(fd, libc::SOL_SOCKET, libc::SO_ERROR).1)
    }

    pub fn domain(&self) -> i32 {
        if self.net == Net::V4 { libc::AF_INET } else { libc::AF_INET6 }
    }

    /// The subject's address as its own sockets name it.
    pub fn here(&self, port: u16) -> Address {
        Address::new(self.as_seen(self.world.here4, self.world.here6), port)
    }

    /// The peer's address as the subject's sockets name it.
    pub fn there(&self, port: u16) -> Address {
        Address::new(self.as_seen(self.world.there4, self.world.there6), port)
    }

    /// An address that no machine has (RFC 5737, RFC 3849). The peer's is no such: it may be on the same machine.
    pub fn nobody(&self, port: u16) -> Address {
        Address::new(self.as_seen(Ipv4Addr::new(192, 0, 2, 9), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9)), port)
    }

    pub fn any(&self, port: u16) -> Address {
        let ip: IpAddr = if self.net == Net::V4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        Address::new(ip, port)
    }

    fn as_seen(&self, v4: Ipv4Addr, v6: Ipv6Addr) -> IpAddr {
        match self.net {
            Net::V4 => v4.into(),
            Net::V6 => v6.into(),
            Net::Dual => v4.to_ipv6_mapped().into(),
        }
    }

    /// The subject's address as the peer names it.
    pub fn here_ip(&self) -> IpAddr {
        if self.net == Net::V6 { self.world.here6.into() } else { self.world.here4.into() }
    }

    /// The peer's address as the peer names it.
    pub fn there_ip(&self) -> IpAddr {
        if self.net == Net::V6 { self.world.there6.into() } else { self.world.there4.into() }
    }

    /// Names an address by whose it is.
    pub fn whose(&self, address: &Address) -> String {
        let Some(parts) = address.parts() else { return format!("{} bytes", address.bytes().len()) };
        let ip = parts.ip();
        let world = &self.world;
        let name = if ip.is_unspecified() {
            "any"
        } else if ip == IpAddr::from(world.here4) || ip == IpAddr::from(world.here6) {
            "here"
        } else if ip == IpAddr::from(world.there4) || ip == IpAddr::from(world.there6) {
            "there"
        } else if ip == IpAddr::from(world.here4.to_ipv6_mapped()) {
            "here(mapped)"
        } else if ip == IpAddr::from(world.there4.to_ipv6_mapped()) {
            "there(mapped)"
        } else {
            "elsewhere"
        };
        format!("{name}:{}", if parts.port() == 0 { "0" } else { "port" })
    }

    // ---- sockets of the subject's

    /// A fresh TCP socket.
    pub fn tcp(&self) -> Fd {
        sys::socket(self.domain(), libc::SOCK_STREAM, 0).fd()
    }

    pub fn tcp_nonblocking(&self) -> Fd {
        sys::socket(self.domain(), libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0).fd()
    }

    /// A fresh UDP socket.
    pub fn udp(&self) -> Fd {
        sys::socket(self.domain(), libc::SOCK_DGRAM, 0).fd()
    }

    /// A UDP socket bound to the subject's address, and its port.
    pub fn udp_bound(&self) -> (Fd, u16) {
        let fd = self.udp();
        sys::bind(fd, &self.here(0));
        (fd, sys::getsockname(fd).1.port())
    }

    /// A listener on the subject's address, and its port.
    pub fn listener(&self) -> (Fd, u16) {
        self.listener_with(0, 16)
    }

    pub fn listener_with(&self, kind_flags: i32, backlog: i32) -> (Fd, u16) {
        let fd = sys::socket(self.domain(), libc::SOCK_STREAM | kind_flags, 0).fd();
        let bound = sys::bind(fd, &self.here(0));
        let listening = sys::listen(fd, backlog);
        if !bound.is_ok() || !listening.is_ok() {
            self.see("listener", format!("{} {}", bound.done(), listening.done()));
        }
        (fd, sys::getsockname(fd).1.port())
    }

    /// Has the peer connect to a port of the subject's and send a text with its SYN, if it may.
    pub fn peer_connects_with(&self, port: u16, text: &str, without_cookie: bool) -> Peer {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let without = u8::from(without_cookie);
        Peer::of(&ask(&format!("fast {} {port} {} {hex} {without}", self.here_ip(), self.there_ip())))
    }

    /// Has the peer connect to a port of the subject's.
    pub fn peer_connects(&self, port: u16) -> Peer {
        Peer::of(&self.peer_tries(port))
    }

    /// The same, for a connection that may fail.
    pub fn peer_tries(&self, port: u16) -> String {
        ask(&format!("connect {} {port} {} 0", self.here_ip(), self.there_ip()))
    }

    /// The same with a small receive buffer.
    pub fn peer_connects_small(&self, port: u16) -> Peer {
        Peer::of(&ask(&format!("connect {} {port} {} 4096", self.here_ip(), self.there_ip())))
    }

    /// A listener of the peer's, and its port.
    pub fn peer_listens(&self) -> (Peer, u16) {
        self.peer_listens_with(16, 0)
    }

    pub fn peer_listens_with(&self, backlog: i32, room: i32) -> (Peer, u16) {
        let answer = ask(&format!("listen {} 0 {backlog} {room}", self.there_ip()));
        let port = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (Peer::of(&answer), port)
    }

    /// A port of the peer's that answers no connection request: its queue is full.
    pub fn peer_is_deaf(&self) -> u16 {
        let (_, port) = self.peer_listens_with(0, 0);
        let answer = ask(&format!("connect {} {port} {} 0", self.there_ip(), self.there_ip()));
        let _ = Peer::of(&answer);
        port
    }

    /// A port of the peer's at which nobody listens.
    pub fn peer_closed_port(&self) -> u16 {
        let (listener, port) = self.peer_listens();
        listener.close();
        port
    }

    /// A datagram socket of the peer's, and its port.
    pub fn peer_udp(&self) -> (Peer, u16) {
        let answer = ask(&format!("udp {} 0", self.there_ip()));
        let port = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        (Peer::of(&answer), port)
    }

    /// A connection that the peer opened and the subject accepted.
    pub fn accepted(&self) -> (Fd, Peer) {
        let (listener, port) = self.listener();
        let peer = self.peer_connects(port);
        let fd = sys::accept(listener).fd();
        sys::close(listener);
        (fd, peer)
    }

    /// One whose peer has a small receive buffer.
    pub fn accepted_small(&self) -> (Fd, Peer) {
        let (listener, port) = self.listener();
        let peer = self.peer_connects_small(port);
        let fd = sys::accept(listener).fd();
        sys::close(listener);
        (fd, peer)
    }

    /// A connection that the subject opened.
    pub fn connected(&self) -> (Fd, Peer) {
        let (listener, port) = self.peer_listens();
        let fd = self.tcp();
        let ret = sys::connect(fd, &self.there(port));
        if !ret.is_ok() {
            self.see("connected", ret);
        }
        let peer = listener.accept();
        listener.close();
        (fd, peer)
    }

    /// Waits until this many bytes can be read from `fd`.
    pub fn arrived(&self, fd: Fd, count: i32) {
        if !until(|| sys::ioctl(fd, libc::FIONREAD, 0).1 >= count) {
            self.see("arrived", format!("only {}", sys::ioctl(fd, libc::FIONREAD, 0).1));
        }
    }

    pub fn nonblocking(&self, fd: Fd) {
        let flags = i32::try_from(sys::fcntl(fd, libc::F_GETFL, 0).value).unwrap_or(0);
        sys::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

/// An option of type int, and its value.
pub fn int_option(fd: Fd, level: i32, option: i32) -> (Ret, i32) {
    let (ret, bytes) = sys::getsockopt(fd, level, option, 4);
    (ret, i32::from_ne_bytes(bytes.try_into().unwrap_or_default()))
}

pub fn set_int(fd: Fd, level: i32, option: i32, value: i32) -> Ret {
    sys::setsockopt(fd, level, option, &value.to_ne_bytes())
}

/// `SO_RCVTIMEO` or `SO_SNDTIMEO`, milliseconds.
pub fn set_time(fd: Fd, option: i32, milliseconds: i64) -> Ret {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1000];
    let bytes: Vec<u8> = time.iter().flat_map(|word| word.to_ne_bytes()).collect();
    sys::setsockopt(fd, libc::SOL_SOCKET, option, &bytes)
}

/// `SO_LINGER`.
pub fn set_linger(fd: Fd, on: i32, seconds: i32) -> Ret {
    let bytes: Vec<u8> = [on, seconds].iter().flat_map(|word| word.to_ne_bytes()).collect();
    sys::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &bytes)
}
