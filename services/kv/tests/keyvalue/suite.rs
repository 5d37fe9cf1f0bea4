//! What Redis' own test suite found (`make redis-suite`).

use crate::client::Store;

#[test]
fn settings_say_up_to_which_sizes_collections_are_small() {
    let mut store = Store::new(1);
    store.hears(&[
        (
            "config get hash-max-*-entries",
            "*4 $25 hash-max-listpack-entries $3 512 $24 hash-max-ziplist-entries $3 512",
        ),
        ("config get set-max-intset-entries", "*2 $22 set-max-intset-entries $3 512"),
        ("hset h a 12345678", ":1"),
        ("object encoding h", "$8 listpack"),
        ("config set hash-max-ziplist-value 7 zset-max-listpack-entries 1 set-max-intset-entries 2", "+OK"),
        ("config get hash-max-listpack-value", "*2 $23 hash-max-listpack-value $1 7"),
        ("object encoding h", "$8 listpack"),
        ("hset h b 1", ":1"),
        ("object encoding h", "$8 listpack"),
        ("hset h b 12345678", ":0"),
        ("object encoding h", "$9 hashtable"),
        ("sadd s 1 2", ":2"),
        ("object encoding s", "$6 intset"),
        ("sadd s 3", ":1"),
        ("object encoding s", "$9 hashtable"),
        ("zadd z 1 a", ":1"),
        ("object encoding z", "$8 listpack"),
        ("zadd z 1 b", ":1"),
        ("object encoding z", "$8 skiplist"),
        ("flushdb", "+OK"),
        ("hset h a 12345678", ":1"),
        ("object encoding h", "$9 hashtable"),
        ("config set list-max-listpack-size -1 list-compress-depth 2", "+OK"),
        (
            "config get list-*",
            "*6 $22 list-max-listpack-size $2 -1 $21 list-max-ziplist-size $2 -1 $19 list-compress-depth $1 2",
        ),
    ]);
}

#[test]
fn settings_that_are_refused_change_nothing() {
    Store::new(1).hears(&[
        (
            "config set hash-max-listpack-entries x",
            "-ERR CONFIG SET failed (possibly related to argument 'hash-max-listpack-entries') - argument couldn't be parsed into an integer",
        ),
        (
            "config set hash-max-listpack-entries 3 list-compress-depth -1",
            "-ERR CONFIG SET failed (possibly related to argument 'list-compress-depth') - argument must be between 0 and 2147483647 inclusive",
        ),
        ("config get hash-max-listpack-entries", "*2 $25 hash-max-listpack-entries $3 512"),
        (
            "config set timeout 1 timeout 2",
            "-ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter",
        ),
        ("config get timeout", "*2 $7 timeout $1 0"),
        ("config set appendonly yes save ''", "+OK"),
        (
            "config set appendonly no",
            "-ERR CONFIG SET failed (possibly related to argument 'appendonly') - can't set immutable config",
        ),
        (
            "config set databases 16",
            "-ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
        ),
        ("config rewrite", "-ERR The server is running without a config file"),
    ]);
}

#[test]
fn a_move_that_adds_nothing_does_not_change_the_target() {
    let mut store = Store::new(2);
    store.hears(&[("sadd from a b", ":2"), ("sadd to a", ":1"), ("watch to", "+OK"), ("multi", "+OK")]);
    store.hears(&[("sadd to c", "+QUEUED")]);
    assert_eq!(store.say(1, b"smove from to a\r\n"), ":1");
    store.hears(&[("exec", "*1 :1"), ("scard to", ":2"), ("scard from", ":1")]);
}

#[test]
fn who_waits_for_several_keys_is_served_in_the_order_of_the_pushes() {
    let mut store = Store::new(3);
    assert_eq!(store.say(1, b"blmpop 0 2 one other left\r\n"), "");
    assert_eq!(store.say(2, b"blmpop 0 2 one other left count 10\r\n"), "");
    store.hears(&[("multi", "+OK"), ("lpush one a", "+QUEUED"), ("lpush other b c", "+QUEUED"), ("exec", "*2 :1 :2")]);
    let heard =
        [(1, "*2 $3 one *1 $1 a "), (2, "*2 $5 other *2 $1 c $1 b ")].map(|(slot, text)| (slot, text.to_owned()));
    assert_eq!(store.others(), heard);
}

