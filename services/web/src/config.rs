//! What the service is started with, and what can be wrong with it.

use crate::rules::{PasswordFileError, Rules, Site};
use qanat_store::{PolicyKind, ReadCache};
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// How a segment gets its own copy of an object's bytes (thesis, 3.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CopyMode {
    /// Several frames with the same payload stay ready in device memory; only headers are written per segment.
    #[default]
    Pre,
    /// One master in ordinary memory, copied into a fresh frame per segment.
    PerSend,
}

/// Who keeps what was read of files that are too large to be held whole, or of a library's objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Caching {
    /// The kernel's page cache, for files; for a library, nobody.
    #[default]
    Kernel,
    /// Nobody: what is asked for is read from the disk each time.
    Nobody,
    /// This service, in so much memory of its own, by this policy. What is in it is sent without a copy.
    Own {
        /// Bytes, besides those of the windows, or of a library's pieces, that peers hold.
        bytes: usize,
        /// Which pieces leave.
        policy: PolicyKind,
    },
}

impl Caching {
    /// The cache, if it is the service's own, of pieces of so many bytes.
    pub(crate) fn cache<K: Copy + Eq + Hash, V>(&self, piece_bytes: usize) -> Option<ReadCache<K, V>> {
        match *self {
            Caching::Kernel | Caching::Nobody => None,
            Caching::Own { bytes, policy } => {
                let pieces = bytes / piece_bytes;
                Some(ReadCache::new(pieces, policy.policy(pieces)))
            }
        }
    }
}

/// Where the time of day comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WallClock {
    /// The machine's clock.
    #[default]
    System,
    /// Simulation: this many Unix seconds at [`qanat::Time::ZERO`].
    FromZero(u64),
}

/// How content is served over TLS.
#[derive(Clone, Debug)]
pub struct Https {
    /// Certificates, keys, and what else handshakes need.
    pub tls: qanat_tls::Loaded,
    /// A second port, where requests of plain HTTP are told the address to ask at; `None`: there is none.
    pub redirect_port: Option<u16>,
    /// Browsers that were here once ask by HTTPS alone for so many seconds (RFC 6797). 0: they are not told to.
    pub hsts_seconds: u64,
    /// Requests that a client of HTTP/2 may have open at once on a connection. 0: HTTP/2 is not spoken.
    pub http2_streams: u32,
}

/// Bounds on what clients can make the service hold or do.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Open connections; further ones are reset.
    pub connections_max: usize,
    /// Of these, those of one peer (an IPv4 address, an IPv6 network of 64 bits); further ones are reset. 0: no limit.
    pub connections_per_peer: usize,
    /// Requests a second of one peer, on average (beyond: 429). 0: no limit.
    pub requests_per_peer: u32,
    /// Requests that a peer may make at once, after it made none for a while.
    pub requests_burst: u32,
    /// Bytes of a request's head (beyond: 431).
    pub head_bytes_max: usize,
    /// Bytes of a request target (beyond: 414).
    pub target_bytes_max: usize,
    /// From a request's first byte (or the connection's start) to the end of its head (beyond: 408).
    pub head_timeout: Duration,
    /// An unused keep-alive connection is closed after this.
    pub idle_timeout: Duration,
    /// A connection whose peer acknowledges nothing of what it is owed is reset after this.
    pub send_timeout: Duration,
    /// A connection whose peer acknowledges fewer bytes a second, of what it is owed, for as long as `send_timeout`, is reset. 0:
    /// none is. While windows of large files are scarce, the connections that hold some are measured sooner, and must take a
    /// window in a minute.
    pub send_rate_min: u32,
    /// After a refusal with close: how long what the client still sends is read and dropped, so that no reset
    /// destroys the answer.
    pub linger_timeout: Duration,
    /// Requests per connection; the last one's response closes it. 0: unlimited.
    pub requests_max: u32,
    /// Unacknowledged bytes beyond which a connection's next pipelined request waits.
    pub pipeline_bytes_max: u64,
    /// Byte ranges answered per request (after coalescing); with more the range is ignored.
    pub ranges_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 16_384,
            connections_per_peer: 12_288,
            requests_per_peer: 0,
            requests_burst: 100,
            head_bytes_max: 16 * 1024,
            target_bytes_max: 8 * 1024,
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            send_timeout: Duration::from_secs(60),
            send_rate_min: 1_000,
            linger_timeout: Duration::from_secs(2),
            requests_max: 0,
            pipeline_bytes_max: 128 * 1024,
            ranges_max: 16,
        }
    }
}

