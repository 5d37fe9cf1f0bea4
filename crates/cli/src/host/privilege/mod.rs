//! A service that root starts gives up its rights once its card is open, and becomes a user without any; [`steward`] keeps what it
//! needs later, and does a few fixed things for it.
//!
//! ```text
//!   sudo qanat web ── card, sockets, log ──▶ [steward] ──▶ nobody: files read and checked, threads, packets
//! ```
//! Everything that a peer can reach happens to the right of it.

pub mod access;
pub mod paths;
pub mod steward;

use crate::log;
use clap::Args;
use nix::unistd::{Uid, User};
use qanat::confine::{Account, NOBODY, Places, ServiceNeeds, confine_service, is_whole};
use qanat_control::client::{asked, default_socket};
use qanat_control::steward::{Duties, NetCoreDuty, farewell};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread may take to be gone that has ended.
const THREADS_PATIENCE: Duration = Duration::from_secs(10);

/// Who serves.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Privilege")]
pub struct PrivilegeArguments {
    /// Once the card is open, go on as this user, by name or number, with none of root's rights (default: who called sudo, or
    /// nobody). It must be able to read what is served. `--user root` keeps all rights
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
}

/// What is to become of the rights.
enum Goal {
    /// All are kept: it was asked for.
    Keep,
    /// Another user, known by that name.
    Become(Account, String),
    /// The user who started this had no rights of root's, and the service stays that user's.
    Stay,
}

/// The rights of a service, and how it gives them up. Dropped, it lets the steward go.
pub struct Privilege {
    goal: Goal,
    needs: OnceLock<ServiceNeeds>,
    remove: Mutex<Vec<PathBuf>>,
    has_steward: AtomicBool,
    /// Connections of the kernel's TCP are made later.
    dials: AtomicBool,
    /// They are given up, by all threads.
    is_done: AtomicBool,
}

impl Privilege {
    /// As the command line says. `is_told`: who is to know that all rights are kept knows it already.
    ///
    /// # Errors
    /// There is no such user, or it can't be had.
    pub fn of(arguments: &PrivilegeArguments, what: &str, is_told: bool) -> Result<Privilege, String> {
        let own = rustix::process::geteuid().as_raw();
        let goal = match (&arguments.user, own) {
            (Some(user), 0) => named(user)?,
            (None, 0) => caller().unwrap_or_else(nobody),
            (Some(user), _) => match named(user)? {
                Goal::Become(account, _) if account.user == own => Goal::Stay,
                _ => return Err(format!("--user {user}: only root can become another user: start it with sudo")),
            },
            (None, _) => Goal::Stay,
        };
        if matches!(goal, Goal::Keep) && !is_told {
            log::warning!("all-rights", "{what} goes on with all of root's rights (--user root)");
        }
        Ok(Privilege {
            goal,
            needs: OnceLock::new(),
            remove: Mutex::default(),
            has_steward: AtomicBool::new(false),
            dials: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
        })
    }

    /// Whether another user goes on.
    pub fn changes_user(&self) -> bool {
        matches!(self.goal, Goal::Become(..))
    }

    /// A file that the service may not be able to remove itself when it ends.
    pub fn is_to_remove(&self, path: &Path) {
        // The steward may be somewhere else.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.to_remove().push(path);
    }

    fn to_remove(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.remove.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a file that the service is to write, if there is none: it may not be able to do so itself.
    ///
    /// # Errors
    /// It can't be made, or given to the user.
    pub fn make_file(&self, path: &Path) -> Result<(), String> {
        let Goal::Become(account, name) = &self.goal else { return Ok(()) };
        match OpenOptions::new().append(true).create_new(true).mode(0o640).open(path) {
            Ok(file) => std::os::unix::fs::fchown(&file, Some(account.user), Some(account.group))
                .map_err(|error| format!("{}: {error}: it can't be given to {name}; see --user", path.display())),
            // What is wrong with it is said by who opens it.
            Err(_) => Ok(()),
        }
    }

    /// Starts the steward, if there is to be one.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_steward(&self, net_cores: Vec<NetCoreDuty>) -> Result<(), String> {
        let has_own = net_cores.iter().any(|duty| matches!(duty, NetCoreDuty::Own(_)));
        let duties =
            Duties { daemon: Some(default_socket()), requests: asked(), net_cores, remove: self.to_remove().clone() };
        let has_duties = !(duties.requests.is_empty() && duties.net_cores.is_empty() && duties.remove.is_empty());
        let is_wanted = has_own || has_duties && self.changes_user();
        if !is_wanted || self.has_steward.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        steward::start(duties)
    }

