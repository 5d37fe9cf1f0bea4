//! The log: what commands tell on standard error, one line for each event, for people or for programs. `--log-level`, `--quiet`,
//! `--log-format` and `QANAT_LOG` hold for every command, and for the processes that a command starts ([`forwarded`]).
//!
//! Nobody waits long for whoever reads the log. A line that finds no room is lost, and the next one that finds room says how many were.

use clap::{Args, ValueEnum};
use qanat_control::log_line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How important a line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    /// What makes a command fail
    Error,
    /// And what is lost, refused or broken while it goes on
    Warn,
    /// And what happens: where it serves, figures, a card that is there again
    #[default]
    Info,
    /// And each step on the way there; figures each second
    Debug,
}

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One JSON object a line, as --json prints it, errors too
    Json,
}

/// What is told, and how.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Log")]
pub struct LogArguments {
    /// Tell only what is at least as important
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "LEVEL",
        env = "QANAT_LOG",
        default_value_t,
        hide_possible_values = true,
        long_help = "Tell only what is at least as important: error, warn, info or debug"
    )]
    log_level: Level,
    /// How that is written: text or json
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    log_format: Format,
    /// Tell errors only
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// Lines that wait for a slow reader, where a thread writes them.
const LINES_MAX: usize = 4_096;
/// How long a reader is waited for: with a line, and at the end of a command.
const LINE_PATIENCE: Duration = Duration::from_millis(100);
const END_PATIENCE: Duration = Duration::from_secs(1);

struct Log {
    level: Level,
    format: Format,
    /// The journal reads standard error, and takes a priority before each line.
    is_journal: bool,
    is_terminal: bool,
    /// There is a thread that writes.
    writer: OnceLock<Writer>,
    lost: AtomicU64,
    /// A line of figures stands on the terminal, without an end.
    has_live_line: AtomicBool,
}

static LOG: OnceLock<Log> = OnceLock::new();

fn log() -> &'static Log {
    LOG.get_or_init(|| Log::new(Level::default(), Format::default()))
}

impl LogArguments {
    /// The same, as JSON.
    pub fn as_json(self) -> LogArguments {
        LogArguments { log_format: Format::Json, ..self }
    }

    /// As JSON, where nothing else was understood.
    pub fn json() -> LogArguments {
        LogArguments { log_level: Level::default(), log_format: Format::Json, quiet: false }
    }
}

/// Whether a command line that is not understood asks for JSON.
pub fn is_json_asked_for(words: &[OsString]) -> bool {
    let follows = words.windows(2).any(|pair| pair[0] == "--log-format" && pair[1] == "json");
    follows || words.iter().any(|word| word == "--log-format=json")
}

/// Begins, before anything is told.
pub fn set_up(arguments: LogArguments) {
    let level = if arguments.quiet { Level::Error } else { arguments.log_level };
    let _ = LOG.set(Log::new(level, arguments.log_format));
}

/// Has a thread write the log from now on, for who must not wait at all. A thread would escape what a process does to itself alone, as
/// net cores do when they confine themselves: they have none.
pub fn write_in_background() {
    let _ = log().writer.set(Writer::start());
}

/// Whether lines are JSON.
pub fn is_json() -> bool {
    log().format == Format::Json
}

/// Whether lines of a level are told.
pub fn tells(level: Level) -> bool {
    level <= log().level
}

/// A value as it is written on the command line.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The arguments by which another process of this program tells the same, in the same way.
pub fn forwarded() -> [String; 2] {
    [format!("--log-level={}", name(&log().level)), format!("--log-format={}", name(&log().format))]
}

/// Has a program of another kind tell the same: the library of `qanat run` reads this.
pub fn forward_to(command: &mut Command) {
    command.env("QANAT_LOG", name(&log().level)).env("QANAT_LOG_FORMAT", name(&log().format));
}

/// Lines of figures come and go on the terminal.
pub fn live_line(is_shown: bool) {
    log().has_live_line.store(is_shown, Ordering::Relaxed);
}

macro_rules! error {
    ($event:literal, $($text:tt)*) => { $crate::log::tell($crate::log::Level::Error, $event, &format!($($text)*)) };
}
macro_rules! warning {
    ($event:literal, $($text:tt)*) => { $crate::log::tell($crate::log::Level::Warn, $event, &format!($($text)*)) };
}
macro_rules! info {
    ($event:literal, $($text:tt)*) => { $crate::log::tell($crate::log::Level::Info, $event, &format!($($text)*)) };
}
macro_rules! debug {
    ($event:literal, $($text:tt)*) => { $crate::log::tell($crate::log::Level::Debug, $event, &format!($($text)*)) };
}
pub(crate) use {debug, error, info, warning};

/// Tells of an event.
pub fn tell(level: Level, event: &str, text: &str) {
    if tells(level) {
        log().line(level, "qanat: ", text, || log_line::event(event, text));
    }
}

