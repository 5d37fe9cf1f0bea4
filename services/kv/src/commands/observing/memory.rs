//! MEMORY, and what INFO tells of it. All of it is an estimate: see [`keyspace::memory`](crate::keyspace::memory).

use crate::engine::call::Call;
use crate::engine::command::{SECOND, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::state::State;
use crate::keyspace::memory;
use crate::keyspace::space::DATABASES;
use crate::resp::number::integer;
use std::fmt::Write;

commands! { "server":
    "memory", -2, [READ], SECOND, "4.0.0", "A container for memory diagnostics commands" => memory_command;
}

/// What is known of memory.
struct Use {
    /// What keys take with all that they have. `maxmemory` is about this.
    keys: u64,
    /// What of it tables take.
    tables: u64,
    /// What tables have and do not use.
    spare: u64,
    /// What waits for the disk, or to become whole.
    buffers: u64,
    /// The most that keys took.
    peak: u64,
    count: u64,
}

impl Use {
    fn of(state: &State) -> Use {
        let keys = state.keyspace.memory() as u64;
        let databases = || (0..DATABASES).map(|number| state.keyspace.database(number));
        let tables = databases().map(|all| memory::of_tables(all.len(), all.volatile_len()));
        Use {
            keys,
            tables: tables.map(|(volatile, all)| (volatile + all) as u64).sum(),
            spare: databases().map(|all| all.spare() as u64).sum(),
            buffers: state.observed.buffers,
            peak: keys.max(state.observed.memory_peak as u64),
            count: state.keyspace.len() as u64,
        }
    }

    fn all(&self) -> u64 {
        self.keys + self.spare + self.buffers
    }
}

/// Bytes as Redis tells them to people.
fn human(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.2}{name}", bytes as f64 / *unit as f64),
        None => format!("{bytes}B"),
    }
}

/// `Memory`. What only an allocator or the kernel knows is not told.
///
/// # Errors
/// Of writing.
pub fn section(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    let (known, operating) = (Use::of(call.state), &call.state.settings.operating);
    let mut both = |name: &str, bytes: u64| writeln!(text, "{name}:{bytes}\r\n{name}_human:{}\r", human(bytes));
    both("used_memory", known.all())?;
    both("used_memory_peak", known.peak + known.spare + known.buffers)?;
    both("maxmemory", operating.memory_max)?;
    writeln!(text, "maxmemory_policy:{}\r", operating.policy.name())?;
    writeln!(text, "used_memory_overhead:{}\r", known.tables + known.spare + known.buffers)?;
    writeln!(text, "used_memory_dataset:{}\r", known.keys.saturating_sub(known.tables))?;
    writeln!(text, "mem_not_counted_for_evict:{}\r", known.spare + known.buffers)?;
    let (scripts, libraries) = (&call.state.scripts, &call.state.keyspace.libraries);
    writeln!(
        text,
        "number_of_cached_scripts:{}\r\nnumber_of_functions:{}\r",
        scripts.count(),
        scripts.functions.len()
    )?;
    writeln!(text, "number_of_libraries:{}\r", libraries.iter().count())?;
    // What is deleted is freed at once, UNLINK's and FLUSHALL's too: nothing is ever pending.
    writeln!(text, "mem_buffers:{}\r\nmem_allocator:libc\r\nlazyfree_pending_objects:0\r", known.buffers)
}

fn memory_command(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"USAGE", 3..) => usage(call)?,
        (b"STATS", 2) => statistics(call),
        (b"DOCTOR", 2) => {
            let text = doctor(call.state);
            call.reply.verbatim(&text);
        }
        (b"PURGE", 2) => call.reply.ok(),
        (b"MALLOC-STATS", 2) => call.reply.verbatim("Stats not supported for the current allocator"),
        (b"HELP", 2) => {
            let lines = [
                ("DOCTOR", "Return memory problems reports."),
                ("MALLOC-STATS", "Return internal statistics report from the memory allocator: there is none."),
                ("PURGE", "Attempt to purge dirty pages for reclamation by the allocator: there are none."),
                ("STATS", "Return information about the memory usage of the server."),
                ("USAGE <key> [SAMPLES <count>]", "Return memory in bytes used by <key> and its value, about."),
            ];
            help::answer(call, "MEMORY", &lines);
        }
        (b"USAGE" | b"STATS" | b"DOCTOR" | b"PURGE" | b"MALLOC-STATS" | b"HELP", _) => {
            return Err(help::arity("memory", &String::from_utf8_lossy(args.at(1))));
        }
        _ => return Err(help::unknown(call, "MEMORY")),
    }
    Ok(())
}

fn usage(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    match args.len() {
        3 => {}
        // Nothing has to be sampled: the bytes of all elements are known.
        5 if args.is(3, "SAMPLES") => {
            let count = integer(args.at(4)).ok_or(Fault::NotInteger)?;
            u64::try_from(count).map_err(|_| Fault::Syntax)?;
        }
        _ => return Err(Fault::Syntax),
    }
    match call.look(args.at(2)).map(|entry| memory::of_key(args.at(2), &entry.value, entry.expires != 0)) {
        Some(bytes) => call.reply.length(bytes),
        None => call.reply.null(),
    }
    Ok(())
}

fn statistics(call: &mut Call<'_>) {
    let Call { state, reply, .. } = call;
    let known = Use::of(state);
    let used =
        (0..DATABASES).map(|number| (number, state.keyspace.database(number))).filter(|(_, all)| !all.is_empty());
    let used: Vec<_> = used.collect();
    reply.map(10 + used.len());
    let mut number = |name: &str, bytes: u64| {
        reply.bulk(name.as_bytes());
        reply.integer(bytes as i64);
    };
    number("peak.allocated", known.peak + known.spare + known.buffers);
    number("total.allocated", known.all());
    number("startup.allocated", 0);
    number("clients.normal", known.buffers);
    number("overhead.total", known.tables + known.spare + known.buffers);
    number("keys.count", known.count);
    number("keys.bytes-per-key", known.keys.checked_div(known.count).unwrap_or(0));
    number("dataset.bytes", known.keys.saturating_sub(known.tables));
    for (name, part, of) in [
        ("dataset.percentage", known.keys.saturating_sub(known.tables), known.all()),
        ("peak.percentage", known.all(), known.peak + known.spare + known.buffers),
    ] {
        reply.bulk(name.as_bytes());
        reply.double(if of == 0 { 0.0 } else { part as f64 * 100.0 / of as f64 });
    }
    for (place, all) in used {
        reply.bulk(format!("db.{place}").as_bytes());
        let (volatile, keys) = memory::of_tables(all.len(), all.volatile_len());
        reply.map(2);
        for (name, bytes) in [("overhead.hashtable.main", keys), ("overhead.hashtable.expires", volatile)] {
            reply.bulk(name.as_bytes());
            reply.length(bytes);
        }
    }
}

fn doctor(state: &State) -> String {
    let (known, limit) = (Use::of(state), state.settings.operating.memory_max);
    let mut text = String::new();
    let mut say = |line: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    };
    if limit > 0 && known.keys > limit / 10 * 9 {
        say(format_args!("Keys take {}, of {} that they may (maxmemory).", human(known.keys), human(limit)));
    }
    if known.spare > known.keys / 2 && known.spare > 64 << 20 {
        say(format_args!("Tables have {} that they do not use: there were more keys.", human(known.spare)));
    }
    if known.buffers > 256 << 20 {
        say(format_args!("{} wait for the disk, or are requests that are not whole.", human(known.buffers)));
    }
    if text.is_empty() { "Nothing is unusual.\n".to_owned() } else { text }
}
