//! Commands and their answers, as Redis 7.0 gives them.

use crate::client::Store;

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn strings_are_what_redis_makes_of_them() {
    let mut store = Store::new(1);
    store.hears(&[
        ("get k", "$-1"),
        ("set k v", "+OK"),
        ("GET k", "$1 v"),
        ("set k w nx", "$-1"),
        ("set k w xx get", "$1 v"),
        ("set k w ex 0", "-ERR invalid expire time in 'set' command"),
        ("set k w ex x", "-ERR value is not an integer or out of range"),
        ("set k w ex 10 px 10", "-ERR syntax error"),
        ("set k w ex 100", "+OK"),
        ("ttl k", ":100"),
        ("set k x keepttl", "+OK"),
        ("ttl k", ":100"),
        ("getex k persist", "$1 x"),
        ("ttl k", ":-1"),
        ("append k yz", ":3"),
        ("getrange k -2 -1", "$2 yz"),
        ("setrange k 5 !", ":6"),
        ("getdel k", "$6 xyz\\x00\\x00!"),
        ("incr n", ":1"),
        ("incrby n 41", ":42"),
        ("decrby n -9223372036854775808", "-ERR decrement would overflow"),
        ("set n 9223372036854775807", "+OK"),
        ("incr n", "-ERR increment or decrement would overflow"),
        ("incrbyfloat f 10.5", "$4 10.5"),
        ("incrbyfloat f 0.1", "$4 10.6"),
        ("mset a 1 b 2 c", "-ERR wrong number of arguments for 'mset' command"),
        ("msetnx a 1 n 2", ":0"),
        ("mset a 1 b 2", "+OK"),
        ("mget a none b", "*3 $1 1 $-1 $1 2"),
        ("setbit bits 7 1", ":0"),
        ("bitcount bits", ":1"),
        ("bitpos bits 1", ":7"),
        ("bitop not other bits", ":1"),
        ("get other", "$1 \\xfe"),
        ("bitop xor same bits", ":1"),
        ("get same", "$1 \\x01"),
        ("mset one ohmytext two mynewtext", "+OK"),
        ("lcs one two", "$6 mytext"),
        ("lcs one two idx minmatchlen 4", "*4 $7 matches *1 *2 *2 :4 :7 *2 :5 :8 $3 len :6"),
    ]);
}

#[test]
fn errors_are_worded_as_redis_does() {
    Store::new(1).hears(&[
        ("nonsense 'a b' c", "-ERR unknown command 'nonsense', with args beginning with: 'a b' 'c'"),
        ("get", "-ERR wrong number of arguments for 'get' command"),
        ("select 16", "-ERR DB index is out of range"),
        ("client nonsense", "-ERR unknown subcommand 'nonsense'. Try CLIENT HELP."),
        ("exec", "-ERR EXEC without MULTI"),
        ("hello 4", "-NOPROTO unsupported protocol version"),
        (
            "config set port 1",
            "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config",
        ),
    ]);
}

#[test]
fn keys_expire_and_move() {
    let mut store = Store::new(1);
    store.hears(&[("set k v px 50", "+OK"), ("pttl k", ":50"), ("expire k 100 gt", ":1"), ("pexpire k 20", ":1")]);
    store.state.keyspace.now_ms += 30;
    store.hears(&[
        ("get k", "$-1"),
        ("exists k", ":0"),
        ("ttl k", ":-2"),
        ("append k new", ":3"),
        ("ttl k", ":-1"),
        ("rename k j", "+OK"),
        ("rename k j", "-ERR no such key"),
        ("copy j i", ":1"),
        ("copy j i", ":0"),
        ("move i 3", ":1"),
        ("select 3", "+OK"),
        ("get i", "$3 new"),
        ("flushall", "+OK"),
        ("dbsize", ":0"),
    ]);
}

#[test]
fn a_scan_meets_all_that_is_there_all_the_time() {
    let mut store = Store::new(1);
    for number in 0..500 {
        store.line(&format!("set kept{number} v"));
        store.line(&format!("set gone{number} v"));
    }
    let (mut cursor, mut met, mut step) = ("0".to_owned(), std::collections::HashSet::new(), 0);
    loop {
        let heard = store.line(&format!("scan {cursor} count 7 match kept*"));
        let words: Vec<&str> = heard.split(' ').collect();
        met.extend(words.iter().filter(|word| word.starts_with("kept")).map(ToString::to_string));
        cursor = words[2].to_owned();
        if cursor == "0" {
            break;
        }
        store.line(&format!("del gone{step} gone{}", 499 - step));
        store.line(&format!("set new{step} v"));
        step += 1;
    }
    assert_eq!(met.len(), 500);
}

