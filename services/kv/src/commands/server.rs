//! The server: INFO, CONFIG, TIME, WAITAOF.

use crate::commands::observing::{memory, statistics};
use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::eviction;
use crate::engine::fault::Fault;
use crate::engine::guard;
use crate::engine::help;
use crate::engine::listening::channels::Kind;
use crate::engine::scan::matches;
use crate::engine::settings::{Durability, Statistics};
use crate::keyspace::space::DATABASES;
use crate::resp::number::{integer, unsigned};
use std::collections::HashSet;
use std::fmt::Write;

commands! { "server":
    "info", -1, [], NO_KEYS, "1.0.0", "Returns information and statistics about the server." => info;
    "config", -2, [ADMIN], NO_KEYS, "2.0.0", "Shows and sets settings." => config;
    "time", 1, [FAST], NO_KEYS, "2.6.0", "Returns the server time." => time;
    "role", 1, [FAST], NO_KEYS, "2.8.12", "Returns the replication role." => role;
    "waitaof", 4, [], NO_KEYS, "7.2.0", "Waits until what was written is durable." => waitaof;
}

fn time(call: &mut Call<'_>) -> Result<(), Fault> {
    let now = call.state.keyspace.now_ms;
    call.reply.array(2);
    call.reply.bulk((now / 1_000).to_string().as_bytes());
    call.reply.bulk((now % 1_000 * 1_000).to_string().as_bytes());
    Ok(())
}

/// There is no replication.
fn role(call: &mut Call<'_>) -> Result<(), Fault> {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn waitaof(call: &mut Call<'_>) -> Result<(), Fault> {
    let local = call.positive(1)?;
    let replicas = call.positive(2)?;
    call.positive(3).map_err(|_| Fault::Said("ERR timeout is negative"))?;
    if local > 1 {
        return Err(Fault::Said("ERR value is out of range, must be between 0 and 1"));
    }
    if replicas > 0 {
        return Err(Fault::Said("ERR there are no replicas to wait for: numreplicas has to be 0"));
    }
    if local == 1 && !call.state.settings.has_log {
        return Err(Fault::Said("ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."));
    }
    // The answer leaves when all that was written before is durable.
    call.state.waits_for_log = local == 1;
    call.reply.array(2);
    call.reply.integer(i64::from(call.state.settings.has_log));
    call.reply.integer(0);
    Ok(())
}

type Section = (&'static str, fn(&Call<'_>, &mut String) -> std::fmt::Result);

const SECTIONS: [Section; 9] = [
    ("Server", of_server),
    ("Clients", of_clients),
    ("Memory", memory::section),
    ("Persistence", of_persistence),
    ("Stats", of_statistics),
    ("Replication", |_, text| writeln!(text, "role:master\r\nconnected_slaves:0\r")),
    ("Commandstats", statistics::of_commands),
    ("Errorstats", statistics::of_errors),
    ("Keyspace", of_keyspace),
];

fn of_server(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    let state = &call.state;
    let seconds = (state.keyspace.now_ms - state.started_ms).max(0) / 1_000;
    writeln!(text, "redis_version:{}\r\nredis_mode:standalone\r", crate::limits::REDIS_VERSION)?;
    writeln!(text, "qanat_version:{}\r\nprocess_id:{}\r", env!("CARGO_PKG_VERSION"), std::process::id())?;
    writeln!(text, "tcp_port:{}\r\nuptime_in_seconds:{seconds}\r", state.settings.port)?;
    writeln!(text, "uptime_in_days:{}\r", seconds / 86_400)
}

fn of_clients(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    let state = &call.state;
    writeln!(text, "connected_clients:{}\r\nmaxclients:{}\r", state.sessions.len(), state.settings.clients_max)?;
    writeln!(text, "blocked_clients:{}\r\ntracking_clients:{}\r", state.blocked, state.tracking.clients)
}

