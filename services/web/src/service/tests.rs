//! The service as its clients see it.

use super::testing::{Bench, START_SECONDS, responses};
use crate::config::{CopyMode, WebConfig, WebError};
use crate::http::date;
use crate::rules::{Rules, Site};
use crate::service::WebService;
use proptest::prelude::*;
use qanat::Event;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

fn site() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("sub dir")).unwrap();
    fs::create_dir_all(at("empty")).unwrap();
    fs::write(at("index.html"), "<p>home</p>").unwrap();
    fs::write(at("sub dir/index.html"), "<p>sub</p>").unwrap();
    fs::write(at("small.txt"), "hello").unwrap();
    fs::write(at("nothing.txt"), "").unwrap();
    fs::write(at("medium.bin"), content(20_000)).unwrap();
    fs::write(at("large.bin"), content(300_000)).unwrap();
    fs::write(at("app.js"), "plain").unwrap();
    fs::write(at("app.js.br"), "brotli").unwrap();
    fs::write(at("app.js.gz"), "gzip").unwrap();
    fs::write(at(".secret"), "no").unwrap();
    directory
}

/// `large.bin` streams.
fn small_windows(config: &mut WebConfig) {
    config.object_bytes_max = 100_000;
    config.window_bytes = 16_384;
    config.windows_max = 8;
}

fn both_modes(mut test: impl FnMut(&mut Bench, &Path)) {
    for copy_mode in [CopyMode::Pre, CopyMode::PerSend] {
        let directory = site();
        let mut bench = Bench::new(directory.path(), |config| {
            small_windows(config);
            config.copy_mode = copy_mode;
        });
        test(&mut bench, directory.path());
        let (prepared, receive) = (bench.stack.prepared.clone(), bench.receive.clone());
        drop(bench);
        assert_eq!((prepared.in_use_count(), receive.in_use_count()), (0, 0), "frames leaked");
    }
}

#[test]
fn files_arrive_whole() {
    both_modes(|bench, _| {
        for (path, body, kind) in [
            ("/", b"<p>home</p>".to_vec(), "text/html; charset=utf-8"),
            ("/sub%20dir/", b"<p>sub</p>".to_vec(), "text/html; charset=utf-8"),
            ("/small.txt?x=%zz", b"hello".to_vec(), "text/plain; charset=utf-8"),
            ("/nothing.txt", Vec::new(), "text/plain; charset=utf-8"),
            ("/medium.bin", content(20_000), "application/octet-stream"),
            ("/large.bin", content(300_000), "application/octet-stream"),
            ("http://example/x/../medium.bin", content(20_000), "application/octet-stream"),
        ] {
            for _ in 0..3 {
                let response = bench.get(path, "");
                assert_eq!(response.status, 200, "{path}");
                assert!(response.body == body, "{path}");
                assert_eq!(response.field("content-type"), Some(kind));
                assert_eq!(response.field("connection"), Some("keep-alive"));
                assert_eq!(response.field("accept-ranges"), Some("bytes"));
                assert_eq!(response.field("date").unwrap().as_bytes(), date::format(START_SECONDS));
                let whole = response;
                let mut head = bench.ask(format!("HEAD {path} HTTP/1.1\r\nHost: example\r\n\r\n"));
                assert_eq!(head.body, b"");
                head.body.clone_from(&whole.body);
                assert_eq!(head, whole);
            }
        }
        assert!(bench.service.figures().fast_path >= 20);
    });
}

