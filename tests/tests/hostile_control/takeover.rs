//! Daemons that end, by crash, kill or upgrade, while their cards are in use; and the next ones.

use super::cards::{Control, PLAN, arrivals, card, count, rule, send, wish};
use super::frames::{Ipv4, ethernet, udp};
use super::running::{kill_group, links};
use qanat_control::client::Session;
use qanat_control::filter::{Direction, Filter, Rate};
use qanat_control::protocol::VnicWish;
use qanat_daemon::leftovers;
use qanat_tests::e2e::{PATIENCE, Program, Running, eventually, qanat, scenario, workspace};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn run(socket: &Path, arguments: &[&str]) -> Program {
    Program::new(qanat()).arguments(arguments).environment("QANAT_SOCKET", socket)
}

fn page() -> String {
    Program::new("curl").arguments(["-sS", "-m", "5", "http://10.77.0.2/"]).run().text()
}

/// `qanat doctor --fix`, of what concerns this machine's settings without effect.
fn doctor_fix(socket: &Path) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    for name in ["groupadd", "sysctl"] {
        let path = directory.path().join(name);
        std::fs::write(&path, "#!/bin/sh\n").expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, mode).expect("its mode");
    }
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap_or_default());
    run(socket, &["doctor", "--fix"]).environment("PATH", path).run().text()
}

/// A daemon that is a process, and a server that is its client.
struct Pair {
    socket: PathBuf,
    daemon: Running,
    server: Running,
}

fn daemon(socket: &Path) -> Running {
    let daemon = run(socket, &["up", "--log-format", "json"]).start();
    eventually("the daemon listens", Duration::from_secs(10), || run(socket, &["limits"]).run().code == Some(0));
    daemon
}

fn pair(socket: PathBuf) -> Pair {
    let daemon = daemon(&socket);
    // What a TAP device was goes with the last process that has it. A veth device is what may be left.
    let site = workspace().join("site").display().to_string();
    let server = run(&socket, &["web", &site, "--device", "veth"]).start();
    eventually("it serves", Duration::from_secs(10), || page().contains("It flows."));
    Pair { socket, daemon, server }
}

#[test]
fn a_killed_daemon_is_succeeded() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let before = links();
        let Pair { socket, daemon: first, server } = pair(directory.path().join("control.sock"));
        run(&socket, &["rate", "set", "0", "--bits", "900M"]).succeeds();
        let served = |minimum: u64| {
            let vnics = Session::connect(&socket).expect("a session").status().expect("a status").vnics;
            let [vnic] = vnics.as_slice() else { panic!("one card: {vnics:?}") };
            assert!(count(vnic, true, "passed_to_kernel").0 >= minimum, "{vnic:?}");
            assert_eq!(vnic.transmit.rate.bits_per_s, 900_000_000);
            assert!(!vnic.transmit.filters.is_empty());
            count(vnic, true, "passed_to_kernel").0
        };
        let frames = served(3);
        kill_group(first);
        assert!(page().contains("It flows."), "the data plane goes on");
        let left = leftovers(&socket).expect("what is left");
        assert!(left.len() == 1 && left[0].in_use, "{left:?}");
        let found = doctor_fix(&socket);
        assert!(found.contains("1 in use (qanat0)"), "what is in use is not removed: {found}");
        assert!(page().contains("It flows."));
        let second = daemon(&socket);
        let frames = served(frames + 2);
        println!("filters, rates and counters are taken back: {frames} frames");
        run(&socket, &["filter", "list"]).succeeds();
        // Upgraded in place: the same process, and the card goes on.
        let process = second.id();
        Program::new("kill").arguments(["-HUP", &process.to_string()]).succeeds();
        eventually("it listens again", Duration::from_secs(10), || run(&socket, &["limits"]).run().code == Some(0));
        assert!(Path::new(&format!("/proc/{process}")).exists() && page().contains("It flows."));
        served(frames + 1);
        // A client that dies is noticed, whichever daemon made its card.
        kill_group(server);
        let start = Instant::now();
        eventually("the card goes with its process", PATIENCE, || links() == before);
        println!("gone {:?} after the server was killed", start.elapsed());
        run(&socket, &["down"]).succeeds();
        let log = second.wait(Duration::from_secs(5)).stderr;
        assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
        assert!(log.contains("\"event\":\"vnic-take-back\"") && log.contains("\"result\":\"done\""), "{log}");
        assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0, "nothing is left");
    });
}

