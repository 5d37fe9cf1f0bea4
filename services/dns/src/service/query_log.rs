//! A sample of the queries as JSON lines, written by a thread of its own: a slow disk must not slow answers.

use super::config::LogConfig;
use crate::answer::{Outcome, Transport};
use crate::message::HEADER_LENGTH;
use crate::name::Presentation;
use crate::zone::type_name;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Lines that wait for the disk at most.
const QUEUE_MAX: usize = 1_024;

/// The query log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("query log {}: {error}; name a file that this user may write", path.display())]
pub struct QueryLogError {
    path: PathBuf,
    error: io::Error,
}

/// The log's front end, on the service's thread.
pub(super) struct QueryLog {
    sample_every: u32,
    until_next: u32,
    sender: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
    /// Lines lost: the disk is too slow.
    pub(super) drops: u64,
}

impl QueryLog {
    /// Opens the file for appending and starts the writer.
    pub(super) fn open(config: &LogConfig) -> Result<QueryLog, QueryLogError> {
        QueryLog::start(config).map_err(|error| QueryLogError { path: config.file.clone(), error })
    }

    fn start(config: &LogConfig) -> io::Result<QueryLog> {
        let mut file = OpenOptions::new().append(true).create(true).open(&config.file)?;
        let (sender, lines) = sync_channel::<String>(QUEUE_MAX);
        let thread = std::thread::Builder::new().name("dns-query-log".into()).spawn(move || {
            for line in lines {
                // A full disk must not end the server.
                let _ = file.write_all(line.as_bytes());
            }
        })?;
        let sample_every = config.sample_every;
        Ok(QueryLog { sample_every, until_next: sample_every, sender: Some(sender), thread: Some(thread), drops: 0 })
    }

    /// A query and its answer, `message`.
    #[inline]
    pub(super) fn query(&mut self, outcome: &Outcome, message: &[u8], peer: SocketAddr, transport: Transport) {
        let outcome = *outcome;
        self.until_next -= 1;
        if self.until_next == 0 {
            self.until_next = self.sample_every;
            self.line(&outcome, message, peer, transport);
        }
    }

    #[cold]
    fn line(&mut self, outcome: &Outcome, message: &[u8], peer: SocketAddr, transport: Transport) {
        let name = outcome.question_end.checked_sub(4).and_then(|end| message.get(HEADER_LENGTH..end));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let line = serde_json::json!({
            "time": time.as_secs_f64(),
            "peer": peer.ip().to_string(),
            "port": peer.port(),
            "transport": if transport == Transport::Tcp { "tcp" } else { "udp" },
            "name": name.map(|name| Presentation(name).to_string()),
            "type": name.map(|_| type_name(outcome.qtype)),
            "opcode": message.get(2).map_or(0, |flags| flags >> 3 & 0xf),
            "rcode": outcome.rcode,
            "truncated": outcome.truncated,
            "bytes": outcome.length,
        });
        let sent = self.sender.as_ref().is_some_and(|sender| sender.try_send(format!("{line}\n")).is_ok());
        self.drops += u64::from(!sent);
    }
}

impl Drop for QueryLog {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing to say here.
            let _ = thread.join();
        }
    }
}
