//! Under load nothing fails and nothing leaks, and the load generator says what it did.

use qanat_tests::e2e::{Outcome, Pages, Program, Server, Wire, eventually, qanat, resident_kib, scenario};
use serde_json::Value;
use std::net::TcpStream;
use std::time::Duration;

/// The report: the last line of `qanat load … --json`.
fn report(outcome: &Outcome) -> Value {
    let text = outcome.text();
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {text}{}", outcome.stderr))
}

fn load<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Value {
    let program = Program::new(qanat()).arguments(["load", "http", "--json"]).arguments(arguments);
    report(&program.patience(Duration::from_secs(60)).succeeds())
}

#[test]
fn wrk_sees_no_error_and_everything_comes_back() {
    scenario(|| {
        let mut server = Server::start(&["site"]);
        let arguments = ["-t", "2", "-c", "128", "-d", "2s", "--timeout", "20s", &server.url("/images/qanat.png")];
        let text = Program::new("wrk").arguments(arguments).succeeds().text();
        assert!(text.contains("Requests/sec"), "{text}");
        assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
        println!("{text}");
        // All connections are gone while the server runs on, not only because it stops.
        server.figures_when("all connections closed", |figures| figures["usage"]["connections"] == 0);
        let stopped = server.stop();
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        // wrk ends by resetting what is under way.
        let web = &stopped.last["web"];
        assert!(web["connections_broken"].as_u64() <= Some(128), "{web}");
        assert_eq!(web["responses"][1], web["requests"], "all 2xx: {web}");
        println!("usage after: {}", stopped.last["usage"]);
    });
}

/// A client's receiving runs inside the server's sending, and its acknowledgements come meanwhile: none of them may be lost.
#[test]
fn many_large_answers_at_once_lose_no_acknowledgement() {
    // Packets of the second length go by the ring, those of the first in batches without socket buffers.
    for mtu in ["1500", "3000"] {
        scenario(|| {
            let pages = Pages::new().with("1m", Pages::pattern(1 << 20));
            let mut server = Server::start(&[pages.argument(), "--mtu", mtu]);
            let arguments = ["-t", "1", "-c", "64", "-d", "4s", "--timeout", "20s", &server.url("/1m")];
            let text = Program::new("wrk").arguments(arguments).succeeds().text();
            assert!(!text.contains("Socket errors") && !text.contains("Non-2xx"), "{text}");
            server.figures_when("all connections closed", |figures| figures["usage"]["connections"] == 0);
            let stopped = server.stop();
            assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
            let count = |part: &str, name: &str| stopped.last[part][name].as_u64().expect(name);
            let received = count("vnic", "device_receive_frames");
            let lost = count("vnic", "device_receive_ring_full") + count("vnic", "device_receive_no_buffer");
            let (sent, calls) = (count("vnic", "device_transmit_frames"), count("vnic", "device_transmit_doorbells"));
            let injected = count("vnic", "device_transmit_injected");
            println!(
                "MTU {mtu}: {sent} frames, {injected} of them injected, {calls} calls, {received} received, {lost} lost"
            );
            assert!(sent > 10_000, "a load that shows nothing: {}", stopped.last);
            assert!(lost * 1_000 < received, "{lost} of {received}: {}", stopped.last);
            assert!(sent <= calls * 256, "batches are bounded: {}", stopped.last);
            // A machine that gives a process no time for a fifth of a second can cause one, not one for every other connection.
            assert!(count("stack", "timeouts") < 8, "{}", stopped.last);
        });
    }
}

#[test]
fn a_million_requests_leak_nothing() {
    scenario(|| {
        let pages = Pages::new().with("1k", Pages::pattern(1_024));
        let mut server = Server::start(&[pages.argument()]);
        let url = server.url("/1k");
        load([url.as_str(), "-c", "64", "-d", "500ms"]);
        server.figures_when("all connections closed", |figures| figures["usage"]["connections"] == 0);
        let before_kib = resident_kib(server.id());

        let (mut requests, mut connections) = (0, 0);
        for round in 0..80 {
            // A slow machine takes longer for enough to tell.
            if requests >= if round < 8 { 1_000_000 } else { 200_000 } {
                break;
            }
            let kept = load([url.as_str(), "-c", "64", "-d", "2s", "--pipeline", "4"]);
            let new = load([url.as_str(), "-c", "64", "-d", "700ms", "--close"]);
            for report in [&kept, &new] {
                assert_eq!(report["errors_total"].as_u64(), Some(0), "{report}");
                requests += report["requests"].as_u64().unwrap_or(0);
                connections += report["connections_opened"].as_u64().unwrap_or(0);
            }
        }
        println!("{requests} requests on {connections} connections");
        assert!(requests >= 200_000, "only {requests} requests in 80 rounds");
        server.figures_when("all connections closed", |figures| figures["usage"]["connections"] == 0);
        let after_kib = resident_kib(server.id());
        println!("resident memory {before_kib} KiB before, {after_kib} KiB after");
        assert!(after_kib < before_kib + 16 * 1024, "memory grew from {before_kib} to {after_kib} KiB");
        let stopped = server.stop();
        println!("usage after: {}", stopped.last["usage"]);
        assert_eq!((stopped.code, stopped.leaks()), (Some(0), vec![]));
        assert_eq!(stopped.last["vnic"]["device_transmit_invalid"].as_u64(), Some(0));
    });
}

