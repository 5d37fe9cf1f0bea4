//! Clients that cache keys are told when these change, as Redis 7.0 does.

use crate::client::Store;

/// A store whose second client speaks version 3 and tracks; the first one changes keys.
fn with_tracker(options: &str) -> Store {
    let mut store = Store::new(3);
    assert!(store.say(1, b"hello 3\r\n").starts_with("%7"));
    assert_eq!(store.say(1, format!("client tracking on {options}\r\n").as_bytes()), "+OK");
    store
}

/// What the second client is told when the first one says this.
fn told(store: &mut Store, line: &str) -> String {
    store.line(line);
    store.others().into_iter().filter(|(slot, _)| *slot == 1).map(|(_, text)| text).collect()
}

fn hears(store: &mut Store, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(store.say(1, format!("{line}\r\n").as_bytes()), *expected, "{line}");
    }
}

#[test]
fn options_are_judged_as_redis_does() {
    let overlap = "Prefixes for a single client must not overlap.";
    let own = format!("-ERR Prefix 'a' overlaps with another provided prefix 'ab'. {overlap}");
    let had = format!("-ERR Prefix 'fo' overlaps with an existing prefix 'foo'. {overlap}");
    Store::new(1).hears(&[
        ("client tracking", "-ERR wrong number of arguments for 'client|tracking' command"),
        ("client tracking on foo", "-ERR syntax error"),
        ("client tracking maybe", "-ERR syntax error"),
        (
            "client caching yes",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ),
        ("client trackinginfo", "*6 $5 flags *1 $3 off $8 redirect :-1 $8 prefixes *0"),
        ("client getredir", ":-1"),
        ("client tracking on", "+OK"),
        ("client caching yes", "-ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."),
        ("client caching foo", "-ERR syntax error"),
        ("client trackinginfo", "*6 $5 flags *1 $2 on $8 redirect :0 $8 prefixes *0"),
        ("client getredir", ":0"),
        (
            "client tracking on bcast",
            "-ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ),
        ("client tracking on redirect 99999", "-ERR The client ID you want redirect to does not exist"),
        ("client tracking on prefix a", "-ERR PREFIX option requires BCAST mode to be enabled"),
        ("client tracking on optin optout", "-ERR You can't specify both OPTIN mode and OPTOUT mode"),
        ("client tracking on optin", "+OK"),
        ("client caching no", "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."),
        ("client caching yes", "+OK"),
        ("client trackinginfo", "*6 $5 flags *3 $2 on $5 optin $11 caching-yes $8 redirect :0 $8 prefixes *0"),
        ("client tracking off", "+OK"),
        ("client tracking on bcast optin", "-ERR OPTIN and OPTOUT are not compatible with BCAST"),
        ("client tracking on bcast prefix a prefix ab", &own),
        ("client tracking on bcast prefix foo prefix bar", "+OK"),
        ("client tracking on bcast prefix fo", &had),
        ("client tracking on bcast prefix baz", "+OK"),
        ("client trackinginfo", "*6 $5 flags *2 $2 on $5 bcast $8 redirect :0 $8 prefixes *3 $3 bar $3 baz $3 foo"),
        ("reset", "+RESET"),
        ("client getredir", ":-1"),
    ]);
}

#[test]
fn who_has_read_a_key_is_told_once() {
    let mut store = with_tracker("");
    hears(&mut store, &[("get x", "_"), ("hget h f", "_")]);
    assert_eq!(told(&mut store, "set x 1"), ">2 $10 invalidate *1 $1 x ");
    assert_eq!(told(&mut store, "set x 2"), "");
    assert_eq!(told(&mut store, "hset h a 1 b 2 c 3"), ">2 $10 invalidate *1 $1 h ");
    // Its own messages are behind the answer.
    hears(&mut store, &[("get x", "$1 2"), ("set x 3", "+OK >2 $10 invalidate *1 $1 x")]);
    hears(&mut store, &[("multi", "+OK"), ("get x", "+QUEUED"), ("set x 1", "+QUEUED")]);
    hears(&mut store, &[("exec", "*2 $1 3 +OK >2 $10 invalidate *1 $1 x")]);
    hears(&mut store, &[("eval \"return redis.call('get',KEYS[1])\" 1 z", "_")]);
    assert_eq!(told(&mut store, "set z 1"), ">2 $10 invalidate *1 $1 z ");
    hears(&mut store, &[("mget x y", "*2 $1 1 _")]);
    assert_eq!(told(&mut store, "flushall"), ">2 $10 invalidate _ ");
    assert_eq!(store.state.tracking.table.len(), 0);
    assert_eq!(told(&mut store, "flushdb"), ">2 $10 invalidate _ ");
    assert!(store.line("info clients").contains("tracking_clients:1"));
}

#[test]
fn what_expires_or_goes_for_want_of_memory_is_told() {
    let mut store = with_tracker("");
    store.hears(&[("set x 1 px 100", "+OK"), ("set y 1 px 100", "+OK")]);
    hears(&mut store, &[("get x", "$1 1"), ("get y", "$1 1")]);
    store.state.keyspace.now_ms += 200;
    // Nobody sees that it is gone before who has read it is told.
    assert_eq!(told(&mut store, "get x"), ">2 $10 invalidate *1 $1 x ");
    // The log has no room for a deletion.
    store.state.log.room_to_shrink = 0;
    assert_eq!(told(&mut store, "get y"), ">2 $10 invalidate *1 $1 y ");
    store.state.log.room_to_shrink = 1 << 40;
    store.hears(&[("set z 1", "+OK")]);
    hears(&mut store, &[("get z", "$1 1")]);
    store.hears(&[("config set maxmemory-policy allkeys-random maxmemory 1", "+OK")]);
    assert_eq!(told(&mut store, "set other 1"), ">2 $10 invalidate *1 $1 z ");
}

#[test]
fn who_chooses_is_told_of_what_it_chose() {
    let mut store = with_tracker("optin");
    hears(&mut store, &[("get x", "_")]);
    assert_eq!(told(&mut store, "set x 1"), "");
    hears(&mut store, &[("client caching yes", "+OK"), ("get x", "$1 1"), ("get y", "_")]);
    assert_eq!(told(&mut store, "mset x 1 y 1"), ">2 $10 invalidate *1 $1 x ");
    hears(&mut store, &[("client caching yes", "+OK"), ("multi", "+OK"), ("get x", "+QUEUED"), ("get y", "+QUEUED")]);
    hears(&mut store, &[("exec", "*2 $1 1 $1 1")]);
    assert_eq!(told(&mut store, "set y 2"), ">2 $10 invalidate *1 $1 y ");
    hears(&mut store, &[("client tracking off", "+OK"), ("client tracking on optout", "+OK")]);
    hears(&mut store, &[("client caching no", "+OK"), ("get x", "$1 1"), ("get y", "$1 2")]);
    assert_eq!(told(&mut store, "mset x 1 y 1"), ">2 $10 invalidate *1 $1 y ");
}

#[test]
fn who_does_not_want_to_hear_of_itself_is_not_told() {
    let mut store = with_tracker("noloop");
    hears(&mut store, &[("get x", "_"), ("set x 3", "+OK")]);
    assert_eq!(told(&mut store, "set x 1"), "");
    hears(&mut store, &[("get x", "$1 1")]);
    assert_eq!(told(&mut store, "set x 1"), ">2 $10 invalidate *1 $1 x ");
}

#[test]
fn prefixes_are_told_of_all_their_keys() {
    let mut store = with_tracker("bcast prefix f prefix b");
    assert_eq!(told(&mut store, "mset foo 1 bar 2 zap 3"), ">2 $10 invalidate *1 $3 bar >2 $10 invalidate *1 $3 foo ");
    assert_eq!(told(&mut store, "lpush foo1 1"), ">2 $10 invalidate *1 $4 foo1 ");
    assert_eq!(
        told(&mut store, "del foo1 foo bar"),
        ">2 $10 invalidate *1 $3 bar >2 $10 invalidate *2 $3 foo $4 foo1 "
    );
    hears(&mut store, &[("set fa 1", "+OK >2 $10 invalidate *1 $2 fa"), ("client tracking off", "+OK")]);
    assert!(store.state.tracking.prefixes.is_empty());
    assert_eq!(told(&mut store, "set foo 1"), "");
    assert!(!store.state.keyspace.touched.is_wanted && store.state.keyspace.touched.keys.is_empty());
}

#[test]
fn another_client_can_be_told_by_its_channel() {
    let mut store = with_tracker("redirect 3");
    assert_eq!(store.say(2, b"subscribe __redis__:invalidate\r\n"), "*3 $9 subscribe $20 __redis__:invalidate :1");
    hears(&mut store, &[("client getredir", ":3"), ("get x", "_")]);
    store.line("set x 1");
    assert_eq!(store.others(), [(2, "*3 $7 message $20 __redis__:invalidate *1 $1 x ".to_owned())]);
    hears(&mut store, &[("get x", "$1 1")]);
    // It has said that it goes. Its connection may be there for long.
    assert_eq!(store.say(2, b"quit\r\n"), "+OK");
    assert_eq!(told(&mut store, "set x 2"), ">2 $21 tracking-redir-broken :3 ");
    assert!(store.say(1, b"client trackinginfo\r\n").contains("$15 broken_redirect"));
    assert!(store.say(1, b"client info\r\n").contains("flags=tR"));
}

#[test]
fn the_table_is_bounded_and_what_is_forgotten_is_told() {
    let mut store = with_tracker("");
    store.hears(&[("config set tracking-table-max-keys 10", "+OK")]);
    for number in 0..5 {
        assert_eq!(store.say(1, format!("get k{number}\r\n").as_bytes()), "_");
    }
    // A client has half of the table. What does not fit it may not keep, and hears so behind the answer.
    assert_eq!(store.say(1, b"get k5\r\n"), "_ >2 $10 invalidate *1 $2 k5");
    assert_eq!(store.say(1, b"get k4\r\n"), "_");
    assert_eq!((store.state.tracking.table.len(), store.state.tracking.refused), (5, 1));
    store.hears(&[("config set tracking-table-max-keys 2", "+OK")]);
    let messages = told(&mut store, "ping");
    assert_eq!(messages.matches("invalidate").count(), 3, "{messages}");
    assert_eq!((store.state.tracking.table.len(), store.state.tracking.evicted), (2, 3));
    assert!(store.line("info stats").contains("tracking_total_keys:2 tracking_total_items:2"));
    let long = "k".repeat(70_000);
    assert!(
        store.say(1, format!("*2\r\n$3\r\nget\r\n$70000\r\n{long}\r\n").as_bytes()).starts_with("_ >2 $10 invalidate")
    );
}

#[test]
fn what_can_not_be_noted_one_by_one_means_all() {
    let mut store = with_tracker("");
    store.hears(&[("config set tracking-table-max-keys 2", "+OK")]);
    let mut request = b"*1001\r\n$4\r\nmget\r\n".to_vec();
    for number in 0..1_000 {
        request.extend_from_slice(format!("$2004\r\n{number:04}{}\r\n", "x".repeat(2_000)).as_bytes());
    }
    let heard = store.say(1, &request);
    assert!(heard.ends_with(">2 $10 invalidate _"), "{}", &heard[heard.len() - 100..]);
    assert_eq!(store.state.tracking.table.len(), 1);
}

/// As redis-server 7.0.15 has it: clients know a script's answer by the keys that they gave to it.
#[test]
fn a_script_that_reads_has_its_keys_noted() {
    let mut store = with_tracker("");
    store.line("mset a 1 b 2");
    hears(&mut store, &[("eval \"redis.call('set', 'c', 1)\" 2 a b", "_")]);
    assert_eq!(told(&mut store, "mset a 1 b 2"), "");
    hears(&mut store, &[("eval \"redis.call('get', 'c')\" 2 a b", "_")]);
    assert_eq!(told(&mut store, "mset b 2 a 1"), ">2 $10 invalidate *1 $1 b >2 $10 invalidate *1 $1 a ");
    assert_eq!(told(&mut store, "set c 2"), ">2 $10 invalidate *1 $1 c ");
    hears(&mut store, &[("eval_ro \"redis.call('ping')\" 2 a b", "_")]);
    assert_eq!(told(&mut store, "mset a 1 b 2"), "");
}
