//! Every command of the README, and every step of the guide, run. What the README learns, this test must learn: an unknown command
//! fails it. The guide's chapters say themselves what is to be seen (`tests/src/e2e/guide.rs`).
#![forbid(unsafe_code)]

use qanat_tests::e2e::{Program, Reader, Running, directory_for_anybody, eventually, qanat, scenario, workspace};
use rustix::process::{Pid, Signal, kill_process_group};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The lines to type in fenced blocks of `sh` and `console`, without comments, prompts and `sudo`.
fn commands(markdown: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut block: Option<&str> = None;
    for line in markdown.lines() {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
            continue;
        }
        let typed = match block {
            Some("sh") => Some(line),
            Some("console") => line.strip_prefix("$ "),
            _ => None,
        };
        let typed = typed.and_then(|typed| typed.split(" #").next()).unwrap_or_default().trim();
        let typed = typed.strip_prefix("sudo ").unwrap_or(typed);
        if !typed.is_empty() && !typed.starts_with('#') {
            commands.push(typed.to_owned());
        }
    }
    commands
}

fn readme() -> String {
    std::fs::read_to_string(workspace().join("README.md")).expect("the README")
}

/// Ends a server as its user would: Ctrl-C, to all of the terminal's processes.
fn interrupt(server: Option<Running>) {
    let Some(server) = server else { return };
    let group = i32::try_from(server.id()).ok().and_then(Pid::from_raw).expect("a process group");
    kill_process_group(group, Signal::INT).expect("Ctrl-C");
    let outcome = server.wait(Duration::from_secs(15));
    // The last is what Python says.
    assert!(
        ["Served ", "Answered ", "Keyboard interrupt"].iter().any(|what| outcome.text().contains(what)),
        "{outcome:?}"
    );
}

/// Ends another's program: not by Ctrl-C, which it may have been told to ignore, as scripts tell what they start.
fn terminate(own: Running) {
    let id = i32::try_from(own.id()).ok().and_then(Pid::from_raw).expect("a process");
    rustix::process::kill_process(id, Signal::TERM).expect("a signal");
    let outcome = own.wait(Duration::from_secs(15));
    assert!(outcome.code == Some(0) || outcome.code.is_none(), "{outcome:?}");
}

/// `qanat` stands for the one built; everything else is what the path has.
fn program(words: &[&str], directory: &Path) -> Program {
    let (name, arguments) = words.split_first().expect("a command");
    let program = if *name == "qanat" { Program::new(qanat()) } else { Program::new(name) };
    // A socket of the test's own: a daemon of this machine is none of its business.
    let socket = std::env::temp_dir().join(format!("qanat-readme-{}.sock", std::process::id()));
    program
        .arguments(arguments)
        .directory(directory)
        .environment("QANAT_SOCKET", socket)
        .patience(Duration::from_secs(90))
}

fn serves() {
    eventually("it serves", Duration::from_secs(10), || TcpStream::connect("10.77.0.2:80").is_ok());
}

/// Whether a process has a handler for Ctrl-C, which servers have from when they serve.
fn minds_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 << 1 != 0)
}

