//! What a server is told: by options, or by a file (`dns.toml`).

mod zones;

pub use zones::{ZoneFile, ZoneRules};

use super::rate_limit::RateLimits;
use crate::answer::Settings;
use crate::answer::cookies::CookieSecrets;
use crate::transfer::config::{KeyTable, TransferConfigError};
use qanat::control::regular_file as file;
use serde::Deserialize;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zones::{RawTemplate, RawZone, RawZones, ZoneRuleError};

/// Bytes of a server's name, and of its version, at most: as much as one string of a TXT record.
pub const IDENTITY_BYTES_MAX: usize = 255;
/// A configuration's bytes at most, and those of each file it includes: room for a million zones.
const BYTES_MAX: u64 = 256 << 20;
/// Files included at most.
const FILES_MAX: usize = 10_000;

/// Limits on streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpLimits {
    /// Connections open at most.
    pub connections_max: usize,
    /// Of these, those of one peer (an IPv4 address, an IPv6 network of 64 bits).
    pub connections_per_peer: usize,
    /// How long one may be unused; how long a request may take to come, from its first byte to its last.
    pub idle_timeout: Duration,
    /// Bytes a second of answers that a client must take, as long as it is owed some, over the idle timeout; 0: however few.
    pub send_rate_min: u32,
}

/// One peer may have so many connections, however few there are.
const CONNECTIONS_PER_PEER_LEAST: usize = 64;

impl Default for TcpLimits {
    fn default() -> TcpLimits {
        TcpLimits {
            connections_max: 4_096,
            connections_per_peer: 1_024,
            idle_timeout: Duration::from_secs(10),
            send_rate_min: 1_000,
        }
    }
}

/// Where and how often queries are logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// A file, appended to: a JSON object a line.
    pub file: PathBuf,
    /// Each so manieth query.
    pub sample_every: u32,
}

/// What a server is told.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Port of both protocols.
    pub port: u16,
    /// What answers say beyond the zones.
    pub settings: Settings,
    /// Limits on streams.
    pub tcp: TcpLimits,
    /// Limits on equal answers.
    pub rate_limits: RateLimits,
    /// Query log.
    pub log: Option<LogConfig>,
}

impl Default for DnsConfig {
    fn default() -> DnsConfig {
        DnsConfig {
            port: 53,
            settings: Settings::default(),
            tcp: TcpLimits::default(),
            rate_limits: RateLimits::default(),
            log: None,
        }
    }
}

/// What a configuration file says.
#[derive(Clone, Debug)]
pub struct FileConfig {
    /// How to serve.
    pub dns: DnsConfig,
    /// Zones.
    pub zones: ZoneRules,
    /// Where figures can be fetched in Prometheus' format.
    pub metrics: Option<SocketAddr>,
    /// Where `qanat dns status` and its likes find the server.
    pub control: Option<PathBuf>,
    /// What was read for all this: files, and directories of files.
    pub files: Vec<PathBuf>,
    /// All but the zones, as it was written: it takes effect when a server starts.
    pub fixed: String,
}

/// Why a configuration file can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {mistake}", path.display())]
pub struct ConfigError {
    path: PathBuf,
    mistake: Mistake,
}

