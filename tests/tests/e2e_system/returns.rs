//! Services whose daemon ends and comes back.

use super::links::{PATIENCE, daemon_for, daemon_with, is_answered};
use qanat_tests::e2e::{Outcome, Pages, Program, Running, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Each kind of service, at an address of its own.
const WEB: &str = "10.77.0.2";
const DNS: &str = "10.77.0.3";
const ECHO: &str = "10.77.0.4";
const RAW: &str = "10.77.0.5";
const ALL: &str = "10.77.0.0/24";

fn command(pages: &Pages, words: &[&str]) -> Program {
    Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", pages.file(".daemon/control.sock"))
}

fn pages() -> Pages {
    let zone = "$TTL 60\n@ SOA ns hostmaster 1 60 60 600 60\n@ NS ns\nns A 192.0.2.1\nwww A 192.0.2.2\n";
    Pages::new().with("index.html", "here").with("example.zone", zone)
}

/// One of each kind, by name.
fn services(pages: &Pages) -> Vec<(&'static str, Running)> {
    let zone = format!("example.test={}", pages.file("example.zone").display());
    let [web, dns, echo, raw] = [WEB, DNS, ECHO, RAW].map(|address| format!("{address}/24"));
    let start = |words: &[&str]| command(pages, words).start();
    vec![
        ("web", start(&["web", pages.argument(), "--address", &web])),
        ("dns", start(&["dns", "--zone", &zone, "--queues", "2", "--address", &dns])),
        ("echo", start(&["echo", "--address", &echo])),
        ("raw echo", start(&["echo", "--raw", "--address", &raw])),
    ]
}

fn echoes(address: &str) -> bool {
    let talk = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((address, 7))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"over and over")?;
        let mut back = [0; 13];
        stream.read_exact(&mut back)?;
        Ok(&back == b"over and over")
    };
    talk().unwrap_or(false)
}

fn is_resolved() -> bool {
    let server = format!("@{DNS}");
    let words = [server.as_str(), "+tries=1", "+time=1", "+short", "www.example.test"];
    Program::new("dig").arguments(words).run().text().trim() == "192.0.2.2"
}

fn status(pages: &Pages) -> Value {
    let status = command(pages, &["status", "--json"]).run().text();
    serde_json::from_str(&status).unwrap_or_default()
}

/// The cards there are.
fn cards(pages: &Pages) -> Vec<Value> {
    status(pages)["vnics"].as_array().cloned().unwrap_or_default()
}

fn has_card(pages: &Pages, address: &str) -> bool {
    cards(pages).iter().any(|card| card["addresses"].to_string().contains(address))
}

fn all_serve(pages: &Pages, when: &str) {
    eventually(&format!("web answers {when}"), PATIENCE, || is_answered(&format!("{WEB}:80")));
    eventually(&format!("dns answers {when}"), PATIENCE, is_resolved);
    eventually(&format!("echo answers {when}"), PATIENCE, || echoes(ECHO));
    eventually(&format!("the raw echo has a card {when}"), PATIENCE, || has_card(pages, RAW));
}

fn down(pages: &Pages, daemon: Running) {
    command(pages, &["down"]).succeeds();
    assert_eq!(daemon.wait(PATIENCE).code, Some(0));
}

fn end(service: Running) -> Outcome {
    let process = i32::try_from(service.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, Signal::TERM).expect("told to end");
    service.wait(PATIENCE)
}