#[test]
fn what_a_crashed_daemon_leaves_can_be_removed() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let before = links();
        let Pair { socket, daemon: first, server } = pair(directory.path().join("control.sock"));
        kill_group(first);
        kill_group(server);
        // The namespace is kept for a daemon that does not come.
        assert!(links() > before);
        let found = run(&socket, &["doctor"]).run();
        assert!(found.code == Some(1) && found.text().contains("crashed, 1 cards left, 0 in use"), "{}", found.text());
        doctor_fix(&socket);
        eventually("all is gone", Duration::from_secs(2), || links() == before && leftovers(&socket).is_none());
        // In use or not, `down` ends it.
        let Pair { socket, daemon: second, mut server } = pair(socket);
        kill_group(second);
        assert!(page().contains("It flows."));
        run(&socket, &["down"]).succeeds();
        assert!(links() == before && leftovers(&socket).is_none() && !socket.exists());
        server.kill();
        assert_eq!(run(&socket, &["down"]).run().code, Some(1), "nothing to end");
    });
}

#[test]
fn handles_outlive_their_daemon() {
    scenario(|| {
        let mut control = Control::generous();
        let (before, session) = (links(), control.session());
        let (vnic, mut queue) = card(&control, 2, &["udp/7"]);
        let (other, mut seen) = card(&control, 3, &["udp/7"]);
        let kept = session.create_vnic(VnicWish { persistent: true, ..wish(4, &["tcp"]) }).expect("a persistent card");
        let dead = session.create_vnic(wish(5, &[])).expect("a card");
        let filter = Filter::service("udp/9".parse().expect("a service"));
        let filter = session.create_filter_of(Direction::Transmit, vec![filter]).expect("a filter");
        vnic.assign(&filter, None).expect("assigned");
        let packet = |port| {
            let packet = Ipv4 { destination: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(port, 9));
            ethernet(other.status().mac, vnic.status().mac, 0x0800, &packet)
        };
        let mut passes = |port, expected: bool, when: &str| {
            send(&mut queue, &[packet(port)]);
            assert_eq!(arrivals(&mut seen).len(), usize::from(expected), "port {port} {when}");
        };
        control.crash();
        assert_eq!(links(), before + 4, "the cards are still there");
        for (port, expected) in [(7, true), (9, true), (8, false)] {
            passes(port, expected, "without a daemon");
        }
        drop((kept, dead, session));
        control.resume();
        let names: Vec<String> = control.vnics().into_iter().map(|vnic| vnic.name).collect();
        assert_eq!(names, ["card 2", "card 3", "card 4"], "whose client closed its handle meanwhile is gone");
        // The old handle is proof; the library exchanges it.
        vnic.set_rate(Direction::Transmit, Rate { packets_per_s: 1_000, ..Rate::UNLIMITED }).expect("limited");
        vnic.unassign(&filter).expect("the old filter's handle is as good as ever");
        passes(9, false, "after it was unassigned");
        vnic.assign(&filter, None).expect("assigned");
        passes(9, true, "after it was assigned again");
        let second = other.open_queue(0, PLAN).is_err();
        assert!(second, "the queue is open, and the daemon knows");
        // What is no handle, or another's, is no proof.
        let session = control.session();
        let file: OwnedFd = std::fs::File::open("/dev/null").expect("a file").into();
        let (socket, _peer) = std::os::unix::net::UnixStream::pair().expect("sockets");
        for wrong in [&file, &socket.into()] {
            assert!(session.reclaim(wrong.as_fd()).is_err());
        }
        assert!(session.reclaim(vnic.as_fd()).is_err(), "this daemon's own handle is no earlier one's");
        // Twice, with clients that die and clients that do not, at the same time.
        control.crash();
        control.resume();
        vnic.set_rate(Direction::Transmit, Rate::UNLIMITED).expect("by the third daemon too");
        drop(filter);
        eventually("a filter goes with its last handle", Duration::from_millis(500), || {
            control.vnics().iter().all(|vnic| vnic.transmit.filters.iter().all(|f| !f.to_string().contains("udp/9")))
        });
        drop((queue, vnic));
        let start = Instant::now();
        eventually("the card goes with its last handle", PATIENCE, || control.vnics().len() <= 2);
        println!("gone {:?} after its last handle was closed", start.elapsed());
        let deleted = other.status().vnic;
        control.session().ask(qanat_control::protocol::Request::DeleteVnic { vnic: deleted }).expect("deleted");
        assert!(
            other.set_rate(Direction::Transmit, Rate::UNLIMITED).is_err(),
            "a revoked card's handle proves nothing"
        );
    });
}

