//! [`Export`]: a service's side of its export.

use super::words::{Order, Outcome};
use crate::log;
use qanat_control::protocol::{MESSAGE_BYTES_MAX, receive, send};
use qanat_control::steward::channel;
use qanat_export::mount::prepare;
use qanat_export::parts::{Part, Parts};
use qanat_export::place::ExportName;
use qanat_export::server::Server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the keeper and the kernel may take. A mount that was left and does not answer takes five seconds of it.
const PATIENCE: Duration = Duration::from_secs(15);
/// The same, at the end.
const FAREWELL: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// An export. Dropped, it is unmounted.
pub struct Export {
    name: ExportName,
    /// To the keeper.
    keeper: OwnedFd,
    /// Of `/dev/fuse`, until somebody answers on it.
    device: Mutex<Option<OwnedFd>>,
    /// It is meant to end.
    is_ending: Arc<AtomicBool>,
}

impl Export {
    /// Prepares the mount and starts its keeper, while there are rights. There is nothing to be read yet.
    ///
    /// # Errors
    /// There are no rights, or another service has the name.
    pub fn open(name: ExportName) -> Result<Export, String> {
        let (device, mount) = prepare().map_err(|error| format!("--export: {error}"))?;
        let failed = |error: std::io::Error| format!("the keeper of the export does not start: {error}");
        let (ours, its) = channel().map_err(failed)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg("export-keeper").args(log::forwarded()).stdin(Stdio::from(its)).stdout(Stdio::null());
        // A terminal's Ctrl-C is for the service.
        command.process_group(0).spawn().map_err(failed)?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE)).map_err(|error| failed(error.into()))?;
        let export = Export { name, keeper: ours, device: Mutex::new(Some(device)), is_ending: Arc::default() };
        export.order(Order::Claim(export.name.as_str().to_owned()), &[mount.as_fd()])?;
        Ok(export)
    }

    fn order(&self, order: Order, beside: &[BorrowedFd<'_>]) -> Result<(), String> {
        let gone = || "--export: the keeper of the export has ended".to_owned();
        send(self.keeper.as_fd(), order, beside).map_err(|_| gone())?;
        match receive(self.keeper.as_fd(), &mut vec![0; MESSAGE_BYTES_MAX]) {
            Ok((Outcome::Done, _)) => Ok(()),
            Ok((Outcome::Failed(why), _)) => Err(format!("--export: {why}")),
            Err(_) => Err(gone()),
        }
    }

    /// Where it can be read.
    pub fn directory(&self) -> PathBuf {
        self.name.directory()
    }

    /// Answers readers from now on, on a thread of its own. The rights are given up.
    ///
    /// # Errors
    /// There is no thread, or it can't be mounted.
    pub fn serve(&self, parts: Vec<(String, Part)>) -> Result<(), String> {
        let Some(device) = self.device.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        let tree = Parts::new(parts).map_err(|error| error.to_string())?;
        let (tell, told) = sync_channel(1);
        let (is_ending, directory) = (Arc::clone(&self.is_ending), self.directory());
        let serving = move || match Server::new(tree, device) {
            Ok(server) => {
                // Nobody waits any more: then the service ends, too.
                let _ = tell.send(Ok(()));
                let ended = server.run();
                if !is_ending.load(Ordering::Acquire) {
                    let why = ended.err().map_or_else(|| "it was unmounted".to_owned(), |error| error.to_string());
                    let directory = directory.display();
                    log::warning!("export", "{directory} is no more: {why}; start the service again to have it back");
                }
            }
            // As above.
            Err(error) => drop(tell.send(Err(error))),
        };
        let thread = std::thread::Builder::new().name("qanat-export".to_owned()).spawn(serving);
        thread.map_err(|error| format!("starting a thread: {error}"))?;
        match told.recv_timeout(PATIENCE) {
            Ok(greeted) => greeted.map_err(|error| format!("--export: /dev/fuse: {error}"))?,
            Err(_) => return Err("--export: the kernel does not greet on /dev/fuse".to_owned()),
        }
        self.order(Order::Attach, &[])
    }
}

impl Drop for Export {
    /// Waits until it is unmounted: the next service of that name can have it at once.
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        // The keeper may be gone already.
        let _ = shutdown(&self.keeper, Shutdown::Write);
        let _ = poll(&mut [PollFd::new(&self.keeper, PollFlags::RDHUP)], Some(&FAREWELL));
    }
}
