//! Programs as Debian has them, on the kernel's sockets or under `qanat run`.

use crate::fence::control::Control;
use crate::harness::HarnessError;
use crate::harness::environment::first_line;
use crate::harness::installed::find;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::scratch::Scratch;
use crate::harness::topology::{
    CLIENT_KERNEL, OTHER_GATEWAY, OTHER_KERNEL, OTHER_OWN, PREFIX_LENGTH, SERVER_KERNEL, SERVER_OWN, Topology,
};
use std::cell::OnceCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a server may take to answer: a card of its own looks for others with its address for up to two seconds.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Addresses behind the daemon: the kernel's, the program's, and that of the server behind it.
const CARD_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const CARD: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const CARD_BEHIND: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const WEB_PORT: u16 = 80;
const BACKEND_PORT: u16 = 8_080;
const REDIS_PORT: u16 = 6_379;
const MEMCACHED_PORT: u16 = 11_211;
const ECHO_PORT: u16 = 7;

/// Whose answer haproxy gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// Its own.
    Nobody,
    /// That of an nginx on the kernel's sockets at the client's end of the link, on the client's processor.
    ClientsEnd,
    /// That of an nginx on the kernel's sockets on loopback, on haproxy's processor.
    Loopback,
    /// That of an nginx on a card of its own, on haproxy's processor, whose sockets are as haproxy's.
    OtherCard,
}

impl Backend {
    const ALL: [Backend; 4] = [Backend::Nobody, Backend::ClientsEnd, Backend::Loopback, Backend::OtherCard];

    /// Where it listens, if there is one.
    fn address(self, sockets: Sockets) -> Option<Ipv4Addr> {
        match self {
            Backend::Nobody => None,
            Backend::ClientsEnd if matches!(sockets, Sockets::Card | Sockets::NativeCard) => Some(CARD_GATEWAY),
            Backend::ClientsEnd => Some(CLIENT_KERNEL),
            Backend::Loopback => Some(Ipv4Addr::LOCALHOST),
            Backend::OtherCard => Some(match sockets {
                Sockets::Kernel | Sockets::OverKernel => OTHER_KERNEL,
                Sockets::Card | Sockets::NativeCard => CARD_BEHIND,
                Sockets::Own | Sockets::Native | Sockets::Split => OTHER_OWN,
            }),
        }
    }
}

/// A program that serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// One worker, files cached open.
    Nginx,
    /// One thread.
    Haproxy(Backend),
    /// Without saving.
    Redis,
    /// One thread, TCP and UDP.
    Memcached,
    /// `qanat echo --kernel epoll`: a datagram a call.
    UdpEcho,
    /// And `--batch`: up to 64 a call.
    UdpEchoBatch,
}

impl Program {
    /// File name, and Debian's package.
    fn file(self) -> (&'static str, &'static str) {
        match self {
            Program::Nginx => ("nginx", "nginx-light"),
            Program::Haproxy(_) => ("haproxy", "haproxy"),
            Program::Redis => ("redis-server", "redis-server"),
            Program::Memcached => ("memcached", "memcached"),
            Program::UdpEcho | Program::UdpEchoBatch => ("qanat", "qanat"),
        }
    }