/// Notes of an older version are read; of one that can't be, cards are neither taken nor touched.
// Attack: administration: cards of another version's daemon taken over
#[test]
fn cards_of_another_version_are_left_alone() {
    scenario(|| {
        // Without a service manager: what ends the cards here finds their namespace where it is mounted.
        let mut control = Control::by_hand(&rule(""));
        let before = links();
        let (vnic, mut queue) = card(&control, 2, &["udp/7"]);
        let (other, mut seen) = card(&control, 3, &[]);
        let packet = Ipv4 { destination: [10, 77, 0, 3], ..Ipv4::own(17) }.with(&udp(7, 9));
        let frame = ethernet(other.status().mac, vnic.status().mac, 0x0800, &packet);
        let mut passes = |when: &str| {
            send(&mut queue, std::slice::from_ref(&frame));
            assert_eq!(arrivals(&mut seen).len(), 1, "{when}");
        };
        control.crash();
        let state = control.socket.with_extension("state");
        let change = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
            let path = state.join(name);
            let mut notes = serde_json::from_slice(&std::fs::read(&path).expect("notes")).expect("JSON");
            change(&mut notes);
            std::fs::write(path, notes.to_string()).expect("written");
        };
        for version in [0, 99] {
            change("fence.json", &|notes| notes["version"] = version.into());
            let error = control.try_resume().expect_err("not its cards");
            let words = ["2 cards", &format!("version {version}"), "1 to 2", "qanat down"];
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
            passes("they go on");
            let left = leftovers(&control.socket).expect("what is left");
            assert!(left.len() == 2 && left.iter().all(|card| card.in_use), "{left:?}");
        }
        // Version 1 knew no providers.
        change("fence.json", &|notes| notes["version"] = 1.into());
        for name in ["vnic-0.json", "vnic-1.json"] {
            change(name, &|notes| drop(notes["wish"].as_object_mut().expect("a wish").remove("provider")));
        }
        control.resume();
        passes("taken back");
        // Programs of another text: this version's are put in their place, over the same tables.
        control.crash();
        change("fence.json", &|notes| notes["fence"] = 1.into());
        control.resume();
        passes("under new programs");
        vnic.set_rate(Direction::Transmit, Rate { packets_per_s: 9, ..Rate::UNLIMITED }).expect("the handle is good");
        // Whatever wrote of them, `qanat down` ends them.
        control.crash();
        change("fence.json", &|notes| notes["version"] = 99.into());
        change("vnic-0.json", &|notes| *notes = serde_json::json!({"devices": "otherwise"}));
        qanat_daemon::clear(&control.socket);
        eventually("nothing is left", Duration::from_secs(2), || links() == before);
        control.resume();
    });
}

// Attack: administration: a ceiling lost by a crash of the daemon
#[test]
fn ceilings_are_taken_back() {
    scenario(|| {
        let mut control = Control::start(&rule("transmit = { packets_per_s = 100 }\nmemory_mib = 2"));
        let (vnic, mut queue) = card(&control, 2, &["udp/7"]);
        let host = qanat_nic::link::link(&vnic.status().interface).expect("the kernel's end").mac.0;
        let packet = ethernet(host, vnic.status().mac, 0x0800, &Ipv4::own(17).with(&udp(7, 9)));
        let limited = |control: &Control| count(&control.vnics()[0], true, "rate_packets").0;
        send(&mut queue, &vec![packet.clone(); 64]);
        eventually("the ceiling holds", Duration::from_secs(2), || limited(&control) > 32);
        let before = limited(&control);
        control.crash();
        control.resume();
        send(&mut queue, &vec![packet; 64]);
        eventually("the user's ceiling is what it was", Duration::from_secs(2), || limited(&control) > before + 32);
        // And so is what he owes: memory registered counts, whatever daemon registered it.
        let second = control.session().create_vnic(wish(3, &[])).expect("a second card");
        assert!(second.open_queue(0, PLAN).is_err(), "1.5 of 2 MiB are in use");
        assert!(second.set_rate(Direction::Transmit, Rate { packets_per_s: 200, ..Rate::UNLIMITED }).is_err());
    });
}

