//! Runs the cases one after the other, each from a fresh state, and says what each saw.

use crate::case::{self, Case, Net, Peer, SHORT_MS, World};
use crate::cases;
use crate::command_line::Options;
use crate::sys::{self, Disposition};
use serde_json::json;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A case that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(5);
/// For one that is known to hang.
const LIMIT_HANGING: Duration = Duration::from_millis(700);
/// The exit code after a case that hung: start again behind it.
pub const HUNG: i32 = 3;

/// The case under way and when it must be over.
static UNDER_WAY: Mutex<Option<(String, Instant)>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

fn tell(line: &serde_json::Value) {
    // In one call, and not through a buffer that a forked child would have too.
    sys::write(1, format!("{line}\n").as_bytes());
}

fn watch() {
    let mut under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let patience = match &*under_way {
            Some((name, deadline)) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let log = case::take_log();
                    tell(&json!({"case": name, "outcome": format!("{log}; TIMEOUT")}));
                    sys::on_signal(libc::SIGTERM, Disposition::Ignore);
                    // Children of the case too; this process goes by itself.
                    sys::kill(0, libc::SIGTERM);
                    sys::exit(HUNG);
                }
                left
            }
            None => LIMIT,
        };
        under_way = CHANGED.wait_timeout(under_way, patience).unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn expect_end(of: Option<(String, Instant)>) {
    *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = of;
    CHANGED.notify_all();
}

fn fresh() {
    sys::close_all();
    sys::on_signal(libc::SIGPIPE, Disposition::Ignore);
    sys::on_signal(libc::SIGUSR1, Disposition::Default);
    sys::block_signal(libc::SIGUSR1, false);
    case::ask("reset");
    case::take_log();
}

/// A stack that is put before this program may make its link with the first socket that needs it, and the peer's address is
/// there with the link, or after the link of a program that had it before is gone: waits until a datagram comes through.
fn await_link(world: World) {
    for net in [Net::V4, Net::V6] {
        let case = Case { world, net };
        case::until(|| {
            let (fd, port) = case.udp_bound();
            let answer = case::ask(&format!("udp {} 0", case.there_ip()));
            let has_address = answer.starts_with(|first: char| first.is_ascii_digit());
            has_address && Peer::of(&answer).to(case.here_ip(), port, 1) == "1" && {
                let (ret, _) = sys::poll(&[(fd, libc::POLLIN)], SHORT_MS);
                ret.count() == 1
            }
        });
    }
}

/// Runs the cases that `options` name.
pub fn run(options: &Options, world: World) {
    sys::own_group();
    let limit = options.limit_s.map_or(LIMIT, Duration::from_secs);
    std::thread::spawn(watch);
    std::panic::set_hook(Box::new(|panic| case::note(&format!("PANIC ({})", panic.to_string().replace('\n', " ")))));
    await_link(world);
    let mut is_behind = options.from.is_none();
    let (part, parts) = options.part.unwrap_or((0, 1));
    let hanging = options.hanging.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    for (index, entry) in cases::all().into_iter().enumerate() {
        let is_wanted = options.filter.as_deref().is_none_or(|word| entry.name.contains(word));
        if is_behind && is_wanted && index % parts == part {
            let hangs = hanging.lines().any(|start| entry.name.starts_with(start));
            let limit = if hangs { LIMIT_HANGING } else { limit };
            fresh();
            tell(&json!({"begin": entry.name}));
            let start = Instant::now();
            expect_end(Some((entry.name.clone(), start + limit)));
            let case = Case { world, net: entry.net };
            let ended = catch_unwind(AssertUnwindSafe(|| (entry.run)(&case)));
            expect_end(None);
            // What it panicked with was noted by the hook.
            drop(ended);
            let log = case::take_log();
            let took_ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
            tell(&json!({"case": entry.name, "outcome": log, "took_ms": took_ms}));
        }
        is_behind |= options.from.as_ref() == Some(&entry.name);
    }
    fresh();
}
