//! `qanat dns` as its users run it: over veth, asked by `dig` and `kdig`, by UDP and TCP, over IPv4 and IPv6.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Outcome, Program, Running, directory_for_anybody, eventually, qanat, scenario, unfolded};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

const SERVER: &str = "10.77.0.2";
const SERVER_6: &str = "fd77::2";
const GRACE: Duration = Duration::from_secs(15);
const ZONE: &str = "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS ns\nns A 10.77.0.2\nwww A 192.0.2.1\nalias CNAME www\n\
                    *.wild TXT star\nsub NS ns.sub\nns.sub A 192.0.2.2\n$GENERATE 1-200 many A 192.0.2.$\n";

struct Server {
    running: Running,
    directory: tempfile::TempDir,
}

impl Server {
    fn start(config: &str, more: &[&str]) -> Server {
        Server::start_zone(config, "", more)
    }

    /// `zone`: more lines of the zone's table.
    fn start_zone(config: &str, zone: &str, more: &[&str]) -> Server {
        let directory = directory_for_anybody();
        fs::write(directory.path().join("zone"), ZONE).expect("a file");
        let text = format!("{config}\n[[zone]]\nname = \"example.test\"\nfile = \"zone\"\n{zone}\n");
        fs::write(directory.path().join("dns.toml"), text).expect("a file");
        let config = directory.path().join("dns.toml");
        let words = ["dns", "--json", "--also", "fd77::2/64", "--config", config.to_str().expect("a path")];
        let running = Program::new(qanat()).arguments(words).arguments(more).start();
        let server = Server { running, directory };
        eventually("an answer", GRACE, || {
            dig(&["+tries=1", "+time=1", "+short", "www.example.test"]).text().trim() == "192.0.2.1"
        });
        server
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.running.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(id, signal).expect("a signal");
    }

    fn stop(self) -> (Value, String) {
        let group = i32::try_from(self.running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, Signal::INT).expect("Ctrl-C");
        let outcome = self.running.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}\n{}{}", outcome.line, outcome.text(), outcome.stderr);
        let text = outcome.text();
        let last = text.lines().last().unwrap_or_default();
        (serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}")), outcome.stderr)
    }
}

fn dig(words: &[&str]) -> Outcome {
    Program::new("dig").arguments([&format!("@{SERVER}")]).arguments(words).run()
}

/// Whether what `dig` shows has all of these in it.
fn shows(words: &[&str], expected: &[&str]) {
    let outcome = dig(words);
    let text = outcome.text();
    for part in expected {
        assert!(text.contains(part), "{words:?} lacks `{part}`: {text}{}", outcome.stderr);
    }
}

#[test]
fn dig_and_kdig_get_answers() {
    scenario(|| {
        let server = Server::start("identity = \"here\"\nversion = \"qanat\"", &[]);
        shows(&["www.example.test"], &["status: NOERROR", "flags: qr aa rd", "192.0.2.1", "COOKIE", "(good)"]);
        shows(&["alias.example.test"], &["CNAME\twww.example.test.", "192.0.2.1"]);
        shows(&["nothing.example.test"], &["status: NXDOMAIN", "SOA"]);
        shows(&["a.b.sub.example.test"], &["NS\tns.sub.example.test.", "192.0.2.2", "AUTHORITY: 1"]);
        shows(&["x.wild.example.test", "TXT"], &["\"star\""]);
        shows(&["elsewhere.test"], &["status: REFUSED"]);
        shows(&["+nsid", "www.example.test"], &["NSID: 68 65 72 65"]);
        shows(&["+edns=1", "+noednsneg", "www.example.test"], &["status: BADVERS"]);
        shows(&["ch", "txt", "version.bind"], &["\"qanat\""]);
        shows(&["+opcode=status", "www.example.test"], &["status: NOTIMP"]);
        // Too large for a datagram: by TCP at once, or after TC.
        shows(&["+ignore", "many.example.test"], &["flags: qr aa tc"]);
        shows(&["many.example.test"], &["Truncated, retrying in TCP mode", "ANSWER: 200", "192.0.2.200"]);
        shows(&["+tcp", "+keepopen", "www.example.test", "alias.example.test"], &["192.0.2.1", "CNAME"]);
        let six = Program::new("kdig").arguments([&format!("@{SERVER_6}"), "+short", "www.example.test"]).run();
        assert_eq!(six.text().trim(), "192.0.2.1", "{}", six.stderr);
        let six = Program::new("kdig").arguments([&format!("@{SERVER_6}"), "+tcp", "+short", "www.example.test"]).run();
        assert_eq!(six.text().trim(), "192.0.2.1", "{}", six.stderr);
        let (report, _) = server.stop();
        let figures = &report["dns"];
        assert!(figures["rcodes"]["NXDOMAIN"].as_u64() >= Some(1), "{report}");
        assert!(figures["rcodes"]["BADVERS"].as_u64() == Some(1), "{report}");
        assert!(figures["connections"].as_u64() >= Some(3), "{report}");
        assert_eq!(figures["connections_open"].as_u64(), Some(0), "{report}");
    });
}

