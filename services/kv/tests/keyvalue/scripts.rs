//! Scripts and functions, and what they answer, as Redis 7.0 does it.

use crate::client::{Store, contents};
use qanat_kv::keyspace::space::Keyspace;

/// What a request is answered.
fn ask(store: &mut Store, words: &[&str]) -> String {
    store.ask(0, words)
}

fn eval(store: &mut Store, script: &str) -> String {
    ask(store, &["eval", script, "0"])
}

/// Each script is answered so; of an error, that is what is before the script's name.
fn answers(store: &mut Store, scripts: &[(&str, &str)]) {
    for (script, expected) in scripts {
        let heard = eval(store, script).replace("\\\"", "\"");
        let heard = heard.split_once(" script: ").map_or(heard.as_str(), |(text, _)| text);
        assert_eq!(heard, *expected, "{script}");
    }
}

#[test]
fn values_are_converted_both_ways() {
    let mut store = Store::new(1);
    assert_eq!(
        ask(&mut store, &["eval", "return {KEYS[1], ARGV[1], #KEYS, #ARGV}", "1", "a", "b", "c"]),
        "*4 $1 a $1 b :1 :2"
    );
    answers(
        &mut store,
        &[
            ("return 3.99", ":3"),
            ("return -3.99", ":-3"),
            ("return 1e300", ":-9223372036854775808"),
            ("return {1, 2, nil, 4}", "*2 :1 :2"),
            ("return {1, {2, 'x'}, true, false}", "*4 :1 *2 :2 $1 x :1 $-1"),
            ("return true", ":1"),
            ("return false", "$-1"),
            ("return function() end", "$-1"),
            ("return {ok='fine'}", "+fine"),
            ("return {err='MY boom'}", "-MY boom"),
            ("return redis.error_reply('boom')", "-ERR boom"),
            ("return redis.error_reply('-boom x')", "-boom x"),
            ("return redis.error_reply(1)", "-ERR wrong number or type of arguments"),
            ("return redis.status_reply('fine')", "+fine"),
            ("return {double=1.5}", "$3 1.5"),
            ("return {map={a=1}}", "*2 $1 a :1"),
            ("return {set={a=true}}", "*1 $1 a"),
            ("return {big_number='123'}", "$3 123"),
            ("return {verbatim_string={format='txt',string='hi'}}", "$2 hi"),
            ("return redis.call('set', 'k', 0.1)", "+OK"),
            ("return redis.call('get', 'k')", "$19 0.10000000000000001"),
            ("return redis.call('set', 'k', 2^53).ok", "$2 OK"),
            ("return redis.call('get', 'k')", "$16 9007199254740992"),
            ("return tostring(redis.call('get', 'nokey'))", "$5 false"),
            ("redis.setresp(3) return tostring(redis.call('get', 'nokey'))", "$3 nil"),
            ("redis.call('hset', 'h', 'f', 'v') redis.setresp(3) return redis.call('hgetall', 'h').map.f", "$1 v"),
            (
                "redis.call('sadd', 's', 'x') redis.setresp(3) return tostring(redis.call('smembers', 's').set.x)",
                "$4 true",
            ),
            (
                "redis.call('zadd', 'z', 1.5, 'm') redis.setresp(3) return tostring(redis.call('zscore', 'z', 'm').double)",
                "$3 1.5",
            ),
            ("return redis.call('hgetall', 'h')", "*2 $1 f $1 v"),
        ],
    );
    assert_eq!(ask(&mut store, &["hello", "3"]).split(' ').next(), Some("%7"));
    answers(
        &mut store,
        &[
            ("return {double=1.5}", ",1.5"),
            ("return {map={a=1}}", "%1 $1 a :1"),
            ("return {true, false}", "*2 :1 _"),
            ("redis.setresp(3) return {true, false}", "*2 #t #f"),
            ("return redis.call('hgetall', 'h')", "*2 $1 f $1 v"),
            ("redis.setresp(3) return redis.call('hgetall', 'h')", "%1 $1 f $1 v"),
            ("return {verbatim_string={format='txt',string='hi'}}", "=6 txt:hi"),
        ],
    );
}

