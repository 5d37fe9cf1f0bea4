//! One set of clients for each service, and the service in each of the placements; in the kernel's by both ways of asking it.

use qanat_tests::e2e::{
    Client, PATIENCE, Pages, Place, Program, Running, Server, Stopped, directory_for_anybody, eventually, qanat,
    scenario,
};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::Duration;

/// What all services listen at.
const ADDRESS: &str = "10.77.0.2";
/// Bytes that no piece of memory divides.
const LARGE_BYTES: usize = 12_345_678;

fn serve(service: &str, place: Place, words: &[&str]) -> Server {
    let words = [words, place.options()].concat();
    Server::try_start_as(service, &words).unwrap_or_else(|error| panic!("{service} {words:?}: {error}"))
}

/// Graceful, and nothing is left. A net core's figures are its own.
fn ended(place: Place, stopped: &Stopped) {
    assert_eq!(stopped.code, Some(0), "{}", stopped.last);
    if place != Place::Split {
        assert_eq!(stopped.leaks(), Vec::<String>::new(), "{}", stopped.last);
    }
}

fn curl(words: &[&str]) -> Vec<u8> {
    Program::new("curl").arguments(["-sk", "--max-time", "60"]).arguments(words).patience(PATIENCE).succeeds().stdout
}

fn web(place: Place) {
    scenario(|| {
        let large = Pages::pattern(LARGE_BYTES);
        let pages = Pages::new().with("index.html", "hello").with("large.bin", &large).with("empty", "");
        let server = serve("web", place, &[pages.argument()]);
        let mut client = Client::connect(server.address()).expect("it listens");
        for round in 0..200 {
            let answer = client.get(if round % 20 == 0 { "/large.bin" } else { "/" }).expect("an answer");
            let wanted = if round % 20 == 0 { &large[..] } else { b"hello" };
            assert!(answer.status == 200 && answer.body == wanted, "{round}");
        }
        // Many at once, answered in order.
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50);
        client.send(&[&request[..], b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n"].concat()).expect("it takes requests");
        for _ in 0..50 {
            assert_eq!(client.answer().expect("an answer").body, b"hello");
        }
        assert_eq!(client.answer().expect("an answer").status, 404);
        // One that says that it sends no more has its answer, and the end.
        client.send(b"GET /empty HTTP/1.1\r\nHost: a\r\n\r\n").expect("it takes requests");
        client.shutdown().expect("a socket");
        assert!(client.rest().expect("an answer").starts_with(b"HTTP/1.1 200"));
        assert_eq!(curl(&["--range", "5000000-5999999", &server.url("/large.bin")]), large[5_000_000..6_000_000]);
        let old = Program::new("curl").arguments(["-s", "--http1.0", &server.url("/large.bin")]).patience(PATIENCE);
        assert!(old.succeeds().stdout == large, "until the connection ends");
        ended(place, &server.stop());
    });
}

fn https(place: Place) {
    scenario(|| {
        let large = Pages::pattern(LARGE_BYTES);
        let pages = Pages::new().with("large.bin", &large);
        let server = serve("web", place, &[pages.argument(), "--https"]);
        for version in ["--http1.1", "--http2"] {
            assert!(curl(&[version, &server.url("/large.bin")]) == large, "{version}");
        }
        let moved = curl(&["--output", "/dev/null", "--write-out", "%{http_code}", "http://10.77.0.2/large.bin"]);
        assert_eq!(moved, b"301");
        ended(place, &server.stop());
    });
}

fn dns(place: Place) {
    scenario(|| {
        let directory = directory_for_anybody();
        let zone = directory.path().join("zone");
        let names = "$TTL 60\n@ SOA ns host 1 2 3 4 30\n@ NS ns\nns A 10.77.0.2\n$GENERATE 1-150 many$ A 192.0.2.$\n";
        std::fs::write(&zone, names).expect("a file");
        let zone = format!("example.test={}", zone.display());
        let running =
            Program::new(qanat()).arguments(["dns", "--json", "--zone", &zone]).arguments(place.options()).start();
        let dig = |words: &[&str]| {
            let server = format!("@{ADDRESS}");
            let words = [&["+tries=3", "+time=5", "+short", &server], words].concat();
            Program::new("dig").arguments(words).patience(PATIENCE).run().text()
        };
        eventually("an answer", PATIENCE, || dig(&["many7.example.test"]).trim() == "192.0.2.7");
        assert_eq!(dig(&["+tcp", "many150.example.test"]).trim(), "192.0.2.150");
        assert_eq!(dig(&["+notcp", "+bufsize=1232", "-x", "192.0.2.1"]).trim(), "");
        interrupt(running);
    });
}

fn interrupt(running: Running) -> Value {
    let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
    kill_process_group(group, Signal::INT).expect("Ctrl-C");
    let outcome = running.wait(PATIENCE);
    assert_eq!(outcome.code, Some(0), "{}\n{}{}", outcome.line, outcome.text(), outcome.stderr);
    let text = outcome.text();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_default()
}

fn echo(place: Place) {
    scenario(|| {
        let running = Program::new(qanat()).arguments(["echo", "--json"]).arguments(place.options()).start();
        let mut stream = None;
        eventually("it listens", PATIENCE, || {
            stream = TcpStream::connect((ADDRESS, 7)).ok();
            stream.is_some()
        });
        let stream = stream.expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let sent = Pages::pattern(LARGE_BYTES);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(&sent).expect("it takes them");
                stream.shutdown(Shutdown::Write).expect("a socket");
            });
            let mut came = Vec::new();
            (&stream).read_to_end(&mut came).expect("all of it, and the end");
            assert!(came == sent, "{} of {} bytes", came.len(), sent.len());
        });
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect((ADDRESS, 7)).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        for length in (0..1_400).step_by(7) {
            let payload = Pages::pattern(length);
            socket.send(&payload).expect("sent");
            let mut buffer = [0; 2_000];
            let came = socket.recv(&mut buffer).expect("it comes back");
            assert!(buffer[..came] == payload[..], "{length}");
        }
        interrupt(running);
    });
}

