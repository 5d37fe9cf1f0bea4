//! The access log in combined format, written by a thread of its own.
//!
//! Lines gather in a buffer; a full buffer, or every tick's, goes to the thread through a bounded channel. When the
//! thread is behind, lines are dropped and counted: a slow disk must not slow responses.

use crate::http::Request;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

const BUFFER_BYTES: usize = 32 * 1024;
/// Longest a client's text may be in a line, bytes.
const TEXT_BYTES_MAX: usize = 1024;
const QUEUE_MAX: usize = 32;

enum Message {
    Lines(Vec<u8>, u64),
    Reopen,
}

/// What a line says.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// When, seconds since 1970.
    pub seconds: u64,
    /// By whom.
    pub peer: SocketAddr,
    /// Who the client says it is.
    pub user: Option<&'a str>,
    /// It came as a stream.
    pub is_http2: bool,
    /// `None`: there was no telling what it is.
    pub request: Option<&'a Request<'a, 'a>>,
    /// The answer.
    pub status: u16,
    /// Bytes of its content.
    pub bytes: u64,
}

/// The log's front end, on the service's thread.
#[derive(Debug)]
pub struct AccessLog {
    buffer: Vec<u8>,
    /// Lines in the buffer.
    pending: u64,
    sender: Option<SyncSender<Message>>,
    recycled: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<()>>,
    lines: u64,
    drops: u64,
    failed: Arc<AtomicU64>,
    time: (u64, String),
}

impl AccessLog {
    /// Opens `path` for appending and starts the writer.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path) -> std::io::Result<AccessLog> {
        let file = open(path)?;
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        let (recycle, recycled) = sync_channel(QUEUE_MAX);
        let failed = Arc::new(AtomicU64::new(0));
        let (path, failures) = (path.to_owned(), Arc::clone(&failed));
        let thread = std::thread::Builder::new()
            .name("web-access-log".into())
            .spawn(move || write_all(&path, file, &receiver, &recycle, &failures))?;
        Ok(AccessLog {
            buffer: Vec::with_capacity(BUFFER_BYTES + 4096),
            pending: 0,
            sender: Some(sender),
            recycled,
            thread: Some(thread),
            lines: 0,
            drops: 0,
            failed,
            time: (u64::MAX, String::new()),
        })
    }

    /// Lines handed to the writer.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines lost.
    pub fn drops(&self) -> u64 {
        self.drops + self.failed.load(Ordering::Relaxed)
    }

    /// Adds a line.
    pub fn line(&mut self, line: &Line<'_>) {
        let Line { seconds, peer, user, is_http2, request, status, bytes } = *line;
        if self.time.0 != seconds {
            self.time = (seconds, format_time(seconds));
        }
        let buffer = &mut self.buffer;
        // Writing to a vector can't fail.
        let _ = write!(buffer, "{} - ", peer.ip());
        match user {
            // A blank would end it.
            Some(user) if !user.is_empty() => escape(buffer, user.replace(' ', "_").as_bytes()),
            _ => buffer.push(b'-'),
        }
        let _ = write!(buffer, " [{}] \"", self.time.1);
        match request {
            Some(request) => {
                escape(buffer, request.method_name.as_bytes());
                buffer.push(b' ');
                escape(buffer, request.target);
                let _ = match is_http2 {
                    true => write!(buffer, " HTTP/2.0"),
                    false => write!(buffer, " HTTP/1.{}", request.minor_version),
                };
            }
            None => buffer.push(b'-'),
        }
        let _ = write!(buffer, "\" {status} {bytes}");
        for name in ["referer", "user-agent"] {
            buffer.extend_from_slice(b" \"");
            match request.and_then(|request| request.values(name).next()) {
                Some(value) => escape(buffer, value),
                None => buffer.push(b'-'),
            }
            buffer.push(b'"');
        }
        buffer.push(b'\n');
        self.pending += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    /// Hands the buffered lines to the writer.
    pub fn flush(&mut self) {
        if self.pending == 0 {
            return;
        }
        let empty = self.recycled.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER_BYTES + 4096));
        let full = std::mem::replace(&mut self.buffer, empty);
        let count = std::mem::take(&mut self.pending);
        let Some(sender) = &self.sender else { return };
        match sender.try_send(Message::Lines(full, count)) {
            Ok(()) => self.lines += count,
            Err(
                TrySendError::Full(Message::Lines(mut lines, _))
                | TrySendError::Disconnected(Message::Lines(mut lines, _)),
            ) => {
                self.drops += count;
                lines.clear();
                self.buffer = lines;
            }
            Err(_) => self.drops += count,
        }
    }

    /// Has the writer open its file anew (it was renamed by log rotation). `false`: ask again later.
    pub fn reopen(&mut self) -> bool {
        self.flush();
        self.sender
            .as_ref()
            .is_none_or(|sender| !matches!(sender.try_send(Message::Reopen), Err(TrySendError::Full(_))))
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing to say here.
            let _ = thread.join();
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn write_all(
    path: &Path,
    mut file: File,
    messages: &Receiver<Message>,
    recycle: &SyncSender<Vec<u8>>,
    failed: &AtomicU64,
) {
    for message in messages {
        match message {
            Message::Lines(mut lines, count) => {
                if file.write_all(&lines).is_err() {
                    failed.fetch_add(count, Ordering::Relaxed);
                }
                lines.clear();
                // No room: the buffer is simply freed.
                let _ = recycle.try_send(lines);
            }
            // If it can't be opened, the old one goes on.
            Message::Reopen => {
                if let Ok(new) = open(path) {
                    file = new;
                }
            }
        }
    }
}

/// A client's text, such that it can neither end the quotes nor the line.
fn escape(target: &mut Vec<u8>, text: &[u8]) {
    let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
    for &byte in text {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f..=0xff => {
                let _ = write!(target, "\\x{byte:02X}");
            }
            _ => target.push(byte),
        }
    }
}