#[test]
fn hashes_lists_and_sets() {
    let mut store = Store::new(1);
    store.hears(&[
        ("hset h a 1 b 2", ":2"),
        ("hset h a 1 c", "-ERR wrong number of arguments for 'hset' command"),
        ("hget h b", "$1 2"),
        ("hincrby h b 5", ":7"),
        ("hgetall h", "*4 $1 a $1 1 $1 b $1 7"),
        ("hscan h 0 match b", "*2 $1 0 *2 $1 b $1 7"),
        ("get h", WRONG),
        ("hdel h a b c", ":2"),
        ("exists h", ":0"),
        ("rpush l a b c b", ":4"),
        ("lrange l 0 -1", "*4 $1 a $1 b $1 c $1 b"),
        ("lpos l b rank -1", ":3"),
        ("linsert l before c x", ":5"),
        ("lrem l -1 b", ":1"),
        ("lrange l 0 -1", "*4 $1 a $1 b $1 x $1 c"),
        ("ltrim l 1 -1", "+OK"),
        ("lmove l m left right", "$1 b"),
        ("lpop l 5", "*2 $1 x $1 c"),
        ("exists l", ":0"),
        ("lpop l 1", "*-1"),
        ("lset l 0 a", "-ERR no such key"),
        ("sadd s a b c", ":3"),
        ("sadd t b c d", ":3"),
        ("sinter s t", "*2 $1 b $1 c"),
        ("sdiff s t", "*1 $1 a"),
        ("sinterstore u s t", ":2"),
        ("sintercard 2 s t limit 1", ":1"),
        ("smove s t a", ":1"),
        ("scard t", ":4"),
        ("object encoding u", "$9 hashtable"),
    ]);
}

#[test]
fn sorted_sets() {
    let mut store = Store::new(1);
    store.hears(&[
        ("zadd z 1 a 2 b 3 c", ":3"),
        ("zadd z xx ch 5 a 1 new", ":1"),
        ("zadd z gt 1 a", ":0"),
        ("zrange z 0 -1 withscores", "*6 $1 b $1 2 $1 c $1 3 $1 a $1 5"),
        ("zrange z (2 +inf byscore limit 0 1", "*1 $1 c"),
        ("zrevrangebyscore z +inf (2", "*2 $1 a $1 c"),
        ("zrevrange z 0 0", "*1 $1 a"),
        ("zrank z a", ":2"),
        ("zrevrank z a", ":0"),
        ("zincrby z 0.5 b", "$3 2.5"),
        ("zcount z 2 (3", ":1"),
        ("zadd y 0 a 0 b 0 c", ":3"),
        ("zrangebylex y [b +", "*2 $1 b $1 c"),
        ("zunionstore u 2 z y weights 2 1 aggregate max", ":3"),
        ("zscore u a", "$2 10"),
        ("zdiff 2 z y", "*0"),
        ("zpopmin z", "*2 $1 b $3 2.5"),
        ("zremrangebyrank z 0 -1", ":2"),
        ("exists z", ":0"),
        ("zadd z nx xx 1 a", "-ERR XX and NX options at the same time are not compatible"),
    ]);
}

#[test]
fn a_transaction_is_one_or_none() {
    let mut store = Store::new(2);
    store.hears(&[
        ("watch k", "+OK"),
        ("multi", "+OK"),
        ("set k 1", "+QUEUED"),
        ("incr k", "+QUEUED"),
        ("exec", "*2 +OK :2"),
    ]);
    store.hears(&[("watch k", "+OK"), ("multi", "+OK"), ("set k 7", "+QUEUED")]);
    store.say(1, b"set k other\r\n");
    store.hears(&[("exec", "*-1"), ("get k", "$5 other"), ("multi", "+OK")]);
    store.line("nonsense");
    store.hears(&[("exec", "-EXECABORT Transaction discarded because of previous errors.")]);
}

#[test]
fn who_waits_is_served_in_turn() {
    let mut store = Store::new(3);
    assert_eq!(
        (store.say(1, b"blpop l 0\r\n"), store.say(2, b"blmove l m left right 0\r\n")),
        (String::new(), String::new())
    );
    store.hears(&[("rpush l a b", ":2"), ("exists l", ":0"), ("lrange m 0 -1", "*1 $1 b")]);
    assert_eq!(store.others(), [(1, "*2 $1 l $1 a ".to_owned()), (2, "$1 b ".to_owned())]);
    assert_eq!(store.say(1, b"bzpopmin z 0.01\r\n"), "");
    store.state.keyspace.now_ms += 11;
    qanat_kv::commands::serving::expire(&mut store.state);
    assert_eq!((store.others(), store.state.blocked), (vec![(1, "*-1 ".to_owned())], 0));
}

#[test]
fn messages_reach_those_who_listen() {
    let mut store = Store::new(3);
    assert_eq!(store.say(1, b"subscribe news\r\n"), "*3 $9 subscribe $4 news :1");
    assert_eq!(store.say(2, b"psubscribe n*\r\n"), "*3 $10 psubscribe $2 n* :1");
    store.hears(&[("publish news hello", ":2"), ("publish other hello", ":0")]);
    let heard = store.others();
    assert_eq!(
        heard,
        [(1, "*3 $7 message $4 news $5 hello ".to_owned()), (2, "*4 $8 pmessage $2 n* $4 news $5 hello ".to_owned()),]
    );
    assert!(store.say(1, b"get k\r\n").starts_with("-ERR Can't execute 'get'"));
}

#[test]
fn a_full_log_refuses_what_grows_and_takes_what_shrinks() {
    let mut store = Store::new(1);
    store.line("set k v");
    store.state.log.room = 0;
    assert!(store.line("set k w").starts_with("-OOM "));
    store.hears(&[("get k", "$1 v"), ("del k", ":1")]);
    store.state.log.has_failed = true;
    assert!(store.line("del k").starts_with("-MISCONF "));
    store.hears(&[("get k", "$-1")]);
}