#[test]
fn connections_stay_or_close_as_asked() {
    both_modes(|bench, _| {
        for (request, closes) in [
            ("GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n", false),
            ("GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
            ("GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
            ("GET /small.txt HTTP/1.0\r\n\r\n", true),
            ("GET /small.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
            ("GET /none HTTP/1.1\r\nHost: a\r\n\r\n", false),
        ] {
            let id = bench.open();
            let stream = bench.stream(id, request);
            let all = responses(&stream, &[]);
            assert_eq!(all.len(), 1);
            assert_eq!(all[0].field("connection"), Some(if closes { "close" } else { "keep-alive" }), "{request}");
            assert_eq!(bench.stack.connections[&id].is_closed, closes, "{request}");
            bench.end(id);
        }
    });
}

#[test]
fn the_date_is_of_the_second_it_is_sent() {
    both_modes(|bench, _| {
        let id = bench.open();
        for second in 0..4u64 {
            bench.peer.streams.remove(&id);
            let stream = bench.stream(id, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            let response = responses(&stream, &[]).remove(0);
            assert_eq!(response.field("date").unwrap().as_bytes(), date::format(START_SECONDS + second));
            bench.pass(Duration::from_secs(1));
        }
    });
}

#[test]
fn ranges() {
    both_modes(|bench, _| {
        for (path, length) in [("/medium.bin", 20_000usize), ("/large.bin", 300_000)] {
            let body = content(length);
            for (range, expected) in [
                ("0-0", 0..1),
                ("100-16999", 100..17_000),
                ("5000-", 5000..length),
                ("-7", length - 7..length),
                ("0-", 0..length),
                ("0-99, 50-20,60-", 0..0),
            ] {
                let response = bench.get(path, &format!("Range: bytes={range}\r\n"));
                if expected.is_empty() {
                    assert_eq!(response.status, 200, "malformed ranges are ignored");
                    continue;
                }
                assert_eq!(response.status, 206);
                assert!(response.body == body[expected.clone()], "{path} {range}");
                let content_range = format!("bytes {}-{}/{length}", expected.start, expected.end - 1);
                assert_eq!(response.field("content-range"), Some(content_range.as_str()));
            }
            let response = bench.get(path, "Range: bytes=5-9,100-40099,-3\r\n");
            let expected: Vec<_> =
                if length > 40_100 { vec![5..10, 100..40_100, length - 3..length] } else { vec![5..10, 100..length] };
            assert_eq!(response.status, 206);
            check_multipart(&response.body, response.field("content-type").unwrap(), &body, &expected);
            let response = bench.get(path, "Range: bytes=300000-\r\n");
            assert_eq!(response.status, 416);
            assert_eq!(response.field("content-range"), Some(format!("bytes */{length}").as_str()));
            let head = bench.ask(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n"));
            assert_eq!(head.status, 200, "ranges are for GET");
            let etag = bench.get(path, "").field("etag").unwrap().to_owned();
            let with = |value: &str| format!("Range: bytes=0-1\r\nIf-Range: {value}\r\n");
            assert_eq!(bench.get(path, &with(&etag)).status, 206);
            assert_eq!(bench.get(path, &with("\"other\"")).status, 200);
        }
    });
}

fn check_multipart(body: &[u8], content_type: &str, whole: &[u8], expected: &[std::ops::Range<usize>]) {
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut rest = body;
    for (index, range) in expected.iter().enumerate() {
        let head = format!(
            "{}--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            if index == 0 { "" } else { "\r\n" },
            range.start,
            range.end - 1,
            whole.len()
        );
        rest = rest.strip_prefix(head.as_bytes()).expect("part's head");
        rest = rest.strip_prefix(&whole[range.clone()]).expect("part's bytes");
    }
    assert_eq!(rest, format!("\r\n--{boundary}--\r\n").as_bytes());
}

#[test]
fn a_full_stack_is_waited_for() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), small_windows);
    bench.stack.pieces_max = 1;
    let body = content(300_000);
    for path in ["/medium.bin", "/large.bin"] {
        let length = if path == "/large.bin" { 300_000 } else { 20_000 };
        let response = bench.get(path, "Range: bytes=5-9,100-199,300-399,-3\r\n");
        let expected = [5..10, 100..200, 300..400, length - 3..length];
        check_multipart(&response.body, response.field("content-type").unwrap(), &body[..length], &expected);
        assert!(bench.get(path, "").body == body[..length]);
    }
}

#[test]
fn conditions() {
    both_modes(|bench, _| {
        for path in ["/small.txt", "/large.bin"] {
            let first = bench.get(path, "");
            let etag = first.field("etag").unwrap();
            let modified = first.field("last-modified").unwrap();
            let response = bench.get(path, &format!("If-None-Match: {etag}\r\n"));
            assert_eq!((response.status, response.field("etag")), (304, Some(etag)));
            assert_eq!(bench.get(path, &format!("If-Modified-Since: {modified}\r\n")).status, 304);
            assert_eq!(bench.get(path, "If-None-Match: \"x\"\r\n").status, 200);
            assert_eq!(bench.get(path, "If-Match: \"x\"\r\n").status, 412);
            assert_eq!(bench.get(path, &format!("If-Match: {etag}\r\n")).status, 200);
        }
    });
}

#[test]
fn compressed_variants() {
    both_modes(|bench, directory| {
        for (accepted, body, coding) in [
            ("gzip, br", "brotli", Some("br")),
            ("gzip", "gzip", Some("gzip")),
            ("br;q=0.1, gzip;q=0.2", "gzip", Some("gzip")),
            ("deflate", "plain", None),
        ] {
            let response = bench.get("/app.js", &format!("Accept-Encoding: {accepted}\r\n"));
            assert_eq!(response.body, body.as_bytes());
            assert_eq!(response.field("content-encoding"), coding);
            assert_eq!(response.field("vary"), Some("Accept-Encoding"));
            assert_eq!(response.field("content-type"), Some("text/javascript; charset=utf-8"));
        }
        let plain = bench.get("/app.js", "");
        assert_eq!((plain.body.as_slice(), plain.field("vary")), (&b"plain"[..], Some("Accept-Encoding")));
        assert_eq!(bench.get("/small.txt", "Accept-Encoding: gzip\r\n").field("vary"), None);
        // One that appears later is found.
        fs::write(directory.join("small.txt.gz"), "zipped").unwrap();
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.get("/small.txt", "Accept-Encoding: gzip\r\n").body, b"zipped");
    });
}

#[test]
fn refusals() {
    both_modes(|bench, directory| {
        std::os::unix::fs::symlink("/etc/passwd", directory.join("out")).unwrap();
        let long = "x".repeat(9000);
        for (request, status) in [
            ("GET /none HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /empty/ HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /.secret HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /small.txt/ HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /sub%2fdir HTTP/1.1\r\nHost: a\r\n\r\n", 404),
            ("GET /out HTTP/1.1\r\nHost: a\r\n\r\n", 403),
            ("GET /../x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /%2e%2e/x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 405),
            ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
            ("\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n", 400),
            (&format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
            (&format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}{long}\r\n\r\n"), 431),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204),
            ("OPTIONS /x HTTP/1.1\r\nHost: a\r\n\r\n", 204),
            ("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n", 301),
        ] {
            let response = bench.ask(request);
            assert_eq!(response.status, status, "{request}");
            assert_eq!(response.field("allow").is_some(), matches!(status, 204 | 405));
        }
        assert_eq!(bench.get("//sub%20dir?q=1", "").field("location"), Some("/sub%20dir/?q=1"));
        // A refusal lingers: it reads on, so that no reset destroys the answer.
        let id = bench.open();
        bench.stream(id, "nonsense\r\n\r\n");
        assert!(bench.stack.connections[&id].is_shut_down && !bench.stack.connections[&id].is_closed);
        bench.data(id, "more");
        assert_eq!(bench.stack.connections[&id].consumed, 16);
        bench.event(Event::PeerClosed { connection: id });
        assert!(bench.stack.connections[&id].is_closed);
        bench.end(id);
    });
}

#[test]
fn pipelined_requests_are_answered_in_order_and_wait_their_turn() {
    both_modes(|bench, _| {
        let id = bench.open();
        let one = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let paths = ["/small.txt", "/large.bin", "/none", "/medium.bin", "/", "/large.bin", "/nothing.txt"];
        let request: String = paths.iter().map(|path| one(path)).collect();
        let stream = bench.stream(id, &request);
        let statuses: Vec<u16> = responses(&stream, &[]).iter().map(|response| response.status).collect();
        assert_eq!(statuses, [200, 200, 404, 200, 200, 200, 200]);
        assert_eq!(bench.stack.connections[&id].consumed, request.len());
        assert_eq!(responses(&stream, &[])[5].body.len(), 300_000);
        bench.end(id);
        // Beyond the limit of unacknowledged bytes nothing more is answered, nor is more window given.
        bench.service.config.limits.pipeline_bytes_max = 50_000;
        let id = bench.open();
        bench.data(id, one("/medium.bin").repeat(20));
        let sent: usize = bench.stack.connections[&id].sent.len();
        assert_eq!(sent, 3);
        assert_eq!(bench.stack.connections[&id].consumed, 0);
        bench.event(Event::PeerClosed { connection: id });
        bench.run(id);
        assert_eq!(responses(&bench.peer.streams[&id], &[]).len(), 20);
        assert!(bench.stack.connections[&id].is_closed, "after the last answer");
        bench.end(id);
    });
}

#[test]
fn streaming_holds_few_windows() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), small_windows);
    let ids: Vec<_> = (0..40).map(|_| bench.open()).collect();
    for id in &ids {
        bench.data(*id, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // Nobody acknowledges anything.
    for _ in 0..50 {
        bench.service.on_doorbell(&mut bench.stack);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(bench.service.figures().windows_in_use <= 8);
    let body = content(300_000);
    // One after the other they are read to the end, though others hold windows.
    for id in &ids {
        bench.run(*id);
    }
    for id in &ids {
        bench.run(*id);
        let all = responses(&bench.peer.streams[id], &[]);
        assert!(all[0].body == body);
        bench.end(*id);
    }
    assert_eq!(bench.service.figures().windows_in_use, 0);
}

/// Readers finish what they were given.
fn let_readers_finish(bench: &mut Bench) {
    for _ in 0..50 {
        bench.service.on_doorbell(&mut bench.stack);
        std::thread::sleep(Duration::from_millis(1));
    }
}

// Attack: time and cost: large files read slowly, on more connections than there are windows
#[test]
fn slow_readers_of_one_peer_leave_windows_for_others() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), small_windows);
    let slow: Vec<_> = (0..30).map(|number| bench.open_from(&format!("198.51.100.1:{}", 1_000 + number))).collect();
    for id in &slow {
        bench.data(*id, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let_readers_finish(&mut bench);
    let held = bench.service.figures();
    assert!(held.windows_in_use == 4 && held.window_share_waits > 0, "{held:?}");
    // All of its connections wait; those of others are served to the end, one after the other.
    for number in 0..5 {
        let other = bench.open_from(&format!("203.0.113.{number}:1000"));
        let stream = bench.stream(other, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(responses(&stream, &[])[0].body == content(300_000));
        bench.end(other);
    }
    // An IPv6 network is one peer, whatever addresses it uses.
    for number in 0..20 {
        let id = bench.open_from(&format!("[2001:db8::{number:x}]:1000"));
        bench.data(id, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let_readers_finish(&mut bench);
    assert_eq!(bench.service.figures().windows_in_use, 6);
}

// Attack: time and cost: an answer taken some bytes at a time
#[test]
fn who_takes_too_little_is_reset() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), |config| {
        small_windows(config);
        // Nothing given to the stack in memory is let go of, so windows must not run out.
        config.windows_max = 1_024;
    });
    let ask = |bench: &mut Bench| {
        let id = bench.open();
        bench.data(id, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        id
    };
    let (trickling, slow, quick) = (ask(&mut bench), ask(&mut bench), ask(&mut bench));
    let_readers_finish(&mut bench);
    bench.run(quick);
    // Each takes something each second, so the send time-out alone would keep them for ever.
    for second in 0..125 {
        bench.event(Event::Acked { connection: trickling, bytes: 10 });
        bench.event(Event::Acked { connection: slow, bytes: 1_050 });
        bench.pass(Duration::from_secs(1));
        assert!(second > 55 || !bench.stack.connections[&trickling].is_aborted, "{second}");
    }
    let aborted = [trickling, slow].map(|id| bench.stack.connections[&id].is_aborted);
    assert_eq!(aborted, [true, false], "{:?}", bench.service.figures());
    let figures = bench.service.figures();
    assert_eq!((figures.timeouts_rate, figures.timeouts_send, figures.windows_taken_back), (1, 0, 0));
}

// Attack: time and cost: all windows of large files held, from many addresses
#[test]
fn scarce_windows_are_taken_back() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), small_windows);
    // So many peers that each has its share: all windows are out.
    let slow: Vec<_> = (0..8).map(|number| bench.open_from(&format!("198.51.100.{number}:1000"))).collect();
    for id in &slow {
        bench.data(*id, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let_readers_finish(&mut bench);
    assert_eq!(bench.service.figures().windows_in_use, 8);
    let other = bench.open_from("203.0.113.1:1000");
    bench.data(other, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..15 {
        for id in &slow {
            bench.event(Event::Acked { connection: *id, bytes: 10 });
        }
        bench.pass(Duration::from_secs(1));
    }
    // Their connections are gone, and what they were lent with them.
    let given_up: Vec<_> = slow.iter().filter(|id| bench.stack.connections[id].is_aborted).copied().collect();
    assert!(given_up.len() >= 4, "{}", given_up.len());
    assert_eq!(bench.service.figures().windows_taken_back, given_up.len() as u64);
    given_up.into_iter().for_each(|id| bench.end(id));
    bench.run(other);
    assert!(responses(&bench.peer.streams[&other], &[])[0].body == content(300_000));
}

// Attack: time and cost: all connections of a web server held from one address
#[test]
fn one_peer_has_not_all_connections() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), |config| config.limits.connections_per_peer = 3);
    let ids: Vec<_> = (0..4).map(|_| bench.open()).collect();
    assert!(!bench.stack.connections[&ids[2]].is_refused && bench.stack.connections[&ids[3]].is_refused);
    let other = bench.open_from("203.0.113.1:1000");
    assert!(!bench.stack.connections[&other].is_refused);
    bench.end(ids[0]);
    let again = bench.open();
    assert!(!bench.stack.connections[&again].is_refused);
    let figures = bench.service.figures();
    assert_eq!((figures.connections_refused, figures.connections_refused_peer), (1, 1));
}

