//! Programs run by tests: bounded in time, and ended with the test.

use super::patience::PATIENCE;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The top of the checkout.
pub fn workspace() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().map(Path::to_owned).unwrap_or_default()
}

/// The `qanat` command: `$QANAT_BIN`, or the one built beside this test.
///
/// # Panics
/// There is none; says how to build it.
pub fn qanat() -> PathBuf {
    let path = std::env::var_os("QANAT_BIN").map_or_else(
        || {
            // target/release/deps/this_test → target/release/qanat
            let test = std::env::current_exe().unwrap_or_default();
            test.ancestors().nth(2).map(|directory| directory.join("qanat")).unwrap_or_default()
        },
        PathBuf::from,
    );
    let path = if path.is_absolute() { path } else { workspace().join(path) };
    assert!(
        path.is_file(),
        "no qanat command at {}: build it with `cargo build --release --package qanat-cli` (with --release here too), \
         or name it in QANAT_BIN",
        path.display()
    );
    path
}

/// `libqanat-native.so.1`, made of what was built beside [`qanat()`].
///
/// # Panics
/// It can't be made; says how to build what it is made of.
pub fn native_library() -> PathBuf {
    let directory = qanat().parent().map(Path::to_owned).unwrap_or_default();
    let profile = directory.file_name().unwrap_or_default();
    Program::new(workspace().join("tools/native")).arguments([profile]).succeeds();
    directory.join("libqanat-native.so.1")
}

/// For `setpriv`: a user without any capability.
pub const NOBODY: [&str; 5] =
    ["--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"];

/// A directory that anybody may read and write: a service that root starts becomes a user without rights.
///
/// # Panics
/// There is no room for it.
pub fn directory_for_anybody() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("qanat-e2e").tempdir().expect("a temporary directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(directory.path(), open).expect("its mode");
    directory
}

/// A copy of the command in `directory`, where anybody may run it and read what is beside it.
///
/// # Panics
/// There is no command, or no room for it.
pub fn qanat_for_anybody(directory: &Path) -> PathBuf {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory, open).expect("its mode");
    let command = directory.join("qanat");
    std::fs::copy(qanat(), &command).expect("the command where anybody may run it");
    command
}

/// Resident memory of a process, KiB.
pub fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A program to run.
#[derive(Debug)]
pub struct Program {
    command: Command,
    patience: Duration,
}

/// What it did.
#[derive(Debug)]
pub struct Outcome {
    /// The command line.
    pub line: String,
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Outcome {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

impl Program {
    /// `program`, found on the path; nothing on its standard input.
    pub fn new(program: impl AsRef<OsStr>) -> Program {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Program { command, patience: PATIENCE }
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Program {
        self.command.args(arguments);
        self
    }

    /// Runs in `directory`.
    #[must_use]
    pub fn directory(mut self, directory: impl AsRef<Path>) -> Program {
        self.command.current_dir(directory);
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.command.env(name, value);
        self
    }

    /// Its standard input is open for as long as it runs.
    #[must_use]
    pub fn piped(mut self) -> Program {
        self.command.stdin(Stdio::piped());
        self
    }

    /// How long it may take ([`PATIENCE`] unless told).
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Program {
        self.patience = patience;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// It can't be started, or takes too long.
    pub fn run(self) -> Outcome {
        let patience = self.patience;
        self.start().wait(patience)
    }

    /// Runs it to its end, which must be a good one.
    ///
    /// # Panics
    /// It fails.
    pub fn succeeds(self) -> Outcome {
        let outcome = self.run();
        assert_eq!(outcome.code, Some(0), "{}\n{}{}", outcome.line, outcome.text(), outcome.stderr);
        outcome
    }

    /// Starts it, in a process group of its own.
    ///
    /// # Panics
    /// It can't be started.
    pub fn start(mut self) -> Running {
        std::os::unix::process::CommandExt::process_group(&mut self.command, 0);
        let line = format!("{:?}", self.command);
        let mut child = self
            .command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{line}: {error}; `make test-deps` installs what the tests run"));
        let stdout = gather(child.stdout.take());
        let stderr = gather(child.stderr.take());
        Running { line, child, stdout, stderr }
    }
}

type Gatherer = Option<JoinHandle<Vec<u8>>>;

fn gather(pipe: Option<impl Read + Send + 'static>) -> Gatherer {
    let mut pipe = pipe?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    }))
}

/// All that came, once the pipe is closed.
fn gathered(gatherer: &mut Gatherer) -> Vec<u8> {
    gatherer.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
}

/// A program under way; dropping it kills it.
#[derive(Debug)]
pub struct Running {
    line: String,
    child: Child,
    stdout: Gatherer,
    stderr: Gatherer,
}

impl Running {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Writes to its standard input, which is [piped](Program::piped).
    ///
    /// # Panics
    /// It is not.
    pub fn say(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        // A program that has ended reads no more: what it did is seen in the end.
        let _ = input.write_all(text.as_bytes());
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It takes longer than `patience`, and [`PATIENCE`]; it is killed then.
    pub fn wait(mut self, patience: Duration) -> Outcome {
        let (start, patience) = (Instant::now(), patience.max(PATIENCE));
        let status = loop {
            match self.child.try_wait().expect("waiting for a child") {
                Some(status) => break Some(status),
                None if start.elapsed() > patience => break None,
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        if status.is_none() {
            self.kill();
        }
        let stdout = gathered(&mut self.stdout);
        let stderr = String::from_utf8_lossy(&gathered(&mut self.stderr)).into_owned();
        let outcome = Outcome { line: self.line.clone(), code: status.and_then(|s| s.code()), stdout, stderr };
        assert!(status.is_some(), "{}: no end after {patience:?}\n{}{}", outcome.line, outcome.text(), outcome.stderr);
        outcome
    }

    /// Kills it with all its descendants of the same process group.
    pub fn kill(&mut self) {
        if let Ok(None) = self.child.try_wait()
            && let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    /// What it said is part of why a test failed.
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            // A descendant that left the group may hold the pipes for as long as it lives.
            let is_whole = |gatherer: &Gatherer| gatherer.as_ref().is_none_or(|thread| thread.is_finished());
            for _ in 0..100 {
                if is_whole(&self.stdout) && is_whole(&self.stderr) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            for gatherer in [&mut self.stdout, &mut self.stderr] {
                let said = if is_whole(gatherer) { gathered(gatherer) } else { b"(held open)".to_vec() };
                eprintln!("{} said: {}", self.line, String::from_utf8_lossy(&said));
            }
        }
    }
}

/// What a command says to people, with lines that it folded as they were before.
pub fn unfolded(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match lines.last_mut().filter(|_| line.starts_with(' ')) {
            Some(last) => *last = format!("{last} {}", line.trim_start()),
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}