#[test]
fn a_client_hears_no_answers_if_it_says_so() {
    let mut store = Store::new(2);
    store.hears(&[
        ("client reply off", ""),
        ("set k v", ""),
        ("client reply skip", ""),
        ("get k", ""),
        ("nonsense", ""),
        ("client reply on", "+OK"),
        ("get k", "$1 v"),
        ("client reply skip", ""),
        ("get k", ""),
        ("get k", "$1 v"),
        ("client reply skip", ""),
        ("client reply on", "+OK"),
        ("client reply off", ""),
        ("subscribe channel", "*3 $9 subscribe $7 channel :1"),
        ("reset", "+RESET"),
        ("get k", "$1 v"),
        ("client reply sometimes", "-ERR syntax error"),
        ("client reply off", ""),
        ("blpop list 0", ""),
    ]);
    assert_eq!(store.say(1, b"rpush list a\r\n"), ":1");
    assert_eq!(store.others(), []);
    store.hears(&[("client reply on", "+OK"), ("exists list", ":0")]);
}

#[test]
fn clients_are_told_as_redis_does() {
    let mut store = Store::new(2);
    store.hears(&[
        ("select 9", "+OK"),
        (
            "client list id 1",
            "$256 id=1 addr=10.77.0.1:4000 laddr=0.0.0.0:6379 fd=0 name= age=1000 idle=1000 flags=N db=9 sub=0 psub=0 ssub=0 multi=-1 \
             qbuf=41 qbuf-free=0 argv-mem=13 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=13 events=r cmd=client|list \
             user=default redir=-1 resp=2\\n",
        ),
    ]);
    let other = store.say(1, b"client list id 1\r\n");
    assert!(other.contains("qbuf=0") && other.contains("argv-mem=0") && other.contains("cmd=client|list"), "{other}");
}

#[test]
fn subcommands_are_listed() {
    let mut store = Store::new(1);
    store.hears(&[
        ("command list filterby pattern config|*re*", "*2 $16 config|resetstat $14 config|rewrite"),
        ("command list filterby pattern set", "*1 $3 set"),
        ("command list filterby module nonsense", "*0"),
        ("command list filterby nonsense nonsense", "-ERR syntax error"),
        ("command info config|get|key", "*1 $-1"),
    ]);
    assert!(store.line("command list").contains("$11 client|list"));
    assert!(store.line("command info zunionstore").contains("+movablekeys"));
    assert!(!store.line("command info lmove").contains("movablekeys"));
}