#[test]
fn a_file_that_shrinks_under_way_ends_in_a_reset() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), small_windows);
    assert_eq!(bench.get("/large.bin", "").status, 200);
    fs::OpenOptions::new().write(true).open(directory.path().join("large.bin")).unwrap().set_len(50_000).unwrap();
    let id = bench.open();
    bench.stream(id, "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(bench.stack.connections[&id].is_aborted);
    assert_eq!(bench.service.figures().stream_errors, 1);
}

#[test]
fn changes_take_effect_and_disturb_nobody() {
    both_modes(|bench, directory| {
        assert_eq!(bench.get("/small.txt", "").body, b"hello");
        // A response under way keeps its content.
        let id = bench.open();
        bench.data(id, "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        fs::write(directory.join("small.txt"), "changed!").unwrap();
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.get("/small.txt", "").body, b"changed!");
        bench.run(id);
        assert_eq!(responses(&bench.peer.streams[&id], &[])[0].body, b"hello");
        bench.end(id);
        fs::remove_file(directory.join("small.txt")).unwrap();
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.get("/small.txt", "").status, 404);
        fs::write(directory.join("small.txt"), "again").unwrap();
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.get("/small.txt", "").body, b"again");
        // A reload acts at once.
        fs::write(directory.join("small.txt"), "reloaded").unwrap();
        bench.service.handle().reload();
        bench.service.on_doorbell(&mut bench.stack);
        assert_eq!(bench.get("/small.txt", "").body, b"reloaded");
    });
}