/// The daemon is killed at any point of making and removing cards; the next one has no more and no less than what is held.
// Attack: administration: the daemon killed at any point
#[test]
fn killed_at_any_point_it_is_succeeded() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("control.sock");
        let before = links();
        for round in 0..8u64 {
            let daemon = daemon(&socket);
            let session = Session::connect(&socket).expect("a session");
            let held = session.create_vnic(wish(200, &["udp"])).expect("a card that is kept");
            let killer = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(500 + round * 5_300));
                kill_group(daemon);
            });
            // Until it is gone: cards made, changed and given up.
            for number in 0..10_000u32 {
                let wish = wish(2 + (number % 100) as u8, &["tcp/80"]);
                let Ok(vnic) = session.create_vnic(wish) else { break };
                if number % 3 == 0 {
                    drop(vnic.open_queue(0, PLAN));
                }
                let filter = Filter::service("udp/53".parse().expect("a service"));
                drop(vnic.add_filter(Direction::Transmit, filter));
            }
            killer.join().expect("killed");
            let daemon = self::daemon(&socket);
            let status = || Session::connect(&socket).expect("a session").status().expect("a status");
            eventually("only what is held is left", Duration::from_secs(2), || {
                let vnics = status().vnics;
                vnics.len() == 1 && vnics[0].name == "card 200" && links() == before + 1
            });
            held.add_filter(Direction::Transmit, Filter::service("tcp/443".parse().expect("a service")))
                .expect("added");
            assert_eq!(status().vnics[0].transmit.filters.len(), 2);
            drop(held);
            // Every address is free again.
            let session = Session::connect(&socket).expect("a session");
            let all: Vec<_> = (2..8).map(|last| session.create_vnic(wish(last, &[])).expect("a card")).collect();
            drop(all);
            run(&socket, &["down"]).succeeds();
            daemon.wait(Duration::from_secs(5));
            eventually("nothing is left", Duration::from_secs(2), || links() == before && !socket.exists());
        }
    });
}

// Attack: descriptors: a queue opened again while its socket is held
#[test]
fn a_queue_is_open_as_long_as_somebody_holds_it() {
    scenario(|| {
        let mut control = Control::generous();
        let wish = VnicWish { persistent: true, ..wish(2, &["udp/7"]) };
        let vnic = control.session().create_vnic(wish).expect("a persistent card");
        let open = |control: &Control| {
            let vnics = control.vnics();
            (vnics[0].queues_open, vnics[0].memory_bytes)
        };
        assert_eq!(open(&control), (0, 0));
        let length = u64::from(PLAN.frame_size) * u64::from(PLAN.receive_frames + PLAN.transmit_frames);
        let first = vnic.open_queue(0, PLAN).expect("a queue");
        assert_eq!(open(&control), (1, length));
        drop(first);
        eventually("its opener is gone", Duration::from_secs(5), || open(&control) == (0, 0));
        // The kernel lets go of a queue some time after its socket.
        let again = || {
            let mut queue = None;
            eventually("it can be opened again", Duration::from_secs(5), || {
                queue = vnic.open_queue(0, PLAN).ok();
                queue.is_some()
            });
            queue
        };
        let second = again();
        assert_eq!(open(&control), (1, length));
        control.crash();
        control.resume();
        assert_eq!(open(&control), (1, length), "the next daemon knows whose it is");
        control.crash();
        drop(second);
        control.resume();
        eventually("nobody has it", Duration::from_secs(5), || open(&control) == (0, 0));
        let _third = again();
        assert_eq!(open(&control), (1, length));
    });
}

