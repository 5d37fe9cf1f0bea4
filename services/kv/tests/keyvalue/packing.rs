//! `struct`, `cmsgpack` and the settings of `cjson`, in scripts, as redis-server 7.0.15 has them.

use crate::client::Store;

/// Scripts, and what redis-server answered them.
const RECORDED: &str = include_str!("recorded/packing.txt");

/// What a script is answered; of an error, what is before the script's name.
fn eval(store: &mut Store, script: &str) -> String {
    let request = format!("*3\r\n$4\r\neval\r\n${}\r\n{script}\r\n$1\r\n0\r\n", script.len());
    let heard = store.say(0, request.as_bytes());
    heard.split_once(" script: ").map_or(heard.as_str(), |(text, _)| text).to_owned()
}

#[test]
fn scripts_are_answered_as_redis_does() {
    let mut store = Store::new(1);
    let mut lines = RECORDED.lines();
    while let (Some(script), Some(expected)) = (lines.next(), lines.next()) {
        assert_eq!(eval(&mut store, script), expected.strip_prefix("=> ").unwrap(), "{script}");
    }
}

#[test]
fn what_a_script_tells_cjson_is_forgotten() {
    let mut store = Store::new(1);
    assert_eq!(eval(&mut store, "return cjson.encode_number_precision(3) .. cjson.encode(3.14159)"), "$5 33.14");
    assert_eq!(eval(&mut store, "return cjson.encode_number_precision() .. cjson.encode(3.14159)"), "$9 143.14159");
    let readonly = "-ERR user_script:1: Attempt to modify a readonly table";
    for script in ["cjson.new = nil", "struct.pack = nil", "cmsgpack.pack = nil"] {
        assert_eq!(eval(&mut store, script), readonly, "{script}");
    }
}

#[test]
fn what_takes_too_much_ends() {
    let mut store = Store::new(1);
    for (script, expected) in [
        (
            "local s = string.rep('x', 1e7) return #struct.pack(string.rep('c0', 20), s, s, s, s, s, s, s, s, s, s)",
            "not enough memory",
        ),
        ("local s = string.rep('x', 1e7) return #cmsgpack.pack({s, s, s, s, s, s, s, s, s, s})", "not enough memory"),
        ("return {struct.unpack(string.rep('b', 9000), string.rep('x', 9000))}", "too many results"),
        ("return {cmsgpack.unpack(string.rep('x', 9000))}", "too many return values"),
        ("return cmsgpack.unpack(string.rep('\\145', 100000))", "too many nested"),
        ("return cmsgpack.unpack('\\221\\255\\255\\255\\255')", "Missing bytes in input."),
        ("return cmsgpack.unpack('\\219\\255\\255\\255\\255')", "Missing bytes in input."),
        ("cjson.encode_sparse_array(false, 0) return #cjson.encode({[1e12] = 1})", "The script was ended"),
        (
            "cjson.encode_max_depth(100000) local t = {} for i = 1, 1000 do t = {t} end return cjson.encode(t)",
            "excessive nesting (201)",
        ),
        (
            "cjson.decode_max_depth(100000) return cjson.decode(string.rep('[', 1000))",
            "too many nested data structures (201)",
        ),
        ("local all = {} while true do all[#all + 1] = cjson.new() end", "ERR"),
        ("local t = {} for i = 1, 40 do t = {t, t} end return #cmsgpack.pack(t)", ":"),
    ] {
        let heard = eval(&mut store, script);
        assert!(heard.contains(expected), "{script}: {heard}");
    }
}