/// The server has the first one's connections in TIME-WAIT when the second begins, at the same addresses.
#[test]
fn the_next_load_from_the_same_address_is_answered() {
    scenario(|| {
        let pages = Pages::new().with("1k", Pages::pattern(1_024));
        let server = Server::start(&[pages.argument()]);
        for duration in ["1s", "6s"] {
            let url = server.url("/1k");
            // One that is challenged has no answer within its five seconds.
            let report = load([url.as_str(), "-c", "64", "-d", duration, "--close", "--source", "10.77.0.77"]);
            assert_eq!(report["errors_total"].as_u64(), Some(0), "{report}");
        }
        let stopped = server.stop();
        assert!(stopped.last["stack"]["tcp_time_wait_reused"].as_u64() > Some(0), "{}", stopped.last);
        assert!(stopped.leaks().is_empty());
    });
}

#[test]
fn an_open_loop_reaches_its_rate() {
    scenario(|| {
        let pages = Pages::new().with("1k", Pages::pattern(1_024));
        let server = Server::start(&[pages.argument()]);
        let report = load([&server.url("/1k"), "-c", "32", "--rate", "5000", "-d", "2s", "--verify"]);
        assert_eq!(report["errors_total"].as_u64(), Some(0), "{report}");
        let rate = report["requests_per_s"].as_f64().unwrap_or(0.0);
        assert!((4_500.0..=5_500.0).contains(&rate), "5,000 a second were asked for: {report}");
        assert!(report["open_loop"].is_object(), "{report}");
        assert!(report["response_time_us"]["p99"].as_f64() > Some(0.0), "{report}");
        assert!(server.stop().leaks().is_empty());
    });
}

#[test]
fn our_client_loads_nginx() {
    scenario(|| {
        let pages = Pages::new().with("root/page.html", Pages::pattern(4_000));
        let configuration = format!(
            "daemon off; worker_processes 1; pid {0}/nginx.pid; error_log {0}/error.log; events {{ worker_connections \
             1024; }} http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {0}/body; \
             proxy_temp_path {0}/proxy; fastcgi_temp_path {0}/fastcgi; uwsgi_temp_path {0}/uwsgi; scgi_temp_path \
             {0}/scgi; server {{ listen 10.78.9.2:80; root {0}/root; }} }}",
            pages.argument()
        );
        pages.write("nginx.conf", format!("user root; {configuration}"));
        let wire = Wire::new();
        let nginx = wire.far(|| {
            Program::new("nginx").arguments(["-c", pages.file("nginx.conf").to_str().unwrap_or_default()]).start()
        });
        eventually("nginx listens", Duration::from_secs(5), || TcpStream::connect("10.78.9.2:80").is_ok());
        for extra in [&["--verify"][..], &["--close"], &["--rate", "2000"]] {
            let fixed = ["http://10.78.9.2/page.html", "-c", "16", "-d", "1s"];
            let report = load(fixed.into_iter().chain(extra.iter().copied()));
            assert_eq!(report["client"], "native", "{report}");
            assert!(report["requests"].as_u64() > Some(0), "{extra:?}: {report}");
            assert_eq!(report["errors_total"].as_u64(), Some(0), "{extra:?}: {report}");
        }
        drop(nginx);
    });
}

#[test]
fn kernel_sockets_load_any_server() {
    scenario(|| {
        let pages = Pages::new().with("page", "some words");
        let arguments = ["-m", "http.server", "8123", "--bind", "127.0.0.1"];
        let _python = Program::new("python3").arguments(arguments).directory(pages.path()).start();
        eventually("python serves", Duration::from_secs(10), || TcpStream::connect("127.0.0.1:8123").is_ok());
        let report = load(["http://127.0.0.1:8123/page", "--kernel", "-c", "4", "-d", "1s", "--close"]);
        assert_eq!(report["client"], "kernel", "{report}");
        assert!(report["requests"].as_u64() > Some(0), "{report}");
        assert_eq!(report["errors_total"].as_u64(), Some(0), "{report}");
        // For people, too; and nobody there is an error with an exit code.
        let text = Program::new(qanat())
            .arguments(["load", "http", "http://127.0.0.1:8123/page", "--kernel", "-d", "300ms"])
            .succeeds()
            .text();
        assert!(text.contains("requests") && text.contains("p99"), "{text}");
        let nobody = Program::new(qanat())
            .arguments(["load", "http", "http://127.0.0.1:9/", "--kernel", "-d", "300ms", "--warm-up", "0ms"])
            .run();
        assert_eq!(nobody.code, Some(1), "{nobody:?}");
        assert!(nobody.stderr.contains("127.0.0.1:9"), "{nobody:?}");
    });
}
