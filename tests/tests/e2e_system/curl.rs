//! What curl gets is what is in the files.

use qanat_tests::e2e::{Client, Pages, Program, Server, eventually, scenario, workspace};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// curl without progress, that fails only if the transfer does; prints what `-w` asks for.
fn curl<const COUNT: usize>(arguments: [&str; COUNT]) -> String {
    let outcome = Program::new("curl").arguments(["-sS", "--max-time", "20"]).arguments(arguments).succeeds();
    outcome.text()
}

fn status<const COUNT: usize>(arguments: [&str; COUNT]) -> String {
    let fixed = ["-sS", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{content_type}"];
    Program::new("curl").arguments(fixed).arguments(arguments).succeeds().text()
}

fn bytes(url: &str) -> Vec<u8> {
    Program::new("curl").arguments(["-sS", "--max-time", "20", url]).succeeds().stdout
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("a readable directory").flatten() {
            let path = entry.path();
            if path.is_dir() { pending.push(path) } else { files.push(path) }
        }
    }
    files
}

#[test]
fn every_file_of_the_sample_site_arrives_byte_for_byte_in_both_copy_modes() {
    scenario(|| {
        let site = workspace().join("site");
        let files = files_below(&site);
        assert!(files.len() >= 5, "the sample site has files");
        for mode in ["pre", "per-send"] {
            let server = Server::start(&["site", "--copy", mode]);
            for file in &files {
                let path = file.strip_prefix(&site).expect("a file of the site").display().to_string();
                let content = std::fs::read(file).expect("a readable file");
                let url = server.url(&format!("/{path}"));
                assert!(bytes(&url) == content, "{path} differs, copy mode {mode}");
                let head = curl(["-I", &url]);
                assert!(head.contains(&format!("Content-Length: {}\r\n", content.len())), "{head}");
            }
            assert_eq!(bytes(&server.url("/")), std::fs::read(site.join("index.html")).expect("the index"));
            let stopped = server.stop();
            assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        }
    });
}

#[test]
fn every_way_to_run_it_serves_the_same_bytes() {
    scenario(|| {
        let content = Pages::pattern(3_000_000);
        let pages = Pages::new().with("data", &content).with("small", "few words");
        for options in [
            &["--mtu", "9000"][..],
            &["--mtu", "9000", "--copy", "per-send"],
            &["--mtu", "576"],
            &["--mtu", "3000", "--copy", "per-send", "--memory", "16"],
            &["--spin", "never"],
            &["--spin", "always", "--force-copy"],
            &["--preload", "--cache-control", "max-age=60"],
            // Far too few ready frames: the rest is copied for each sending.
            &["--frame-memory", "1"],
            &["--port", "8080"],
        ] {
            let mut server = Server::start(&[&[pages.argument()], options].concat());
            let outcome = Program::new("curl").arguments(["-sS", "--max-time", "10", &server.url("/data")]).run();
            if outcome.stdout != content {
                let sockets = Program::new("ss").arguments(["-tin"]).run().text();
                panic!("{options:?}: {}\n{}\n{sockets}", outcome.stderr, server.figures());
            }
            assert_eq!(curl([&server.url("/small")]), "few words", "{options:?}");
            let cached = curl(["-I", &server.url("/data")]).contains("Cache-Control: max-age=60\r\n");
            assert_eq!(cached, options.contains(&"--preload"), "{options:?}");
            let stopped = server.stop();
            assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]), "{options:?}");
        }
    });
}

