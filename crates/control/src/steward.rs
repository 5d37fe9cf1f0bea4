//! What a process without rights has done for it: its *steward*, a process of the user that started both, does a few things that were
//! fixed before the rights were given up, as often as it is told to.
//!
//! ```text
//!   service (nobody) ── channel: an errand ──▶ steward (as the service was) ── connect ──▶ daemon
//!        └─────────── a socket pair for each connection, whose requests are looked at ───┘
//! ```
//! The daemon knows its clients by their user. So after a restart of the daemon it is the steward that it sees, and the policy gives the
//! service the card that it had. The service can have exactly what it had, and nothing else that its former user may have.

use crate::client::{ClientError, Session};
use crate::protocol::{Answer, Fault, MESSAGE_BYTES_MAX, Request, receive, send, send_in};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// A net core that has to be ended before the next one starts takes two seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections that are looked after at once; the oldest ends when there is one more.
const RELAYS_MAX: usize = 16;

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
enum Errand {
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
enum Word {
    /// Done.
    Done,
    /// Not done.
    Failed { why: String, code: Option<i32>, is_final: bool },
}

/// Has the net core of a number: a socket to it, or none if it has been given the other end of the service's own, which comes along. So it
/// knows the service by its process.
pub type Provide<'a> = dyn FnMut(usize, BorrowedFd<'_>) -> Result<Option<OwnedFd>, NoNetCore> + 'a;

/// Why a net core can't be had.
#[derive(Debug)]
pub struct NoNetCore {
    /// What the system or the net core says.
    pub error: io::Error,
    /// The next time it is no better.
    pub is_final: bool,
}

impl Duties {
    fn permit(&self, request: &Request) -> bool {
        match request {
            // The handle that comes with it is proof.
            Request::Reclaim => true,
            Request::CreateVnic(_) | Request::OpenVnic { .. } | Request::AttachNetCore { .. } => {
                let text = |request: &Request| serde_json::to_vec(request).ok();
                let wanted = text(request);
                wanted.is_some() && self.requests.iter().any(|known| text(known) == wanted)
            }
            _ => false,
        }
    }
}

/// A service's side of the channel.
#[derive(Debug)]
struct Channel(OwnedFd);

/// The steward of this process, once it has one.
static STEWARD: OnceLock<Channel> = OnceLock::new();

/// Both ends of a channel, the service's first.
///
/// # Errors
/// Out of descriptors.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Tells the steward at the other end of `channel` its duties, and waits until it is ready. From then on this process has connections to
/// the daemon, and net cores, by it.
///
/// # Errors
/// It isn't ready, and why.
pub fn begin(channel: OwnedFd, duties: Duties) -> Result<(), String> {
    let failed = |why: String| format!("the steward of this service does not start: {why}");
    send(channel.as_fd(), duties, &[]).map_err(|fault| failed(fault.to_string()))?;
    match receive(channel.as_fd(), &mut vec![0; MESSAGE_BYTES_MAX]) {
        Ok((Word::Done, _)) => {}
        Ok((Word::Failed { why, .. }, _)) => return Err(failed(why)),
        Err(fault) => return Err(failed(fault.to_string())),
    }
    STEWARD.set(Channel(channel)).map_err(|_| failed("there is one already".to_owned()))
}

impl Channel {
    /// Has an errand done; the end over which the answer came.
    fn send(&self, errand: Errand) -> Result<(OwnedFd, Vec<OwnedFd>), NoNetCore> {
        let gone = || io::Error::other("its steward, the process beside it, has ended: start the service again");
        let broken = |error: io::Error| NoNetCore { error, is_final: false };
        let (ours, its) = channel().map_err(broken)?;
        send(self.0.as_fd(), errand, &[its.as_fd()]).map_err(|_| broken(gone()))?;
        drop(its);
        // One that is silent hangs.
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE)).map_err(|error| broken(error.into()))?;
        let word = receive(ours.as_fd(), &mut vec![0; MESSAGE_BYTES_MAX]);
        set_socket_timeout(&ours, Timeout::Recv, None).map_err(|error| broken(error.into()))?;
        match word {
            Ok((Word::Done, beside)) => Ok((ours, beside)),
            Ok((Word::Failed { why, code, is_final }, _)) => {
                let error = code.map_or_else(|| io::Error::other(why), io::Error::from_raw_os_error);
                Err(NoNetCore { error, is_final })
            }
            Err(_) => Err(broken(gone())),
        }
    }
}

