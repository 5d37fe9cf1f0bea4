//! FUNCTION DUMP and FUNCTION RESTORE, as redis-server 7.0.15 does them.

use crate::client::{Store, contents};
use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::rdb::payload::close;
use std::time::Duration;

fn ask(store: &mut Store, words: &[&[u8]]) -> String {
    store.ask(0, words)
}

fn library(name: &str, function: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('{function}', function() return '{name}' end)")
}

/// A payload with these texts.
fn payload(texts: &[&str]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        body.extend_from_slice(&[0xf5, 0x80]);
        body.extend_from_slice(&(text.len() as u32).to_be_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    close(body)
}

fn restore(store: &mut Store, payload: &[u8], policy: &str) -> String {
    ask(store, &[b"function", b"restore", payload, policy.as_bytes()])
}

#[test]
fn libraries_are_dumped_as_redis_does() {
    let mut store = Store::new(1);
    // FUNCTION DUMP of redis-server, without a library and with one.
    store.hears(&[("function dump", "$10 \\n\\x00]\\x9b\\\\@\\x0f\\x7f\\xa2\\xda")]);
    ask(&mut store, &[b"function", b"load", b"#!lua name=d\nredis.register_function('z',function() return 1 end)"]);
    let expected = "$78 \\xf5@A#!lua name=d\\nredis.register_function('z',function() return 1 end)\\n\\x00%\\xc7l\\x02/b\\x90\\xbe";
    store.hears(&[
        ("function dump", expected),
        ("function dump x", "-ERR wrong number of arguments for 'function|dump' command"),
    ]);
}

#[test]
fn all_libraries_come_or_none() {
    let (a, b, c) = (library("a", "f"), library("b", "g"), library("c", "x"));
    let (a_again, a_taken, d) = (library("a", "h"), library("a", "G"), library("d", "X"));
    let mut store = Store::new(1);
    for (texts, policy, expected) in [
        (&[a.as_str(), b.as_str()][..], "append", "+OK"),
        (&[a.as_str()], "append", "-ERR Library a already exists"),
        (&[c.as_str(), a_again.as_str()], "append", "-ERR Library a already exists"),
        (&[c.as_str(), c.as_str()], "replace", "-ERR Library 'c' already exists"),
        (&[a_taken.as_str()], "replace", "-ERR Function G already exists"),
        (&[c.as_str(), d.as_str()], "replace", "-ERR Function X already exists"),
        (
            &[c.as_str(), "#!lua name=q\nsyntax error here"],
            "flush",
            "-ERR Error compiling function: user_function:2: '=' expected near 'error'",
        ),
        (&[c.as_str(), "#!lua name=q\n"], "flush", "-ERR No functions registered"),
        (&["x"], "append", "-ERR Missing library metadata"),
    ] {
        assert_eq!(restore(&mut store, &payload(texts), policy), expected, "{texts:?}");
        store.hears(&[("fcall f 0", "$1 a"), ("fcall g 0", "$1 b"), ("fcall x 0", "-ERR Function not found")]);
    }
    let replaced = payload(&[&library("a", "x"), &library("e", "f")]);
    assert_eq!(restore(&mut store, &replaced, "REPLACE"), "+OK");
    store.hears(&[("fcall f 0", "$1 e"), ("fcall g 0", "$1 b"), ("fcall x 0", "$1 a")]);
    assert_eq!(restore(&mut store, &payload(&[&c, &library("b", "k")]), "flush"), "+OK");
    store.hears(&[
        ("fcall x 0", "$1 c"),
        ("fcall k 0", "$1 b"),
        ("fcall f 0", "-ERR Function not found"),
        ("fcall g 0", "-ERR Function not found"),
    ]);
    let mut recovered = Keyspace::default();
    assert!(recovered.replay(store.state.keyspace.record()));
    assert_eq!(contents(&recovered), contents(&store.state.keyspace));
    assert_eq!(restore(&mut store, &payload(&[]), "flush"), "+OK");
    store.hears(&[("function list", "*0")]);
}

#[test]
fn what_is_no_payload_is_refused() {
    let mut store = Store::new(1);
    store.hears(&[
        ("function restore", "-ERR wrong number of arguments for 'function|restore' command"),
        ("function restore x", "-ERR DUMP payload version or checksum are wrong"),
        ("function restore x y", "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."),
        (
            "function restore x flush z",
            "-ERR unknown subcommand or wrong number of arguments for 'restore'. Try FUNCTION HELP.",
        ),
    ]);
    for (body, expected) in [
        (&b"\xf4\x01x"[..], "-ERR given type is not a function"),
        (b"\x00\x01x", "-ERR given type is not a function"),
        (b"\xf5\x05x", "-ERR failed loading functions payload"),
        (b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff", "-ERR failed loading functions payload"),
    ] {
        assert_eq!(restore(&mut store, &close(body.to_vec()), "append"), expected);
    }
    let many: Vec<String> = (0..1_025).map(|number| library(&format!("l{number}"), &format!("f{number}"))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        restore(&mut store, &payload(&many), "append"),
        "-ERR there are too many libraries, or they are too long"
    );
    store.state.log.room = 0;
    assert!(restore(&mut store, &payload(&[&library("a", "f")]), "append").starts_with("-OOM "));
}

#[test]
fn libraries_of_a_payload_share_the_time_of_one_script() {
    let mut store = Store::new(1);
    store.state.scripts.bounds.time = Duration::ZERO;
    let heard = restore(&mut store, &payload(&["#!lua name=a\nwhile true do end"]), "append");
    assert_eq!(heard, "-ERR FUNCTION LOAD timeout");
    assert_eq!(store.state.scripts.bounds.time, Duration::ZERO);
}
