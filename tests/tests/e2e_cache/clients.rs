//! Clients that people have, in both placements; datagrams; users.

use super::peer::{OURS, Peer, serve};
use qanat_tests::e2e::{PATIENCE, Program, qanat, scenario};
use std::net::UdpSocket;
use std::time::Duration;

/// What a program of Python's does with pymemcache: values of all sizes, changes, several keys at once.
const PYTHON: &str = "
import os, sys
from pymemcache.client.base import Client
client = Client(('10.77.0.2', 11211), timeout=20)
values = {f'size-{size}': os.urandom(size) for size in (0, 1, 1447, 1448, 2047, 2048, 16384, 65536, 1000000)}
for key, value in values.items():
    assert client.set(key, value, noreply=False), key
assert client.get_many(list(values)) == values
for key, value in values.items():
    assert client.get(key) == value, key
value, cas = client.gets('size-1')
assert client.cas('size-1', b'new', cas, noreply=False) is True
assert client.cas('size-1', b'newer', cas, noreply=False) is False
assert client.append('size-1', b'er', noreply=False) and client.get('size-1') == b'newer'
client.set('n', '41', noreply=False)
assert client.incr('n', 1) == 42 and client.decr('n', 100) == 0 and client.incr('none', 1) is None
assert client.touch('n', 1000, noreply=False) and client.delete('n', noreply=False)
client.set_many({f'k{number}': str(number) * 10 for number in range(5000)})
found = client.get_many([f'k{number}' for number in range(5000)])
assert len(found) == 5000 and found['k4999'] == b'4999' * 10
assert client.stats()[b'get_hits'] >= 5000
assert client.flush_all(noreply=False) and client.get('k1') is None
print('all is well')
";

/// libmemcached's own test of servers, its tools, and Python.
fn clients(options: &[&str]) {
    scenario(|| {
        let server = serve(options);
        for protocol in ["-a", "-b"] {
            let words = ["-h", "10.77.0.2", "-p", "11211", "-t", "10", protocol];
            let said = Program::new("memccapable").arguments(words).patience(PATIENCE).succeeds().text();
            assert!(said.contains("All tests passed") && !said.contains("FAIL"), "{said}");
        }
        let python = Program::new("/usr/bin/python3").arguments(["-c", PYTHON]).patience(PATIENCE).succeeds();
        assert_eq!(python.text().trim(), "all is well");

        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("word");
        std::fs::write(&file, "kept in a cache").expect("a file");
        let file = file.to_str().expect("a plain name");
        for binary in [&[][..], &["--binary"]] {
            let tool = |name: &str, words: &[&str]| {
                let words = [&["--servers=10.77.0.2"], binary, words].concat();
                Program::new(name).arguments(words).patience(PATIENCE)
            };
            tool("memccp", &[file]).succeeds();
            assert_eq!(tool("memccat", &["word"]).succeeds().text().trim(), "kept in a cache");
            tool("memcexist", &["word"]).succeeds();
            tool("memctouch", &["--expire=100", "word"]).succeeds();
            tool("memcrm", &["word"]).succeeds();
            assert_ne!(tool("memcexist", &["word"]).run().code, Some(0));
            assert!(tool("memcstat", &[]).succeeds().text().contains("curr_items"));
            tool("memcflush", &[]).succeeds();
        }
        Program::new("memcping").arguments(["--servers=10.77.0.2"]).patience(PATIENCE).succeeds();
        // Load, every byte of which is compared.
        for more in
            [&["-c", "16", "--pipeline", "8", "--value-size", "1000"][..], &["-c", "4", "--value-size", "100000"]]
        {
            let words = [&["load", "memcached", OURS, "-d", "1s", "--get", "80", "--keys", "300"], more].concat();
            Program::new(qanat()).arguments(words).patience(PATIENCE).succeeds();
        }
        let stopped = server.stop();
        assert_eq!(stopped.code, Some(0), "{}", stopped.last);
        // A net core's figures are its own.
        let leaks = if options.contains(&"split") { Vec::new() } else { stopped.leaks() };
        assert_eq!(leaks, Vec::<String>::new());
    });
}

#[test]
fn linked() {
    clients(&["-m", "256M"]);
}

#[test]
fn split() {
    clients(&["-m", "256M", "--placement", "split"]);
}

