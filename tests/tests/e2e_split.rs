//! The split placement as its users run it: `--placement split`, `qanat net`, what is left when either side is killed.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{House, Outcome, Program, Relay, Running, directory_for_anybody, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(20);

fn start(arguments: &[&str]) -> Running {
    Program::new(qanat()).arguments(arguments).start()
}

fn process(number: u64) -> Pid {
    i32::try_from(number).ok().and_then(Pid::from_raw).expect("a process")
}

fn interrupt(running: Running) -> Outcome {
    kill_process_group(process(running.id().into()), Signal::INT).expect("Ctrl-C");
    let outcome = running.wait(GRACE);
    assert_eq!(outcome.code, Some(0), "{}\n{}{}", outcome.line, outcome.text(), outcome.stderr);
    outcome
}

/// What the site's file says, at `address`; empty: not served.
fn fetch(address: &str, name: &str) -> String {
    let url = format!("http://{address}/{name}");
    Program::new("curl").arguments(["--silent", "--max-time", "5", &url]).run().text()
}

fn net_cores() -> Vec<Value> {
    let outcome = Program::new(qanat()).arguments(["status", "--json"]).run();
    let status: Value = serde_json::from_str(outcome.text().trim()).unwrap_or_default();
    status["net_cores"].as_array().cloned().unwrap_or_default()
}

fn net_core_process() -> u64 {
    net_cores().first().and_then(|core| core["process"].as_u64()).unwrap_or(0)
}

fn site() -> tempfile::TempDir {
    let directory = directory_for_anybody();
    std::fs::write(directory.path().join("small"), "It flows.").expect("a file");
    let large: String = (0..300_000).map(|number| format!("{number:08}\n")).collect();
    std::fs::write(directory.path().join("large"), large).expect("a file");
    directory
}

fn text_of(site: &tempfile::TempDir, name: &str) -> String {
    std::fs::read_to_string(site.path().join(name)).expect("a file")
}

/// What `dig` is answered.
fn answers(words: &[&str]) -> String {
    Program::new("dig").arguments(["@10.77.0.2", "+tries=1", "+time=1"]).arguments(words).run().text()
}

fn zone() -> tempfile::TempDir {
    let directory = directory_for_anybody();
    let text = "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS ns\nns A 10.77.0.2\nwww A 192.0.2.1\n\
                $GENERATE 1-200 many A 192.0.2.$\n";
    std::fs::write(directory.path().join("zone"), text).expect("a file");
    directory
}

/// A datagram, and a stream of 300,000 bytes, there and back.
fn echoes() -> bool {
    let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    udp.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let mut bytes = [0; 2_048];
    let datagram = udp.send_to(&[7; 1_400], "10.77.0.2:7").is_ok() && matches!(udp.recv(&mut bytes), Ok(1_400));
    let sent: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    let Ok(mut stream) = TcpStream::connect("10.77.0.2:7") else { return false };
    let mut writer = stream.try_clone().expect("a descriptor");
    let (mut back, to_send) = (Vec::new(), sent.clone());
    let writing =
        std::thread::spawn(move || writer.write_all(&to_send).and_then(|()| writer.shutdown(Shutdown::Write)));
    let read = stream.read_to_end(&mut back).is_ok();
    datagram && writing.join().is_ok_and(|outcome| outcome.is_ok()) && read && back == sent
}

#[test]
fn every_service_is_the_same_in_both_placements() {
    scenario(|| {
        let (site, zone) = (site(), zone());
        let root = site.path().to_str().expect("a name");
        let zone = format!("example.test={}", zone.path().join("zone").display());
        for placement in ["linked", "split"] {
            let start = |words: &[&str]| start(&[words, &["--direct", "--placement", placement]].concat());
            let ended = |running, says: &str| {
                assert!(interrupt(running).text().contains(says), "{placement}: {says}");
                eventually("nothing is left", GRACE, || {
                    !Path::new("/sys/class/net/qanat0").exists() && net_cores().is_empty()
                });
            };
            let web = start(&["web", root]);
            eventually("it serves", GRACE, || fetch("10.77.0.2", "small") == "It flows.");
            assert_eq!(fetch("10.77.0.2", "large"), text_of(&site, "large"), "{placement}");
            ended(web, "Served ");
            let echo = start(&["echo"]);
            eventually("it echoes", GRACE, echoes);
            ended(echo, "Echoed ");
            let dns = start(&["dns", "--zone", &zone]);
            eventually("it answers", GRACE, || answers(&["+short", "www.example.test"]).trim() == "192.0.2.1");
            // By TCP, after TC.
            let many = answers(&["many.example.test"]);
            assert!(many.contains("retrying in TCP mode") && many.contains("ANSWER: 200"), "{placement}: {many}");
            assert!(answers(&["nothing.example.test"]).contains("NXDOMAIN"), "{placement}");
            ended(dns, "Answered ");
        }
    });
}