/// A connection to the daemon made by the steward; `None`: this process has none, and makes its own.
pub(crate) fn connect() -> Option<io::Result<OwnedFd>> {
    let steward = STEWARD.get()?;
    Some(steward.send(Errand::Daemon).map(|(socket, _)| socket).map_err(|failed| failed.error))
}

/// A socket to a net core, had by the steward.
///
/// # Errors
/// Why not; and if there is no steward.
pub fn net_core(number: usize) -> Result<OwnedFd, NoNetCore> {
    let none = || NoNetCore { error: io::ErrorKind::NotConnected.into(), is_final: true };
    let (own, mut beside) = STEWARD.get().ok_or_else(none)?.send(Errand::NetCore(number))?;
    Ok(beside.pop().unwrap_or(own))
}

/// Lets the steward go, if there is one, and waits until it has done what is to be done at the end.
pub fn farewell() {
    let Some(Channel(channel)) = STEWARD.get() else { return };
    // It has ended already: so much the better.
    let _ = send(channel.as_fd(), Errand::Farewell, &[]);
    let patience = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(channel, PollFlags::RDHUP)], Some(&patience));
}

/// A steward's side: reads its duties, calls `ready`, and does what it is told until the service has ended; `net_core` has one. The duties
/// are given back, for what is to be done at the end.
///
/// # Errors
/// What `ready` says, or the channel.
pub fn serve(
    channel: BorrowedFd<'_>,
    ready: impl FnOnce(&Duties) -> Result<(), String>,
    net_core: &mut Provide<'_>,
) -> Result<Duties, String> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let (duties, _) = receive::<Duties>(channel, &mut buffer).map_err(|fault| fault.to_string())?;
    let said = ready(&duties);
    let word = match &said {
        Ok(()) => Word::Done,
        Err(why) => Word::Failed { why: why.clone(), code: None, is_final: true },
    };
    send(channel, word, &[]).map_err(|fault| fault.to_string())?;
    said?;
    let mut relays: Vec<Relay> = Vec::new();
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(channel, PollFlags::IN)];
        fds.extend(relays.iter().map(|relay| PollFd::new(&relay.service, PollFlags::IN)));
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let is_told: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let [errand, told @ ..] = is_told.as_slice() else { return Ok(duties) };
        let mut told = told.iter();
        relays.retain(|relay| told.next() != Some(&true) || relay.pass(&duties, &mut buffer).is_ok());
        if *errand {
            match receive::<Errand>(channel, &mut buffer) {
                Ok((Errand::Farewell, _)) | Err(_) => return Ok(duties),
                Ok((errand, mut beside)) => {
                    let Some(answer) = beside.pop() else { continue };
                    relays.extend(run(&errand, answer, &duties, net_core));
                }
            }
            if relays.len() > RELAYS_MAX {
                relays.remove(0);
            }
        }
    }
}

/// Does an errand.
fn run(errand: &Errand, answer: OwnedFd, duties: &Duties, net_core: &mut Provide<'_>) -> Option<Relay> {
    let failed =
        |error: &io::Error, is_final| Word::Failed { why: error.to_string(), code: error.raw_os_error(), is_final };
    let refused = || NoNetCore { error: io::ErrorKind::PermissionDenied.into(), is_final: true };
    // Who does not wait for the answer any more needs none.
    match errand {
        Errand::Daemon => {
            let path = duties.daemon.as_ref()?;
            match Session::connect(path) {
                Ok(daemon) => {
                    send(answer.as_fd(), Word::Done, &[]).ok()?;
                    return Some(Relay { service: answer, daemon });
                }
                Err(ClientError::Unreachable(_, error)) => _ = send(answer.as_fd(), failed(&error, false), &[]),
                Err(_) => {}
            }
        }
        Errand::NetCore(number) => {
            let is_known = *number < duties.net_cores.len();
            let had = if is_known { net_core(*number, answer.as_fd()) } else { Err(refused()) };
            match had {
                Ok(socket) => {
                    let beside: Vec<BorrowedFd<'_>> = socket.iter().map(AsFd::as_fd).collect();
                    let _ = send(answer.as_fd(), Word::Done, &beside);
                }
                Err(NoNetCore { error, is_final }) => _ = send(answer.as_fd(), failed(&error, is_final), &[]),
            }
        }
        Errand::Farewell => {}
    }
    None
}

