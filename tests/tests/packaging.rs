//! What is in `packaging/` and the manual pages does what it says: the unit's restrictions are those the daemon and its net cores can live
//! with, every command and option that is named exists, every key of the example policy is known.
#![forbid(unsafe_code)]

use qanat_tests::e2e::{NOBODY, Program, Running, Unit, eventually, native_library, qanat, scenario, workspace};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(30);

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The values of a key of the unit's `[Service]`.
fn settings(key: &str) -> Vec<String> {
    let unit = read("packaging/qanatd.service");
    let prefix = format!("{key}=");
    unit.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
}

/// A daemon as the unit starts it, with two net cores' worth of policy.
struct House {
    unit: Unit,
    socket: PathBuf,
    daemon: Option<Running>,
}

impl House {
    fn new(cores: &str) -> House {
        let unit = Unit::new();
        let socket = unit.directory().join("control.sock");
        let policy = format!(
            "socket = {socket:?}\ngroup = \"nogroup\"\n[net]\ncores = \"{cores}\"\nframes = 1024\n[[rule]]\nname = \"all\"\n\
             users = [\"*\"]\naddresses = [\"10.77.0.0/24\"]\nservices = [\"any\"]\n"
        );
        std::fs::write(unit.directory().join("policy"), policy).expect("a policy");
        // Where the daemon sees it, and anybody may run it: it starts itself anew from there.
        std::fs::copy(qanat(), unit.directory().join("qanat")).expect("a copy of the command");
        let mut house = House { unit, socket, daemon: None };
        house.start();
        house
    }

    fn start(&mut self) {
        let policy = self.unit.directory().join("policy");
        let daemon = self.unit.program_at(&self.unit.directory().join("qanat"));
        self.daemon = Some(daemon.arguments(["up".as_ref(), "--config".as_ref(), policy.as_os_str()]).start());
        self.listens();
    }

    fn listens(&mut self) {
        eventually("the daemon listens", GRACE, || {
            assert!(self.daemon.as_mut().is_some_and(Running::is_running), "the daemon ended");
            self.ask(&["limits"]).run().code == Some(0)
        });
    }

    fn ask(&self, words: &[&str]) -> Program {
        Program::new(qanat()).arguments(words).environment("QANAT_SOCKET", &self.socket)
    }

    fn process(&self) -> Pid {
        let id = self.daemon.as_ref().expect("a daemon").id();
        i32::try_from(id).ok().and_then(Pid::from_raw).expect("a process")
    }

    fn status(&self) -> Value {
        serde_json::from_str(self.ask(&["status", "--json"]).run().text().trim()).unwrap_or_default()
    }

    /// A service as integration.md has it in a unit of its own: without rights, and in a network of its own.
    fn service(&self, arguments: &[&str]) -> Running {
        let program = Program::new("unshare").arguments(["--net", "setpriv", "--no-new-privs"]).arguments(NOBODY);
        let program = program.arguments([self.unit.directory().join("qanat")]).arguments(arguments);
        program.environment("QANAT_SOCKET", &self.socket).start()
    }

