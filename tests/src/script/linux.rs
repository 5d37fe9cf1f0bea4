//! The Linux kernel, in real time: a TUN device in a network namespace of the calling thread, and kernel sockets.

use super::matching::byte_at;
use super::run::{Backend, socket_error};
use super::syntax::{Call, Script, Stack};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use qanat_nic::tap::make_tun;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Linux's number.
const MSG_OOB: i32 = 1;
const DEVICE: &str = "script0";

/// Whether this process may make namespaces and TUN devices.
pub fn is_permitted() -> bool {
    nix::unistd::geteuid().is_root() && std::path::Path::new("/dev/net/tun").exists()
}

struct Stream {
    socket: Socket,
    /// Place in the peer's stream of the next byte to read.
    sequence: u32,
    /// Place in our stream of the next byte to write.
    written: u32,
}

/// The kernel's stack in a fresh namespace.
pub struct LinuxBackend {
    start: Instant,
    device: Arc<File>,
    packets: Receiver<(Instant, Vec<u8>)>,
    sockets: HashMap<i64, Stream>,
    /// Congestion control of new sockets.
    congestion: String,
    local: SocketAddr,
    remote: SocketAddr,
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program).args(arguments).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("{program}: {error}; install iproute2")),
    }
}

fn set_sysctl(name: &str, value: &str) -> Result<(), String> {
    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)
        .map_err(|error| format!("sysctl {name}={value}: {error}"))
}

impl LinuxBackend {
    /// Puts the calling thread into a new network namespace and sets it up as the script wants it.
    ///
    /// # Errors
    /// What failed; usually a missing privilege.
    pub fn new(script: &Script) -> Result<LinuxBackend, String> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("unshare: {error}; run as root"))?;
        let device = make_tun(DEVICE).map_err(|error| format!("/dev/net/tun: {error}"))?;
        let device = Arc::new(File::from(device));
        let address = |last: u8| -> IpAddr {
            if script.ipv6 {
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into()
            } else {
                [10, 9, 0, last].into()
            }
        };
        let prefix = format!("{}/{}", address(1), if script.ipv6 { 64 } else { 24 });
        if script.ipv6 {
            run("ip", &["address", "add", &prefix, "dev", DEVICE, "nodad"])?;
        } else {
            let _ = std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            run("ip", &["address", "add", &prefix, "dev", DEVICE])?;
        }
        run("ip", &["link", "set", DEVICE, "up", "mtu", &script.mtu.to_string()])?;
        // Whatever the machine's own defaults are.
        set_sysctl("tcp_ecn", "0")?;
        set_sysctl("tcp_no_metrics_save", "1")?;
        let mut congestion = "cubic".to_owned();
        for (name, value) in &script.sysctls {
            // Only unrestricted algorithms can be a namespace's default; a privileged socket may choose any.
            match name.as_str() {
                "tcp_congestion_control" => congestion.clone_from(value),
                _ => set_sysctl(name, value)?,
            }
        }
        let (sender, packets) = channel();
        let reader = Arc::clone(&device);
        // Ends when the device is deleted, or with the process.
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(length) = reader.as_ref().read(&mut buffer) {
                if sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                    break;
                }
            }
        });
        Ok(LinuxBackend {
            start: Instant::now(),
            device,
            packets,
            sockets: HashMap::new(),
            congestion,
            local: SocketAddr::new(address(1), 8080),
            remote: SocketAddr::new(address(2), 40_000),
        })
    }

    fn set_option(&mut self, fd: i64, option: &str, value: &str) -> Result<i64, String> {
        let stream = self.sockets.get(&fd).ok_or("EBADF")?;
        let socket = &stream.socket;
        let value = value.trim_matches(['[', ']', '{', '}']);
        let number: u32 = value.parse().unwrap_or(0);
        let result = match option {
            "SO_REUSEADDR" => socket.set_reuse_address(number != 0),
            "TCP_NODELAY" => socket.set_tcp_nodelay(number != 0),
            "TCP_CORK" => socket.set_tcp_cork(number != 0),
            "TCP_QUICKACK" => socket.set_tcp_quickack(number != 0),
            "SO_KEEPALIVE" => socket.set_keepalive(number != 0),
            "TCP_KEEPIDLE" => {
                socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(Duration::from_secs(number.into())))
            }
            "TCP_KEEPINTVL" => {
                socket.set_tcp_keepalive(&TcpKeepalive::new().with_interval(Duration::from_secs(number.into())))
            }
            "TCP_KEEPCNT" => socket.set_tcp_keepalive(&TcpKeepalive::new().with_retries(number)),
            "TCP_MAXSEG" => socket.set_tcp_mss(number),
            "TCP_USER_TIMEOUT" => socket.set_tcp_user_timeout(Some(Duration::from_millis(number.into()))),
            "SO_OOBINLINE" => socket.set_out_of_band_inline(number != 0),
            "SO_RCVBUF" => socket.set_recv_buffer_size(number as usize),
            "SO_SNDBUF" => socket.set_send_buffer_size(number as usize),
            "SO_LINGER" => socket.set_linger(Some(Duration::ZERO)),
            "TCP_CONGESTION" => socket.set_tcp_congestion(value.trim_matches('"').as_bytes()),
            _ => return Err(format!("unknown option {option}")),
        };
        result.map(|()| 0).map_err(errno)
    }

    fn read(&mut self, fd: i64, length: usize) -> Result<i64, String> {
        let stream = self.sockets.get_mut(&fd).ok_or("EBADF")?;
        let mut buffer = vec![0; length];
        let count = stream.socket.read(&mut buffer).map_err(errno)?;
        for byte in &buffer[..count] {
            if *byte != byte_at(stream.sequence) {
                return Err(format!("wrong byte at {} of the peer's stream", stream.sequence));
            }
            stream.sequence = stream.sequence.wrapping_add(1);
        }
        Ok(count as i64)
    }

    fn write(&mut self, fd: i64, length: usize, flags: i32) -> Result<i64, String> {
        let stream = self.sockets.get_mut(&fd).ok_or("EBADF")?;
        let bytes: Vec<u8> = (0..length as u32).map(|index| byte_at(stream.written.wrapping_add(index))).collect();
        let count = stream.socket.send_with_flags(&bytes, flags).map_err(errno)?;
        stream.written = stream.written.wrapping_add(count as u32);
        Ok(count as i64)
    }

    fn dispatch(&mut self, call: &Call) -> Result<i64, String> {
        let text = |index: usize| call.arguments.get(index).map_or("", String::as_str);
        let fd = text(0).parse::<i64>().unwrap_or(-1);
        let number = |index: usize| text(index).parse::<i64>().unwrap_or(0);
        if call.name == "socket" {
            let socket =
                Socket::new(Domain::for_address(self.local), Type::STREAM, Some(Protocol::TCP)).map_err(errno)?;
            socket.set_nonblocking(true).map_err(errno)?;
            socket.set_tcp_congestion(self.congestion.as_bytes()).map_err(errno)?;
            self.sockets.insert(call.result, Stream { socket, sequence: 1, written: 1 });
            return Ok(call.result);
        }
        match call.name.as_str() {
            "setsockopt" => return self.set_option(fd, text(2), text(3)),
            "read" => return self.read(fd, number(2) as usize),
            "write" => return self.write(fd, number(2) as usize, 0),
            "send" if text(3) == "MSG_OOB" => return self.write(fd, number(2) as usize, MSG_OOB),
            "close" => return self.sockets.remove(&fd).map(|_| 0).ok_or("EBADF".into()),
            _ => {}
        }
        let socket = &self.sockets.get(&fd).ok_or("EBADF")?.socket;
        let result = match call.name.as_str() {
            "bind" => socket.bind(&SockAddr::from(self.local)),
            "listen" => socket.listen(number(1) as i32),
            "connect" => socket.connect(&SockAddr::from(self.remote)),
            "shutdown" => socket.shutdown(std::net::Shutdown::Write),
            "getsockopt" => {
                let error = socket.take_error().map_err(errno)?.map(errno);
                return socket_error(call, error.as_deref());
            }
            "accept" => {
                let (socket, _) = socket.accept().map_err(errno)?;
                socket.set_nonblocking(true).map_err(errno)?;
                self.sockets.insert(call.result, Stream { socket, sequence: 1, written: 1 });
                return Ok(call.result);
            }
            other => return Err(format!("unknown call {other}")),
        };
        result.map(|()| 0).map_err(errno)
    }
}