    /// How its threads' names begin, in the 15 bytes the kernel keeps of each.
    pub fn threads(self) -> &'static [&'static str] {
        match self {
            Program::Nginx => &["nginx"],
            Program::Haproxy(_) => &["haproxy"],
            Program::Redis => &["redis-server", "bio_"],
            Program::Memcached => &["memcached", "mc-"],
            Program::UdpEcho | Program::UdpEchoBatch => &["qanat"],
        }
    }

    fn port(self) -> u16 {
        match self {
            Program::Nginx | Program::Haproxy(_) => WEB_PORT,
            Program::Redis => REDIS_PORT,
            Program::Memcached => MEMCACHED_PORT,
            Program::UdpEcho | Program::UdpEchoBatch => ECHO_PORT,
        }
    }

    /// Whether it gives datagrams back.
    pub fn is_echo(self) -> bool {
        matches!(self, Program::UdpEcho | Program::UdpEchoBatch)
    }

    /// Whether there is a service of the native API that does the same, and whose other placements other tables do not have.
    pub fn has_native(self) -> bool {
        self.is_echo() || self == Program::Memcached
    }

    /// Whether there is one that does the same over the kernel.
    pub fn has_native_over_kernel(self) -> bool {
        self.has_native() || matches!(self, Program::Nginx | Program::Redis)
    }

    fn path(self) -> Result<PathBuf, HarnessError> {
        let (name, package) = self.file();
        find(name, package)
    }

    /// What it calls itself.
    ///
    /// # Errors
    /// It isn't installed: says how to get it.
    pub fn version(self) -> Result<String, HarnessError> {
        let flag = match self {
            Program::Nginx | Program::Haproxy(_) => "-v",
            Program::Redis | Program::Memcached => "--version",
            Program::UdpEcho | Program::UdpEchoBatch => return Ok("qanat echo --kernel epoll".to_owned()),
        };
        let name = self.file().0;
        Ok(first_line(Command::new(self.path()?).arg(flag)).unwrap_or_else(|| name.to_owned()))
    }
}

/// Whose sockets the program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sockets {
    /// The kernel.
    Kernel,
    /// `qanat run --interface`, on the veth of the load's stack.
    Own,
    /// `qanat run` as users have it: on a card of a daemon's at the client's end.
    Card,
    /// No sockets at all, a service of the native API, if there is one that does the same.
    Native,
    /// The same as users have it: on a card of a daemon's at the client's end.
    NativeCard,
    /// The same with its stack in another process, on the same processor.
    Split,
    /// The same in the kernel placement: the kernel's sockets, by io_uring.
    OverKernel,
}

impl Sockets {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Sockets::Kernel => "kernel",
            Sockets::Own | Sockets::Card => "qanat run",
            Sockets::Native | Sockets::NativeCard => "native",
            Sockets::Split => "native, split",
            Sockets::OverKernel => "native, over the kernel",
        }
    }

    fn address(self) -> Ipv4Addr {
        match self {
            Sockets::Kernel | Sockets::OverKernel => SERVER_KERNEL,
            Sockets::Card | Sockets::NativeCard => CARD,
            Sockets::Own | Sockets::Native | Sockets::Split => SERVER_OWN,
        }
    }

    /// For names of files.
    fn word(self) -> &'static str {
        match self {
            Sockets::Kernel => "kernel",
            Sockets::Own => "own",
            Sockets::Card => "card",
            Sockets::Native => "native",
            Sockets::NativeCard => "native-card",
            Sockets::Split => "split",
            Sockets::OverKernel => "over-kernel",
        }
    }
}

/// What the programs are given: configurations and files in a directory of their own, and a daemon that makes their cards.
pub struct Files {
    directory: Scratch,
    /// It is started when it is asked for first.
    daemon: OnceCell<Control>,
}

impl Files {
    /// Writes them.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create() -> Result<Files, HarnessError> {
        let directory = Scratch::create("run")?;
        for (name, bytes) in [("1k", 1 << 10), ("24k", 24 << 10), ("1m", 1 << 20)] {
            directory.write(name, vec![b'q'; bytes])?;
        }
        for sockets in [Sockets::Kernel, Sockets::Own, Sockets::Card] {
            let (name, address) = (sockets.word(), sockets.address());
            let nginx = nginx_configuration(directory.path(), address, WEB_PORT, name);
            directory.write(&format!("nginx-{name}.conf"), nginx)?;
            for backend in Backend::ALL {
                let at = backend.address(sockets);
                directory.write(&haproxy_file(at, name), haproxy_configuration(directory.path(), address, at))?;
                if let Some(at) = at {
                    // At the client's end the address may be that of a card's other end, and there is no card yet.
                    let own = if backend == Backend::ClientsEnd { Ipv4Addr::UNSPECIFIED } else { at };
                    let nginx = nginx_configuration(directory.path(), own, BACKEND_PORT, "backend");
                    directory.write(&backend_file(at), nginx)?;
                }
            }
        }
        Ok(Files { directory, daemon: OnceCell::new() })
    }

    /// Where the daemon is asked for cards, whose other ends are the client's.
    fn daemon(&self, topology: &Topology) -> Result<PathBuf, HarnessError> {
        if self.daemon.get().is_none() {
            let control = topology.client().within(Control::start);
            let control = control.map(|control| control.map_err(std::io::Error::other)).and_then(|control| control);
            let control = control.map_err(|error| HarnessError::system("start a daemon", error))?;
            // Nobody else has set it: there is one thread.
            let _ = self.daemon.set(control);
        }
        let control = self.daemon.get().map(Control::socket);
        control.ok_or_else(|| HarnessError::Missing("the daemon is gone".to_owned()))
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }
}

