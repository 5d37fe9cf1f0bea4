//! What services tell: levels, formats, and how often, to a file, a pipe and somebody who reads nothing.

use super::links::{PATIENCE, daemon_for};
use super::remedies::Place;
use qanat_tests::e2e::{Outcome, Pages, Program, Running, eventually, qanat, scenario};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

fn pages() -> Pages {
    let zone = "$TTL 60\n@ SOA ns hostmaster 1 60 60 600 60\n@ NS ns\nns A 192.0.2.1\n";
    Pages::new().with("index.html", "here").with("example.zone", zone).with("broken.zone", "@ SOA nonsense\n")
}

/// One of each kind that has no need of another, and what it says when it is there.
const SERVICES: [(&[&str], &str); 5] = [
    (&["web", "."], "Serving"),
    (&["dns", "--zone", "example.test=example.zone", "--zone", "broken.test=broken.zone"], "Answering"),
    (&["echo"], "Echoing"),
    (&["delay", "--lab"], "Forwarding"),
    (&["net", "--socket", "net.sock"], "Net core"),
];

/// A service whose words go to files.
struct Service {
    running: std::process::Child,
    pages: Pages,
}

impl Service {
    fn start(words: &[&str], more: &[&str], environment: &[(&str, &str)]) -> Service {
        let pages = pages();
        let file = |name| std::fs::File::create(pages.file(name)).expect("a file");
        let mut command = Command::new(qanat());
        command.args(words).args(more).current_dir(pages.path()).envs(environment.iter().copied());
        command.env("QANAT_SOCKET", pages.file(".daemon/control.sock")).stdin(Stdio::null());
        let running = command.stdout(file("stdout")).stderr(file("stderr")).spawn().expect("it starts");
        Service { running, pages }
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.pages.file(name)).unwrap_or_default()
    }

    /// Ends it; what it said, on standard output and standard error.
    fn stop(mut self) -> [String; 2] {
        let id = i32::try_from(self.running.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(id, Signal::TERM).expect("it runs");
        assert!(self.running.wait().expect("it ends").success(), "{}", self.text("stderr"));
        ["stdout", "stderr"].map(|name| self.text(name))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

fn values(text: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
    text.lines().map(parse).collect()
}

#[test]
fn all_that_a_service_says_is_json_if_it_is_to_be() {
    scenario(|| {
        for (words, _) in SERVICES {
            let service = Service::start(words, &["--log-format", "json"], &[]);
            eventually(&format!("{words:?} is there"), PATIENCE, || service.text("stdout").contains("\"event\""));
            let [out, err] = service.stop();
            assert!(values(&out).iter().all(|line| line["event"].is_string() && line["time"].is_f64()), "{out}");
            let told = values(&err);
            let is_line = |line: &Value| line["level"].is_string() && line["text"].is_string() && line["time"].is_f64();
            assert!(told.iter().all(is_line), "{words:?}: {err}");
            if words[0] == "dns" {
                let zone = told.iter().find(|line| line["event"] == "zone").expect("the broken zone is told of");
                assert_eq!(zone["level"], "warn");
            }
        }
        // Mistakes, too, whichever command makes them.
        for (words, event) in [
            (&["web", "/there is no such directory"][..], "failed"),
            (&["status", "--socket", "/there is no such socket"], "failed"),
            (&["run", "--", "/there is no such program"], "failed"),
            (&["web"], "usage"),
        ] {
            let outcome = Program::new(qanat()).arguments(["--log-format", "json"]).arguments(words).run();
            let told = values(&outcome.stderr);
            assert_eq!(
                (told.len(), &told[0]["level"], &told[0]["event"]),
                (1, &"error".into(), &event.into()),
                "{words:?}"
            );
        }
    });
}

#[test]
fn levels_leave_out_what_is_less_important() {
    scenario(|| {
        let (words, there) = SERVICES[1];
        // How it is asked for, and whether it tells: that it serves (info), that a zone is broken (warn).
        let quiet: &[&str] = &["--quiet"];
        for (more, environment, tells) in [
            (&[][..], None, [true, true]),
            (&["--log-level", "info"], None, [true, true]),
            (&["--log-level", "warn"], None, [false, true]),
            (&["--log-level=error"], None, [false, false]),
            (quiet, None, [false, false]),
            (&["-q", "--log-level", "debug"], None, [false, false]),
            (&[], Some("warn"), [false, true]),
            (&[], Some("error"), [false, false]),
            (&["--log-level", "info"], Some("error"), [true, true]),
        ] {
            let environment: Vec<_> = environment.map(|level| ("QANAT_LOG", level)).into_iter().collect();
            let service = Service::start(words, more, &environment);
            eventually(&format!("{more:?}: it is there"), PATIENCE, answers);
            let [out, err] = service.stop();
            let told = [out.contains(there), err.contains("broken.test")];
            assert_eq!((told, out.is_empty()), (tells, !tells[0]), "{more:?} {environment:?}: {out}{err}");
        }
        // An error is told in any case.
        let outcome = Program::new(qanat()).arguments(["web", "/there is no such directory", "--quiet"]).run();
        assert!(outcome.code == Some(1) && outcome.stderr.contains("no such directory"), "{outcome:?}");
        let outcome = Program::new(qanat()).arguments(["status"]).environment("QANAT_LOG", "loud").run();
        assert!(outcome.code == Some(2) && outcome.stderr.contains("error, warn, info, debug"), "{outcome:?}");
    });
}

fn answers() -> bool {
    let words = ["@10.77.0.2", "+tries=1", "+time=1", "+short", "ns.example.test"];
    Program::new("dig").arguments(words).run().text().trim() == "192.0.2.1"
}

/// Two lines of figures, and what is said once, however long a service runs.
#[test]
fn figures_are_for_who_looks_on() {
    scenario(|| {
        let figures = |text: &str| text.lines().filter(|line| line.contains("requests")).count();
        let service = Service::start(&["web", "."], &["--log-level", "debug"], &[]);
        eventually("figures each second", PATIENCE, || figures(&service.text("stdout")) >= 1);
        service.stop();
        let service = Service::start(&["web", ".", "--json"], &[], &[]);
        eventually("figures each second", PATIENCE, || figures(&service.text("stdout")) >= 3);
        // In that time, another one would have said as much.
        service.stop();
    });
}

#[test]
fn a_lost_card_is_a_warning_and_one_that_is_back_is_none() {
    scenario(|| {
        let pages = pages();
        let start = |words: &[&str], level: &str| -> Running {
            let program =
                Program::new(qanat()).arguments(words).arguments(["--log-format", "json", "--log-level", level]);
            program.environment("QANAT_SOCKET", pages.file(".daemon/control.sock")).start()
        };
        let mut daemon = daemon_for(&pages, "10.77.0.0/24");
        let echo = start(&["echo", "--address", "10.77.0.4/24"], "info");
        let split = start(&["echo", "--address", "10.77.0.5/24", "--placement", "split"], "info");
        let quiet = start(&["echo", "--address", "10.77.0.6/24"], "error");
        let down = || {
            Program::new(qanat())
                .arguments(["down"])
                .environment("QANAT_SOCKET", pages.file(".daemon/control.sock"))
                .succeeds()
        };
        let cards = || -> usize {
            let status = Program::new(qanat())
                .arguments(["status", "--json"])
                .environment("QANAT_SOCKET", pages.file(".daemon/control.sock"));
            let status: Value = serde_json::from_str(&status.run().text()).unwrap_or_default();
            status["vnics"].as_array().map_or(0, |cards| cards.iter().filter(|card| card["queues_open"] == 1).count())
        };
        eventually("all have cards", PATIENCE, || cards() == 3);
        down();
        assert_eq!(daemon.wait(PATIENCE).code, Some(0));
        daemon = daemon_for(&pages, "10.77.0.0/24");
        eventually("all have cards again", PATIENCE, || cards() == 3);
        // The net core has its card before the service has found the net core.
        let answers = || std::net::TcpStream::connect_timeout(&"10.77.0.5:7".parse().expect("an address"), PATIENCE);
        eventually("the split one is back", PATIENCE, || answers().is_ok());
        let end = |service: Running| -> Outcome {
            let id = i32::try_from(service.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process(id, Signal::TERM).expect("it runs");
            service.wait(PATIENCE)
        };
        let of = |outcome: &Outcome| -> Vec<(String, String)> {
            let pair = |line: Value| (line["event"].to_string(), line["level"].to_string());
            values(&outcome.stderr).into_iter().map(pair).collect()
        };
        let pair = |event: &str, level: &str| (format!("\"{event}\""), format!("\"{level}\""));
        let told = of(&end(echo));
        assert_eq!(told, [pair("card-lost", "warn"), pair("card-back", "info")]);
        let told = of(&end(split));
        for wanted in [pair("net-core-lost", "warn"), pair("net-core-back", "info")] {
            assert!(told.contains(&wanted), "{told:?}");
        }
        let outcome = end(quiet);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        daemon.kill();
    });
}

#[test]
fn who_reads_nothing_keeps_nobody_waiting() {
    scenario(|| {
        let pages = pages();
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        // Full from the first moment.
        let blank = [b'\n'; 4_096];
        rustix::io::ioctl_fionbio(&writer, true).expect("it does not wait");
        while rustix::io::write(&writer, &blank).is_ok() {}
        rustix::io::ioctl_fionbio(&writer, false).expect("it waits");
        let mut command = Command::new(qanat());
        command.args(["dns", "--zone", "broken.test=broken.zone", "--zone", "example.test=example.zone"]);
        let stderr = writer.as_fd().try_clone_to_owned().expect("a copy");
        let running = command.current_dir(pages.path()).stdout(Stdio::null()).stderr(Stdio::from(stderr)).spawn();
        let mut running = running.expect("it starts");
        // Each has an end of the pipe that would keep it open.
        drop((command, writer));
        eventually("it serves", PATIENCE, answers);
        // Read again, it tells what was missed, with the next line.
        let text = Arc::new(Mutex::new(String::new()));
        let its = Arc::clone(&text);
        let drain = std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(count @ 1..) = rustix::io::read(&reader, &mut part) {
                its.lock().expect("its text").push_str(&String::from_utf8_lossy(&part[..count]));
            }
        });
        let id = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process");
        eventually("it says what was lost", PATIENCE, || {
            kill_process(id, Signal::HUP).expect("it runs");
            text.lock().expect("its text").contains("lines of the log were lost")
        });
        kill_process(id, Signal::TERM).expect("it runs");
        assert!(running.wait().expect("it ends").success());
        drain.join().expect("read to its end");
    });
}

/// The library under `qanat run` tells as the command was told to: at the same level, in the same format, whatever names are in it.
#[test]
fn a_library_tells_at_the_level_and_in_the_format_of_its_command() {
    scenario(|| {
        let place = Place::new();
        place.shell("$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done");
        let program = |then: &str| {
            format!(
                "import socket; s = socket.socket(); s.bind(('0.0.0.0', 80)); s.listen(); print('there', flush=True){then}"
            )
        };
        std::fs::write(place.file("stays.py"), program("; __import__('sys').stdin.read()")).expect("a file");
        std::fs::write(place.file("ends.py"), program("")).expect("a file");
        // It has the first address, so that there is something to warn others of, and a name that JSON has to escape.
        let name = "we\"ird\\name";
        let script = format!("exec -a '{name}' /usr/bin/python3 stays.py");
        let mut first = place.piped(&["run", "--", "bash", "-c", &script]);
        let mut line = String::new();
        BufReader::new(first.stdout.as_mut().expect("its output")).read_line(&mut line).expect("it says something");
        assert_eq!(line, "there\n");
        let said = place.says(&["--log-format", "json", "run", "--explain", "--", "python3", "ends.py"]);
        let told: Vec<Value> = said.lines().filter(|line| *line != "there").flat_map(values).collect();
        let warning = told.iter().find(|line| line["event"] == "run").unwrap_or_else(|| panic!("{said}"));
        assert_eq!(warning["level"], "warn", "{said}");
        let text = warning["text"].as_str().expect("text");
        assert!(text.contains(&format!("is {name}'s, so this program has")), "{text}");
        assert!(told.iter().any(|line| line["event"] == "explain" && line["process"].is_u64()), "{said}");
        let ends = ["run", "--", "python3", "ends.py"];
        let said = place.says(&ends);
        assert!(said.contains(&format!("qanat: 10.77.0.2 is {name}'s, so this program has")), "{said}");
        for quiet in ["--quiet", "--log-level=error"] {
            assert_eq!(place.says(&[&[quiet][..], &ends].concat()), "there\n", "{quiet}");
        }
        assert!(place.says(&[&["--log-level=warn"][..], &ends].concat()).contains("so this program has"));
        drop(first.stdin.take());
        first.wait().expect("it ends");
    });
}
