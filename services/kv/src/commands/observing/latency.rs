//! LATENCY: what took longer than an operator wants to know of.

use crate::engine::access::needs::{command_name, name};
use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::observed::latency::Samples;
use std::fmt::Write;

commands! { "server":
    "latency", -2, [ADMIN], NO_KEYS, "2.8.13", "A container for latency diagnostics commands" => latency;
}

fn latency(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    let name = String::from_utf8_lossy(args.at(2));
    match (args.at(1).to_ascii_uppercase().as_slice(), args.len()) {
        (b"LATEST", 2) => latest(call),
        (b"HISTORY", 3) => {
            let samples = call.state.observed.latency.of(&name);
            let all = samples.map(|samples| samples.all.iter()).unwrap_or_default();
            call.reply.array(all.len());
            for (at_s, ms) in all {
                call.reply.array(2);
                call.reply.integer(*at_s);
                call.reply.integer(*ms as i64);
            }
        }
        (b"HISTOGRAM", _) => histogram(call),
        (b"RESET", 2) => {
            let count = call.state.observed.latency.clear();
            call.reply.length(count);
        }
        (b"RESET", _) => {
            let forget = |event: &[u8]| call.state.observed.latency.forget(&String::from_utf8_lossy(event));
            let count = args.from(2).map(forget).filter(|was_there| *was_there).count();
            call.reply.length(count);
        }
        (b"DOCTOR", 2) => {
            let text = doctor(call);
            call.reply.verbatim(&text);
        }
        (b"HELP", 2) => {
            let lines = [
                ("DOCTOR", "Return a human readable latency analysis report."),
                (
                    "HISTOGRAM [COMMAND ...]",
                    "Return a cumulative distribution of commands' latencies in histogram format.",
                ),
                ("HISTORY <event>", "Return time-latency samples for the <event> class."),
                ("LATEST", "Return the latest latency samples for all events."),
                ("RESET [<event> ...]", "Reset latency data of one or more <event> classes (default: all)."),
            ];
            help::answer(call, "LATENCY", &lines);
        }
        (b"LATEST" | b"HISTORY" | b"DOCTOR" | b"HELP", _) => {
            return Err(help::arity("latency", &String::from_utf8_lossy(args.at(1))));
        }
        _ => return Err(help::unknown(call, "LATENCY")),
    }
    Ok(())
}

/// Answers how long commands took, how often: those that are named, or all.
fn histogram(call: &mut Call<'_>) {
    let args = call.args;
    // Who names a command means its subcommands, too.
    let is_named = |name: &str| args.from(2).any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()));
    let is_wanted = |name: &str| args.len() == 2 || is_named(name) || is_named(command_name(name));
    let counts = call.state.observed.counts.commands();
    let found = counts.enumerate().filter_map(|(number, count)| Some((name(number)?, count.durations)));
    let found: Vec<_> = found.filter(|(name, durations)| durations.count() > 0 && is_wanted(name)).collect();
    call.reply.map(found.len());
    for (name, durations) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(durations.count() as i64);
        call.reply.bulk(b"histogram_usec");
        call.reply.map(durations.steps().count());
        for (microseconds, count) in durations.steps() {
            call.reply.integer(microseconds as i64);
            call.reply.integer(count as i64);
        }
    }
}

fn latest(call: &mut Call<'_>) {
    let events = call.state.observed.latency.events();
    call.reply.array(events.len());
    for (name, samples) in events {
        let (at_s, ms) = samples.all.back().copied().unwrap_or_default();
        call.reply.array(4);
        call.reply.bulk(name.as_bytes());
        for number in [at_s, ms as i64, samples.longest as i64] {
            call.reply.integer(number);
        }
    }
}

/// What an operator may do about it.
fn advice(event: &str) -> &'static str {
    match event {
        "command" => "see SLOWLOG GET for the commands; those that walk large keys or all keys take long",
        "fast-command" => "these take a bounded time: the processor was not there, or a value is very long",
        "eviction-cycle" => "many keys go, or large ones: use more memory, or a smaller maxmemory-samples",
        "expire-cycle" => "large keys expire, or many at the same time",
        "aof-fsync-always" => "the disk takes long to make writes durable",
        _ => "there is no advice for it",
    }
}

fn doctor(call: &Call<'_>) -> String {
    let events = call.state.observed.latency.events();
    if call.state.settings.operating.latency_ms == 0 && events.len() == 0 {
        let how = "CONFIG SET latency-monitor-threshold <milliseconds>";
        return format!("Latency is not monitored. \"{how}\" begins to.\n");
    }
    if events.len() == 0 {
        return "Nothing took longer than latency-monitor-threshold.\n".to_owned();
    }
    let mut text = String::new();
    for (name, Samples { all, longest }) in events {
        let mean = all.iter().map(|(_, ms)| *ms).sum::<u64>() / (all.len() as u64).max(1);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{name}: {} samples, {mean} ms in the mean, {longest} ms at most: {}.",
            all.len(),
            advice(name)
        );
    }
    text
}
