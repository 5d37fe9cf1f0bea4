//! Each example as its reader would try it: with clients on the kernel's sockets, on a card of its own.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Program, Running, eventually, scenario};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

fn start(example: &str, words: &[&str]) -> Running {
    // No daemon is there.
    let program = Program::new(example).arguments(words.iter().copied()).environment("QANAT_SOCKET", "/nowhere/sock");
    program.piped().start()
}

/// A connection to a port of the example's, once it serves.
fn connect(port: u16) -> TcpStream {
    let mut found = None;
    let address = ([10, 77, 0, 2], port).into();
    eventually("it serves", PATIENCE, || {
        found = TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
        found.is_some()
    });
    let stream = found.expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// What comes back for `said`, until the example closes, too.
fn talk(port: u16, said: &[u8]) -> Vec<u8> {
    let mut stream = connect(port);
    stream.write_all(said).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("shut down");
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("heard");
    heard
}

#[test]
fn echo_sends_back_streams_and_datagrams() {
    scenario(|| {
        let _echo = start(env!("CARGO_BIN_EXE_echo"), &[]);
        let long: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
        assert!(talk(7, &long) == long);
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        socket.send_to(b"datagram", "10.77.0.2:7").expect("sent");
        let mut heard = [0; 64];
        assert_eq!(socket.recv(&mut heard).expect("heard"), 8);
        assert_eq!(&heard[..8], b"datagram");
    });
}

#[test]
fn the_line_server_counts_and_bounds_lines() {
    scenario(|| {
        let _server = start(env!("CARGO_BIN_EXE_line_server"), &["10.77.0.2/24"]);
        assert_eq!(talk(7_007, b"hello\r\n\nlonger line\nquit\nnever answered\n"), b"5\n0\n11\n");
        // What never ends is ended.
        let mut stream = connect(7_007);
        let _ = stream.write_all(&[b'x'; 4_096]);
        assert!(matches!(stream.read(&mut [0; 16]), Ok(0) | Err(_)));
        assert_eq!(talk(7_007, b"still there\n"), b"11\n");
    });
}

#[test]
fn every_request_has_the_page() {
    scenario(|| {
        let _server = start(env!("CARGO_BIN_EXE_http_hello"), &[]);
        let page = "It flows.\n";
        drop(connect(8_080));
        let fetched =
            Program::new("curl").arguments(["-sfm", "10", "http://10.77.0.2:8080/", "http://10.77.0.2:8080/x"]);
        assert_eq!(fetched.succeeds().text(), [page, page].concat());
        // Two requests in pieces on one connection.
        let mut stream = connect(8_080);
        for part in ["GET / HTTP/1.1\r\nHost: a\r", "\n\r", "\nGET / HTTP/1.1\r\n\r\n"] {
            stream.write_all(part.as_bytes()).expect("sent");
        }
        stream.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut heard = String::new();
        stream.read_to_string(&mut heard).expect("heard");
        assert_eq!(heard.matches(page).count(), 2, "{heard}");
    });
}

#[test]
fn the_sink_adds_up_what_is_well_formed() {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let told = directory.path().join("told");
        let told = told.to_str().expect("a name");
        let sink =
            Program::new("sh").arguments(["-c", "exec \"$0\" > \"$1\"", env!("CARGO_BIN_EXE_telemetry_sink"), told]);
        let _sink = sink.environment("QANAT_SOCKET", "/nowhere/sock").start();
        let tells = |part: &str| std::fs::read_to_string(told).is_ok_and(|text| text.contains(part));
        eventually("it serves", PATIENCE, || tells("serves at"));
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        for said in [&b"a:3"[..], b"a:4\n", b"b:-1", b"nonsense", b"\xff\xfe:1", b":5"] {
            socket.send_to(said, "10.77.0.2:8125").expect("sent");
        }
        eventually("the sums are told", PATIENCE, || tells("a=7 b=-1  refused=3"));
    });
}

#[test]
fn the_client_says_its_text_and_prints_the_answer() {
    scenario(|| {
        let listener = TcpListener::bind("0.0.0.0:9000").expect("a listener");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut heard = String::new();
            stream.read_to_string(&mut heard).expect("heard");
            stream.write_all(heard.to_uppercase().as_bytes()).expect("answered");
        });
        let client = start(env!("CARGO_BIN_EXE_client"), &["10.77.0.2/24", "10.77.0.1:9000", "hello"]);
        let outcome = client.wait(PATIENCE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        assert!(outcome.text().ends_with("HELLO"), "{}", outcome.text());
        server.join().expect("the server");
    });
}
