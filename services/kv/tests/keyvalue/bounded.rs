//! What hostile clients make long or large ends in time, and is bounded.

use crate::client::Store;
use qanat_kv::engine::invalidation;

fn ask(store: &mut Store, client: usize, words: &[&[u8]]) -> String {
    store.ask(client, words)
}

fn eval(store: &mut Store, script: &str) -> String {
    ask(store, 0, &[b"eval", script.as_bytes(), b"0"])
}

/// Functions in C and Rust are one instruction to Lua, so they count what they do themselves.
#[test]
fn what_is_one_instruction_to_lua_is_paid_for() {
    let mut store = Store::new(1);
    store.state.scripts.bounds.instructions = 100_000;
    let ended = "-ERR The script was ended: it took more time than a script may. What it has written stays";
    for script in [
        // Tables that are in many others.
        "local t = {} for i = 1, 12 do t = {t, t} end return cjson.encode(t)",
        "local t = {x = 1} for i = 1, 12 do t = {t, t} end return cmsgpack.pack(t)",
        "local t = {} for i = 1, 12 do t = {t, t} end return t",
        // Many tables whose fields are gone, and whose places are still walked over.
        "local t, all = {x = 1}, {} t.x = nil for i = 1, 2000 do all[i] = t end return cjson.encode(all)",
        "local t, all = {x = 1}, {} t.x = nil for i = 1, 2000 do all[i] = t end return cmsgpack.pack(all)",
        "local t, all = {map = {}}, {} for i = 1, 2000 do all[i] = t end return all",
        "return cjson.decode('[' .. ('1,'):rep(200000) .. '1]')",
        "return struct.size((' '):rep(200000))",
        "return struct.pack((' '):rep(200000))",
        "return redis.sha1hex(('x'):rep(1e6))",
        // Strings that are compared for long, and functions that compare and are no instructions.
        "local s, t = ('x'):rep(2000), {} for i = 1, 4000 do t[i] = s .. i % 7 end table.sort(t)",
        "local t = {} for i = 1, 4000 do t[i] = i end table.sort(t, rawequal)",
        "local t = setmetatable({}, {__lt = function() return false end}) local all = {} for i = 1, 4000 do all[i] = t end table.sort(all)",
    ] {
        assert!(eval(&mut store, script).starts_with(ended), "{script}");
        assert_eq!(eval(&mut store, "return 1"), ":1");
    }
    store.state.scripts.bounds = Default::default();
    for (script, expected) in [
        ("local t = {3, 1, 2} table.sort(t) return t", "*3 :1 :2 :3"),
        ("local t = {'b', 'c', 'a'} table.sort(t) return t", "*3 $1 a $1 b $1 c"),
        ("local t = {1, 3, 2} table.sort(t, function(a, b) return a > b end) return t", "*3 :3 :2 :1"),
        (
            "local s = ('x'):rep(2000) local t = {s .. 'b', s .. 'c', s .. 'a'} table.sort(t) return {t[1]:sub(-1), t[2]:sub(-1), t[3]:sub(-1)}",
            "*3 $1 a $1 b $1 c",
        ),
    ] {
        assert_eq!(eval(&mut store, script), expected, "{script}");
    }
    for (script, expected) in [
        ("table.sort({1, 'x', 2})", "attempt to compare"),
        ("table.sort({1, 2, 3}, 4)", "bad argument #2 to"),
        ("table.sort(4)", "bad argument #1 to"),
    ] {
        let heard = eval(&mut store, script);
        assert!(heard.contains(expected), "{script}: {heard}");
    }
}

#[test]
fn names_that_a_client_holds_are_bounded() {
    let mut store = Store::new(1);
    let name = |number: u8, length: usize| [vec![number], vec![b'x'; length]].concat();
    let refused = "-ERR too many subscriptions of one client";
    for kind in ["subscribe", "psubscribe", "ssubscribe"] {
        ask(&mut store, 0, &[b"hello", b"3"]);
        for number in 0..33 {
            let heard = ask(&mut store, 0, &[kind.as_bytes(), &name(number, 500_000)]);
            assert_eq!(heard == refused, number > 32, "{kind} {number}");
        }
        // The same name again, and those that were given back, cost nothing.
        assert!(ask(&mut store, 0, &[kind.as_bytes(), &name(0, 500_000)]).starts_with(">3"));
        ask(&mut store, 0, &[format!("un{kind}").replace("unp", "pun").replace("uns", "sun").as_bytes()]);
        ask(&mut store, 0, &[b"reset"]);
    }
    for number in 0..33 {
        let heard = ask(&mut store, 0, &[b"watch", &name(number, 500_000)]);
        assert_eq!(heard != "+OK", number > 32, "{number}: {heard}");
    }
    store.hears(&[("unwatch", "+OK")]);
    assert_eq!(ask(&mut store, 0, &[b"watch", &name(0, 500_000), &name(1, 500_000)]), "+OK");
    let many: Vec<Vec<u8>> = (0..70_000_u32).map(|number| number.to_string().into_bytes()).collect();
    let words: Vec<&[u8]> = [b"watch".as_slice()].into_iter().chain(many.iter().map(Vec::as_slice)).collect();
    assert_eq!(ask(&mut store, 0, &words), "-ERR too many keys are watched by one client");
    let long = "-ERR Client names cannot be longer than 1024 bytes.";
    assert_eq!(ask(&mut store, 0, &[b"client", b"setname", &[b'x'; 1_025]]), long);
    assert_eq!(ask(&mut store, 0, &[b"hello", b"3", b"setname", &[b'x'; 1_025]]), long);
    assert_eq!(ask(&mut store, 0, &[b"client", b"setname", &[b'x'; 1_024]]), "+OK");
}

/// A script publishes without end, and no message leaves before it has ended.
#[test]
fn messages_that_wait_are_bounded() {
    for (listen, script) in [
        ("subscribe c", "for i = 1, 100 do redis.call('publish', 'c', i) end"),
        ("psubscribe c*", "for i = 1, 100 do redis.call('publish', 'c', i) end"),
        ("ssubscribe c", "for i = 1, 100 do redis.call('spublish', 'c', i) end"),
        ("subscribe __keyevent@0__:set", "for i = 1, 100 do redis.call('set', 'k', i) end"),
        ("monitor", "for i = 1, 100 do redis.call('set', 'k', i) end"),
    ] {
        let mut store = Store::new(3);
        store.state.outbox_max = 10;
        store.line("config set notify-keyspace-events KEA");
        store.say(1, format!("{listen}\r\n").as_bytes());
        eval(&mut store, script);
        assert_eq!(store.others().len(), 10, "{listen}");
        let session = store.state.sessions.get(1).expect("a client");
        assert!(session.is_killed && store.state.kills, "{listen}");
        assert_eq!((session.subscriptions(), store.state.statistics.unread), (0, 1), "{listen}");
    }
}

/// The log has failed, and with the answers go the messages that lay among them.
#[test]
fn who_caches_forgets_everything_when_the_log_fails() {
    let mut store = Store::new(2);
    invalidation::forget_all(&mut store.state);
    assert!(store.others().is_empty());
    assert!(store.line("hello 3").starts_with("%7"));
    store.hears(&[("client tracking on", "+OK"), ("set k v", "+OK"), ("get k", "$1 v")]);
    invalidation::forget_all(&mut store.state);
    assert_eq!(store.others(), [(0, ">2 $10 invalidate _ ".to_owned())]);
    assert_eq!(store.state.tracking.table.len(), 0);
}
