//! HUP: what was started in a terminal ends with it, and reloads when somebody says so.

use super::links::{PATIENCE, daemon_for};
use qanat_tests::e2e::{Pages, eventually, qanat, scenario, workspace};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// A terminal in which a service was started.
struct Terminal {
    program: Child,
    service: Pid,
    pages: Pages,
}

fn pages() -> Pages {
    let zone = "$TTL 60\n@ SOA ns hostmaster 1 60 60 600 60\n@ NS ns\nns A 192.0.2.1\n";
    Pages::new().with("index.html", "here").with("example.zone", zone)
}

/// Each kind of service that has no need of another, and what it says when it is there, and when it has ended in order.
const SERVICES: [(&[&str], &str, &str); 7] = [
    (&["web", "."], "Serving", "Served 0 requests"),
    (DNS, "Answering at", "Answered 0 of"),
    (&["echo"], "Echoing", "Echoed 0 packets"),
    (&["echo", "--placement", "split"], "Echoing", "Echoed 0 packets"),
    (&["web", ".", "--app-cores", "2"], "Serving", "Served 0 requests"),
    (&["delay", "--lab"], "Forwarding", "Sent later than due"),
    (&["up", "--config", "policy.toml"], "event=daemon-start", "event=daemon-end"),
];
const DNS: &[&str] = &["dns", "--zone", "example.test=example.zone"];

impl Terminal {
    /// Starts a service, `how` the terminal's program says, with words before it; waits until it says that it is there.
    fn with(how: &str, before: &str, words: &[&str], ready: &str) -> Terminal {
        let pages = pages();
        let socket = pages.file("control.sock");
        let rule = "[[rule]]\nname = \"all\"\nusers = [\"root\"]\naddresses = [\"10.77.0.0/24\"]\n";
        pages.write("policy.toml", format!("socket = {socket:?}\nhost = [\"10.77.0.1/24\"]\n{rule}"));
        // Its number is known before it begins, and stays what it is.
        let begin = format!("echo $$ > number; exec {before} \"$0\" \"$@\" > said 2>&1");
        let mut program = Command::new("python3");
        program.arg(workspace().join("tests/tests/e2e_system/terminal.py")).args([how, "sh", "-c", &begin]);
        program.arg(qanat()).args(words).current_dir(pages.path()).env("QANAT_SOCKET", socket);
        let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut terminal = Terminal { program, service: Pid::INIT, pages };
        terminal.says(ready);
        let number = std::fs::read_to_string(terminal.pages.file("number")).expect("a number");
        terminal.service = number.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
        terminal
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.pages.file("said")).unwrap_or_default()
    }

    fn says(&self, text: &str) {
        eventually(&format!("it says {text:?}"), PATIENCE, || self.said().contains(text));
    }

    fn close(&mut self) {
        let input = self.program.stdin.as_mut().expect("its input");
        input.write_all(b"close\n").expect("it listens");
        let mut line = String::new();
        BufReader::new(self.program.stdout.as_mut().expect("its output")).read_line(&mut line).expect("it answers");
        assert_eq!(line, "closed\n");
    }

    fn is_there(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.service.as_raw_nonzero())).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    fn parent(&self) -> String {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.service.as_raw_nonzero())).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').nth(1).unwrap_or_default().to_owned());
        rest.unwrap_or_default()
    }

    fn tell(&self, signal: Signal) {
        kill_process(self.service, signal).expect("it is there");
    }

    fn ends(self, how: &str, farewell: &str) {
        eventually(&format!("{how}: it ends; it said {}", self.said()), PATIENCE, || !self.is_there());
        self.says(farewell);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.service != Pid::INIT && self.is_there() {
            let _ = kill_process(self.service, Signal::KILL);
        }
        drop(self.program.stdin.take());
        let _ = self.program.wait();
    }
}

#[test]
fn a_closed_terminal_ends_what_was_started_in_it() {
    scenario(|| {
        for (words, ready, farewell) in SERVICES {
            let mut terminal = Terminal::with("shell", "", words, ready);
            terminal.close();
            terminal.ends(&format!("{words:?}"), farewell);
        }
        for how in ["alone", "job", "background", "relay"] {
            let mut terminal = Terminal::with(how, "", &["web", "."], "Serving");
            terminal.close();
            terminal.ends(how, "Served 0 requests");
        }
    });
}

#[test]
fn what_is_to_outlive_its_terminal_does_and_reloads() {
    scenario(|| {
        for (how, before) in [("disowned", ""), ("shell", "nohup"), ("shell", "setsid"), ("relay", "nohup")] {
            let mut terminal = Terminal::with(how, before, DNS, "Answering at");
            let parent = terminal.parent();
            terminal.close();
            if before != "nohup" {
                // Until its shell has ended this test is above it, as a shell is that passes a closed terminal on.
                eventually("its shell has ended", PATIENCE, || terminal.parent() != parent);
            }
            terminal.tell(Signal::HUP);
            terminal.says("zones");
            terminal.tell(Signal::TERM);
            terminal.ends(&format!("{how} {before}"), "Answered 0 of");
        }
    });
}

#[test]
fn a_service_in_an_open_terminal_reloads_when_told() {
    scenario(|| {
        for how in ["alone", "shell", "background", "relay"] {
            let mut terminal = Terminal::with(how, "", DNS, "Answering at");
            terminal.tell(Signal::HUP);
            terminal.says("zones");
            assert!(terminal.is_there(), "{how}: {}", terminal.said());
            terminal.close();
            terminal.ends(how, "Answered 0 of");
        }
    });
}

/// Runs a command on a terminal until it has drawn three times, then does what its first argument says; prints what came.
const WATCH: &str = r#"
import os, pty, signal, subprocess, sys
what, command = sys.argv[1], sys.argv[2:]
child, master = pty.fork()
if child == 0:
    os.execvp(command[0], command)
said = b""
while said.count(b"\x1b[H") < 3:
    said += os.read(master, 65536)
if what == "down":
    subprocess.run([command[0], "down"], check=True, stdout=subprocess.DEVNULL)
else:
    os.kill(child, getattr(signal, what))
while True:
    try:
        part = os.read(master, 65536)
    except OSError:
        break
    if not part:
        break
    said += part
os.waitpid(child, 0)
sys.stdout.buffer.write(said)
"#;

#[test]
fn top_draws_in_place_and_leaves_the_terminal_as_it_was() {
    scenario(|| {
        let (open, close) = ("\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l");
        for what in ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "down"] {
            let pages = pages();
            let daemon = daemon_for(&pages, "10.77.0.0/24");
            let mut command = Command::new("python3");
            command.args(["-c", WATCH, what]).arg(qanat()).args(["top", "--interval", "0.1"]);
            let done = command.env("QANAT_SOCKET", pages.file(".daemon/control.sock")).output().expect("python3");
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            let drawn = said.strip_prefix(open).and_then(|rest| rest.split_once(close));
            let (drawn, after) = drawn.unwrap_or_else(|| panic!("{what}: {said:?}"));
            assert!(
                drawn.split("\x1b[H").skip(1).all(|frame| frame.contains("VNIC NAME") && frame.ends_with("\x1b[J")),
                "{said:?}"
            );
            // Lines are drawn over those before: the last has no end that would make it scroll.
            assert!(!drawn.contains("\n\x1b[J") && !after.contains('\x1b'), "{what}: {said:?}");
            assert_eq!(after.is_empty(), what != "down", "{what}: {after:?}");
            drop(daemon);
        }
    });
}
