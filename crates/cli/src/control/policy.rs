//! The policy that the daemon goes by: what its file and the command line say together; and the one that a daemon that starts anew
//! leaves to its successor, for the file may be broken by the time that one reads it.

use clap::Args;
use qanat_control::filter::Addresses;
use qanat_daemon::fitness;
use qanat_daemon::policy::{Policy, parse_processors};
use qanat_nic::{inherited_file, link};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where the policy is, if there is one.
const DEFAULT_CONFIG: &str = "/etc/qanat/qanat.toml";
/// In the environment of a daemon's successor: the number of the descriptor of the [`Words`] that its predecessor had found good.
pub const KEPT: &str = "QANAT_POLICY";
pub const NO_RULE: &str = "the policy has no rule, so nobody may have a card, root neither";

/// Where the policy comes from.
#[derive(Args, Clone)]
pub struct Source {
    /// Policy file (default: /etc/qanat/qanat.toml if there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Listen here instead of where the policy says
    #[arg(long, value_name = "PATH", env = "QANAT_SOCKET")]
    socket: Option<PathBuf>,
    /// A NIC, the wire of which cards may be on: root's if there is no policy file, otherwise those whose rule says `uplink = true`
    #[arg(long, value_name = "INTERFACE")]
    uplink: Option<String>,
    /// Start net cores on these processors, as `[net] cores` in the policy: 0-1,3
    #[arg(long, value_name = "PROCESSORS")]
    net_cores: Option<String>,
    /// Have a page for browsers at this address of this machine, with what `qanat status` says, live
    #[arg(long, value_name = "ADDRESS:PORT")]
    dashboard: Option<SocketAddr>,
}

/// What the policy file said, and where it is; nothing if there was none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Words(Option<(PathBuf, String)>);

impl Words {
    /// What the file says now.
    ///
    /// # Errors
    /// Names the file, and why it can't be read.
    pub fn read(source: &Source) -> Result<Words, String> {
        let default = Some(Path::new(DEFAULT_CONFIG)).filter(|path| path.exists());
        let path = source.config.as_deref().or(default);
        Ok(Words(path.map(|path| Ok::<_, String>((path.to_owned(), Policy::text(path)?))).transpose()?))
    }

    /// What they and the command line mean together.
    ///
    /// # Errors
    /// Names the line, or the option, and what is wrong there.
    pub fn policy(&self, source: &Source) -> Result<Policy, String> {
        let mut policy = match &self.0 {
            Some((path, text)) => Policy::parse_of(path, text)?,
            None => Policy::default(),
        };
        if let Some(socket) = &source.socket {
            policy.socket.clone_from(socket);
        }
        if let Some(interface) = &source.uplink {
            policy.uplink.get_or_insert_default().interface.clone_from(interface);
            if self.0.is_none() {
                // Without an interface of that name the daemon says so later.
                let found = link::link(interface).and_then(|link| link::addresses(link.index)).unwrap_or_default();
                policy
                    .let_root_use_uplink(found.into_iter().filter_map(|(own, length)| Addresses::prefix(own, length)));
            }
            policy.idle().map_or(Ok(()), Err)?;
        }
        if source.dashboard.is_some() {
            policy.dashboard = source.dashboard;
            policy.check_addresses()?;
        }
        if let Some(processors) = &source.net_cores {
            policy.net.cores = parse_processors(processors)?;
        }
        Ok(policy)
    }

    /// The policy, if a daemon that takes the place of one that does its work can start with it. `metrics`: see [`fitness::can_start`].
    ///
    /// # Errors
    /// Why it can't.
    fn successor(&self, source: &Source, metrics: Option<SocketAddr>) -> Result<Policy, String> {
        let policy = self.policy(source)?;
        if policy.rule.is_empty() {
            // Whoever empties the file while it is edited does not mean that.
            return Err(format!("{NO_RULE}: add a [[rule]], or end the daemon"));
        }
        fitness::can_start(&policy, metrics)?;
        Ok(policy)
    }

    /// What the file says now, if a daemon can start anew with it.
    ///
    /// # Errors
    /// Why it can't.
    pub fn fit(source: &Source, metrics: Option<SocketAddr>) -> Result<Words, String> {
        let words = Words::read(source)?;
        words.successor(source, metrics)?;
        Ok(words)
    }

    /// Leaves them to the program that this process becomes, which finds them by [`KEPT`].
    ///
    /// # Errors
    /// What the system says.
    pub fn bequeath(&self) -> io::Result<OwnedFd> {
        // Without CLOEXEC: that program is to have it.
        let mut file = File::from(rustix::fs::memfd_create("qanat-policy", MemfdFlags::empty())?);
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(file.into())
    }

    /// Those that the daemon that this process was has left.
    fn inherited() -> Option<Words> {
        let descriptor = std::env::var(KEPT).ok()?.parse().ok()?;
        let mut text = String::new();
        inherited_file(descriptor).ok()?.read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// The policy to start with. A successor whose file has been broken since its predecessor read it goes on with what that one found
/// good: the second value is why, then.
///
/// # Errors
/// Why there is none.
pub fn first(source: &Source) -> Result<(Policy, Option<String>), String> {
    let now = || Words::read(source);
    let Some(kept) = Words::inherited() else { return Ok((now()?.policy(source)?, None)) };
    match now().and_then(|words| words.successor(source, None)) {
        Ok(policy) => Ok((policy, None)),
        Err(why) => Ok((kept.policy(source)?, Some(why))),
    }
}

/// `NAME=NUMBER` for the environment of a successor.
pub fn named(name: &str, descriptor: &OwnedFd) -> (OsString, OsString) {
    (name.into(), descriptor.as_raw_fd().to_string().into())
}