#[test]
fn a_reload_follows_a_switched_root() {
    let releases = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(releases.path().join(name)).unwrap();
        fs::write(releases.path().join(name).join("a"), name).unwrap();
    }
    let current = releases.path().join("current");
    std::os::unix::fs::symlink("one", &current).unwrap();
    let mut bench = Bench::new(&current, |_| {});
    assert_eq!(bench.get("/a", "").body, b"one");
    fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink("two", &current).unwrap();
    bench.service.reload();
    assert_eq!(bench.get("/a", "").body, b"two");
}

#[test]
fn time_outs() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), small_windows);
    let silent = bench.open();
    let slow = bench.open();
    bench.data(slow, "GET / HT");
    let idle = bench.open();
    bench.stream(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let stuck = bench.open();
    bench.data(stuck, "GET /medium.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50));
    bench.service.on_doorbell(&mut bench.stack);
    for _ in 0..9 {
        bench.pass(Duration::from_secs(1));
        bench.data(slow, "x");
    }
    assert!(!bench.stack.connections[&slow].is_shut_down && !bench.stack.connections[&silent].is_closed);
    bench.pass(Duration::from_secs(4));
    assert!(bench.stack.connections[&silent].is_closed);
    bench.run(slow);
    assert_eq!(responses(&bench.peer.streams[&slow], &[])[0].status, 408);
    bench.pass(Duration::from_secs(4));
    assert!(bench.stack.connections[&slow].is_closed, "lingering ends");
    assert!(!bench.stack.connections[&idle].is_closed && !bench.stack.connections[&stuck].is_aborted);
    bench.pass(Duration::from_secs(62));
    assert!(bench.stack.connections[&idle].is_closed && bench.stack.connections[&stuck].is_aborted);
    let figures = bench.service.figures();
    assert_eq!((figures.timeouts_head, figures.timeouts_idle, figures.timeouts_send), (2, 1, 1));
}

#[test]
fn limits_and_stopping() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), |config| {
        config.limits.connections_max = 4;
        config.limits.requests_max = 2;
    });
    let ids: Vec<_> = (0..5).map(|_| bench.open()).collect();
    assert!(bench.stack.connections[&ids[4]].is_refused);
    let request = "GET /medium.bin HTTP/1.1\r\nHost: a\r\n\r\n";
    bench.stream(ids[0], request);
    let stream = bench.stream(ids[0], request);
    let all = responses(&stream, &[]);
    assert_eq!(all[0].field("connection"), Some("keep-alive"));
    assert_eq!(all[1].field("connection"), Some("close"));
    bench.end(ids[0]);
    bench.data(ids[1], request);
    bench.data(ids[2], "GET /sma");
    bench.data(ids[3], "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    bench.service.on_stop(&mut bench.stack);
    assert!(bench.stack.listeners.is_empty());
    assert!(bench.stack.connections[&ids[2]].is_closed);
    for id in [ids[1], ids[3]] {
        bench.run(id);
        assert_eq!(responses(&bench.peer.streams[&id], &[]).len(), 1);
        assert!(bench.stack.connections[&id].is_closed);
    }
    assert!(!qanat::Service::is_finished(&bench.service));
    for id in &ids[1..4] {
        bench.end(*id);
    }
    assert!(qanat::Service::is_finished(&bench.service));
    let late = bench.open();
    assert!(bench.stack.connections[&late].is_refused);
}

