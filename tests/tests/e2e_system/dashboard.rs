//! The daemon's dashboard in a real browser, and where it goes when its daemon ends.

use qanat_tests::e2e::{House, Pages, Program, Running, chromium, eventually, process, qanat, scenario};
use rustix::process::{Signal, kill_process};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(30);
const ADDRESS: &str = "127.0.0.1:9480";

fn get(path: &str) -> String {
    let url = format!("http://{ADDRESS}/{path}");
    Program::new("curl").arguments(["--silent", "--show-error", "--include", "--max-time", "5", &url]).run().text()
}

/// The page as a browser has it after so many seconds of its own time, which does not pass while it waits for an answer.
fn seen_after(seconds: u32) -> String {
    let profile = Pages::new();
    let browser = chromium(&format!("http://{ADDRESS}/"), &profile);
    browser.arguments([&format!("--virtual-time-budget={seconds}000"), "--dump-dom"]).succeeds().text()
}

fn seen() -> String {
    seen_after(6)
}

/// The user of whoever listens there.
fn user() -> Option<u32> {
    let listing = Program::new("ss").arguments(["-Htlnp", "sport", "=", ":9480"]).run().text();
    let process: u32 = listing.split("pid=").nth(1)?.split(',').next()?.parse().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

#[test]
fn a_browser_sees_cards_and_drops_and_the_page_comes_and_goes_with_the_daemon() {
    scenario(|| {
        Program::new("ip").arguments(["link", "set", "lo", "up"]).succeeds();
        let house = House::with_settings("0", &format!("dashboard = \"{ADDRESS}\""));
        eventually("there is a page", GRACE, || get("").contains("dashboard.js"));
        eventually("it has a status", GRACE, || get("status.json").contains("\"vnics\""));
        assert!(get("").contains("Content-Security-Policy: default-src 'self'"), "{}", get(""));
        assert!(get("nothing").starts_with("HTTP/1.1 404 "), "{}", get("nothing"));
        let text = seen();
        assert!(text.contains("Nobody has a card.") && text.contains("requests served"), "{text}");
        assert_eq!(user(), Some(65534));

        // A name that would be a script, if it were not text.
        let create = ["vnic", "create", "<img src=x onerror=document.title='broken'>", "--address", "10.77.0.9/24"];
        Program::new(qanat()).arguments(create).environment("QANAT_SOCKET", house.socket()).succeeds();
        let echo: Running = house.start(&["echo", "--address", "10.77.0.8/24", "--placement", "split"]);
        eventually("there is an echo", GRACE, || get("status.json").contains("10.77.0.8"));
        let text = seen();
        assert!(text.contains("<td>10.77.0.8/24</td>") && text.contains("<td>echo</td>"), "{text}");
        assert!(text.contains("&lt;img src=x") && text.contains("<title>Qanat</title>"), "{text}");
        // While packets come and go, a line rises from the ground, 19, to the top, 1. The browser's time is faster than the status': its
        // minute may be too short for one with news.
        let _ping = Program::new("ping").arguments(["-q", "-i", "0.01", "10.77.0.8"]).start();
        eventually("a rate is drawn", GRACE, || {
            let text = seen_after(60);
            text.contains(",1 ") || text.contains(",1\"")
        });
        drop(echo);

        // Started anew, the daemon has a new one; killed, none.
        let daemon = process(house.daemon().into());
        kill_process(daemon, Signal::HUP).expect("a reload");
        eventually("the daemon is another", GRACE, || get("status.json").contains("\"uptime_s\":0"));
        kill_process(daemon, Signal::KILL).expect("a crash");
        eventually("there is no page", GRACE, || get("").is_empty());
    });
}

/// Without rights, with a daemon that isn't there: the page says so.
#[test]
fn it_tells_that_there_is_no_daemon() {
    scenario(|| {
        Program::new("ip").arguments(["link", "set", "lo", "up"]).succeeds();
        let place = qanat_tests::e2e::directory_for_anybody();
        let command = qanat_tests::e2e::qanat_for_anybody(place.path());
        let socket = place.path().join("no.sock");
        let program = Program::new("setpriv").arguments(qanat_tests::e2e::NOBODY).arguments([&command]);
        let _dashboard = program.arguments(["dashboard", "--socket"]).arguments([&socket]).start();
        eventually("it says so", GRACE, || get("status.json").contains("start the daemon with"));
        let text = seen();
        assert!(text.contains("start the daemon with `sudo qanat up`"), "{text}");
    });
}