    fn ends(mut self, how: &[&str]) {
        match how {
            [] => kill_process(self.process(), Signal::TERM).expect("told to end"),
            words => {
                // As ExecStop: under the same restrictions.
                let told = self.unit.program().arguments(words).environment("QANAT_SOCKET", &self.socket).run();
                assert_eq!(told.code, Some(0), "{}", told.stderr);
            }
        }
        let outcome = self.daemon.take().expect("a daemon").wait(GRACE);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
}

fn echoes(address: &str) -> bool {
    let udp = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    udp.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let mut bytes = [0; 64];
    udp.send_to(b"there and back", address).is_ok() && udp.recv(&mut bytes).is_ok_and(|length| length == 14)
}

fn echo_is_there(address: &str) {
    eventually("the echo answers", GRACE, || echoes(address));
}

/// Under systemd itself: start, restart, reload, crash and stop, with a service that goes on through all of them.
#[test]
fn the_unit_lives_a_day_under_its_service_manager() {
    scenario(|| {
        let place = tempfile::tempdir().expect("a directory");
        let command = qanat();
        let library = command.with_file_name("libqanat_posix.so");
        let boot = Program::new(workspace().join("tests/systemd/boot.sh"));
        let done = boot.arguments([place.path(), &command, &library]).patience(Duration::from_secs(600)).run();
        let said = std::fs::read_to_string(place.path().join("said")).unwrap_or_default();
        assert_eq!(done.code, Some(0), "{done:?}; {said}");
        for moment in ["start", "restart", "reload", "crash", "reload after crash"] {
            assert!(said.contains(&format!("after {moment}: answers\n")), "{moment}: {said}");
        }
        for what in
            ["started is what clients find", "what hangs is started again", "the same after the daemon's restart"]
        {
            assert!(said.contains(&format!("services: {what}\n")), "{what}: {said}");
        }
        assert!(said.contains("after stop: nothing is left"), "{said}");
    });
}

#[test]
fn the_unit_is_rated_well() {
    for (unit, threshold) in [("qanatd", "30"), ("qanat-web@", "22"), ("qanat-dns@", "22")] {
        let rated = Program::new("systemd-analyze")
            .arguments(["security", "--offline=true", "--no-pager", &format!("--threshold={threshold}")])
            .arguments([workspace().join(format!("packaging/{unit}.service"))])
            .run();
        assert_eq!(rated.code, Some(0), "{unit} is more exposed than {threshold}:\n{}{}", rated.text(), rated.stderr);
    }
    let commands = [settings("ExecStart"), settings("ExecStop")].concat();
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        let ["/usr/bin/qanat", word] = words.as_slice() else { panic!("{command}") };
        Program::new(qanat()).arguments([word, "--help"]).succeeds();
    }
    assert_eq!(settings("ExecReload"), ["/bin/kill -HUP $MAINPID"]);
    Program::new("/bin/kill").arguments(["--version"]).succeeds();
}

/// Whoever started a daemon with what the unit gives it finds that nothing is missing.
#[test]
fn the_units_capabilities_are_those_that_are_used() {
    scenario(|| {
        let unit = Unit::new();
        let found = unit.program().arguments(["doctor"]).run().text();
        assert!(found.contains("privileges: enough"), "{found}");
        // Each has its reason beside it.
        let text = read("packaging/qanatd.service");
        let reasons: String = text.lines().filter(|line| line.starts_with('#')).collect();
        for capability in settings("CapabilityBoundingSet").join(" ").split(' ') {
            let name = capability.strip_prefix("CAP_").expect("a capability");
            assert!(reasons.contains(name), "{name}: say what for");
        }
    });
}

#[test]
fn net_cores_start_move_and_are_ended_under_the_unit() {
    scenario(|| {
        let house = House::new("0");
        let _service = house.service(&["echo", "--placement", "split", "--address", "10.77.0.2/24"]);
        echo_is_there("10.77.0.2:7");
        let status = house.status();
        let core = &status["net_cores"][0];
        assert_eq!(core["confined"], true, "{status}");
        let process = core["process"].as_u64().expect("a process");
        let its = std::fs::read_to_string(format!("/proc/{process}/status")).expect("its state");
        for line in ["Uid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "Seccomp:\t2", "NoNewPrivs:\t1"] {
            assert!(its.contains(line), "{line}: {its}");
        }
        let two = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
        if two {
            house.ask(&["net-core", "add", "1"]).succeeds();
            house.ask(&["net-core", "remove", "0"]).succeeds();
            eventually("the card has moved", GRACE, || {
                let cores = house.status()["net_cores_started"].clone();
                cores
                    .as_array()
                    .is_some_and(|all| all.len() == 1 && all[0]["vnics"].as_array().is_some_and(|v| v.len() == 1))
            });
            echo_is_there("10.77.0.2:7");
        }
        // One that is killed is started again, and the daemon ends those there are.
        let process = house.status()["net_cores_started"][0]["process"].as_i64().expect("a process");
        let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, Signal::KILL).expect("killed");
        echo_is_there("10.77.0.2:7");
        let process = house.status()["net_cores_started"][0]["process"].as_u64().expect("a process");
        house.ends(&["down"]);
        eventually("the net core has ended", GRACE, || !PathBuf::from(format!("/proc/{process}")).exists());
    });
}

