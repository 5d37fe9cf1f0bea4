//! Children: in a namespace, pinned to a processor, and gone when their owner is, however it ends.

use super::{HarnessError, cpu};
use qanat_nic::link::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a child may take to end when asked to.
const GRACE: Duration = Duration::from_secs(3);
/// Most of a child's output shown in an error, bytes from the end.
const ERROR_BYTES_MAX: usize = 2_000;
/// Sends a signal to its child when its own parent dies; part of util-linux.
const SETPRIV: &str = "/usr/bin/setpriv";

/// What to start, where.
#[derive(Clone, Debug)]
pub struct Spec {
    /// For messages.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its network namespace; `None`: ours.
    pub namespace: Option<Namespace>,
    /// Its processor; `None`: any.
    pub cpu: Option<usize>,
}

impl Spec {
    /// `program` with `arguments`, called `name` in messages.
    pub fn new(name: &str, program: impl AsRef<Path>, arguments: &[&str]) -> Spec {
        Spec {
            name: name.to_owned(),
            program: program.as_ref().to_owned(),
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            namespace: None,
            cpu: None,
        }
    }

    /// In `namespace`, on `cpu`.
    pub fn placed(mut self, namespace: &Namespace, cpu: usize) -> Spec {
        self.namespace = Some(namespace.clone());
        self.cpu = Some(cpu);
        self
    }
}

/// A running child. Dropping it ends it: SIGTERM, then SIGKILL.
pub struct Running {
    name: String,
    child: Option<Child>,
    stdout: Option<BufReader<std::process::ChildStdout>>,
    errors: Option<JoinHandle<String>>,
    /// The thread that is the child's parent: the kernel's parent-death signal goes by thread.
    parent: Option<(mpsc::Sender<()>, JoinHandle<()>)>,
}

/// Starts a child.
///
/// # Errors
/// [`HarnessError::System`] with the program's name.
pub fn start(spec: &Spec) -> Result<Running, HarnessError> {
    let (result_sender, result_receiver) = mpsc::channel();
    let (end_sender, end_receiver) = mpsc::channel::<()>();
    let wanted = spec.clone();
    let parent = std::thread::Builder::new().name("qanat-parent".to_owned()).spawn(move || {
        let namespace = wanted.namespace.clone();
        let work = move || {
            let _ = result_sender.send(spawn(&wanted));
            // Until the owner drops its end.
            let _ = end_receiver.recv();
        };
        match namespace {
            // If it can't be entered, `work` is dropped with its sender, which the owner sees.
            Some(namespace) => drop(namespace.within(work)),
            None => work(),
        }
    });
    let parent = parent.map_err(|error| HarnessError::system("start a thread", error))?;
    let child = result_receiver.recv().unwrap_or_else(|_| Err(std::io::Error::other("its namespace can't be entered")));
    let mut child = child
        .map_err(|error| HarnessError::system(format!("start {} ({})", spec.name, spec.program.display()), error))?;
    let stdout = child.stdout.take().map(BufReader::new);
    let errors = child.stderr.take().map(|mut stderr| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            tail(&bytes)
        })
    });
    Ok(Running { name: spec.name.clone(), child: Some(child), stdout, errors, parent: Some((end_sender, parent)) })
}