fn kv(place: Place) {
    scenario(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = directory.path().join("kv.img").display().to_string();
        let running =
            Program::new(qanat()).arguments(["kv", "--disk", &disk, "--json"]).arguments(place.options()).start();
        let cli = |words: &[&str]| {
            let words = [&["-h", ADDRESS], words].concat();
            Program::new("redis-cli").arguments(words).patience(PATIENCE).run().text().trim().to_owned()
        };
        eventually("it answers", PATIENCE, || cli(&["ping"]) == "PONG");
        assert_eq!(cli(&["set", "word", "kept"]), "OK");
        let value = "x".repeat(300_000);
        assert_eq!(cli(&["set", "large", &value[..100_000]]), "OK");
        assert_eq!(cli(&["append", "large", &value[..100_000]]), "200000");
        assert_eq!(cli(&["get", "large"]).len(), 200_000);
        let benchmark = ["-h", ADDRESS, "-q", "-n", "2000", "-c", "20", "-P", "4", "-r", "500", "-t", "set,get,lpush"];
        Program::new("redis-benchmark").arguments(benchmark).patience(PATIENCE).succeeds();
        interrupt(running);
        let running =
            Program::new(qanat()).arguments(["kv", "--disk", &disk, "--json"]).arguments(place.options()).start();
        eventually("it is kept", PATIENCE, || cli(&["get", "word"]) == "kept");
        interrupt(running);
    });
}

/// What a program of Python's does with pymemcache: values of all sizes, several keys at once, several clients at once.
const PYTHON: &str = "
import os, threading
from pymemcache.client.base import Client
def work(name):
    client = Client(('10.77.0.2', 11211), timeout=60)
    values = {f'{name}-{size}': os.urandom(size) for size in (0, 1, 1447, 1448, 2047, 2048, 16384, 65536, 1000000)}
    for turn in range(20):
        assert client.set_many(values, noreply=False) == []
        assert client.get_many(list(values)) == values, name
    done.append(name)
