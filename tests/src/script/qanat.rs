//! This project's stack under a virtual clock, with socket calls mapped onto its native interface.
//!
//! | call | native interface |
//! |---|---|
//! | `connect` | `Stack::connect`; `SO_ERROR` from `Connected` and `Closed` |
//! | `accept` | the next `Accepted` |
//! | `read` | chunks of `Data`, consumed; `Closed`'s reason as the error |
//! | `write` | `Stack::send` |
//! | `shutdown(SHUT_WR)`, `close` | `Stack::shutdown`, `Stack::close`; `close` with unread bytes or `SO_LINGER` 0: `abort` |
//! | `setsockopt` | the connection's setting, where there is one (before `connect` or `listen`: of the connections to come); else the stack's, read from the script before it starts |

use super::matching::byte_at;
use super::run::Backend;
use super::syntax::{Action, Call, Script, Stack as Which};
use bytes::Bytes;
use qanat::Setting;
use qanat_nic::{Clock, ManualClock, MemoryPlan, Time, Wire};
use qanat_stack::tcp::{CongestionAlgorithm, TcpConfig};
use qanat_stack::{
    Chunk, CloseReason, CommandError, Config, ConnectOptions, ConnectionId, Event, Keepalive, ListenOptions,
    ListenerId, Stack,
};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// What a socket of the script stands for.
enum Socket {
    New {
        bound: bool,
    },
    Listener(ListenerId),
    Stream(ConnectionId),
    /// `connect` failed at once.
    Failed,
}

#[derive(Default)]
struct Stream {
    chunks: VecDeque<Chunk>,
    /// Bytes of the first chunk already read.
    offset: usize,
    /// Place in the peer's stream of the next byte to read.
    sequence: u32,
    /// Place in our stream of the next byte to write.
    written: u32,
    connected: bool,
    peer_closed: bool,
    closed: bool,
    error: Option<&'static str>,
    linger: bool,
}

/// Options of a socket that the native interface has for each connection, as set so far.
#[derive(Clone, Debug, Default)]
struct SocketOptions {
    values: Vec<(String, String)>,
}

impl SocketOptions {
    fn set(&mut self, name: &str, value: &str) {
        self.values.retain(|(known, _)| known != name);
        self.values.push((name.to_owned(), value.trim_matches(['[', ']']).to_owned()));
    }

    fn value<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.values.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.parse().ok())
    }

    /// Puts the option `name` into force.
    fn apply(&self, name: &str, stack: &mut Stack, now: Time, connection: ConnectionId) {
        let setting = match name {
            "TCP_NODELAY" => Setting::NoDelay(self.value(name) != Some(0)),
            "TCP_CORK" => Setting::Cork(self.value(name) != Some(0)),
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
                let on = self.value("SO_KEEPALIVE").is_some_and(|on: u32| on != 0);
                Setting::Keepalive(on.then(|| Keepalive {
                    idle: Duration::from_secs(self.value("TCP_KEEPIDLE").unwrap_or(7_200)),
                    interval: Duration::from_secs(self.value("TCP_KEEPINTVL").unwrap_or(75)),
                    probes_max: self.value("TCP_KEEPCNT").unwrap_or(9),
                }))
            }
            "TCP_USER_TIMEOUT" => Setting::UserTimeout(self.value(name).map(Duration::from_millis)),
            "QANAT_ADVERTISE_USER_TIMEOUT" => {
                Setting::AdvertisedUserTimeout(Duration::from_millis(self.value(name).unwrap_or(0)))
            }
            "SO_RCVBUF" => Setting::ReceiveWindowMax(self.value(name)),
            "SO_MAX_PACING_RATE" => Setting::PacingRate(self.value(name)),
            _ => return,
        };
        // Of a connection that is gone: nothing to set.
        let _ = stack.set(now, connection, setting);
    }

    fn apply_all(&self, stack: &mut Stack, now: Time, connection: ConnectionId) {
        for (name, _) in &self.values {
            self.apply(name, stack, now, connection);
        }
    }
}

