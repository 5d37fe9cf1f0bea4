//! The steward's side: its errands, and the connections that it relays.

use super::errand::{Duties, Errand, NoNetCore, StewardError, Word};
use crate::client::{ClientError, Session};
use crate::protocol::{Answer, Fault, MESSAGE_BYTES_MAX, Request, receive, send, send_in};
use rustix::event::{PollFd, PollFlags, poll};
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Connections that are looked after at once; the oldest ends when there is one more.
const RELAYS_MAX: usize = 16;

/// Has the net core of a number: a socket to it, or none if it has been given the other end of the service's own, which comes along. So it
/// knows the service by its process.
pub type Provide<'a> = dyn FnMut(usize, BorrowedFd<'_>) -> Result<Option<OwnedFd>, NoNetCore> + 'a;

/// A steward's side: reads its duties, calls `ready`, and does what it is told until the service has ended; `net_core` has one. The duties
/// are given back, for what is to be done at the end.
///
/// # Errors
/// What `ready` says, or the channel.
pub fn serve<E: Display>(
    channel: BorrowedFd<'_>,
    ready: impl FnOnce(&Duties) -> Result<(), E>,
    net_core: &mut Provide<'_>,
) -> Result<Duties, StewardError> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    let (duties, _) = receive::<Duties>(channel, &mut buffer)?;
    let said = ready(&duties).map_err(|why| why.to_string());
    let word = match &said {
        Ok(()) => Word::Done,
        Err(why) => Word::Failed { why: why.clone(), code: None, is_final: true },
    };
    send(channel, word, &[])?;
    said.map_err(StewardError::NotReady)?;
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
    use crate::protocol::{AreaPath, AreaWish, VnicWish};
    use crate::steward::errand::{NetCoreDuty, channel};
    use crate::steward::service::Channel;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    fn wish(name: &str) -> Request {
        Request::CreateVnic(VnicWish { name: name.to_owned(), ..VnicWish::default() })
    }

    fn area(name: &str) -> Request {
        let path = AreaPath { disk: "fast".to_owned(), area: name.to_owned() };
        let layout = qanat_disk::shared::SharedLayout { queue_bytes: 4_096, frame_bytes: 4_096, frames: 1 };
        Request::OpenArea(AreaWish { path, read_only: false, layout })
    }

    #[test]
    fn only_what_was_asked_before_is_asked_again() {
        let duties =
            Duties { requests: vec![wish("web"), Request::OpenVnic { vnic: 3 }, area("logs")], ..Duties::default() };
        for allowed in [wish("web"), Request::OpenVnic { vnic: 3 }, area("logs"), Request::Reclaim] {
            assert!(duties.permit(&allowed), "{allowed:?}");
        }
        let card = VnicWish::default();
        for other in [
            wish("another"),
            area("data"),
            Request::OpenVnic { vnic: 4 },
            Request::DeleteVnic { vnic: 3 },
            Request::Status,
            Request::Limits,
            Request::AttachNetCore { card, stack: crate::protocol::StackWish::default() },
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
            serve(its.as_fd(), |_| Ok::<_, String>(()), &mut net_core)
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
