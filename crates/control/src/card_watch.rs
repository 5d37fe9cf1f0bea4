//! What becomes of a daemon's card, as who holds it sees it.
//!
//! ```text
//!            the daemon is killed, or leaves its cards            it is exchanged with the next daemon
//!   Held ──────────────────────────────────────▶ Orphaned ──────────────────────────────────────▶ Held
//!     └── a last word on the handle ─▶ Ended ◀── the next daemon knows nothing of it ──┘
//! ```
//! A thread waits for the end of the handle: the data path has nothing to do with it.

use crate::client::{ClientError, Session, VnicHandle};
use crate::protocol::{Answer, MESSAGE_BYTES_MAX, VnicEnd, receive};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Between two looks for the daemon that comes next, at first and at most.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How a card ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardEnd {
    /// Its daemon said why.
    Told(VnicEnd),
    /// A later daemon knows nothing of it: it went while none was there.
    Forgotten,
}

/// What a card is to its holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Its daemon is there.
    Held,
    /// Its daemon is gone without a word. The card goes on, unless somebody removes what that one left.
    Orphaned,
    /// The card is no more.
    Ended(CardEnd),
}

/// Watches one card. Dropped, it watches no more.
#[derive(Debug)]
pub struct CardWatch {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    standing: Mutex<Standing>,
    /// Readable from the card's end on.
    bell: OwnedFd,
    /// Readable when nobody wants to know any more.
    stop: OwnedFd,
}

impl CardWatch {
    /// Watches the card of a handle, which is read only when its daemon has closed it: requests may be made on it meanwhile.
    ///
    /// # Errors
    /// Out of descriptors, or of threads.
    pub fn start(vnic: &VnicHandle) -> io::Result<CardWatch> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let shared = Arc::new(Shared { standing: Mutex::new(Standing::Held), bell: event()?, stop: event()? });
        let watcher = Watcher {
            shared: Arc::clone(&shared),
            original: vnic.as_fd().try_clone_to_owned()?,
            daemon: vnic.daemon().to_owned(),
        };
        std::thread::Builder::new().name("qanat-card".to_owned()).spawn(move || watcher.run())?;
        Ok(CardWatch { shared })
    }

    /// What the card is now.
    pub fn standing(&self) -> Standing {
        *self.shared.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable from the card's end on, for as many as wait.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for CardWatch {
    fn drop(&mut self) {
        ring(&self.shared.stop);
    }
}

fn ring(bell: &OwnedFd) {
    // It is at its maximum: readable all the same.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

/// What the thread has.
struct Watcher {
    shared: Arc<Shared>,
    /// Proof to every later daemon. It is what is exchanged each time, so that handles don't pile up with daemons.
    original: OwnedFd,
    daemon: PathBuf,
}

impl Watcher {
    fn run(self) {
        let mut exchanged: Option<OwnedFd> = None;
        loop {
            let handle = exchanged.as_ref().unwrap_or(&self.original);
            if !self.waits_for_end(handle) {
                return;
            }
            if let Some(end) = last_word(handle) {
                return self.end(CardEnd::Told(end));
            }
            self.put(Standing::Orphaned);
            exchanged = match self.exchange() {
                Some(Ok(handle)) => Some(handle),
                Some(Err(end)) => return self.end(end),
                None => return,
            };
            self.put(Standing::Held);
        }
    }

    /// Waits until the daemon has closed its end; false: nobody wants to know.
    fn waits_for_end(&self, handle: &OwnedFd) -> bool {
        loop {
            // Only its end: what it says before is read then.
            let mut fds = [PollFd::new(&self.shared.stop, PollFlags::IN), PollFd::new(handle, PollFlags::RDHUP)];
            let _ = poll(&mut fds, None);
            let [stop, ended] = fds.map(|fd| !fd.revents().is_empty());
            if stop || ended {
                return !stop;
            }
        }
    }

    /// Gets a handle from the next daemon; `None`: nobody wants to know.
    fn exchange(&self) -> Option<Result<OwnedFd, CardEnd>> {
        let mut pause = PAUSE;
        loop {
            match reclaim(&self.daemon, self.original.as_fd()) {
                Ok(handle) => return Some(Ok(handle)),
                Err(error) if error.is_forgotten() => return Some(Err(CardEnd::Forgotten)),
                // None is there, or it can't now: too many handles, another version.
                Err(_) => {}
            }
            let mut stop = [PollFd::new(&self.shared.stop, PollFlags::IN)];
            let _ = poll(&mut stop, Timespec::try_from(pause).ok().as_ref());
            if stop.iter().any(|stop| !stop.revents().is_empty()) {
                return None;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn put(&self, standing: Standing) {
        *self.shared.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    fn end(&self, end: CardEnd) {
        self.put(Standing::Ended(end));
        ring(&self.shared.bell);
    }
}

fn reclaim(daemon: &Path, handle: BorrowedFd<'_>) -> Result<OwnedFd, ClientError> {
    Session::connect(daemon)?.reclaim(handle)
}

/// Whether the daemon has closed its end of a handle.
pub fn has_hung_up(handle: &impl AsFd) -> bool {
    let mut looked = [PollFd::new(handle, PollFlags::RDHUP)];
    matches!(poll(&mut looked, Some(&Timespec::default())), Ok(1..))
}

/// What a daemon said before it closed a handle. Reading never waits: the other end is closed.
pub fn last_word(handle: &OwnedFd) -> Option<VnicEnd> {
    let mut buffer = vec![0; MESSAGE_BYTES_MAX];
    loop {
        match receive::<Answer>(handle.as_fd(), &mut buffer) {
            Ok((Answer::Ended(end), _)) => return Some(end),
            // An answer that nobody waits for any more.
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}
