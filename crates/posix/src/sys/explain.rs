//! `--explain`: a line for each socket that says whether it is ours, or why it went to the kernel.

use qanat_control::log_line;
use std::fmt;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Where to; as the launcher says in the environment.
const VARIABLE: &str = "QANAT_EXPLAIN";

/// The descriptor. -1: nobody wants to know, or it is not known yet. There is no lock and no allocation, because the caller may be the
/// program's allocator, which closes a file while it gets ready.
static TARGET: AtomicI32 = AtomicI32::new(-1);

/// How the launcher was told to tell things: errors only, and as JSON.
static IS_QUIET: AtomicBool = AtomicBool::new(false);
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// The library has been loaded.
pub(crate) fn start() {
    IS_QUIET.store(std::env::var_os("QANAT_LOG").is_some_and(|level| level == "error"), Ordering::Relaxed);
    IS_JSON.store(std::env::var_os("QANAT_LOG_FORMAT").is_some_and(|format| format == "json"), Ordering::Relaxed);
    let fd = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
    TARGET.store(fd.unwrap_or(-1), Ordering::Relaxed);
    let (_, which) = file(2).unwrap_or_default();
    AT_START.iter().zip(which).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
}

fn target() -> Option<RawFd> {
    Some(TARGET.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
}

/// Whether `fd` is where it is said: programs that close what they don't know of don't mean it.
pub(crate) fn is_said_by(fd: RawFd) -> bool {
    target() == Some(fd)
}

/// Whether somebody wants to know.
pub(crate) fn is_explaining() -> bool {
    target().is_some()
}

/// Says a line, if somebody wants to know.
pub(crate) fn explain(words: fmt::Arguments<'_>) {
    if let Some(fd) = target() {
        let process = std::process::id();
        write_to(
            fd,
            &match IS_JSON.load(Ordering::Relaxed) {
                true => {
                    let mut fields = log_line::event("explain", &words.to_string());
                    fields.insert("process".to_owned(), process.into());
                    log_line::json_line("info", fields)
                }
                false => log_line::text_lines("", "qanat: ", &format!("{process} {words}")),
            },
        );
    }
}

/// Says what the user should know, on standard error.
pub(crate) fn warn(words: fmt::Arguments<'_>) {
    if !IS_QUIET.load(Ordering::Relaxed) && is_for_words(2) {
        write_line(2, "warn", words);
    }
}

/// Says what the user must know in any case, on standard error.
pub(crate) fn error(words: fmt::Arguments<'_>) {
    if is_for_words(2) {
        say_on(2, words);
    }
}

/// Says there what the user must know in any case.
pub(crate) fn say_on(fd: RawFd, words: fmt::Arguments<'_>) {
    write_line(fd, "error", words);
}

fn write_line(fd: RawFd, level: &str, words: fmt::Arguments<'_>) {
    let text = words.to_string();
    write_to(
        fd,
        &match IS_JSON.load(Ordering::Relaxed) {
            true => log_line::json_line(level, log_line::event("run", &text)),
            false => log_line::text_lines("", "qanat: ", &text),
        },
    );
}

fn write_to(fd: RawFd, line: &str) {
    // SAFETY: the pointer is to as many readable bytes as the length says.
    unsafe { crate::sys::libc_next::write(fd, line.as_ptr().cast(), line.len()) };
}

/// What the file that is open as `fd` is known by, in whichever process; never 0.
pub(crate) fn key(fd: RawFd) -> Option<u64> {
    let (_, [device, number]) = file(fd)?;
    Some((device.rotate_left(32) ^ number) | 1 << 63)
}

/// Device and file of standard error as this program had it when it began.
static AT_START: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// What `fd` is: its kind, and device and file.
fn file(fd: RawFd) -> Option<(libc::mode_t, [u64; 2])> {
    let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is to a place with room for the answer.
    if unsafe { libc::fstat(fd, found.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the structure is plain numbers, and it was zeroed at first.
    let found = unsafe { found.assume_init() };
    Some((found.st_mode & libc::S_IFMT, [found.st_dev, found.st_ino]))
}

/// Whether `fd` is for people, and takes a line at once. A program that has closed its standard error has something else under the
/// number: a connection, or a file with data, where nobody may write but the program. Its log may be there, too.
pub(crate) fn is_for_words(fd: RawFd) -> bool {
    let Some((kind, which)) = file(fd) else { return false };
    let is_first = AT_START.each_ref().map(|word| word.load(Ordering::Relaxed)) == which;
    // SAFETY: the call takes no pointers.
    let appends = || unsafe { crate::sys::libc_next::fcntl64(fd, libc::F_GETFL, 0) & libc::O_APPEND != 0 };
    let is_log = match kind {
        libc::S_IFCHR | libc::S_IFIFO => true,
        libc::S_IFREG => appends(),
        _ => false,
    };
    let mut look = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // One that nobody reads would end the program by SIGPIPE, a full one would keep it waiting.
    // SAFETY: the pointer is to one writable structure.
    (is_first || is_log)
        && unsafe { crate::sys::libc_next::poll(&raw mut look, 1, 0) } == 1
        && look.revents == libc::POLLOUT
}