#[test]
fn errors_say_what_and_where() {
    let mut store = Store::new(1);
    store.hears(&[
        ("eval", "-ERR wrong number of arguments for 'eval' command"),
        ("eval 'return 1' x", "-ERR value is not an integer or out of range"),
        ("eval 'return 1' 5 a", "-ERR Number of keys can't be greater than number of args"),
        ("eval 'return 1' -1", "-ERR Number of keys can't be negative"),
        ("eval 'retur 1' 0", "-ERR Error compiling script (new function): user_script:1: '=' expected near '1'"),
        (
            "eval 'return x' 0",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: 03c387736bb5cc009ff35151572cee04677aa374, on @user_script:1.",
        ),
        (
            "eval \"return redis.call('nope')\" 0",
            "-ERR Unknown Redis command called from script script: f01f0776df71cc5b400c2268135aa7f30dce2e53, on @user_script:1.",
        ),
    ]);
    store.line("set text v");
    answers(
        &mut store,
        &[
            ("error('boom')", "-ERR user_script:1: boom"),
            ("error('no place', 0)", "-ERR no place"),
            ("error()", "-ERR nil"),
            ("error({err='MY boom'})", "-MY boom"),
            ("local x = nil; return x.y", "-ERR user_script:1: attempt to index local 'x' (a nil value)"),
            ("return redis.call('incr', 'text')", "-ERR value is not an integer or out of range"),
            (
                "return redis.call('lpush', 'text', 1)",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("return redis.call('get')", "-ERR Wrong number of args calling Redis command from script"),
            ("return redis.call()", "-ERR Please specify at least one argument for this redis lib call"),
            ("return redis.call({})", "-ERR Lua redis lib command arguments must be strings or integers"),
            ("return redis.pcall('nope')", "-ERR Unknown Redis command called from script"),
            (
                "local e = redis.pcall('nope') return {type(e), e.err}",
                "*2 $5 table $44 ERR Unknown Redis command called from script",
            ),
            ("local ok, e = pcall(redis.call, 'nope') return {tostring(ok), type(e)}", "*2 $5 false $6 string"),
            ("return {pcall(function() x = 1 end)}", "*2 $-1 $49 user_script:1: Attempt to modify a readonly table"),
            ("return redis.setresp(4)", "-ERR RESP version must be 2 or 3."),
            ("return redis.sha1hex()", "-ERR wrong number of arguments"),
            ("return redis.log(9, 'x')", "-ERR Invalid debug level."),
            ("return string.rep('x')", "-ERR user_script:1: bad argument #2 to 'rep' (number expected, got no value)"),
            ("return math.random(0)", "-ERR user_script:1: bad argument #1 to 'random' (interval is empty)"),
            ("#!lua\nreturn x", "-ERR user_script:2: Script attempted to access nonexistent global variable 'x'"),
            ("#!lua flags=nope\nreturn 1", "-ERR Unexpected flag in script shebang: nope"),
            ("#!nope\nreturn 1", "-ERR Unexpected engine in script shebang: #!nope"),
            ("#!lua", "-ERR Invalid script shebang"),
        ],
    );
}

#[test]
fn commands_are_those_that_scripts_may_call() {
    let mut store = Store::new(2);
    for command in [
        "'multi'",
        "'blpop', 'k', 0",
        "'subscribe', 'x'",
        "'eval', 'return 1', 0",
        "'config', 'get', 'port'",
        "'watch', 'k'",
    ] {
        let heard = eval(&mut store, &format!("return redis.call({command})"));
        assert!(heard.starts_with("-ERR This Redis command is not allowed from script"), "{heard}");
    }
    let refused = "-ERR Write commands are not allowed from read-only scripts.";
    for command in ["'set', 'k', 1", "'publish', 'a', 'b'"] {
        let script = format!("return redis.call({command})");
        assert!(ask(&mut store, &["eval_ro", &script, "0"]).starts_with(refused));
        assert!(eval(&mut store, &format!("#!lua flags=no-writes\n{script}")).starts_with(refused));
    }
    assert_eq!(ask(&mut store, &["eval_ro", "return redis.call('get', 'k')", "0"]), "$-1");
    let writes = "-ERR Can not execute a script with write flag using *_ro command.";
    assert_eq!(ask(&mut store, &["eval_ro", "#!lua\nreturn 1", "0"]), writes);
    // A database that a script selects is its own.
    assert_eq!(eval(&mut store, "redis.call('select', 3) return redis.call('set', 'in3', 'x')"), "+OK");
    store.hears(&[("get in3", "$-1"), ("select 3", "+OK"), ("get in3", "$1 x"), ("select 0", "+OK")]);
    // A script is a command of a transaction, and wakes who waits.
    store.hears(&[("multi", "+OK"), ("eval \"return redis.call('set', 'k', 1)\" 0", "+QUEUED"), ("exec", "*1 +OK")]);
    assert_eq!(store.say(1, b"blpop l 0\r\n"), "");
    assert_eq!(eval(&mut store, "return redis.call('rpush', 'l', 'a')"), ":1");
    assert_eq!(store.others(), [(1, "*2 $1 l $1 a ".to_owned())]);
    // Writes are admitted one by one.
    store.state.log.room = 0;
    assert!(eval(&mut store, "return redis.call('set', 'k', 'w')").starts_with("-OOM "));
    assert_eq!(eval(&mut store, "return redis.call('del', 'k')"), ":1");
}

#[test]
fn scripts_are_remembered_by_the_names_of_their_texts() {
    let mut store = Store::new(1);
    let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    store.hears(&[
        (&format!("evalsha {name} 0"), "-NOSCRIPT No matching script. Please use EVAL."),
        ("script load 'return 1'", &format!("$40 {name}")),
        ("script load 'retur 1'", "-ERR Error compiling script (new function): user_script:1: '=' expected near '1'"),
        (&format!("evalsha {name} 0"), ":1"),
        (&format!("evalsha {} 0", name.to_uppercase()), ":1"),
        (&format!("evalsha {name} x"), "-ERR value is not an integer or out of range"),
        (&format!("script exists {name} x"), "*2 :1 :0"),
        ("script flush nope", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        ("script flush", "+OK"),
        (&format!("evalsha {name} 0"), "-NOSCRIPT No matching script. Please use EVAL."),
        ("script kill", "-NOTBUSY No scripts in execution right now."),
        ("script debug nope", "-ERR Use SCRIPT DEBUG YES/SYNC/NO"),
    ]);
    // Old ones are forgotten.
    for number in 0..5_000 {
        eval(&mut store, &format!("return {number}"));
    }
    let first = ask(&mut store, &["eval", "return redis.sha1hex('return 0')", "0"]);
    store.hears(&[(&format!("script exists {}", &first[4..]), "*1 :0")]);
}

#[test]
fn nothing_outside_can_be_reached() {
    let mut store = Store::new(1);
    for name in [
        "os", "io", "debug", "package", "require", "module", "dofile", "loadfile", "print", "getfenv", "setfenv",
        "newproxy",
    ] {
        let heard = eval(&mut store, &format!("return {name}"));
        assert!(heard.contains(&format!("Script attempted to access nonexistent global variable '{name}'")), "{heard}");
    }
    let bytecode = "local f = loadstring(string.char(27) .. 'Lua') return tostring(f)";
    answers(
        &mut store,
        &[
            (bytecode, "$3 nil"),
            (
                "local n = 0 return tostring(load(function() n = n + 1 return n == 1 and string.char(27) .. 'Lua' or nil end))",
                "$3 nil",
            ),
            ("return tostring(string.dump)", "$3 nil"),
            ("return loadstring('return 1 + 1')()", ":2"),
            ("return tostring(loadstring('return os')) ~= nil", ":1"),
            (
                "return loadstring('return os')()",
                "-ERR [string \"return os\"]:1: Script attempted to access nonexistent global variable 'os'",
            ),
        ],
    );
}

#[test]
fn nothing_of_a_script_is_seen_by_the_next() {
    let mut store = Store::new(1);
    let readonly = "Attempt to modify a readonly table";
    for script in [
        "x = 1",
        "KEYS = {}",
        "string = nil",
        "redis.call = nil",
        "string.rep = nil",
        "cjson.encode = nil",
        "coroutine.create = nil",
        "_G.x = 1",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'x', 1)",
        "setmetatable(_G, nil)",
        "setmetatable(string, {})",
        "getmetatable('').__index = nil",
        "getmetatable('').__index.rep = nil",
        "getmetatable(_G).__index = nil",
        "rawset(getmetatable(''), '__index', 1)",
        "table.insert(string, 1)",
        "table.insert(getmetatable(''), 1)",
        "loadstring('x = 1')()",
    ] {
        let heard = eval(&mut store, script);
        assert!(heard.contains(readonly), "{script}: {heard}");
    }
    answers(
        &mut store,
        &[
            (
                "for name in pairs(string) do string[name] = nil end",
                "-ERR user_script:1: Attempt to modify a readonly table",
            ),
            ("table.sort(string) table.remove(string) return 1", ":1"),
            ("return ('x'):rep(3)", "$3 xxx"),
            ("local count = 0 for _ in pairs(redis) do count = count + 1 end return count > 10", ":1"),
            ("return next(string) ~= nil and rawget(string, 'rep') == string.rep", ":1"),
            ("return getmetatable('').__index == string", ":1"),
            ("return _G._G == _G", ":1"),
            ("math.randomseed(7) return math.random(1000) .. ' ' .. math.random(1000)", "$7 267 683"),
        ],
    );
}

#[test]
fn each_run_has_random_numbers_of_its_own() {
    let mut store = Store::new(1);
    let numbers: std::collections::BTreeSet<String> =
        (0..20).map(|_| eval(&mut store, "return math.random(1000000)")).collect();
    assert!(numbers.len() > 10);
}

#[test]
fn what_a_script_takes_is_bounded() {
    let mut store = Store::new(1);
    store.state.scripts.bounds.instructions = 1_000_000;
    let ended = "-ERR The script was ended";
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'get', 'k') end",
        "local function f() return f() end return f()",
        "local function f(n) if n > 0 then coroutine.wrap(f)(n - 1) coroutine.wrap(f)(n - 1) end end f(100)",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "local s = ('a'):rep(40) return s:match(('a*'):rep(30) .. 'b')",
        "while true do string.rep('x', 1000000) end",
        "while true do ('x'):rep(100000):gsub('x', 'y') end",
        "while true do loadstring('return 1') end",
        "while true do cjson.decode('[1,2,3]') end",
    ] {
        let heard = eval(&mut store, script);
        assert!(heard.starts_with(ended) || heard.contains("pattern takes too many steps"), "{script}: {heard}");
        assert_eq!(eval(&mut store, "return 1"), ":1");
    }
    store.state.scripts.bounds = Default::default();
    // However slow the machine is, it is not the time that ends these.
    store.state.scripts.bounds.time = std::time::Duration::from_secs(3_600);
    store.state.scripts.bounds.bytes = 8 << 20;
    for script in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e8 do t[i] = i end",
        "return ('x'):rep(1e10)",
        "return ('x'):rep(1e7):gsub('x', '%0%0%0%0%0%0%0%0%0%0')",
        "local t = {} for i = 1, 1e6 do t[i] = 'xxxxxxxxxxxxxxxxxxxx' end return table.concat(t)",
    ] {
        let heard = eval(&mut store, script);
        assert!(heard.contains("not enough memory"), "{script}: {heard}");
        assert_eq!(eval(&mut store, "return 1"), ":1");
    }
    for (script, expected) in [
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        ("local function f() return 1 + coroutine.wrap(f)() end return f()", "C stack overflow"),
        ("return unpack({}, 1, 1e8)", "too many results to unpack"),
        ("return unpack({}, -2147483648, 2147483647)", "too many results to unpack"),
        ("return unpack({}, 0/0, 5)", "too many results to unpack"),
        ("local t = {} t[1] = t return t", "reached lua stack limit"),
        ("local t = {1} for i = 1, 40 do t = {t, t} end return t", "the answer of the script is too large"),
        ("return ('a'):rep(300000):find(('.-'):rep(300000))", "pattern too complex"),
        ("table.insert({}, -2147483648, 1)", "position out of bounds"),
        (
            "local t = {} for i = 1, 2000 do t = {t} end return cjson.encode(t)",
            "Cannot serialise, excessive nesting (201)",
        ),
        ("return loadstring(('('):rep(100000))()", "attempt to call"),
        ("return {string.format('%99999d', 1)}", "invalid format"),
        ("return redis.call('set', 'k', ('x'):rep(33 * 1024 * 1024))", "not enough memory"),
    ] {
        let heard = eval(&mut store, script);
        assert!(heard.contains(expected), "{script}: {heard}");
    }
    let many = "local t = {} for i = 1, 7990 do t[i] = i end return redis.call('rpush', 'l', unpack(t))";
    assert_eq!(eval(&mut store, many), ":7990");
}