/// A daemon whose log goes to a file, so that a test can wait for a line of it.
fn logged(policy: &Path, socket: &Path, log: &Path) -> Running {
    logged_with(policy, socket, log, "")
}

/// The same. `kept`: the number of the descriptor of the policy that its predecessor had found good, if it is a successor.
fn logged_with(policy: &Path, socket: &Path, log: &Path, kept: &str) -> Running {
    let line = "exec \"$0\" up --config \"$1\" --socket \"$2\" 2> \"$3\"";
    let command = qanat();
    let words =
        ["-c".as_ref(), line.as_ref(), command.as_os_str(), policy.as_os_str(), socket.as_os_str(), log.as_os_str()];
    Program::new("sh").arguments(words).environment("QANAT_POLICY", kept).start()
}

/// A signal comes at any moment: while the daemon starts, while it becomes the next one, twice at once. None is lost or ends it by
/// itself.
#[test]
fn signals_at_any_moment_reload_or_end() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (before, policy) = (links(), directory.path().join("policy"));
        let socket = directory.path().join("control.sock");
        std::fs::write(&policy, rule("")).expect("a policy");
        let log = directory.path().join("log");
        let daemon = logged(&policy, &socket, &log);
        let listens = || Session::connect(&socket).and_then(|session| session.limits()).is_ok();
        eventually("it listens", Duration::from_secs(20), listens);
        let vnic = Session::connect(&socket).expect("a session").create_vnic(wish(2, &["udp/7"])).expect("a VNIC");
        let tell = |name: &str| drop(Program::new("kill").arguments([name, &daemon.id().to_string()]).succeeds());
        for gap_ms in [0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 0, 0, 0, 40, 60, 80, 100, 120] {
            tell("-HUP");
            std::thread::sleep(Duration::from_millis(gap_ms));
        }
        // The last policy is the one that counts, whenever it was written.
        std::fs::write(&policy, rule("").replace("vnics = 64", "vnics = 63")).expect("a policy");
        tell("-HUP");
        let allowed = || Session::connect(&socket).ok()?.limits().ok().map(|limits| limits.vnics[0]);
        eventually("the new policy rules", Duration::from_secs(20), || allowed() == Some(63));
        // A mistake is refused whole.
        std::fs::write(&policy, rule("").replace("vnics = 64", "vnics = many")).expect("a policy");
        tell("-HUP");
        std::fs::write(&policy, rule("").replace("vnics = 64", "vnics = 62")).expect("a policy");
        tell("-HUP");
        eventually("it goes on", Duration::from_secs(20), || allowed().is_some());
        std::fs::write(&policy, "[[rule]\n").expect("a policy");
        tell("-HUP");
        tell("-HUP");
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        let is_told = |line: &str| {
            line.contains("event=reload result=refused") && line.contains("line 1") && line.contains("stays as it was")
        };
        eventually("the mistake is told, with its line", Duration::from_secs(20), || said().lines().any(is_told));
        // It may be about to start anew once more.
        let vnics = || Some(Session::connect(&socket).ok()?.status().ok()?.vnics.len());
        eventually("its card is there", Duration::from_secs(20), || vnics() == Some(1));
        // Told to start anew and at once to end, it ends.
        std::fs::write(&policy, rule("")).expect("a policy");
        tell("-HUP");
        tell("-TERM");
        let outcome = daemon.wait(Duration::from_secs(20));
        assert_eq!(outcome.code, Some(0), "{}", said());
        drop(vnic);
        eventually("nothing is left", Duration::from_secs(2), || links() == before);
    });
}

