//! `qanat kv` as its users run it: redis-cli and redis-benchmark on kernel sockets, and what is there after it was killed or told to end,
//! in both placements.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{PATIENCE, Program, Running, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;

const ADDRESS: &str = "10.77.0.2";

fn ask(words: &[&str]) -> String {
    let outcome = Program::new("redis-cli").arguments(["-h", ADDRESS]).arguments(words).patience(PATIENCE).succeeds();
    outcome.text().trim().to_owned()
}

fn start(disk: &str, more: &[&str], directory: &Path) -> Running {
    serve(&[&["--disk", disk], more].concat(), directory)
}

fn serve(words: &[&str], directory: &Path) -> Running {
    let running = Program::new(qanat()).arguments(["kv"]).arguments(words).directory(directory).start();
    eventually("it answers", PATIENCE, || {
        let outcome = Program::new("redis-cli").arguments(["-h", ADDRESS, "ping"]).patience(PATIENCE).run();
        outcome.text().trim() == "PONG"
    });
    running
}

fn tell(running: &Running, signal: Signal) {
    let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
    kill_process_group(group, signal).expect("a signal");
}

/// All that was acknowledged is there after `kill -9`, and after a graceful end.
fn keeps(disk: &str, more: &[&str], directory: &Path) {
    let running = start(disk, more, directory);
    assert_eq!(ask(&["set", "word", "kept"]), "OK");
    assert_eq!(ask(&["rpush", "list", "a", "b", "c"]), "3");
    assert_eq!(ask(&["hset", "hash", "field", "value"]), "1");
    assert_eq!(ask(&["zadd", "ranks", "2", "second", "1", "first"]), "2");
    assert_eq!(ask(&["geoadd", "places", "13.361389", "38.115556", "Palermo"]), "1");
    assert_eq!(ask(&["pfadd", "met", "one", "two", "three"]), "1");
    assert_eq!(ask(&["-n", "5", "set", "elsewhere", "swapped"]), "OK");
    assert_eq!(ask(&["swapdb", "5", "6"]), "OK");
    assert_eq!(ask(&["nosuch"]), "ERR unknown command 'nosuch', with args beginning with:");
    let benchmark = ["-h", ADDRESS, "-q", "-n", "2000", "-c", "20", "-P", "4", "-r", "500", "-t", "set,get,lpush,incr"];
    Program::new("redis-benchmark").arguments(benchmark).patience(PATIENCE).succeeds();
    let keys = ask(&["dbsize"]);
    assert_eq!(ask(&["set", "last", "acknowledged"]), "OK");
    tell(&running, Signal::KILL);
    drop(running);

    let running = start(disk, more, directory);
    assert_eq!(ask(&["get", "last"]), "acknowledged");
    assert_eq!(ask(&["del", "last"]), "1");
    assert_eq!(ask(&["dbsize"]), keys);
    assert_eq!(ask(&["lrange", "list", "0", "-1"]), "a\nb\nc");
    assert_eq!(ask(&["geohash", "places", "Palermo"]), "sqc8b49rny0");
    assert_eq!(ask(&["pfcount", "met"]), "3");
    assert_eq!(ask(&["-n", "6", "get", "elsewhere"]), "swapped");
    tell(&running, Signal::TERM);
    let outcome = running.wait(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}{}", outcome.text(), outcome.stderr);

    let running = start(disk, more, directory);
    assert_eq!(ask(&["get", "last"]), "");
    assert_eq!(ask(&["hget", "hash", "field"]), "value");
    assert_eq!(ask(&["zrange", "ranks", "0", "-1"]), "first\nsecond");
    tell(&running, Signal::TERM);
    assert_eq!(running.wait(PATIENCE).code, Some(0));
}

#[test]
fn a_file_of_its_own_is_made_and_keeps_what_was_acknowledged() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img");
        keeps(&disk.display().to_string(), &["--size", "64M"], directory.path());
    });
}

#[test]
fn split_it_keeps_what_was_acknowledged() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img");
        keeps(&disk.display().to_string(), &["--size", "64M", "--placement", "split"], directory.path());
    });
}