#[test]
fn cards_outlive_reload_and_crash_under_the_unit() {
    scenario(|| {
        let mut house = House::new("");
        let mut service = house.service(&["echo", "--address", "10.77.0.3/24"]);
        echo_is_there("10.77.0.3:7");
        let card = || house.status()["vnics"][0]["interface"].clone();
        let before = card();
        assert!(before.is_string());
        for _ in 0..2 {
            // As ExecReload does. The same process, another program, and the cards' namespace is handed on.
            let uptime = || house.status()["uptime_s"].as_u64();
            eventually("it is up for a while", GRACE, || uptime().is_some_and(|seconds| seconds >= 1));
            kill_process(house.process(), Signal::HUP).expect("told to reload");
            eventually("another program listens", GRACE, || uptime() == Some(0));
            // An answer may be late on a busy machine.
            eventually("the card goes on", GRACE, || echoes("10.77.0.3:7"));
            assert!(service.is_running(), "its service goes on");
            assert_eq!(card(), before, "it is the same card");
        }
        // As Restart=on-failure, with what the service manager keeps.
        house.daemon.take().expect("a daemon").kill();
        eventually("the fence holds without its daemon", GRACE, || echoes("10.77.0.3:7"));
        house.start();
        assert_eq!(house.status()["vnics"][0]["interface"], before, "it is taken back");
        eventually("the card goes on", GRACE, || echoes("10.77.0.3:7"));
        assert!(service.is_running());
        // No program that it starts has the namespace.
        service.kill();
        house.ends(&[]);
    });
}

#[test]
fn the_example_policy_is_one() {
    let check = |path: &std::path::Path| {
        let arguments = ["up".as_ref(), "--check".as_ref(), "--config".as_ref(), path.as_os_str()];
        Program::new(qanat()).arguments(arguments).succeeds().text()
    };
    let path = workspace().join("packaging/qanat.toml");
    assert!(check(&path).contains("rule \"default\""));
    // With everything that is commented out.
    let whole: String = read("packaging/qanat.toml")
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    // One interface can't be both.
    let whole = whole.replacen("interface = \"eth1\"", "interface = \"eth0\"", 1);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("whole.toml");
    std::fs::write(&path, &whole).expect("written");
    let meant = check(&path);
    assert!(meant.contains("net cores on processors [0, 1]"), "{meant}");
    // Names that nobody has are told, all at once.
    let unknown = directory.path().join("unknown.toml");
    std::fs::write(
        &unknown,
        "[[rule]]\nname = \"x\"\nusers = [\"no-such-user\", \"root\"]\ngroups = [\"no-such-group\"]\n",
    )
    .expect("written");
    let told = check(&unknown);
    assert!(told.contains("the user \"no-such-user\"") && told.contains("the group \"no-such-group\""), "{told}");
    // All that qanatd(8) names is in it.
    let page = plain(&read("docs/man/qanatd.8"));
    let policy = page.split_once("POLICY").and_then(|(_, rest)| rest.split_once("PROTOCOL")).expect("a section").0;
    let keys =
        policy.split_once("decides.").and_then(|(_, keys)| keys.split_once("Rates are")).expect("the rules' keys").0;
    for key in keys.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).filter(|word| !word.is_empty()) {
        assert!(whole.contains(key), "{key} is not in packaging/qanat.toml");
    }
}

/// The commands that `qanat --help` lists.
fn commands() -> Vec<String> {
    let top = Program::new(qanat()).arguments(["--help"]).succeeds().text();
    let list = top.split_once("Commands:").and_then(|(_, rest)| rest.split_once("Options:")).expect("a list").0;
    let names = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<String> = names.filter(|word| !word.is_empty() && *word != "help").map(str::to_owned).collect();
    assert!(commands.len() > 10, "{commands:?}");
    commands
}

