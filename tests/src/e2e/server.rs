//! `qanat web`, and services that are like it, as their users run them.

use super::patience::PATIENCE;
use super::program::{qanat, workspace};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    lines: Receiver<String>,
    serving: Value,
    seen: Vec<String>,
    errors: Arc<Mutex<String>>,
}

/// What a server said when it had stopped.
#[derive(Debug)]
pub struct Stopped {
    /// Its last line.
    pub last: Value,
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
}

impl Server {
    /// Runs `qanat web --json ARGUMENTS` and waits until it serves.
    ///
    /// # Panics
    /// It does not start; with what it said.
    pub fn start(arguments: &[&str]) -> Server {
        Server::try_start(arguments).unwrap_or_else(|error| panic!("qanat web {arguments:?}: {error}"))
    }

    /// The same, for a server that may refuse.
    ///
    /// # Errors
    /// What it wrote to standard error.
    pub fn try_start(arguments: &[&str]) -> Result<Server, String> {
        Server::try_start_as("web", arguments)
    }

    /// The same, of another service with addresses that browsers know: `video`.
    ///
    /// # Errors
    /// What it wrote to standard error.
    pub fn try_start_as(service: &str, arguments: &[&str]) -> Result<Server, String> {
        let mut command = Command::new(qanat());
        command.args([service, "--json"]).args(arguments).current_dir(workspace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let lines = read_lines(child.stdout.take());
        let mut server = Server { child, lines, serving: Value::Null, seen: Vec::new(), errors: Arc::default() };
        match server.wait_for("serving", PATIENCE) {
            Some(serving) => {
                server.serving = serving;
                server.collect_errors();
                Ok(server)
            }
            None => {
                let _ = server.child.kill();
                let mut text = String::new();
                if let Some(mut stderr) = server.child.stderr.take() {
                    let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
                }
                Err(text)
            }
        }
    }

    /// The URL of `path`, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        let first = self.serving["urls"][0].as_str().unwrap_or_default();
        format!("{}{path}", first.trim_end_matches('/'))
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        let url = self.url("");
        let (text, port) = match url.strip_prefix("https://") {
            Some(text) => (text, 443),
            None => (url.trim_start_matches("http://"), 80),
        };
        text.parse().unwrap_or_else(|_| SocketAddr::new(text.parse().expect("an address in the URL"), port))
    }

    /// The line the server announced itself with.
    pub fn announcement(&self) -> &Value {
        &self.serving
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal by its name.
    pub fn signal(&self, signal: rustix::process::Signal) {
        if let Some(process) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            rustix::process::kill_process(process, signal).expect("signalling the server");
        }
    }

    /// The next line of live figures; at most a second old.
    ///
    /// # Panics
    /// None comes.
    pub fn figures(&mut self) -> Value {
        while let Ok(line) = self.lines.try_recv() {
            self.seen.push(line);
        }
        self.wait_for("figures", PATIENCE).expect("live figures every second")
    }

    /// Figures as soon as `wanted` likes them.
    ///
    /// # Panics
    /// It never does.
    pub fn figures_when(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let figures = self.figures();
            if wanted(&figures) {
                return figures;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: never; last {figures}");
        }
    }

    /// What it wrote to standard error since it serves.
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn collect_errors(&mut self) {
        let (errors, stderr) = (Arc::clone(&self.errors), self.child.stderr.take());
        std::thread::spawn(move || {
            for line in stderr.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                errors.lock().unwrap_or_else(PoisonError::into_inner).push_str(&(line + "\n"));
            }
        });
    }

    /// The first line about `event`, said already or within `patience`, and [`PATIENCE`], that `wanted` likes.
    ///
    /// # Panics
    /// None comes.
    pub fn said(&mut self, event: &str, patience: Duration, wanted: impl Fn(&Value) -> bool) -> Value {
        let fits = |line: &String| {
            let value: Value = serde_json::from_str(line).unwrap_or(Value::Null);
            (value["event"] == event && wanted(&value)).then_some(value)
        };
        if let Some(value) = self.seen.iter().find_map(fits) {
            return value;
        }
        let deadline = Instant::now() + patience.max(PATIENCE);
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            let found = fits(&line);
            self.seen.push(line);
            if let Some(value) = found {
                return value;
            }
        }
        panic!("no {event} as wanted within {patience:?}; said {:?}", self.seen);
    }

    /// Stops it gracefully, and returns its accounts.
    ///
    /// # Panics
    /// It does not end in time.
    pub fn stop(self) -> Stopped {
        self.signal(rustix::process::Signal::TERM);
        self.wait()
    }

    /// Waits for the end of a server that was told to stop.
    ///
    /// # Panics
    /// It does not end in time.
    pub fn wait(mut self) -> Stopped {
        let last = self.wait_for("stopped", PATIENCE);
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        let code = self.child.wait().ok().and_then(|status| status.code());
        let last = last.unwrap_or_else(|| panic!("the server ended ({code:?}) without its last line: {:?}", self.seen));
        Stopped { last, code }
    }

    /// Ends it as a crash would: `kill -9`.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wait_for(&mut self, event: &str, patience: Duration) -> Option<Value> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let value: Value = serde_json::from_str(&line).unwrap_or(Value::Null);
                    if value["event"] == event {
                        return Some(value);
                    }
                    self.seen.push(line);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stopped {
    /// What is not back at zero, as `name=count`: connections, flows, timers, frames. TIME-WAIT is no leak (RFC 9293
    /// keeps it two MSL), neither is what it holds: those are taken off.
    pub fn leaks(&self) -> Vec<String> {
        if self.last["kernel"].is_object() {
            // The stack is the kernel's: what the placement holds of it.
            let held = ["connections", "frames_in_use"].map(|name| (name, &self.last["kernel"][name]));
            return held.into_iter().filter(|(_, count)| **count != 0).map(|it| format!("{it:?}")).collect();
        }
        let usage = &self.last["usage"];
        let count = |name: &str| usage[name].as_u64().unwrap_or(u64::MAX);
        let waiting = count("time_wait");
        let mut leaks = Vec::new();
        for (name, allowed) in [
            ("connections", 0),
            ("half_open", 0),
            ("flows", waiting),
            ("timers", waiting + count("neighbours") + 1),
            ("transmit_frames_in_use", 0),
        ] {
            if count(name) > allowed {
                leaks.push(format!("{name}={} (at most {allowed})", usage[name]));
            }
        }
        // Frames of content stay ready, where there is such; each must be known to the content it is for.
        let web = &self.last["web"];
        let ready = if web.is_null() { &Value::from(0) } else { &web["ready_frames"] };
        if usage["prepared_frames_in_use"] != *ready {
            leaks.push(format!("prepared frames lost: {usage} {}", self.last["web"]));
        }
        leaks
    }
}

fn read_lines(stdout: Option<ChildStdout>) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(stdout) = stdout {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