#[test]
fn one_cache_on_two_net_cores() {
    scenario(|| {
        let options = ["--placement", "split", "--net-cores", "2", "--also", "10.77.1.2/24"];
        let server = serve(&options);
        let mut peers = ["10.77.0.2:11211", "10.77.1.2:11211"].map(Peer::new);
        assert_eq!(peers[0].says("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
        assert_eq!(peers[1].says("get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
        drop(peers);
        assert_eq!(server.stop().code, Some(0));
    });
}

/// A datagram with a request.
fn datagram(number: u16, request: &str) -> Vec<u8> {
    let header = [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0]].concat();
    [&header, request.as_bytes()].concat()
}

/// The answer's datagrams, put together.
fn answer(socket: &UdpSocket, number: u16) -> Option<String> {
    let mut parts = std::collections::BTreeMap::new();
    let mut buffer = [0; 2_000];
    loop {
        let length = socket.recv(&mut buffer).ok()?;
        let word = |at: usize| u16::from_be_bytes([buffer[at], buffer[at + 1]]);
        assert_eq!(word(0), number, "the answer to another question");
        assert!(length <= 1_400, "{length} bytes of a datagram");
        parts.insert(word(2), buffer[8..length].to_vec());
        if parts.len() == usize::from(word(4)) {
            return Some(String::from_utf8_lossy(&parts.into_values().flatten().collect::<Vec<_>>()).into_owned());
        }
    }
}

#[test]
fn strangers_get_no_more_by_datagram_than_they_send() {
    scenario(|| {
        let mut server = serve(&["--udp"]);
        let mut peer = Peer::new(OURS);
        assert_eq!(peer.says(&format!("set large 0 0 5000\r\n{}\r\n", "x".repeat(5_000))), "STORED\r\n");
        assert_eq!(peer.says("set s 0 0 1\r\nx\r\n"), "STORED\r\n");
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(OURS).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        socket.send(&datagram(1, "get large\r\n")).expect("sent");
        socket.send(&datagram(2, "get s\r\n")).expect("sent");
        // In order: what is answered is the third.
        socket.send(&datagram(3, "set a-key-of-theirs 0 0 3\r\nabc\r\n")).expect("sent");
        assert_eq!(answer(&socket, 3).as_deref(), Some("STORED\r\n"));
        for malformed in [&b"short"[..], &datagram(4, ""), &datagram(5, "get a"), &datagram(6, "set a 0 0 50\r\nx")] {
            socket.send(malformed).expect("sent");
        }
        let mut two = datagram(7, "get a-key-of-theirs\r\n");
        two[5] = 2;
        socket.send(&two).expect("sent");
        let figures = server.figures_when("all datagrams were seen", |figures| figures["cache"]["datagrams"] == 8);
        assert_eq!(figures["cache"]["datagrams_unanswered"], 2, "{figures}");
        assert_eq!(figures["cache"]["datagrams_malformed"], 5, "{figures}");
        socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a limit");
        assert_eq!(socket.recv(&mut [0; 100]).ok(), None, "more than one answer");
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn those_who_are_trusted_get_all_by_datagrams() {
    scenario(|| {
        let server = serve(&["--udp", "--udp-trust", "10.77.0.0/24"]);
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(OURS).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut peer = Peer::new(OURS);
        for length in [0, 1, 1_000, 1_380, 5_000, 100_000] {
            let value = "v".repeat(length);
            assert_eq!(peer.says(&format!("set k 0 0 {length}\r\n{value}\r\n")), "STORED\r\n");
            socket.send(&datagram(9, "get k\r\n")).expect("sent");
            assert_eq!(answer(&socket, 9), Some(format!("VALUE k 0 {length}\r\n{value}\r\nEND\r\n")));
        }
        let words = ["load", "memcached", OURS, "--udp", "--window", "16", "-d", "1s", "--value-size", "64"];
        Program::new(qanat()).arguments(words).patience(PATIENCE).succeeds();
        assert_eq!(server.stop().code, Some(0));
    });
}

#[test]
fn users_say_who_they_are_first() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("users");
        let path = file.to_str().expect("a plain name");
        std::fs::write(&file, "ann\n").expect("a file");
        let refused = Program::new(qanat()).arguments(["cache", "--auth-file", path]).run();
        assert!(
            refused.code == Some(1) && refused.stderr.contains("line 1: write NAME:PASSWORD"),
            "{}",
            refused.stderr
        );
        std::fs::write(&file, "ann:water\nbob:stone\n").expect("a file");
        let server = serve(&["--auth-file", path]);
        let exchange = |peer: &mut Peer, request: &str, wanted: &str| {
            peer.send(request.as_bytes());
            assert_eq!(String::from_utf8_lossy(&peer.read(wanted.len())), wanted);
        };
        let mut peer = Peer::new(OURS);
        exchange(&mut peer, "get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
        exchange(&mut peer, "set x 0 0 9\r\nann stone\r\n", "CLIENT_ERROR authentication failure\r\n");
        exchange(&mut peer, "set x 0 0 9\r\nbob stone\r\n", "STORED\r\n");
        assert_eq!(peer.says("get x\r\n"), "END\r\n", "what proves who one is, is not kept");
        // The binary protocol has no users: its clients are closed.
        let mut binary = Peer::new(OURS);
        binary.send(&[&[0x80, 0x0b][..], &[0; 22]].concat());
        assert_eq!(binary.read_to_end(), b"");
        drop((peer, binary));
        assert_eq!(server.stop().code, Some(0));
    });
}
