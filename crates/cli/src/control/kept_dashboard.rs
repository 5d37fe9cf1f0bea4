//! The dashboard that the daemon has up: it is started, started again if it ends, and gone with the daemon.

use super::policy::KEPT;
use crate::log;
use qanat::entropy;
use qanat_daemon::{Event, HEIR};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Who serves it: nobody.
const USER: &str = "65534";

/// Between two starts of a dashboard that ends, at first and at last.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// What is the daemon's alone in its environment: the service manager's, and what it was left by its predecessor.
const NOT_PASSED: [&str; 7] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", KEPT, HEIR];

/// Of a key, before they are written as two digits each.
const KEY_BYTES: usize = 16;

/// See the module.
pub struct KeptDashboard {
    address: SocketAddr,
    socket: PathBuf,
    key: String,
    /// Held while one is started.
    starting: Arc<Mutex<()>>,
}

/// A part of an address that nobody guesses.
///
/// # Errors
/// The system has no numbers.
pub fn new_key() -> io::Result<String> {
    Ok(entropy()?.iter().take(KEY_BYTES).map(|byte| format!("{byte:02x}")).collect())
}

impl KeptDashboard {
    /// One at `address`, of the daemon that listens at `socket`.
    ///
    /// # Errors
    /// As [`new_key`].
    pub fn new(address: SocketAddr, socket: PathBuf) -> io::Result<KeptDashboard> {
        Ok(KeptDashboard { address, socket, key: new_key()?, starting: Arc::default() })
    }

    /// Where it is, for those who may see it.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.key)
    }

    /// Has it up from now on, by a thread. `tell`: for the log. Once the returned lock is held, none is started any more.
    pub fn keep(self, tell: fn(&Event)) -> Arc<Mutex<()>> {
        let starting = Arc::clone(&self.starting);
        std::thread::spawn(move || {
            let mut pause = PAUSES[0];
            loop {
                let begun = Instant::now();
                let why = match self.start() {
                    Ok(mut child) => {
                        // It ends when nobody holds the other end of its standard input. To wait for it would close that.
                        let _input = child.stdin.take();
                        child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
                    }
                    Err(error) => error.to_string(),
                };
                if begun.elapsed() > PAUSES[1] {
                    pause = PAUSES[0];
                }
                let detail = format!("{why}; started again after {pause:?}");
                tell(&Event { event: "dashboard", result: "failed", detail, ..Event::default() });
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSES[1]);
            }
        });
        starting
    }

    fn start(&self) -> io::Result<Child> {
        let _one = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = command(self.address, &self.socket);
        let mut child = command.spawn()?;
        if let Some(input) = &mut child.stdin {
            // One that ends before it hears that is waited for like any other.
            let _ = writeln!(input, "{}", self.key);
        }
        Ok(child)
    }
}

fn command(address: SocketAddr, socket: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.args(["dashboard", "--of-daemon", "--user", USER, "--listen", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string(), "--socket"]).arg(socket).args(log::forwarded());
    NOT_PASSED.iter().for_each(|name| {
        command.env_remove(name);
    });
    // A terminal's Ctrl-C is for the daemon.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}