fn of_persistence(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    let log = &call.state.log;
    let status = |failed| if failed { "err" } else { "ok" };
    let [is_loading, is_rewriting] = [call.state.is_loading, log.is_checkpointing].map(u8::from);
    let has_log = u8::from(call.state.settings.has_log);
    writeln!(text, "loading:{is_loading}\r\naof_enabled:{has_log}\r\naof_rewrite_in_progress:{is_rewriting}\r")?;
    let saved_s = log.checkpointed_ms.unwrap_or(call.state.started_ms) / 1_000;
    writeln!(text, "rdb_bgsave_in_progress:{is_rewriting}\r\nrdb_last_save_time:{saved_s}\r")?;
    writeln!(text, "aof_last_bgrewrite_status:{}\r", status(log.checkpoint_failed))?;
    writeln!(text, "aof_last_write_status:{}\r", status(log.has_failed))?;
    writeln!(text, "aof_current_size:{}\r\nlog_bytes:{}\r", log.bytes.0, log.bytes.1)?;
    writeln!(
        text,
        "log_batches:{}\r\nlog_checkpoints:{}\r\nlog_refused:{}\r",
        log.batches, log.checkpoints, log.refused
    )?;
    writeln!(text, "data_bytes:{}\r", call.state.keyspace.bytes())
}

fn of_statistics(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    let Statistics { commands, connections, refused, hits, misses, errors, input_bytes, output_bytes, unread } =
        call.state.statistics;
    writeln!(text, "total_connections_received:{connections}\r\nrejected_connections:{refused}\r")?;
    writeln!(text, "total_commands_processed:{commands}\r\ntotal_error_replies:{errors}\r")?;
    writeln!(text, "total_net_input_bytes:{input_bytes}\r\ntotal_net_output_bytes:{output_bytes}\r")?;
    writeln!(text, "client_output_buffer_limit_disconnections:{unread}\r")?;
    writeln!(text, "keyspace_hits:{hits}\r\nkeyspace_misses:{misses}\r")?;
    writeln!(text, "expired_keys:{}\r", call.state.keyspace.expired)?;
    writeln!(text, "evicted_keys:{}\r", call.state.pool.evicted)?;
    writeln!(text, "pubsub_channels:{}\r", call.state.channels.names(Kind::Channel).len())?;
    writeln!(text, "pubsub_patterns:{}\r", call.state.channels.patterns().len())?;
    writeln!(text, "pubsubshard_channels:{}\r", call.state.channels.names(Kind::Shard).len())?;
    let tracking = &call.state.tracking;
    writeln!(text, "tracking_total_keys:{}\r", tracking.table.len())?;
    writeln!(text, "tracking_total_items:{}\r", tracking.table.readers())?;
    writeln!(text, "tracking_total_prefixes:{}\r", tracking.prefixes.len())?;
    writeln!(text, "tracking_evicted_keys:{}\r\ntracking_refused_keys:{}\r", tracking.evicted, tracking.refused)?;
    let denials = &call.state.users.log.counts;
    writeln!(text, "acl_access_denied_auth:{}\r", denials.password)?;
    writeln!(text, "acl_access_denied_cmd:{}\r", denials.command)?;
    writeln!(text, "acl_access_denied_key:{}\r", denials.key)?;
    writeln!(text, "acl_access_denied_channel:{}\r", denials.channel)
}

fn of_keyspace(call: &Call<'_>, text: &mut String) -> std::fmt::Result {
    for number in 0..DATABASES {
        let database = call.state.keyspace.database(number);
        if !database.is_empty() {
            writeln!(text, "db{number}:keys={},expires={},avg_ttl=0\r", database.len(), database.volatile_len())?;
        }
    }
    Ok(())
}

