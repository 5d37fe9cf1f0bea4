//! Services that root starts give up its rights, and do everything that they are for without them.

use super::links::{PATIENCE, daemon_for, daemon_with, is_answered};
use qanat_tests::e2e::{
    Outcome, Pages, Program, Running, Wire, directory_for_anybody, eventually, links, process, qanat, scenario,
};
use rustix::process::{Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

const ADDRESS: &str = "10.77.0.2";
/// A user without an account.
const STRANGER: u32 = 64_321;
const ZONE: &str = "$TTL 60\n@ SOA ns hostmaster 1 60 60 600 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";

fn pages() -> Pages {
    Pages::new().with("index.html", "here").with("example.zone", ZONE)
}

fn command(pages: &Pages, words: &[&str]) -> Program {
    let program =
        Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", pages.file(".daemon/control.sock"));
    // Whoever runs the tests by sudo.
    program.environment("SUDO_UID", "").environment("SUDO_GID", "").environment("SUDO_USER", "")
}

/// Each kind of service, by what it is started with.
fn kinds(pages: &Pages) -> Vec<(&'static str, Vec<String>)> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let zone = format!("example.test={}", pages.file("example.zone").display());
    vec![
        ("web", words(&["web", pages.argument()])),
        ("dns", words(&["dns", "--zone", &zone])),
        ("echo", words(&["echo"])),
    ]
}

fn is_echoed(address: &str) -> bool {
    let talk = || -> std::io::Result<bool> {
        let mut stream =
            TcpStream::connect_timeout(&format!("{address}:7").parse().expect("an address"), PATIENCE / 10)?;
        stream.set_read_timeout(Some(PATIENCE / 10))?;
        stream.write_all(b"over")?;
        let mut back = [0; 4];
        stream.read_exact(&mut back)?;
        Ok(&back == b"over")
    };
    talk().unwrap_or(false)
}

fn is_resolved(address: &str, wanted: &str) -> bool {
    let server = format!("@{address}");
    let words = [server.as_str(), "+tries=1", "+time=1", "+short", "www.example.test"];
    Program::new("dig").arguments(words).run().text().trim() == wanted
}

fn serves(kind: &str, address: &str) -> bool {
    match kind {
        "web" => is_answered(&format!("{address}:80")),
        "dns" => is_resolved(address, "192.0.2.2"),
        _ => is_echoed(address),
    }
}

/// A process and all that it has started.
fn tree(root: u32) -> Vec<u32> {
    let children = |of: u32| {
        let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
        let read = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let text: String = tasks.map(|task| read(task) + " ").collect();
        text.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<u32>>()
    };
    let (mut all, mut next) = (vec![root], 0);
    while let Some(process) = all.get(next) {
        all.extend(children(*process));
        next += 1;
    }
    all
}

fn command_line(process: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

/// What `/proc` says of each thread, by name.
fn statuses(process: u32) -> Vec<BTreeMap<String, String>> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let read = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("status")).ok()?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Some(lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    };
    tasks.filter_map(read).collect()
}

/// Every thread of a process is this user's, in no other group, and without rights.
fn assert_without_rights(process: u32, user: u32, group: u32) {
    let threads = statuses(process);
    assert!(!threads.is_empty(), "{process} has ended");
    for status in threads {
        let is = |name: &str, wanted: &str| {
            assert_eq!(
                status.get(name).map(String::as_str),
                Some(wanted),
                "{name} of {}: {status:?}",
                command_line(process)
            );
        };
        is("Uid", &[user; 4].map(|user| user.to_string()).join("\t"));
        is("Gid", &[group; 4].map(|group| group.to_string()).join("\t"));
        is("Groups", "");
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            is(set, "0000000000000000");
        }
        is("NoNewPrivs", "1");
        is("Seccomp", "2");
    }
}

/// All that a service is made of: the steward keeps its user, and if it starts net cores, what they need to open their cards.
fn assert_all_without_rights(service: u32) {
    for process in tree(service) {
        let line = command_line(process);
        match line.contains(" steward ") {
            true if tree(process).len() == 1 => assert_without_rights(process, 0, 0),
            true => {}
            false => assert_without_rights(process, 65_534, 65_534),
        }
    }
}

fn tell(service: &Running, signal: Signal) {
    kill_process(process(service.id().into()), signal).expect("a signal");
}

