//! What is told of keys (`notify-keyspace-events`), and sharded channels, as redis-server 7.0.15 does it.

use crate::client::Store;
use qanat_kv::engine::state::Waits;

/// Lines that were said to redis-server, and the events that it told then.
const RECORDED: &str = include_str!("recorded/events.txt");

/// The events that a client was sent: names and keys, and the database if it is not the first.
fn events(store: &mut Store, listener: usize) -> String {
    let heard = store.others().into_iter().filter(|(slot, _)| *slot == listener);
    let events = heard.map(|(_, message)| {
        let words: Vec<&str> = message.split_whitespace().collect();
        let (database, name) = words[6].strip_prefix("__keyevent@").unwrap().split_once("__:").unwrap();
        let database = if database == "0" { String::new() } else { format!("{database}:") };
        format!("{database}{name} {}", words[8])
    });
    events.collect::<Vec<_>>().join(", ")
}

#[test]
fn each_command_tells_what_redis_tells() {
    let (mut store, listener) = (Store::new(5), 4);
    store.hears(&[("config set notify-keyspace-events KEAnm", "+OK")]);
    store.say(listener, b"psubscribe __keyevent@*\r\n");
    for line in RECORDED.lines() {
        let (said, expected) = line.split_once(" =>").unwrap();
        if let Some(ms) = said.strip_prefix("wait ") {
            store.state.keyspace.now_ms += ms.parse::<i64>().unwrap();
        } else if let Some(waiting) = said.strip_prefix("1>") {
            store.say(1, format!("{waiting}\r\n").as_bytes());
        } else {
            store.line(said);
        }
        assert_eq!(events(&mut store, listener), expected.trim(), "{said}");
    }
}

#[test]
fn events_are_told_at_the_channels_and_of_the_kinds_that_are_wanted() {
    let mut store = Store::new(3);
    store.say(1, b"psubscribe __key*\r\n");
    store.hears(&[("config get notify-keyspace-events", "*2 $22 notify-keyspace-events $0"), ("set k v", "+OK")]);
    assert_eq!(store.others(), []);
    store.hears(&[
        ("config set notify-keyspace-events $E", "+OK"),
        ("config get notify-keyspace-events", "*2 $22 notify-keyspace-events $2 $E"),
        ("set k v ex 10", "+OK"),
        ("rpush l a", ":1"),
    ]);
    assert_eq!(store.others(), [(1, "*4 $8 pmessage $6 __key* $18 __keyevent@0__:set $1 k ".to_owned())]);
    store.hears(&[
        ("config set notify-keyspace-events Kg", "+OK"),
        ("select 3", "+OK"),
        ("set k v", "+OK"),
        ("del k", ":1"),
    ]);
    assert_eq!(store.others(), [(1, "*4 $8 pmessage $6 __key* $16 __keyspace@3__:k $3 del ".to_owned())]);
    store.hears(&[
        ("config set notify-keyspace-events g", "+OK"),
        ("set k v", "+OK"),
        ("del k", ":1"),
        (
            "config set notify-keyspace-events Kq",
            "-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
        ),
        ("config get notify-keyspace-events", "*2 $22 notify-keyspace-events $1 g"),
    ]);
    assert_eq!(store.others(), []);
    assert!(store.state.keyspace.events.is_idle());
}

#[test]
fn an_event_waits_for_its_change() {
    let mut store = Store::new(2);
    store.hears(&[("config set notify-keyspace-events KA", "+OK")]);
    store.say(1, b"subscribe __keyspace@0__:k other\r\n");
    store.hears(&[("set k v", "+OK"), ("publish other x", ":1")]);
    let waits: Vec<Waits> = store.state.outbox.iter().map(|(_, _, waits)| *waits).collect();
    assert_eq!(waits, [Waits::Message, Waits::No]);
}

#[test]
fn keys_that_go_by_themselves_are_told_of() {
    let mut store = Store::new(2);
    store.hears(&[("config set notify-keyspace-events Exe", "+OK"), ("set k v px 5", "+OK"), ("set l v", "+OK")]);
    store.say(1, b"psubscribe *\r\n");
    store.state.keyspace.now_ms += 5;
    let qanat_kv::engine::state::State { keyspace, random, .. } = &mut store.state;
    keyspace.expire_some(random);
    qanat_kv::commands::serving::serve(&mut store.state);
    assert_eq!(store.others(), [(1, "*4 $8 pmessage $1 * $22 __keyevent@0__:expired $1 k ".to_owned())]);
    store.hears(&[("config set maxmemory-policy allkeys-random maxmemory 1", "+OK")]);
    store.line("set m v");
    assert_eq!(store.others(), [(1, "*4 $8 pmessage $1 * $22 __keyevent@0__:evicted $1 l ".to_owned())]);
}

#[test]
fn sharded_channels_are_channels_of_their_own() {
    let mut store = Store::new(2);
    assert_eq!(store.say(1, b"ssubscribe a b\r\n"), "*3 $10 ssubscribe $1 a :1 *3 $10 ssubscribe $1 b :2");
    store.hears(&[
        ("spublish a m", ":1"),
        ("publish a m", ":0"),
        ("pubsub shardchannels a*", "*1 $1 a"),
        ("pubsub shardchannels b*", "*1 $1 b"),
        ("pubsub channels", "*0"),
        ("pubsub shardnumsub a none", "*4 $1 a :1 $4 none :0"),
        ("command getkeys spublish a b", "-ERR The command has no key arguments"),
        ("spublish a", "-ERR wrong number of arguments for 'spublish' command"),
    ]);
    assert!(store.line("client list id 2").contains("flags=P db=0 sub=0 psub=0 ssub=2"));
    assert!(store.line("info stats").contains("pubsubshard_channels:2"));
    assert_eq!(store.others(), [(1, "*3 $8 smessage $1 a $1 m ".to_owned())]);
    for (line, expected) in [
        (
            "get k",
            "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        ),
        ("subscribe x", "*3 $9 subscribe $1 x :1"),
        ("unsubscribe", "*3 $11 unsubscribe $1 x :0"),
        ("sunsubscribe a", "*3 $12 sunsubscribe $1 a :1"),
        ("sunsubscribe", "*3 $12 sunsubscribe $1 b :0"),
        ("sunsubscribe", "*3 $12 sunsubscribe $-1 :0"),
        ("get k", "$-1"),
        ("multi", "+OK"),
        ("ssubscribe z", "+QUEUED"),
        ("exec", "*1 -ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"),
    ] {
        assert_eq!(store.say(1, format!("{line}\r\n").as_bytes()), expected, "{line}");
    }
    store.hears(&[("spublish a m", ":0"), ("pubsub shardchannels", "*0")]);
}

#[test]
fn a_user_needs_rights_to_sharded_channels() {
    let mut store = Store::new(2);
    store.hears(&[("acl setuser me on nopass +@all ~* resetchannels &a", "+OK"), ("auth me x", "+OK")]);
    let refused = "-NOPERM this user has no permissions to access one of the channels used as arguments";
    store.hears(&[("ssubscribe b", refused), ("spublish b m", refused), ("spublish a m", ":0")]);
    assert_eq!(store.line("ssubscribe a"), "*3 $10 ssubscribe $1 a :1");
    store.say(1, b"acl setuser me resetchannels\r\n");
    assert!(store.state.sessions.get(0).unwrap().is_killed);
}
