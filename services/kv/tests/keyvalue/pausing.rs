//! Clients that have to wait, and what else CLIENT says.

use crate::client::Store;
use qanat_kv::engine::execute::is_held;
use qanat_kv::resp::request::Request;

fn held(store: &Store, line: &str) -> bool {
    let (mut request, line) = (Request::default(), format!("{line}\r\n"));
    request.advance(line.as_bytes(), 1 << 20).unwrap();
    is_held(&store.state, 0, &request.args(line.as_bytes()))
}

#[test]
fn writes_wait_or_all_commands_do() {
    let mut store = Store::new(1);
    assert!(!held(&store, "set k v"));
    store.hears(&[("client pause 1000 write", "+OK")]);
    for (line, waits) in [
        ("set k v", true),
        ("eval 'return 1' 0", true),
        ("publish c m", true),
        ("get k", false),
        ("eval_ro 'return 1' 0", false),
        ("exec", false),
        ("nosuch", false),
        ("client unpause", false),
    ] {
        assert_eq!(held(&store, line), waits, "{line}");
    }
    store.hears(&[("multi", "+OK"), ("get k", "+QUEUED")]);
    assert!(!held(&store, "exec"));
    store.hears(&[("set k v", "+QUEUED")]);
    assert!(held(&store, "exec"));
    store.hears(&[("discard", "+OK"), ("client pause 10", "+OK")]);
    assert!(held(&store, "get k") && held(&store, "ping"));
    store.state.keyspace.now_ms += 1_000;
    assert!(!held(&store, "set k v"));
    store.hears(&[("client pause 1000", "+OK"), ("client unpause", "+OK")]);
    assert!(!held(&store, "set k v"));
}

#[test]
fn what_client_takes_is_judged_as_redis_does() {
    let mut store = Store::new(2);
    store.hears(&[
        ("client pause", "-ERR wrong number of arguments for 'client|pause' command"),
        ("client pause x", "-ERR timeout is not an integer or out of range"),
        ("client pause 100 foo", "-ERR CLIENT PAUSE mode must be WRITE or ALL"),
        ("client pause -1", "-ERR timeout is negative"),
        ("client unpause x", "-ERR wrong number of arguments for 'client|unpause' command"),
        ("client no-evict on", "+OK"),
        ("client no-evict x", "-ERR syntax error"),
        ("client help x", "-ERR wrong number of arguments for 'client|help' command"),
        ("client kill laddr x", ":0"),
        ("client kill type foo", "-ERR Unknown client type 'foo'"),
        ("client kill user nobody", "-ERR No such user 'nobody'"),
        ("client kill maxage 3", "-ERR syntax error"),
        ("client kill user default", ":1"),
    ]);
    assert!(store.line("client info").contains("flags=e "));
    assert!(store.state.sessions.get(1).unwrap().is_killed && !store.state.sessions.get(0).unwrap().is_killed);
}
