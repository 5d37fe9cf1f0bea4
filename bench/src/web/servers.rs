//! The servers compared: nginx in the kernel's hands, ours in its own.

use crate::harness::HarnessError;
use crate::harness::process::{Running, Spec, start, wait_until};
use crate::harness::scratch::Scratch;
use crate::harness::topology::{Offloads, PREFIX_LENGTH, SERVER_KERNEL, SERVER_OWN, Topology};
use crate::load::mix::YAHOO;
use qanat_nic::Random;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Where Debian puts nginx, and where others do.
const NGINX_PATHS: [&str; 3] = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/nginx/sbin/nginx"];
/// How long a server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 80;

/// What an operator might say. No request of a case is redirected, refused or missing.
const RULES: [&str; 17] = [
    "--header",
    "X-Frame-Options: DENY",
    "--redirect",
    "/old/*=/new/*",
    "--rewrite",
    "/v1/*=/*",
    "--fallback",
    "/1024.bin",
    "--error-page",
    "503=/1024.bin",
    "--cache-control",
    "max-age=60",
    "--listing",
    "--compress",
    "--server-timing",
    "--requests-per-peer",
    "100000000",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Nginx(Offloads),
    Qanat { copy: &'static str, more: &'static [&'static str] },
    OverKernel,
}

/// A server and the client it is loaded with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    name: &'static str,
    program: Program,
    pub(super) kernel_client: bool,
}

impl Peer {
    /// nginx with the offloads a veth has: what others are compared with.
    pub const NGINX: Peer = Peer { name: "nginx", program: Program::Nginx(Offloads::Default), kernel_client: false };
    /// nginx without segmentation and receive offloads.
    pub const NGINX_NO_OFFLOADS: Peer =
        Peer { name: "nginx, no TSO/GSO/GRO", program: Program::Nginx(Offloads::Off), kernel_client: false };
    /// nginx under a kernel client: no XDP on the link, full TSO.
    pub const NGINX_KERNEL_CLIENT: Peer =
        Peer { name: "nginx, kernel client", program: Program::Nginx(Offloads::Default), kernel_client: true };
    /// `qanat web --copy pre`.
    pub const QANAT_PRE: Peer =
        Peer { name: "qanat web, pre-copy", program: Program::Qanat { copy: "pre", more: &[] }, kernel_client: false };
    /// `qanat web --copy per-send`.
    pub const QANAT_PER_SEND: Peer = Peer {
        name: "qanat web, copy per send",
        program: Program::Qanat { copy: "per-send", more: &[] },
        kernel_client: false,
    };
    /// The same with rules of every kind that a request for a file passes by.
    pub const QANAT_RULES: Peer = Peer {
        name: "qanat web, pre-copy, with rules",
        program: Program::Qanat { copy: "pre", more: &RULES },
        kernel_client: false,
    };
    /// `qanat web`, in the table of placements.
    pub(super) const LINKED: Peer = Peer { name: "linked", ..Peer::QANAT_PRE };
    /// The same with a null call after each command and with each event.
    pub(super) const CROSSING: Peer = Peer {
        name: "linked, with crossing",
        program: Program::Qanat { copy: "pre", more: &["--emulate-crossing"] },
        kernel_client: false,
    };
    /// `qanat web --placement kernel`.
    pub(super) const OVER_KERNEL: Peer = Peer { name: "kernel", program: Program::OverKernel, kernel_client: false };

    /// For people.
    pub fn name(self) -> &'static str {
        self.name
    }
}

fn nginx_path() -> Result<PathBuf, HarnessError> {
    let found = NGINX_PATHS.iter().map(Path::new).find(|path| path.exists());
    found.map(Path::to_owned).ok_or_else(|| {
        HarnessError::Missing("nginx, the peer of this table, is not installed: apt-get install nginx-light".to_owned())
    })
}

/// What nginx calls itself.
///
/// # Errors
/// It isn't installed: says how to get it.
pub fn nginx_version() -> Result<String, HarnessError> {
    let output = Command::new(nginx_path()?).arg("-v").stdin(Stdio::null()).output();
    let output = output.map_err(|error| HarnessError::system("run nginx -v", error))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(text.lines().next().and_then(|line| line.rsplit_once(": ")).map_or("nginx".to_owned(), |(_, v)| v.to_owned()))
}

/// The files served, and nginx's configuration, in a directory that is removed with this.
#[derive(Debug)]
pub struct Site {
    directory: Scratch,
}

impl Site {
    /// Writes the files of every case below a new directory.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create() -> Result<Site, HarnessError> {
        let site = Site { directory: Scratch::create("web")? };
        let write = || -> std::io::Result<()> {
            fs::create_dir_all(site.root())?;
            let sizes = [24u64 << 10, 128 << 10, 1 << 20].into_iter().chain((9..=16).map(|power| 1 << power));
            for bytes in sizes.chain(YAHOO.iter().map(|(bytes, _)| *bytes)) {
                fs::write(site.root().join(format!("{bytes}.bin")), content(bytes))?;
            }
            fs::write(site.nginx_configuration_path(), site.nginx_configuration())
        };
        write().map_err(|error| {
            HarnessError::system(format!("write the files to serve in {:?}", site.directory.path()), error)
        })?;
        Ok(site)
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("site")
    }

    fn nginx_configuration_path(&self) -> PathBuf {
        self.directory.path().join("nginx.conf")
    }

    /// nginx as its users tune it for static files: nothing here slows it down.
    fn nginx_configuration(&self) -> String {
        let directory = self.directory.path().display();
        format!(
            "daemon off;\nuser root;\nworker_processes 1;\nworker_rlimit_nofile 65536;\npid {directory}/nginx.pid;\n\
             error_log {directory}/error.log crit;\n\
             events {{ worker_connections 16384; use epoll; }}\n\
             http {{\n\
               access_log off;\n  sendfile on;\n  tcp_nopush on;\n  tcp_nodelay on;\n\
               keepalive_timeout 600s;\n  keepalive_requests 1000000000;\n\
               open_file_cache max=1000 inactive=600s;\n  open_file_cache_valid 600s;\n\
               default_type application/octet-stream;\n\
               client_body_temp_path {directory}/body;\n  proxy_temp_path {directory}/proxy;\n\
               fastcgi_temp_path {directory}/fastcgi;\n  uwsgi_temp_path {directory}/uwsgi;\n\
               scgi_temp_path {directory}/scgi;\n\
               server {{ listen {SERVER_KERNEL}:{PORT} backlog=4096; root {directory}/site; }}\n\
             }}\n"
        )
    }
}