/// The stack, its NIC and its clock.
pub struct QanatBackend {
    clock: ManualClock,
    stack: Stack,
    vnic: Wire,
    local: SocketAddr,
    remote: SocketAddr,
    sockets: HashMap<i64, Socket>,
    streams: HashMap<ConnectionId, Stream>,
    accepted: HashMap<ListenerId, VecDeque<ConnectionId>>,
    sent: VecDeque<(Duration, Vec<u8>)>,
    linger: Vec<i64>,
    options: HashMap<i64, SocketOptions>,
}

fn seconds(value: &str) -> Option<Duration> {
    value.parse().ok().map(Duration::from_secs)
}

/// Applies a kernel setting; those without a counterpart change nothing.
fn apply_sysctl(tcp: &mut TcpConfig, name: &str, value: &str) {
    let on = value != "0";
    match name {
        "tcp_ecn" => tcp.ecn = on,
        "tcp_sack" => tcp.sack = on,
        "tcp_timestamps" => tcp.timestamps = on,
        "tcp_window_scaling" => tcp.window_scaling = on,
        "tcp_syn_retries" => tcp.syn_retransmissions_max = value.parse().unwrap_or(tcp.syn_retransmissions_max),
        "tcp_synack_retries" => {
            tcp.syn_ack_retransmissions_max = value.parse().unwrap_or(tcp.syn_ack_retransmissions_max);
        }
        "tcp_retries2" => tcp.retransmissions_max = value.parse().unwrap_or(tcp.retransmissions_max),
        "tcp_fin_timeout" => tcp.fin_wait_2 = seconds(value).unwrap_or(tcp.fin_wait_2),
        "qanat_user_timeout_adopted" => tcp.user_timeout_adopted = on,
        "tcp_congestion_control" if value == "reno" => tcp.congestion = CongestionAlgorithm::NewReno,
        _ => {}
    }
}

fn apply_option(tcp: &mut TcpConfig, name: &str, value: &str) {
    let value = value.trim_matches(['[', ']']);
    match name {
        "TCP_SYNCNT" => tcp.syn_retransmissions_max = value.parse().unwrap_or(tcp.syn_retransmissions_max),
        "TCP_LINGER2" => tcp.fin_wait_2 = seconds(value).unwrap_or(tcp.fin_wait_2),
        "TCP_MAXSEG" => tcp.maximum_segment = value.parse().ok(),
        _ => {}
    }
}

