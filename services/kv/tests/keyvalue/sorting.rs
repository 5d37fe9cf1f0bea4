//! SORT and its answers, as Redis 7.0 gives them.

use crate::client::Store;

#[test]
fn elements_are_put_in_order() {
    Store::new(1).hears(&[
        ("rpush l 3 1 2 10", ":4"),
        ("sort l", "*4 $1 1 $1 2 $1 3 $2 10"),
        ("sort l desc", "*4 $2 10 $1 3 $1 2 $1 1"),
        ("sort l alpha", "*4 $1 1 $2 10 $1 2 $1 3"),
        ("sort l limit 1 2", "*2 $1 2 $1 3"),
        ("sort l limit -5 2 desc", "*2 $2 10 $1 3"),
        ("sort l limit 4 1", "*0"),
        ("sort l limit 0 0", "*0"),
        ("sort l limit 2 -1", "*2 $1 3 $2 10"),
        ("rpush t b a 1", ":3"),
        ("sort t", "-ERR One or more scores can't be converted into double"),
        ("sort t alpha", "*3 $1 1 $1 a $1 b"),
        ("sort_ro t alpha desc", "*3 $1 b $1 a $1 1"),
        ("sadd s 3 1 2", ":3"),
        ("sort s", "*3 $1 1 $1 2 $1 3"),
        ("zadd z 1 c 2 b 3 a", ":3"),
        ("sort z alpha", "*3 $1 a $1 b $1 c"),
        ("sort z by nosort", "*3 $1 c $1 b $1 a"),
        ("sort z by nosort desc limit 1 1", "*1 $1 b"),
        ("sort t by nosort desc", "*3 $1 1 $1 a $1 b"),
        ("sort t by nosort limit 1 1", "*1 $1 a"),
        ("rpush f 1.5 -2 \"\" 1e2", ":4"),
        ("sort f", "*4 $2 -2 $0  $3 1.5 $3 1e2"),
        ("rpush f x", ":5"),
        ("sort f", "-ERR One or more scores can't be converted into double"),
        ("sort none", "*0"),
    ]);
}

#[test]
fn elements_are_ordered_and_told_by_other_keys() {
    Store::new(1).hears(&[
        ("rpush l 3 1 2 9", ":4"),
        ("mset w3 30 w1 10 w2 20", "+OK"),
        ("hset h1 f x g 3", ":2"),
        ("hset h2 f y g 1", ":2"),
        ("hset h3 f z", ":1"),
        ("sort l by w*", "*4 $1 9 $1 1 $1 2 $1 3"),
        ("sort l by w* desc get # get w*", "*8 $1 3 $2 30 $1 2 $2 20 $1 1 $2 10 $1 9 $-1"),
        ("sort l by h*->g get h*->f", "*4 $1 z $-1 $1 y $1 x"),
        ("sort l by h*->f alpha desc", "*4 $1 3 $1 2 $1 1 $1 9"),
        ("sort l get none get w* limit 0 2", "*4 $-1 $2 10 $-1 $2 20"),
        ("sort l by w* get h*->", "*4 $-1 $-1 $-1 $-1"),
        ("sort l by none get h*->f", "*4 $1 z $1 x $1 y $-1"),
        ("set h9 text", "+OK"),
        ("sort l get h*->f", "*4 $1 x $1 y $1 z $-1"),
        ("sort l by l* alpha limit 0 1", "*1 $1 3"),
        ("set w1 x", "+OK"),
        ("sort l by w*", "-ERR One or more scores can't be converted into double"),
        ("sort l by w* alpha", "*4 $1 9 $1 2 $1 3 $1 1"),
    ]);
}

#[test]
fn what_was_sorted_is_stored() {
    Store::new(1).hears(&[
        ("rpush l 3 1 2", ":3"),
        ("mset w3 30 w1 10 w2 20", "+OK"),
        ("hset h1 f x g 3", ":2"),
        ("hset h2 f y g 1", ":2"),
        ("hset h3 f z", ":1"),
        ("sort l store o", ":3"),
        ("lrange o 0 -1", "*3 $1 1 $1 2 $1 3"),
        ("expire o 100", ":1"),
        ("sort l desc get w* get none* store o", ":6"),
        ("lrange o 0 -1", "*6 $2 30 $0  $2 20 $0  $2 10 $0"),
        ("ttl o", ":-1"),
        ("sort l store l", ":3"),
        ("lrange l 0 -1", "*3 $1 1 $1 2 $1 3"),
        ("sort l limit 5 1 store o", ":0"),
        ("exists o", ":0"),
        ("sadd s b c a", ":3"),
        ("sort s by nosort store o", ":3"),
        ("lrange o 0 -1", "*3 $1 a $1 b $1 c"),
        ("sort none store o", ":0"),
        ("exists o", ":0"),
        ("set o text", "+OK"),
        ("sort s alpha store o", ":3"),
        ("type o", "+list"),
        ("command getkeys sort k by a get store store b limit 1 1 store c", "*2 $1 k $1 c"),
        ("command getkeys sort k alpha", "*1 $1 k"),
        ("command getkeys sort_ro k get a*", "*1 $1 k"),
    ]);
}

#[test]
fn sorts_that_make_no_sense_are_refused() {
    Store::new(1).hears(&[
        ("rpush l 1", ":1"),
        ("sort l nonsense", "-ERR syntax error"),
        ("sort l limit x 1", "-ERR value is not an integer or out of range"),
        ("sort l limit 1", "-ERR syntax error"),
        ("sort l by", "-ERR syntax error"),
        ("sort l get", "-ERR syntax error"),
        ("sort l store", "-ERR syntax error"),
        ("sort_ro l store k", "-ERR syntax error"),
        ("set k v", "+OK"),
        ("sort k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("hset h f v", ":1"),
        ("sort h store k", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("sort", "-ERR wrong number of arguments for 'sort' command"),
        ("xadd x 1-1 f v", "$3 1-1"),
        ("sort x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
}

/// What is stored is as long as other keys say.
#[test]
fn what_the_log_has_no_room_for_is_not_stored() {
    let mut store = Store::new(1);
    store.line(&format!("set w1 {}", "v".repeat(15_000)));
    store.hears(&[("rpush l 1 1", ":2"), ("rpush o kept", ":1")]);
    store.state.keyspace.clear_record();
    store.state.log.room = 30_000;
    assert!(store.line("sort l get w* store o").starts_with("-OOM "));
    store.hears(&[("lrange o 0 -1", "*1 $4 kept"), ("sort l get w* limit 0 1 store o", ":1"), ("strlen w1", ":15000")]);
}

/// Elements times patterns: neither is long by itself.
#[test]
fn a_sort_whose_answer_is_too_long_is_refused() {
    let mut store = Store::new(1);
    store.hears(&[(&format!("rpush l {}", "v".repeat(60_000)), ":1")]);
    let heard = store.line(&format!("sort_ro l alpha{}", " get #".repeat(3_400)));
    assert_eq!(heard, "-ERR what SORT answers is too long: use LIMIT, or fewer patterns");
    assert!(store.line(&format!("sort_ro l alpha{}", " get none*".repeat(3_400))).starts_with("*3400 $-1"));
}
