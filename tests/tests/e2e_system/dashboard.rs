//! The daemon's dashboard in a real browser, and where it goes when its daemon ends.

use qanat_tests::e2e::{
    House, NOBODY, Pages, Program, Running, chromium, directory_for_anybody, eventually, process, qanat,
    qanat_for_anybody, scenario,
};
use rustix::process::{Signal, kill_process};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(30);

fn get(url: &str) -> String {
    Program::new("curl").arguments(["--silent", "--show-error", "--include", "--max-time", "5", url]).run().text()
}

/// The page as a browser has it after so many seconds of its own time, which does not pass while it waits for an answer.
fn seen_after(seconds: u32, url: &str) -> String {
    let profile = Pages::new();
    let time = format!("--virtual-time-budget={seconds}000");
    chromium(url, &profile).arguments([time.as_str(), "--dump-dom"]).succeeds().text()
}

fn seen(url: &str) -> String {
    seen_after(4, url)
}

/// The user of whoever listens there.
fn user() -> Option<u32> {
    let listing = Program::new("ss").arguments(["-Htlnp", "sport", "=", ":9480"]).run().text();
    let process: u32 = listing.split("pid=").nth(1)?.split(',').next()?.parse().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())
}

/// Where the daemon's page is, as root is told.
fn told(house: &House) -> String {
    house.status()["dashboard"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_browser_sees_cards_and_drops_and_the_page_comes_and_goes_with_the_daemon() {
    scenario(|| {
        Program::new("ip").arguments(["link", "set", "lo", "up"]).succeeds();
        let house = House::with_settings("0", "dashboard = \"127.0.0.1:9480\"");
        eventually("root is told where", GRACE, || !told(&house).is_empty());
        let url = told(&house);
        eventually("there is a page", GRACE, || get(&url).contains("dashboard.js"));
        let status = format!("{url}status.json");
        eventually("it has a status", GRACE, || get(&status).contains("\"vnics\""));
        assert!(get(&url).contains("Content-Security-Policy: default-src 'self'"), "{}", get(&url));
        // Without the key there is nothing, and nobody else is told it.
        for path in
            ["", "status.json", "0123456789abcdef0123456789abcdef/", "0123456789abcdef0123456789abcdef/status.json"]
        {
            let answer = get(&format!("http://127.0.0.1:9480/{path}"));
            assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        }
        assert!(get(url.trim_end_matches('/')).starts_with("HTTP/1.1 301 "), "the slash is added");
        let asked = house.start(&["status", "--json"]).wait(GRACE);
        assert!(asked.code == Some(0) && asked.text().contains("\"dashboard\":null"), "{}", asked.text());
        let text = seen(&url);
        assert!(text.contains("Nobody has a card.") && text.contains("requests served"), "{text}");
        assert_eq!(user(), Some(65534));

        // A name that would be a script, if it were not text.
        let create = ["vnic", "create", "<img src=x onerror=document.title='broken'>", "--address", "10.77.0.9/24"];
        Program::new(qanat()).arguments(create).environment("QANAT_SOCKET", house.socket()).succeeds();
        let echo: Running = house.start(&["echo", "--address", "10.77.0.8/24", "--placement", "split"]);
        eventually("there is an echo", GRACE, || get(&status).contains("10.77.0.8"));
        let text = seen(&url);
        assert!(text.contains("<td>10.77.0.8/24</td>") && text.contains("<td>echo</td>"), "{text}");
        assert!(text.contains("&lt;img src=x") && text.contains("<title>Qanat</title>"), "{text}");
        // While packets come and go, a line rises from the ground, 19, to the top, 1. A browser asks faster than a status is made: it may
        // have to look several times until there was a new one.
        let _ping = Program::new("ping").arguments(["-q", "-i", "0.01", "10.77.0.8"]).start();
        eventually("a rate is drawn", GRACE, || {
            let text = seen_after(60, &url);
            text.contains(",1 ") || text.contains(",1\"")
        });
        drop(echo);

        // Started anew, the daemon has another one; killed, none.
        let daemon = process(house.daemon().into());
        kill_process(daemon, Signal::HUP).expect("a reload");
        eventually("there is another", GRACE, || !told(&house).is_empty() && told(&house) != url);
        let url = told(&house);
        eventually("it has a status", GRACE, || get(&format!("{url}status.json")).contains("\"vnics\""));
        kill_process(daemon, Signal::KILL).expect("a crash");
        eventually("there is no page", GRACE, || get(&url).is_empty());
    });
}

/// Without rights, with a daemon that isn't there: the page says so.
#[test]
fn it_tells_that_there_is_no_daemon() {
    scenario(|| {
        Program::new("ip").arguments(["link", "set", "lo", "up"]).succeeds();
        let place = directory_for_anybody();
        let (command, socket) = (qanat_for_anybody(place.path()), place.path().join("no.sock"));
        let open = directory_for_anybody();
        let said = open.path().join("said");
        let words = "exec \"$0\" dashboard --json --socket \"$1\" > \"$2\"";
        let program = Program::new("setpriv").arguments(NOBODY).arguments(["sh", "-c", words]);
        let dashboard = program.arguments([&command, &socket, &said]).start();
        let url = || {
            let text = std::fs::read_to_string(&said).unwrap_or_default();
            let first: Option<serde_json::Value> = text.lines().next().and_then(|line| serde_json::from_str(line).ok());
            first.and_then(|first| Some(first["urls"][0].as_str()?.to_owned()))
        };
        eventually("it says where", GRACE, || url().is_some());
        let url = url().unwrap_or_default();
        eventually("it says so", GRACE, || get(&format!("{url}status.json")).contains("start the daemon with"));
        let text = seen(&url);
        assert!(text.contains("start the daemon with `sudo qanat up`"), "{text}");
        kill_process(process(dashboard.id().into()), Signal::TERM).expect("a signal");
        let outcome = dashboard.wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    });
}