fn lines(outcome: &Outcome, text: &str) -> usize {
    outcome.stderr.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn a_service_gets_its_address_back_from_the_daemon_that_comes() {
    scenario(|| {
        let pages = pages();
        let mut daemon = daemon_for(&pages, ALL);
        let services = services(&pages);
        all_serve(&pages, "at first");
        for round in 1..=2 {
            down(&pages, daemon);
            daemon = daemon_for(&pages, ALL);
            all_serve(&pages, &format!("after restart {round}"));
        }
        // Killed, it takes no card away; what it left is removed then, with the cards, by nobody who could tell them so.
        daemon.kill();
        assert!(is_answered(&format!("{WEB}:80")) && is_resolved() && echoes(ECHO), "cards outlive their daemon");
        command(&pages, &["down"]).succeeds();
        daemon = daemon_for(&pages, ALL);
        all_serve(&pages, "after what a killed daemon left was removed");
        for (name, service) in services {
            let outcome = end(service);
            assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
            let told = [lines(&outcome, "is gone, with all its connections"), lines(&outcome, "has a card again")];
            assert_eq!(told, [3, 3], "{name}: {outcome:?}");
        }
        // What is told to end while it waits, ends.
        let waiting = command(&pages, &["echo", "--address", "10.77.0.4/24"]).start();
        eventually("it echoes", PATIENCE, || echoes(ECHO));
        down(&pages, daemon);
        let outcome = end(waiting);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    });
}

#[test]
fn who_deletes_a_card_ends_its_service() {
    scenario(|| {
        let pages = pages();
        let mut first = daemon_for(&pages, ALL);
        let services = services(&pages);
        all_serve(&pages, "at first");
        // A later daemon ends a card in words, too, once its service has found that daemon.
        first.kill();
        let mut second = daemon_for(&pages, ALL);
        // Whatever it has served beside our own questions, the one by which it was found included, are exchanged handles.
        let mut own = 0;
        eventually("all services hold a handle of the second daemon's", PATIENCE, || {
            own += 1;
            status(&pages)["requests"]["served"].as_u64().is_some_and(|served| served >= own + 4)
        });
        for card in cards(&pages) {
            command(&pages, &["vnic", "delete", &card["vnic"].to_string()]).succeeds();
        }
        for (name, service) in services {
            let outcome = service.wait(PATIENCE);
            assert_eq!(outcome.code, Some(1), "{name}: {outcome:?}");
            assert_eq!(lines(&outcome, "somebody deleted it"), 1, "{name}: {outcome:?}");
            assert_eq!(lines(&outcome, "again after"), 0, "{name}: {outcome:?}");
        }
        assert!(second.is_running() && cards(&pages).is_empty());
    });
}

#[test]
fn a_service_that_the_next_daemon_refuses_says_so_and_ends() {
    scenario(|| {
        let pages = pages();
        let first = daemon_for(&pages, ALL);
        let services = services(&pages);
        all_serve(&pages, "at first");
        down(&pages, first);
        let second = daemon_for(&pages, "10.88.0.0/24");
        for (name, service) in services {
            let outcome = service.wait(PATIENCE);
            assert_eq!(outcome.code, Some(1), "{name}: {outcome:?}");
            let told = lines(&outcome, "there is no other: the control plane refuses: rule \"rooms\"");
            assert_eq!(told, 1, "{name}: {outcome:?}");
        }
        drop(second);
    });
}

/// Services on net cores: the daemon's, or each with one of its own, by what the policy says.
const NET_CORES: [(&str, &str); 2] = [("the daemon's", "[net]\ncores = \"0\"\nframes = 1024"), ("their own", "")];

fn split_services(pages: &Pages) -> Vec<(&'static str, Running)> {
    let zone = format!("example.test={}", pages.file("example.zone").display());
    let [web, dns, echo] = [WEB, DNS, ECHO].map(|address| format!("{address}/24"));
    let start = |words: &[&str]| command(pages, words).arguments(["--placement", "split"]).start();
    vec![
        ("web", start(&["web", pages.argument(), "--address", &web])),
        ("dns", start(&["dns", "--zone", &zone, "--address", &dns])),
        ("echo", start(&["echo", "--address", &echo])),
    ]
}

fn all_split_serve(when: &str) {
    eventually(&format!("web answers {when}"), PATIENCE, || is_answered(&format!("{WEB}:80")));
    eventually(&format!("dns answers {when}"), PATIENCE, is_resolved);
    eventually(&format!("echo answers {when}"), PATIENCE, || echoes(ECHO));
}

#[test]
fn a_split_service_gets_its_address_back_from_the_daemon_that_comes() {
    for (whose, net) in NET_CORES {
        scenario(|| {
            let pages = pages();
            let mut daemon = daemon_with(&pages, ALL, net);
            let services = split_services(&pages);
            all_split_serve("at first");
            for round in 1..=2 {
                down(&pages, daemon);
                daemon = daemon_with(&pages, ALL, net);
                all_split_serve(&format!("after restart {round}, net cores are {whose}"));
            }
            daemon.kill();
            daemon = daemon_with(&pages, ALL, net);
            all_split_serve(&format!("after the daemon was killed, net cores are {whose}"));
            for (name, service) in services {
                let outcome = end(service);
                assert_eq!(outcome.code, Some(0), "{whose} {name}: {outcome:?}");
                let told = [lines(&outcome, "a net core of"), lines(&outcome, "has a net core again")];
                // What comes and goes between two looks is told once.
                assert!(told[0] >= 1 && told[0] == told[1], "{whose} {name}: {outcome:?}");
            }
            drop(daemon);
        });
    }
}

#[test]
fn who_deletes_a_card_on_a_net_core_ends_its_service() {
    for (whose, net) in NET_CORES {
        scenario(|| {
            let pages = pages();
            let daemon = daemon_with(&pages, ALL, net);
            let services = split_services(&pages);
            all_split_serve("at first");
            for card in cards(&pages) {
                command(&pages, &["vnic", "delete", &card["vnic"].to_string()]).succeeds();
            }
            for (name, service) in services {
                let outcome = service.wait(PATIENCE);
                assert_eq!(outcome.code, Some(1), "{whose} {name}: {outcome:?}");
                assert_eq!(lines(&outcome, "somebody deleted it"), 1, "{whose} {name}: {outcome:?}");
            }
            drop(daemon);
        });
    }
}

#[test]
fn a_split_service_that_the_next_daemon_refuses_says_so_and_ends() {
    for (whose, net) in NET_CORES {
        scenario(|| {
            let pages = pages();
            let first = daemon_with(&pages, ALL, net);
            let services = split_services(&pages);
            all_split_serve("at first");
            down(&pages, first);
            let second = daemon_with(&pages, "10.88.0.0/24", net);
            for (name, service) in services {
                let outcome = service.wait(PATIENCE);
                assert_eq!(outcome.code, Some(1), "{whose} {name}: {outcome:?}");
                let told = lines(&outcome, "there is no other: the control plane refuses: rule \"rooms\"");
                assert_eq!(told, 1, "{whose} {name}: {outcome:?}");
            }
            drop(second);
        });
    }
}

#[test]
fn rules_that_were_read_last_hold_with_the_next_card() {
    scenario(|| {
        let pages = pages().with(".site.toml", "[rules]\nheaders = [\"X-A: first\"]\n");
        let daemon = daemon_for(&pages, ALL);
        let config = pages.file(".site.toml").display().to_string();
        let web =
            command(&pages, &["web", pages.argument(), "--address", &format!("{WEB}/24"), "--config", &config]).start();
        let says = |value: &str| {
            let words = ["-s", "-i", "--max-time", "5", &format!("http://{WEB}/")];
            Program::new("curl").arguments(words).run().text().contains(&format!("X-A: {value}\r\n"))
        };
        eventually("the first rules hold", PATIENCE, || says("first"));
        pages.write(".site.toml", "[rules]\nheaders = [\"X-A: second\"]\n");
        let process = i32::try_from(web.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, Signal::HUP).expect("told to read");
        eventually("the second ones hold", PATIENCE, || says("second"));
        down(&pages, daemon);
        let daemon = daemon_for(&pages, ALL);
        eventually("it answers again", PATIENCE, || says("first") || says("second"));
        assert!(says("second"), "what was read by HUP is forgotten");
        end(web);
        down(&pages, daemon);
    });
}