#[test]
fn a_net_core_that_is_killed_is_replaced_and_a_service_that_is_killed_leaves_nothing() {
    scenario(|| {
        let site = site();
        let root = site.path().to_str().expect("a name");
        let mut web = start(&["web", root, "--direct", "--placement", "split"]);
        eventually("it serves", GRACE, || fetch("10.77.0.2", "small") == "It flows.");
        let first = net_core_process();
        let status = std::fs::read_to_string(format!("/proc/{first}/status")).expect("the net core's status");
        for confined in
            ["Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"]
        {
            assert!(status.contains(confined), "{confined} in {status}");
        }
        kill_process(process(first), Signal::KILL).expect("a net core to kill");
        eventually("it serves again", GRACE, || fetch("10.77.0.2", "small") == "It flows.");
        assert!(web.is_running() && net_core_process() != first);
        kill_process(process(web.id().into()), Signal::KILL).expect("a service to kill");
        eventually("nothing is left", GRACE, || !Path::new("/sys/class/net/qanat0").exists() && net_cores().is_empty());
    });
}

/// A store is one process, and its clients may come by several net cores. All of them see the same keys, and the end of a net core ends
/// only connections.
#[test]
fn a_store_on_two_net_cores_is_one_store() {
    scenario(|| {
        let place = tempfile::tempdir().expect("a directory");
        let disk = place.path().join("kv.img").display().to_string();
        let words = ["kv", "--direct", "--disk", &disk, "--size", "64M", "--placement", "split", "--net-cores", "2"];
        let ask = |address: &str, words: &[&str]| {
            let outcome = Program::new("redis-cli").arguments(["-h", address]).arguments(words).run();
            outcome.text().trim().to_owned()
        };
        let (one, other) = ("10.77.0.2", "10.78.0.2");
        let has = |value: &str| {
            for address in [one, other] {
                eventually("it answers on each", GRACE, || ask(address, &["get", "word"]) == value);
            }
        };
        let mut store = start(&[&words[..], &["--also", "10.78.0.2/24"]].concat());
        for address in [one, other] {
            eventually("it is on each", GRACE, || ask(address, &["ping"]) == "PONG");
        }
        assert_eq!(ask(one, &["set", "word", "kept"]), "OK");
        has("kept");
        let waiting = Program::new("redis-cli").arguments(["-h", other, "blpop", "queue", "0"]).start();
        eventually("it waits", GRACE, || ask(one, &["info", "clients"]).contains("blocked_clients:1"));
        assert_eq!(ask(one, &["rpush", "queue", "item"]), "1");
        assert_eq!(waiting.wait(GRACE).text().trim(), "queue\nitem");

        kill_process(process(net_core_process()), Signal::KILL).expect("a net core to kill");
        has("kept");
        assert!(store.is_running());
        kill_process(process(store.id().into()), Signal::KILL).expect("a store to kill");
        drop(store);
        let store = start(&[&words[..], &["--also", "10.78.0.2/24"]].concat());
        has("kept");
        interrupt(store);

        let refused = Program::new(qanat()).arguments(["kv", "--disk", &disk, "--app-cores", "2"]).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("--net-cores"), "{refused:?}");
    });
}