#[test]
fn scores_are_answered_with_all_their_digits() {
    Store::new(1).hears(&[
        ("zadd z 0.1 a 1e17 b", ":2"),
        ("zscore z a", "$19 0.10000000000000001"),
        ("zmscore z b", "*1 $5 1e+17"),
        ("incrbyfloat f 0.1", "$3 0.1"),
        ("zintercard 0 z", "-ERR at least 1 input key is needed for 'zintercard' command"),
        ("zintercard x z", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn keys_of_commands_are_told() {
    Store::new(1).hears(&[
        ("command getkeys georadius k 1 2 3 m store a storedist b", "*3 $1 k $1 a $1 b"),
        ("command getkeys georadius k 1 2 3 m storedist b store a", "*3 $1 k $1 a $1 b"),
        ("command getkeys georadiusbymember k m 1 m", "*1 $1 k"),
        ("command getkeys sort k store a store b by x get y", "*2 $1 k $1 b"),
        ("command getkeys sort k limit 0 store store c", "*2 $1 k $1 c"),
        ("command getkeys sort k by store get store", "*1 $1 k"),
        ("command getkeys eval x 0", "*0"),
        ("command getkeys eval x 2 a b c", "*2 $1 a $1 b"),
        ("command getkeys get", "-ERR wrong number of arguments for 'command|getkeys' command"),
        ("command getkeys set k", "-ERR Invalid number of arguments specified for command"),
        ("command getkeys ping x", "-ERR The command has no key arguments"),
        ("command getkeys lmpop 3 a left", "-ERR Invalid arguments specified for command"),
        ("command getkeys zunion x a", "-ERR Invalid arguments specified for command"),
        ("command getkeys xread count 1 a", "-ERR Invalid arguments specified for command"),
        ("command getkeys zmpop 2 a min", "*2 $1 a $3 min"),
    ]);
}

/// As redis-server 7.0.15 answers.
#[test]
fn more_arguments_than_there_are_places_for_are_refused_in_its_words() {
    let mut store = Store::new(1);
    for (line, whole) in [
        ("pubsub numpat x", "pubsub|numpat"),
        ("pubsub help x", "pubsub|help"),
        ("config resetstat x", "config|resetstat"),
        ("config rewrite x", "config|rewrite"),
        ("config help x", "config|help"),
        ("command count x", "command|count"),
        ("command help x", "command|help"),
        ("command getkeysandflags get", "command|getkeysandflags"),
        ("xgroup help x", "xgroup|help"),
        ("xinfo help x", "xinfo|help"),
        ("memory doctor x", "memory|doctor"),
        ("object help x", "object|help"),
        ("slowlog len x", "slowlog|len"),
        ("script kill x", "script|kill"),
        ("function stats x", "function|stats"),
        ("role x", "role"),
        ("pfselftest x", "pfselftest"),
        ("save x", "save"),
    ] {
        assert_eq!(store.line(line), format!("-ERR wrong number of arguments for '{whole}' command"), "{line}");
    }
    store.hears(&[
        (
            "pubsub channels a b",
            "-ERR unknown subcommand or wrong number of arguments for 'channels'. Try PUBSUB HELP.",
        ),
        ("slowlog get 1 2", "-ERR unknown subcommand or wrong number of arguments for 'get'. Try SLOWLOG HELP."),
        ("command list x", "-ERR syntax error"),
        ("command nope", "-ERR unknown subcommand 'nope'. Try COMMAND HELP."),
        ("command info nope", "*1 $-1"),
        ("role", "*3 $6 master :0 *0"),
        ("pfselftest", "+OK"),
        // A transaction that can't be executed is over.
        ("watch k", "+OK"),
        ("multi", "+OK"),
        ("exec x", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"),
        ("exec", "-ERR EXEC without MULTI"),
        ("multi", "+OK"),
        ("save", "-ERR Command not allowed inside a transaction"),
        ("exec", "-EXECABORT Transaction discarded because of previous errors."),
        ("save", "+OK"),
    ]);
    assert!(store.state.waits_for_log && store.state.log.is_checkpoint_wanted);
}

/// As redis-server 7.0.15 tells it.
#[test]
fn what_commands_do_with_keys_is_told() {
    for (command, expected) in [
        ("set k v", "*1 *2 $1 k *2 +OW +update"),
        ("set k v get", "*1 *2 $1 k *3 +RW +access +update"),
        ("eval x 2 a b", "*2 *2 $1 a *3 +RW +access +update *2 $1 b *3 +RW +access +update"),
        ("sort k store d", "*2 *2 $1 k *2 +RO +access *2 $1 d *2 +OW +update"),
        ("zunionstore d 1 a", "*2 *2 $1 d *2 +OW +update *2 $1 a *2 +RO +access"),
        ("renamenx a b", "*2 *2 $1 a *3 +RW +access +delete *2 $1 b *2 +OW +insert"),
        ("smove a b c", "*2 *2 $1 a *3 +RW +access +delete *2 $1 b *2 +RW +insert"),
        ("pfmerge a b", "*2 *2 $1 a *3 +RW +access +insert *2 $1 b *2 +RO +access"),
        ("bitfield k get u8 0", "*1 *2 $1 k *2 +RO +access"),
        ("bitfield k set u8 0 1", "*1 *2 $1 k *3 +RW +access +update"),
        ("exists a", "*1 *2 $1 a *1 +RO"),
        ("del a", "*1 *2 $1 a *2 +RM +delete"),
        ("set k", "-ERR Invalid number of arguments specified for command"),
    ] {
        assert_eq!(Store::new(1).line(&format!("command getkeysandflags {command}")), expected, "{command}");
    }
}

#[test]
fn latencies_are_told_by_commands_and_subcommands() {
    let mut store = Store::new(1);
    store.hears(&[("latency histogram", "*0")]);
    store.state.observed.clock = Some(|| 0);
    store.hears(&[("get k", "$-1"), ("get k", "$-1"), ("client id", ":1"), ("latency reset", ":0")]);
    let of = |name: &str, calls: u32| {
        format!("${} {name} *4 $5 calls :{calls} $14 histogram_usec *2 :1 :{calls}", name.len())
    };
    store.hears(&[
        ("latency histogram GET nope", &format!("*2 {}", of("get", 2))),
        ("latency histogram client", &format!("*2 {}", of("client|id", 1))),
        ("latency histogram client|id", &format!("*2 {}", of("client|id", 1))),
        ("latency histogram nope", "*0"),
    ]);
    let stats = store.line("info commandstats");
    assert!(
        stats.contains("cmdstat_client|id:calls=1,") && stats.contains("cmdstat_latency|reset:calls=1,"),
        "{stats}"
    );
    store.line("config resetstat");
    store.hears(&[("latency histogram get", "*0")]);
}