/// The policy was good when the daemon was told to start anew, and is broken by the time the next one reads it: that one goes on with what
/// its predecessor had found good.
#[test]
fn a_policy_that_is_broken_while_the_daemon_starts_anew_is_refused() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (policy, socket) = (directory.path().join("policy"), directory.path().join("control.sock"));
        let log = directory.path().join("log");
        std::fs::write(&policy, rule("")).expect("a policy");
        let mut daemon = logged(&policy, &socket, &log);
        let allowed = || Session::connect(&socket).ok()?.limits().ok().map(|limits| limits.vnics[0]);
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        eventually("it listens", Duration::from_secs(20), || allowed() == Some(64));
        let unfit = format!("{}\n[uplink]\ninterface = \"nosuch\"\n", rule(""));
        for count in 1..=10_u32 {
            let wanted = rule("").replace("vnics = 64", &format!("vnics = {count}"));
            std::fs::write(&policy, wanted).expect("a policy");
            // It answers before it says that it has started.
            let times = |event: &str| said().matches(event).count();
            eventually("it has started", Duration::from_secs(20), || times("event=daemon-start") == count as usize);
            drop(Program::new("kill").arguments(["-HUP", &daemon.id().to_string()]).succeeds());
            // It has read the file and ends, or will.
            eventually("it starts anew", Duration::from_secs(20), || times("event=daemon-end") == count as usize);
            std::fs::write(&policy, if count % 2 == 0 { "[[rule]\n" } else { unfit.as_str() }).expect("a policy");
            eventually("the policy that was good rules", Duration::from_secs(20), || allowed() == Some(count));
            assert!(daemon.is_running(), "{}", said());
        }
        // As such a successor is started: what its predecessor read is in a file that it inherits.
        drop(daemon);
        std::fs::write(&policy, "[[rule]\n").expect("a policy");
        let kept = serde_json::json!([policy, rule("").replace("vnics = 64", "vnics = 33")]).to_string();
        let file = rustix::fs::memfd_create("kept", rustix::fs::MemfdFlags::empty()).expect("a memory file");
        rustix::io::write(&file, kept.as_bytes()).expect("written");
        let number = std::os::fd::AsRawFd::as_raw_fd(&file).to_string();
        let _heir = logged_with(&policy, &socket, &log, &number);
        eventually("the policy that was good rules", Duration::from_secs(20), || allowed() == Some(33));
        let is_told = |line: &str| line.contains("event=reload result=refused") && line.contains("stays as it was");
        assert!(said().lines().any(is_told), "{}", said());
    });
}

/// What the next daemon could not start with is refused: the one that is there goes on, with its cards.
#[test]
fn a_reload_that_could_not_start_is_refused() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (policy, socket) = (directory.path().join("policy"), directory.path().join("control.sock"));
        let log = directory.path().join("log");
        std::fs::write(&policy, rule("")).expect("a policy");
        let mut daemon = logged(&policy, &socket, &log);
        let session = || Session::connect(&socket);
        let listens = || session().and_then(|session| session.limits()).is_ok();
        eventually("it listens", Duration::from_secs(20), listens);
        let vnic = session().expect("a session").create_vnic(wish(2, &["udp/7"])).expect("a VNIC");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let metrics = format!("metrics = \"{}\"\n", taken.local_addr().expect("its name"));
        for (head, said) in [("", "uplink nosuch: "), (metrics.as_str(), "metrics at 127.0.0.1:")] {
            let tail = if head.is_empty() { "\n[uplink]\ninterface = \"nosuch\"\n" } else { "" };
            std::fs::write(&policy, format!("{head}{}{tail}", rule(""))).expect("a policy");
            drop(Program::new("kill").arguments(["-HUP", &daemon.id().to_string()]).succeeds());
            let is_told = || {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                text.lines().any(|line| line.contains("event=reload result=refused") && line.contains(said))
            };
            eventually(said, Duration::from_secs(20), is_told);
            assert!(daemon.is_running() && listens());
            assert_eq!(session().expect("a session").status().expect("a status").vnics.len(), 1);
            let check = Program::new(qanat()).arguments(["up", "--check", "--config"]).arguments([&policy]).run();
            assert_eq!(check.code.is_some_and(|code| code != 0), head.is_empty(), "{}", check.stderr);
        }
        drop((vnic, taken));
    });
}

#[test]
fn a_small_site_is_served_with_little_memory() {
    scenario(|| {
        let control = Control::start(&rule("memory_mib = 64"));
        let server = run(&control.socket, &["web", &workspace().join("site").display().to_string()]).start();
        eventually("it serves", Duration::from_secs(20), || page().contains("It flows."));
        let held = control.session().limits().expect("the limits").memory_bytes[1];
        assert!(held <= 48 << 20, "{held} bytes of frame memory");
        kill_group(server);
    });
}
