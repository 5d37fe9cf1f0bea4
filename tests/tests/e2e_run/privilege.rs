//! What a program shares with its workers when one of them gives up its rights: no process follows memory that a lesser one can write.

use super::{OURS, PATIENCE, ask, ends, keeper_of, run, run_with, signal, sleeps};
use qanat_tests::e2e::{NOBODY, Outcome, Program, Running, eventually, qanat, qanat_for_anybody, scenario};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// What the kernel says of a process: a line of its status.
fn status(process: Pid, field: &str) -> String {
    let path = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs the program that has a worker write over all that it shares.
fn overwrite(directory: &Path, mode: &str, seed: u32) -> Outcome {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_run/overwrite.py");
    // The shell tells by which signal it ended, `timeout -v` that it took too long.
    let words = [
        "sh",
        "-c",
        "\"$@\"; exit $?",
        "sh",
        "timeout",
        "-v",
        "-k",
        "1",
        "15",
        "python3",
        script,
        mode,
        &seed.to_string(),
    ];
    let mut program = run(directory, &words).start();
    eventually("it ends", 3 * PATIENCE, || !program.is_running());
    program.wait(PATIENCE)
}

const ENDS_WELL: &str = "the master ends well";

/// Keepers, mourners and deputies in this test's network namespace.
fn keepers_here() -> usize {
    let here = std::fs::read_link("/proc/thread-self/ns/net").expect("the own namespace");
    let processes = std::fs::read_dir("/proc").expect("processes").flatten().map(|entry| entry.path());
    let is_one = |process: &std::path::PathBuf| {
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        ["qanat-keeper", "qanat-mourner", "qanat-deputy"].contains(&name.trim())
            && std::fs::read_link(process.join("ns/net")).is_ok_and(|namespace| namespace == here)
    };
    processes.filter(is_one).count()
}

/// A worker as nobody writes over the world, in many ways: its master, as root, goes on, and has errors for what was shared.
// Attack: privilege: memory that a worker of fewer rights writes over under its master and its keeper
#[test]
fn a_worker_that_became_nobody_does_its_master_no_harm() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let control = overwrite(directory.path(), "control", 0);
        assert!(control.text().contains(ENDS_WELL), "{}{}", control.text(), control.stderr);
        let calls = control.text().lines().next().unwrap_or_default().to_owned();
        assert!(
            calls.split(' ').skip(1).step_by(2).all(|word| word == "well"),
            "nobody does anything: {calls}\n{}",
            control.stderr
        );
        for seed in 0..6 {
            eventually("what was written over ends, and the card is free", 3 * PATIENCE, || keepers_here() == 0);
            let directory = tempfile::tempdir().expect("a directory");
            let attack = overwrite(directory.path(), "attack", seed);
            let said = format!("seed {seed}: {:?}\n{}{}", attack.code, attack.text(), attack.stderr);
            assert!(!attack.stderr.contains("sending signal"), "it waits without end: {said}");
            // What can be written over is the card, and who has lost that is asked to end, and then has to: never by a fault of its own.
            if attack.code == Some(128 + Signal::KILL.as_raw()) {
                continue;
            }
            assert!(attack.code == Some(0) && attack.text().contains(ENDS_WELL), "{said}");
            let calls = attack.text().lines().next().unwrap_or_default().to_owned();
            assert!(calls.starts_with("before well"), "{said}");
            // 99 is EADDRNOTAVAIL: the address is nobody's once the process that had the card is dead.
            let is_error_of_ours = |word: &str| matches!(word, "well" | "9" | "95" | "99" | "100" | "107");
            assert!(calls.split(' ').skip(1).step_by(2).all(is_error_of_ours), "{said}");
        }
    });
}

/// A master that has left the memory it shared makes calls with bad pointers: Linux' errors, and its socket goes on.
#[test]
fn pointers_to_nowhere_are_refused_to_a_master_that_left() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e_run/nowhere.py");
        let outcome =
            run(directory.path(), &["timeout", "-k", "1", "15", "python3", script]).start().wait(3 * PATIENCE);
        let wanted = "setsockopt 14\nsetsockopt 14\nsetsockopt 22\nsetsockopt 22\ngetsockopt 14\ngetsockopt 14\nbind 14\n\
                      ioctl 14\nioctl 0\nsetsockopt 0\n('10.77.0.2', 7000)\n";
        assert_eq!(outcome.text(), wanted, "{}", outcome.stderr);
    });
}

/// The same by one who has given up nothing: that this hits the master shows that the other would.
#[test]
fn a_worker_of_the_same_rights_does() {
    scenario(|| {
        let hit = (0..3).filter(|seed| {
            let directory = tempfile::tempdir().expect("a directory");
            let outcome = overwrite(directory.path(), "off", *seed);
            outcome.code != Some(0) || !outcome.text().contains(ENDS_WELL) || outcome.text().contains(" 100")
        });
        assert!(hit.count() >= 2, "most ways of writing over it do harm");
    });
}