fn info(call: &mut Call<'_>) -> Result<(), Fault> {
    let wants = |name: &str| call.args.from(1).any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()));
    let everything = wants("ALL") || wants("EVERYTHING");
    let default = call.args.len() == 1 || wants("DEFAULT");
    let mut text = String::new();
    for (name, write) in SECTIONS {
        // All commands' counts are long: they are told to those who ask.
        if everything || default && name != "Commandstats" || wants(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing to a string does not fail.
            let _ = write!(text, "# {name}\r\n");
            let _ = write(call, &mut text);
        }
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn config(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    if args.is(1, "GET") {
        if args.len() < 3 {
            return Err(help::arity("config", "get"));
        }
        let is_wanted =
            |name: &str| args.from(2).any(|pattern| matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
        // Passwords are not known.
        let password =
            if call.state.users.get(0).is_some_and(|user| user.needs_no_password) { "" } else { "(redacted)" };
        let settings = call.state.settings.list().into_iter().chain(call.state.keyspace.shapes().list());
        let settings = settings.chain([("requirepass", password.to_owned())]);
        let found: Vec<_> = settings.filter(|(name, _)| is_wanted(name)).collect();
        call.reply.map(found.len());
        for (name, value) in found {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(value.as_bytes());
        }
    } else if args.is(1, "SET") {
        if args.len() < 4 || !args.len().is_multiple_of(2) {
            return Err(help::arity("config", "set"));
        }
        set(call)?;
    } else if args.is(1, "RESETSTAT") && args.len() == 2 {
        call.state.statistics = Statistics::default();
        (call.state.keyspace.expired, call.state.pool.evicted) = (0, 0);
        call.state.observed.counts = Default::default();
        call.state.users.log.counts = Default::default();
        (call.state.tracking.evicted, call.state.tracking.refused) = (0, 0);
        call.reply.ok();
    } else if args.is(1, "REWRITE") && args.len() == 2 {
        return Err(Fault::Said("ERR The server is running without a config file"));
    } else if args.is(1, "HELP") && args.len() == 2 {
        let lines = [
            ("GET <pattern>", "Return parameters matching the glob-like <pattern> and their values."),
            (
                "SET <directive> <value>",
                "Set the configuration <directive> to <value>: appendfsync, timeout, those of memory, of what is noted, and of events.",
            ),
            ("RESETSTAT", "Reset statistics reported by the INFO command."),
            ("REWRITE", "Refused: there is no configuration file."),
        ];
        help::answer(call, "CONFIG", &lines);
    } else {
        return Err(help::unknown(call, "CONFIG"));
    }
    Ok(())
}

fn refused(name: &str, why: &str) -> Fault {
    Fault::Told(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

fn set(call: &mut Call<'_>) -> Result<(), Fault> {
    let mut said = HashSet::new();
    for name in call.args.from(2).step_by(2).map(<[u8]>::to_ascii_lowercase) {
        if said.contains(&name) {
            return Err(refused(&String::from_utf8_lossy(&name), "duplicate parameter"));
        }
        said.insert(name);
    }
    let mut settings = call.state.settings.clone();
    let mut shapes = call.state.keyspace.shapes();
    let mut password = None;
    for index in (2..call.args.len()).step_by(2) {
        let name = String::from_utf8_lossy(call.args.at(index)).to_ascii_lowercase();
        let value = call.args.at(index + 1);
        let wrong = |why: &str| refused(&name, why);
        match name.as_str() {
            "appendfsync" => {
                let durability = Durability::of(&String::from_utf8_lossy(value));
                settings.durability = durability
                    .ok_or_else(|| wrong("argument(s) must be one of the following: everysec, always, no"))?;
            }
            "requirepass" => password = Some(value),
            "timeout" => {
                let seconds = unsigned(value).and_then(|seconds| u32::try_from(seconds).ok());
                settings.timeout_s = seconds.ok_or_else(|| wrong("argument couldn't be parsed into an integer"))?;
            }
            _ if settings.operating.set(&name, value).map_err(|why| wrong(&why.to_string()))? => {}
            _ if shapes.set_by_name(&name, integer(value)).map_err(|why| wrong(&why.to_string()))? => {}
            "daemonize" => return Err(wrong("can't set immutable config")),
            known if settings.list().iter().any(|(name, _)| *name == known) => {
                // What it is already may be said again, where Redis takes it.
                let is_same = settings.list().iter().any(|(name, now)| *name == known && now.as_bytes() == value);
                if !is_same || known == "databases" {
                    return Err(wrong("can't set immutable config"));
                }
            }
            _ => {
                return Err(Fault::Told(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                )));
            }
        }
    }
    call.state.settings = settings;
    eviction::configure(call.state);
    call.state.keyspace.set_shapes(shapes);
    password.into_iter().for_each(|password| guard::set_password(call.state, password));
    call.reply.ok();
    Ok(())
}
