//! Directories that applications export, as conventional programs read them: ls, cat, find, grep, tar. What becomes of a reader when the
//! application lies, hangs, or dies.
#![forbid(unsafe_code)]

use bytes::Bytes;
use qanat_export::mount::{Claim, MountError, prepare};
use qanat_export::parts::{Listing, Part, Parts};
use qanat_export::place::{ExportName, mounted};
use qanat_export::probe::{Health, SILENCE_MAX, probe};
use qanat_export::server::Server;
use qanat_export::tree::{Attributes, Entry, Kind, Page, ROOT_NODE, Tree, TreeError};
use qanat_tests::e2e::{NOBODY, Outcome, PATIENCE, Program, Running, Server as WebServer, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

const ADDRESS: &str = "10.77.0.2";

/// A name that no other program of the tests has.
fn name(what: &str) -> ExportName {
    format!("test-{what}-{}", std::process::id()).parse().expect("a name")
}

/// A tree that this process exports. Dropped, it is unmounted.
struct Exported {
    claim: Option<Claim>,
    path: PathBuf,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

impl Exported {
    fn new(what: &str, tree: impl Tree) -> Exported {
        let (device, mount) = prepare().expect("a mount");
        let mut claim = Claim::new(&name(what)).expect("a directory");
        let server = Server::new(tree, device).expect("the kernel greets");
        let server = std::thread::spawn(move || server.run());
        claim.attach(mount.as_fd()).expect("it is mounted");
        Exported { path: claim.path().to_owned(), claim: Some(claim), server: Some(server) }
    }

    fn path(&self, below: &str) -> String {
        self.path.join(below).display().to_string()
    }

    /// It is unmounted, and the server ends by that.
    fn end(mut self) {
        drop(self.claim.take());
        let server = self.server.take().expect("a server");
        eventually("the server ends", PATIENCE, || server.is_finished());
        server.join().expect("it does not panic").expect("it ends well");
        assert!(!self.path.exists());
    }
}

fn run(program: &str, arguments: &[&str]) -> Outcome {
    Program::new(program).arguments(arguments).environment("LC_ALL", "C").patience(PATIENCE).run()
}

fn succeeds(program: &str, arguments: &[&str]) -> String {
    let outcome = run(program, arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{program} {arguments:?}");
    outcome.text()
}

/// So many files, in pages of some hundred.
struct Many(usize);

impl Listing for Many {
    fn page(&mut self, cookie: u64) -> Result<Page, TreeError> {
        let (from, to) = (cookie as usize, (cookie as usize + 300).min(self.0));
        let entries = (from..to).map(|number| Entry { name: format!("file-{number}").into(), kind: Kind::File });
        Ok(Page { entries: entries.collect(), next: (to < self.0).then_some(to as u64) })
    }

    fn content(&mut self, name: &[u8]) -> Result<Bytes, TreeError> {
        let number = std::str::from_utf8(name).ok().and_then(|name| name.strip_prefix("file-")?.parse::<usize>().ok());
        let number = number.filter(|number| *number < self.0).ok_or(TreeError::Absent)?;
        Ok(format!("content of {number}\n").into())
    }
}

fn file(content: Bytes) -> Part {
    Part::File(Box::new(move || Ok(content.clone())))
}

#[test]
fn conventional_programs_read_a_tree_and_change_nothing() {
    scenario(|| {
        let big: Bytes = (0..3_000_000_u32).map(|number| (number * 7 / 8) as u8).collect::<Vec<_>>().into();
        let below =
            vec![("word".to_owned(), file("a needle in it\n".into())), ("empty".to_owned(), file(Bytes::new()))];
        let parts = vec![
            ("big".to_owned(), file(big.clone())),
            ("below".to_owned(), Part::Directory(below)),
            ("many".to_owned(), Part::Listing(Box::new(Many(2_500)))),
        ];
        let exported = Exported::new("sample", Parts::new(parts).expect("names"));
        let root = exported.path("");
        assert_eq!(succeeds("ls", &[&root]), "below\nbig\nmany\n");
        let long = succeeds("ls", &["-la", &exported.path("below")]);
        assert!(long.contains("-r--------") && long.contains(" 15 ") && long.contains(" word"), "{long}");
        assert_eq!(succeeds("cat", &[&exported.path("below/word")]), "a needle in it\n");
        assert_eq!(succeeds("wc", &["-c", &exported.path("below/empty")]).split(' ').next(), Some("0"));
        assert_eq!(succeeds("find", &[&root, "-type", "f"]).lines().count(), 2_503);
        assert_eq!(succeeds("find", &[&root, "-name", "file-2499"]).trim(), exported.path("many/file-2499"));
        let found = succeeds("grep", &["-r", "-l", "-e", "needle", "-e", "content of 1234$", &root]);
        let mut found: Vec<&str> = found.lines().collect();
        found.sort_unstable();
        assert_eq!(found, [exported.path("below/word"), exported.path("many/file-1234")]);

        let directory = tempfile::tempdir().expect("a directory");
        let copy = directory.path().join("copy").display().to_string();
        succeeds("cp", &["-r", &root, &copy]);
        assert_eq!(std::fs::read(Path::new(&copy).join("big")).expect("a copy"), big);
        let archive = directory.path().join("all.tar").display().to_string();
        succeeds("tar", &["-cf", &archive, "-C", &root, "."]);
        succeeds("tar", &["-df", &archive, "-C", &root]);
        assert_eq!(succeeds("tar", &["-tf", &archive]).lines().count(), 2_503 + 3);
        succeeds("diff", &["-r", &root, &copy]);
        // From the middle, as `tail` does.
        assert_eq!(succeeds("tail", &["-c", "3", &exported.path("many/file-7")]), " 7\n");

        for (program, arguments) in [
            ("touch", vec![exported.path("new")]),
            ("rm", vec!["-f".to_owned(), exported.path("big")]),
            ("mkdir", vec![exported.path("many/new")]),
            ("mv", vec![exported.path("big"), exported.path("other")]),
            ("sh", vec!["-c".to_owned(), format!("echo x > {}", exported.path("below/word"))]),
        ] {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let outcome = run(program, &arguments);
            assert!(outcome.code != Some(0) && outcome.stderr.contains("Read-only file system"), "{outcome:?}");
        }
        // Another user reads nothing.
        for program in ["ls", "cat"] {
            let word = exported.path("below/word");
            let arguments = [&NOBODY[..], &[program, &word]].concat();
            let outcome = run("setpriv", &arguments);
            assert!(outcome.code != Some(0) && outcome.stderr.contains("Permission denied"), "{outcome:?}");
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let line = mounts.lines().find(|line| line.contains(exported.path.to_str().expect("a name"))).expect("ours");
        for option in ["ro,nosuid,nodev,noexec", "default_permissions", "allow_other", "fuse.qanat"] {
            assert!(line.contains(option), "{option}: {line}");
        }
        exported.end();
    });
}

/// A tree that says what none can say.
struct Liar;

const HUGE: u64 = 10;
const TWISTED: u64 = 11;
const NOWHERE: u64 = 12;

impl Tree for Liar {
    fn look_up(&mut self, directory: u64, name: &[u8]) -> Result<(u64, Attributes), TreeError> {
        match name {
            b"good" => Ok((20, Attributes::file(3))),
            // A directory below itself.
            b"loop" => Ok((directory, Attributes::DIRECTORY)),
            b"huge" => Ok((HUGE, Attributes::file(u64::MAX))),
            b"twisted" => Ok((TWISTED, Attributes::DIRECTORY)),
            b"nowhere" => Ok((NOWHERE, Attributes::DIRECTORY)),
            // A node without a number.
            b"none" => Ok((0, Attributes::file(1))),
            b"late" => Err(TreeError::Unanswered),
            _ => Err(TreeError::Absent),
        }
    }

    fn attributes(&mut self, node: u64) -> Result<Attributes, TreeError> {
        match node {
            ROOT_NODE | NOWHERE => Ok(Attributes::DIRECTORY),
            // A directory when it was looked up.
            TWISTED => Ok(Attributes::file(1)),
            _ => Ok(Attributes::file(3)),
        }
    }

    fn page(&mut self, directory: u64, _: u64) -> Result<Page, TreeError> {
        let names = ["good", "loop", "huge", "none", "late", "../../etc/passwd", "/etc/passwd", "..", "", "a\0b"];
        let entry = |name: &&str| Entry { name: name.as_bytes().to_vec(), kind: Kind::File };
        match directory {
            NOWHERE => Ok(Page { entries: Vec::new(), next: Some(1) }),
            _ => Ok(Page { entries: names.iter().map(entry).collect(), next: None }),
        }
    }

    fn open(&mut self, _: u64) -> Result<Bytes, TreeError> {
        // More than was told.
        Ok(Bytes::from_static(b"yes, and more\n"))
    }
}

#[test]
fn a_tree_that_lies_gives_errors_to_its_readers_and_no_more() {
    scenario(|| {
        let exported = Exported::new("liar", Liar);
        let root = exported.path("");
        // Names that lead elsewhere are not there.
        assert_eq!(succeeds("ls", &[&root]), "good\nhuge\nlate\nloop\nnone\n");
        assert_eq!(succeeds("cat", &[&exported.path("good")]), "yes, and more\n");
        for (name, why) in [
            ("huge", "File too large"),
            ("none", "No such file or directory"),
            ("late", "Input/output error"),
            ("passwd", "No such file or directory"),
        ] {
            let outcome = run("cat", &[&exported.path(name)]);
            assert!(outcome.code == Some(1) && outcome.stderr.contains(why), "{name}: {outcome:?}");
        }
        for name in ["loop", "loop/loop/loop", "twisted"] {
            let outcome = run("ls", &[&exported.path(name)]);
            assert!(outcome.code != Some(0), "{name}: {outcome:?}");
        }
        let outcome = run("ls", &[&exported.path("nowhere")]);
        assert!(outcome.code != Some(0) && outcome.stderr.contains("Input/output error"), "{outcome:?}");
        // A walk through all of it ends.
        let outcome = run("find", &[&root, "-type", "f", "-size", "+0"]);
        assert!(outcome.text().contains("good"), "{outcome:?}");
        assert_eq!(probe(&exported.path, SILENCE_MAX), Health::Answers);
        exported.end();
    });
}

#[test]
fn a_name_is_one_service_s_and_a_descriptor_without_a_mount_is_of_no_use() {
    scenario(|| {
        let claim = Claim::new(&name("one")).expect("it is free");
        assert!(matches!(Claim::new(&name("one")), Err(MountError::InUse(_))));
        drop(claim);
        let exported = Exported::new("one", Parts::new(Vec::new()).expect("no names"));
        assert!(matches!(Claim::new(&name("one")), Err(MountError::InUse(_))));
        exported.end();
        assert!(Claim::new(&name("one")).is_ok_and(|claim| claim.path().is_dir()));
        // A file that is not /dev/fuse, and a /dev/fuse that is not mounted.
        let tree = || Parts::new(Vec::new()).expect("no names");
        for path in ["/dev/null", "/dev/fuse"] {
            let device = std::fs::File::options().read(true).write(true).open(path).expect("a device");
            assert!(Server::new(tree(), device.into()).is_err(), "{path}");
        }
        // Whoever has the descriptor can't have another mount by it.
        let (device, _mount) = prepare().expect("a mount");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", std::os::fd::AsRawFd::as_raw_fd(&device));
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().display().to_string();
        let outcome = run("setpriv", &[&NOBODY[..], &["mount", "-t", "fuse", "-o", &options, "x", &place]].concat());
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    });
}

/// A mount whose application is gone, as a crash of it and of its keeper leaves one.
fn leave_a_dead_mount(what: &str) -> PathBuf {
    let (device, mount) = prepare().expect("a mount");
    let mut claim = Claim::new(&name(what)).expect("a directory");
    claim.attach(mount.as_fd()).expect("it is mounted");
    drop((device, mount));
    let path = claim.path().to_owned();
    claim.leave();
    assert_eq!(probe(&path, SILENCE_MAX), Health::Dead);
    path
}

fn ask(words: &[&str]) -> String {
    let outcome = Program::new("redis-cli").arguments(["-h", ADDRESS]).arguments(words).patience(PATIENCE).succeeds();
    outcome.text().trim().to_owned()
}

/// A store that exports under a name of the test's.
struct Store {
    running: Running,
    root: PathBuf,
}

impl Store {
    fn start(what: &str, directory: &Path, more: &[&str]) -> Store {
        let disk = directory.join("kv.img").display().to_string();
        let option = format!("--export={}", name(what).as_str());
        let program = Program::new(qanat()).arguments(["kv", "--disk", &disk, "--size", "64M", &option]);
        let running = program.arguments(more).directory(directory).start();
        eventually("it answers", PATIENCE, || {
            let outcome = Program::new("redis-cli").arguments(["-h", ADDRESS, "ping"]).patience(PATIENCE).run();
            outcome.text().trim() == "PONG"
        });
        Store { running, root: name(what).directory() }
    }

    fn path(&self, below: &str) -> String {
        self.root.join(below).display().to_string()
    }

    fn tell(&self, signal: Signal) {
        let group = i32::try_from(self.running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, signal).expect("a signal");
    }

    fn end(self) {
        self.tell(Signal::TERM);
        let outcome = self.running.wait(PATIENCE);
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.text(), outcome.stderr);
        // Not a moment later.
        assert!(!self.root.exists(), "{}", self.root.display());
    }
}

fn reads_a_store(more: &[&str]) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::start("kv", directory.path(), more);
    ask(&["mset", "user:1", "Ada", "user:2", "Grace", "a/b", "slash", "..", "dots"]);
    ask(&["rpush", "list", "one", "two"]);
    ask(&["zadd", "ranks", "2", "second", "1", "first"]);
    ask(&["-n", "1", "set", "elsewhere", "x"]);
    let keys = store.path("keys");
    assert_eq!(succeeds("ls", &["-A", &keys]), "%2E.\na%2Fb\nlist\nranks\nuser:1\nuser:2\n");
    assert_eq!(succeeds("cat", &[&store.path("keys/user:1")]), "Ada");
    assert_eq!(succeeds("cat", &[&store.path("keys/list")]), "one\ntwo\n");
    assert_eq!(succeeds("cat", &[&store.path("keys/ranks")]), "1\tfirst\n2\tsecond\n");
    assert_eq!(succeeds("grep", &["-rl", "Grace", &keys]).trim(), store.path("keys/user:2"));
    // It is what is there now.
    ask(&["set", "user:1", "Ada Lovelace"]);
    ask(&["del", "user:2"]);
    assert_eq!(succeeds("cat", &[&store.path("keys/user:1")]), "Ada Lovelace");
    assert!(run("cat", &[&store.path("keys/user:2")]).stderr.contains("No such file or directory"));
    ask(&["config", "set", "slowlog-log-slower-than", "0"]);
    ask(&["set", "slow", "word"]);
    let slow = succeeds("cat", &[&store.path("slowlog")]);
    assert!(slow.lines().any(|line| line.ends_with("\tset\tslow\tword")), "{slow}");
    eventually("figures are of the last second", PATIENCE, || {
        let figures: serde_json::Value =
            serde_json::from_str(&succeeds("cat", &[&store.path("figures.json")])).expect("JSON");
        figures["kv"]["keys"].as_u64() == Some(7)
    });
    // More keys than a page has.
    ask(&["eval", "for i = 1, 1000 do redis.call('set', 'n' .. i, i) end", "0"]);
    assert_eq!(succeeds("ls", &["-U", &keys]).lines().count(), 1_000 + 6);
    assert_eq!(succeeds("find", &[&keys, "-type", "f", "-name", "n*"]).lines().count(), 1_000);
    store.end();
}

#[test]
fn a_store_s_keys_are_files() {
    scenario(|| reads_a_store(&[]));
}

#[test]
fn split_a_store_s_keys_are_files() {
    scenario(|| reads_a_store(&["--placement", "split"]));
}

#[test]
fn figures_of_other_services_are_files() {
    scenario(|| {
        let server = WebServer::start(&["site", &format!("--export={}", name("web").as_str())]);
        let figures = name("web").directory().join("figures.json").display().to_string();
        let requests = || -> Option<u64> {
            let text = succeeds("cat", &[&figures]);
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["web"]["requests"].as_u64()
        };
        assert_eq!(requests(), Some(0));
        succeeds("curl", &["-sS", "-o", "/dev/null", &server.url("/")]);
        eventually("the request is counted", PATIENCE, || requests() == Some(1));
        assert_eq!(server.stop().code, Some(0));
        assert!(!name("web").directory().exists());
    });
}

#[test]
fn zones_are_files_that_are_as_they_are_served() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("example.zone");
        let zone = |serial: u32| {
            format!("$TTL 60\n@ SOA ns hm {serial} 2 3 4 5\n@ NS ns\n$GENERATE 1-3 host$ A 192.0.2.$\nns A 192.0.2.9\n")
        };
        std::fs::write(&file, zone(1)).expect("a zone");
        let option = format!("--export={}", name("dns").as_str());
        let source = format!("example.net={}", file.display());
        let server = Program::new(qanat()).arguments(["dns", "--zone", &source, &option]).start();
        let zones = name("dns").directory().join("zones");
        eventually("it exports", PATIENCE, || zones.exists());
        let zones = zones.display().to_string();
        assert_eq!(succeeds("ls", &[&zones]), "example.net\n");
        let path = format!("{zones}/example.net");
        let wanted = "example.net. 60 IN SOA ns.example.net. hm.example.net. 1 2 3 4 5\nexample.net. 60 IN NS ns.example.net.\n\
                      host1.example.net. 60 IN A 192.0.2.1\nhost2.example.net. 60 IN A 192.0.2.2\n\
                      host3.example.net. 60 IN A 192.0.2.3\nns.example.net. 60 IN A 192.0.2.9\n";
        assert_eq!(succeeds("cat", &[&path]), wanted);
        // Another name server's own tool takes it.
        succeeds("named-checkzone", &["example.net", &path]);
        // Read again, it is another.
        std::fs::write(&file, zone(2)).expect("a zone");
        let id = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(id, Signal::HUP).expect("a signal");
        eventually("the new zone is there", PATIENCE, || succeeds("cat", &[&path]).contains(" 2 2 3 4 5\n"));
        kill_process(id, Signal::TERM).expect("a signal");
        assert_eq!(server.wait(PATIENCE).code, Some(0));
        assert!(!name("dns").directory().exists());
    });
}

