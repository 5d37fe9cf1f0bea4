//! [`Feed`]: what `qanat status` says each second. A process of its own asks, with the rights of whoever started this one, which itself gives
//! them up.

use crate::log;
use bytes::Bytes;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a status at most; a longer one is cut off, and told as an error.
const STATUS_BYTES_MAX: u64 = 8 << 20;

/// The status that was heard last, as JSON.
#[derive(Clone, Debug)]
pub struct Latest(Arc<Mutex<Bytes>>);

impl Latest {
    /// It.
    pub fn get(&self) -> Bytes {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, text: impl Into<Bytes>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }

    fn set_error(&self, error: &str) {
        self.set(json!({ "error": error }).to_string());
    }
}

/// See the module.
#[derive(Debug)]
pub struct Feed {
    latest: Latest,
    /// Until a thread reads it.
    output: Mutex<Option<ChildStdout>>,
}

impl Feed {
    /// Nothing is asked yet.
    pub fn new() -> Feed {
        let latest = Latest(Arc::default());
        latest.set_error("the daemon is being asked");
        Feed { latest, output: Mutex::new(None) }
    }

    /// What was heard last, for another thread.
    pub fn latest(&self) -> Latest {
        self.latest.clone()
    }

    /// Starts to ask the daemon that listens at `socket`. The process that asks ends when nobody hears it any more.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(&self, socket: &Path) -> Result<(), String> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["status", "--json", "--every", "1", "--socket"]).arg(socket).args(log::forwarded());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("a process that asks the daemon: {error}"))?;
        *self.output.lock().unwrap_or_else(PoisonError::into_inner) = child.stdout;
        Ok(())
    }

    /// Begins to hear, on a thread of its own.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn hear(&self) -> Result<(), String> {
        let Some(output) = self.output.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        let latest = self.latest();
        let thread = std::thread::Builder::new().name("status".to_owned());
        let thread = thread.spawn(move || {
            let why = hear(BufReader::new(output), &latest);
            latest.set_error(&why);
            log::error!("dashboard", "{why}");
        });
        thread.map(drop).map_err(|error| format!("a thread: {error}"))
    }
}

/// Takes one line after the other. Returns why no more come.
fn hear(mut output: impl BufRead, latest: &Latest) -> String {
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(STATUS_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return "the process that asks the daemon has ended: start the dashboard again".to_owned(),
            Ok(_) if line.pop() == Some(b'\n') => latest.set(line),
            Ok(_) => return format!("the status is longer than {STATUS_BYTES_MAX} bytes"),
            Err(error) => return format!("the process that asks the daemon: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_what_is_shown_and_an_end_is_told() {
        let latest = Feed::new().latest();
        let why = hear(&b"{\"vnics\": []}\n{\"vnics\": [1]}\n"[..], &latest);
        assert_eq!(latest.get(), "{\"vnics\": [1]}");
        assert!(why.contains("has ended"), "{why}");
        let endless = BufReader::new(std::io::repeat(b'x'));
        assert!(hear(endless, &latest).contains("longer"), "memory is bounded");
    }
}