/// A service's connection to the daemon.
struct Relay {
    service: OwnedFd,
    daemon: Session,
}

impl Relay {
    /// Passes one request on, and the answer back.
    fn pass(&self, duties: &Duties, buffer: &mut [u8]) -> Result<(), Fault> {
        let (request, beside) = receive::<Request>(self.service.as_fd(), buffer)?;
        let answer = match duties.permit(&request) {
            true => {
                let beside: Vec<BorrowedFd<'_>> = beside.iter().map(AsFd::as_fd).collect();
                self.daemon.pass(request, &beside)
            }
            false => {
                let why =
                    "this service has given up its rights, and gets only what it had at its start: start it again";
                Err(ClientError::Refused(why.into()))
            }
        };
        match answer {
            Ok((answer, beside)) => {
                let beside: Vec<BorrowedFd<'_>> = beside.iter().map(AsFd::as_fd).collect();
                send(self.service.as_fd(), answer, &beside)
            }
            Err(ClientError::Refused(why)) => send(self.service.as_fd(), Answer::Refused(why), &[]),
            // In the daemon's words: that its version is another.
            Err(ClientError::Fault(Fault::Version(version))) => {
                send_in(version, self.service.as_fd(), Answer::Done, &[])
            }
            Err(_) => Err(Fault::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::VnicWish;
    use std::os::unix::net::UnixStream;

    fn wish(name: &str) -> Request {
        Request::CreateVnic(VnicWish { name: name.to_owned(), ..VnicWish::default() })
    }

    #[test]
    fn only_what_was_asked_before_is_asked_again() {
        let duties = Duties { requests: vec![wish("web"), Request::OpenVnic { vnic: 3 }], ..Duties::default() };
        for allowed in [wish("web"), Request::OpenVnic { vnic: 3 }, Request::Reclaim] {
            assert!(duties.permit(&allowed), "{allowed:?}");
        }
        let card = VnicWish::default();
        for other in [
            wish("another"),
            Request::OpenVnic { vnic: 4 },
            Request::DeleteVnic { vnic: 3 },
            Request::Status,
            Request::Limits,
            Request::AttachNetCore { card, stack: crate::net_core::StackWish::default() },
        ] {
            assert!(!duties.permit(&other), "{other:?}");
        }
    }

    #[test]
    fn a_steward_does_its_duties_until_the_service_ends() {
        let (service, its) = channel().unwrap();
        let steward = std::thread::spawn(move || {
            let mut net_core = |number: usize, _: BorrowedFd<'_>| match number {
                0 => Ok(Some(OwnedFd::from(UnixStream::pair().unwrap().0))),
                _ => Err(NoNetCore { error: io::Error::from_raw_os_error(2), is_final: true }),
            };
            serve(its.as_fd(), |_| Ok(()), &mut net_core)
        });
        let at = |text: &str| NetCoreDuty::At(text.into());
        let daemon = Some(PathBuf::from("/nonexistent/control.sock"));
        let duties = Duties {
            daemon,
            net_cores: vec![at("a"), at("b")],
            remove: vec!["/nonexistent/door".into()],
            ..Duties::default()
        };
        send(service.as_fd(), duties, &[]).unwrap();
        assert!(matches!(receive(service.as_fd(), &mut [0; 256]), Ok((Word::Done, _))));
        let service = Channel(service);
        assert_eq!(service.send(Errand::NetCore(0)).unwrap().1.len(), 1);
        let failed = service.send(Errand::NetCore(1)).unwrap_err();
        assert_eq!((failed.error.raw_os_error(), failed.is_final), (Some(2), true));
        assert!(service.send(Errand::NetCore(2)).unwrap_err().is_final, "it has no such duty");
        let unreachable = service.send(Errand::Daemon).unwrap_err();
        assert_eq!((unreachable.error.kind(), unreachable.is_final), (io::ErrorKind::NotFound, false));
        drop(service);
        assert_eq!(steward.join().unwrap().unwrap().remove.len(), 1);
    }
}
