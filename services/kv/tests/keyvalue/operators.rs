//! What operators ask for, as Redis 7.0 answers it: memory limits, slow commands, latencies, counts, and all commands as they come.

use crate::client::{Store, contents};
use qanat_kv::keyspace::database::Entry;
use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::keyspace::value::Value;
use std::sync::atomic::{AtomicU64, Ordering};

const OOM: &str = "-OOM command not allowed when used memory > 'maxmemory'.";

/// Each look at this clock is 15 ms after the one before.
fn slow_clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(0);
    NOW.fetch_add(15_000_000, Ordering::Relaxed)
}

#[test]
fn settings_are_taken_and_refused_as_redis_does() {
    let wrong =
        |name: &str, why: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
    let mut store = Store::new(1);
    store.hears(&[
        ("config get maxmemory", "*2 $9 maxmemory $1 0"),
        ("config set maxmemory 100mb", "+OK"),
        ("config get maxmemory", "*2 $9 maxmemory $9 104857600"),
        ("config set maxmemory 1k", "+OK"),
        ("config get maxmemory", "*2 $9 maxmemory $4 1000"),
        ("config set maxmemory 0", "+OK"),
        ("config set maxmemory-policy ALLKEYS-lfu lfu-decay-time 0", "+OK"),
        ("config get maxmemory-policy", "*2 $16 maxmemory-policy $11 allkeys-lfu"),
        ("config get slowlog-log-slower-than", "*2 $23 slowlog-log-slower-than $5 10000"),
        ("config get slowlog-max-len", "*2 $15 slowlog-max-len $3 128"),
        ("config get lfu*", "*4 $14 lfu-decay-time $1 0 $14 lfu-log-factor $2 10"),
    ]);
    for (name, value, why) in [
        ("maxmemory", "x", "argument must be a memory value"),
        ("maxmemory", "1.5gb", "argument must be a memory value"),
        (
            "maxmemory-policy",
            "x",
            "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random, noeviction",
        ),
        ("maxmemory-samples", "0", "argument must be between 1 and 2147483647 inclusive"),
        ("maxmemory-samples", "x", "argument couldn't be parsed into an integer"),
        ("lfu-log-factor", "-1", "argument must be between 0 and 2147483647 inclusive"),
        ("slowlog-log-slower-than", "-2", "argument must be between -1 and 9223372036854775807 inclusive"),
        ("latency-monitor-threshold", "-1", "argument must be between 0 and 9223372036854775807 inclusive"),
    ] {
        assert_eq!(store.line(&format!("config set {name} {value}")), wrong(name, why));
    }
}

#[test]
fn a_checkpoint_is_made_on_request() {
    let mut store = Store::new(3);
    store.state.started_ms = 5_900;
    store.hears(&[
        ("lastsave", ":5"),
        ("bgsave now", "-ERR syntax error"),
        ("bgsave schedule", "+Background saving started"),
        ("bgsave", "-ERR Background save already in progress"),
        ("bgrewriteaof", "-ERR Background append only file rewriting already in progress"),
    ]);
    assert!(std::mem::take(&mut store.state.log.is_checkpoint_wanted), "the service hears of it");
    store.state.log.checkpointed_ms = Some(7_000);
    store.hears(&[("lastsave", ":7"), ("bgrewriteaof", "+Background append only file rewriting started")]);
    store.state.settings.has_log = false;
    store.hears(&[("bgsave", "-ERR the store is in memory only: there is no log to make a checkpoint of")]);
    let heard = store.line("eval \"return redis.pcall('bgsave')\" 0");
    assert!(heard.starts_with("-ERR This Redis command is not allowed from script"), "{heard}");
}