#[test]
fn every_command_of_the_readme_does_what_it_says() {
    scenario(|| {
        let directory = directory_for_anybody();
        let here = directory.path();
        for sample in ["site", "packaging"] {
            std::os::unix::fs::symlink(workspace().join(sample), here.join(sample)).expect("the samples");
        }
        let commands = commands(&readme());
        assert!(commands.len() >= 6, "the README has commands: {commands:#?}");
        let mut server: Option<Running> = None;
        let mut echo: Option<Running> = None;
        let mut daemon: Option<Running> = None;
        let mut net: Option<Running> = None;
        let mut as_it_is: Option<Running> = None;
        let mut on_net_core = false;
        for command in &commands {
            println!("$ {command}");
            let words: Vec<&str> = command.split_whitespace().collect();
            match words.as_slice() {
                ["make", "run"] => {
                    interrupt(server.take());
                    // What it builds is built: the recipe itself is what is run.
                    let path = format!("QANAT={}", qanat().display());
                    server = Some(program(&["make", "-o", "build", "run", &path], &workspace()).start());
                    serves();
                }
                // This test is part of it.
                ["make", "test"] => {
                    program(&["make", "--dry-run", "test"], &workspace()).succeeds();
                }
                ["qanat", "web", ..] if words.contains(&"--interface") => {
                    let at = words.iter().position(|word| *word == "--interface").unwrap_or(0);
                    let name = words.get(at + 1).expect("an interface's name");
                    program(&["ip", "link", "add", name, "type", "veth", "peer", "name", "other"], here).succeeds();
                    for end in [*name, "other"] {
                        program(&["ip", "link", "set", end, "up"], here).succeeds();
                    }
                    let mut own = program(&words, here).start();
                    eventually("it serves, or has ended", Duration::from_secs(20), || {
                        minds_interrupts(own.id()) || !own.is_running()
                    });
                    assert!(own.is_running(), "{command}: {:?}", own.wait(Duration::from_secs(1)));
                    interrupt(Some(own));
                    program(&["ip", "link", "delete", name], here).succeeds();
                }
                ["qanat", "web", .., "--placement", "split"]
                | ["qanat", "web", .., "--app-cores", _]
                | ["qanat", "web", _, "--net-cores", ..] => {
                    interrupt(server.take());
                    server = Some(program(&words, here).start());
                    serves();
                    on_net_core = true;
                }
                ["qanat", "web", _, "--placement", "kernel", "--port", port] => {
                    interrupt(server.take());
                    server = Some(program(&words, here).start());
                    let address = format!("127.0.0.1:{port}");
                    eventually("it serves", Duration::from_secs(10), || TcpStream::connect(&address).is_ok());
                }
                ["qanat", "run", ..] => {
                    interrupt(server.take());
                    let own = program(&words, here).start();
                    let address = match words.join(" ") {
                        text if text.contains("redis") => "10.77.0.2:6379",
                        text if text.contains("memcached") => "10.77.0.5:11211",
                        _ => "10.77.0.2:8000",
                    };
                    eventually("it serves", Duration::from_secs(10), || TcpStream::connect(address).is_ok());
                    match address.ends_with(":8000") {
                        true => as_it_is = Some(own),
                        false => terminate(own),
                    }
                }
                ["qanat", "web", ..] => {
                    interrupt(server.take());
                    server = Some(program(&words, here).start());
                    serves();
                }
                ["qanat", "up", ..] => {
                    interrupt(server.take());
                    daemon = Some(program(&words, here).start());
                    let ask = ["qanat", "limits"];
                    eventually("the daemon listens", Duration::from_secs(5), || {
                        program(&ask, here).run().code == Some(0)
                    });
                }
                ["qanat", "down"] => {
                    interrupt(server.take());
                    program(&words, here).succeeds();
                    let outcome = daemon.take().expect("a daemon").wait(Duration::from_secs(5));
                    assert_eq!(outcome.code, Some(0), "{outcome:?}");
                }
                ["qanat", "status"] if on_net_core => {
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    assert!(text.contains("Net core @qanat-net-") && text.contains("\"web\""), "{text}");
                }
                ["qanat", "net-core", ..] => {
                    // Where there is a second processor.
                    if std::thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
                        program(&words, here).succeeds();
                    }
                }
                ["qanat", "net", ..] => {
                    interrupt(server.take());
                    net = Some(program(&words, here).start());
                    eventually("it listens", Duration::from_secs(10), || {
                        program(&["qanat", "status", "--net", "/run/qanat-net.sock"], here).run().code == Some(0)
                    });
                }
                ["qanat", "echo", "--net", ..] => {
                    let mut own = program(&words, here).start();
                    eventually("it is served", Duration::from_secs(10), || {
                        program(&["qanat", "status", "--net", "/run/qanat-net.sock"], here)
                            .run()
                            .text()
                            .contains("echo")
                    });
                    assert!(own.is_running(), "{command}");
                    drop(own);
                    drop(net.take());
                }
                ["qanat", "status" | "top" | "rate" | "filter" | "limits" | "doctor", ..] => {
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    assert!(text.contains("VNIC") || matches!(words[1], "rate" | "filter" | "doctor"), "{text}");
                }
                ["qanat", "video", "--disk", _, what @ ("add" | "list"), ..] => {
                    let text = program(&words, here).succeeds().text();
                    assert!(text.contains("water") && (*what == "add" || text.contains("1 films")), "{text}");
                }
                ["qanat", "cache", ..] => {
                    interrupt(server.take());
                    server = Some(program(&words, here).start());
                    eventually("it serves", Duration::from_secs(10), || TcpStream::connect("10.77.0.2:11211").is_ok());
                }
                ["memcstat", ..] => {
                    assert!(program(&words, here).succeeds().text().contains("curr_items"));
                }
                ["qanat", "load", "memcached", ..] => {
                    assert!(program(&words, here).succeeds().text().contains("answers"));
                    interrupt(server.take());
                }
                ["qanat", "video", ..] => {
                    interrupt(server.take());
                    server = Some(program(&words, here).start());
                    eventually("it serves", Duration::from_secs(10), || TcpStream::connect("10.77.0.2:443").is_ok());
                }
                ["curl", .., address] if address.ends_with("master.m3u8") => {
                    assert!(program(&words, here).succeeds().text().starts_with("#EXTM3U"));
                    interrupt(server.take());
                }
                ["curl", ..] => {
                    let text = program(&words, here).succeeds().text();
                    assert!(text.contains("It flows."), "{text}");
                    if let Some(own) = as_it_is.take() {
                        terminate(own);
                    }
                }
                ["qanat", "cert", ..] => {
                    assert!(program(&words, here).succeeds().text().contains("key.pem"));
                }
                ["qanat", "hello"] => {
                    assert!(program(&words, here).succeeds().text().contains("It flows."));
                    assert!(here.join("hello.pcap").exists(), "the capture");
                }
                ["qanat", "echo", ..] => {
                    echo = Some(program(&words, here).start());
                    let socket = words.iter().find_map(|word| word.strip_prefix("memif:")).expect("a socket");
                    eventually("it listens", Duration::from_secs(10), || Path::new(socket).exists());
                }
                ["qanat", "dns", "check", ..] => {
                    assert!(program(&words, here).succeeds().text().contains("121 records"));
                }
                ["qanat", "dns", ..] => {
                    server = Some(program(&words, here).start());
                    let ask = ["dig", "+short", "+time=1", "+tries=1", "ftp.example.com", "@10.77.0.2"];
                    eventually("it answers", Duration::from_secs(10), || {
                        program(&ask, here).run().text().contains("192.0.2.80")
                    });
                }
                ["dig", ..] => {
                    assert!(program(&words, here).succeeds().text().contains("192.0.2.80"));
                }
                ["qanat", "load", "dns", ..] => {
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    assert!(text.contains("NOERROR") && text.contains("p99"), "{text}");
                    interrupt(server.take());
                }
                ["qanat", "load", "udp" | "tcp", ..] => {
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    assert!(text.contains("packets") && text.contains("p99"), "{text}");
                }
                ["qanat", "disk", what, ..] => {
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    let part = match *what {
                        "prepare" => "254 MiB of it free",
                        "bench" => "random reads, 4 KiB, depth 32",
                        "add" => "shared: a disk of 1 GiB",
                        // Of the daemon's disk, or of the file.
                        _ if text.contains("mine") => "mine",
                        _ => "logs",
                    };
                    assert!(text.contains(part), "{text}");
                }
                ["qanat", "bench", "echo", ..] => {
                    drop(echo.take());
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    assert!(text.contains("native UDP"), "{text}");
                }
                ["qanat", "load", ..] => {
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    assert!(text.contains("requests") && text.contains("p99"), "{text}");
                }
                ["qanat", "bench", table, ..] => {
                    interrupt(server.take());
                    let text = program(&words, here).succeeds().text();
                    println!("{text}");
                    let peer = if *table == "model" { "with crossing" } else { "nginx" };
                    assert!(text.contains(peer), "{text}");
                    assert!(here.join(format!("bench-{table}.svg")).exists(), "the picture");
                }
                _ => panic!("`{command}` is in the README: teach tests/tests/readme.rs what it should do"),
            }
        }
        interrupt(server.take());
    });
}

#[test]
fn every_step_of_the_guide_does_what_it_shows() {
    scenario(|| {
        let folder = std::fs::read_dir(workspace().join("docs/guide")).expect("the guide");
        let mut chapters: Vec<_> = folder.map(|entry| entry.expect("a chapter").path()).collect();
        chapters.sort();
        assert!(chapters.len() >= 6, "{chapters:?}");
        let mut reader = Reader::new();
        for chapter in chapters {
            println!("=== {}", chapter.display());
            reader.runs(&std::fs::read_to_string(&chapter).expect("a chapter's text"));
        }
    });
}

#[test]
fn commands_are_found() {
    let text = "a\n```sh\nmake run   # x\n# only words\n```\n  ```console\n  $ sudo ls -l\n  total 0\n  ```\n```text\nno\n```\n";
    assert_eq!(commands(text), ["make run", "ls -l"]);
}
