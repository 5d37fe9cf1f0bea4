//! Streams and their answers, as Redis 7.0 gives them.

use crate::client::{Store, contents};
use qanat_kv::keyspace::space::Keyspace;

#[test]
fn entries_are_added_ranged_and_removed() {
    Store::new(1).hears(&[
        ("xadd s 1-1 f v g w", "$3 1-1"),
        ("xadd s 1-1 f v", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("xadd s 0-0 f v", "-ERR The ID specified in XADD must be greater than 0-0"),
        ("xadd s 1-* f v", "$3 1-2"),
        ("xadd s 2 f v", "$3 2-0"),
        ("xadd s 3-0 f", "-ERR wrong number of arguments for 'xadd' command"),
        ("xadd s nonsense f v", "-ERR Invalid stream ID specified as stream command argument"),
        ("xadd none nomkstream 1-1 f v", "$-1"),
        ("exists none", ":0"),
        ("xlen s", ":3"),
        ("xrange s - +", "*3 *2 $3 1-1 *4 $1 f $1 v $1 g $1 w *2 $3 1-2 *2 $1 f $1 v *2 $3 2-0 *2 $1 f $1 v"),
        ("xrange s (1-1 + count 1", "*1 *2 $3 1-2 *2 $1 f $1 v"),
        ("xrevrange s + (1-2", "*1 *2 $3 2-0 *2 $1 f $1 v"),
        ("xrange s - + count 0", "*-1"),
        ("xrange s (18446744073709551615-18446744073709551615 +", "-ERR invalid start ID for the interval"),
        ("xdel s 1-2 9-9", ":1"),
        ("xadd s maxlen 1 3-0 f v", "$3 3-0"),
        ("xtrim s maxlen = 5 limit 1", "-ERR syntax error, LIMIT cannot be used without the special ~ option"),
        ("xtrim s minid 4", ":1"),
        ("type s", "+stream"),
        ("object encoding s", "$6 stream"),
        ("exists s", ":1"),
        ("xinfo stream s", "*20 $6 length :0 $15 radix-tree-keys :0 $16 radix-tree-nodes :1 $17 last-generated-id $3 3-0 $20 max-deleted-entry-id $3 1-2 $13 entries-added :4 $23 recorded-first-entry-id $3 0-0 $6 groups :0 $11 first-entry $-1 $10 last-entry $-1"),
        ("xadd s 3-0 f v", "-ERR The ID specified in XADD is equal or smaller than the target stream top item"),
        ("xsetid s 9-0 entriesadded 20 maxdeletedid 5-0", "+OK"),
        ("xsetid s 4-0", "+OK"),
        ("xadd s 9-0 f v", "$3 9-0"),
        ("copy s t", ":1"),
        ("rename t u", "+OK"),
        ("xlen u", ":1"),
        ("lpush l a", ":1"),
        ("xadd l * f v", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("xlen l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

#[test]
fn streams_are_read_alone_and_by_groups() {
    Store::new(1).hears(&[
        ("xread streams none 0", "*-1"),
        ("xadd a 1-0 f v", "$3 1-0"),
        ("xadd a 2-0 f v", "$3 2-0"),
        ("xadd b 5-0 f v", "$3 5-0"),
        ("xread count 1 streams a b 0 5", "*1 *2 $1 a *1 *2 $3 1-0 *2 $1 f $1 v"),
        ("xread streams a b 1 4", "*2 *2 $1 a *1 *2 $3 2-0 *2 $1 f $1 v *2 $1 b *1 *2 $3 5-0 *2 $1 f $1 v"),
        ("xread streams a $", "*-1"),
        ("xread streams a b 0", "-ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."),
        ("xread streams a >", "-ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."),
        ("xread group g c streams a 0", "-ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."),
        ("xread block -1 streams a 0", "-ERR timeout is negative"),
        ("xread block x streams a 0", "-ERR timeout is not an integer or out of range"),
        ("xreadgroup group g c streams a >", "-NOGROUP No such key 'a' or consumer group 'g' in XREADGROUP with GROUP option"),
        ("xgroup create a g 0", "+OK"),
        ("xgroup create a g 0", "-BUSYGROUP Consumer Group name already exists"),
        ("xgroup create none g $", "-ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."),
        ("xreadgroup group g c streams a $", "-ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."),
        ("xreadgroup count 1 group g c streams a >", "*1 *2 $1 a *1 *2 $3 1-0 *2 $1 f $1 v"),
        ("xreadgroup group g c streams a 0", "*1 *2 $1 a *1 *2 $3 1-0 *2 $1 f $1 v"),
        ("xreadgroup group g d noack streams a >", "*1 *2 $1 a *1 *2 $3 2-0 *2 $1 f $1 v"),
        ("xreadgroup group g d streams a >", "*-1"),
        ("xdel a 1-0", ":1"),
        ("xreadgroup group g c streams a 0", "*1 *2 $1 a *1 *2 $3 1-0 *-1"),
        ("xpending a g", "*4 :1 $3 1-0 $3 1-0 *1 *2 $1 c $1 1"),
        ("xpending a none", "-NOGROUP No such key 'a' or consumer group 'none'"),
    ]);
}

#[test]
fn what_is_pending_is_claimed_and_acknowledged() {
    Store::new(1).hears(&[
        ("xgroup create s g $ mkstream", "+OK"),
        ("xinfo stream s", "*20 $6 length :0 $15 radix-tree-keys :0 $16 radix-tree-nodes :1 $17 last-generated-id $3 0-0 $20 max-deleted-entry-id $3 0-0 $13 entries-added :0 $23 recorded-first-entry-id $3 0-0 $6 groups :1 $11 first-entry $-1 $10 last-entry $-1"),
        ("xadd s 1-0 f v", "$3 1-0"),
        ("xadd s 2-0 f v", "$3 2-0"),
        ("xadd s 3-0 f v", "$3 3-0"),
        ("xreadgroup group g alice count 2 streams s >", "*1 *2 $1 s *2 *2 $3 1-0 *2 $1 f $1 v *2 $3 2-0 *2 $1 f $1 v"),
        ("xpending s g - + 10 alice", "*2 *4 $3 1-0 $5 alice :0 :1 *4 $3 2-0 $5 alice :0 :1"),
        ("xpending s g idle 100000 - + 10", "*0"),
        ("xclaim s g bob 0 1-0 retrycount 7", "*1 *2 $3 1-0 *2 $1 f $1 v"),
        ("xclaim s g bob 100000 2-0", "*0"),
        ("xclaim s g bob 0 3-0 force justid", "*1 $3 3-0"),
        ("xclaim s g bob x 3-0", "-ERR Invalid min-idle-time argument for XCLAIM"),
        ("xclaim s g bob 0 3-0 nonsense", "-ERR Unrecognized XCLAIM option 'nonsense'"),
        ("xpending s g", "*4 :3 $3 1-0 $3 3-0 *2 *2 $5 alice $1 1 *2 $3 bob $1 2"),
        ("xack s g 1-0 1-0 9-9", ":1"),
        ("xautoclaim s g carol 0 - count 1", "*3 $3 3-0 *1 *2 $3 2-0 *2 $1 f $1 v *0"),
        ("xdel s 3-0", ":1"),
        ("xautoclaim s g carol 0 2-1 justid", "*3 $3 0-0 *0 *1 $3 3-0"),
        ("xautoclaim s g carol 0 0 count 0", "-ERR COUNT must be > 0"),
        ("xinfo groups s", "*1 *12 $4 name $1 g $9 consumers :3 $7 pending :1 $17 last-delivered-id $3 2-0 $12 entries-read :2 $3 lag $-1"),
        ("xgroup createconsumer s g dave", ":1"),
        ("xgroup createconsumer s g dave", ":0"),
        ("xgroup delconsumer s g carol", ":1"),
        ("xgroup setid s g 1 entriesread 1", "+OK"),
        ("xinfo groups s", "*1 *12 $4 name $1 g $9 consumers :3 $7 pending :0 $17 last-delivered-id $3 1-0 $12 entries-read :1 $3 lag $-1"),
        ("xgroup destroy s g", ":1"),
        ("xgroup destroy s g", ":0"),
        ("xgroup setid s g 0", "-NOGROUP No such consumer group 'g' for key name 's'"),
        ("xgroup nonsense s g", "-ERR unknown subcommand 'nonsense'. Try XGROUP HELP."),
        ("xgroup create s", "-ERR wrong number of arguments for 'xgroup|create' command"),
        ("xinfo consumers s g", "-NOGROUP No such consumer group 'g' for key name 's'"),
        ("xinfo stream none", "-ERR no such key"),
    ]);
}

/// What each client hears while the others wait.
fn waits(store: &mut Store, client: usize, line: &str) {
    assert_eq!(store.say(client, format!("{line}\r\n").as_bytes()), "");
}

#[test]
fn all_who_read_are_served_and_a_groups_consumers_in_turn() {
    let mut store = Store::new(4);
    store.hears(&[("xgroup create s g $ mkstream", "+OK")]);
    waits(&mut store, 1, "xreadgroup group g one block 0 streams s >");
    waits(&mut store, 2, "xreadgroup group g two block 0 streams s >");
    waits(&mut store, 3, "xread block 0 streams s other $ 0");
    store.hears(&[("xadd s 1-0 f v", "$3 1-0")]);
    let first = "*1 *2 $1 s *1 *2 $3 1-0 *2 $1 f $1 v ".to_owned();
    assert_eq!(store.others(), [(1, first.clone()), (3, first)]);
    store.hears(&[
        ("xadd s 2-0 f v", "$3 2-0"),
        ("xpending s g", "*4 :2 $3 1-0 $3 2-0 *2 *2 $3 one $1 1 *2 $3 two $1 1"),
    ]);
    assert_eq!(store.others(), [(2, "*1 *2 $1 s *1 *2 $3 2-0 *2 $1 f $1 v ".to_owned())]);
    assert_eq!(store.state.blocked, 0);
}

#[test]
fn who_waits_is_told_that_group_or_key_are_gone() {
    let gone = (1, "-UNBLOCKED the stream key no longer exists ".to_owned());
    for (line, heard) in [
        (
            "xgroup destroy s g",
            (1, "-NOGROUP the consumer group this client was blocked on no longer exists ".to_owned()),
        ),
        ("del s", gone.clone()),
        ("set s v", gone.clone()),
        ("flushall", gone.clone()),
        ("rename s t", gone),
    ] {
        let mut store = Store::new(3);
        store.line("xgroup create s g $ mkstream");
        waits(&mut store, 1, "xreadgroup group g one block 0 streams s >");
        waits(&mut store, 2, "xread block 0 streams s $");
        store.line(line);
        assert_eq!((store.others(), store.state.blocked), (vec![heard], 1), "{line}");
    }
}

#[test]
fn who_has_waited_long_enough_hears_nothing() {
    let mut store = Store::new(2);
    waits(&mut store, 1, "xread block 10 streams s $");
    store.state.keyspace.now_ms += 10;
    qanat_kv::commands::serving::expire(&mut store.state);
    assert_eq!(store.others(), [(1, "*-1 ".to_owned())]);
    store.hears(&[("multi", "+OK"), ("xread block 0 streams s $", "+QUEUED"), ("exec", "*1 *-1")]);
}

#[test]
fn ids_of_now_grow_even_if_the_clock_does_not() {
    let mut store = Store::new(1);
    store.hears(&[("xadd s * f v", "$9 1000000-0"), ("xadd s * f v", "$9 1000000-1")]);
    store.state.keyspace.now_ms -= 5;
    store.hears(&[("xadd s * f v", "$9 1000000-2")]);
    store.line("xadd t 18446744073709551615-18446744073709551615 f v");
    store.hears(&[("xadd t * f v", "-ERR The stream has exhausted the last possible ID, unable to add more items")]);
}

#[test]
fn about_means_hundreds() {
    let mut store = Store::new(1);
    for number in 1..=350 {
        store.line(&format!("xadd s {number} f v"));
    }
    store.hears(&[
        ("xtrim s maxlen ~ 201", ":100"),
        ("xtrim s maxlen ~ 1 limit 99", ":0"),
        ("xtrim s minid ~ 250", ":100"),
        ("xtrim s maxlen ~ 0", ":150"),
        ("exists s", ":1"),
    ]);
}

/// Many entries are pending, so that a checkpoint has several changes of them.
#[test]
fn a_group_with_much_pending_is_what_its_checkpoint_has() {
    let mut store = Store::new(1);
    for number in 1..=5_000 {
        store.line(&format!("xadd s {number} field value"));
    }
    store.line("xgroup create s g 0");
    store.line("xreadgroup group g one count 4000 streams s >");
    store.line("xreadgroup group g two streams s >");
    let (mut walk, mut records, mut again) = (store.state.keyspace.walk(), Vec::new(), Keyspace::default());
    while store.state.keyspace.dump_next(&mut walk, &mut records) {}
    assert!(records.iter().all(|record| again.replay(record.bytes())));
    assert_eq!(contents(&again), contents(&store.state.keyspace));
    assert_eq!(again.bytes(), store.state.keyspace.bytes());
}

/// What a group gives is written down, so it gives no more than the log has room for.
#[test]
fn a_delivery_is_cut_to_the_room_of_the_log() {
    let mut store = Store::new(1);
    for number in 1..=5_000 {
        store.line(&format!("xadd s {number} f v"));
    }
    store.line("xgroup create s g 0");
    store.state.keyspace.clear_record();
    store.state.log.room = 20 << 10;
    store.line("xreadgroup group g one streams s >");
    assert!(store.state.keyspace.record().len() < 20 << 10);
    assert!(store.line("xpending s g").starts_with("*4 :5"));
}

/// A command that has waited in vain has failed.
#[test]
fn who_waited_for_a_group_that_is_gone_is_counted() {
    let mut store = Store::new(2);
    store.hears(&[("xgroup create s g $ mkstream", "+OK"), ("config resetstat", "+OK")]);
    assert_eq!(store.say(1, b"xreadgroup group g c block 0 streams s >\r\n"), "");
    store.hears(&[("xgroup destroy s g", ":1")]);
    assert!(store.others()[0].1.starts_with("-NOGROUP"));
    let info = store.line("info all");
    assert!(info.contains("errorstat_NOGROUP:count=1") && info.contains("total_error_replies:1"), "{info}");
    let of_command = info.split_once("cmdstat_xreadgroup:calls=1,").expect("it is counted").1;
    assert!(of_command.split("\\r").next().is_some_and(|rest| rest.contains("failed_calls=1")), "{info}");
}

/// Pieces lie as redis-server 7.0.15 has them, by `stream-node-max-entries`.
#[test]
fn trimming_about_takes_whole_pieces() {
    let mut store = Store::new(1);
    for (size, adds, trims) in [
        (
            100,
            1_000,
            &[("maxlen 666", ":334", ":666"), ("maxlen = 555", ":111", ":555"), ("maxlen ~ 444", ":55", ":500")][..],
        ),
        (2, 3, &[("maxlen ~ 0 limit 1", ":0", ":3"), ("maxlen ~ 0 limit 2", ":2", ":1")]),
        (
            10,
            100,
            &[
                ("maxlen ~ 55 limit 30", ":30", ":70"),
                ("maxlen ~ 55 limit 30", ":10", ":60"),
                ("maxlen ~ 0", ":60", ":0"),
            ],
        ),
    ] {
        store.hears(&[(&format!("config set stream-node-max-entries {size}"), "+OK")]);
        (0..adds).for_each(|_| drop(store.line("xadd s * f v")));
        for (trim, gone, left) in trims {
            store.hears(&[(&format!("xtrim s {trim}"), gone), ("xlen s", left)]);
        }
        store.line("del s");
    }
}