/// Whether a process has these bytes anywhere in memory of its own.
fn has_in_memory(process: Pid, wanted: &[u8]) -> bool {
    let process = process.as_raw_nonzero();
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let mut memory = std::fs::File::open(format!("/proc/{process}/mem")).expect("its memory");
    maps.lines().filter(|line| line.contains(" rw-p ")).any(|line| {
        let range = line.split(' ').next().unwrap_or_default();
        let (start, end) = range.split_once('-').expect("a range");
        let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
        let (start, end) = (number(start), number(end));
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0).min(64 << 20)];
        let _ = memory.seek(SeekFrom::Start(start));
        let count = memory.read(&mut bytes).unwrap_or(0);
        bytes[..count].windows(wanted.len()).any(|part| part == wanted)
    })
}

/// What keeps the world has nothing of the program's memory, and no more rights than the least who share it.
// Attack: privilege: what the keeper of a program has of its rights and its memory
#[test]
fn the_keeper_is_the_least_of_all_and_knows_no_secrets() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = format!(
            "import os, socket, sys\n\
             secret = bytes(range(60, 100)) * 50\n\
             s = socket.create_server(('{OURS}', 7000)); c = s.accept()[0]\n\
             os.setgroups([]); os.setgid(65534); os.setuid(65534)\n\
             c.sendall(b'less'); c.close()\n\
             while True: c = s.accept()[0]; c.sendall(secret[:4]); c.close()"
        );
        let server = run(directory.path(), &["python3", "-c", &script]).start();
        eventually("it listens", PATIENCE, || ask(7000, "", 4).as_deref() == Some("less"));
        let (keeper, own) = (keeper_of(&server), Pid::from_raw(server.id() as i32).expect("a process"));
        let secret: Vec<u8> = (60..100).collect();
        assert!(has_in_memory(own, &secret), "the program has it");
        assert!(!has_in_memory(keeper, &secret), "its keeper has not");
        assert_eq!(status(keeper, "Uid"), "65534 65534 65534 65534");
        assert_eq!(status(keeper, "Gid"), "65534 65534 65534 65534");
        assert_eq!(status(keeper, "Groups"), "");
        assert_eq!(status(keeper, "CapPrm"), "0000000000000000");
        assert_eq!((status(keeper, "NoNewPrivs").as_str(), status(keeper, "Seccomp").as_str()), ("1", "2"));
        // It keeps on keeping.
        assert_eq!(ask(7000, "", 4).as_deref(), Some("<=>?"));
        let said = ends(server, Signal::KILL, directory.path());
        assert!(said.contains("becomes user 65534"), "{said}");
    });
}

/// The workers of a program, children of `master`.
fn children(master: Pid) -> Vec<Pid> {
    let found = Program::new("pgrep").arguments(["-P", &master.as_raw_nonzero().to_string()]).run().text();
    found.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}

fn nginx(directory: &Path, listens: &str) -> Running {
    configure(directory, listens);
    let path = directory.join("nginx.conf");
    run(directory, &["nginx", "-c", &path.display().to_string()]).start()
}

fn configure(directory: &Path, listens: &str) {
    let at = directory.display();
    let config = format!(
        "daemon off;\nuser www-data;\nworker_processes 2;\npid {at}/pid;\nerror_log {at}/log;\n\
         events {{}}\nhttp {{\n access_log off;\n client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c;\n\
         uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;\n server {{ {listens} location / {{ return 200 'It flows.'; }} }}\n}}\n",
    );
    std::fs::write(directory.join("nginx.conf"), config).expect("a file");
}

fn answers(port: u16) -> bool {
    let question = format!("GET / HTTP/1.0\r\nHost: {OURS}:{port}\r\n\r\n");
    ask(port, &question, 4_096).is_some_and(|answer| answer.contains("It flows."))
}

/// nginx as it is installed: its master stays root, and does all a master does, its workers are www-data and share the card.
#[test]
fn nginx_with_a_master_of_more_rights_works_as_ever() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let server = nginx(directory.path(), &format!("listen 80; listen {OURS}:8080;"));
        eventually("it answers", PATIENCE, || answers(80) && answers(8080));
        let master = Pid::from_raw(server.id() as i32).expect("a process");
        let first = children(master);
        assert_eq!(first.len(), 2);
        let user = status(first[0], "Uid");
        assert!(status(master, "Uid").starts_with("0 0") && !user.starts_with('0'), "{user}");
        let keeper = keeper_of(&server);
        assert_eq!(status(keeper, "Uid"), user, "the keeper is what the workers are");
        assert!((0..200).all(|_| answers(80)));
        // A worker that is killed has a successor, which shares the card. Killed in the middle of the stack's work it would take that along.
        sleeps(first[0].as_raw_nonzero().get() as u32);
        kill_process(first[0], Signal::KILL).expect("a signal");
        eventually("there is another worker", PATIENCE, || {
            let now = children(master);
            now.len() == 2 && !now.contains(&first[0]) && now.iter().all(|worker| status(*worker, "Uid") == user)
        });
        assert!((0..50).all(|_| answers(80)));
        // Another port, and one less.
        configure(directory.path(), "listen 80; listen 81;");
        signal(&server, Signal::HUP);
        eventually("the new port answers", PATIENCE, || answers(81));
        eventually("the old one is gone", PATIENCE, || ask(8080, "", 1).is_none());
        eventually("the workers are new", PATIENCE, || {
            let now = children(master);
            now.len() == 2 && now.iter().all(|worker| !first.contains(worker))
        });
        assert!((0..50).all(|_| answers(80) && answers(81)));
        let said = ends(server, Signal::QUIT, directory.path());
        let log = std::fs::read_to_string(directory.path().join("log")).expect("its log");
        assert!(!log.contains("[alert]") || log.contains("exited on signal 9"), "{log}");
        assert!(!log.contains("[emerg]") && !log.contains("[crit]"), "{log}\n{said}");
        assert!(said.contains("shares it again"), "later workers return to the world: {said}");
    });
}