fn question(name: &[u8]) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name);
    message.extend_from_slice(&[0, 1, 0, 1]);
    message
}

const WWW: &[u8] = b"\x03www\x07example\x04test\0";
const MANY: &[u8] = b"\x04many\x07example\x04test\0";

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn read_message(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).expect("a message");
    message
}

fn connect() -> TcpStream {
    let stream = TcpStream::connect((SERVER, 53)).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    stream
}

#[test]
fn streams_are_pipelined_bounded_and_ended() {
    scenario(|| {
        let server = Server::start("[tcp]\nidle_timeout_s = 3\nconnections_max = 8", &[]);
        // Many questions in one write, some cut anywhere: as many answers, in order.
        let mut stream = connect();
        let mut writer = stream.try_clone().expect("its other half");
        let sending = std::thread::spawn(move || {
            let all: Vec<u8> = (0..500u16)
                .flat_map(|id| {
                    let mut message = question(if id % 2 == 0 { WWW } else { MANY });
                    message[..2].copy_from_slice(&id.to_be_bytes());
                    framed(&message)
                })
                .collect();
            for part in all.chunks(701) {
                writer.write_all(part).expect("writing");
            }
            writer.shutdown(std::net::Shutdown::Write).expect("closing");
        });
        std::thread::sleep(Duration::from_millis(100));
        for id in 0..500u16 {
            let message = read_message(&mut stream);
            assert_eq!(message[..2], id.to_be_bytes());
            assert_eq!(message[7], if id % 2 == 0 { 1 } else { 200 });
        }
        sending.join().expect("the writer");
        assert_eq!(stream.read(&mut [0]).expect("the end"), 0, "closed after the last answer");
        // Nonsense ends a connection.
        let mut stream = connect();
        stream.write_all(&framed(&[1, 2, 3])).expect("writing");
        assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "no answer to that");
        // So does one whose request comes byte by byte for ever.
        let mut stream = connect();
        let ends = |stream: &mut TcpStream| {
            stream.write_all(&[0]).is_err() || matches!(stream.read(&mut [0]), Ok(0)) || {
                stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
                false
            }
        };
        stream.write_all(&[1]).expect("writing");
        stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
        assert!((0..250).any(|_| ends(&mut stream)), "a request of 50 s");
        // Unused ones end too, and there are not too many: the last of more than eight is reset, before or after it looks open.
        let mut idle = Vec::new();
        let refused = (0..12).any(|_| match TcpStream::connect((SERVER, 53)) {
            Err(_) => true,
            Ok(mut stream) => {
                stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
                let ended = stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
                stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
                if !ended {
                    idle.push(stream);
                }
                ended
            }
        });
        assert!(refused && idle.len() <= 8, "{} are open", idle.len());
        for stream in &mut idle {
            assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
        }
        let (report, _) = server.stop();
        assert!(report["dns"]["connections_refused"].as_u64() >= Some(1), "{report}");
        assert!(report["dns"]["connections_timed_out"].as_u64() >= Some(1), "{report}");
        assert_eq!(report["dns"]["connections_broken"].as_u64(), Some(1), "{report}");
    });
}

/// Asks from a port of its own; the answer.
fn ask(message: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    socket.send_to(message, (SERVER, 53)).expect("sending");
    let mut bytes = vec![0; 1_500];
    let length = socket.recv(&mut bytes).expect("an answer");
    bytes.truncate(length);
    bytes
}

