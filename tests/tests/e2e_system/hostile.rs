//! Peers that mean harm get a clear answer or none; everyone else is served as before.

use qanat_tests::e2e::{Client, Pages, Program, Running, Server, eventually, qanat, resident_kib, scenario, workspace};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

fn frames(arguments: &[&str]) -> Running {
    let script = workspace().join("tests/hostile/frames.py");
    Program::new("python3").arguments([script]).arguments(arguments).start()
}

/// Sends `request`, then no more, and returns everything that comes back.
fn provoke(address: SocketAddr, request: &[u8]) -> String {
    let mut client = Client::connect(address).expect("a connection");
    // The server may have refused and closed before all was sent.
    let _ = client.send(request);
    let _ = client.shutdown();
    let bytes = client.rest().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn malformed_and_smuggled_requests_are_refused_once_and_the_connection_ends() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "index").with("secret", "SECRET");
        let server = Server::start(&[pages.argument()]);
        let smuggled = "GET /secret HTTP/1.1\r\nHost: a\r\n\r\n";
        let long = "x".repeat(20_000);
        let cases: Vec<(&str, String)> = vec![
            (
                "two lengths",
                format!("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 36\r\n\r\n{smuggled}"),
            ),
            ("a list of lengths", format!("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 36\r\n\r\n{smuggled}")),
            ("a signed length", format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +36\r\n\r\n{smuggled}")),
            ("a length too large", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n".into()),
            (
                "length and coding",
                format!(
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"
                ),
            ),
            (
                "an unknown coding",
                format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n{smuggled}"),
            ),
            (
                "a coding with a tab",
                format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n{smuggled}"),
            ),
            ("obs-fold", "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\n\r\n".into()),
            ("bare CR", format!("GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n{smuggled}")),
            ("space before colon", format!("GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 36\r\n\r\n{smuggled}")),
            ("no host", "GET / HTTP/1.1\r\n\r\n".into()),
            ("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".into()),
            ("a NUL", "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n".into()),
            ("an escaped NUL", "GET /index.html%00.png HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".into()),
            ("a NUL in a field", "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n".into()),
            ("an overlong target", format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")),
            ("an overlong head", format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")),
            ("too many fields", format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(1_000))),
            ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into()),
            ("HTTP/3.1", "GET / HTTP/3.1\r\nHost: a\r\n\r\n".into()),
            ("HTTP/0.9", "GET /\r\n\r\n".into()),
            ("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n".into()),
            ("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n".into()),
            ("rubbish", "\r\n\r\n\r\n}{\r\n\r\n".into()),
        ];
        for (name, request) in cases {
            let answer = provoke(server.address(), request.as_bytes());
            assert!(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 5"), "{name}: {answer:?}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{name}: answered more than once: {answer}");
            assert!(!answer.contains("SECRET"), "{name}: {answer}");
        }
        for (name, request, status) in [
            ("an overlong target", format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), "414"),
            ("an overlong head", format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"), "431"),
            ("HTTP/3.1", "GET / HTTP/3.1\r\nHost: a\r\n\r\n".into(), "505"),
        ] {
            let answer = provoke(server.address(), request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {answer}");
        }
        assert!(Client::connect(server.address()).expect("still served").get("/").expect("an answer").status == 200);
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn nothing_outside_the_directory_is_served() {
    scenario(|| {
        let outside = Pages::new().with("secret", "SECRET");
        let pages = Pages::new().with("index.html", "index").with("below/page", "page").with(".hidden", "SECRET");
        std::os::unix::fs::symlink(outside.file("secret"), pages.file("absolute")).expect("a link");
        std::os::unix::fs::symlink("../../../../../../etc/passwd", pages.file("below/relative")).expect("a link");
        std::os::unix::fs::symlink(outside.path(), pages.file("directory")).expect("a link");
        Program::new("mkfifo").arguments([pages.file("fifo")]).succeeds();
        let server = Server::start(&[pages.argument()]);
        let mut client = Client::connect(server.address()).expect("a connection");
        for path in [
            "/../secret",
            "/../../../../etc/passwd",
            "/below/../../secret",
            "/%2e%2e/secret",
            "/..%2fsecret",
            "/%2e%2e%2f%2e%2e%2fetc/passwd",
            "/..%5c..%5csecret",
            "/%252e%252e/secret",
            "/....//secret",
            "//etc/passwd",
            "/.hidden",
            "/%2ehidden",
            "/absolute",
            "/below/relative",
            "/directory/secret",
            "/fifo",
            "/below/page/",
            "/%c0%ae%c0%ae/secret",
            "/below/./../../secret",
            "/\u{2025}/secret",
        ] {
            let answer = match client.get(path) {
                Ok(answer) => answer,
                Err(error) => panic!("{path}: {error}"),
            };
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!((300..500).contains(&answer.status), "{path}: {} {text}", answer.status);
            assert!(!text.contains("SECRET") && !text.contains("root:"), "{path}: {text}");
            if answer.field("connection") == "close" {
                client = Client::connect(server.address()).expect("a connection");
            }
        }
        drop(client);
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn slow_clients_are_cut_off_while_others_are_served() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "index");
        let mut server = Server::start(&[pages.argument(), "--head-timeout", "2"]);
        let mut slow: Vec<Client> = (0..200)
            .map(|_| {
                let mut client = Client::connect(server.address()).expect("a connection");
                client.send(b"GET / HTTP/1.1\r\nHost: a\r\n").expect("sending");
                client
            })
            .collect();
        let start = Instant::now();
        let mut other = Client::connect(server.address()).expect("a connection");
        let (mut worst, mut served) = (Duration::ZERO, 0);
        while start.elapsed() < Duration::from_millis(4_500) {
            for client in &mut slow {
                // Refused once the server has had enough.
                let _ = client.send(b"X: 1\r\n");
            }
            for _ in 0..20 {
                let asked = Instant::now();
                assert_eq!(other.get("/").expect("others are served").body, b"index");
                worst = worst.max(asked.elapsed());
                served += 1;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        println!("{served} others served meanwhile, the slowest in {worst:?}");
        for client in &mut slow {
            assert_eq!(client.answer().expect("told why").status, 408);
            assert!(client.rest().is_ok_and(|rest| rest.is_empty()), "and closed");
        }
        let figures = server.figures();
        assert!(figures["web"]["timeouts_head"].as_u64() >= Some(200), "{figures}");
        drop((slow, other));
        server.figures_when("all closed", |figures| figures["usage"]["connections"] == 0);
        assert!(server.stop().leaks().is_empty());
    });
}

// Attack: time and cost: 300 slow readers of one large file
/// More slow readers than there are windows of large files, all from one address, hold half of them. Others download as ever.
#[test]
fn slow_readers_of_one_address_leave_windows_to_others() {
    scenario(|| {
        const READERS: usize = 300;
        let content = Pages::pattern(20 << 20);
        let pages = Pages::new().with("large", &content);
        // For so long none of them is cut off, however slow this machine is.
        let mut server = Server::start(&[pages.argument(), "--send-timeout", "3600"]);
        Program::new("ip").arguments(["address", "add", "10.77.0.9/24", "dev", "qanat0"]).succeeds();
        let slow: Vec<Client> = (0..READERS)
            .map(|_| {
                let mut client = Client::connect(server.address()).expect("a connection");
                client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").expect("sending");
                client
            })
            .collect();
        // They read nothing. When they hold their share, the rest of them waits.
        let waits = |figures: &serde_json::Value| figures["web"]["window_share_waits"].as_u64() > Some(0);
        server.figures_when("their share is used", waits);
        let target = pages.file("downloaded");
        for number in 0..3 {
            let arguments = ["-sS", "--interface", "10.77.0.9", "--max-time", "300", "-o"];
            Program::new("curl").arguments(arguments).arguments([&target]).arguments([server.url("/large")]).succeeds();
            assert!(std::fs::read(&target).expect("a file") == content, "download {number}");
        }
        let figures = server.figures();
        assert_eq!(
            figures["web"]["timeouts_send"].as_u64(),
            Some(0),
            "they were not cut off for their silence: {figures}"
        );
        drop(slow);
        server.figures_when("all closed", |figures| figures["usage"]["connections"] == 0);
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn broken_frames_are_counted_and_nothing_else() {
    scenario(|| {
        let content = Pages::pattern(200_000);
        let pages = Pages::new().with("data", &content);
        let mut server = Server::start(&[pages.argument(), "--also", "fd77::2/64"]);
        let mut client = Client::connect(server.address()).expect("a connection");
        assert!(client.get("/data").expect("an answer").body == content);
        let mut garbage = frames(&["garbage", "qanat0", "10.77.0.2", "3", "7"]);
        let mut answers = 0;
        while garbage.is_running() {
            assert!(client.get("/data").expect("served meanwhile").body == content, "answer {answers}");
            answers += 1;
        }
        let sent = garbage.wait(Duration::from_secs(20));
        println!("{answers} answers of 200,000 bytes while: {}", sent.text());
        assert_eq!(sent.code, Some(0), "{sent:?}");
        assert!(answers > 10, "only {answers} answers meanwhile");
        drop(client);
        // Answers to made-up neighbours wait for these to be found, for three seconds.
        server
            .figures_when("made-up neighbours are given up", |figures| figures["usage"]["transmit_frames_in_use"] == 0);
        let stopped = server.stop();
        let stack = &stopped.last["stack"];
        println!("{stack}");
        for counter in ["ip_checksum", "tcp_checksum", "tcp_invalid", "ip_invalid", "icmp_invalid"] {
            assert!(stack[counter].as_u64() > Some(0), "{counter} counts what it dropped: {stack}");
        }
        // Strangers' SYNs among the garbage may be half open still.
        let leaks: Vec<String> =
            stopped.leaks().into_iter().filter(|leak| is_no_half_open(leak, &stopped.last)).collect();
        assert_eq!((stopped.code, leaks), (Some(0), vec![]), "{}", stopped.last["usage"]);
    });
}

/// Half-open connections wait for their peers a bounded time, each with a timer: no leaks.
fn is_no_half_open(leak: &str, last: &serde_json::Value) -> bool {
    let half_open = last["usage"]["half_open"].as_u64().unwrap_or(0);
    let count: u64 = leak.split(['=', ' ']).nth(1).and_then(|count| count.parse().ok()).unwrap_or(u64::MAX);
    let explained = ["half_open", "flows", "timers"].iter().any(|name| leak.starts_with(&format!("{name}=")));
    !(explained && half_open > 0 && count <= 2 * half_open + 8)
}

#[test]
fn a_syn_flood_stops_nobody() {
    scenario(|| {
        let content = Pages::pattern(20_000);
        let pages = Pages::new().with("data", &content);
        let mut server = Server::start(&[pages.argument()]);
        let address = server.address();
        let mut old = Client::connect(address).expect("a connection");
        assert!(old.get("/data").expect("an answer").body == content);
        let mut flood = frames(&["flood", "qanat0", "10.77.0.2", "2"]);
        let (mut answers, mut connected, mut worst) = (0, 0, Duration::ZERO);
        while flood.is_running() {
            let asked = Instant::now();
            assert!(old.get("/data").expect("the old connection is served").body == content);
            worst = worst.max(asked.elapsed());
            answers += 1;
            if answers % 20 == 0 {
                let mut new = Client::connect(address).expect("new connections are taken");
                assert!(new.get("/data").expect("and served").body == content);
                connected += 1;
            }
        }
        let sent = flood.wait(Duration::from_secs(20));
        println!(
            "{answers} answers on the old connection (slowest {worst:?}), {connected} new connections while: {}",
            sent.text()
        );
        assert!(answers >= 20 && connected >= 1, "{answers} answers, {connected} new connections");
        Program::new("curl").arguments(["-sS", "-o", "/dev/null", "--max-time", "5", &server.url("/data")]).succeeds();
        drop(old);
        let usage = server.figures_when("served ones closed", |f| f["usage"]["connections"] == 0)["usage"].clone();
        println!("usage after: {usage}");
        assert!(usage["half_open"].as_u64() <= Some(8_192), "half-open connections are bounded: {usage}");
        let stopped = server.stop();
        println!("{}", stopped.last["stack"]);
        assert_eq!((stopped.code, stopped.last["usage"]["transmit_frames_in_use"].as_u64()), (Some(0), Some(0)));
    });
}

/// Raises this process's limit on open files.
fn allow_descriptors(count: u64) {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum = limit.maximum.map(|maximum| maximum.max(count));
    limit.current = limit.current.map(|current| current.max(count));
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("more open files");
}

#[test]
fn ten_thousand_open_connections_are_cheap() {
    scenario(|| {
        const COUNT: u64 = 10_000;
        allow_descriptors(COUNT + 1_000);
        let pages = Pages::new().with("1k", Pages::pattern(1_024));
        let mut server = Server::start(&[pages.argument()]);
        let url = server.url("/1k");
        // The frames and content of busy clients first, so that only connections are measured.
        Program::new(qanat()).arguments(["load", "http", &url, "-c", "64", "-d", "500ms"]).succeeds();
        server.figures_when("idle again", |figures| figures["usage"]["connections"] == 0);
        let before_kib = resident_kib(server.id());
        let address = server.address();
        let mut clients: Vec<Client> = (0..COUNT)
            .map(|number| Client::connect(address).unwrap_or_else(|error| panic!("connection {number}: {error}")))
            .collect();
        for _ in 0..2 {
            for client in &mut clients {
                assert_eq!(client.get("/1k").expect("an answer").body.len(), 1_024);
            }
        }
        server.figures_when("10,000 open", |figures| figures["usage"]["connections"] == COUNT);
        let after_kib = resident_kib(server.id());
        drop(clients);
        let bytes_each = after_kib.saturating_sub(before_kib) * 1_024 / COUNT;
        println!("10,000 connections: {before_kib} KiB before, {after_kib} KiB then: {bytes_each} bytes each");
        assert!(bytes_each <= 2_048, "{bytes_each} bytes each");
        server.figures_when("all closed", |figures| figures["usage"]["connections"] == 0);
        let stopped = server.stop();
        println!("usage after: {}", stopped.last["usage"]);
        assert_eq!(stopped.leaks(), Vec::<String>::new());
    });
}

#[test]
fn connections_beyond_the_limit_are_refused_not_queued_for_ever() {
    scenario(|| {
        let pages = Pages::new().with("index.html", "index");
        let mut server = Server::start(&[pages.argument(), "--connections", "50"]);
        let address = server.address();
        let mut clients: Vec<Client> = (0..50).map(|_| Client::connect(address).expect("a connection")).collect();
        for client in &mut clients {
            assert_eq!(client.get("/").expect("an answer").status, 200);
        }
        let asked = Instant::now();
        for _ in 0..10 {
            if let Ok(mut refused) = Client::connect(address) {
                assert!(refused.get("/").is_err(), "no room for another");
            }
        }
        println!("ten refusals took {:?}", asked.elapsed());
        for client in &mut clients {
            assert_eq!(client.get("/").expect("the others are served").status, 200);
        }
        drop(clients);
        server.figures_when("closed", |figures| figures["usage"]["connections"] == 0);
        eventually("room again", Duration::from_secs(5), || {
            Client::connect(address).and_then(|mut client| client.get("/")).is_ok_and(|answer| answer.status == 200)
        });
        assert!(server.stop().leaks().is_empty());
    });
}
