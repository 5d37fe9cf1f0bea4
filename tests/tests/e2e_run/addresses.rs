//! Which addresses a program is at: several networks, both families, and datagrams of any length there.

use super::{OURS, PATIENCE, ask, ends, run, run_with, signal};
use qanat_tests::e2e::{Pages, Program, Wire, eventually, qanat, scenario};
use rustix::process::Signal;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// nginx's arguments for what it `listens` on.
fn nginx(directory: &Path, site: &Pages, listens: &str) -> [String; 4] {
    let text = format!(
        "daemon off; user root; pid {0}/pid; error_log {0}/log; events {{}}\n\
         http {{ access_log off; server {{ {listens} root {1}; }} }}",
        directory.display(),
        site.argument()
    );
    let path = directory.join("nginx.conf");
    std::fs::write(&path, text).expect("a file");
    ["nginx".to_owned(), "-c".to_owned(), path.display().to_string(), "-q".to_owned()]
}

fn fetches(host: &str) -> bool {
    let outcome = Program::new("curl").arguments(["-sS", "-m", "2", &format!("http://{host}/")]).run();
    outcome.text() == "It flows."
}

/// As Debian's nginx is set up. Where the card has no address of a family, the kernel's are all there is.
#[test]
fn listeners_of_both_families_are_the_kernels_where_the_card_has_no_address() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let site = Pages::new().with("index.html", "It flows.");
        let words = nginx(directory.path(), &site, "listen 80; listen [::]:80;");
        let server = run(directory.path(), &words.each_ref().map(String::as_str)).start();
        eventually("the card's answers", PATIENCE, || fetches(OURS));
        for host in ["[::1]", "127.0.0.1"] {
            assert!(fetches(host), "{host}");
        }
        let said = ends(server, Signal::QUIT, directory.path());
        assert!(said.contains("listen [::]:80: the kernel's: the card has no address of this family"), "{said}");
        let log = std::fs::read_to_string(directory.path().join("log")).expect("nginx's log");
        assert!(!log.contains("accept4() failed"), "{log}");
    });
}

#[test]
fn one_card_is_in_several_networks() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let site = Pages::new().with("index.html", "It flows.");
        let words = nginx(directory.path(), &site, "listen 10.77.0.2:80; listen 10.78.0.2:80; listen [fd77::2]:80;");
        let words = words.each_ref().map(String::as_str);
        let networks = ["--address", "10.77.0.2/24", "--address", "10.78.0.2/24", "--address", "fd77::2/64"];
        let refused = run_with(directory.path(), &networks, &words).run();
        assert!(refused.stderr.contains("does not allow address 10.78.0.2"), "{}", refused.stderr);
        assert!(refused.stderr.contains("qanat up --config"), "the remedy: {}", refused.stderr);
        let policy = directory.path().join("policy.toml");
        let text = "host = [\"10.77.0.1/24\", \"10.78.0.1/24\", \"fd77::1/64\"]\n[[rule]]\nname = \"all\"\nusers = [\"root\"]\n\
                    addresses = [\"10.76.0.0/14\", \"fd77::/64\"]\nservices = [\"any\"]\n";
        std::fs::write(&policy, text).expect("a file");
        let socket = directory.path().join("control.sock");
        eventually("the first daemon has gone", PATIENCE, || !socket.exists());
        let daemon = Program::new(qanat()).arguments(["up", "--socket"]).arguments([&socket]);
        let daemon = daemon.arguments(["--config"]).arguments([&policy]).start();
        eventually("the daemon listens", PATIENCE, || socket.exists());
        let server = run_with(directory.path(), &networks, &words).start();
        eventually("it answers", PATIENCE, || fetches(OURS));
        assert!(fetches("10.78.0.2") && fetches("[fd77::2]"));
        // A client there is one of each network, too.
        let kernels = std::net::TcpListener::bind("10.78.0.1:8000").expect("a listener");
        let script = "import socket; print(socket.create_connection(('10.78.0.1', 8000)).getsockname()[0])";
        let others = ["--address", "10.77.0.3/24", "--address", "10.78.0.3/24"];
        let client = run_with(directory.path(), &others, &["python3", "-c", script]).start();
        let (_, peer) = kernels.accept().expect("a connection");
        assert_eq!(peer.ip().to_string(), "10.78.0.3");
        assert_eq!(client.wait(PATIENCE).text().trim(), "10.78.0.3");
        ends(server, Signal::QUIT, directory.path());
        signal(&daemon, Signal::TERM);
        daemon.wait(PATIENCE);
    });
}

/// An address that is nobody's is refused as ever, and the reason is said, to whoever closes what it does not know of, too (as ssh).
#[test]
fn what_cannot_be_bound_is_explained() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let script = "import os, socket\nos.closerange(3, 2000)\nfor host in ('10.77.0.2', '10.78.0.2'):\n    \
                      try: socket.create_server((host, 7000))\n    except OSError as error: print(error)";
        let outcome = run(directory.path(), &["python3", "-c", script]).run();
        assert!(outcome.text().contains("Cannot assign requested address"), "{}", outcome.text());
        assert!(
            outcome.stderr.contains("`qanat run --address 10.78.0.2/LENGTH` gives it that one"),
            "{}",
            outcome.stderr
        );
        let twice = ["--interface", "eth0", "--interface", "eth1", "--address", "10.78.0.2/24"];
        let twice = run_with(directory.path(), &twice, &["true"]).run();
        assert!(twice.stderr.contains("a program has one card"), "{}", twice.stderr);
    });
}