#[test]
fn the_mount_goes_however_the_service_ends_and_the_next_one_has_it() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        // The keeper of one before was killed, too.
        let left = leave_a_dead_mount("gone");
        assert!(mounted().expect("mounts").contains(&left));
        let found = run(&qanat().display().to_string(), &["doctor", "--json"]).text();
        let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
        let remedy = format!("umount --lazy {}", left.display());
        let findings = found.as_array().expect("findings");
        assert!(findings.iter().any(|finding| finding["remedy"] == remedy.as_str()), "{found}");

        let store = Store::start("gone", directory.path(), &[]);
        assert_eq!(succeeds("ls", &[&store.path("")]), "figures.json\nkeys\nslowlog\n");
        // Another one of that name is told so.
        let option = format!("--export={}", name("gone").as_str());
        let other = directory.path().join("other.img").display().to_string();
        let more = ["kv", "--disk", &other, "--size", "64M", "--address", "10.77.1.2/24", &option];
        let outcome = run(&qanat().display().to_string(), &more);
        assert!(outcome.code == Some(1) && outcome.stderr.contains("another service exports there"), "{outcome:?}");

        store.tell(Signal::KILL);
        let Store { running, root } = store;
        drop(running);
        eventually("it is unmounted after kill -9", PATIENCE, || !root.exists());
        Store::start("gone", directory.path(), &[]).end();
    });
}