/// What is wrong with a configuration file.
#[derive(Debug, thiserror::Error)]
enum Mistake {
    #[error("{0}; name a file that this user may read")]
    Unreadable(io::Error),
    #[error("it is no text in UTF-8")]
    NotUtf8,
    #[error("{0}")]
    Syntax(toml::de::Error),
    #[error("udp_payload_max: 512 to 4096 bytes; 1232 is usual")]
    UdpPayload,
    #[error("identity, version: at most {IDENTITY_BYTES_MAX} bytes")]
    Identity,
    #[error("a cookie secret that is not 32 hexadecimal digits: `openssl rand -hex 16` makes one")]
    CookieSecret,
    #[error("rate_limit: prefixes have at most 32 (IPv4) or 128 bits")]
    RateLimitPrefix,
    #[error("{0}")]
    Zone(#[from] ZoneRuleError),
    #[error("{0}")]
    Transfers(#[from] TransferConfigError),
    #[error("include {}: {error}", path.display())]
    Include { path: PathBuf, error: io::Error },
    #[error("include: more than {FILES_MAX} files")]
    TooManyFiles,
    /// It is in a file that this one includes.
    #[error("{}: {mistake}", path.display())]
    Included { path: PathBuf, mistake: Box<Mistake> },
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct RawFile {
    port: Option<NonZeroU16>,
    identity: Option<String>,
    version: Option<String>,
    udp_payload_max: Option<u16>,
    metrics: Option<SocketAddr>,
    control: Option<PathBuf>,
    include: Vec<PathBuf>,
    key: Vec<KeyTable>,
    template: Vec<RawTemplate>,
    zone: Vec<RawZone>,
    tcp: RawTcp,
    rate_limit: RawRateLimit,
    cookies: RawCookies,
    log: Option<RawLog>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
struct RawTcp {
    connections_max: Option<usize>,
    connections_per_peer: Option<usize>,
    idle_timeout_s: Option<u64>,
    send_rate_min: Option<u32>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
struct RawRateLimit {
    answers_per_s: Option<u32>,
    slip: Option<u32>,
    ipv4_prefix: Option<u8>,
    ipv6_prefix: Option<u8>,
    places: Option<usize>,
    exempt: Vec<IpAddr>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields, default)]
struct RawCookies {
    /// Sixteen bytes in hexadecimal digits.
    secret: Option<String>,
    former: Vec<String>,
    off: bool,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct RawLog {
    file: PathBuf,
    sample_every: Option<u32>,
}

/// Sixteen bytes in hexadecimal digits.
fn secret(text: &str) -> Result<[u8; 16], Mistake> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() == 32).ok_or(Mistake::CookieSecret)?;
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().fold(0, |value, digit| value << 4 | digit);
    }
    Ok(bytes)
}

impl FileConfig {
    /// No zones yet, nothing but defaults; cookies made by `secret`.
    pub fn with_cookies(secret: [u8; 16]) -> FileConfig {
        let mut dns = DnsConfig::default();
        dns.settings.cookies = Some(CookieSecrets::new(secret, []));
        FileConfig {
            dns,
            zones: ZoneRules::default(),
            metrics: None,
            control: None,
            files: Vec::new(),
            fixed: String::new(),
        }
    }

    /// Reads `path`; relative names of files in it start at its directory. `random`: the cookie secret if none is given.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(path: &Path, random: [u8; 16]) -> Result<FileConfig, ConfigError> {
        let wrong = |mistake: Mistake| ConfigError { path: path.to_owned(), mistake };
        let text = read_text(path).map_err(wrong)?;
        let mut config = FileConfig::parse(&text, path.parent().unwrap_or(Path::new("")), random).map_err(wrong)?;
        config.files.push(path.to_owned());
        Ok(config)
    }

    fn parse(text: &str, directory: &Path, random: [u8; 16]) -> Result<FileConfig, Mistake> {
        let raw: RawFile = toml::from_str(text).map_err(Mistake::Syntax)?;
        let head = (&raw.port, &raw.identity, &raw.version, &raw.udp_payload_max, &raw.metrics, &raw.control);
        let fixed = format!("{head:?} {:?} {:?} {:?} {:?}", raw.tcp, raw.rate_limit, raw.cookies, raw.log);
        let mut dns = DnsConfig::default();
        dns.port = raw.port.map_or(dns.port, NonZeroU16::get);
        let settings = &mut dns.settings;
        settings.udp_payload_max = raw.udp_payload_max.unwrap_or(settings.udp_payload_max);
        if !(512..=4_096).contains(&settings.udp_payload_max) {
            return Err(Mistake::UdpPayload);
        }
        settings.identity = raw.identity.unwrap_or_default().into_bytes();
        settings.version = raw.version.unwrap_or_default().into_bytes();
        if settings.identity.len() > IDENTITY_BYTES_MAX || settings.version.len() > IDENTITY_BYTES_MAX {
            return Err(Mistake::Identity);
        }
        if !raw.cookies.off {
            let current = raw.cookies.secret.as_deref().map_or(Ok(random), secret)?;
            let former: Vec<[u8; 16]> = raw.cookies.former.iter().map(|text| secret(text)).collect::<Result<_, _>>()?;
            settings.cookies = Some(CookieSecrets::new(current, former));
        }
        dns.tcp.connections_max = raw.tcp.connections_max.unwrap_or(dns.tcp.connections_max);
        let share = dns.tcp.connections_max.div_ceil(4).max(CONNECTIONS_PER_PEER_LEAST);
        dns.tcp.connections_per_peer = raw.tcp.connections_per_peer.unwrap_or(share);
        dns.tcp.send_rate_min = raw.tcp.send_rate_min.unwrap_or(dns.tcp.send_rate_min);
        dns.tcp.idle_timeout = raw.tcp.idle_timeout_s.map_or(dns.tcp.idle_timeout, Duration::from_secs);
        let limits = &mut dns.rate_limits;
        limits.answers_per_s = raw.rate_limit.answers_per_s.unwrap_or(limits.answers_per_s);
        limits.slip = raw.rate_limit.slip.unwrap_or(limits.slip);
        limits.ipv4_prefix = raw.rate_limit.ipv4_prefix.unwrap_or(limits.ipv4_prefix);
        limits.ipv6_prefix = raw.rate_limit.ipv6_prefix.unwrap_or(limits.ipv6_prefix);
        limits.places = raw.rate_limit.places.unwrap_or(limits.places);
        limits.exempt = raw.rate_limit.exempt;
        if limits.ipv4_prefix > 32 || limits.ipv6_prefix > 128 {
            return Err(Mistake::RateLimitPrefix);
        }
        dns.log = raw.log.map(|log| LogConfig {
            file: directory.join(log.file),
            sample_every: log.sample_every.unwrap_or(1).max(1),
        });
        let mut zones = ZoneRules::default();
        zones.add(RawZones::new(raw.key, raw.template, raw.zone), directory)?;
        let mut files: Vec<PathBuf> = raw.include.iter().map(|path| directory.join(path)).collect();
        for path in included(&raw.include, directory)? {
            let of = |mistake: Mistake| Mistake::Included { path: path.clone(), mistake: Box::new(mistake) };
            let more: RawZones =
                toml::from_str(&read_text(&path).map_err(of)?).map_err(|error| of(Mistake::Syntax(error)))?;
            zones.add(more, path.parent().unwrap_or(Path::new(""))).map_err(|error| of(error.into()))?;
            files.push(path);
        }
        zones.transfers()?;
        let control = raw.control.map(|path| directory.join(path));
        Ok(FileConfig { dns, zones, metrics: raw.metrics, control, files, fixed })
    }
}

fn read_text(path: &Path) -> Result<String, Mistake> {
    let bytes = file::read(path, BYTES_MAX).map_err(Mistake::Unreadable)?;
    String::from_utf8(bytes).map_err(|_| Mistake::NotUtf8)
}

/// The files that `include` names; of a directory all that end with `.toml`, in order of their names.
fn included(include: &[PathBuf], directory: &Path) -> Result<Vec<PathBuf>, Mistake> {
    let mut files = Vec::new();
    for path in include.iter().map(|path| directory.join(path)) {
        if !path.is_dir() {
            files.push(path);
            continue;
        }
        let wrong = |error: io::Error| Mistake::Include { path: path.clone(), error };
        let entries: Result<Vec<PathBuf>, _> =
            path.read_dir().map_err(wrong)?.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut entries = entries.map_err(wrong)?;
        entries.retain(|entry| entry.extension().is_some_and(|extension| extension == "toml"));
        entries.sort();
        files.append(&mut entries);
    }
    if files.len() > FILES_MAX { Err(Mistake::TooManyFiles) } else { Ok(files) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_include_others() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        std::fs::create_dir_all(directory.path().join("d/e")).unwrap();
        write("d/b.toml", "[[zone]]\nname = \"b\"\ntemplate = \"t\"\n");
        write("d/a.toml", "[[template]]\nname = \"t\"\nfile = \"%s\"\n");
        write("d/c.not", "nonsense");
        write("one", "[[zone]]\nname = \"one\"\nfile = \"x\"\n");
        let parse = |text: &str| FileConfig::parse(text, directory.path(), [7; 16]);
        let config = parse("include = [\"one\", \"d\"]\n").unwrap();
        let files: Vec<PathBuf> = config.zones.files().into_iter().map(|zone| zone.path).collect();
        assert_eq!(files, [directory.path().join("d/b"), directory.path().join("x")]);
        write("d/c.toml", "port = 1\n");
        assert!(parse("include = [\"d\"]\n").unwrap_err().to_string().contains("d/c.toml: "));
        assert!(parse("include = [\"none\"]\n").unwrap_err().to_string().contains("none: "));
        assert!(parse("include = [\"/dev/zero\"]\n").unwrap_err().to_string().contains("a device"));
    }

    #[test]
    fn files_are_read_and_mistakes_named() {
        let text = "identity = \"here\"\nmetrics = \"127.0.0.1:9153\"\n[tcp]\nidle_timeout_s = 3\n[rate_limit]\n\
                    answers_per_s = 20\n[log]\nfile = \"log\"\n[[zone]]\nname = \"example.com\"\nfile = \"a.zone\"\n";
        let config = FileConfig::parse(text, Path::new("/etc"), [7; 16]).unwrap();
        assert_eq!(config.zones.files()[0].path, Path::new("/etc/a.zone"));
        assert_eq!(config.dns.tcp.idle_timeout, Duration::from_secs(3));
        assert_eq!(config.dns.log.clone().unwrap().file, Path::new("/etc/log"));
        assert!(config.dns.settings.cookies.is_some());
        // Zones may change while a server runs, all else is as it was at its start.
        let more =
            FileConfig::parse(&format!("{text}[[zone]]\nname = \"b\"\nfile = \"b\"\n"), Path::new("/etc"), [8; 16]);
        assert_eq!(more.unwrap().fixed, config.fixed);
        let other = FileConfig::parse(&text.replace("here", "there"), Path::new("/etc"), [7; 16]).unwrap();
        assert_ne!(other.fixed, config.fixed);
        let wrong = |text: &str| FileConfig::parse(text, Path::new(""), [7; 16]).unwrap_err().to_string();
        assert!(wrong("prot = 1").contains("prot"));
        assert!(wrong("udp_payload_max = 100").contains("512"));
        assert!(wrong("[cookies]\nsecret = \"12\"").contains("openssl"));
        assert!(wrong("[[zone]]\nname = \"a..b\"\nfile = \"x\"").contains("empty label"));
    }
}
