//! Starting, stopping, crashing; what is left; what is said when it can't be done.

use qanat_tests::e2e::{Client, Outcome, Pages, Program, Server, Wire, eventually, links, qanat, scenario};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

fn names() -> Vec<String> {
    links().iter().filter_map(|link| link["ifname"].as_str().map(str::to_owned)).collect()
}

/// The kernel removes a dead process's device within some 30 ms.
fn eventually_only_loopback(after: &str) {
    eventually(&format!("no interface left after {after}"), Duration::from_secs(2), || names() == ["lo"]);
}

fn refused(arguments: &[&str]) -> Outcome {
    let outcome = Program::new(qanat()).arguments(arguments).patience(Duration::from_secs(10)).run();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    assert!(outcome.stderr.starts_with("qanat: "), "{outcome:?}");
    assert!(!outcome.stderr.contains("panicked"), "{outcome:?}");
    outcome
}

#[test]
fn every_end_leaves_nothing_and_the_next_start_works_at_once() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "index");
        for signal in [Signal::INT, Signal::TERM] {
            let server = Server::start(&[pages.argument()]);
            assert!(names().contains(&"qanat0".to_owned()), "{:?}", names());
            server.signal(signal);
            let stopped = server.wait();
            assert_eq!(stopped.code, Some(0), "{signal:?}");
            eventually_only_loopback("a signal");
        }
        // Ends without a chance to clean up: the next server starts at once, with the same address and name.
        // (QUIT would do the same as XCPU, but is ignored, by inheritance, if the tests run in the background of a script.)
        for signal in [Signal::KILL, Signal::XCPU, Signal::ABORT, Signal::HUP, Signal::KILL] {
            let mut server = Server::start(&[pages.argument()]);
            let mut client = Client::connect(server.address()).expect("a connection");
            assert_eq!(client.get("/").expect("an answer").body, b"index", "before {signal:?}");
            server.signal(signal);
            if signal == Signal::HUP {
                assert_eq!(client.get("/").expect("an answer after HUP").body, b"index");
                assert!(server.is_running());
                server.kill();
            } else {
                eventually("it ends", Duration::from_secs(20), || !server.is_running());
            }
        }
        let server = Server::start(&[pages.argument()]);
        assert_eq!(server.stop().code, Some(0));
        eventually_only_loopback("crashes");
    });
}

#[test]
fn a_second_signal_ends_a_server_that_waits_for_a_download() {
    scenario(|| {
        let pages = Pages::new().with("large", Pages::pattern(20 << 20));
        let mut server = Server::start(&[pages.argument()]);
        let url = server.url("/large");
        let _slow = Program::new("curl").arguments(["-sS", "--limit-rate", "100K", "-o", "/dev/null", &url]).start();
        server.figures_when("the download has begun", |figures| figures["web"]["requests"] == 1);
        server.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(300));
        assert!(server.is_running(), "it waits for the download");
        let asked = Instant::now();
        server.signal(Signal::INT);
        eventually("a second Ctrl-C ends it", Duration::from_secs(2), || !server.is_running());
        println!("ended {:?} after the second signal", asked.elapsed());
        eventually_only_loopback("a hurried end");
    });
}

#[test]
fn several_servers_have_an_interface_each_and_none_steals_an_address() {
    scenario(|| {
        let (first, second) = (Pages::new().with("index.html", "first"), Pages::new().with("index.html", "second"));
        let one = Server::start(&[first.argument()]);
        let two = Server::start(&[second.argument(), "--address", "10.78.1.2/24"]);
        assert!(names().contains(&"qanat0".to_owned()) && names().contains(&"qanat1".to_owned()), "{:?}", names());
        for (server, body) in [(&one, b"first".as_slice()), (&two, b"second")] {
            let mut client = Client::connect(server.address()).expect("a connection");
            assert_eq!(client.get("/").expect("an answer").body, body);
        }
        let outcome = refused(&["web", second.argument()]);
        assert!(outcome.stderr.contains("10.77.0.1"), "names the address: {outcome:?}");
        assert!(outcome.stderr.contains("--address"), "says the remedy: {outcome:?}");
        assert_eq!(one.stop().code, Some(0));
        let mut client = Client::connect(two.address()).expect("the other goes on");
        assert_eq!(client.get("/").expect("an answer").body, b"second");
        drop(client);
        assert_eq!(two.stop().code, Some(0));
        eventually_only_loopback("both");
    });
}