fn errno(error: std::io::Error) -> String {
    error.raw_os_error().map_or_else(|| format!("an error: {error}"), |number| format!("{:?}", Errno::from_raw(number)))
}

impl Backend for LinuxBackend {
    fn stack(&self) -> Stack {
        Stack::Linux
    }

    fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.remote)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wait_until(&mut self, until: Duration) {
        if let Some(rest) = until.checked_sub(self.now()) {
            std::thread::sleep(rest);
        }
    }

    fn next_packet(&mut self, deadline: Duration) -> Option<(Duration, Vec<u8>)> {
        let rest = deadline.saturating_sub(self.now());
        let (at, packet) = self.packets.recv_timeout(rest).ok()?;
        Some((at.saturating_duration_since(self.start), packet))
    }

    fn inject(&mut self, packet: &[u8]) {
        // A packet lost here shows as a failure of the next line.
        let _ = self.device.as_ref().write(packet);
    }

    fn call(&mut self, call: &Call) -> Result<Result<i64, String>, String> {
        match self.dispatch(call) {
            Err(message) if message.contains(' ') => Err(message),
            other => Ok(other),
        }
    }

    /// The kernel's timers are coarser the longer they run (its wheel: up to an eighth), and the machine is shared.
    fn tolerance(&self, script: &Script, waited: Duration) -> (Duration, Duration) {
        let base = script.tolerance.unwrap_or(Duration::from_millis(4));
        (base + Duration::from_millis(4), base + Duration::from_millis(16) + waited / 12)
    }
}

impl Drop for LinuxBackend {
    fn drop(&mut self) {
        self.sockets.clear();
        // Wakes the reader; the namespace goes with the last thread in it.
        let _ = run("ip", &["link", "delete", DEVICE]);
    }
}