/// Tells of an event that has fields of its own, and is one line of text.
pub fn tell_fields(level: Level, who: &str, text: &str, fields: impl FnOnce() -> Map<String, Value>) {
    if tells(level) {
        log().line(level, who, text, fields);
    }
}

/// What somebody has asked for by a signal: all of it is written, however important.
pub fn report(text: &str) {
    let log = log();
    match log.format {
        Format::Json => log.line(Level::Info, "", "", || log_line::event("report", text)),
        Format::Text => {
            // Who asks for pages of it waits for them.
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

/// Waits until what was told is written, unless nobody reads it.
pub fn flush() {
    if let Some(writer) = LOG.get().and_then(|log| log.writer.get()) {
        writer.flush();
    }
}

impl Log {
    fn new(level: Level, format: Format) -> Log {
        Log {
            level,
            format,
            is_journal: is_journal(),
            is_terminal: io::stderr().is_terminal(),
            writer: OnceLock::new(),
            lost: AtomicU64::new(0),
            has_live_line: AtomicBool::new(false),
        }
    }

    fn line(&self, level: Level, who: &str, text: &str, fields: impl FnOnce() -> Map<String, Value>) {
        let mut line = self.written(level, who, text, fields);
        if self.is_terminal && self.has_live_line.load(Ordering::Relaxed) {
            line.insert_str(0, "\r\x1b[K");
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            line += &self.lost_line(lost);
        }
        let patience = if level == Level::Error { END_PATIENCE } else { LINE_PATIENCE };
        let is_written = match self.writer.get() {
            Some(writer) => writer.write(line),
            None => write_soon(line.as_bytes(), patience),
        };
        if !is_written {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        }
    }

    /// As it is read, with its end.
    fn written(&self, level: Level, who: &str, text: &str, fields: impl FnOnce() -> Map<String, Value>) -> String {
        let priority = self.priority(level);
        match self.format {
            Format::Json => priority.to_owned() + &log_line::json_line(&name(&level), fields()),
            Format::Text => log_line::text_lines(priority, who, text),
        }
    }

    fn lost_line(&self, lost: u64) -> String {
        let text = format!("{lost} lines of the log were lost: nobody read them in time");
        self.written(Level::Warn, "qanat: ", &text, || {
            let mut fields = log_line::event("log", &text);
            fields.insert("lost".to_owned(), lost.into());
            fields
        })
    }

    /// As the journal reads it.
    fn priority(&self, level: Level) -> &'static str {
        match level {
            _ if !self.is_journal => "",
            Level::Error => "<3>",
            Level::Warn => "<4>",
            Level::Info => "<6>",
            Level::Debug => "<7>",
        }
    }
}

/// A JSON object that is a line of the log on standard output, with when and what it is.
pub fn stamped(object: &str) -> String {
    match object.strip_prefix('{') {
        Some(rest) => format!("{{\"time\":{:?},\"level\":\"info\",{rest}", log_line::now()),
        None => object.to_owned(),
    }
}

/// Whether standard error leads to systemd's journal: a variable that is inherited says where that was.
fn is_journal() -> bool {
    let Some(stream) = std::env::var("JOURNAL_STREAM").ok() else { return false };
    let own = std::fs::metadata("/proc/self/fd/2").map(|about| format!("{}:{}", about.dev(), about.ino()));
    own.is_ok_and(|own| own == stream)
}

/// Writes at once, or not at all if nobody reads.
fn write_soon(bytes: &[u8], patience: Duration) -> bool {
    let mut stderr = io::stderr().lock();
    let wait = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
    let is_ready = matches!(poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&wait)), Ok(1..));
    if is_ready {
        // An error says that the reader has gone: then nobody misses a line.
        let _ = stderr.write_all(bytes);
    }
    is_ready
}

/// A thread that writes.
struct Writer {
    lines: SyncSender<String>,
    taken: AtomicU64,
    written: Arc<AtomicU64>,
}

impl Writer {
    fn start() -> Writer {
        let (lines, next) = sync_channel::<String>(LINES_MAX);
        let written = Arc::new(AtomicU64::new(0));
        let its_written = Arc::clone(&written);
        let write = move || {
            while let Ok(line) = next.recv() {
                // Nobody to read the log is no reason to end.
                let _ = io::stderr().write_all(line.as_bytes());
                its_written.fetch_add(1, Ordering::Release);
            }
        };
        // Without a thread all lines are lost, as they were without a reader.
        let _ = std::thread::Builder::new().name("qanat-log".to_owned()).spawn(write);
        Writer { lines, taken: AtomicU64::new(0), written }
    }

    /// Whether there was room.
    fn write(&self, line: String) -> bool {
        let is_taken = self.lines.try_send(line).is_ok();
        self.taken.fetch_add(u64::from(is_taken), Ordering::Relaxed);
        is_taken
    }

    fn flush(&self) {
        let begun = Instant::now();
        while self.written.load(Ordering::Acquire) < self.taken.load(Ordering::Relaxed)
            && begun.elapsed() < END_PATIENCE
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
