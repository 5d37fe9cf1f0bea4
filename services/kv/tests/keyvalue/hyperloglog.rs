//! HyperLogLog: what is answered, and the bytes that are kept, as Redis 7.0 has them.

use crate::client::Store;

#[test]
fn elements_are_counted() {
    Store::new(1).hears(&[
        ("pfadd h", ":1"),
        ("pfadd h", ":0"),
        ("pfadd h a b c", ":1"),
        ("pfadd h a b c a", ":0"),
        ("pfcount h", ":3"),
        ("pfdebug decode h", "$44 Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603"),
        ("pfdebug encoding h", "+sparse"),
        ("get h", "$27 HYLL\\x01\\x00\\x00\\x00\\x03\\x00\\x00\\x00\\x00\\x00\\x00\\x00`\\xf3\\x80P\\xb1\\x84K\\xfb\\x80BZ"),
        ("pfadd i c d", ":1"),
        ("pfcount h i", ":4"),
        ("pfcount h i none h", ":4"),
        ("pfmerge u h i none", "+OK"),
        ("pfcount u", ":4"),
        ("get u", "$30 HYLL\\x01\\x00\\x00\\x00\\x04\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\\\{\\x80Dv\\x80P\\xb1\\x84K\\xfb\\x80BZ"),
        ("pfmerge h i", "+OK"),
        ("pfcount h", ":4"),
        ("pfmerge new", "+OK"),
        ("get new", "$18 HYLL\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x80\\x7f\\xff"),
        ("pfcount none", ":0"),
        ("expire h 100", ":1"),
        ("pfadd h z", ":1"),
        ("ttl h", ":100"),
        ("pfdebug todense h", ":1"),
        ("pfdebug todense h", ":0"),
        ("pfdebug encoding h", "+dense"),
        ("strlen h", ":12304"),
        ("pfcount h", ":5"),
        ("pfadd h z", ":0"),
        ("pfadd h zz", ":1"),
        ("ttl h", ":100"),
        ("pfmerge u h", "+OK"),
        ("pfdebug encoding u", "+dense"),
        ("type h", "+string"),
        ("pfdebug decode h", "-ERR HLL encoding is not sparse"),
    ]);
}

#[test]
fn strings_that_are_no_sketches_are_refused() {
    Store::new(1).hears(&[
        ("set k v", "+OK"),
        ("pfadd k a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("pfcount k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("pfcount none k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("pfmerge k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("pfmerge none k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("pfdebug encoding k", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("lpush l a", ":1"),
        ("pfadd l a", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("pfcount l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("pfmerge u l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("pfdebug encoding l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("pfadd h a b c", ":1"),
        ("append h x", ":28"),
        ("pfcount h", "-INVALIDOBJ Corrupted HLL object detected"),
        ("pfcount h none", "-INVALIDOBJ Corrupted HLL object detected"),
        ("pfmerge u h", "-INVALIDOBJ Corrupted HLL object detected"),
        ("pfdebug todense h", "-INVALIDOBJ Corrupted HLL object detected"),
        ("del h", ":1"),
        ("pfadd h a", ":1"),
        ("setrange h 0 h", ":21"),
        ("pfadd h a", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("del h", ":1"),
        ("pfadd h a", ":1"),
        ("setrange h 4 \"\\x02\"", ":21"),
        ("pfcount h", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("del h", ":1"),
        ("pfadd h a", ":1"),
        ("pfdebug todense h", ":1"),
        ("append h x", ":12305"),
        ("pfcount h", "-WRONGTYPE Key is not a valid HyperLogLog string value."),
        ("pfdebug encoding none", "-ERR The specified key does not exist"),
        ("pfdebug nonsense u", "-ERR The specified key does not exist"),
        ("pfadd u a", ":1"),
        ("pfdebug nonsense u", "-ERR Unknown PFDEBUG subcommand 'nonsense'"),
        ("exists none", ":0"),
        ("pfadd", "-ERR wrong number of arguments for 'pfadd' command"),
        ("pfcount", "-ERR wrong number of arguments for 'pfcount' command"),
        ("pfmerge", "-ERR wrong number of arguments for 'pfmerge' command"),
        ("pfdebug h", "-ERR wrong number of arguments for 'pfdebug' command"),
    ]);
}

#[test]
fn a_sketch_becomes_dense_when_it_is_long() {
    Store::new(1).hears(&[
        ("config set hll-sparse-max-bytes 30", "+OK"),
        ("pfadd h 0 1 2 3 4", ":1"),
        ("pfdebug encoding h", "+dense"),
        ("strlen h", ":12304"),
        ("pfadd h 5 6 7 8 9 10 11 12", ":1"),
        ("pfdebug encoding h", "+dense"),
        ("strlen h", ":12304"),
        ("pfcount h", ":13"),
        ("config set hll-sparse-max-bytes 3000", "+OK"),
    ]);
}

#[test]
fn a_log_without_room_refuses_a_sketch_that_becomes_dense_but_not_its_count() {
    let mut store = Store::new(1);
    store.hears(&[("pfadd h 0", ":1"), ("config set hll-sparse-max-bytes 22", "+OK")]);
    let before = store.line("get h");
    store.state.log.room = 12_000;
    assert!(store.line("pfadd h 1 2 3 4").starts_with("-OOM "));
    assert_eq!(store.line("get h"), before);
    store.state.log.room_to_shrink = 0;
    store.hears(&[("pfcount h", ":1")]);
    // It is not kept: that would be a write.
    assert_eq!(store.line("get h"), before);
    store.state.log.room_to_shrink = 1 << 20;
    store.hears(&[
        ("pfcount h", ":1"),
        (
            "eval_ro \"return redis.pcall('pfcount', 'h').err\" 0",
            "$58 ERR Write commands are not allowed from read-only scripts.",
        ),
    ]);
    assert_ne!(store.line("get h"), before);
}
