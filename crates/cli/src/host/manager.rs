//! A service manager (`sd_notify(3)`): it is told when a service listens (`Type=notify`), and while the service runs, that it does
//! (`WatchdogSec=`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Signs of life within the time after which the manager would end the service.
const SIGNS: u32 = 3;

/// The manager of this process; perhaps there is none.
pub struct Manager {
    line: Option<UnixDatagram>,
    watched: Option<Watched>,
}

/// The manager ends a service that gives no sign of life.
struct Watched {
    interval: Duration,
    began: Instant,
    /// When the last sign was given, ms since `began`.
    last_ms: AtomicU64,
}

impl Watched {
    /// Whether a sign is due; it counts as given.
    fn is_due(&self) -> bool {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let is_due = Duration::from_millis(now_ms - self.last_ms.load(Ordering::Relaxed).min(now_ms)) >= self.interval;
        if is_due {
            self.last_ms.store(now_ms, Ordering::Relaxed);
        }
        is_due
    }
}

impl Manager {
    /// The one that the environment names. It is looked for while there are rights: its socket may be out of reach later.
    ///
    /// # Errors
    /// It is named, and isn't there.
    pub fn find() -> Result<Manager, String> {
        let line = line().map_err(|error| format!("the service manager (NOTIFY_SOCKET): {error}"))?;
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        // WATCHDOG_PID is not minded: app cores give the signs of the process that started them.
        let within_us = number("WATCHDOG_USEC").filter(|us| *us > 0 && line.is_some());
        let watched = within_us.map(|us| Watched {
            interval: Duration::from_micros(us) / SIGNS,
            began: Instant::now(),
            last_ms: AtomicU64::new(0),
        });
        Ok(Manager { line, watched })
    }

    /// The service listens. Whoever comes after it finds it.
    ///
    /// # Errors
    /// The manager can't be told: it would wait, and then end the service.
    pub fn tell_ready(&self) -> Result<(), String> {
        let told = self.line.as_ref().map_or(Ok(0), |line| line.send(b"READY=1"));
        told.map(drop).map_err(|error| format!("tell the service manager (NOTIFY_SOCKET): {error}"))
    }

    /// The service goes on: called about once a second, or more often, by the thread that does its work.
    pub fn is_alive(&self) {
        if let (Some(line), Some(watched)) = (&self.line, &self.watched)
            && watched.is_due()
        {
            // Without waiting for a manager that does not listen; the next sign may come through.
            let _ = line.send(b"WATCHDOG=1");
        }
    }
}

/// To the manager. What is sent waits for nobody.
fn line() -> std::io::Result<Option<UnixDatagram>> {
    let Some(manager) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(None) };
    let address = match manager.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&manager)?,
    };
    let line = UnixDatagram::unbound()?;
    line.set_nonblocking(true)?;
    line.connect_addr(&address)?;
    Ok(Some(line))
}