/// Each command that is listed has a page, which `man` shows without a complaint.
fn assert_pages(directory: &Path) {
    for command in commands() {
        assert!(directory.join(format!("qanat-{command}.1")).exists(), "{command} has no page");
    }
    assert!(directory.join("qanat-load-http.1").exists() && !directory.join("qanat-steward.1").exists());
    for page in std::fs::read_dir(directory).expect("pages").flatten() {
        let shown = Program::new("man").arguments(["--warnings", "--local-file"]).arguments([page.path()]);
        let shown = shown.environment("MANWIDTH", "100").environment("LC_ALL", "C.UTF-8").succeeds();
        assert_eq!(shown.stderr, "", "{}", page.path().display());
        assert!(shown.text().contains("SEE ALSO"), "{}", page.path().display());
    }
    let web =
        Program::new("man").arguments(["--local-file"]).arguments([directory.join("qanat-web.1")]).succeeds().text();
    assert!(web.contains("EXAMPLES") && web.contains("sudo qanat web ./site --https"), "{web}");
}

/// Each shell completes a command and an option by what was installed, and offers nothing that is nobody's to type.
fn assert_completions(share: &Path) {
    let path = |file: &str| share.join(file).display().to_string();
    let by_bash = |words: &str, count: usize| {
        let script = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={count}; _qanat qanat \"${{COMP_WORDS[{count}]}}\" x; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            path("bash-completion/completions/qanat")
        );
        Program::new("bash").arguments(["-c", &script]).succeeds().text()
    };
    let by_fish = |line: &str| {
        let script =
            format!("source {}; complete --do-complete '{line}'", path("fish/vendor_completions.d/qanat.fish"));
        Program::new("fish").arguments(["--no-config", "--command", &script]).succeeds().text()
    };
    assert_eq!(by_bash("qanat we", 1).trim(), "web");
    assert_eq!(by_bash("qanat web --access", 2).trim(), "--access-log");
    assert_eq!(by_fish("qanat we").split_whitespace().next(), Some("web"));
    assert!(by_fish("qanat web --access").starts_with("--access-log"));
    for hidden in ["steward", "export-keeper", "disk-core"] {
        assert_eq!(
            (by_bash(&format!("qanat {hidden}"), 1).trim(), by_fish(&format!("qanat {hidden}")).trim()),
            ("", "")
        );
    }
    let zsh = format!(
        "fpath=({} $fpath); autoload -Uz compinit; compinit -D -u; print $_comps[qanat]; autoload +X _qanat",
        path("zsh/site-functions")
    );
    let known = Program::new("zsh").arguments(["-f", "-c", &zsh]).succeeds();
    assert_eq!((known.text().trim(), known.stderr.as_str()), ("_qanat", ""));
    Program::new("zsh").arguments(["-n", &path("zsh/site-functions/_qanat")]).succeeds();
}

/// What the documents say to install is all that a user needs; nothing of it is left when it is taken away.
#[test]
fn what_is_installed_runs_programs_and_goes_again() {
    scenario(|| {
        let (root, state) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let make = |target: &str| {
            let word = |name: &str, path: &std::path::Path| format!("{name}={}", path.display());
            let library = qanat().with_file_name("libqanat_posix.so");
            let words = [
                word("DESTDIR", root.path()),
                word("QANAT", &qanat()),
                word("LIBRARY", &library),
                word("NATIVE", &native_library()),
            ];
            Program::new("make")
                .directory(workspace())
                .arguments([target, "PREFIX=/opt/qanat"])
                .arguments(words)
                .succeeds();
        };
        make("install");
        let policy = root.path().join("etc/qanat/qanat.toml");
        std::fs::write(&policy, "# mine\n").expect("written");
        make("install");
        assert_eq!(std::fs::read_to_string(&policy).expect("the policy"), "# mine\n", "it is kept");
        let place = root.path().join("opt/qanat");
        let unit = std::fs::read_to_string(place.join("lib/systemd/system/qanatd.service")).expect("the unit");
        assert!(unit.contains("ExecStart=/opt/qanat/bin/qanat up") && !unit.contains("/usr/bin/qanat"), "{unit}");
        assert!(place.join("share/man/man8/qanatd.8").exists() && place.join("share/man/man1/qanat.1").exists());
        assert_pages(&place.join("share/man/man1"));
        assert_completions(&place.join("share"));
        // The library is found, by a program that nobody told where it is.
        let run = Program::new(place.join("bin/qanat")).arguments(["run", "--", "python3", "-c"]);
        let listens =
            "import socket; s = socket.create_server(('10.77.0.2', 80)); print(open('/proc/self/maps').read())";
        let outcome =
            run.arguments([listens]).environment("QANAT_SOCKET", state.path().join("control.sock")).succeeds();
        assert!(outcome.text().contains("/opt/qanat/lib/qanat/libqanat.so"), "{}", outcome.text());
        // So is the one for C, by whoever asks pkg-config for it as it lies here.
        let pc = std::fs::read_to_string(place.join("lib/pkgconfig/qanat-native.pc")).expect("a file for pkg-config");
        assert!(pc.contains("prefix=/opt/qanat\n") && !pc.contains('@'), "{pc}");
        assert!(place.join("include/qanat-native.h").is_file() && place.join("lib/libqanat-native.so").is_file());
        make("uninstall");
        let left = Program::new("find").arguments([root.path()]).arguments(["!", "-type", "d"]).succeeds().text();
        assert_eq!(left.trim(), policy.display().to_string());
    });
}