impl QanatBackend {
    /// A stack set up as the script wants it.
    ///
    /// # Errors
    /// If memory can't be mapped.
    pub fn new(script: &Script) -> Result<QanatBackend, String> {
        let address = |last: u8| -> std::net::IpAddr {
            if script.ipv6 {
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into()
            } else {
                [10, 9, 0, last].into()
            }
        };
        let mut config = Config::new(address(1), if script.ipv6 { 64 } else { 24 });
        config.connections_max = 16;
        config.half_open_max = 16;
        config.time_wait_max = 16;
        config.timers_max = 16;
        config.tcp.ecn = false;
        config.tcp.no_delay = false;
        for (name, value) in &script.sysctls {
            apply_sysctl(&mut config.tcp, name, value);
            if name == "tcp_syncookies" && value == "2" {
                // "Always": no half-open connection is kept.
                config.half_open_max = 0;
            }
        }
        for line in script.lines.iter().filter(|line| line.only != Some(Which::Linux)) {
            if let Action::Call(Call { name, arguments, .. }) = &line.action
                && let ("setsockopt", [_, _, option, value, ..]) = (name.as_str(), arguments.as_slice())
            {
                apply_option(&mut config.tcp, option, value);
            }
        }
        let plan = MemoryPlan { frame_size: 2048, receive_frames: 1024, transmit_frames: 1024, prepared_frames: 0 };
        let memory = plan.allocate().map_err(|error| error.to_string())?;
        let vnic = Wire::new(script.mtu, memory);
        let clock = ManualClock::new();
        // Not zero: "never" and "at the start" must differ.
        clock.advance(START);
        let seed: u8 = script.name.bytes().fold(1, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte));
        let stack = Stack::new(config, [seed; 32], &vnic, clock.now());
        Ok(QanatBackend {
            clock,
            stack,
            vnic,
            local: SocketAddr::new(address(1), 8080),
            remote: SocketAddr::new(address(2), 40_000),
            sockets: HashMap::new(),
            streams: HashMap::new(),
            accepted: HashMap::new(),
            sent: VecDeque::new(),
            linger: Vec::new(),
            options: HashMap::new(),
        })
    }

    /// Works until nothing is left to do at this time.
    fn poll(&mut self) {
        for _ in 0..64 {
            let now = self.clock.now();
            self.stack.receive(now, &mut self.vnic);
            while let Some(event) = self.stack.next_event() {
                self.on_event(event);
            }
            self.stack.transmit(now, &mut self.vnic);
            let at = self.now();
            self.sent.extend(self.vnic.departed().map(|packet| (at, packet)));
            let due = self.stack.next_deadline().is_some_and(|deadline| deadline <= now);
            if !self.vnic.has_arrived() && !due {
                return;
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Accepted { connection, listener, .. } => {
                let stream = Stream { connected: true, sequence: 1, written: 1, ..Stream::default() };
                self.streams.insert(connection, stream);
                self.accepted.entry(listener).or_default().push_back(connection);
            }
            Event::Connected { connection } => {
                if let Some(stream) = self.streams.get_mut(&connection) {
                    stream.connected = true;
                }
            }
            Event::Data { connection, chunk } => match self.streams.get_mut(&connection) {
                Some(stream) => stream.chunks.push_back(chunk),
                None => drop(chunk),
            },
            Event::PeerClosed { connection } => {
                if let Some(stream) = self.streams.get_mut(&connection) {
                    stream.peer_closed = true;
                }
            }
            Event::Closed { connection, why } => {
                if let Some(stream) = self.streams.get_mut(&connection) {
                    stream.closed = true;
                    stream.error = match why {
                        CloseReason::ResetByPeer if stream.peer_closed => Some("EPIPE"),
                        why => why.errno_name(),
                    };
                }
            }
            _ => {}
        }
    }

    fn read(&mut self, connection: ConnectionId, length: usize) -> Result<i64, String> {
        let stream = self.streams.get_mut(&connection).ok_or("EBADF")?;
        let mut count = 0;
        let mut done = Vec::new();
        while count < length
            && let Some(chunk) = stream.chunks.front()
        {
            let bytes = chunk.bytes().get(stream.offset..).unwrap_or(&[]);
            let taken = bytes.len().min(length - count);
            for byte in &bytes[..taken] {
                if *byte != byte_at(stream.sequence) {
                    return Err(format!("wrong byte at {} of the peer's stream", stream.sequence));
                }
                stream.sequence = stream.sequence.wrapping_add(1);
            }
            count += taken;
            stream.offset += taken;
            if stream.offset >= chunk.len() {
                stream.offset = 0;
                done.extend(stream.chunks.pop_front());
            }
        }
        if count > 0 {
            for chunk in done {
                self.stack.consume(self.clock.now(), connection, chunk);
            }
            return Ok(count as i64);
        }
        if let Some(error) = stream.error.take() {
            return Err(error.into());
        }
        if stream.peer_closed || stream.closed { Ok(0) } else { Err("EAGAIN".into()) }
    }

    fn write(&mut self, connection: ConnectionId, length: usize) -> Result<i64, String> {
        let stream = self.streams.get_mut(&connection).ok_or("EBADF")?;
        if let Some(error) = stream.error.take() {
            return Err(error.into());
        }
        let bytes: Vec<u8> = (0..length as u32).map(|index| byte_at(stream.written.wrapping_add(index))).collect();
        match self.stack.send(self.clock.now(), connection, Bytes::from(bytes)) {
            Ok(()) => {
                stream.written = stream.written.wrapping_add(length as u32);
                Ok(length as i64)
            }
            Err(error) => Err(errno(error)),
        }
    }

    fn close(&mut self, fd: i64) -> Result<i64, String> {
        let now = self.clock.now();
        match self.sockets.remove(&fd) {
            Some(Socket::Listener(listener)) => {
                for connection in self.accepted.remove(&listener).into_iter().flatten() {
                    let _ = self.stack.abort(now, connection);
                }
                self.stack.close_listener(listener).map(|()| 0).map_err(errno)
            }
            Some(Socket::Stream(connection)) => {
                let stream = self.streams.remove(&connection).unwrap_or_default();
                let abort = !stream.chunks.is_empty() || stream.linger || self.linger.contains(&fd);
                let result = match abort {
                    true => self.stack.abort(now, connection),
                    false => self.stack.close(now, connection),
                };
                // Gone already: closing a dead socket succeeds.
                let _ = result;
                Ok(0)
            }
            Some(_) => Ok(0),
            None => Err("EBADF".into()),
        }
    }

    fn connect(&mut self, fd: i64) -> Result<i64, String> {
        let Some(Socket::New { bound }) = self.sockets.get(&fd) else { return Err("EISCONN".into()) };
        let (local, receive_window) = (bound.then_some(self.local), self.receive_window(fd));
        let options = ConnectOptions { local, receive_window, ..ConnectOptions::default() };
        match self.stack.connect(self.clock.now(), self.remote, options) {
            Ok(connection) => {
                self.streams.insert(connection, Stream { sequence: 1, written: 1, ..Stream::default() });
                self.sockets.insert(fd, Socket::Stream(connection));
                if let Some(options) = self.options.get(&fd) {
                    options.apply_all(&mut self.stack, self.clock.now(), connection);
                }
                Err("EINPROGRESS".into())
            }
            Err(error) => {
                self.sockets.insert(fd, Socket::Failed);
                Err(errno(error))
            }
        }
    }

    /// `SO_RCVBUF`.
    fn receive_window(&self, fd: i64) -> Option<u32> {
        self.options.get(&fd).and_then(|options| options.value("SO_RCVBUF"))
    }

    fn stream(&self, fd: i64) -> Result<ConnectionId, String> {
        match self.sockets.get(&fd) {
            Some(Socket::Stream(connection)) => Ok(*connection),
            Some(_) => Err("ENOTCONN".into()),
            None => Err("EBADF".into()),
        }
    }

    fn dispatch(&mut self, call: &Call) -> Result<i64, String> {
        let number = |index: usize| call.arguments.get(index).and_then(|text| text.parse::<i64>().ok());
        let fd = number(0).unwrap_or(-1);
        match call.name.as_str() {
            "socket" => {
                self.sockets.insert(call.result, Socket::New { bound: false });
                Ok(call.result)
            }
            "setsockopt" => {
                if call.arguments.get(2).is_some_and(|option| option == "SO_LINGER") {
                    self.linger.push(fd);
                }
                if let [_, _, name, value, ..] = call.arguments.as_slice() {
                    let options = self.options.entry(fd).or_default();
                    options.set(name, value);
                    if let Some(Socket::Stream(connection)) = self.sockets.get(&fd) {
                        options.apply(name, &mut self.stack, self.clock.now(), *connection);
                    }
                }
                Ok(0)
            }
            "bind" => {
                self.sockets.insert(fd, Socket::New { bound: true });
                Ok(0)
            }
            "listen" => {
                let listener = self.stack.listen(self.local, ListenOptions::default()).map_err(errno)?;
                self.stack.set_receive_window(listener, self.receive_window(fd)).map_err(errno)?;
                self.sockets.insert(fd, Socket::Listener(listener));
                Ok(0)
            }
            "accept" => {
                let Some(Socket::Listener(listener)) = self.sockets.get(&fd) else { return Err("EINVAL".into()) };
                let next = self.accepted.get_mut(listener).and_then(VecDeque::pop_front).ok_or("EAGAIN")?;
                self.sockets.insert(call.result, Socket::Stream(next));
                if let Some(options) = self.options.get(&fd).cloned() {
                    options.apply_all(&mut self.stack, self.clock.now(), next);
                    self.options.insert(call.result, options);
                }
                Ok(call.result)
            }
            "connect" => self.connect(fd),
            "read" => self.read(self.stream(fd)?, number(2).unwrap_or(0) as usize),
            "write" => self.write(self.stream(fd)?, number(2).unwrap_or(0) as usize),
            "send" if call.arguments.get(3).is_some_and(|flags| flags == "MSG_OOB") => {
                let connection = self.stream(fd)?;
                let sent = self.write(connection, number(2).unwrap_or(0) as usize)?;
                self.stack.mark_urgent(self.clock.now(), connection).map(|()| sent).map_err(errno)
            }
            "shutdown" => self.stack.shutdown(self.clock.now(), self.stream(fd)?).map(|()| 0).map_err(errno),
            "close" => self.close(fd),
            "getsockopt" => {
                let connection = self.stream(fd)?;
                let stream = self.streams.get_mut(&connection).ok_or("EBADF")?;
                super::run::socket_error(call, stream.error.take())
            }
            other => Err(format!("unknown call {other}")),
        }
    }
}