fn spawn(spec: &Spec) -> std::io::Result<Child> {
    if let Some(cpu) = spec.cpu {
        cpu::pin(cpu).map_err(std::io::Error::other)?;
    }
    let mut command = if Path::new(SETPRIV).exists() {
        let mut command = Command::new(SETPRIV);
        command.args(["--pdeathsig", "TERM", "--"]).arg(&spec.program);
        command
    } else {
        Command::new(&spec.program)
    };
    command.args(&spec.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

fn tail(bytes: &[u8]) -> String {
    let from = bytes.len().saturating_sub(ERROR_BYTES_MAX);
    String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).trim().to_owned()
}

impl Running {
    /// Process number.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// The next line it prints.
    ///
    /// # Errors
    /// [`HarnessError::Child`] if it ended instead, with what it said on stderr.
    pub fn read_line(&mut self) -> Result<String, HarnessError> {
        let mut line = String::new();
        let read = self.stdout.as_mut().map_or(Ok(0), |stdout| stdout.read_line(&mut line));
        match read {
            Ok(1..) => Ok(line.trim_end().to_owned()),
            _ => Err(self.failure("ended before it was ready")),
        }
    }

    /// From now on reads and forgets what it prints, so that it never waits for a reader.
    pub fn drain(&mut self) {
        if let Some(mut stdout) = self.stdout.take() {
            std::thread::spawn(move || {
                let mut memory = [0u8; 4096];
                while matches!(stdout.read(&mut memory), Ok(1..)) {}
            });
        }
    }

    /// Waits for it to end by itself, at most `patience`, and returns what it printed.
    ///
    /// # Errors
    /// [`HarnessError::Child`] if it fails or takes too long.
    pub fn output(mut self, patience: Duration) -> Result<String, HarnessError> {
        let Some(mut stdout) = self.stdout.take() else { return Ok(String::new()) };
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).map(|_| text)
        });
        let Some(status) = self.wait(patience) else {
            return Err(HarnessError::Child(format!("{} did not end within {patience:?}", self.name)));
        };
        let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
        if status.success() { Ok(text) } else { Err(self.failure(&format!("failed ({status})"))) }
    }

    /// Asks it to end (SIGTERM), waits, and returns what it printed and nobody has read.
    ///
    /// # Errors
    /// [`HarnessError::Child`] if it fails or takes too long.
    pub fn stop(self) -> Result<String, HarnessError> {
        if let Some(process) = Pid::from_raw(self.id().cast_signed()) {
            let _ = kill_process(process, Signal::TERM);
        }
        self.output(GRACE)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.as_mut()?.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    /// Ends it and returns an error that tells what it said last.
    pub fn failure(&mut self, what: &str) -> HarnessError {
        self.end();
        let said = self.errors.take().and_then(|errors| errors.join().ok()).unwrap_or_default();
        let said = if said.is_empty() { "it said nothing".to_owned() } else { said };
        HarnessError::Child(format!("{} {what}: {said}", self.name))
    }

    fn end(&mut self) {
        if self.is_running() {
            if let Some(process) = Pid::from_raw(self.id().cast_signed()) {
                let _ = kill_process(process, Signal::TERM);
            }
            if self.wait(GRACE).is_none()
                && let Some(child) = self.child.as_mut()
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        if let Some((end, parent)) = self.parent.take() {
            drop(end);
            let _ = parent.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until `ready` says so, at most `patience`; false if it never did.
pub fn wait_until(patience: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if ready() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_ends_children() {
        let patience = Duration::from_secs(5);
        let echo = start(&Spec::new("echo", "/bin/echo", &["hello"])).unwrap();
        assert_eq!(echo.output(patience).unwrap(), "hello\n");
        let mut sleep = start(&Spec::new("sleep", "/bin/sleep", &["100"])).unwrap();
        assert!(sleep.is_running());
        let id = sleep.id();
        drop(sleep);
        assert!(!Path::new(&format!("/proc/{id}")).exists());
        let mut pinned = Spec::new("sh", "/bin/sh", &["-c", "grep Cpus_allowed_list /proc/self/status"]);
        pinned.cpu = Some(0);
        assert!(start(&pinned).unwrap().output(patience).unwrap().trim_end().ends_with("\t0"));
    }

    #[test]
    fn failures_say_what_was_said() {
        let failing = start(&Spec::new("sh", "/bin/sh", &["-c", "echo why >&2; exit 3"])).unwrap();
        let error = failing.output(Duration::from_secs(5)).unwrap_err().to_string();
        assert!(error.contains("why") && error.contains('3'), "{error}");
        let mut silent = start(&Spec::new("true", "/bin/true", &[])).unwrap();
        assert!(silent.read_line().unwrap_err().to_string().contains("said nothing"));
        let slow = start(&Spec::new("sleep", "/bin/sleep", &["100"])).unwrap();
        assert!(slow.output(Duration::from_millis(20)).is_err());
    }
}
