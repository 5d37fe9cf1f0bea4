//! SWAPDB and LOLWUT: what clients see of it, those included who watch or wait; and what is recovered if databases are swapped while a
//! checkpoint walks through them.

use crate::client::{Store, contents};
use qanat_kv::keyspace::space::Keyspace;

#[test]
fn databases_change_places() {
    Store::new(1).hears(&[
        ("set k zero", "+OK"),
        ("select 1", "+OK"),
        ("set k one", "+OK"),
        ("set j one", "+OK"),
        ("swapdb 0 1", "+OK"),
        ("get k", "$4 zero"),
        ("exists j", ":0"),
        ("select 0", "+OK"),
        ("mget k j", "*2 $3 one $3 one"),
        ("swapdb 1 1", "+OK"),
        ("swapdb 3 4", "+OK"),
        ("swapdb x 1", "-ERR invalid first DB index"),
        ("swapdb 0 x", "-ERR invalid second DB index"),
        ("swapdb 0 16", "-ERR DB index is out of range"),
        ("swapdb -1 0", "-ERR DB index is out of range"),
        ("swapdb 0 99999999999", "-ERR invalid second DB index"),
        ("swapdb 0", "-ERR wrong number of arguments for 'swapdb' command"),
        ("multi", "+OK"),
        ("swapdb 0 1", "+QUEUED"),
        ("get k", "+QUEUED"),
        ("exec", "*2 +OK $4 zero"),
        ("select 1", "+OK"),
        ("mget k j", "*2 $3 one $3 one"),
        ("eval \"return redis.call('swapdb', 0, 1)\" 0", "+OK"),
        ("mget k j", "*2 $4 zero $-1"),
        ("expire j 100", ":0"),
        ("swapdb 1 2", "+OK"),
        ("select 2", "+OK"),
        ("get j", "$-1"),
    ]);
}

/// Each of these is watched in database 0, which is swapped with 1, where `there` is.
fn watched(here: &str, there: &str) -> String {
    let mut store = Store::new(2);
    store.hears(&[(here, "+OK"), ("select 1", "+OK"), (there, "+OK"), ("select 0", "+OK"), ("watch k", "+OK")]);
    store.state.keyspace.now_ms += 100;
    assert_eq!(store.say(1, b"swapdb 1 0\r\n"), "+OK");
    store.hears(&[("multi", "+OK"), ("ping", "+QUEUED")]);
    store.line("exec")
}

#[test]
fn who_watches_a_key_sees_it_change_if_either_database_has_it() {
    for (here, there, heard) in [
        ("set k v", "set j v", "*-1"),
        ("set j v", "set k v", "*-1"),
        ("set k v", "set k v", "*-1"),
        ("set j v", "set i v", "*1 +PONG"),
        ("set k v px 50", "set j v", "*-1"),
        // What has expired is not there.
        ("set j v", "set k v px 50", "*1 +PONG"),
    ] {
        assert_eq!(watched(here, there), heard, "{here}; {there}");
    }
}

#[test]
fn who_waits_is_served_if_the_other_database_has_the_key() {
    let mut store = Store::new(5);
    store.hears(&[
        ("select 1", "+OK"),
        ("rpush l a b", ":2"),
        ("zadd z 1 m", ":1"),
        ("select 0", "+OK"),
        ("xgroup create s g $ mkstream", "+OK"),
        ("set z text", "+OK"),
    ]);
    assert_eq!(store.say(1, b"blpop none l 0\r\n"), "");
    assert_eq!(store.say(2, b"bzpopmin none 0\r\n"), "");
    assert_eq!(store.say(3, b"xreadgroup group g c block 0 streams s >\r\n"), "");
    store.say(4, b"select 1\r\n");
    assert_eq!(store.say(4, b"brpop k 0\r\n"), "");
    store.hears(&[("swapdb 0 1", "+OK"), ("lrange l 0 -1", "*1 $1 b")]);
    let heard = [(1, "*2 $1 l $1 a ".to_owned()), (3, "-UNBLOCKED the stream key no longer exists ".to_owned())];
    assert_eq!(store.others(), heard);
    // Those for whom there is nothing go on waiting.
    store.hears(&[("select 1", "+OK"), ("rpush k c", ":1")]);
    assert_eq!(store.others(), [(4, "*2 $1 k $1 c ".to_owned())]);
    assert_eq!(store.state.blocked, 1);
}

#[test]
fn a_swap_is_written_down_and_done_again() {
    let mut store = Store::new(1);
    for line in ["set k v", "expire k 100", "select 1", "set k w", "swapdb 0 1", "set j x", "swapdb 1 7"] {
        store.line(line);
    }
    let mut copy = Keyspace::default();
    assert!(copy.replay(store.state.keyspace.record()));
    assert_eq!(contents(&copy), contents(&store.state.keyspace));
    store.hears(&[("select 7", "+OK"), ("ttl k", ":100"), ("get j", "$1 x"), ("swapdb 3 4", "+OK")]);
}

/// Wherever a checkpoint is when two databases are swapped, all keys of both are recovered from it.
#[test]
fn a_checkpoint_meets_all_keys_of_databases_that_are_swapped() {
    for steps in 0..14 {
        let mut store = Store::new(1);
        for line in ["mset a 1 b 2 c 3", "select 5", "mset d 4 e 5", "select 9", "mset f 6 g 7 h 8 i 9"] {
            store.line(line);
        }
        store.state.keyspace.clear_record();
        let (mut since, mut walk, mut walked) = (Keyspace::default(), store.state.keyspace.walk(), 0);
        let mut goes_on = true;
        while goes_on {
            if walked == steps || walked == steps + 2 {
                store.line(if walked == steps { "swapdb 0 9" } else { "swapdb 9 5" });
                store.line("set new value");
                assert!(since.replay(store.state.keyspace.record()));
                store.state.keyspace.clear_record();
            }
            let mut records = Vec::new();
            goes_on = store.state.keyspace.dump_next(&mut walk, &mut records);
            assert!(records.iter().all(|record| since.replay(record.bytes())));
            walked += 1;
        }
        assert_eq!(contents(&since), contents(&store.state.keyspace), "swapped after {steps} keys");
    }
}

#[test]
fn a_log_that_is_full_or_not_read_yet_refuses_a_swap() {
    let mut store = Store::new(1);
    store.line("set k v");
    store.state.log.room_to_shrink = 0;
    assert!(store.line("swapdb 0 1").starts_with("-OOM "));
    store.state.log.room_to_shrink = 1 << 30;
    store.state.is_loading = true;
    assert!(store.line("swapdb 0 1").starts_with("-LOADING "));
    store.state.is_loading = false;
    store.hears(&[("swapdb 0 1", "+OK"), ("exists k", ":0")]);
}

#[test]
fn the_version_is_shown() {
    let mut store = Store::new(1);
    assert!(store.line("lolwut").contains("Redis ver. 7.0.15"));
    assert!(store.line("lolwut version 5").contains(env!("CARGO_PKG_VERSION")));
    store.hears(&[("lolwut version x", "-ERR value is not an integer or out of range")]);
}
