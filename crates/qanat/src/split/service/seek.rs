//! How a service finds a net core, and finds it again when it is gone: by a thread of its own then, for a net core may take
//! its time to start, and the others' connections do not wait.

use crate::split::handshake::{Attach, Attached, MESSAGE_BYTES_MAX, Reply, Wish};
use crate::split::service::error::{Refusal, SplitError};
use crate::split::service::options::Connector;
use qanat_control::protocol::{Fault, receive, send};
use qanat_nic::Time;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a net core may take to answer the first word: it opens its cards before.
const ATTACH_PATIENCE: Duration = Duration::from_secs(10);
/// Between attempts to find a net core again.
const RETRY_AFTER: Duration = Duration::from_millis(2);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(1);
/// Between looks at what has come of one.
const LOOK_AFTER: Duration = Duration::from_millis(1);

/// What a net core has given.
pub(crate) struct Found {
    pub socket: OwnedFd,
    pub attached: Box<Attached>,
    pub files: Vec<OwnedFd>,
}

/// Finds a net core.
pub(crate) struct Seeker {
    /// Held by the thread while it seeks.
    connector: Arc<Mutex<Connector>>,
    wish: Attach,
    under_way: Option<Receiver<Result<Found, SplitError>>>,
    next_attempt: Time,
    retry_after: Duration,
    /// What became of the last attempt.
    failure: Option<SplitError>,
}

impl Seeker {
    pub(crate) fn new(connector: Connector, wish: Attach) -> Seeker {
        Seeker {
            connector: Arc::new(Mutex::new(connector)),
            wish,
            under_way: None,
            next_attempt: Time::ZERO,
            retry_after: RETRY_AFTER,
            failure: None,
        }
    }

    /// Finds it here and now.
    pub(crate) fn find(&self) -> Result<Found, SplitError> {
        find(&self.connector, &self.wish)
    }

    /// Begins an attempt if it is time for one; what has come of one. To be told whether it was of use
    /// ([`has_tried`](Seeker::has_tried)).
    pub(crate) fn seek(&mut self, now: Time) -> Option<Found> {
        if self.under_way.is_none() && now >= self.next_attempt {
            self.begin(now);
        }
        match self.under_way.as_ref()?.try_recv() {
            Ok(outcome) => {
                self.under_way = None;
                match outcome {
                    Ok(found) => Some(found),
                    Err(failure) => {
                        self.failure = Some(failure);
                        self.has_tried(false, now);
                        None
                    }
                }
            }
            Err(TryRecvError::Empty) => None,
            // Never: the thread says something before it ends.
            Err(TryRecvError::Disconnected) => {
                self.under_way = None;
                None
            }
        }
    }

    /// Why the last attempt failed.
    pub(crate) fn failure(&self) -> Option<&SplitError> {
        self.failure.as_ref()
    }

    fn begin(&mut self, now: Time) {
        let (tell, told) = channel();
        let (connector, wish) = (Arc::clone(&self.connector), self.wish.clone());
        let thread = std::thread::Builder::new().name("net core".to_owned());
        let seek = move || {
            // The service has ended, if nobody hears it.
            let _ = tell.send(find(&connector, &wish));
        };
        match thread.spawn(seek) {
            Ok(_) => self.under_way = Some(told),
            // No thread is to be had: later, perhaps.
            Err(_) => self.next_attempt = now + RETRY_AFTER_MAX,
        }
    }

    /// What came of an attempt.
    pub(crate) fn has_tried(&mut self, is_attached: bool, now: Time) {
        self.retry_after = if is_attached { RETRY_AFTER } else { (self.retry_after * 2).min(RETRY_AFTER_MAX) };
        self.next_attempt = now + self.retry_after;
        if is_attached {
            self.failure = None;
        }
    }

    /// When there is something to be done or seen.
    pub(crate) fn next_look(&self, now: Time) -> Time {
        if self.under_way.is_some() { now + LOOK_AFTER } else { self.next_attempt }
    }
}

fn find(connector: &Mutex<Connector>, wish: &Attach) -> Result<Found, SplitError> {
    let mut connector = connector.lock().unwrap_or_else(PoisonError::into_inner);
    let socket = connector().map_err(|error| match error.get_ref().and_then(|error| error.downcast_ref()) {
        Some(Refusal(why)) => SplitError::Forbidden(why.clone()),
        None => SplitError::Unreachable(error),
    })?;
    let failed = |fault: Fault| match fault {
        Fault::Closed => SplitError::Unreachable(io::ErrorKind::ConnectionAborted.into()),
        fault => SplitError::Unreachable(io::Error::other(fault.to_string())),
    };
    let patience = |time| set_socket_timeout(&socket, Timeout::Recv, time);
    patience(Some(ATTACH_PATIENCE)).map_err(|error| SplitError::Unreachable(error.into()))?;
    send(socket.as_fd(), Wish::Attach(wish.clone()), &[]).map_err(failed)?;
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    match receive::<Reply>(socket.as_fd(), &mut buffer).map_err(failed)? {
        (Reply::Attached(attached), files) => Ok(Found { socket, attached, files }),
        (Reply::Refused(why), _) => Err(SplitError::Refused(why)),
        (Reply::Status(_) | Reply::Ended(_), _) => Err(SplitError::Refused("it answers another question".to_owned())),
    }
}
