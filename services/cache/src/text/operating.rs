//! What operators say: figures, limits, lists. What memcached does with its slabs has no meaning here, and says so.

use super::replies::{BAD_FORMAT, ERROR, answer};
use super::words::Words;
use crate::engine::settings::MEMORY_BYTES_MIN;
use crate::engine::state::Engine;
use crate::items::item::Segment;
use crate::number;
use crate::output::Output;
use crate::pending::{Kind, Listing, Next};
use crate::statistics;

/// The largest bound of memory, in MiB: more is meant to be bytes.
const MEBIBYTES_MAX: u32 = 1_000_000_000;
/// A list of keys that is told in one go, and items that are looked at for it.
const CACHEDUMP_BYTES_MAX: usize = 1 << 20;
const CACHEDUMP_ITEMS_MAX: usize = 20_000;

/// Executes a line that no other command is in.
pub fn execute(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    let is_quiet = words.says_noreply();
    match (words.get(0), words.count()) {
        (b"stats", _) => stats(words, engine, output),
        (b"version", _) => answer(output, false, &format!("VERSION {}", statistics::VERSION)),
        (b"verbosity", 2..=3) => match number::unsigned_32(words.get(1)) {
            Some(_) => answer(output, is_quiet, "OK"),
            None => answer(output, is_quiet, BAD_FORMAT),
        },
        (b"cache_memlimit", 2..=3) => {
            let text = memory_limit(words.get(1), engine);
            answer(output, is_quiet, text)
        }
        (b"lru_crawler", _) => crawler(words, engine, output),
        (b"shutdown", _) => answer(output, false, "ERROR: shutdown not enabled"),
        (b"slabs", 3..) if words.get(1) == b"automove" => answer(output, false, "OK"),
        (b"slabs", 4..) if words.get(1) == b"reassign" => {
            answer(output, false, "CLIENT_ERROR slab reassignment disabled")
        }
        (b"lru", 3..) if matches!(words.get(1), b"mode" | b"tune" | b"temp_ttl") => {
            answer(output, false, "CLIENT_ERROR the order of use has no settings")
        }
        (b"watch", _) => answer(output, false, "CLIENT_ERROR watch commands not allowed"),
        _ => answer(output, false, ERROR),
    }
}

fn memory_limit(word: &[u8], engine: &mut Engine) -> &'static str {
    match number::unsigned_32(word) {
        None => ERROR,
        Some(mebibytes) if u64::from(mebibytes) << 20 < MEMORY_BYTES_MIN => {
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
        }
        Some(MEBIBYTES_MAX..) => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        Some(mebibytes) => {
            engine.items.set_bytes_max(u64::from(mebibytes) << 20);
            "OK"
        }
    }
}

/// The crawler is the sweep, which needs no orders; it also lists.
fn crawler(words: &Words<'_>, engine: &Engine, output: &mut Output) -> Next {
    let is_class = matches!(words.get(2), b"all" | b"hash" | b"1");
    match (words.get(1), words.count()) {
        (b"metadump" | b"mgdump", 3) if !engine.settings.may_dump => {
            answer(output, false, "ERROR metadump not allowed")
        }
        (b"metadump" | b"mgdump" | b"crawl", 3) if !is_class => answer(output, false, "BADCLASS invalid class id"),
        (b"metadump", 3) => Next::List(Listing { kind: Kind::Meta, at: 0 }),
        (b"mgdump", 3) => Next::List(Listing { kind: Kind::Commands, at: 0 }),
        (b"crawl", 3) | (b"enable" | b"disable", 2) => answer(output, false, "OK"),
        (b"tocrawl", 3) => match number::unsigned_32(words.get(2)) {
            Some(_) => answer(output, false, "OK"),
            None => answer(output, false, BAD_FORMAT),
        },
        (b"sleep", 3) => match number::unsigned_32(words.get(2)) {
            Some(0..=1_000_000) => answer(output, false, "OK"),
            Some(_) => answer(output, false, "CLIENT_ERROR sleep must be one second or less"),
            None => answer(output, false, BAD_FORMAT),
        },
        _ => answer(output, false, ERROR),
    }
}

fn stats(words: &Words<'_>, engine: &mut Engine, output: &mut Output) -> Next {
    match (words.get(1), words.get(2), words.count()) {
        (b"reset", ..) => {
            engine.reset_counts();
            answer(output, false, "RESET")
        }
        (b"detail", b"on" | b"off", 3) => answer(output, false, "OK"),
        (b"detail", b"dump", 3) => answer(output, false, "END"),
        (b"detail", ..) => answer(output, false, "CLIENT_ERROR usage: stats detail on|off|dump"),
        (b"cachedump", ..) => cachedump(words, engine, output),
        (kind, ..) => {
            let Some(figures) = statistics::of(kind, engine) else { return answer(output, false, ERROR) };
            for (name, value) in figures {
                output.line(&format!("STAT {name} {value}"));
            }
            answer(output, false, "END")
        }
    }
}

/// `stats cachedump CLASS COUNT`: there is one class.
fn cachedump(words: &Words<'_>, engine: &Engine, output: &mut Output) -> Next {
    if !engine.settings.may_dump {
        return answer(output, false, "CLIENT_ERROR stats cachedump not allowed");
    }
    let (class, count) = (number::unsigned_32(words.get(2)), number::unsigned_32(words.get(3)));
    let (Some(class), Some(count)) = (class, count) else { return answer(output, false, BAD_FORMAT) };
    if class > 63 {
        return answer(output, false, "CLIENT_ERROR Illegal slab id");
    }
    let most = if count == 0 { usize::MAX } else { count as usize };
    let before = output.len();
    let segments = [Segment::Hot, Segment::Warm, Segment::Cold].into_iter();
    let items = segments
        .flat_map(|segment| engine.items.oldest(segment))
        .take(CACHEDUMP_ITEMS_MAX)
        .filter(|item| engine.is_live(item));
    for item in items.take(if class == 1 { most } else { 0 }) {
        if output.len() - before > CACHEDUMP_BYTES_MAX {
            break;
        }
        let expiry = if item.expires_s == 0 { 0 } else { engine.clock.unix_of(item.expires_s) };
        output.put(b"ITEM ");
        output.put(item.key());
        output.line(&format!(" [{} b; {expiry} s]", item.value().len()));
    }
    answer(output, false, "END")
}
