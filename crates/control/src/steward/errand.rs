//! What a service without rights and its steward say to each other.

use crate::protocol::{Fault, Request};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use thiserror::Error;

/// What a steward is for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Duties {
    /// Where the daemon listens.
    pub daemon: Option<PathBuf>,
    /// What may be asked of it.
    pub requests: Vec<Request>,
    /// Net cores that the service has.
    pub net_cores: Vec<NetCoreDuty>,
    /// Files to be removed when the service has ended.
    pub remove: Vec<PathBuf>,
}

/// How a net core is had.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum NetCoreDuty {
    /// It listens there.
    At(PathBuf),
    /// It is started with these arguments.
    Own(Vec<String>),
}

/// What a steward is told to do. Beside it, one end of a socket pair, over which the answer comes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Errand {
    /// Connect to the daemon, and relay what is said.
    Daemon,
    /// A socket to the net core of that number.
    NetCore(usize),
    /// Nothing more; it ends.
    Farewell,
}

/// What has come of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    /// Done.
    Done,
    /// Not done.
    Failed { why: String, code: Option<i32>, is_final: bool },
}

/// Why there is no steward, or why it ends.
#[derive(Debug, Error)]
pub enum StewardError {
    /// It does not start.
    #[error("the steward of this service does not start: {0}")]
    NotStarted(String),
    /// The channel between it and its service is broken.
    #[error(transparent)]
    Channel(#[from] Fault),
    /// It can't do its duties.
    #[error("{0}")]
    NotReady(String),
}

/// For programs whose errors are texts.
impl From<StewardError> for String {
    fn from(error: StewardError) -> String {
        error.to_string()
    }
}

/// Why a net core can't be had.
#[derive(Debug, Error)]
#[error("{error}")]
pub struct NoNetCore {
    /// What the system or the net core says.
    pub error: io::Error,
    /// The next time it is no better.
    pub is_final: bool,
}

impl Duties {
    pub(super) fn permit(&self, request: &Request) -> bool {
        match request {
            // The handle that comes with it is proof.
            Request::Reclaim => true,
            Request::CreateVnic(_)
            | Request::OpenVnic { .. }
            | Request::AttachNetCore { .. }
            | Request::OpenArea(_) => {
                let text = |request: &Request| serde_json::to_vec(request).ok();
                let wanted = text(request);
                wanted.is_some() && self.requests.iter().any(|known| text(known) == wanted)
            }
            _ => false,
        }
    }
}

/// Both ends of a channel, the service's first.
///
/// # Errors
/// Out of descriptors.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}