#[test]
fn queues_are_one_server() {
    scenario(|| {
        let zone = "allow_transfer = [\"10.77.0.0/24\"]\nalso_notify = [\"10.77.0.1:5399\"]";
        let told = UdpSocket::bind("0.0.0.0:5399").expect("a socket");
        told.set_read_timeout(Some(GRACE)).expect("a timeout");
        let server = Server::start_zone("metrics = \"127.0.0.1:9154\"", zone, &["--queues", "2"]);
        let address_of = |answer: &[u8]| answer.last_chunk::<4>().copied();
        // The ports' hashes choose the queue: of 200 all going to one there is no chance.
        for _ in 0..200 {
            let answer = ask(&question(WWW));
            assert_eq!((answer[3] & 15, answer[7], address_of(&answer)), (0, 1, Some([192, 0, 2, 1])), "{answer:?}");
        }
        for _ in 0..30 {
            // A NOTIFY from no primary: NOTAUTH.
            let mut notify = question(WWW);
            notify[2] = 0x20;
            assert_eq!(ask(&notify)[2..4], [0xa0, 9]);
            let mut stream = connect();
            stream.write_all(&framed(&question(MANY))).expect("writing");
            assert_eq!(read_message(&mut stream)[7], 200);
        }
        for _ in 0..10 {
            shows(&["axfr", "example.test"], &["XFR size: 209 records"]);
        }
        // All tell what they are at, and have done so when they answer from the new zone.
        server.signal(Signal::USR1);
        // All take the new zone, and one tells of it.
        fs::write(server.file("zone"), ZONE.replace("192.0.2.1\n", "192.0.2.77\n").replace("host 1", "host 2"))
            .expect("a file");
        server.signal(Signal::HUP);
        let mut bytes = [0; 512];
        let (length, from) = loop {
            let (length, from) = told.recv_from(&mut bytes).expect("a NOTIFY");
            if bytes[2] & 0x78 == 0x20 {
                break (length, from);
            }
        };
        bytes[2] |= 0x80;
        told.send_to(&bytes[..length], from).expect("sending");
        eventually("the new zone", GRACE, || address_of(&ask(&question(WWW))) == Some([192, 0, 2, 77]));
        eventually("the new zone at every queue", GRACE, || {
            (0..40).all(|_| address_of(&ask(&question(WWW))) == Some([192, 0, 2, 77]))
        });
        eventually("all figures", GRACE, || {
            let text = http_get("127.0.0.1:9154");
            let count = text.lines().find_map(|line| line.strip_prefix("qanat_dns_answers_total{rcode=\"NOERROR\"} "));
            count.and_then(|count| count.parse::<u64>().ok()) >= Some(272)
        });
        let (report, stderr) = server.stop();
        let queues = report["queues"].as_array().expect("figures by queue");
        let of = |figures: &Value, what: &str| figures[what].as_u64().expect("a count");
        for what in ["requests", "answers", "answer_bytes", "connections"] {
            let each: Vec<u64> = queues.iter().map(|figures| of(figures, what)).collect();
            assert!(each.len() == 2 && each.iter().all(|count| *count > 0), "{what}: {report}");
            assert_eq!(each.iter().sum::<u64>(), of(&report["dns"], what), "{what}: {report}");
        }
        assert_eq!(of(&report["dns"]["rcodes"], "NOTAUTH"), 30, "{report}");
        assert_eq!(of(&report["transfers"], "whole_out"), 10, "{report}");
        assert_eq!(of(&report["transfers"], "notify_refused"), 30, "{report}");
        assert!(stderr.contains("queue 0:\n") && stderr.contains("queue 1:\n"), "{stderr}");
    });
}

#[test]
fn queues_that_cannot_be_are_refused() {
    scenario(|| {
        let directory = directory_for_anybody();
        let config = directory.path().join("dns.toml");
        fs::write(&config, "[[zone]]\nname = \"example.test\"\nprimary = [\"10.77.0.1\"]\n").expect("a file");
        let outcome = Program::new(qanat()).arguments(["dns", "--queues", "2", "--config"]).arguments([&config]).run();
        assert!(outcome.code == Some(1) && outcome.stderr.contains("leave out --queues"), "{outcome:?}");
    });
}

fn http_get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the metrics");
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("writing");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("reading");
    text
}