/// Who is the same user but may not look into the program (fewer capabilities here) does not come in by the keeper's door.
// Attack: identity and names: a program's memory joined by one of its user's who may not look into it
#[test]
fn the_door_is_for_those_who_could_control_each_other() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let named = ["--address", "10.77.0.2/24"];
        let serve = |port: u16| {
            format!(
                "import socket\ns = socket.create_server(('{OURS}', {port}))\nwhile True: s.accept()[0].sendall(b'{port}')"
            )
        };
        let _first = run_with(directory.path(), &named, &["python3", "-c", &serve(7000)]).start();
        eventually("the first answers", PATIENCE, || ask(7000, "", 4).as_deref() == Some("7000"));
        let _equal = run_with(directory.path(), &named, &["python3", "-c", &serve(7001)]).start();
        eventually("one of its rights shares its card", PATIENCE, || ask(7001, "", 4).as_deref() == Some("7001"));
        let less = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "python3", "-c"];
        let script = serve(7002);
        let mut words = less.to_vec();
        words.push(&script);
        let lesser = run_with(directory.path(), &named, &words).start();
        let said = lesser.wait(PATIENCE).stderr;
        assert!(said.contains("does not let this program share it"), "{said}");
        assert!(ask(7002, "", 4).is_none() && ask(7000, "", 4).as_deref() == Some("7000"));
    });
}

/// Names that somebody else has taken keep nobody out, and let nobody else in: two programs of one user find each other.
// Attack: identity and names: the names and directories of a user's keepers taken by another
#[test]
fn names_that_another_user_has_taken_keep_nobody_out() {
    scenario(|| {
        // Not in /tmp, which the programs have for themselves here.
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let command = qanat_for_anybody(directory.path());
        let library = qanat().with_file_name("libqanat_posix.so");
        std::fs::copy(&library, directory.path().join("libqanat.so")).expect("the library beside the command");
        let policy = directory.path().join("policy.toml");
        let rules = "group = \"nogroup\"\n[[rule]]\nname = \"all\"\nusers = [\"nobody\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"tcp/7000-7001\"]\n";
        std::fs::write(&policy, rules).expect("a file");
        let socket = directory.path().join("control.sock");
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]);
        let _daemon = daemon.arguments(["--config"]).arguments([&policy]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        let serve = |port: u16| {
            let script = format!(
                "import socket\ns = socket.create_server((\"{OURS}\", {port}))\nwhile True: s.accept()[0].sendall(b\"{port}\")"
            );
            let user = NOBODY.join(" ");
            format!("setpriv {user} {} run --address {OURS}/24 -- python3 -c '{script}'", command.display())
        };
        // Another user has the first directories, and the names that keepers once had.
        let squatter = format!(
            "import socket, time\n\
             a, b = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]\n\
             a.bind(\"\\0qanat-keeper/{OURS}\"); a.listen(); b.bind(\"\\0qanat-turn/{OURS}\"); time.sleep(1000)"
        );
        let go = directory.path().join("go");
        let script = format!(
            "mount -t tmpfs -o mode=1777 tmpfs /tmp && mkdir -m 700 /tmp/qanat-run-65534-0 && mkdir -m 777 /tmp/qanat-run-65534-1 && \
             chown 65534 /tmp/qanat-run-65534-1 && ln -s /var /tmp/qanat-run-65534-2 || exit 1\n\
             python3 -c '{squatter}' &\n{} &\nuntil [ -e {} ]; do sleep 0.1; done\n{} &\nwait",
            serve(7000),
            go.display(),
            serve(7001)
        );
        let _both =
            Program::new("unshare").arguments(["-m", "sh", "-c", &script]).environment("QANAT_SOCKET", &socket).start();
        eventually("the first answers", PATIENCE, || ask(7000, "", 4).as_deref() == Some("7000"));
        std::fs::write(&go, "").expect("a file");
        eventually("the second shares its card", PATIENCE, || ask(7001, "", 4).as_deref() == Some("7001"));
    });
}
