//! A running server asked: `qanat dns status`, `reload` and `refresh`, over a Unix socket of the server's user.

use super::zones::{Changes, Zones};
use qanat_dns::name::Name;
use qanat_dns::service::ZoneRules;
use qanat_nic::bind_in_place;
use rustix::fs::{Mode, mkdir};
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request's bytes at most.
const REQUEST_MAX: u64 = 4_096;
/// A client that takes longer to ask, or to read, is cut off, because the next one waits.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked.
#[derive(Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case", tag = "command", deny_unknown_fields)]
pub enum Order {
    /// How zones stand; all, or one.
    Status {
        /// Its name.
        zone: Option<String>,
    },
    /// Read the configuration and all zones again, or one zone.
    Reload {
        /// Its name.
        zone: Option<String>,
    },
    /// Ask a zone's primary now.
    Refresh {
        /// Its name.
        zone: String,
    },
}

/// The configuration's zones, read again.
pub type Rules = Box<dyn Fn() -> Result<ZoneRules, String> + Send>;

/// The directory of sockets of the servers of this user.
pub fn directory() -> PathBuf {
    let run = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    let run = run.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    // Without a directory of the user's own there is a name in the one for all, which is looked at below.
    let is_own = rustix::process::geteuid().is_root() || std::env::var_os("XDG_RUNTIME_DIR").is_some();
    if is_own {
        run.join("qanat-dns")
    } else {
        format!("/tmp/qanat-dns-{}", rustix::process::geteuid().as_raw()).into()
    }
}

/// Makes the directory; it must be this user's, and nobody else's to write.
fn make_directory(path: &Path) -> io::Result<()> {
    match mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    if is_ours(path) { Ok(()) } else { Err(io::Error::other("it is not a directory of this user's alone")) }
}

/// Whether nobody else could have put something into the directory at `path`.
pub fn is_ours(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| {
        metadata.is_dir()
            && metadata.uid() == rustix::process::geteuid().as_raw()
            && metadata.permissions().mode() & 0o022 == 0
    })
}

/// A server's socket, taken away when the server ends.
pub struct Door {
    path: PathBuf,
    listener: UnixListener,
    owner: rustix::process::Uid,
}

impl Drop for Door {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Makes the socket at `path`, or where `qanat dns status` looks.
///
/// # Errors
/// A message: the socket cannot be made.
pub fn open(path: Option<&Path>) -> Result<Door, String> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => {
            let directory = directory();
            make_directory(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            directory.join(format!("{}.sock", std::process::id()))
        }
    };
    let wrong = |error: io::Error| format!("control socket {}: {error}; choose another with --control", path.display());
    let listener = bind_in_place(&path, || UnixListener::bind(&path)).map_err(wrong)?;
    let door = Door { path: path.clone(), listener, owner: rustix::process::geteuid() };
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).map_err(wrong)?;
    Ok(door)
}

impl Door {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers on a thread of its own.
    ///
    /// # Errors
    /// A message: there is no thread to be had.
    pub fn serve(&self, zones: Zones, rules: Rules) -> Result<(), String> {
        let wrong = |error: io::Error| format!("control socket {}: {error}", self.path.display());
        let (listener, owner) = (self.listener.try_clone().map_err(wrong)?, self.owner);
        let answer = move || {
            for stream in listener.incoming() {
                match stream {
                    // Who goes away is no error of ours.
                    Ok(stream) => drop(reply(&stream, owner, &zones, &rules)),
                    // Out of descriptors: there are some again when others end.
                    Err(_) => std::thread::sleep(PATIENCE / 50),
                }
            }
        };
        std::thread::Builder::new().name("dns-control".into()).spawn(answer).map(drop).map_err(wrong)
    }
}

/// `owner`: whose the server was when it began; others than that one and root are not heard.
fn reply(mut stream: &UnixStream, owner: rustix::process::Uid, zones: &Zones, rules: &Rules) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = socket_peercred(stream)?.uid;
    if !peer.is_root() && peer != owner {
        return writeln!(stream, "{}", json!({ "error": "this server is another user's" }));
    }
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_MAX)).read_line(&mut line)?;
    let outcome = serde_json::from_str(&line)
        .map_err(|error| format!("not understood ({error}): is it another version?"))
        .and_then(|order| obey(order, zones, rules));
    let outcome = outcome.unwrap_or_else(|error| json!({ "error": error }));
    writeln!(stream, "{outcome}")
}

fn name(text: &str) -> Result<Name, String> {
    Name::absolute(text).map(|name| name.to_lowercase()).map_err(|error| format!("{text}: {error}"))
}

fn obey(order: Order, zones: &Zones, rules: &Rules) -> Result<Value, String> {
    match order {
        Order::Status { zone } => {
            let zone = zone.as_deref().map(name).transpose()?;
            let known = status(zones, zone.as_ref());
            match (zone, known.is_empty()) {
                (Some(zone), true) => Err(format!("there is no zone {zone}: `qanat dns status` lists them")),
                _ => Ok(json!({ "zones": known })),
            }
        }
        Order::Reload { zone: None } => zones.reload(rules()?).map(|changes| told(&changes, true)),
        Order::Reload { zone: Some(zone) } => zones.reload_one(&name(&zone)?).map(|changes| told(&changes, false)),
        Order::Refresh { zone } => {
            let apex = name(&zone)?;
            if !zones.control().refresh(&apex) {
                return Err(format!("{apex} comes from no primary: `qanat dns reload {apex}` reads a file again"));
            }
            zones.publisher().ring();
            Ok(json!({ "lines": [format!("{apex}: its primary is asked")], "broken": false }))
        }
    }
}

fn told(changes: &Changes, all: bool) -> Value {
    let summary = Some(changes.summary()).filter(|_| all);
    let lines: Vec<String> = changes.lines.iter().cloned().chain(summary).collect();
    json!({ "lines": lines, "broken": changes.has_broken() })
}

/// How zones stand, one object each, in order of their names.
fn status(zones: &Zones, only: Option<&Name>) -> Vec<Value> {
    let (catalog, board, broken) = (zones.publisher().latest(), zones.control().board(), zones.broken());
    let (catalogs, members) = zones.catalogs();
    let served = catalog.zones().iter().map(|zone| zone.apex().clone());
    let all: BTreeSet<Name> =
        served.chain(catalog.missing()).chain(board.keys().cloned()).chain(broken.keys().cloned()).collect();
    let wanted = all.into_iter().filter(|apex| only.is_none_or(|only| only == apex));
    wanted
        .map(|apex| {
            let image = catalog.zone(&apex);
            let standing = board.get(&apex);
            let state = match (image, broken.contains_key(&apex), standing.is_some_and(|standing| standing.expired)) {
                (Some(_), false, _) => "serving",
                (Some(_), true, _) => "serving an older version",
                (None, true, _) => "broken",
                (None, false, true) => "expired",
                (None, false, false) => "not here yet",
            };
            json!({
                "zone": apex.to_string(),
                "state": state,
                "kind": if standing.is_some() { "secondary" } else { "primary" },
                "serial": image.map(|zone| zone.serial()),
                "records": image.map(|zone| zone.record_count()),
                "catalog": catalogs.contains(&apex),
                "member_of": members.get(&apex).map(Name::to_string),
                "errors": broken.get(&apex),
                "transfers": standing,
            })
        })
        .collect()
}
