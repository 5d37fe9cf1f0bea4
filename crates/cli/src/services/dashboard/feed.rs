//! [`Feed`]: what `qanat status` says each second. A process of its own asks, with the rights of whoever started this one, which itself gives
//! them up.

use crate::log;
use bytes::Bytes;
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a status at most; a longer one is left out, and told as an error.
const STATUS_BYTES_MAX: u64 = 4 << 20;

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
        // A terminal's Ctrl-C is for this process: that one ends when nobody reads what it says.
        let child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("a process that asks the daemon: {error}"))?;
        *self.output.lock().unwrap_or_else(PoisonError::into_inner) = child.stdout;
        Ok(())
    }

    /// Begins to hear, on a thread of its own, which ends this process if there is nothing more to be heard.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn hear(&self) -> Result<(), String> {
        let Some(output) = self.output.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        let latest = self.latest();
        let thread = std::thread::Builder::new().name("status".to_owned());
        let thread = thread.spawn(move || {
            let error = hear(BufReader::new(output), &latest);
            let why = error.map_or_else(|| "has ended".to_owned(), |error| error.to_string());
            log::error!("failed", "the process that asks the daemon: {why}; start the dashboard again");
            log::flush();
            std::process::exit(crate::exit::FAILED.into())
        });
        thread.map(drop).map_err(|error| format!("a thread: {error}"))
    }
}

/// Takes one line after the other. Returns when no more come; an error, if that is why.
fn hear(mut output: impl BufRead, latest: &Latest) -> Option<std::io::Error> {
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(STATUS_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) if line.pop() == Some(b'\n') => latest.set(line),
            Ok(_) => {
                latest.set_error(&format!("the status is longer than {} MiB", STATUS_BYTES_MAX >> 20));
                if let Err(error) = output.skip_until(b'\n') {
                    return Some(error);
                }
            }
            Err(error) => return Some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_what_is_shown() {
        let latest = Feed::new().latest();
        assert!(hear(&b"{\"vnics\": []}\n{\"vnics\": [1]}\n"[..], &latest).is_none());
        assert_eq!(latest.get(), "{\"vnics\": [1]}");
    }

    #[test]
    fn one_that_is_too_long_is_told_and_the_next_is_shown() {
        let latest = Feed::new().latest();
        let long = vec![b'x'; STATUS_BYTES_MAX as usize + 10];
        assert!(hear(&long[..], &latest).is_none());
        assert!(latest.get().starts_with(b"{\"error\":"), "{:?}", latest.get());
        assert!(hear(&[&long[..], b"\n{}\n"].concat()[..], &latest).is_none());
        assert_eq!(latest.get(), "{}");
    }
}