#[test]
fn an_interface_that_is_there_keeps_the_kernels_traffic() {
    scenario(|| {
        let wire = Wire::new();
        let content = Pages::pattern(100_000);
        let pages = Pages::new().with("data", &content);
        // The address is the kernel's too: only port 80 is taken. A listener on another port plays sshd.
        let listener = TcpListener::bind((Wire::NEAR_ADDRESS, 2_222)).expect("a kernel socket");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                std::thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    while let Ok(count) = stream.read(&mut bytes) {
                        if count == 0 || stream.write_all(&bytes[..count]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let talk = |stream: &mut TcpStream| {
            let mut answer = [0; 5];
            stream.write_all(b"hello").and_then(|()| stream.read_exact(&mut answer)).expect("an echo");
            assert_eq!(&answer, b"hello");
        };
        let mut session = wire.far(|| TcpStream::connect((Wire::NEAR_ADDRESS, 2_222))).expect("a session before");
        session.set_read_timeout(Some(Duration::from_secs(3))).expect("a timeout");
        talk(&mut session);

        let address = format!("{}/24", Wire::NEAR_ADDRESS);
        let arguments = [pages.argument(), "--interface", Wire::NEAR, "--address", &address];
        let server = Server::start(&arguments);
        let url = server.url("/data");
        wire.far(|| {
            let curl = || Program::new("curl").arguments(["-sS", "--max-time", "10", &url]).succeeds();
            assert!(curl().stdout == content, "served at the shared address");
            talk(&mut session);
            let mut new = TcpStream::connect((Wire::NEAR_ADDRESS, 2_222)).expect("a new session");
            talk(&mut new);
            Program::new("ping").arguments(["-c", "2", "-i", "0.2", "-W", "2", Wire::NEAR_ADDRESS]).succeeds();
            assert!(curl().stdout == content, "and again");
        });

        // Somebody is at this interface already.
        let outcome = refused(&["web", pages.argument(), "--interface", Wire::NEAR, "--address", "10.78.9.50/24"]);
        assert!(outcome.stderr.contains(Wire::NEAR) && outcome.stderr.contains("is used by process"), "{outcome:?}");
        println!("occupied: {}", outcome.stderr.trim());
        wire.far(|| talk(&mut session));

        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        let bare = || links().iter().all(|link| link.get("xdp").is_none());
        assert!(bare(), "the program is off: {:?}", links());
        wire.far(|| talk(&mut session));
        // kill -9 takes the program off as well.
        let server = Server::start(&arguments);
        assert!(!bare(), "the program is on");
        server.kill();
        eventually("the program is off", Duration::from_secs(2), bare);
        wire.far(|| talk(&mut session));
    });
}

#[test]
fn an_address_of_our_own_on_an_interface_that_is_there() {
    scenario(|| {
        let wire = Wire::new();
        let pages = Pages::new().with("index.html", "index");
        let server = Server::start(&[pages.argument(), "--interface", Wire::NEAR, "--address", "10.78.9.7/24"]);
        wire.far(|| {
            let url = "http://10.78.9.7/";
            let text = Program::new("curl").arguments(["-sS", "--max-time", "10", url]).succeeds().text();
            assert_eq!(text, "index");
            for address in ["10.78.9.7", Wire::NEAR_ADDRESS] {
                Program::new("ping").arguments(["-c", "1", "-W", "2", address]).succeeds();
            }
        });
        assert_eq!(server.stop().code, Some(0));
    });
}

/// A namespace known to `ip netns`.
struct Named(String);

impl Named {
    fn new() -> Named {
        let name = format!("qanat-e2e-{}", std::process::id());
        Program::new("ip").arguments(["netns", "add", &name]).succeeds();
        Named(name)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        Program::new("ip").arguments(["netns", "delete", &self.0]).run();
    }
}

#[test]
fn a_named_namespace() {
    scenario(|| {
        let namespace = Named::new();
        let pages = Pages::new().with("index.html", "index");
        let server = Server::start(&[pages.argument(), "--netns", &namespace.0]);
        assert_eq!(names(), ["lo"], "the interface is in the other namespace");
        let curl = ["netns", "exec", &namespace.0, "curl", "-sS", "--max-time", "5", "http://10.77.0.2/"];
        assert_eq!(Program::new("ip").arguments(curl).succeeds().text(), "index");
        let load = ["load", "http", "http://10.77.0.2/", "--netns", &namespace.0, "-c", "4", "-d", "300ms"];
        Program::new(qanat()).arguments(load).succeeds();
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn what_cannot_be_done_is_said_with_its_remedy() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "index");
        let site = pages.argument();
        let cases: &[(&[&str], &[&str])] = &[
            (&["web", "/nonexistent"], &["/nonexistent", "directory"]),
            (&["web", site, "--interface", "nosuch0", "--address", "10.78.3.2/24"], &["nosuch0", "ip link"]),
            (&["web", site, "--netns", "nosuch"], &["nosuch", "ip netns list"]),
            (&["web", site, "--access-log", "/nonexistent/log"], &["/nonexistent/log", "directory"]),
            (&["web", site, "--host", "a.example=/nonexistent"], &["/nonexistent"]),
            (&["load", "http", "http://127.0.0.1/"], &["127.0.0.1", "--kernel"]),
            (&["load", "http", "ftp://127.0.0.1/"], &["ftp"]),
            (&["hello", "--capture", "/nonexistent/file"], &["/nonexistent/file", "--capture"]),
        ];
        for (arguments, words) in cases {
            let outcome = refused(arguments);
            for word in *words {
                assert!(outcome.stderr.contains(word), "{arguments:?} should speak of {word}: {}", outcome.stderr);
            }
        }
        for wrong in [
            &["web"][..],
            &["web", site, "--address", "10.0.0.1"],
            &["web", site, "--interface", "eth0"],
            &["web", site, "--port", "70000"],
            &["nonsense"],
        ] {
            let outcome = Program::new(qanat()).arguments(wrong).run();
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            assert!(outcome.stderr.contains("--help"), "{outcome:?}");
        }
        eventually_only_loopback("failures");
    });
}

/// A directory and a copy of the command that any user may use.
fn for_nobody() -> (Pages, String) {
    let pages = Pages::new().with("site/index.html", "index");
    let command = pages.file("qanat");
    std::fs::copy(qanat(), &command).expect("copying the command");
    for path in [pages.path(), &command] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("permissions");
    }
    let command = command.to_str().expect("a plain name").to_owned();
    (pages, command)
}

