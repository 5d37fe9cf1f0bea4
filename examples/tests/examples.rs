//! Each example as its reader would try it: with clients on the kernel's sockets, on a card of its own.
#![forbid(unsafe_code)]

use qanat::disk::Vsic;
use qanat_examples::diskmap::Diskmap;
use qanat_tests::e2e::{Program, Running, eventually, scenario};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::rc::Rc;
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

/// A file of as many bytes, not in /tmp, which may have no direct I/O.
fn disk_of(bytes: &[u8]) -> tempfile::TempPath {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.write_all(bytes).expect("written");
    file.into_temp_path()
}

#[test]
fn diskmap_calls_back_once_for_each_request_however_it_was_split() {
    let bytes: Vec<u8> = (0..1_u32 << 18).map(|index| (index / 512 * 7 + index) as u8).collect();
    let file = disk_of(&bytes);
    let mut map = Diskmap::open(&file, 8, 4_096).expect("it can be opened");
    let block_bytes = map.disk().geometry().block_bytes as usize;
    let heard = Rc::new(RefCell::new(Vec::new()));
    let hear = |name: &'static str| {
        let heard = Rc::clone(&heard);
        Box::new(move |read: Result<&[qanat::Frame], _>| {
            let bytes = read.map(|frames| frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect::<Vec<u8>>());
            heard.borrow_mut().push((name, bytes));
        })
    };
    let settle = |map: &mut Diskmap| {
        map.sqsync();
        while map.disk().in_flight() > 0 {
            map.disk().wait(Duration::from_secs(1));
            map.consume_completions(2);
        }
    };
    // In five parts and in one; the next has no buffers any more.
    let first = 3 * 4_096 / block_bytes as u64;
    assert!(map.read(first, 20_480, hear("long")) && map.read(0, 4_096, hear("short")));
    assert!(!map.read(0, 16_384, hear("none")), "there are two buffers left");
    settle(&mut map);
    let mut all = std::mem::take(&mut *heard.borrow_mut());
    all.sort_by_key(|(name, _)| *name);
    let expected = [("long", bytes[12_288..][..20_480].to_vec()), ("short", bytes[..4_096].to_vec())];
    assert!(all == expected.map(|(name, bytes)| (name, Ok(bytes))));
    // What is written is read, and what is not there says so, once for all parts.
    let written = vec![0x5a; 12_288];
    assert!(map.write(first, &written, hear("write")));
    settle(&mut map);
    let beyond = (bytes.len() - 4_096) as u64 / block_bytes as u64;
    assert!(map.read(first, 12_288, hear("again")) && map.read(beyond, 12_288, hear("beyond")));
    settle(&mut map);
    let mut all = std::mem::take(&mut *heard.borrow_mut());
    all.sort_by_key(|(name, _)| *name);
    let out_of_range = Err(qanat::StorageError::OutOfRange);
    assert!(all == [("again", Ok(written.clone())), ("beyond", out_of_range), ("write", Ok(written))]);
}

#[test]
fn diskmap_draws_the_figure_of_the_thesis() {
    let file = disk_of(&vec![7; 1 << 20]);
    let drawn = Program::new(env!("CARGO_BIN_EXE_diskmap")).arguments([file.to_str().expect("a name"), "20"]);
    let text = drawn.succeeds().text().to_owned();
    let sizes: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((sizes.len(), sizes.first(), sizes.last()), (9, Some(&"512"), Some(&"131072")), "{text}");
    assert!(!text.contains(" 0 reads/s"), "{text}");
    let refused = Program::new(env!("CARGO_BIN_EXE_diskmap")).arguments(["/nowhere/disk", "20"]).run();
    assert!(refused.code != Some(0) && refused.stderr.contains("/nowhere/disk"), "{}", refused.stderr);
}