#[test]
fn ranges_conditions_directories_and_old_clients() {
    scenario(|| {
        let content = Pages::pattern(100_000);
        let pages = Pages::new().with("data.bin", &content).with("below/index.html", "<p>below</p>");
        let server = Server::start(&[pages.argument()]);
        let url = server.url("/data.bin");

        let one = Program::new("curl").arguments(["-sS", "-r", "1000-1999", &url]).succeeds();
        assert!(one.stdout == content[1_000..2_000], "one range");
        let last = Program::new("curl").arguments(["-sS", "-r", "-7", &url]).succeeds();
        assert_eq!(last.stdout, content[99_993..]);
        let several = Program::new("curl").arguments(["-sS", "-r", "0-9,50000-50009", &url]).succeeds();
        let text = String::from_utf8_lossy(&several.stdout).into_owned();
        assert!(text.contains("Content-Range: bytes 0-9/100000\r\n"), "{text}");
        assert!(text.contains("Content-Range: bytes 50000-50009/100000\r\n"), "{text}");
        for part in [&content[..10], &content[50_000..50_010]] {
            assert!(several.stdout.windows(10).any(|ten| ten == part), "a part's bytes");
        }
        assert!(status(["-r", "100000-", &url]).starts_with("416 "));
        assert_eq!(status(["-r", "0-0", &url]), "206 1 application/octet-stream");

        // A download that was cut off goes on where it was.
        let half = pages.file("half");
        std::fs::write(&half, &content[..40_000]).expect("writing half a file");
        let half_name = half.to_str().expect("a plain name");
        curl(["-C", "-", "-o", half_name, &url]);
        assert!(std::fs::read(&half).expect("the whole") == content, "resumed download");

        let head = curl(["-I", &url]);
        let etag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("an ETag");
        assert!(status(["-H", &format!("If-None-Match: {etag}"), &url]).starts_with("304 0"));
        assert!(status(["-H", "If-None-Match: \"other\"", &url]).starts_with("200 100000"));
        let date = head.lines().find_map(|line| line.strip_prefix("Last-Modified: ")).expect("a date");
        assert!(status(["-z", date, &url]).starts_with("304 0"));
        let stale = "If-Range: \"other\"";
        assert!(status(["-H", stale, "-r", "0-9", &url]).starts_with("200 100000"), "If-Range with a stale tag");

        assert!(status([&server.url("/below")]).starts_with("301 "));
        assert_eq!(curl(["-L", &server.url("/below")]), "<p>below</p>");
        assert!(status([&server.url("/none")]).starts_with("404 "));
        assert!(
            status(["--path-as-is", &server.url("/../../etc/passwd")]).starts_with("404 ")
                || status(["--path-as-is", &server.url("/../../etc/passwd")]).starts_with("400 ")
        );
        assert!(status(["-X", "DELETE", &url]).starts_with("405 "));
        assert!(
            status(["-X", "OPTIONS", &url]).starts_with("204 ") || status(["-X", "OPTIONS", &url]).starts_with("200 ")
        );
        let old = Program::new("curl").arguments(["-sS", "--http1.0", &url]).succeeds();
        assert!(old.stdout == content, "HTTP/1.0");
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn ipv6_is_served_like_ipv4() {
    scenario(|| {
        let content = Pages::pattern(300_000);
        let pages = Pages::new().with("data", &content);
        let server = Server::start(&[pages.argument(), "--also", "fd77::2/64"]);
        for url in ["http://[fd77::2]/data", "http://10.77.0.2/data"] {
            assert!(bytes(url) == content, "{url}");
        }
        assert_eq!(server.announcement()["urls"][1], "http://[fd77::2]/");
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
    });
}

#[test]
fn large_files_stream_and_small_memory_is_enough() {
    scenario(|| {
        let content = Pages::pattern(40 << 20);
        let pages = Pages::new().with("large.bin", &content);
        let mut server = Server::start(&[pages.argument(), "--memory", "8"]);
        let url = server.url("/large.bin");
        assert!(bytes(&url) == content, "40 MiB");
        let part = Program::new("curl").arguments(["-sS", "-r", "30000000-30999999", &url]).succeeds();
        assert!(part.stdout == content[30_000_000..31_000_000], "a range of a streamed file");
        let figures = server.figures();
        assert!(figures["web"]["windows_read"].as_u64() > Some(100), "streamed from disk: {figures}");
        assert!(figures["web"]["cached_bytes"].as_u64() <= Some(8 << 20), "within the memory given");
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn compressed_siblings_are_negotiated() {
    scenario(|| {
        let page = "<!doctype html><p>A page worth compressing.</p>\n".repeat(500);
        let pages = Pages::new().with("page.html", &page);
        let path = pages.file("page.html");
        Program::new("gzip").arguments(["-k", "-9"]).arguments([&path]).succeeds();
        Program::new("brotli").arguments(["-k"]).arguments([&path]).succeeds();
        let server = Server::start(&[pages.argument()]);
        let url = server.url("/page.html");
        for (coding, suffix) in [("gzip", "gz"), ("br", "br")] {
            let accept = format!("Accept-Encoding: {coding}");
            let packed = Program::new("curl").arguments(["-sS", "-H", &accept, &url]).succeeds();
            let expected = std::fs::read(format!("{}.{suffix}", path.display())).expect("the sibling");
            assert!(packed.stdout == expected, "{coding}");
            let head = curl(["-I", "-H", &accept, &url]);
            assert!(head.contains(&format!("Content-Encoding: {coding}\r\n")), "{head}");
            assert!(head.contains("Vary: Accept-Encoding\r\n"), "{head}");
        }
        // curl unpacks both itself when it may choose.
        assert_eq!(curl(["--compressed", &url]), page);
        let head = curl(["-I", &url]);
        assert!(!head.contains("Content-Encoding") && head.contains("Vary: Accept-Encoding\r\n"), "{head}");
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn virtual_hosts_are_told_apart() {
    scenario(|| {
        let (first, second) = (Pages::new().with("index.html", "first"), Pages::new().with("index.html", "second"));
        let host = format!("blog.example={}", second.argument());
        let server = Server::start(&[first.argument(), "--host", &host]);
        let url = server.url("/");
        assert_eq!(curl([&url]), "first");
        assert_eq!(curl(["-H", "Host: blog.example", &url]), "second");
        assert_eq!(curl(["-H", "Host: BLOG.example:80", &url]), "second");
        assert_eq!(curl(["--connect-to", "::10.77.0.2:80", "http://blog.example/"]), "second");
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn a_reload_and_a_stop_leave_downloads_alone() {
    scenario(|| {
        let content = Pages::pattern(24 << 20);
        let logs = Pages::new();
        let pages =
            Pages::new().with("page", "before").with("large.bin", &content).with("middle.bin", &content[..9 << 20]);
        let log = logs.file("access.log");
        let log_name = log.to_str().expect("a plain name");
        let mut server = Server::start(&[pages.argument(), "--access-log", log_name]);
        assert_eq!(curl([&server.url("/page")]), "before");

        // One streamed from disk and one out of memory; neither can end before its client reads on.
        let begin = |path: &str| {
            let mut client = Client::connect(server.address()).expect("a connection");
            client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).expect("asking");
            assert!(client.some(1).is_ok(), "{path} begins");
            client
        };
        let (mut large, mut middle) = (begin("/large.bin"), begin("/middle.bin"));
        pages.write("page", "after");
        std::fs::rename(&log, logs.file("access.log.1")).expect("rotating the log");
        server.signal(Signal::HUP);
        eventually("the changed file is served", Duration::from_secs(10), || curl([&server.url("/page")]) == "after");
        // The log is opened anew with the next tick, four times a second.
        eventually("the log is a new file", Duration::from_secs(10), || log.exists());
        assert_eq!(curl([&server.url("/page")]), "after");

        let address = server.address();
        server.signal(Signal::TERM);
        eventually("a stopping server takes no more", Duration::from_secs(5), || Client::connect(address).is_err());
        assert!(server.is_running(), "downloads are waited for");
        // Their first byte was taken above.
        assert!(large.rest().expect("the streamed download").ends_with(&content), "it is whole");
        assert!(middle.rest().expect("the cached download").ends_with(&content[..9 << 20]), "it is whole");
        drop((large, middle));
        let stopped = server.wait();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));

        let old = std::fs::read_to_string(logs.file("access.log.1")).expect("the old log");
        let new = std::fs::read_to_string(&log).expect("the new log: HUP reopens it");
        assert!(old.lines().next().is_some_and(is_combined_line), "{old}");
        assert!(old.contains("\"GET /page HTTP/1.1\" 200 6 \"-\" \"curl/"), "{old}");
        assert!(new.contains("\"GET /page HTTP/1.1\" 200 5 \"-\" \"curl/"), "{new}");
    });
}

/// `10.77.0.1 - - [21/Nov/2026:11:43:44 +0000] "GET / HTTP/1.1" 200 1030 "-" "curl/7.88.1"`
fn is_combined_line(line: &str) -> bool {
    let Some((peer, rest)) = line.split_once(" - - [") else { return false };
    let Some((time, rest)) = rest.split_once("] \"") else { return false };
    let pieces: Vec<&str> = rest.split('"').collect();
    let [_request, numbers, _referer, _space, _agent, end] = pieces.as_slice() else { return false };
    peer.parse::<std::net::IpAddr>().is_ok()
        && time.len() == "21/Nov/2026:11:43:44 +0000".len()
        && numbers.split_whitespace().all(|number| number.parse::<u64>().is_ok())
        && end.is_empty()
}

#[test]
fn a_thousand_requests_on_one_connection_pipelined() {
    scenario(|| {
        let content = Pages::pattern(3_000);
        let pages = Pages::new().with("a", &content).with("b", &content[..100]);
        let server = Server::start(&[pages.argument()]);
        let mut client = Client::connect(server.address()).expect("a connection");
        for _ in 0..10 {
            let requests: String = (0..100)
                .map(|number| format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", if number % 3 == 0 { "b" } else { "a" }))
                .collect();
            client.send(requests.as_bytes()).expect("sending");
            for number in 0..100 {
                let answer = client.answer().expect("an answer");
                let expected = if number % 3 == 0 { &content[..100] } else { &content[..] };
                assert!(answer.status == 200 && answer.body == expected, "answer {number}");
            }
        }
        drop(client);
        let stopped = server.stop();
        assert_eq!((stopped.leaks(), stopped.last["web"]["requests"].as_u64()), (vec![], Some(1_000)));
    });
}