#[test]
fn reloads_limits_log_and_figures() {
    scenario(|| {
        let config =
            "metrics = \"127.0.0.1:9153\"\n[rate_limit]\nanswers_per_s = 50\n[log]\nfile = \"log\"\nsample_every = 2";
        let server = Server::start(config, &[]);
        // A reload that fails changes nothing; one that does not is seen, and nothing is lost meanwhile.
        fs::write(server.file("zone"), "nonsense\n").expect("a file");
        server.signal(Signal::HUP);
        eventually("the broken zone is told of", GRACE, || {
            http_get("127.0.0.1:9153").contains("qanat_dns_zone_broken{zone=\"example.test.\"} 1")
        });
        shows(&["+short", "www.example.test"], &["192.0.2.1"]);
        fs::write(server.file("zone"), ZONE.replace("192.0.2.1\n", "192.0.2.77\n").replace("host 1", "host 2"))
            .expect("a file");
        server.signal(Signal::HUP);
        eventually("the new zone", GRACE, || dig(&["+short", "www.example.test"]).text().trim() == "192.0.2.77");
        // The report is made when the server next looks at its figures, as it must for those of the flood that follows.
        server.signal(Signal::USR1);
        // A flood of equal questions without cookies is limited; some are told to come by TCP.
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let (mut whole, mut cut) = (0, 0);
        let mut take = || {
            let mut bytes = [0; 512];
            while let Ok(length) = socket.recv(&mut bytes) {
                *(if bytes[2] & 2 == 0 { &mut whole } else { &mut cut }) += 1;
                assert!(length >= 33);
            }
        };
        // Slow enough for the server to wake: a socket holds some fifty of such datagrams at a time.
        socket.set_nonblocking(true).expect("a socket");
        for _ in 0..300 {
            socket.send_to(&question(WWW), (SERVER, 53)).expect("sending");
            std::thread::sleep(Duration::from_micros(200));
            take();
        }
        socket.set_nonblocking(false).expect("a socket");
        take();
        assert!((40..150).contains(&whole) && cut > 20 && whole + cut < 300, "{whole} whole, {cut} cut");
        // Whoever has a cookie is not.
        shows(&["www.example.test"], &["192.0.2.77"]);
        eventually("figures", GRACE, || {
            http_get("127.0.0.1:9153").contains("qanat_dns_zone_serial{zone=\"example.test.\"} 2")
        });
        eventually("counts", GRACE, || {
            let text = http_get("127.0.0.1:9153");
            let slipped = text.lines().find_map(|line| line.strip_prefix("qanat_dns_slipped_total "));
            // Others too: a client that has no valid cookie yet is one of the flood.
            slipped.and_then(|count| count.parse::<u64>().ok()).is_some_and(|count| count >= cut)
        });
        let log = server.file("log");
        let copy = Path::new(server.directory.path()).join("copy");
        eventually("the log", GRACE, || fs::read_to_string(&log).is_ok_and(|text| text.lines().count() > 10));
        fs::copy(&log, &copy).expect("a copy");
        let text = fs::read_to_string(&copy).expect("the log");
        let line: Value = serde_json::from_str(text.lines().nth(3).unwrap_or_default()).expect("JSON");
        assert_eq!((line["type"].as_str(), line["transport"].as_str()), (Some("A"), Some("udp")), "{line}");
        let (report, stderr) = server.stop();
        assert!(report["dns"]["limited"].as_u64() > Some(0), "{report}");
        assert!(
            stderr.contains("serial 1 stays:")
                && stderr.contains("zone:1: error: ")
                && stderr.contains("serial 1 became 2"),
            "{stderr}"
        );
        assert!(stderr.contains("qanat_dns_queries_total"), "{stderr}");
    });
}

/// `qanat dns ORDER…` to the server whose socket is in `directory`: exit code, and what it says.
fn order(directory: &Path, words: &[&str]) -> (i32, String) {
    let socket = directory.join("control.sock");
    let outcome =
        Program::new(qanat()).arguments(["dns"]).arguments(words).arguments(["--control"]).arguments([&socket]);
    let outcome = outcome.run();
    (outcome.code.unwrap_or(-1), outcome.text() + &outcome.stderr)
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).expect("a file");
}

fn zone(serial: u32) -> String {
    format!("$TTL 60\n@ SOA ns host {serial} 2 3 4 30\n@ NS ns\nns A 10.77.0.2\nwww A 192.0.2.{serial}\n")
}

