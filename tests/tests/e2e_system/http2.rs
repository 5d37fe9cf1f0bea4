//! HTTP/2 with the clients people have: curl, nghttp and h2load (nghttp2), and Python's h2, which can be made to say odd things.

use super::https::{certificate, curl, start, text};
use qanat_tests::e2e::{Pages, Program, Server, scenario};
use rustix::process::Signal;
use std::time::Duration;

/// A client that sends odd frames, and others between them. It is Python's h2 for what is as it should be; the rest is written by hand.
const ODD_FRAMES: &str = r#"
import socket, ssl, sys
import h2.config, h2.connection, h2.events, h2.settings
host, expected = sys.argv[1], int(sys.argv[2])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2"])
connection = context.wrap_socket(socket.create_connection((host, 443), timeout=20))
assert connection.selected_alpn_protocol() == "h2"
h2c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
h2c.initiate_connection()
# A small window, so that the large one comes in many frames.
h2c.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1000})
head = lambda path: [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", path)]
post = [(":method", "POST"), (":scheme", "https"), (":authority", host), (":path", "/data"), ("content-length", "5")]
h2c.send_headers(1, head("/data"), end_stream=True)
h2c.send_headers(3, post)
h2c.send_data(3, b"12345", end_stream=True, pad_length=200)
h2c.ping(b"12345678")
h2c.prioritize(5, weight=3, depends_on=1)
h2c.send_headers(7, head("/missing"), end_stream=True, priority_weight=256, priority_exclusive=True)
# A type that nobody knows, on the connection and on a stream.
odd = b"\x00\x00\x03\xf0\xff\x00\x00\x00\x00odd" + b"\x00\x00\x00\xf1\x00\x00\x00\x00\x01"
# All of it byte by byte, in records of their own.
for byte in h2c.data_to_send() + odd:
    connection.sendall(bytes([byte]))
got, status, ended, pinged = {}, {}, set(), False
while len(ended) < 3:
    data = connection.recv(65536)
    assert data, "it closed"
    for event in h2c.receive_data(data):
        if isinstance(event, h2.events.ResponseReceived):
            status[event.stream_id] = dict(event.headers)[":status"]
        elif isinstance(event, h2.events.DataReceived):
            got.setdefault(event.stream_id, bytearray()).extend(event.data)
            h2c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            ended.add(event.stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            pinged = True
        elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
            raise SystemExit(f"{event}")
    connection.sendall(h2c.data_to_send())
assert status == {1: "200", 3: "405", 7: "404"}, status
assert len(got[1]) == expected and pinged
sys.stdout.buffer.write(got[1])
"#;

/// A client that takes back each request at once, until it is sent away. It prints why it was.
const RAPID_RESETS: &str = r#"
import socket, ssl, sys
import h2.config, h2.connection, h2.events
host = sys.argv[1]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.set_alpn_protocols(["h2"])
connection = context.wrap_socket(socket.create_connection((host, 443), timeout=20))
h2c = h2.connection.H2Connection(h2.config.H2Configuration())
h2c.initiate_connection()
head = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/data")]
try:
    for number in range(100000):
        stream = 2 * number + 1
        h2c.send_headers(stream, head, end_stream=True)
        h2c.reset_stream(stream, 8)
        connection.sendall(h2c.data_to_send())
except OSError:
    pass
while True:
    for event in h2c.receive_data(connection.recv(65536)):
        if isinstance(event, h2.events.ConnectionTerminated):
            print(event.error_code.name if hasattr(event.error_code, "name") else event.error_code)
            raise SystemExit(0)
"#;

fn python(script: &str, arguments: &[&str]) -> Program {
    // The system's own, whose packages h2 is one of.
    Program::new("/usr/bin/python3").arguments(["-c", script]).arguments(arguments)
}

fn host(server: &Server) -> String {
    server.url("").replace("https://", "")
}

#[test]
fn every_client_gets_the_same_bytes_in_both_placements() {
    scenario(|| {
        let content = Pages::pattern(3_000_000);
        let pages = Pages::new().with("data", &content).with("index.html", "few words");
        let keys = Pages::new();
        certificate(keys.path());
        let log = keys.file("access.log");
        let log_argument = log.to_str().expect("plain").to_owned();
        for placement in ["linked", "split"] {
            let server = start(&pages, keys.path(), &["--placement", placement, "--access-log", &log_argument]);
            let url = server.url("/data");
            let version = ["-w", "%{http_version}", "-o", "/dev/null", &url];
            assert_eq!(text(curl(keys.path(), &version)), "2", "{placement}: it is what clients prefer");
            assert_eq!(text(curl(keys.path(), &[&["--http1.1"], &version[..]].concat())), "1.1");
            for how in [&["--http2"][..], &["--http2", "--tls-max", "1.2"], &["--http2", "--limit-rate", "3M"]] {
                let got = curl(keys.path(), &[how, &[&url]].concat());
                assert!(got == content, "{placement}, {how:?}: {} bytes", got.len());
            }
            let part = curl(keys.path(), &["-r", "1000000-1999999", &url]);
            assert!(part == content[1_000_000..2_000_000], "{placement}: a range");
            // Many at once on one connection, among them some that are not there.
            let many = format!("{}/[1-40]", server.url(""));
            let all =
                ["-Z", "--parallel-max", "50", "-w", "%{http_version} %{http_code}\n", "-o", "/dev/null", &url, &many];
            let codes = text(curl(keys.path(), &all));
            assert_eq!(codes.lines().filter(|line| *line == "2 404").count(), 40, "{placement}: {codes}");
            assert_eq!(codes.lines().filter(|line| *line == "2 200").count(), 1, "{placement}: {codes}");
            let nghttp = Program::new("nghttp").arguments([url.as_str()]).succeeds();
            assert!(nghttp.stdout == content, "{placement}: nghttp, {} bytes", nghttp.stdout.len());
            let load = ["-n", "20000", "-c", "10", "-m", "32", &server.url("/")];
            let load = Program::new("h2load").arguments(load).succeeds().text();
            assert!(load.contains("20000 succeeded, 0 failed, 0 errored, 0 timeout"), "{placement}: {load}");
            let expected = content.len().to_string();
            let odd = python(ODD_FRAMES, &[&host(&server), &expected]).succeeds();
            assert!(odd.stdout == content, "{placement}: Python's h2");
            let stopped = server.stop();
            assert_eq!(stopped.code, Some(0));
            if placement == "linked" {
                // What a net core holds is its own to tell.
                assert_eq!(stopped.leaks(), Vec::<String>::new());
            }
            let figures = &stopped.last["web"]["http2"];
            assert!(figures["requests"].as_u64() >= Some(20_050), "{figures}");
            for none in ["carriers_failed", "requests_malformed", "requests_refused", "streams_reset"] {
                assert_eq!(figures[none], 0, "{placement}: {figures}");
            }
        }
        let log = std::fs::read_to_string(log).expect("a log");
        assert!(
            log.contains("\"GET /data HTTP/2.0\" 200 3000000") && log.contains("\"GET /data HTTP/1.1\" 200 3000000")
        );
    });
}

#[test]
fn floods_are_sent_away_and_counted_and_others_go_on() {
    scenario(|| {
        let pages = Pages::new().with("data", Pages::pattern(1_000_000)).with("index.html", "few words");
        let keys = Pages::new();
        certificate(keys.path());
        let mut server = start(&pages, keys.path(), &[]);
        let url = server.url("/data");
        let slow = ["-sS", "-k", "--max-time", "60", "--limit-rate", "400K", &url];
        let download = Program::new("curl").arguments(slow).start();
        let said = python(RAPID_RESETS, &[&host(&server)]).succeeds().text();
        assert!(said.contains("ENHANCE_YOUR_CALM"), "{said}");
        server.figures_when("it is counted", |now| now["web"]["http2"]["floods"] == 1);
        assert_eq!(
            download.wait(Duration::from_secs(60)).stdout,
            Pages::pattern(1_000_000),
            "others are not disturbed"
        );
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
    });
}

#[test]
fn a_server_that_stops_ends_what_it_began_and_one_without_http2_speaks_the_other() {
    scenario(|| {
        let content = Pages::pattern(4_000_000);
        let pages = Pages::new().with("data", &content);
        let keys = Pages::new();
        certificate(keys.path());
        let mut server = start(&pages, keys.path(), &[]);
        let url = server.url("/data");
        let slow = ["-sS", "-k", "--http2", "--max-time", "60", "--limit-rate", "2M", &url];
        let download = Program::new("curl").arguments(slow).start();
        server.figures_when("it has begun", |now| now["web"]["http2"]["requests"] == 1);
        server.signal(Signal::TERM);
        assert!(download.wait(Duration::from_secs(60)).stdout == content, "the download is whole");
        let stopped = server.wait();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        let server = start(&pages, keys.path(), &["--http2-streams", "0"]);
        let version = ["--http2", "-w", "%{http_version}", "-o", "/dev/null", &url];
        assert_eq!(text(curl(keys.path(), &version)), "1.1");
        server.stop();
    });
}