    /// Gives up the rights of this process, which has one thread, and makes sure of it. Nothing happens the second time.
    ///
    /// # Errors
    /// What can't be given up.
    pub fn give_up(&self, places: Places) -> Result<(), String> {
        if self.is_given_up() {
            return Ok(());
        }
        self.start_steward(Vec::new())?;
        self.prepare(places);
        self.give_up_here()?;
        self.make_sure()
    }

    /// The service makes connections of the kernel's TCP itself. To be said before the rights are given up.
    pub fn is_to_dial(&self) {
        self.dials.store(true, Ordering::Release);
    }

    /// What the service goes on needing, for several threads that give up their rights one by one.
    pub fn prepare(&self, mut places: Places) {
        // To see that all threads have done so, and who sends HUP; and to read counters of XDP programs, which each processor has. Landlock
        // keeps what is private to other processes from this one.
        places.read.extend(["/proc", "/sys/devices/system/cpu"].map(PathBuf::from));
        // Who becomes somebody else has a steward for it.
        let connects = !self.changes_user();
        let dials = self.dials.load(Ordering::Acquire);
        self.needs.get_or_init(|| ServiceNeeds { places, connects, dials });
    }

    /// Gives up the rights of the calling thread.
    ///
    /// # Errors
    /// What can't be given up.
    pub fn give_up_here(&self) -> Result<(), String> {
        let account = match &self.goal {
            Goal::Keep => return Ok(()),
            Goal::Become(account, _) => Some(*account),
            Goal::Stay => None,
        };
        let needs = self.needs.get().filter(|_| !self.is_given_up());
        needs.map_or(Ok(()), |needs| {
            confine_service(account, needs).map_err(|why| format!("giving up rights: {why}; see --user"))
        })
    }

    /// Whether every thread has given up its rights.
    pub fn is_given_up(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Makes sure that every thread has given up its rights: nothing is served before.
    ///
    /// # Errors
    /// One has not.
    pub fn make_sure(&self) -> Result<(), String> {
        let begun = Instant::now();
        // One that has ended is listed for a moment.
        while !is_whole().map_err(|error| format!("looking at this process's threads: {error}"))? {
            if begun.elapsed() > THREADS_PATIENCE {
                return Err("a thread of this program still has rights: please report it".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.is_done.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether the user that this process became can use all of these files. It is asked once the rights are given up. A process that
    /// keeps its user is told by whatever fails.
    ///
    /// # Errors
    /// Which file, which user, and the remedy.
    pub fn check(&self, needs: &[access::Need]) -> Result<(), String> {
        match &self.goal {
            Goal::Become(account, name) => access::check(needs, account.user, name),
            Goal::Keep | Goal::Stay => Ok(()),
        }
    }
}

impl Drop for Privilege {
    fn drop(&mut self) {
        farewell();
    }
}

fn nobody() -> Goal {
    Goal::Become(Account { user: NOBODY, group: NOBODY }, "nobody".to_owned())
}

/// Who called sudo, if that was not root.
fn caller() -> Option<Goal> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok().filter(|number| *number != 0);
    let account = Account { user: number("SUDO_UID")?, group: number("SUDO_GID").unwrap_or(NOBODY) };
    let name = std::env::var("SUDO_USER").unwrap_or_else(|_| account.user.to_string());
    Some(Goal::Become(account, name))
}

fn named(text: &str) -> Result<Goal, String> {
    let failed = |error: nix::Error| format!("--user {text}: the machine's name service says {error}; give a number");
    let user = match text.parse::<u32>() {
        Ok(number) => User::from_uid(Uid::from_raw(number)).map_err(failed)?.ok_or(number),
        Err(_) => Ok(User::from_name(text).map_err(failed)?.ok_or_else(|| {
            format!("--user {text}: there is no such user: make it (`useradd --system {text}`), or name another")
        })?),
    };
    let (account, name) = match user {
        Ok(user) => (Account { user: user.uid.as_raw(), group: user.gid.as_raw() }, user.name),
        // A number that is nobody's account.
        Err(number) => (Account { user: number, group: NOBODY }, number.to_string()),
    };
    Ok(if account.user == 0 { Goal::Keep } else { Goal::Become(account, name) })
}