#[test]
fn what_a_script_wrote_before_it_failed_stays() {
    let mut store = Store::new(1);
    store.state.scripts.bounds.instructions = 1_000_000;
    assert!(eval(&mut store, "redis.call('set', 'a', 1) error('x')").starts_with("-ERR user_script:1: x"));
    assert!(eval(&mut store, "redis.call('set', 'b', 1) while true do end").starts_with("-ERR The script was ended"));
    store.hears(&[("mget a b", "*2 $1 1 $1 1")]);
}

#[test]
fn libraries_of_lua_are_as_redis_has_them() {
    answers(
        &mut Store::new(1),
        &[
            ("return cjson.encode({1, 2, {a='b'}})", "$15 [1,2,{\"a\":\"b\"}]"),
            ("return cjson.encode({})", "$2 {}"),
            ("return cjson.encode({1, nil, 3})", "$10 [1,null,3]"),
            ("return cjson.encode(1/3)", "$16 0.33333333333333"),
            (
                "return cjson.encode({[1]=1,[500]=5})",
                "-ERR user_script:1: Cannot serialise table: excessively sparse array",
            ),
            ("return cjson.encode(0/0)", "-ERR user_script:1: Cannot serialise number: must not be NaN or Inf"),
            ("return cjson.encode(cjson.null)", "$4 null"),
            ("return cjson.decode('[1,2,{\"a\":\"x\"}]')[3].a", "$1 x"),
            ("return tostring(cjson.decode('{\"a\":null}').a == cjson.null)", "$4 true"),
            ("return cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\"') == 'é😀'", ":1"),
            ("return cjson.decode('')", "-ERR user_script:1: Expected value but found T_END at character 1"),
            ("return cjson.decode('[1,]')", "-ERR user_script:1: Expected value but found T_ARR_END at character 4"),
            (
                "return cjson.decode('{1:1}')",
                "-ERR user_script:1: Expected object key string but found T_NUMBER at character 2",
            ),
            (
                "return cjson.decode('\"a\\\\x\"')",
                "-ERR user_script:1: Expected value but found invalid escape code at character 3",
            ),
            (
                "return cjson.decode(string.rep('[', 201))",
                "-ERR user_script:1: Found too many nested data structures (201) at character 201",
            ),
            ("return bit.band(0xff, 0x0f)", ":15"),
            ("return bit.tobit(0xffffffff)", ":-1"),
            ("return bit.tohex(255, -4)", "$4 00FF"),
            ("return bit.bswap(0x12345678)", ":2018915346"),
            ("return bit.band()", "-ERR user_script:1: bad argument #1 to 'band' (number expected, got no value)"),
            ("return {('hello world'):find('o w')}", "*2 :5 :7"),
            ("return {('key = value'):match('^(%w+)%s*=%s*(%w+)$')}", "*2 $3 key $5 value"),
            ("return {('hello'):find('l', 1, true)}", "*2 :3 :3"),
            ("return {('abc'):gsub('%w', '%0%0')}", "*2 $6 aabbcc :3"),
            ("return {('abc'):gsub('', '-')}", "*2 $7 -a-b-c- :4"),
            ("return {('hello world'):gsub('o', {o='0'}, 1)}", "*2 $11 hell0 world :1"),
            ("return {('abc'):gsub('%w', function(c) if c ~= 'b' then return c:upper() end end)}", "*2 $3 AbC :3"),
            (
                "local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t + 1] = k .. v end return t",
                "*2 $2 a1 $2 b2",
            ),
            ("return ('THE (quick) fox'):find('%((%a+)%)')", ":5"),
            ("return ('x'):rep(3) .. ('abc'):byte(2) .. ('%d'):format(4)", "$6 xxx984"),
            ("return {('[[x]]'):match('%b[]'), ('THE fox'):match('%f[%a]%a+', 4)}", "*2 $5 [[x]] $3 fox"),
            ("return coroutine.wrap(function() coroutine.yield(3) end)()", ":3"),
            ("return select('#', unpack({1, 2, nil, 4}, 1, 4))", ":4"),
            ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t", "*3 :3 :2 :1"),
        ],
    );
}

