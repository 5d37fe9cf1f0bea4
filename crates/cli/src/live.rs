//! Live figures on one line, plain lines or JSON, printed by a thread of its own: a terminal that blocks must not stop
//! the data path.

use crate::columns::{cut, fitted};
use crate::log::{self, Level};
use console::Term;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is printed.
enum Line {
    /// Replaces the line before it on a terminal.
    Live(String),
    /// Stays.
    Lasting(String),
}

/// What becomes of live lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Each replaces the one before: a person looks on.
    Rewritten,
    /// All are printed: a program reads them.
    EachLine,
    /// One in [`LOG_INTERVAL`] is printed: it goes to a file or a journal.
    Seldom,
}

/// Between two lines of figures in a file or a journal.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Prints lines without blocking its caller, save for the last; what the reader is too slow for is skipped.
pub struct Printer {
    /// From the first line on: a service gives up its rights before, while it has one thread.
    writer: OnceLock<Writer>,
    json: bool,
    /// Lines are the log's.
    is_log: bool,
}

struct Writer {
    lines: SyncSender<Line>,
    thread: JoinHandle<()>,
}

impl Printer {
    /// A printer to standard output: of JSON if that is asked for (`--json`), or is what the log is.
    pub fn new(json: bool) -> Printer {
        Printer { writer: OnceLock::new(), json: json || log::is_json(), is_log: log::is_json() && !json }
    }

    fn lines(&self) -> &SyncSender<Line> {
        let start = || {
            let (lines, receiver) = sync_channel(16);
            let is_log = self.is_log;
            let is_json = self.json && !is_log;
            let shows = match io::stdout().is_terminal() {
                _ if is_json || log::tells(Level::Debug) => Shows::EachLine,
                true if !is_log => Shows::Rewritten,
                _ => Shows::Seldom,
            };
            Writer { lines, thread: std::thread::spawn(move || print(&receiver, shows, is_log)) }
        };
        &self.writer.get_or_init(start).lines
    }

    /// Whether lines are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// A line that the next live line replaces.
    pub fn live(&self, line: String) {
        self.send(Line::Live(line));
    }

    /// A line that stays.
    pub fn lasting(&self, line: String) {
        self.send(Line::Lasting(self.fitted(line)));
    }

    /// The last line of a service that has stopped: waits until a slow reader has taken those before it, for it is never
    /// skipped.
    pub fn last(&self, line: String) {
        if log::tells(Level::Info) {
            self.send_surely(self.fitted(line));
        }
    }

    /// As it is read.
    fn fitted(&self, line: String) -> String {
        if self.json { line } else { fitted(&line) }
    }

    fn send_surely(&self, line: String) {
        // Fails if nobody reads any more.
        let _ = self.lines().send(Line::Lasting(line));
    }

    /// The result of a run: one line of JSON, or as people read it.
    ///
    /// # Errors
    /// It has no JSON.
    pub fn report<R: Serialize + Display>(&self, report: &R) -> Result<(), String> {
        self.send_surely(match self.json {
            true => serde_json::to_string(report).map_err(|error| error.to_string())?,
            false => fitted(&report.to_string()),
        });
        Ok(())
    }

    fn send(&self, line: Line) {
        if log::tells(Level::Info) {
            // Full: the reader is slow. Figures are cumulative or current, so a skipped line loses nothing.
            let _ = self.lines().try_send(line);
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        if let Some(Writer { lines, thread }) = self.writer.take() {
            drop(lines);
            let _ = thread.join();
        }
    }
}

/// `is_log`: lines are of the log, which says when they were.
fn print(lines: &Receiver<Line>, shows: Shows, is_log: bool) {
    let stamped = |text: String| if is_log { log::stamped(&text) } else { text };
    let mut out = io::stdout().lock();
    let mut live_shown = false;
    let mut last_logged: Option<Instant> = None;
    for line in lines {
        let result = match line {
            Line::Live(_) if shows == Shows::Seldom && last_logged.is_some_and(|at| at.elapsed() < LOG_INTERVAL) => {
                continue;
            }
            Line::Live(text) if shows == Shows::Rewritten => {
                live_shown = true;
                log::live_line(true);
                write!(out, "\r\x1b[K{}", cut(&text, usize::from(Term::stdout().size().1)))
            }
            Line::Live(text) => {
                last_logged = Some(Instant::now());
                writeln!(out, "{}", stamped(text))
            }
            Line::Lasting(text) => {
                log::live_line(false);
                let start = if std::mem::take(&mut live_shown) { "\n" } else { "" };
                writeln!(out, "{start}{}", stamped(text))
            }
        };
        if result.and_then(|()| out.flush()).is_err() {
            // Nobody reads any more; the service goes on.
            return;
        }
    }
    if live_shown {
        let _ = writeln!(out);
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_of_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