/// A checkpoint on request leaves a log that is as long as its keys need, and nothing else.
#[test]
fn a_checkpoint_makes_the_log_short() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img").display().to_string();
        let running = start(&disk, &["--size", "64M"], directory.path());
        let benchmark = ["-h", ADDRESS, "-q", "-n", "5000", "-c", "20", "-d", "1000", "-r", "10", "-t", "set"];
        Program::new("redis-benchmark").arguments(benchmark).patience(PATIENCE).succeeds();
        let figure = |name: &str| -> u64 {
            let text = ask(&["info", "persistence"]);
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|figure| figure.trim().parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
        };
        let before = figure("aof_current_size");
        assert!(before > 5_000_000 && figure("log_checkpoints") == 0, "{before}");
        assert_eq!(ask(&["bgrewriteaof"]), "Background append only file rewriting started");
        eventually("it is made", PATIENCE, || figure("log_checkpoints") == 1);
        let after = figure("aof_current_size");
        assert!(after < before / 10, "{after} of {before}");
        assert!(ask(&["lastsave"]).parse().is_ok_and(|at: u64| at == figure("rdb_last_save_time")));
        tell(&running, Signal::KILL);
        drop(running);
        let running = start(&disk, &[], directory.path());
        assert_eq!(ask(&["dbsize"]), "10");
        tell(&running, Signal::TERM);
        assert_eq!(running.wait(PATIENCE).code, Some(0));
    });
}

#[test]
fn in_memory_only_nothing_is_written_and_nothing_is_kept() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let both = Program::new(qanat()).arguments(["kv", "--memory-only", "--disk", "kv.img"]);
        let refused = both.directory(directory.path()).run();
        assert!(refused.code == Some(2) && refused.stderr.contains("--memory-only"), "{}", refused.stderr);
        let options = ["--memory-only", "--maxmemory", "8M", "--maxmemory-policy", "allkeys-lru"];
        let running = serve(&options, directory.path());
        assert_eq!(ask(&["config", "get", "appendonly"]), "appendonly\nno");
        assert!(ask(&["waitaof", "1", "0", "0"]).starts_with("ERR WAITAOF cannot be used"));
        // More than it may keep: old keys go, and no log is full.
        let benchmark = ["-h", ADDRESS, "-q", "-n", "20000", "-c", "20", "-d", "1000", "-r", "100000", "-t", "set,get"];
        Program::new("redis-benchmark").arguments(benchmark).patience(PATIENCE).succeeds();
        assert_eq!(ask(&["set", "word", "there"]), "OK");
        assert_eq!(ask(&["get", "word"]), "there");
        assert_ne!(
            ask(&["info", "stats"]).lines().find(|line| line.starts_with("evicted_keys:")),
            Some("evicted_keys:0")
        );
        tell(&running, Signal::TERM);
        let outcome = running.wait(PATIENCE);
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.text(), outcome.stderr);
        assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0);
        let running = serve(&options, directory.path());
        assert_eq!(ask(&["dbsize"]), "0");
        tell(&running, Signal::TERM);
        assert_eq!(running.wait(PATIENCE).code, Some(0));
    });
}