#[test]
fn without_a_policy_what_grows_is_refused() {
    let mut store = Store::new(2);
    store.hears(&[
        ("set k v", "+OK"),
        ("watch k", "+OK"),
        ("multi", "+OK"),
        ("set k w", "+QUEUED"),
        ("get k", "+QUEUED"),
    ]);
    assert_eq!(store.say(1, b"config set maxmemory 1\r\n"), "+OK");
    let aborted =
        "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.";
    store.hears(&[
        ("exec", aborted),
        ("set k w", OOM),
        ("get k", "$1 v"),
        ("multi", "+OK"),
        ("ping", OOM),
        ("exec", "-EXECABORT Transaction discarded because of previous errors."),
        ("del k", ":1"),
        ("set k w", "+OK"),
        ("config set maxmemory 0", "+OK"),
        ("set k w", "+OK"),
    ]);
    assert!(store.line("info errorstats").contains("errorstat_EXECABORT:count=2 errorstat_OOM:count=2"));
}

#[test]
fn commands_that_may_grow_are_refused_without_memory_and_others_are_not() {
    let mut store = Store::new(1);
    store.hears(&[
        ("pfadd h a", ":1"),
        ("geoadd g 13 38 a", ":1"),
        ("rpush l 2 1", ":2"),
        ("config set maxmemory 1", "+OK"),
    ]);
    for line in [
        "pfadd h b",
        "pfmerge i h",
        "geoadd g 14 38 b",
        "geosearchstore o g frommember a byradius 1 m",
        "georadius g 13 38 10 km",
        "georadiusbymember g a 1 m store o",
        "bitfield b set u8 0 1",
        "sort l store o",
    ] {
        assert_eq!(store.line(line), OOM, "{line}");
    }
    store.hears(&[
        ("pfcount h", ":1"),
        ("geosearch g frommember a byradius 1 m", "*1 $1 a"),
        ("georadius_ro g 13 38 10 km", "*1 $1 a"),
        ("bitfield_ro b get u8 0", "*1 :0"),
        ("sort_ro l", "*2 $1 1 $1 2"),
        ("swapdb 0 1", "+OK"),
    ]);
}

/// Fills a store with more keys than there is room for; each second one expires, the later the higher its number.
fn filled(policy: &str) -> Store {
    let mut store = Store::new(1);
    for number in 0..400 {
        let expires = if number % 2 == 0 { format!(" px {}", 1_000_000 + 10_000 * number) } else { String::new() };
        store.line(&format!("set key{number:03} {}{expires}", "x".repeat(100)));
        store.state.keyspace.now_ms += 200;
    }
    let limit = store.state.keyspace.memory();
    assert_eq!(store.line(&format!("config set maxmemory-policy {policy} maxmemory-samples 10")), "+OK");
    assert_eq!(store.line(&format!("config set maxmemory {limit}")), "+OK");
    store.state.keyspace.clear_record();
    store
}

/// How many of the first half of the keys and of the second are there, of those that expire and of the others.
fn left(store: &Store) -> [usize; 4] {
    let mut counts = [0; 4];
    for number in 0..400_usize {
        let key = format!("key{number:03}");
        let is_there = store.state.keyspace.find(0, key.as_bytes()).is_some();
        counts[number % 2 * 2 + number / 200] += usize::from(is_there);
    }
    counts
}