/// The service's configuration.
#[derive(Clone, Debug)]
pub struct WebConfig {
    /// Document root for every host no [`Site`] names.
    pub root: PathBuf,
    /// Virtual hosts.
    pub sites: Vec<Site>,
    /// Address to listen on; unspecified: all of the stack's own.
    pub address: IpAddr,
    /// Port to listen on.
    pub port: u16,
    /// See [`CopyMode`].
    pub copy_mode: CopyMode,
    /// Bytes between the start of an IP packet and a TCP payload that ready frames leave room for: 52 is IPv4 (20) +
    /// TCP (20) + timestamps (12); 72 fits IPv6 too.
    pub packet_overhead: u16,
    /// Ready copies of one frame at most ([`CopyMode::Pre`]).
    pub copies_max: usize,
    /// Bytes of content held in memory.
    pub memory_bytes_max: usize,
    /// Files longer than this stream from disk.
    pub object_bytes_max: u64,
    /// Prepare everything at start instead of at first request.
    pub preload: bool,
    /// Look for changed files (at most once a second per file, when it is requested).
    pub check_files: bool,
    /// Serve names beginning with a dot (`.well-known` always is).
    pub hidden_files: bool,
    /// Serve `x.br` and `x.gz` beside `x` to clients that accept them.
    pub precompressed: bool,
    /// File served for a directory.
    pub index: String,
    /// Rules of all sites; those of [`sites`](WebConfig::sites) may have others of their own.
    pub rules: Rules,
    /// Access log, combined format; `None`: none.
    pub access_log: Option<PathBuf>,
    /// Threads that read files.
    pub reader_threads: usize,
    /// Bytes per read of a streamed file.
    pub window_bytes: usize,
    /// Windows in memory at once, all connections together.
    pub windows_max: usize,
    /// See [`Caching`].
    pub read_cache: Caching,
    /// How congestion is controlled; `None`: as the stack is configured.
    pub congestion: Option<qanat::CongestionAlgorithm>,
    /// Over TLS, at [`port`](WebConfig::port); `None`: plain HTTP. Segments are copied per send then.
    pub https: Option<Https>,
    /// See [`Limits`].
    pub limits: Limits,
    /// See [`WallClock`].
    pub wall_clock: WallClock,
}

impl WebConfig {
    /// Defaults, serving `root` on port 80.
    pub fn new(root: impl Into<PathBuf>) -> WebConfig {
        WebConfig {
            root: root.into(),
            sites: Vec::new(),
            address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 80,
            copy_mode: CopyMode::Pre,
            packet_overhead: 52,
            copies_max: 64,
            memory_bytes_max: 256 * 1024 * 1024,
            object_bytes_max: 16 * 1024 * 1024,
            preload: false,
            check_files: true,
            hidden_files: false,
            precompressed: true,
            index: "index.html".to_owned(),
            rules: Rules::default(),
            access_log: None,
            reader_threads: 2,
            window_bytes: 256 * 1024,
            windows_max: 256,
            read_cache: Caching::Kernel,
            congestion: None,
            https: None,
            limits: Limits::default(),
            wall_clock: WallClock::System,
        }
    }
}

/// Why the service can't be made or started.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// A document root is missing, no directory, or unreadable.
    #[error("document root {}: {error}. Create it, or name another directory to serve.", path.display())]
    Root {
        /// As configured.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// Two sites have the same name.
    #[error("the host {host} is named twice: each name is of one site.")]
    Twice {
        /// The name.
        host: String,
    },
    /// Anybody could get a file of passwords.
    #[error("{} would be served: move it out of {}", path.display(), root.display())]
    PasswordsServed {
        /// The file.
        path: PathBuf,
        /// The directory that is served.
        root: PathBuf,
    },
    /// A file of passwords is none.
    #[error(transparent)]
    Passwords(#[from] PasswordFileError),
    /// The access log can't be opened.
    #[error(
        "access log {}: {error}. Create its directory, make it writable, or name another file.",
        path.display()
    )]
    AccessLog {
        /// As configured.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// A configured value can't work.
    #[error("configuration: {field}: {remedy}.")]
    Value {
        /// The field's name.
        field: &'static str,
        /// Why, and what would work.
        remedy: &'static str,
    },
    /// No descriptor or thread to be had.
    #[error("can't make {what}: {error}. Raise the limit on descriptors, threads or memory (ulimit -n, -u, -v).")]
    System {
        /// What was being made.
        what: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
    /// The stack refused to listen.
    #[error("can't listen on port {port}: {error}. Is another listener of this stack there?")]
    Listen {
        /// On which port.
        port: u16,
        /// Why.
        error: qanat::CommandError,
    },
}