/// Bytes no compressor shrinks, the same every time.
fn content(bytes: u64) -> Vec<u8> {
    let mut random = Random::new(bytes);
    let mut content = Vec::with_capacity(bytes as usize + 8);
    while (content.len() as u64) < bytes {
        content.extend_from_slice(&random.next().to_le_bytes());
    }
    content.truncate(bytes as usize);
    content
}

/// A running server.
pub struct Server {
    running: Running,
    address: SocketAddr,
}

impl Server {
    /// Starts `peer` on processor `cpu` in the server's namespace and waits until it serves.
    ///
    /// # Errors
    /// It can't be started, or ends at once: with what it said.
    pub fn start(
        peer: Peer,
        program: &Path,
        topology: &Topology,
        site: &Site,
        cpu: usize,
    ) -> Result<Server, HarnessError> {
        match peer.program {
            Program::Nginx(offloads) => {
                topology.set_offloads(offloads)?;
                start_nginx(topology, site, cpu)
            }
            Program::Qanat { copy, more } => {
                let address = format!("{SERVER_OWN}/{PREFIX_LENGTH}");
                let mut where_to =
                    vec!["--interface", topology.server_interface(), "--address", &address, "--copy", copy];
                where_to.extend(more);
                topology.set_offloads(Offloads::Default)?;
                start_qanat(program, &where_to, SERVER_OWN, topology, site, cpu)
            }
            Program::OverKernel => {
                topology.set_offloads(Offloads::Default)?;
                start_qanat(program, &["--placement", "kernel"], SERVER_KERNEL, topology, site, cpu)
            }
        }
    }

    /// `http://address`.
    pub fn url(&self) -> String {
        match self.address.port() {
            80 => format!("http://{}", self.address.ip()),
            _ => format!("http://{}", self.address),
        }
    }

    /// The process that serves: nginx's worker, not its master.
    pub fn worker_id(&self) -> u32 {
        let id = self.running.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        children.split_ascii_whitespace().next().and_then(|child| child.parse().ok()).unwrap_or(id)
    }

    /// A client failed with `error`: if that is because the server died, says so instead.
    pub fn explain(mut self, error: HarnessError) -> HarnessError {
        if self.running.is_running() { error } else { self.running.failure("died while it was loaded") }
    }
}

fn start_nginx(topology: &Topology, site: &Site, cpu: usize) -> Result<Server, HarnessError> {
    let configuration = site.nginx_configuration_path();
    let prefix = site.directory.path().display().to_string();
    let configuration = configuration.display().to_string();
    let spec = Spec::new("nginx", nginx_path()?, &["-p", &prefix, "-c", &configuration, "-e", "stderr"])
        .placed(topology.server(), cpu);
    let mut running = start(&spec)?;
    running.drain();
    let address = SocketAddr::new(IpAddr::V4(SERVER_KERNEL), PORT);
    let serves = || {
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok();
        topology.server().within(connect).unwrap_or(false)
    };
    if !wait_until(START_PATIENCE, || serves() || !running.is_running()) || !running.is_running() {
        return Err(running.failure("does not listen"));
    }
    Ok(Server { running, address })
}

/// `qanat web` with the arguments that say where it is to be.
fn start_qanat(
    program: &Path,
    where_to: &[&str],
    address: Ipv4Addr,
    topology: &Topology,
    site: &Site,
    cpu: usize,
) -> Result<Server, HarnessError> {
    let (root, port) = (site.root().display().to_string(), PORT.to_string());
    let arguments = [&["web", &root, "--port", &port, "--json"], where_to].concat();
    let mut running = start(&Spec::new("qanat web", program, &arguments).placed(topology.server(), cpu))?;
    // Its first line is the address it serves: it is ready.
    running.read_line()?;
    running.drain();
    Ok(Server { running, address: SocketAddr::new(IpAddr::V4(address), PORT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_site_comes_and_goes() {
        let site = Site::create().unwrap();
        assert_eq!(fs::metadata(site.root().join("24576.bin")).unwrap().len(), 24_576);
        let configuration = fs::read_to_string(site.nginx_configuration_path()).unwrap();
        assert!(configuration.contains("sendfile on") && configuration.contains("listen 10.99.7.2:80"));
        let directory = site.directory.path().to_owned();
        drop(site);
        assert!(!directory.exists());
    }

    #[test]
    fn content_does_not_compress() {
        let bytes = content(4_096);
        let mut seen = [0usize; 256];
        bytes.iter().for_each(|byte| seen[usize::from(*byte)] += 1);
        assert!(bytes.len() == 4_096 && seen.iter().all(|count| *count < 50));
    }
}
