//! A daemon on a thread of its own.

use super::error::FenceError;
use qanat_control::client::Session;
use qanat_daemon::policy::Policy;
use qanat_daemon::{Daemon, DaemonError, Ending, Event};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

fn quiet(_: &Event) {}

/// A daemon on a thread of its own, gone when dropped.
pub(crate) struct Control {
    directory: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<Result<Ending, DaemonError>>>,
}

impl Control {
    pub(crate) fn start() -> Result<Control, FenceError> {
        let directory = std::env::temp_dir().join(format!("qanat-bench-fence-{}", std::process::id()));
        let policy = "[[rule]]\nusers = [\"root\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n";
        let policy = Policy { socket: directory.join("control.sock"), ..Policy::parse(policy)? };
        let (stop, stopped) = UnixStream::pair()?;
        let mut daemon = Daemon::start(policy, stopped.into(), quiet)?;
        let thread = Some(std::thread::spawn(move || daemon.run()));
        Ok(Control { directory, stop: Some(stop), thread })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("control.sock")
    }

    pub(super) fn session(&self) -> Result<Session, FenceError> {
        Ok(Session::connect(&self.socket())?)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.stop = None;
        // A daemon that failed has been heard of by its clients.
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