#[test]
fn a_net_core_serves_several_and_outlives_them() {
    scenario(|| {
        let (site, place) = (site(), directory_for_anybody());
        let root = site.path().to_str().expect("a name");
        let socket = place.path().join("qanat-net.sock");
        let name = socket.to_str().expect("a name");
        let mut net = start(&["net", "--direct", "--socket", name, "--card", "10.78.0.2/24"]);
        eventually("it listens", GRACE, || !net_cores().is_empty());
        let web = start(&["web", root, "--net", name, "--address", "10.78.0.2/24"]);
        let echo = start(&["echo", "--net", name]);
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        udp.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        let returns = || {
            let mut bytes = [0; 2_048];
            udp.send_to(&[7; 1_400], "10.77.0.2:7").is_ok()
                && matches!(udp.recv(&mut bytes), Ok(1_400))
                && bytes[..1_400] == [7; 1_400]
        };
        eventually("both serve", GRACE, || fetch("10.78.0.2", "small") == "It flows." && returns());
        let status = Program::new(qanat()).arguments(["status", "--net", name]).succeeds().text();
        assert!(status.contains("\"web\"") && status.contains("\"echo\"") && status.contains("confined"), "{status}");
        // There is no third card.
        let refused = Program::new(qanat()).arguments(["echo", "--net", name]).run();
        assert!(refused.code == Some(1) && refused.stderr.contains("every such card"), "{refused:?}");
        // The worker dies: both come back, on another.
        kill_process(process(net_core_process()), Signal::KILL).expect("a net core to kill");
        eventually("both serve again", GRACE, || fetch("10.78.0.2", "small") == "It flows." && returns());
        assert_eq!(fetch("10.78.0.2", "large"), text_of(&site, "large"));
        // One goes, the other stays.
        kill_process(process(echo.id().into()), Signal::KILL).expect("a service to kill");
        assert_eq!(fetch("10.78.0.2", "large"), text_of(&site, "large"));
        let another = start(&["echo", "--net", name]);
        eventually("its card is free for the next", GRACE, returns);
        drop(another);
        interrupt(web);
        assert!(net.is_running());
        interrupt(net);
        assert!(!socket.exists(), "the socket is removed");
    });
}

/// By hand, on a processor, with a card that was made before.
#[test]
fn a_net_core_with_a_card_of_the_daemons() {
    scenario(|| {
        let (site, directory) = (site(), directory_for_anybody());
        let socket = |name: &str| directory.path().join(name).display().to_string();
        let (control, net) = (socket("control.sock"), socket("net.sock"));
        let with_daemon = |words: &[&str]| Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", &control);
        let daemon = start(&["up", "--socket", &control]);
        eventually("the daemon listens", GRACE, || Path::new(&control).exists());
        with_daemon(&["vnic", "create", "mine", "--address", "10.77.0.9/24", "--service", "tcp/80"]).succeeds();
        let core = with_daemon(&["net", "--cores", "0", "--vnic", "0", "--socket", &net]).start();
        eventually("the net core listens", GRACE, || Path::new(&net).exists());
        let web = start(&["web", &site.path().display().to_string(), "--net", &net]);
        eventually("it is served", GRACE, || fetch("10.77.0.9", "small") == "It flows.");
        interrupt(web);
        interrupt(core);
        interrupt(daemon);
        let several = Program::new(qanat()).arguments(["net", "--cores", "0-1"]).run();
        assert!(several.code == Some(2) && several.stderr.contains("[net] cores"), "{}", several.stderr);
    });
}

/// A program that has bound a port, and then waits.
const BOUND: &str =
    "import socket, time\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('', 7))\ntime.sleep(600)";

/// What the one card with an open queue may send. Nothing: there is none.
fn sends(house: &House) -> Option<String> {
    let cards = house.status()["vnics"].as_array().cloned().unwrap_or_default();
    let card = cards.into_iter().find(|card| card["queues_open"].as_u64() > Some(0))?;
    Some(card["transmit"]["filters"].to_string())
}

/// A daemon that leaves a request unanswered, whichever it is, because it ends just then or takes too long: the card sends all that its user
/// may send, or there is none and a reason is given.
#[test]
fn a_lost_answer_makes_no_lesser_card() {
    scenario(|| {
        let (house, directory) = (House::new(""), directory_for_anybody());
        let path = |name: &str| directory.path().join(name).display().to_string();
        let (between, net) = (path("between.sock"), path("net.sock"));
        let by_hand: &[&str] = &["net", "--address", "10.77.0.10/24", "--socket", &net];
        let run: &[&str] = &["run", "--address", "10.77.0.10/24", "--", "python3", "-c", BOUND];
        for words in [by_hand, run] {
            // What is sent when all is answered, and how many requests that takes.
            let attempt = |lost: usize| {
                let relay = Relay::new(Path::new(&between), house.socket(), lost);
                let mut program = Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", &between).start();
                let mut card = None;
                eventually("a card, or an end", GRACE, || {
                    card = sends(&house);
                    card.is_some() || !program.is_running()
                });
                drop(program);
                let is_empty = || house.status()["vnics"].as_array().is_some_and(Vec::is_empty);
                eventually("no card is left", GRACE, is_empty);
                (card, relay.requests())
            };
            let (whole, requests) = attempt(usize::MAX);
            assert!(whole.is_some() && requests > 1, "{words:?}: {whole:?} after {requests} requests");
            for lost in 0..requests {
                let (card, _) = attempt(lost);
                assert!(card.is_none() || card == whole, "{words:?} without request {lost}: {card:?}, not {whole:?}");
            }
        }
        house.end();
    });
}