#[test]
fn the_remedy_of_the_doctor_removes_what_was_left() {
    scenario(|| {
        let left = leave_a_dead_mount("left").display().to_string();
        succeeds("umount", &["--lazy", &left]);
        assert!(!mounted().expect("mounts").contains(&PathBuf::from(&left)));
        std::fs::remove_dir(&left).expect("an empty directory");
    });
}

#[test]
fn a_reader_of_a_service_that_hangs_gets_an_error() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store::start("hangs", directory.path(), &[]);
        ask(&["set", "word", "there"]);
        // A core that is busy for long: the reader is told, and the mount stays. Scripts are ended after a time, and between two of them
        // readers are answered: there is always a next one.
        let endless = format!("while :; do redis-cli -h {ADDRESS} eval 'while true do end' 0; done");
        let busy = [0; 4].map(|_| Program::new("sh").arguments(["-c", &endless]).start());
        eventually("a reader is told", PATIENCE, || {
            let outcome = run("cat", &[&store.path("keys/word")]);
            let is_told = outcome.code == Some(1) && outcome.stderr.contains("Input/output error");
            assert!(is_told || outcome.text() == "there", "{outcome:?}");
            is_told
        });
        drop(busy);
        eventually("it answers again", PATIENCE, || run("cat", &[&store.path("keys/word")]).text() == "there");

        // A process that is stopped: the reader is told, and the mount goes.
        let id = i32::try_from(store.running.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(id, Signal::STOP).expect("a signal");
        let outcome = run("cat", &[&store.path("keys/word")]);
        assert_eq!(outcome.code, Some(1), "{outcome:?}");
        eventually("it is unmounted", PATIENCE, || !store.root.exists());
        // It goes on without its export.
        kill_process(id, Signal::CONT).expect("a signal");
        assert_eq!(ask(&["get", "word"]), "there");
        store.end();
    });
}

#[test]
fn names_and_users_that_can_not_export_are_told_so() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img").display().to_string();
        for wrong in ["--export=../kv", "--export=a/b", "--export=", "--export=.."] {
            let outcome = run(&qanat().display().to_string(), &["kv", "--disk", &disk, "--size", "64M", wrong]);
            assert!(outcome.code == Some(2) && outcome.stderr.contains("--export"), "{wrong}: {outcome:?}");
        }
        let several = ["kv", "--disk", &disk, "--size", "64M", "--export", "--placement", "split", "--app-cores", "2"];
        let outcome = run(&qanat().display().to_string(), &several);
        assert!(outcome.code == Some(1) && outcome.stderr.contains("--app-cores"), "{outcome:?}");
        assert!(!Path::new(&disk).exists());
    });
}