const LIBRARY: &str = "#!lua name=lib1
redis.register_function('f1', function(keys, args) return {#keys, #args, keys[1], args[1]} end)
redis.register_function{function_name='ro', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}, description='reads'}
redis.register_function('w', function(keys, args) return redis.call('set', keys[1], args[1]) end)
redis.register_function('err', function() error('boom') end)
redis.register_function('globals', function() return tostring(KEYS) end)
redis.register_function('again', function() return redis.register_function('z', function() end) end)";

#[test]
fn functions_are_called_by_name() {
    let mut store = Store::new(1);
    let load = |store: &mut Store, text: &str| ask(store, &["function", "load", text]);
    for (text, expected) in [
        ("return 1", "-ERR Missing library metadata"),
        ("#!nope name=a\nreturn 1", "-ERR Engine 'nope' not found"),
        ("#!lua\nreturn 1", "-ERR Library name was not given"),
        ("#!lua nam=x\nreturn 1", "-ERR Invalid metadata value given: nam=x"),
        ("#!lua name=a\nreturn 1", "-ERR No functions registered"),
        ("#!lua name=a\nretur 1", "-ERR Error compiling function: user_function:2: '=' expected near '1'"),
        (
            "#!lua name=a\nx = 1",
            "-ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly table",
        ),
        (
            "#!lua name=a\nredis.call('get', 'x')",
            "-ERR Error registering functions: ERR user_function:2: Script attempted to access nonexistent global variable 'call'",
        ),
        (
            "#!lua name=a\nredis.register_function('f', 1)",
            "-ERR Error registering functions: ERR second argument to redis.register_function must be a function",
        ),
        (LIBRARY, "$4 lib1"),
        (LIBRARY, "-ERR Library 'lib1' already exists"),
        ("#!lua name=lib2\nredis.register_function('F1', function() end)", "-ERR Function F1 already exists"),
    ] {
        assert_eq!(load(&mut store, text), expected, "{text}");
    }
    store.hears(&[
        ("fcall f1 1 k a b", "*4 :1 :2 $1 k $1 a"),
        ("fcall F1 0", "*2 :0 :0"),
        ("fcall nope 0", "-ERR Function not found"),
        ("fcall f1 x", "-ERR Bad number of keys provided"),
        ("fcall f1 5", "-ERR Number of keys can't be greater than number of args"),
        ("fcall w 1 k v", "+OK"),
        ("fcall_ro ro 1 k", "$1 v"),
        ("fcall_ro w 1 k v", "-ERR Can not execute a script with write flag using *_ro command."),
        ("fcall err 0", "-ERR user_function:5: boom script: err, on @user_function:5."),
        (
            "function stats",
            "*4 $14 running_script $-1 $7 engines *2 $3 LUA *4 $15 libraries_count :1 $15 functions_count :6",
        ),
        ("function kill", "-NOTBUSY No scripts in execution right now."),
        ("function list nope", "-ERR Unknown argument nope"),
        ("function list libraryname x*", "*0"),
    ]);
    assert!(store.line("fcall globals 0").contains("nonexistent global variable 'KEYS'"));
    assert!(store.line("fcall again 0").contains("attempt to call field 'register_function' (a nil value)"));
    let listed = store.line("function list libraryname lib* withcode");
    assert!(listed.starts_with("*1 *8 $12 library_name $4 lib1 $6 engine $3 LUA $9 functions *6 *6 $4 name $2 f1 $11 description $-1 $5 flags *0"), "{listed}");
    // A script that was ended takes the state with it, and the functions are there again.
    store.state.scripts.bounds.instructions = 1_000_000;
    assert!(eval(&mut store, "while true do end").starts_with("-ERR The script was ended"));
    store.hears(&[("fcall f1 0", "*2 :0 :0"), ("function delete nope", "-ERR Library not found")]);
    let other = "#!lua name=lib1\nredis.register_function('other', function() return 7 end)";
    assert_eq!(ask(&mut store, &["function", "load", "replace", other]), "$4 lib1");
    store.hears(&[
        ("fcall other 0", ":7"),
        ("fcall f1 0", "-ERR Function not found"),
        ("function flush", "+OK"),
        ("fcall other 0", "-ERR Function not found"),
    ]);
}

#[test]
fn libraries_are_durable() {
    let mut store = Store::new(1);
    assert_eq!(ask(&mut store, &["function", "load", LIBRARY]), "$4 lib1");
    store.hears(&[("set k v", "+OK"), ("flushall", "+OK")]);
    let mut recovered = Keyspace::default();
    assert!(recovered.replay(store.state.keyspace.record()));
    let mut records = Vec::new();
    let (mut walk, mut written) = (store.state.keyspace.walk(), Keyspace::default());
    while store.state.keyspace.dump_next(&mut walk, &mut records) {}
    assert!(records.iter().all(|record| written.replay(record.bytes())));
    assert_eq!(contents(&written), contents(&store.state.keyspace));
    for keyspace in [recovered, written] {
        Store::over(keyspace, 1).hears(&[("fcall f1 1 k a", "*4 :1 :1 $1 k $1 a")]);
    }
}

/// As redis-server 7.0.15 has it.
#[test]
fn scripts_ask_what_their_client_may_do_and_wait_for_nothing() {
    let mut store = Store::new(1);
    let check = |store: &mut Store, words: &str| eval(store, &format!("return redis.acl_check_cmd({words})"));
    assert_eq!(check(&mut store, "'set', 'x', 1"), ":1");
    store.hears(&[("acl setuser bob on nopass +@scripting +set ~x*", "+OK"), ("auth bob x", "+OK")]);
    assert_eq!(check(&mut store, "'set', 'xx', 1"), ":1");
    assert_eq!(check(&mut store, "'set', 'yy', 1"), "$-1");
    assert_eq!(check(&mut store, "'hset', 'xx', 'f', 1"), "$-1");
    assert!(check(&mut store, "'nope'").starts_with("-ERR Invalid command passed to redis.acl_check_cmd()"));
    let mut store = Store::new(1);
    answers(
        &mut store,
        &[
            (
                "return redis.call('xread', 'BLOCK', 0, 'STREAMS', 's', '$')",
                "-ERR xread command is not allowed with BLOCK option from scripts",
            ),
            ("return redis.error_reply('MY_CODE text')", "-MY_CODE text"),
        ],
    );
    assert!(store.line("info errorstats").contains("errorstat_MY_CODE:count=1"));
    let load = |store: &mut Store, text: &str| ask(store, &["function", "load", "replace", text]);
    for (text, expected) in [
        ("#! name=a\nreturn 1", "-ERR Engine '' not found"),
        ("#!lua name=\"a\nreturn 1", "-ERR Invalid library metadata"),
        ("#!lua name=\"a\"\nredis.register_function('f', function() return math.floor(1.5) end)", "$1 a"),
    ] {
        assert_eq!(load(&mut store, text), expected, "{text}");
    }
    store.hears(&[("fcall f 0", ":1")]);
    for (text, expected) in [
        ("#!lua name=b\nreturn math.random()", "nonexistent global variable 'math'"),
        ("#!lua name=b\nreturn redis.setresp(3)", "nonexistent global variable 'setresp'"),
        ("#!lua name=b\nredis.register_function('a b', function() end)", "Library names can only contain"),
    ] {
        let heard = load(&mut store, text);
        assert!(heard.contains(expected), "{text}: {heard}");
    }
    store.hears(&[("fcall f 0", ":1")]);
}