fn as_nobody(pages: &Pages, arguments: &[&str]) -> Outcome {
    let drop_all = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    Program::new("setpriv").arguments(drop_all).arguments(arguments).directory(pages.path()).run()
}

#[test]
fn without_root_the_answer_is_how_to_get_it() {
    scenario(|| {
        let (pages, command) = for_nobody();
        for arguments in [&["web", "site"][..], &["load", "http", "http://10.77.0.2/"], &["bench", "web", "--quick"]] {
            let line: Vec<&str> = std::iter::once(command.as_str()).chain(arguments.iter().copied()).collect();
            let outcome = as_nobody(&pages, &line);
            assert_eq!(outcome.code, Some(1), "{outcome:?}");
            println!("{arguments:?}: {}", outcome.stderr.trim());
            if arguments[0] != "load" {
                assert!(outcome.stderr.contains("root") || outcome.stderr.contains("sudo"), "{outcome:?}");
            }
        }
    });
}

#[test]
fn hello_needs_no_root_and_its_capture_is_one() {
    scenario(|| {
        let (pages, command) = for_nobody();
        let outcome = as_nobody(&pages, &[&command, "hello"]);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let text = outcome.text();
        for step in ["listens on", "accepted a connection", "It flows.", "connection over"] {
            assert!(text.contains(step), "{step}: {text}");
        }
        check_capture(&std::fs::read(pages.file("hello.pcap")).expect("the capture"));
        let json = as_nobody(&pages, &[&command, "hello", "--json"]);
        for line in json.text().lines() {
            assert!(
                serde_json::from_str::<serde_json::Value>(line).is_ok_and(|line| line["who"].is_string()),
                "{line}"
            );
        }
    });
}

/// A pcap file of Ethernet frames, each whole, with a TCP handshake at its start.
fn check_capture(bytes: &[u8]) {
    let word = |at: usize| -> u32 {
        let four: [u8; 4] = bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).expect("four bytes more");
        u32::from_le_bytes(four)
    };
    assert!(matches!(word(0), 0xa1b2_c3d4 | 0xa1b2_3c4d), "pcap's magic number: {:x}", word(0));
    assert_eq!(word(20), 1, "link type Ethernet");
    let (mut at, mut flags) = (24, Vec::new());
    while at < bytes.len() {
        let (captured, length) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(captured, length, "frames are captured whole");
        let frame = bytes.get(at + 16..at + 16 + captured).expect("a whole record");
        if frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&6) {
            flags.push(frame[47] & 0x17);
        }
        at += 16 + captured;
    }
    assert!(flags.len() >= 6, "handshake, request, answer, end: {flags:x?}");
    assert_eq!(&flags[..3], [0x02, 0x12, 0x10], "SYN, SYN and ACK, ACK");
    assert!(flags.iter().any(|flags| flags & 1 != 0), "a FIN");
}

#[test]
fn the_first_line_says_where_and_the_last_what_was_done() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "index");
        let mut server = Program::new(qanat()).arguments(["web", pages.argument()]).start();
        eventually("it serves", Duration::from_secs(5), || TcpStream::connect("10.77.0.2:80").is_ok());
        Program::new("curl").arguments(["-sS", "http://10.77.0.2/"]).succeeds();
        assert!(server.is_running());
        let process = i32::try_from(server.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        std::thread::sleep(Duration::from_millis(1_200));
        rustix::process::kill_process(process, Signal::INT).expect("a signal");
        let outcome = server.wait(Duration::from_secs(10));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let text = outcome.text();
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("Serving ") && first.contains("http://10.77.0.2/"), "{text}");
        assert!(text.lines().any(|line| line.contains("requests/s")), "{text}");
        assert!(text.lines().last().is_some_and(|line| line.starts_with("Served 1 requests on ")), "{text}");
    });
}
