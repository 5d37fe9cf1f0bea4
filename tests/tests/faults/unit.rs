//! A service under a manager that starts it again, as systemd does with `Restart=always`: whatever it ended with, after a pause, once
//! all of its process group has gone or was killed.

use super::machine::Machine;
use super::processes;
use qanat_tests::e2e::eventually;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// `RestartSec`.
const PAUSE: Duration = Duration::from_millis(200);
/// `TimeoutStopSec`.
const FAREWELL: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
/// Of what a life said, this much is kept.
const SAID_MAX: usize = 4_000;

/// A life that is over.
#[derive(Clone, Debug)]
pub struct Life {
    pub status: ExitStatus,
    /// The end of its standard error.
    pub stderr: String,
    /// The last line of its standard output.
    pub last: String,
}

type Recipe = Arc<dyn Fn() -> Command + Send + Sync>;

struct State {
    name: String,
    recipe: Recipe,
    directory: PathBuf,
    wanted: AtomicBool,
    /// Not to be started for now.
    held: AtomicBool,
    /// Its first process, as long as that may be signalled.
    process: Mutex<Option<Pid>>,
    lives: Mutex<Vec<Life>>,
}

pub struct Unit {
    pub machine: Arc<Machine>,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tail(path: &Path) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let start = text.char_indices().rev().nth(SAID_MAX).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default().to_owned()
}

impl State {
    fn output(&self, ending: &str) -> PathBuf {
        self.directory.join(format!("{}.{ending}", self.name))
    }

    /// One life, until its end.
    fn live(&self) {
        let mut command = (self.recipe)();
        let file = |ending| File::create(self.output(ending)).expect("a file for what it says");
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).process_group(0);
        let mut process = lock(&self.process);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pid = Pid::from_child(&child);
        *process = Some(pid);
        drop(process);
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while matches!(waitid(WaitId::Pid(pid), look), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let mut process = lock(&self.process);
        *process = None;
        let status = child.wait().expect("its status");
        drop(process);
        clear_group(pid);
        let said = String::from_utf8_lossy(&std::fs::read(self.output("out")).unwrap_or_default()).into_owned();
        let last = said.lines().last().unwrap_or_default().to_owned();
        lock(&self.lives).push(Life { status, stderr: tail(&self.output("err")), last });
    }

    fn manage(&self) {
        while self.wanted.load(Ordering::SeqCst) {
            self.live();
            let ended = Instant::now();
            while self.wanted.load(Ordering::SeqCst) && (ended.elapsed() < PAUSE || self.held.load(Ordering::SeqCst)) {
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// What a manager does with what is left of a service whose first process has ended.
fn clear_group(group: Pid) {
    for signal in [Signal::TERM, Signal::KILL] {
        let began = Instant::now();
        let mut is_told = false;
        while !processes::of_group(group.as_raw_nonzero().get()).is_empty() {
            if !is_told {
                let _ = kill_process_group(group, signal);
                is_told = true;
            }
            if signal == Signal::TERM && began.elapsed() > FAREWELL {
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Unit {
    /// Starts it on `machine`; what it says lies in `directory`.
    pub fn start(
        machine: &Arc<Machine>,
        name: &str,
        directory: &Path,
        recipe: impl Fn() -> Command + Send + Sync + 'static,
    ) -> Unit {
        let state = Arc::new(State {
            name: name.to_owned(),
            recipe: Arc::new(recipe),
            directory: directory.to_owned(),
            wanted: AtomicBool::new(true),
            held: AtomicBool::new(false),
            process: Mutex::default(),
            lives: Mutex::default(),
        });
        let (own, place) = (Arc::clone(&state), Arc::clone(machine));
        let thread = std::thread::spawn(move || place.within(|| own.manage()));
        Unit { machine: Arc::clone(machine), state, thread: Some(thread) }
    }

    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Its first process.
    pub fn process(&self) -> Option<Pid> {
        *lock(&self.state.process)
    }

    /// All lives that are over, first to last.
    pub fn lives(&self) -> Vec<Life> {
        lock(&self.state.lives).clone()
    }

    pub fn lives_count(&self) -> usize {
        lock(&self.state.lives).len()
    }

    /// What it has said in this life.
    pub fn stderr(&self) -> String {
        tail(&self.state.output("err"))
    }

    /// A signal to its first process, and to no other that has its number later. Whether there was one.
    pub fn signal(&self, signal: Signal) -> bool {
        let process = lock(&self.state.process);
        process.is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// What its processes are at, for people to read: each thread's state, the system call that it is in, and what it used of processors.
    pub fn look(&self) -> String {
        let first = self.process();
        let lives = self.lives();
        let mut all = vec![format!("{} lives are over, {first:?} lives", lives.len())];
        all.extend(lives.iter().rev().take(2).map(|life| format!("{life:?}")));
        let own = first.map(|pid| pid.as_raw_nonzero().get());
        for id in own.into_iter().chain(self.descendants().iter().map(|process| process.id)) {
            all.push(processes::look(id));
        }
        all.push(tail(&self.state.output("out")));
        all.join("\n")
    }

    /// Its processes, the first one left out: descendants, and what else of its process group there is.
    pub fn descendants(&self) -> Vec<processes::Process> {
        let Some(pid) = self.process() else { return Vec::new() };
        let first = pid.as_raw_nonzero().get();
        let list = self.machine.processes();
        let mut found = processes::below(&list, first);
        for other in list.into_iter().filter(|process| process.group == first && process.id != first) {
            if found.iter().all(|process| process.id != other.id) {
                found.push(other);
            }
        }
        found
    }

    /// Once ended, it is not started again before this is taken back.
    pub fn hold(&self, is_held: bool) {
        self.state.held.store(is_held, Ordering::SeqCst);
    }

    /// From now on it is not started again.
    pub fn retire(&self) {
        self.state.wanted.store(false, Ordering::SeqCst);
    }

    /// Ends it as a manager does, and gives its last life.
    pub fn stop(mut self) -> Option<Life> {
        self.retire();
        let before = self.lives_count();
        self.signal(Signal::TERM);
        let began = Instant::now();
        eventually(&format!("{} ends", self.name()), FAREWELL * 4, || {
            // Told a second time, a server waits for nobody.
            if began.elapsed() > FAREWELL {
                self.signal(Signal::TERM);
                std::thread::sleep(Duration::from_millis(500));
            }
            self.thread.as_ref().is_none_or(JoinHandle::is_finished)
        });
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
        let lives = self.lives();
        lives.get(before..).and_then(<[Life]>::last).cloned()
    }
}

impl Drop for Unit {
    /// Nothing of a failed test goes on.
    fn drop(&mut self) {
        self.retire();
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() {
                self.signal(Signal::CONT);
                self.signal(Signal::KILL);
                self.descendants().iter().for_each(|process| process.signal(Signal::KILL));
                std::thread::sleep(LOOK);
            }
        }
        if std::thread::panicking() {
            eprintln!("--- {} said last: {}", self.name(), self.stderr());
        }
    }
}

impl Life {
    /// Whether it told why it ended, as a service must whose manager is to start it again: a status that is not 0, and a reason.
    pub fn is_explained(&self) -> bool {
        self.status.code().is_some_and(|code| code != 0) && !self.stderr.trim().is_empty()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}