/// As its users tune it for small files: nothing here slows it down.
fn nginx_configuration(directory: &Path, address: Ipv4Addr, port: u16, name: &str) -> String {
    let directory = directory.display();
    format!(
        "daemon off;\nmaster_process off;\nuser root;\nworker_processes 1;\npid {directory}/{name}.pid;\n\
         error_log {directory}/{name}.log crit;\nevents {{ worker_connections 4096; use epoll; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  keepalive_timeout 600s;\n  keepalive_requests 1000000000;\n\
           open_file_cache max=1000 inactive=600s;\n  open_file_cache_valid 600s;\n\
           client_body_temp_path {directory}/body;\n  proxy_temp_path {directory}/proxy;\n\
           fastcgi_temp_path {directory}/fastcgi;\n  uwsgi_temp_path {directory}/uwsgi;\n\
           scgi_temp_path {directory}/scgi;\n\
           server {{ listen {address}:{port} backlog=4096; root {directory}; }}\n}}\n"
    )
}

fn backend_file(address: Ipv4Addr) -> String {
    format!("backend-{address}.conf")
}

fn haproxy_file(backend: Option<Ipv4Addr>, name: &str) -> String {
    let backend = backend.map_or_else(|| "none".to_owned(), |address| address.to_string());
    format!("haproxy-{backend}-{name}.cfg")
}

fn haproxy_configuration(directory: &Path, address: Ipv4Addr, backend: Option<Ipv4Addr>) -> String {
    let answer = match backend {
        Some(backend) => format!("http-reuse always\n  server backend {backend}:{BACKEND_PORT}"),
        None => format!(
            "http-request return status 200 content-type application/octet-stream file {}/1k",
            directory.display()
        ),
    };
    format!(
        "global\n  nbthread 1\n  maxconn 4096\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         listen web\n  bind {address}:{WEB_PORT}\n  {answer}\n"
    )
}

/// The words before a program's that has `address` on `interface`.
fn under_run(own: &str, interface: &str, address: Ipv4Addr, gateway: Ipv4Addr) -> Vec<String> {
    let (address, gateway) = (format!("{address}/{PREFIX_LENGTH}"), gateway.to_string());
    let words = [own, "run", "--interface", interface, "--address", &address, "--gateway", &gateway, "--"];
    words.map(str::to_owned).to_vec()
}

/// The words before those of a command that asks the daemon at `socket` for its card.
fn asking_daemon(socket: &Path) -> Vec<String> {
    vec!["/usr/bin/env".to_owned(), format!("QANAT_SOCKET={}", socket.display())]
}

/// The words before a program's that has a card with `address` of the daemon at `socket`.
fn behind_daemon(own: &str, socket: &Path, address: Ipv4Addr) -> Vec<String> {
    let address = format!("{address}/{PREFIX_LENGTH}");
    let run = [own, "run", "--address", &address, "--"].map(str::to_owned);
    asking_daemon(socket).into_iter().chain(run).collect()
}

