//! What an operator sees of a running server: `ss -i` and `nstat` by a signal.

use qanat_tests::e2e::{Pages, Program, Server, eventually, scenario};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn connections_and_counters_by_signal() {
    report_by_signal("tap", &[]);
    report_by_signal("veth", &["steering_taken_address ", "steering_taken_arp "]);
}

/// With a device of this `kind`, whose program counts `more`.
fn report_by_signal(kind: &'static str, more: &'static [&'static str]) {
    scenario(move || {
        let pages = Pages::new().with("large", Pages::pattern(20 << 20));
        let mut server = Server::start(&[pages.argument(), "--also", "fd77::2/64", "--device", kind]);
        let url = server.url("/large");
        let _slow = Program::new("curl").arguments(["-sS", "--limit-rate", "200K", "-o", "/dev/null", &url]).start();
        server.figures_when("the download has begun", |figures| figures["web"]["requests"] == 1);
        server.signal(Signal::USR1);
        let every = "a report of everything";
        eventually(every, Duration::from_secs(10), || server.errors().contains("device_transmit_doorbells"));
        let report = server.errors();
        println!("{report}");
        let line = report.lines().find(|line| line.starts_with("ESTABLISHED")).expect("the download");
        assert!(line.contains("10.77.0.2:80 10.77.0.1:"), "{line}");
        for what in [
            " rtt:",
            " minrtt:",
            " rto:",
            " mss:1448 ",
            " wscale:",
            " cwnd:",
            " ssthresh:",
            " in_flight:",
            " retransmitted:",
            " sacked:",
            " lost:",
            " bytes_acked:",
            " segments_out:",
            " ts",
            " sack",
            "cubic",
            "address 10.77.0.2/24 usable",
            "address fd77::2/64 usable",
            "neighbour 10.77.0.1 ",
            "tcp_accepted ",
            "receive_frames ",
            "device_receive_frames ",
        ]
        .iter()
        .chain(more)
        {
            assert!(report.to_lowercase().contains(what), "{what} is not in\n{report}");
        }
    });
}

/// What Prometheus asks for.
#[test]
fn figures_of_a_web_server_by_http() {
    scenario(|| {
        let pages = Pages::new().with("page", "text");
        let server = Server::start(&[pages.argument(), "--metrics", "127.0.0.1:9465"]);
        for path in ["/page", "/page", "/none"] {
            Program::new("curl").arguments(["-sS", &server.url(path)]).succeeds();
        }
        let told = || Program::new("curl").arguments(["-sS", "http://127.0.0.1:9465/metrics"]).succeeds().text();
        // They are of the last second.
        eventually("three requests", Duration::from_secs(30), || told().contains("\nqanat_web_requests_total 3\n"));
        let told = told();
        for line in ["responses_total{class=\"2xx\"} 2", "responses_total{class=\"4xx\"} 1", "tls_handshakes_total 0"] {
            assert!(told.contains(&format!("\nqanat_web_{line}\n")), "{line} is not in\n{told}");
        }
        let refused = Server::try_start(&[pages.argument(), "--metrics", "127.0.0.1:9466", "--app-cores", "2"]);
        assert!(refused.is_err_and(|why| why.contains("--metrics is for one process")));
    });
}

#[test]
fn congestion_is_controlled_as_the_administrator_says() {
    scenario(|| {
        let content = Pages::pattern(20 << 20);
        let pages = Pages::new().with("large", &content);
        for algorithm in ["bbr", "reno"] {
            let mut server = Server::start(&[pages.argument(), "--congestion", algorithm]);
            let url = server.url("/large");
            let whole = Program::new("curl").arguments(["-sS", &url]).succeeds();
            assert!(whole.stdout == content, "{algorithm}: {} bytes", whole.stdout.len());
            let slow = ["-sS", "--limit-rate", "200K", "-o", "/dev/null", &url];
            let _slow = Program::new("curl").arguments(slow).start();
            server.figures_when("the download has begun", |figures| figures["web"]["requests"] == 2);
            server.signal(Signal::USR1);
            eventually("a report", Duration::from_secs(10), || server.errors().contains("ESTABLISHED"));
            assert!(server.errors().contains(&format!("    {algorithm} ")), "{}", server.errors());
        }
        let refused = Server::try_start(&[pages.argument(), "--congestion", "vegas"]);
        assert!(refused.err().is_some_and(|message| message.contains("cubic, reno, bbr")));
    });
}