/// `10/Oct/2000:13:55:36 +0000`.
fn format_time(seconds: u64) -> String {
    let date = crate::http::date::format(seconds);
    let text = String::from_utf8_lossy(&date);
    // "Sun, 06 Nov 1994 08:49:37 GMT"
    match (text.get(5..7), text.get(8..11), text.get(12..16), text.get(17..25)) {
        (Some(day), Some(month), Some(year), Some(time)) => format!("{day}/{month}/{year}:{time} +0000"),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parse::{Outcome, ParseLimits, header_storage, parse};

    #[test]
    fn combined_format_and_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = AccessLog::open(&path).unwrap();
        let text = b"GET /a\"b HTTP/1.1\r\nHost: h\r\nUser-Agent: x\\y \"z\"\r\nReferer: http://r/\r\n\r\n";
        let mut storage = header_storage();
        let limits = ParseLimits { head_bytes_max: 16384, target_bytes_max: 8192 };
        let Outcome::Complete(request) = parse(text, &mut storage, &limits) else { panic!() };
        let peer: SocketAddr = "192.0.2.7:1234".parse().unwrap();
        let refused =
            Line { seconds: 784_111_777, peer, user: None, is_http2: false, request: None, status: 400, bytes: 0 };
        log.line(&Line { user: Some("a n\"n"), request: Some(&request), status: 200, bytes: 42, ..refused });
        log.flush();
        // The writer's queue keeps order, so a rename after the first line is there loses nothing.
        for _ in 0..500 {
            if std::fs::read(&path).unwrap().ends_with(b"\n") {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        std::fs::rename(&path, directory.path().join("old")).unwrap();
        assert!(log.reopen());
        log.line(&refused);
        drop(log);
        assert_eq!(
            std::fs::read_to_string(directory.path().join("old")).unwrap(),
            "192.0.2.7 - a_n\\x22n [06/Nov/1994:08:49:37 +0000] \"GET /a\\x22b HTTP/1.1\" 200 42 \"http://r/\" \"x\\x5Cy \\x22z\\x22\"\n"
        );
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"-\" 400 0 \"-\" \"-\"\n"
        );
    }
}