#[test]
fn each_policy_chooses_its_keys() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let mut store = filled(policy);
        let before = contents(&store.state.keyspace);
        if policy.ends_with("lfu") {
            // What was noted until now were times.
            store.state.keyspace.usage.decay_minutes = 0;
            for number in 0..400 {
                let key = format!("key{number:03}");
                let entry = store.state.keyspace.find(0, key.as_bytes()).unwrap();
                entry.used.set(if number < 200 { 5 } else { 50 });
            }
        }
        let limit = store.state.keyspace.memory();
        for number in 0..80 {
            let line = format!("set new{number} {} ex 100000", "x".repeat(100));
            assert_eq!(store.line(&line), "+OK", "{policy}");
        }
        // One command's growth is the most that it is over.
        assert!(store.state.keyspace.memory() < limit + 500, "{policy}");
        let [old_volatile, new_volatile, old, new] = left(&store);
        let evicted = store.state.pool.evicted;
        assert!(evicted >= 70, "{policy}: {evicted}");
        assert!(store.line("info stats").contains(&format!("evicted_keys:{evicted}")));
        if policy.starts_with("volatile") {
            assert_eq!((old, new), (100, 100), "{policy}");
        }
        if policy.ends_with("random") {
            assert!(old_volatile < 100 && new_volatile < 100, "{policy}");
        } else {
            assert!(old_volatile + old + 25 < new_volatile + new, "{policy}: {:?}", left(&store));
        }
        // The deletions are in the records.
        let mut recovered = Keyspace::default();
        let mut other = filled(policy);
        assert_eq!(contents(&other.state.keyspace), before);
        assert!(other.state.keyspace.replay(store.state.keyspace.record()));
        assert_eq!(contents(&other.state.keyspace), contents(&store.state.keyspace));
        assert!(recovered.replay(store.state.keyspace.record()));
    }
}

#[test]
fn one_command_removes_no_more_than_some_keys() {
    let mut store = filled("allkeys-lru");
    store.line("config set maxmemory 1");
    assert_eq!((store.line("set k v"), store.state.pool.evicted), ("+OK".to_owned(), 64));
    (0..10).for_each(|_| drop(store.line("set k v")));
    store.line("del k");
    assert_eq!(store.line("dbsize"), ":0");
    // A log without room takes no deletions either.
    let mut store = filled("allkeys-lru");
    store.line("config set maxmemory 1");
    (store.state.log.room, store.state.log.room_to_shrink) = (100, 100);
    assert_eq!((store.line("set k v"), store.state.pool.evicted), (OOM.to_owned(), 0));
}