/// Starts whose answer haproxy gives, if that is somebody.
fn start_backend(
    (backend, sockets): (Backend, Sockets),
    own: &str,
    topology: &Topology,
    files: &Files,
    (cpu, backend_cpu): (usize, usize),
) -> Result<Option<Running>, HarnessError> {
    let Some(address) = backend.address(sockets) else { return Ok(None) };
    let mut command = Vec::new();
    let (namespace, cpu) = match backend {
        Backend::OtherCard if sockets == Sockets::Card => {
            command = behind_daemon(own, &files.daemon(topology)?, address);
            (topology.server(), cpu)
        }
        Backend::OtherCard => {
            let card = topology.other_card()?;
            if sockets == Sockets::Own {
                command = under_run(own, card.interface(), address, OTHER_GATEWAY);
            }
            (card.namespace(), cpu)
        }
        Backend::Loopback => (topology.server(), cpu),
        Backend::ClientsEnd | Backend::Nobody => (topology.client(), backend_cpu),
    };
    let nginx = Program::Nginx.path()?.display().to_string();
    command.extend([nginx, "-c".to_owned(), files.path(&backend_file(address)), "-e".to_owned(), "stderr".to_owned()]);
    let words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
    let spec = Spec::new("the backend", command.first().map_or("", String::as_str), &words);
    let mut running = start(&spec.placed(namespace, cpu))?;
    running.drain();
    let asked = if backend == Backend::ClientsEnd { CLIENT_KERNEL } else { address };
    let server = SocketAddr::new(IpAddr::V4(asked), BACKEND_PORT);
    let asker = if backend == Backend::Loopback { namespace } else { topology.client() };
    let answers = || asker.within(|| answers_to(server)).unwrap_or(false);
    if !wait_until(START_PATIENCE, || answers() || !running.is_running()) || !running.is_running() {
        return Err(running.failure("does not answer"));
    }
    Ok(Some(running))
}

/// A running one.
pub struct Server {
    running: Running,
    _backend: Option<Running>,
    /// Where it serves.
    pub address: SocketAddr,
}

impl Server {
    /// Starts `program` (`own` is this program) on processor `cpu` and waits until it answers.
    ///
    /// # Errors
    /// It can't be started, or ends at once: with what it said.
    pub fn start(
        (program, sockets): (Program, Sockets),
        own: &Path,
        topology: &Topology,
        files: &Files,
        (cpu, backend_cpu): (usize, usize),
    ) -> Result<Server, HarnessError> {
        let own = own.display().to_string();
        let backend = match program {
            Program::Haproxy(backend) => start_backend((backend, sockets), &own, topology, files, (cpu, backend_cpu))?,
            _ => None,
        };
        let mut command = match sockets {
            Sockets::Own => under_run(&own, topology.server_interface(), sockets.address(), CLIENT_KERNEL),
            Sockets::Card => behind_daemon(&own, &files.daemon(topology)?, sockets.address()),
            Sockets::NativeCard => asking_daemon(&files.daemon(topology)?),
            Sockets::Kernel | Sockets::Native | Sockets::Split | Sockets::OverKernel => Vec::new(),
        };
        command.extend(arguments((program, sockets), &own, topology, files)?);
        let words: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
        let name = format!("{}, {}", program.file().0, sockets.name());
        let spec = Spec::new(&name, command.first().map_or("", String::as_str), &words);
        let mut running = start(&spec.placed(topology.server(), cpu))?;
        running.drain();
        let address = SocketAddr::new(IpAddr::V4(sockets.address()), program.port());
        let answers = || topology.client().within(|| answers(program, address)).unwrap_or(false);
        if !wait_until(START_PATIENCE, || answers() || !running.is_running()) || !running.is_running() {
            return Err(running.failure("does not answer"));
        }
        Ok(Server { running, _backend: backend, address })
    }

    /// The process that serves.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// A client failed with `error`: if that is because the server died, says so instead.
    pub fn explain(&mut self, error: HarnessError) -> HarnessError {
        if self.running.is_running() { error } else { self.running.failure("died while it was loaded") }
    }
}