const START: Duration = Duration::from_secs(10);

fn errno(error: CommandError) -> String {
    match error {
        CommandError::Stale | CommandError::NotSending => "EPIPE",
        CommandError::Full => "ENOBUFS",
        CommandError::InUse => "EADDRINUSE",
        CommandError::Unreachable => "ENETUNREACH",
        CommandError::TooLong => "EMSGSIZE",
        CommandError::Unsupported => "EOPNOTSUPP",
    }
    .to_owned()
}

impl Backend for QanatBackend {
    fn stack(&self) -> Which {
        Which::Qanat
    }

    fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.remote)
    }

    fn now(&self) -> Duration {
        self.clock.now().since(Time::ZERO + START)
    }

    fn wait_until(&mut self, until: Duration) {
        let until = Time::ZERO + START + until;
        while let Some(deadline) = self.stack.next_deadline().filter(|deadline| *deadline <= until) {
            self.clock.advance_to(deadline);
            let before = self.clock.now();
            self.poll();
            // A deadline that polling does not move would spin.
            if self.stack.next_deadline().is_some_and(|next| next <= before) {
                self.clock.advance(Duration::from_micros(10));
            }
        }
        self.clock.advance_to(until);
    }

    fn next_packet(&mut self, deadline: Duration) -> Option<(Duration, Vec<u8>)> {
        loop {
            if let Some(packet) = self.sent.pop_front() {
                return Some(packet);
            }
            let until = Time::ZERO + START + deadline;
            match self.stack.next_deadline() {
                Some(next) if next <= until => self.wait_until(next.since(Time::ZERO + START)),
                _ => {
                    self.clock.advance_to(until);
                    return None;
                }
            }
        }
    }

    fn inject(&mut self, packet: &[u8]) {
        self.vnic.arrive(packet);
        self.poll();
    }

    fn call(&mut self, call: &Call) -> Result<Result<i64, String>, String> {
        let result = self.dispatch(call);
        self.poll();
        match result {
            Err(message) if message.contains(' ') => Err(message),
            other => Ok(other),
        }
    }

    fn tolerance(&self, script: &Script, _waited: Duration) -> (Duration, Duration) {
        let tolerance = script.tolerance.unwrap_or(Duration::from_millis(4));
        (tolerance, tolerance)
    }
}