#[test]
fn objects_tell_when_they_were_used() {
    let mut store = Store::new(1);
    store.hears(&[("set k v", "+OK"), ("object idletime k", ":0")]);
    store.state.keyspace.now_ms += 12_300;
    store.hears(&[
        ("mset other v", "+OK"),
        ("object idletime k", ":12"),
        ("exists k", ":1"),
        ("type k", "+string"),
        ("ttl k", ":-1"),
        ("object idletime k", ":12"),
        ("touch k none", ":1"),
        ("object idletime k", ":0"),
        (
            "object freq k",
            "-ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ),
        ("object idletime other", ":0"),
        ("object idletime none", "$-1"),
        ("object freq none", "$-1"),
        ("object idletime", "-ERR wrong number of arguments for 'object|idletime' command"),
        ("config set maxmemory-policy volatile-lfu", "+OK"),
        ("set new v", "+OK"),
        ("object freq new", ":5"),
        ("get new", "$1 v"),
        ("object freq new", ":6"),
        (
            "object idletime k",
            "-ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ),
    ]);
    store.state.keyspace.now_ms += 4 * 60_000;
    store.hears(&[("object freq new", ":2")]);
}

/// Each key has one of these. When or how often it was used takes no more than eight bytes of it.
#[test]
fn an_entry_is_no_larger_than_it_has_to_be() {
    assert_eq!(size_of::<Entry>(), size_of::<Value>() + size_of::<i64>() + 8);
}

#[test]
fn memory_is_told() {
    let mut store = Store::new(1);
    store.hears(&[
        ("memory usage none", "$-1"),
        ("memory usage", "-ERR wrong number of arguments for 'memory|usage' command"),
        ("memory usage k samples", "-ERR syntax error"),
        ("memory usage k samples -1", "-ERR syntax error"),
        ("memory x", "-ERR unknown subcommand 'x'. Try MEMORY HELP."),
        ("memory doctor x", "-ERR wrong number of arguments for 'memory|doctor' command"),
        ("memory purge", "+OK"),
    ]);
    store.line(&format!("set k {}", "x".repeat(1_000)));
    let bytes: usize = store.line("memory usage k samples 0").trim_start_matches(':').parse().unwrap();
    assert!((1_000..1_300).contains(&bytes), "{bytes}");
    store.line("rpush list a b c");
    store.line("select 3");
    store.line("hset hash f v");
    let told = store.line("memory stats");
    assert!(
        told.starts_with("*24 $14 peak.allocated :") && told.contains("$4 db.3 *4 $23 overhead.hashtable.main"),
        "{told}"
    );
    let info = store.line("info memory");
    assert!(info.contains("maxmemory_policy:noeviction") && info.contains("used_memory_human:"), "{info}");
    assert!(info.contains("lazyfree_pending_objects:0"), "{info}");
    store.line("flushall");
    assert_eq!(store.state.keyspace.memory(), 0);
}

#[test]
fn slow_commands_are_kept() {
    let mut store = Store::new(1);
    // Nothing is measured without a clock.
    store.hears(&[("get k", "$-1"), ("slowlog len", ":0")]);
    store.state.observed.clock = Some(slow_clock);
    store.hears(&[("auth secret", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")]);
    let many: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    store.line(&format!("del {}", many.join(" ")));
    store.line(&format!("get {}", "y".repeat(200)));
    store.hears(&[("slowlog len", ":3"), ("config set slowlog-log-slower-than 20000", "+OK"), ("get k", "$-1")]);
    let peer = "$14 10.77.0.1:4000 $0 ";
    let cut = format!("{}... (72 more bytes)", "y".repeat(128));
    // Newest first: CONFIG SET is judged by what it has set.
    let told = store.line("slowlog get 2");
    assert!(told.starts_with(&format!("*2 *6 :3 :1000 :15000 *2 $7 slowlog $3 len {peer} *6 :2")), "{told}");
    assert!(told.contains(&format!("$3 get ${} {cut}", cut.len())), "{told}");
    let told = store.line("slowlog get -1");
    assert!(told.contains("*2 $4 auth $10 (redacted)"), "{told}");
    assert!(told.contains("$23 ... (10 more arguments)"), "{told}");
    store.hears(&[
        ("slowlog get -2", "-ERR count should be greater than or equal to -1"),
        ("slowlog get x", "-ERR count should be greater than or equal to -1"),
        ("slowlog get 1 2", "-ERR unknown subcommand or wrong number of arguments for 'get'. Try SLOWLOG HELP."),
        ("slowlog x", "-ERR unknown subcommand 'x'. Try SLOWLOG HELP."),
        ("config set slowlog-max-len 1", "+OK"),
        ("slowlog len", ":1"),
        ("slowlog reset", "+OK"),
        ("slowlog get", "*0"),
        ("config set slowlog-log-slower-than -1", "+OK"),
        ("get k", "$-1"),
        ("slowlog len", ":0"),
    ]);
}

#[test]
fn latencies_are_kept_if_somebody_wants_to_know() {
    let mut store = Store::new(1);
    store.state.observed.clock = Some(slow_clock);
    store.hears(&[
        ("latency latest", "*0"),
        ("latency history command", "*0"),
        ("latency history", "-ERR wrong number of arguments for 'latency|history' command"),
        ("latency latest x", "-ERR wrong number of arguments for 'latency|latest' command"),
        ("latency reset", ":0"),
        ("config set latency-monitor-threshold 15", "+OK"),
        ("get k", "$-1"),
        ("keys *", "*0"),
        ("latency latest", "*2 *4 $7 command :1000 :15 :15 *4 $12 fast-command :1000 :15 :15"),
        ("latency history fast-command", "*1 *2 :1000 :15"),
        ("latency reset fast-command none", ":1"),
        ("latency history fast-command", "*0"),
    ]);
    assert!(store.line("latency doctor").contains("command: 1 samples, 15 ms in the mean"));
}

#[test]
fn commands_and_errors_are_counted() {
    let mut store = Store::new(1);
    store.state.observed.clock = Some(slow_clock);
    for line in ["set k v", "set k", "get k", "lpush k x", "nonsense", "multi", "get k", "exec"] {
        store.line(line);
    }
    let told = store.line("info commandstats");
    for expected in [
        "cmdstat_set:calls=1,usec=15000,usec_per_call=15000.00,rejected_calls=1,failed_calls=0",
        "cmdstat_get:calls=2,usec=30000,usec_per_call=15000.00,rejected_calls=0,failed_calls=0",
        "cmdstat_lpush:calls=1,usec=15000,usec_per_call=15000.00,rejected_calls=0,failed_calls=1",
        "cmdstat_exec:calls=1,",
    ] {
        assert!(told.contains(expected), "{told}");
    }
    assert!(store.line("info errorstats").contains("errorstat_ERR:count=2 errorstat_WRONGTYPE:count=1"));
    assert!(!store.line("info").contains("cmdstat") && store.line("info all").contains("cmdstat"));
    store.line("config resetstat");
    assert!(!store.line("info commandstats").contains("cmdstat_set"));
}

#[test]
fn all_commands_are_watched() {
    let mut store = Store::new(2);
    store.hears(&[
        ("multi", "+OK"),
        ("monitor", "+QUEUED"),
        ("exec", "*1 -ERR MONITOR isn't allowed for DENY BLOCKING client"),
    ]);
    assert_eq!(store.say(1, b"monitor\r\n"), "+OK");
    assert_eq!(store.say(1, b"monitor\r\n"), "");
    assert_eq!(store.say(1, b"get k\r\n"), "-ERR Replica can't interact with the keyspace");
    let who = "10.77.0.1:4000]";
    for line in
        ["multi", "get k", "exec", "config get x", "nonsense", "auth secret", "hello 2 auth default x", "select 2"]
    {
        store.line(line);
    }
    store.say(0, b"*2\r\n$4\r\necho\r\n$6\r\n\"\\\n\x00\xffa\r\n");
    let told: Vec<String> = store.others().into_iter().filter(|(slot, _)| *slot == 1).map(|(_, line)| line).collect();
    let expected = [
        "0 WHO \"multi\"",
        "0 WHO \"get\" \"k\"",
        "0 WHO \"exec\"",
        "0 WHO \"auth\" \"(redacted)\"",
        "0 WHO \"hello\" \"2\" \"auth\" \"(redacted)\" \"(redacted)\"",
        "0 WHO \"select\" \"2\"",
        "2 WHO \"echo\" \"\\\"\\\\\\n\\x00\\xffa\"",
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected) {
        let line = format!("+1000.000000 [{} ", expected.replace("WHO", who)).trim_end().to_owned();
        let told = told.replace("\\\"", "\"").replace("\\\\", "\\");
        assert_eq!(told.trim_end(), line);
    }
    // A long argument is cut, and a client that is reset watches no more.
    store.say(0, format!("*2\r\n$4\r\necho\r\n$100000\r\n{}\r\n", "z".repeat(100_000)).as_bytes());
    let told = store.others();
    assert!(told[0].1.len() < 66_000 && told[0].1.contains("more bytes, 0 more arguments)"));
    // What a script executes comes behind it.
    store.line("eval \"redis.call('set', 'k', 1)\" 0");
    let told: Vec<String> = store.others().into_iter().map(|(_, line)| line).collect();
    assert!(told[0].contains(&format!("[2 {who} \\\"eval\\\"")) && told[1].contains("[2 lua] \\\"set\\\""), "{told:?}");
    assert_eq!(store.say(1, b"reset\r\n"), "+RESET");
    store.others();
    store.line("ping");
    assert!(store.others().is_empty());
    assert_eq!(store.say(1, b"get k\r\n"), "$-1");
}