/// One zone that cannot be used is told of, with its place, and all others are served: when the server starts, and later.
#[test]
fn a_broken_zone_harms_no_other() {
    scenario(|| {
        let directory = directory_for_anybody();
        let at = directory.path();
        write(at, "good", &zone(1));
        write(at, "broken", "$TTL 60\n@ SOA ns host 1 2 3 4 30\nwww A nonsense\n");
        let zones = "[[zone]]\nname = \"good.test\"\nfile = \"good\"\n[[zone]]\nname = \"broken.test\"\nfile = \"broken\"\n\
                     [[zone]]\nname = \"endless.test\"\nfile = \"/dev/zero\"\n";
        write(at, "dns.toml", &format!("control = \"control.sock\"\nmetrics = \"127.0.0.1:9153\"\n{zones}"));
        let running =
            Program::new(qanat()).arguments(["dns", "--json", "--config"]).arguments([at.join("dns.toml")]).start();
        let is = |name: &str, expected: &str| dig(&["+tries=1", "+time=1", name]).text().contains(expected);
        eventually("the good zone", GRACE, || is("www.good.test", "192.0.2.1"));
        assert!(is("www.broken.test", "status: SERVFAIL") && is("x.endless.test", "status: SERVFAIL"));
        let (code, text) = order(at, &["status"]);
        assert!(code == 0 && text.contains("good.test. serving, serial 1, 4 records"), "{text}");
        assert!(text.contains("broken.test. broken\n") && text.contains("broken:3: error: A: "), "{text}");
        let (code, text) = order(at, &["status", "broken.test", "--json"]);
        let value: Value = serde_json::from_str(text.lines().next().unwrap_or_default()).expect("JSON");
        assert_eq!((code, value["zones"][0]["state"].as_str()), (1, Some("broken")), "{text}");
        assert!(http_get("127.0.0.1:9153").contains("qanat_dns_zone_broken{zone=\"broken.test.\"} 1"));
        // Mended, it is served; then the other is broken, and stays as it was.
        write(at, "broken", &zone(7));
        let (code, text) = order(at, &["reload", "Broken.Test"]);
        assert!(code == 0 && text.contains("broken.test.: new, serial 7"), "{text}");
        assert!(is("www.broken.test", "192.0.2.7"));
        write(at, "good", "nonsense\n");
        let (code, text) = order(at, &["reload"]);
        let text = unfolded(&text);
        assert!(code == 1 && text.contains("good.test.: cannot be used, serial 1 stays: "), "{text}");
        assert!(text.contains("1 as they were, 2 that cannot be used"), "{text}");
        assert!(is("www.good.test", "192.0.2.1") && is("www.broken.test", "192.0.2.7"));
        assert!(order(at, &["status"]).1.contains("good.test. serving an older version, serial 1"));
        for (words, part) in [
            (["reload", "none.test"], "there is no zone none.test."),
            (["refresh", "good.test"], "comes from no primary"),
            (["status", "none.test"], "there is no zone none.test."),
        ] {
            let (code, text) = order(at, &words);
            assert!(code == 1 && text.contains(part), "{words:?}: {text}");
        }
        let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, Signal::INT).expect("Ctrl-C");
        let outcome = running.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        for part in ["the zone broken.test. cannot be used", "broken:3: error: ", "it is a device"] {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
        assert!(!at.join("control.sock").exists(), "the socket goes with its server");
        // With nothing to serve there is no server.
        write(at, "broken", "nonsense\n");
        let outcome = Program::new(qanat()).arguments(["dns", "--config"]).arguments([at.join("dns.toml")]).run();
        assert!(outcome.code == Some(1) && outcome.stderr.contains("broken:1: error: "), "{outcome:?}");
    });
}

