//! A net core that a service has for itself: the steward starts it, and starts it again when it dies.

use crate::exit;
use crate::log;
use qanat::split::Refusal;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a net core may take to go once its service is gone.
const FAREWELL: Duration = Duration::from_secs(2);

/// A net core of this service's own.
#[derive(Clone, Default)]
pub struct OwnNetCore {
    child: Arc<Mutex<Option<Child>>>,
    /// One before has lost a card of the daemon's, whose successor is to give the next.
    had_daemons_card: Arc<AtomicBool>,
}

impl OwnNetCore {
    /// Starts one, in place of a dead one, whose end of the service's socket is `its`.
    pub fn start(&self, arguments: &[String], its: OwnedFd) -> io::Result<()> {
        match self.wait().and_then(|status| status.code()) {
            Some(exit::LINK_GONE) => self.had_daemons_card.store(true, Ordering::Relaxed),
            Some(exit::REFUSED) => {
                let why = "the next daemon refuses its card: the net core has said why, on standard error";
                return Err(io::Error::other(Refusal(why.to_owned())));
            }
            _ => {}
        }
        let mut command = Command::new("/proc/self/exe");
        command.arg("net").args(arguments).args(log::forwarded());
        command.args(self.had_daemons_card.load(Ordering::Relaxed).then_some("--again"));
        command.stdin(Stdio::from(its)).stdout(Stdio::null());
        // A terminal's Ctrl-C is for the service, which finishes what is under way by the net core.
        command.process_group(0);
        *self.child.lock().unwrap_or_else(PoisonError::into_inner) = Some(command.spawn()?);
        Ok(())
    }

    /// Its process has ended, or is made to.
    pub fn wait(&self) -> Option<ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                ended => return ended.ok().flatten(),
            }
        }
        let _ = child.kill();
        child.wait().ok()
    }
}