fn arguments(
    (program, sockets): (Program, Sockets),
    own: &str,
    topology: &Topology,
    files: &Files,
) -> Result<Vec<String>, HarnessError> {
    let address = sockets.address().to_string();
    let prefixed = format!("{address}/{PREFIX_LENGTH}");
    let name = sockets.word();
    let (port, configuration);
    let is_native = matches!(sockets, Sockets::Native | Sockets::NativeCard | Sockets::Split);
    let is_over_kernel = sockets == Sockets::OverKernel;
    let placement = if sockets == Sockets::Split { "split" } else { "linked" };
    let directory = files.directory.path().display().to_string();
    let over_kernel = ["--placement", "kernel", "--listen", &address];
    let words: Vec<&str> = match program {
        Program::Nginx if is_over_kernel => [&["web", &directory, "--user", "root"], &over_kernel[..]].concat(),
        Program::Redis if is_over_kernel => [&["kv", "--memory-only"], &over_kernel[..]].concat(),
        Program::Memcached if is_over_kernel => [&["cache", "--udp", "--udp-trust", "any"], &over_kernel[..]].concat(),
        Program::UdpEcho | Program::UdpEchoBatch if is_over_kernel => [&["echo", "--udp"], &over_kernel[..]].concat(),
        Program::Nginx => {
            configuration = files.path(&format!("nginx-{name}.conf"));
            vec!["-c", &configuration, "-e", "stderr"]
        }
        Program::Haproxy(backend) => {
            configuration = files.path(&haproxy_file(backend.address(sockets), name));
            vec!["-f", &configuration, "-db"]
        }
        Program::Redis => vec!["--bind", &address, "--protected-mode", "no", "--save", ""],
        Program::Memcached if sockets == Sockets::NativeCard => vec!["cache", "--address", &prefixed],
        Program::Memcached if is_native => {
            let mut words = vec!["cache", "--udp", "--udp-trust", "any"];
            words.extend(["--placement", placement, "--interface", topology.server_interface()]);
            words.extend(["--address", &prefixed]);
            words
        }
        Program::Memcached => {
            port = program.port().to_string();
            vec!["-u", "root", "-l", &address, "-U", &port, "-t", "1"]
        }
        Program::UdpEcho | Program::UdpEchoBatch if is_native => {
            let interface = topology.server_interface();
            vec!["echo", "--udp", "--placement", placement, "--interface", interface, "--address", &prefixed]
        }
        Program::UdpEcho => vec!["echo", "--kernel", "epoll"],
        Program::UdpEchoBatch => vec!["echo", "--kernel", "epoll", "--batch"],
    };
    let file = if program.is_echo() || is_native || is_over_kernel {
        own.to_owned()
    } else {
        program.path()?.display().to_string()
    };
    Ok(std::iter::once(file).chain(words.into_iter().map(str::to_owned)).collect())
}

/// How long one question may take.
const QUESTION_PATIENCE: Duration = Duration::from_millis(200);

fn answers_to(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, QUESTION_PATIENCE).is_ok()
}

fn answers(program: Program, address: SocketAddr) -> bool {
    if !program.is_echo() {
        return answers_to(address);
    }
    let ask = || -> std::io::Result<usize> {
        let socket = UdpSocket::bind((CLIENT_KERNEL, 0))?;
        socket.set_read_timeout(Some(QUESTION_PATIENCE))?;
        socket.send_to(b"there?", address)?;
        socket.recv(&mut [0; 64])
    };
    ask().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_name_their_addresses() {
        let directory = Path::new("/nowhere");
        assert!(nginx_configuration(directory, SERVER_OWN, 80, "x").contains("listen 10.99.7.3:80 "));
        assert!(
            haproxy_configuration(directory, SERVER_OWN, Some(CLIENT_KERNEL)).contains("server backend 10.99.7.1:8080")
        );
        assert!(haproxy_configuration(directory, SERVER_KERNEL, None).contains("file /nowhere/1k"));
    }
}