fn end(service: Running) -> Outcome {
    tell(&service, Signal::TERM);
    let outcome = service.wait(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    outcome
}

fn interfaces() -> Vec<String> {
    let mut all: Vec<String> = links().iter().map(|link| link["ifname"].to_string()).collect();
    all.sort();
    all
}

/// A process that has ended may wait for somebody to look.
fn is_alive(process: u32) -> bool {
    statuses(process).iter().any(|status| !status.get("State").is_none_or(|state| state.starts_with(['Z', 'X'])))
}

/// Serves, without rights; reads its files again; and killed leaves nothing.
fn lives_and_dies(kind: &str, service: Running, address: &str, pages: &Pages, before: &[String]) {
    eventually(&format!("{kind} serves at {address}"), PATIENCE, || serves(kind, address));
    let all = tree(service.id());
    assert_all_without_rights(service.id());
    match kind {
        "web" => {
            pages.write("new.html", "new");
            pages.write("index.html", "there");
            tell(&service, Signal::HUP);
            let url = format!("http://{address}/index.html");
            eventually("the page as it is now", PATIENCE, || {
                Program::new("curl").arguments(["-s", "-m", "2", &url]).run().text() == "there"
            });
            pages.write("index.html", "here");
        }
        "dns" => {
            pages.write("example.zone", ZONE.replace("1 60 60", "2 60 60").replace("192.0.2.2", "192.0.2.9"));
            tell(&service, Signal::HUP);
            eventually("the zone as it is now", PATIENCE, || is_resolved(address, "192.0.2.9"));
            pages.write("example.zone", ZONE);
        }
        _ => {}
    }
    assert_all_without_rights(service.id());
    let door = PathBuf::from(format!("/run/qanat-dns/{}.sock", service.id()));
    assert_eq!(door.exists(), kind == "dns", "where it can be asked");
    tell(&service, Signal::KILL);
    eventually("all its processes have ended", PATIENCE, || !all.iter().any(|process| is_alive(*process)));
    eventually("its interfaces are gone", PATIENCE, || interfaces() == before);
    eventually("the socket it was asked by is gone", PATIENCE, || !door.exists());
    drop(service);
}

#[test]
fn services_on_cards_of_their_own_have_no_rights() {
    scenario(|| {
        let pages = pages();
        let before = interfaces();
        for (kind, words) in kinds(&pages) {
            for more in [&[][..], &["--placement", "split"][..]] {
                let words: Vec<&str> = words.iter().map(String::as_str).chain(more.iter().copied()).collect();
                lives_and_dies(kind, command(&pages, &words).start(), ADDRESS, &pages, &before);
            }
        }
        // Each queue's thread gives up its rights by itself.
        let zone = format!("example.test={}", pages.file("example.zone").display());
        let service = command(&pages, &["dns", "--zone", &zone, "--queues", "2", "--direct"]).start();
        lives_and_dies("dns", service, ADDRESS, &pages, &before);
        let doctor = command(&pages, &["doctor", "--json"]).run().text();
        assert!(!doctor.contains("left"), "{doctor}");
    });
}

#[test]
fn services_on_an_interface_have_no_rights() {
    scenario(|| {
        let (pages, wire) = (pages(), Wire::new());
        let address = "10.78.9.50";
        for (kind, words) in kinds(&pages) {
            let more = ["--interface", Wire::NEAR, "--address", "10.78.9.50/24"];
            let service = command(&pages, &[]).arguments(&words).arguments(more).start();
            wire.far(|| eventually(&format!("{kind} serves"), PATIENCE, || serves(kind, address)));
            assert_all_without_rights(service.id());
            tell(&service, Signal::KILL);
            let has_program = || links().iter().any(|link| link["ifname"] == Wire::NEAR && link["xdp"].is_object());
            eventually("the program is gone from the interface", PATIENCE, || !has_program());
            drop(service);
        }
    });
}

#[test]
fn services_without_rights_get_their_addresses_back_from_the_next_daemon() {
    scenario(|| {
        let pages = pages();
        // The policy grants the addresses to root alone.
        let mut daemon = daemon_for(&pages, "10.77.0.0/24");
        let at = |address: &str| ["--address".to_owned(), format!("{address}/24")];
        let mut services = Vec::new();
        for (number, (kind, words)) in (2..).zip(kinds(&pages)) {
            for (number, more) in [(number, &[][..]), (number + 10, &["--placement", "split"][..])] {
                let address = format!("10.77.0.{number}");
                let started = command(&pages, &[]).arguments(&words).arguments(more).arguments(at(&address)).start();
                services.push((kind, address, started));
            }
        }
        let all_serve = |when: &str| {
            for (kind, address, service) in &services {
                eventually(&format!("{kind} serves at {address} {when}"), PATIENCE, || serves(kind, address));
                assert_all_without_rights(service.id());
            }
        };
        all_serve("at first");
        daemon.kill();
        daemon = daemon_for(&pages, "10.77.0.0/24");
        all_serve("after the daemon's death");
        command(&pages, &["down"]).succeeds();
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
        let daemon = daemon_for(&pages, "10.77.0.0/24");
        all_serve("after the daemon's end");
        for (_, _, service) in services {
            end(service);
        }
        let left = command(&pages, &["status", "--json"]).succeeds().text();
        let left: serde_json::Value = serde_json::from_str(&left).expect("JSON");
        assert_eq!(left["vnics"].as_array().map(Vec::len), Some(0), "{left}");
        drop(daemon);
    });
}

#[test]
fn services_on_the_daemons_net_cores_have_no_rights() {
    scenario(|| {
        let pages = pages();
        let daemon = daemon_with(&pages, "10.77.0.0/24", "[net]\ncores = \"0\"");
        for (kind, words) in kinds(&pages) {
            let service = command(&pages, &[]).arguments(&words).arguments(["--placement", "split"]).start();
            eventually(&format!("{kind} serves"), PATIENCE, || serves(kind, ADDRESS));
            assert_all_without_rights(service.id());
            end(service);
        }
        drop(daemon);
    });
}

#[test]
fn a_net_core_that_dies_is_started_again_for_a_service_without_rights() {
    scenario(|| {
        let pages = pages();
        let service = command(&pages, &["web", pages.argument(), "--placement", "split"]).start();
        let at = format!("{ADDRESS}:80");
        let net_core =
            || tree(service.id()).into_iter().find(|process| command_line(*process).contains(" net --inherit"));
        for round in 1..=2 {
            eventually(&format!("an answer in round {round}"), PATIENCE, || is_answered(&at));
            let dies = net_core().expect("a net core");
            kill_process(process(dies.into()), Signal::KILL).expect("killed");
            eventually("there is another", PATIENCE, || net_core().is_some_and(|now| now != dies));
        }
        eventually("an answer in the end", PATIENCE, || is_answered(&at));
        assert_all_without_rights(service.id());
        end(service);
    });
}

#[test]
fn the_user_is_named_or_whoever_called_sudo() {
    scenario(|| {
        let pages = pages();
        let at = format!("{ADDRESS}:80");
        let web = |more: &[&str]| command(&pages, &["web", pages.argument()]).arguments(more);
        let start = |program: Program| {
            let service = program.start();
            eventually("an answer", PATIENCE, || is_answered(&at));
            service
        };
        let number = STRANGER.to_string();
        let service = start(web(&["--user", &number]));
        assert_without_rights(service.id(), STRANGER, 65_534);
        end(service);
        let service = start(web(&["--user", "daemon"]));
        assert_without_rights(service.id(), 1, 1);
        end(service);
        let service = start(web(&[]).environment("SUDO_UID", &number).environment("SUDO_GID", "64322"));
        assert_without_rights(service.id(), STRANGER, 64_322);
        end(service);
        // Root who calls sudo is not meant.
        let service = start(web(&[]).environment("SUDO_UID", "0").environment("SUDO_GID", "0"));
        assert_without_rights(service.id(), 65_534, 65_534);
        end(service);
        let service = start(web(&["--user", "root"]));
        let threads = statuses(service.id());
        assert!(
            threads.iter().all(|status| status["Uid"].starts_with("0\t") && status["Seccomp"] == "0"),
            "{threads:?}"
        );
        let outcome = end(service);
        assert_eq!(outcome.stderr.matches("with all of root's rights").count(), 1, "{}", outcome.stderr);
        let outcome = web(&["--user", "nobody-of-that-name"]).run();
        assert!(outcome.code == Some(1) && outcome.stderr.contains("there is no such user"), "{outcome:?}");
        let setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let directory = directory_for_anybody();
        let own = qanat_tests::e2e::qanat_for_anybody(directory.path());
        let stranger = Program::new("setpriv").arguments(setpriv).arguments([own.as_os_str(), "web".as_ref()]);
        let outcome = stranger.arguments([pages.argument(), "--user", &number]).run();
        assert!(outcome.code == Some(1) && outcome.stderr.contains("start it with sudo"), "{outcome:?}");
    });
}

#[test]
fn a_log_that_cannot_be_made_anew_is_told_of() {
    scenario(|| {
        let (pages, logs) = (pages(), directory_for_anybody());
        // As `/var/log` is.
        mode(logs.path(), 0o755);
        let (log, old) = (logs.path().join("log"), logs.path().join("log.1"));
        let said = pages.file("said");
        let words = "exec \"$0\" web \"$1\" --access-log \"$2\" > \"$3\" 2>&1";
        let web = Program::new("sh").arguments(["-c", words]).arguments([&qanat(), pages.path(), &log, &said]);
        let web = web.environment("QANAT_SOCKET", "/nowhere/control.sock").environment("SUDO_UID", "").start();
        let has = |path: &Path, text: &str| std::fs::read_to_string(path).is_ok_and(|all| all.contains(text));
        let ask = |page: &str| {
            let url = format!("http://{ADDRESS}/{page}");
            eventually(&format!("an answer for {page}"), PATIENCE, || {
                Program::new("curl").arguments(["-s", "-m", "2", &url]).run().code == Some(0)
            });
        };
        ask("first");
        std::fs::rename(&log, &old).expect("renamed");
        tell(&web, Signal::HUP);
        eventually("it says so", PATIENCE, || has(&said, "lines go on to the file that was there before"));
        ask("second");
        eventually("it goes on in the old file", PATIENCE, || has(&old, "GET /second"));
        // The remedy.
        std::fs::write(&log, "").expect("a log");
        chown(&log, Some(65_534), Some(65_534)).expect("its owner");
        tell(&web, Signal::HUP);
        eventually("it goes on in the new file", PATIENCE, || {
            ask("third");
            has(&log, "GET /third")
        });
        end(web);
    });
}

#[test]
fn services_without_rights_end_with_who_started_them() {
    scenario(|| {
        let pages = pages();
        let before = interfaces();
        let leader = command(&pages, &["web", pages.argument(), "--app-cores", "2"]).start();
        eventually("an answer", PATIENCE, || is_answered(&format!("{ADDRESS}:80")));
        let is_app_core = |process: &u32| command_line(*process).contains(" --app-core ");
        let below = || tree(leader.id()).into_iter().filter(|process| *process != leader.id()).collect::<Vec<u32>>();
        eventually("two app cores", PATIENCE, || below().iter().filter(|process| is_app_core(process)).count() == 2);
        for app_core in below().iter().filter(|process| is_app_core(process)) {
            eventually("it has no rights", PATIENCE, || statuses(*app_core).iter().all(|all| all["Seccomp"] == "2"));
            assert_without_rights(*app_core, 65_534, 65_534);
        }
        let all = below();
        tell(&leader, Signal::KILL);
        eventually("all its processes have ended", PATIENCE, || !all.iter().any(|process| is_alive(*process)));
        eventually("its interfaces are gone", PATIENCE, || interfaces() == before);
    });
}

/// The command that a refusal names first.
fn remedy(outcome: &Outcome) -> String {
    let command = outcome.stderr.split('`').nth(1);
    command.unwrap_or_else(|| panic!("no remedy: {outcome:?}")).to_owned()
}

/// Starts a service that is refused, carries out the remedy, and again, until it serves.
fn refused_until_remedied(start: &dyn Fn() -> Program, file: &Path, refusals: usize, is_served: &dyn Fn() -> bool) {
    for round in 0..refusals {
        let outcome = start().run();
        let said = &outcome.stderr;
        assert_eq!(outcome.code, Some(1), "round {round}: {outcome:?}");
        assert!(said.contains(&file.display().to_string()) && said.contains("nobody"), "round {round}: {said}");
        Program::new("sh").arguments(["-c", &remedy(&outcome)]).succeeds();
    }
    let service = start().start();
    eventually("it serves", PATIENCE, is_served);
    end(service);
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
}

#[test]
fn what_the_user_cannot_read_is_refused_at_the_start() {
    scenario(|| {
        let pages = pages().with("deep/in/page.html", "page");
        let web = || command(&pages, &["web", pages.argument()]);
        let is_served = || is_answered(&format!("{ADDRESS}:80"));
        let page = pages.file("deep/in/page.html");
        mode(&page, 0o600);
        refused_until_remedied(&web, &page, 1, &is_served);
        mode(&pages.file("deep/in"), 0o700);
        refused_until_remedied(&web, &pages.file("deep/in"), 1, &is_served);
        // What a link leads to below the root is served, and what it leads to elsewhere is not: that need not be readable.
        let link = |target: &Path, name: &str| std::os::unix::fs::symlink(target, pages.file(name)).expect("a link");
        let secret = tempfile::tempdir().expect("a directory");
        std::fs::write(secret.path().join("key"), "secret").expect("a file");
        mode(&secret.path().join("key"), 0o600);
        link(&secret.path().join("key"), "outside");
        refused_until_remedied(&web, pages.path(), 0, &is_served);
        assert_eq!(std::fs::metadata(secret.path().join("key")).expect("the file").mode() & 0o777, 0o600);
        mode(&page, 0o600);
        link(&page, "inside");
        refused_until_remedied(&web, &page, 1, &is_served);
        // The way to it: both directories are in the way, one after the other.
        let hidden = directory_for_anybody();
        let site = hidden.path().join("above/site");
        std::fs::create_dir_all(&site).expect("directories");
        std::fs::write(site.join("index.html"), "here").expect("a page");
        mode(&site, 0o700);
        mode(&hidden.path().join("above"), 0o700);
        let web = || command(&pages, &["web"]).arguments([&site]);
        refused_until_remedied(&web, &site, 2, &is_served);
        // A log that was root's. One that is not there is made for the user.
        let logs = directory_for_anybody();
        mode(logs.path(), 0o755);
        let log = logs.path().join("log");
        std::fs::write(&log, "").expect("a log");
        let web = || command(&pages, &["web", pages.argument(), "--access-log"]).arguments([&log]);
        refused_until_remedied(&web, &log, 1, &is_served);
        let text = std::fs::read_to_string(&log).expect("a log");
        assert!(text.contains("GET /index.html"), "{text}");
        std::fs::remove_file(&log).expect("removed");
        refused_until_remedied(&web, &log, 0, &is_served);
        assert_eq!(std::fs::metadata(&log).expect("a log").uid(), 65_534);
    });
}

#[test]
fn a_name_server_refuses_what_its_user_cannot_use() {
    scenario(|| {
        let pages = pages();
        let is_served = || is_resolved(ADDRESS, "192.0.2.2");
        let (zone, config) = (pages.file("example.zone"), pages.file("dns.toml"));
        let key = "[[key]]\nname = \"k\"\nalgorithm = \"hmac-sha256\"\nsecret = \"c2VjcmV0c2VjcmV0c2VjcmV0\"\n";
        pages.write("keys/key.toml", key);
        let text = "include = [\"keys/key.toml\"]\n[log]\nfile = \"queries\"\n[[zone]]\nname = \"example.test\"\nfile = \
                    \"example.zone\"\n[[zone]]\nname = \"other.test\"\nprimary = [\"10.77.0.1\"]\nfile = \"copies/other\"\n";
        pages.write("dns.toml", text);
        pages.write("copies/none", "");
        let dns = || command(&pages, &["dns", "--config"]).arguments([&config]);
        for file in [&zone, &config, &pages.file("keys/key.toml")] {
            mode(file, 0o600);
            // What is copied there is looked at below.
            chown(pages.file("copies"), Some(65_534), None).expect("its owner");
            refused_until_remedied(&dns, file, 1, &is_served);
        }
        chown(pages.file("copies"), Some(0), None).expect("its owner");
        refused_until_remedied(&dns, &pages.file("copies/other"), 1, &is_served);
        assert_eq!(std::fs::metadata(pages.file("queries")).expect("a log").uid(), 65_534);
        chown(pages.file("queries"), Some(0), Some(0)).expect("its owner");
        refused_until_remedied(&dns, &pages.file("queries"), 1, &is_served);
    });
}