/// Names of figures in an expression of Prometheus'.
fn figures_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("qanat_"))
}

/// Each panel of the dashboard asks for figures that something tells.
#[test]
fn the_dashboard_shows_figures_that_there_are() {
    let dashboard: Value = serde_json::from_str(&read("packaging/grafana.json")).expect("JSON");
    let web = read("services/web/src/metrics.rs");
    let others = read("crates/daemon/src/requests/metrics.rs") + &read("services/dns/src/service/metrics.rs");
    let mut seen = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("an expression");
            for figure in figures_in(expression) {
                let is_told = match figure.strip_prefix("qanat_web_") {
                    Some(what) => web.contains(&format!("\"{what}\"")),
                    None => others.contains(&format!("\"{figure}\"")),
                };
                assert!(is_told, "{}: nothing tells {figure}", panel["title"]);
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen} figures");
}

/// A manual page's text without its marks.
fn plain(page: &str) -> String {
    let lines = page.lines().map(|line| {
        let line = line.strip_prefix(".B ").or_else(|| line.strip_prefix(".TP")).unwrap_or(line);
        let line = [".BR ", ".BI ", ".RB ", ".I ", ".SH "]
            .iter()
            .fold(line, |line, mark| line.strip_prefix(mark).unwrap_or(line));
        line.replace("\\-", "-").replace("\\fI", "").replace("\\fP", "").replace('"', "")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Every option the pages name is one that some command has, and every command they name is there.
#[test]
fn the_manual_pages_name_what_there_is() {
    let help = |words: &[&str]| Program::new(qanat()).arguments(words).arguments(["--help"]).run().text();
    let commands = commands();
    let mut all = help(&[]);
    for command in &commands {
        all += &help(&[command.as_str()]);
    }
    for (command, words) in [
        ("vnic", ["create", "delete", "list"].as_slice()),
        ("filter", &["create", "delete", "list"]),
        ("rate", &["set"]),
        ("net-core", &["add", "remove"]),
        ("disk", &["add", "create", "grow", "limit", "delete", "remove", "list", "bench"]),
        ("load", &["http", "dns", "udp", "tcp", "redis", "memcached"]),
    ] {
        for word in words {
            let text = help(&[command, word]);
            assert!(text.contains("Usage:"), "{command} {word}");
            all += &text;
        }
    }
    let known: BTreeSet<&str> = all.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
    for page in ["docs/man/qanat.1", "docs/man/qanatd.8"] {
        let text = plain(&read(page));
        for option in
            text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| word.starts_with("--"))
        {
            assert!(option.len() == 2 || known.contains(option), "{page}: no command has {option}");
        }
    }
    let text = plain(&read("docs/man/qanat.1"));
    for command in commands {
        assert!(text.contains(&command), "docs/man/qanat.1 does not name `qanat {command}`");
    }
}