#[test]
fn virtual_hosts() {
    let (directory, other) = (site(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("index.html"), "other").unwrap();
    let mut bench = Bench::new(directory.path(), |config| {
        let rules = Rules { cache_control: Some("no-store".to_owned()), ..Rules::default() };
        config.sites.push(Site { hosts: vec!["Other.example".into()], root: other.path().into(), rules });
    });
    for _ in 0..2 {
        for (host, body) in [("other.EXAMPLE:80", "other"), ("other.example.", "other"), ("x", "<p>home</p>")] {
            let response = bench.ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(response.body, body.as_bytes(), "{host}");
            let own = (body == "other").then_some("no-store");
            assert_eq!(response.field("cache-control"), own, "{host}");
        }
    }
    let response = bench.ask("GET http://other.example/ HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(response.body, b"other");
}

#[test]
fn memory_stays_within_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..50 {
        fs::write(directory.path().join(number.to_string()), content(10_000 + number)).unwrap();
    }
    let mut bench = Bench::new(directory.path(), |config| config.memory_bytes_max = 100_000);
    for round in 0..3 {
        for number in 0..50 {
            let response = bench.get(&format!("/{}", (number * 7 + round) % 50), "");
            assert!(response.body == content(10_000 + (number * 7 + round) % 50));
            assert!(bench.service.figures().cached_bytes <= 100_000);
        }
    }
    let figures = bench.service.figures();
    assert!(figures.evictions > 50);
    assert!(bench.stack.prepared.in_use_count() <= 256);
    assert!(serde_json::to_string(&figures).unwrap().contains("\"evictions\""));
}

#[test]
fn preloading_and_the_log() {
    let (directory, logs) = (site(), tempfile::tempdir().unwrap());
    let log = logs.path().join("access");
    let mut bench = Bench::new(directory.path(), |config| {
        config.preload = true;
        config.access_log = Some(log.clone());
    });
    let figures = bench.service.figures();
    assert_eq!((figures.cached_objects, figures.lookups), (9, 0));
    assert_eq!(bench.get("/sub%20dir/", "").body, b"<p>sub</p>");
    assert_eq!(bench.service.figures().lookups, 0);
    bench.get("/none", "User-Agent: me\r\n");
    drop(bench);
    let text = fs::read_to_string(log).unwrap();
    assert!(text.contains("\"GET /sub%20dir/ HTTP/1.1\" 200 "), "{text}");
    assert!(text.contains("\"GET /none HTTP/1.1\" 404 "), "{text}");
    assert!(text.ends_with("\"-\" \"me\"\n"), "{text}");
}

#[test]
fn a_bad_configuration_is_named() {
    let error = WebService::new(WebConfig::new("/nonexistent/site")).unwrap_err();
    assert!(matches!(error, WebError::Root { .. }));
    assert!(error.to_string().contains("/nonexistent/site") && error.to_string().contains("Create it"));
    let directory = site();
    let mut config = WebConfig::new(directory.path());
    config.access_log = Some("/nonexistent/log".into());
    assert!(matches!(WebService::new(config), Err(WebError::AccessLog { .. })));
    let mut config = WebConfig::new(directory.path());
    config.rules.cache_control = Some("a\r\nSet-Cookie: b".into());
    assert!(matches!(WebService::new(config), Err(WebError::Value { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However the bytes of requests are cut into chunks, the same bytes are answered.
    #[test]
    fn any_split_is_answered_alike(cuts in proptest::collection::vec(0usize..260, 0..12), pre_copy: bool) {
        let directory = site();
        let mut bench = Bench::new(directory.path(), |config| {
            config.copy_mode = if pre_copy { CopyMode::Pre } else { CopyMode::PerSend };
        });
        let requests = "GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n\r\nHEAD /medium.bin HTTP/1.1\r\nHost: a\r\n\r\n\
            GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET /medium.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=1-1500\r\n\r\n\
            GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let whole = bench.open();
        let expected = bench.stream(whole, requests);
        prop_assert_eq!(responses(&expected, &[false, true]).len(), 5);
        let id = bench.open();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % requests.len()).collect();
        cuts.push(requests.len());
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts {
            bench.data(id, &requests[from..cut]);
            from = cut;
        }
        bench.run(id);
        prop_assert!(bench.peer.streams[&id] == expected);
        prop_assert!(bench.stack.connections[&id].is_closed);
        prop_assert_eq!(bench.stack.connections[&id].consumed, requests.len());
    }

    /// Nothing a client sends makes the service panic, hang or keep frames.
    #[test]
    fn nothing_breaks_it(parts in proptest::collection::vec((0usize..3, prop_oneof![
        Just("GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()), Just("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        Just("GET ".to_owned()), Just("/medium.bin".to_owned()), Just(" HTTP/1.1\r\n".to_owned()), Just("Host: a\r\n".to_owned()),
        Just("\r\n".to_owned()), Just("\n".to_owned()), Just("Range: bytes=1-2,5-900,-4\r\n".to_owned()),
        Just("Connection: close\r\n".to_owned()), Just("!close".to_owned()), Just("!tick".to_owned()), Just("!end".to_owned()),
        Just("!stop".to_owned()), Just("!run".to_owned()), "[ -~]{0,30}",
    ]), 0..60)) {
        let directory = site();
        let mut bench = Bench::new(directory.path(), small_windows);
        let mut ids = [bench.open(), bench.open(), bench.open()];
        for (index, part) in parts {
            let id = ids[index];
            match part.as_str() {
                "!close" => bench.event(Event::PeerClosed { connection: id }),
                "!tick" => bench.pass(Duration::from_secs(20)),
                "!end" => { bench.end(id); ids[index] = bench.open(); }
                "!stop" => bench.service.on_stop(&mut bench.stack),
                "!run" => bench.run(id),
                text => bench.data(id, text),
            }
        }
        for id in ids {
            bench.run(id);
            bench.end(id);
        }
        prop_assert_eq!(bench.service.figures().connections_open, 0);
        prop_assert_eq!(bench.receive.in_use_count(), 0);
        bench.service.on_doorbell(&mut bench.stack);
    }
}

/// Prints what a cached request costs: `cargo test --release -p qanat-web cost -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost_of_a_cached_request() {
    let directory = site();
    let mut bench = Bench::new(directory.path(), |_| {});
    let id = bench.open();
    let request = "GET /small.txt HTTP/1.1\r\nHost: 10.77.0.2\r\nUser-Agent: wrk\r\nAccept: */*\r\n\r\n";
    bench.stream(id, request);
    const COUNT: u32 = 1_000_000;
    let start = std::time::Instant::now();
    for _ in 0..COUNT {
        bench.data(id, request);
        let sent = bench.stack.connections.get_mut(&id).unwrap().sent.drain(..).count();
        assert_eq!(sent, 1);
        bench.event(Event::Acked { connection: id, bytes: 350 });
    }
    println!("{} ns per request, Data and Acked together", start.elapsed().as_nanos() / u128::from(COUNT));
}