/// Passwords come from files, and hold from the first connection on.
#[test]
fn clients_say_who_they_are() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img").display().to_string();
        std::fs::write(directory.path().join("secret"), "sesame\n").expect("a file");
        std::fs::write(directory.path().join("users.acl"), "user default off\nuser me on >p ~k* +@all\n")
            .expect("a file");
        let guarded = |more: &[&str]| {
            let arguments = ["kv", "--disk", &disk, "--size", "64M"];
            let running =
                Program::new(qanat()).arguments(arguments).arguments(more).directory(directory.path()).start();
            eventually("it asks who is there", PATIENCE, || {
                let outcome = Program::new("redis-cli").arguments(["-h", ADDRESS, "ping"]).patience(PATIENCE).run();
                outcome.text().trim() == "NOAUTH Authentication required."
            });
            running
        };
        let running = guarded(&["--password-file", "secret"]);
        assert_eq!(ask(&["get", "key"]), "NOAUTH Authentication required.");
        let as_all = |words: &[&str]| ask(&[["--no-auth-warning", "-a", "sesame"].as_slice(), words].concat());
        eventually("its keys are there", PATIENCE, || !as_all(&["ping"]).starts_with("LOADING"));
        assert_eq!(as_all(&["mset", "key", "value", "other", "value"]), "OK");
        tell(&running, Signal::TERM);
        assert_eq!(running.wait(PATIENCE).code, Some(0));

        let running = guarded(&["--acl-file", "users.acl"]);
        let as_me =
            |words: &[&str]| ask(&[["--no-auth-warning", "--user", "me", "--pass", "p"].as_slice(), words].concat());
        // It asks who is there before it has its keys.
        eventually("its keys are there", PATIENCE, || !as_me(&["ping"]).starts_with("LOADING"));
        assert_eq!(as_me(&["get", "key"]), "value");
        let refused = "NOPERM this user has no permissions to access one of the keys used as arguments";
        assert_eq!(as_me(&["get", "other"]), refused);
        tell(&running, Signal::TERM);
        assert_eq!(running.wait(PATIENCE).code, Some(0));
    });
}

/// Some of the keys of a dump that Redis wrote, as whoever answers there has them.
fn has_what_redis_wrote(ask: impl Fn(&[&str]) -> String) {
    assert_eq!(ask(&["dbsize"]), "14");
    assert_eq!(ask(&["get", "word"]), "hello");
    assert_eq!(ask(&["lrange", "list", "0", "1"]), "a\nb");
    assert_eq!(ask(&["hget", "hash", "m"]), "-2000");
    assert_eq!(ask(&["sismember", "ints", "300000"]), "1");
    assert_eq!(ask(&["zrange", "ranks", "0", "-1"]), "low\none\ntwo\nhuge\nhigh");
    assert_eq!(ask(&["pexpiretime", "later"]), "4102444800000");
    assert_eq!(ask(&["-n", "3", "get", "other"]), "db");
}

#[test]
fn what_redis_has_moves_in_and_out_again() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img").display().to_string();
        let dump = concat!(env!("CARGO_MANIFEST_DIR"), "/../services/kv/tests/keyvalue/dumps/packed.rdb");
        let kv = |words: &[&str]| {
            let program = Program::new(qanat()).arguments(["kv"]).arguments(words).directory(directory.path());
            program.patience(PATIENCE)
        };
        let import = ["import", dump, "--disk", &disk, "--size", "64M", "--json"];
        let text = kv(&import).succeeds().text();
        assert!(text.contains("\"keys\":15"), "{text}");
        // Whoever has keys says that others may come among them.
        let refused = kv(&import).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("--merge"), "{}", refused.stderr);
        kv(&import).arguments(["--merge"]).succeeds();
        let text = kv(&["check", "--disk", &disk, "--json"]).succeeds().text();
        assert!(text.contains("\"is_whole\":true") && text.contains("\"0\":14"), "{text}");

        let running = start(&disk, &[], directory.path());
        has_what_redis_wrote(ask);
        tell(&running, Signal::TERM);
        assert_eq!(running.wait(PATIENCE).code, Some(0));

        kv(&["export", "out.rdb", "--disk", &disk]).succeeds();
        let socket = directory.path().join("redis.sock").display().to_string();
        let options =
            ["--port", "0", "--unixsocket", &socket, "--dbfilename", "out.rdb", "--appendonly", "no", "--save", ""];
        let redis = Program::new("redis-server").arguments(options).directory(directory.path()).start();
        let ask_redis = |words: &[&str]| {
            let outcome =
                Program::new("redis-cli").arguments(["-s", &socket]).arguments(words).patience(PATIENCE).run();
            outcome.text().trim().to_owned()
        };
        eventually("Redis answers", PATIENCE, || ask_redis(&["ping"]) == "PONG");
        has_what_redis_wrote(ask_redis);
        tell(&redis, Signal::TERM);
        assert_eq!(redis.wait(PATIENCE).code, Some(0));
    });
}