/// Zones are added and removed by SIGHUP, by templates and in files of their own; a configuration that is wrong changes nothing.
#[test]
fn zones_come_and_go() {
    scenario(|| {
        let directory = directory_for_anybody();
        let at = directory.path();
        fs::create_dir(at.join("zones.d")).expect("a directory");
        for (name, serial) in [("a.test", 1), ("b.test", 2), ("c.test", 3)] {
            write(at, &format!("{name}.zone"), &zone(serial));
        }
        let head = "control = \"control.sock\"\ninclude = [\"zones.d\"]\n[[template]]\nname = \"default\"\nfile = \"%s.zone\"\n";
        write(at, "dns.toml", &format!("{head}[[zone]]\nname = \"a.test\"\n"));
        write(at, "zones.d/b.toml", "[[zone]]\nname = \"b.test\"\n");
        let running =
            Program::new(qanat()).arguments(["dns", "--json", "--config"]).arguments([at.join("dns.toml")]).start();
        let is = |name: &str, expected: &str| dig(&["+tries=1", "+time=1", name]).text().contains(expected);
        eventually("the zones", GRACE, || is("www.a.test", "192.0.2.1") && is("www.b.test", "192.0.2.2"));
        assert!(is("www.c.test", "status: REFUSED"));
        let id = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
        write(at, "zones.d/c.toml", "[[zone]]\nname = \"c.test\"\n");
        fs::remove_file(at.join("zones.d/b.toml")).expect("a file");
        kill_process(id, Signal::HUP).expect("a signal");
        eventually("the new zone", GRACE, || is("www.c.test", "192.0.2.3"));
        eventually("the end of the other", GRACE, || is("www.b.test", "status: REFUSED"));
        assert!(is("www.a.test", "192.0.2.1"));
        let wrong = [
            ("[[zone]]\nname = \"d.test\"\ntemplate = \"none\"\n", "no [[template]]"),
            ("[[zone]]\nname = \"d.test\"\nprimary = [\"10.77.0.1\"]\n", "restart it"),
        ];
        for (text, part) in wrong {
            write(at, "zones.d/d.toml", text);
            let (code, text) = order(at, &["reload"]);
            assert!(code == 1 && text.contains(part), "{text}");
            assert!(is("www.a.test", "192.0.2.1") && is("www.c.test", "192.0.2.3") && is("d.test", "status: REFUSED"));
        }
        fs::remove_file(at.join("zones.d/d.toml")).expect("a file");
        write(at, "dns.toml", &format!("identity = \"x\"\n{head}[[zone]]\nname = \"a.test\"\n"));
        let (code, text) = order(at, &["reload"]);
        assert!(code == 0 && text.contains("0 new, 0 changed, 0 removed, 2 as they were"), "{text}");
        let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, Signal::INT).expect("Ctrl-C");
        let outcome = running.wait(GRACE);
        for part in
            ["b.test.: removed, with serial 2", "c.test.: new, serial 3, 4 records", "restart the server for that"]
        {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
    });
}

/// What is asked for is in the log, however it is asked: signed, for a transfer, or by NOTIFY.
#[test]
fn the_log_has_every_question() {
    const SECRET: &str = "cXVpdGUgYSBsb25nIHNlY3JldCBmb3IgYSB0ZXN0";
    scenario(|| {
        let config = format!("[log]\nfile = \"log\"\nsample_every = 1\n[[key]]\nname = \"k\"\nsecret = \"{SECRET}\"\n");
        let server = Server::start_zone(&config, "allow_transfer = [\"10.77.0.0/24\"]", &[]);
        shows(&["AXFR", "example.test"], &["many.example.test"]);
        let key = format!("hmac-sha256:k:{SECRET}");
        shows(&["-y", &key, "alias.example.test", "CNAME"], &["www.example.test.", "TSIG"]);
        shows(&["+opcode=notify", "example.test", "SOA"], &["status: NOTAUTH"]);
        let log = server.file("log");
        let has = |name: &str, rtype: &str, opcode: u64| {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).any(|line| {
                line["name"].as_str() == Some(name)
                    && line["type"].as_str() == Some(rtype)
                    && line["opcode"].as_u64() == Some(opcode)
            })
        };
        for (name, rtype, opcode) in
            [("example.test.", "AXFR", 0), ("alias.example.test.", "CNAME", 0), ("example.test.", "SOA", 4)]
        {
            eventually(&format!("{name} {rtype} in the log"), GRACE, || has(name, rtype, opcode));
        }
        let (report, _) = server.stop();
        assert!(report["dns"]["answer_bytes"].as_u64() > Some(3_500), "the transfer's bytes: {report}");
    });
}

#[test]
fn check_names_places_and_remedies() {
    let directory = directory_for_anybody();
    let path = directory.path().join("zone");
    let path = path.to_str().expect("a path");
    let check = |more: &[&str]| Program::new(qanat()).arguments(["dns", "check", path]).arguments(more).run();
    fs::write(path, ZONE).expect("a file");
    let outcome = check(&[]);
    assert!(outcome.code == Some(1) && outcome.stderr.contains("--name"), "{outcome:?}");
    let outcome = check(&["--name", "example.test", "--json"]);
    let report: Value = serde_json::from_str(outcome.text().trim()).expect("JSON");
    assert_eq!(
        (outcome.code, report["names"].as_u64(), report["usable"].as_bool()),
        (Some(0), Some(9), Some(true)),
        "{report}"
    );
    fs::write(path, format!("{ZONE}a A 1.2.3\nb CNAME c\nb A 192.0.2.1\n")).expect("a file");
    let outcome = check(&["--name", "example.test"]);
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.text().contains("zone:11: error: A: "), "{outcome:?}");
}