done = []
threads = [threading.Thread(target=work, args=(f'client{number}',)) for number in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(done) == 8, done
print('all is well')
";

fn cache(place: Place) {
    scenario(|| {
        let server = serve("cache", place, &["-m", "256M", "--udp"]);
        for protocol in ["-a", "-b"] {
            let words = ["-h", ADDRESS, "-p", "11211", "-t", "10", protocol];
            let said = Program::new("memccapable").arguments(words).patience(PATIENCE).succeeds().text();
            assert!(said.contains("All tests passed") && !said.contains("FAIL"), "{said}");
        }
        let python = Program::new("/usr/bin/python3").arguments(["-c", PYTHON]).patience(PATIENCE).succeeds();
        assert_eq!(python.text().trim(), "all is well");
        ended(place, &server.stop());
    });
}

fn video(place: Place) {
    scenario(|| {
        let folder = Pages::new();
        let large = Pages::pattern(LARGE_BYTES);
        folder.write("cut/large.bin", &large);
        let disk = folder.file("films.img").display().to_string();
        let add = ["video", "--disk", &disk, "add", &folder.file("cut").display().to_string(), "--size", "64M"];
        Program::new(qanat()).arguments(add).patience(PATIENCE).succeeds();
        let server = serve("video", place, &["--disk", &disk]);
        for version in ["--http1.1", "--http2"] {
            assert!(curl(&[version, &server.url("/cut/large.bin")]) == large, "{version}");
        }
        assert_eq!(curl(&["-r", "1000000-1000999", &server.url("/cut/large.bin")]), large[1_000_000..1_001_000]);
        assert_eq!(server.stop().code, Some(0));
    });
}

/// What is too large to be held whole, and what is on a disk, is read once if a cache has room for it; and is the same without one.
fn read_cache(place: Place) {
    const WINDOWS: u64 = LARGE_BYTES.div_ceil(256 << 10) as u64;
    const PIECES: u64 = LARGE_BYTES.div_ceil(16 << 10) as u64;
    scenario(|| {
        let large = Pages::pattern(LARGE_BYTES);
        let (pages, films) = (Pages::new().with("large.bin", &large), Pages::new());
        films.write("cut/large.bin", &large);
        let disk = films.file("films.img").display().to_string();
        let add = ["video", "--disk", &disk, "add", &films.file("cut").display().to_string(), "--size", "64M"];
        Program::new(qanat()).arguments(add).patience(PATIENCE).succeeds();
        // A file that was changed just now is not kept.
        std::thread::sleep(Duration::from_secs(4));
        let downloads = |server: &Server, path: &str| {
            for _ in 0..3 {
                assert!(curl(&[&server.url(path)]) == large);
                assert_eq!(curl(&["-r", "5000000-5999999", &server.url(path)]), large[5_000_000..6_000_000]);
            }
        };
        for kept in ["kernel", "none", "32"] {
            let words = [pages.argument(), "--memory", "4", "--read-cache", kept, "--read-cache-policy", "lru"];
            let mut server = serve("web", place, &words);
            downloads(&server, "/large.bin");
            let figures = server.figures_when("it is counted", |figures| {
                let (web, is_kept) = (&figures["web"], kept == "32");
                let (read, hits) = (web["windows_read"].as_u64(), web["read_cache"]["hits"].as_u64());
                let is_read_once = read == Some(WINDOWS) && hits > Some(2 * WINDOWS);
                if is_kept { is_read_once } else { read > Some(3 * WINDOWS) && hits == Some(0) }
            });
            assert_eq!(figures["web"]["stream_errors"], 0, "{kept}: {figures}");
            ended(place, &server.stop());
        }
        let mut server = serve("video", place, &["--disk", &disk, "--read-cache", "32"]);
        downloads(&server, "/cut/large.bin");
        server.figures_when("it is counted", |figures| {
            let (video, kept) = (&figures["video"], &figures["video"]["read_cache"]);
            video["pieces_read"] == PIECES && kept["pieces"] == PIECES && kept["hits"].as_u64() > Some(2 * PIECES)
        });
        assert_eq!(server.stop().code, Some(0));
    });
}

macro_rules! in_each_placement {
    ($($service:ident),*) => {$(
        mod $service {
            use qanat_tests::e2e::Place;

            #[test]
            fn linked() {
                super::$service(Place::Linked);
            }

            #[test]
            fn split() {
                super::$service(Place::Split);
            }

            #[test]
            fn kernel() {
                super::$service(Place::Kernel);
            }

            #[test]
            fn epoll() {
                super::$service(Place::Epoll);
            }
        }
    )*};
}
in_each_placement!(web, https, dns, echo, kv, cache, video, read_cache);