/// libuv sends datagrams by system calls' numbers.
#[test]
fn dig_asks_over_the_card() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        Program::new("ip").arguments(["address", "add", "10.77.0.1/32", "dev", "lo"]).succeeds();
        let server = UdpSocket::bind("10.77.0.1:53").expect("a socket");
        let answers = std::thread::spawn(move || {
            let mut question = [0; 1_500];
            let (length, peer) = server.recv_from(&mut question).expect("a question");
            // An answer, to this question: refused.
            (question[2], question[3]) = (question[2] | 0x80, 5);
            server.send_to(&question[..length], peer).expect("sent");
            peer
        });
        let words = ["dig", "+noedns", "+tries=1", "+time=5", "a.example", "@10.77.0.1"];
        let outcome = run(directory.path(), &words).run();
        assert!(outcome.text().contains("status: REFUSED"), "{}{}", outcome.text(), outcome.stderr);
        assert_eq!(answers.join().expect("a question").ip().to_string(), OURS);
    });
}

/// Echoes of every length to `ours`, by UDP at 7000 and by ICMP.
fn echoes(ours: &str) {
    let to: SocketAddr = format!("{ours}:7000").parse().expect("an address");
    let socket = UdpSocket::bind(if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
    let mut answer = vec![0; 70_000];
    let bytes: Vec<u8> = (0..65_507_u32).map(|index| (index % 251) as u8).collect();
    for length in [1, 1_400, 1_472, 1_473, 4_000, 9_000, 30_000, 65_507] {
        eventually("an echo", PATIENCE, || {
            socket.send_to(&bytes[..length], to).is_ok_and(|sent| sent == length)
                && socket.recv(&mut answer).is_ok_and(|count| answer[..count] == bytes[..length])
        });
    }
    for length in ["56", "1472", "4000", "60000"] {
        Program::new("ping").arguments(["-c", "1", "-W", "5", "-s", length, ours.trim_matches(['[', ']'])]).succeeds();
    }
}

const ECHO: &str = "import socket\n\
    s = socket.create_server(('::', 7000), family=socket.AF_INET6, dualstack_ipv6=True)\n\
    u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)\n\
    u.bind(('::', 7000))\n\
    while True: u.sendto(*u.recvfrom(70000))";

/// Over the daemon's card; also if it takes nothing but what its filters cover.
#[test]
fn large_datagrams_come_to_a_card_and_go() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let both = ["--address", "10.77.0.2/24", "--address", "fd77::2/64"];
        let server = run_with(directory.path(), &both, &["python3", "-c", ECHO]).start();
        eventually("it listens", PATIENCE, || ask(7000, "", 0).is_some());
        echoes(OURS);
        echoes("[fd77::2]");
        let filter = |peers: &str| {
            let words = ["filter", "create", "--vnic", "0", "--receive", "udp", peers, ":7000", "--socket"];
            Program::new(qanat()).arguments(words).arguments([directory.path().join("control.sock")]).succeeds();
        };
        filter("10.77.0.0/24");
        filter("fd77::/64");
        echoes(OURS);
        echoes("[fd77::2]");
        ends(server, Signal::KILL, directory.path());
    });
}

/// Packets of one large frame, or of several each.
#[test]
fn jumbo_packets_come_to_a_card_and_go() {
    ["3500", "9000"].into_iter().for_each(jumbo_packets);
}

fn jumbo_packets(mtu: &str) {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let content = Pages::pattern(20_000_000);
        let site = Pages::new().with("large.bin", &content);
        let jumbo = ["--mtu", mtu];
        let words = ["python3", "-m", "http.server", "8000", "--directory", site.argument()];
        let server = run_with(directory.path(), &jumbo, &words).start();
        eventually("it listens", PATIENCE, || TcpStream::connect((OURS, 8_000)).is_ok());
        let got = directory.path().join("got");
        let url = format!("http://{OURS}:8000/large.bin");
        Program::new("curl").arguments(["-sS", "-m", "20", &url, "-o"]).arguments([&got]).succeeds();
        assert!(std::fs::read(got).expect("a file") == content);
        ends(server, Signal::KILL, directory.path());
        let server = run_with(directory.path(), &jumbo, &["python3", "-c", ECHO]).start();
        eventually("it listens", PATIENCE, || ask(7000, "", 0).is_some());
        echoes(OURS);
        ends(server, Signal::KILL, directory.path());
    });
}

#[test]
fn large_datagrams_come_over_an_interface_and_go() {
    scenario(|| {
        let wire = Wire::new();
        let words = ["run", "--interface", Wire::NEAR, "--address", "10.78.9.3/24", "--", "python3", "-c", ECHO];
        let mut server = Program::new(qanat()).arguments(words).start();
        wire.far(|| echoes("10.78.9.3"));
        assert!(server.is_running());
    });
}
