//! Errors say what to do about them: each that can be provoked here is, its remedy is carried out, and then it works.
//!
//! Not provoked, for the reason given: an old kernel (`KernelTooOld`: this one is not), the limit on locked memory (`LockedMemory`: root has
//! CAP_IPC_LOCK), a physical card's driver and queues (`NoNativeXdp` of a driver, `ethtool -L`, `[[nic]]`: there is none), membership of a group (needs a
//! login), `sudo` (there may be none), versions of another build (hostile_control/takeover.rs has them), and packages that are missing (all are installed).

use super::links::PATIENCE;
use qanat_tests::e2e::{Pages, eventually, qanat, scenario, unfolded};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// An error and the way out.
struct Row {
    /// Makes it so, by a shell.
    before: &'static str,
    /// The command, after `qanat`; it fails.
    command: &'static str,
    /// Of what it says: the error, and the remedy.
    says: &'static [&'static str],
    /// The remedy, by a shell; `$Q` is the command; what is started in the background writes its number to `number`.
    remedy: &'static str,
    /// The command afterwards, if it is another one.
    after: Option<&'static str>,
}

const ROWS: [Row; 31] = [
    Row {
        before: "",
        command: "status",
        says: &["start the daemon with `sudo qanat up`"],
        remedy: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        after: None,
    },
    Row {
        before: "echo text > file",
        command: "up --socket file",
        says: &["is there, and no socket", "--socket"],
        remedy: "test \"$(cat file)\" = text",
        after: Some("up --socket elsewhere"),
    },
    Row {
        // Writable by nobody, root included.
        before: "mkdir place; mount -t tmpfs -o ro none place",
        command: "up --socket place/control.sock",
        says: &["Read-only file system", "name a place that can be written, by --socket"],
        remedy: "umount place",
        after: Some("up --socket elsewhere"),
    },
    Row {
        before: "",
        command: "echo --interface nowhere --address 10.9.0.2/24",
        says: &["no interface nowhere", "`ip link`"],
        remedy: "ip link add nowhere type veth peer name far; ip link set far up; ip link set nowhere up",
        after: None,
    },
    Row {
        before: "ip link add near type veth peer name far; ip link set far up",
        command: "echo --interface near --address 10.9.0.2/24",
        says: &["near is down", "`ip link set near up`"],
        remedy: "ip link set near up",
        after: None,
    },
    Row {
        before: "",
        command: "echo --interface lo --address 10.9.0.2/24",
        says: &["lo has no driver with native XDP: use a veth device"],
        remedy: "ip link add near type veth peer name far; ip link set far up; ip link set near up",
        after: Some("echo --interface near --address 10.9.0.2/24"),
    },
    Row {
        before: "ip link add near mtu 9000 type veth peer name far mtu 9000; ip link set far up; ip link set near up; $Q web . --interface near \
                 --address 10.9.0.3/24 >/dev/null 2>&1 & echo $! > number; until ip link show near | grep -q xdp; do sleep 0.1; done",
        command: "echo --interface near --address 10.9.0.2/24",
        says: &["near is used by", "stop it"],
        remedy: "kill $(cat number); while ip link show near | grep -q xdp; do sleep 0.1; done",
        after: None,
    },
    Row {
        before: "",
        command: "hello --capture /proc/no/file",
        says: &["name a writable file with --capture"],
        remedy: "true",
        after: Some("hello --capture here.pcap"),
    },
    Row {
        before: "",
        command: "web ./nowhere",
        says: &["name a directory that this user may read"],
        remedy: "mkdir nowhere",
        after: None,
    },
    Row {
        before: "printf '#!/bin/sh\\nexit 0\\n' > program",
        command: "run --interface near --address 10.9.0.2/24 -- ./program",
        says: &["permission denied", "`chmod +x`"],
        remedy: "chmod +x program; ip link add near type veth peer name far; ip link set far up; ip link set near up",
        after: None,
    },
    Row {
        before: "",
        command: "run true",
        says: &["put `--` before the program:", "run -- true"],
        remedy: "ip link add near type veth peer name far; ip link set far up; ip link set near up",
        after: Some("run --interface near --address 10.9.0.2/24 -- true"),
    },
    Row {
        before: "",
        command: "dns --zone example.test",
        says: &["write it as NAME=FILE"],
        remedy: "printf '$TTL 60\\n@ SOA n h 1 1 1 1 1\\n@ NS n\\nn A 192.0.2.1\\n' > z",
        after: Some("dns --zone example.test=z"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "up",
        says: &["a daemon listens at", "`qanat down` ends it"],
        remedy: "$Q down",
        after: None,
    },
    Row {
        before: "mkdir empty; printf 'x = ' > bad.toml",
        command: "up --check --config bad.toml",
        says: &["bad.toml", "1"],
        remedy: "printf '[[rule]]\\nname = \"all\"\\n' > bad.toml",
        after: None,
    },
    Row {
        before: "",
        command: "status --socket /tmp/ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss",
        says: &["File name too long", "at most 107 bytes (--socket)"],
        remedy: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        after: Some("status"),
    },
    Row {
        before: "",
        command: "up --socket /tmp/ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss",
        says: &["File name too long", "choose a shorter path"],
        remedy: "true",
        after: Some("up --socket short"),
    },
    Row {
        before: "ip link add near type veth peer name far; ip link set far up; ip link set near up; ip link add other type veth peer name rest; ip link set rest up; ip link set other up",
        command: "delay near near",
        says: &["near twice", "name two different interfaces"],
        remedy: "true",
        after: Some("delay near other"),
    },
    Row {
        before: "ip link add near type veth peer name far; ip link set far up; ip link set near up; ip link add other type veth peer name rest; ip link set rest up; ip link set other up; ip link set near mtu 9000; ip link set far mtu 9000",
        command: "delay near other",
        says: &["the MTU of near is 9000: at most 3498", "`ip link set near mtu 1500`"],
        remedy: "ip link set near mtu 1500",
        after: None,
    },
    Row {
        before: "ip link add near type veth peer name far; ip link set far up; ip link set near up; ip link add other type veth peer name rest; ip link set rest up; ip link set other up; ethtool -L near rx 1 tx 1",
        command: "delay near other --queues 2",
        says: &["near uses 1 queues, not 2", "`ethtool -L near combined 2` (a veth device: `rx 2 tx 2`)"],
        remedy: "for one in near far other rest; do ethtool -L $one rx 2 tx 2; done",
        after: None,
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "vnic create xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx --address 10.77.0.9/24",
        says: &["a VNIC's name has at most 64 letters"],
        remedy: "true",
        after: Some(
            "vnic create xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx --address 10.77.0.9/24",
        ),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "vnic create turned\u{202e}round --address 10.77.0.9/24",
        says: &["no characters that control, turn round, or can't be seen"],
        remedy: "true",
        after: Some("vnic create round --address 10.77.0.9/24"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "vnic create card --address 10.77.0.9/24 --queues 5",
        says: &["allows 4 queues of a VNIC, not 5"],
        remedy: "true",
        after: Some("vnic create card --address 10.77.0.9/24 --queues 4"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "vnic create card --address 10.77.0.9/24 --mtu 100",
        says: &["MTU 100: must be from 576 to 9000"],
        remedy: "true",
        after: Some("vnic create card --address 10.77.0.9/24 --mtu 576"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "vnic create card --address fd77::27/64 --mtu 1000",
        says: &["MTU 1000: must be 1280 or more with an IPv6 address"],
        remedy: "true",
        after: Some("vnic create card --address fd77::27/64 --mtu 1280"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done",
        command: "vnic create card --address 10.77.0.20/24 --address 10.77.0.20/24",
        says: &["10.77.0.20 is named twice: name it once"],
        remedy: "true",
        after: Some("vnic create card --address 10.77.0.20/24"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done; $Q vnic create twin --address 10.77.0.9/24; $Q vnic create twin --address 10.77.0.10/24",
        command: "vnic delete twin",
        says: &["several VNICs are called \"twin\"", "by its number, 0 or 1"],
        remedy: "$Q vnic delete 1",
        after: None,
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done; $Q vnic create blog --address 10.77.0.9/24",
        command: "rate set glob --bits 1M",
        says: &["no VNIC is called \"glob\"", "`qanat vnic list`"],
        remedy: "$Q vnic list | grep blog",
        after: Some("rate set blog --bits 1M"),
    },
    Row {
        before: "$Q up >/dev/null 2>&1 & echo $! > number; while ! $Q status >/dev/null 2>&1; do sleep 0.1; done; $Q vnic create blog --address 10.77.0.9/24",
        command: "web site --vnic glob",
        says: &["no VNIC is called \"glob\"", "`qanat vnic list`"],
        remedy: "$Q vnic list | grep blog; $Q filter create --vnic blog --transmit tcp any :80",
        after: Some("web site --vnic blog"),
    },
    Row {
        before: "",
        command: "bench ratio --quick --filter nonesuch --report kept",
        says: &["no case's name contains 'nonesuch'; there are '"],
        remedy: "true",
        after: Some("bench --list"),
    },
    Row {
        before: "",
        command: "bench --tables nonesuch",
        says: &["no table is called \"nonesuch\"; there are: web, crossing, model, https"],
        remedy: "true",
        after: Some("bench --list"),
    },
    Row {
        before: "",
        command: "bench ratio --quick --report /proc/no/file",
        says: &["name another file with --report"],
        remedy: "true",
        after: Some("bench ratio --quick -d 100ms --repetitions 1 --report page.html"),
    },
];

/// What says that a service is there, and has not failed.
const READY: [&str; 5] = ["Echoing", "Serving", "Answering", "event=daemon-start", "Forwarding"];

/// A directory in which commands are tried.
pub struct Place {
    pages: Pages,
    /// What bounds a command, as `prlimit` has it.
    limit: Option<String>,
}

impl Place {
    pub fn new() -> Place {
        Place { pages: Pages::new().with("index.html", "here").with("site/index.html", "here"), limit: None }
    }

    /// Commands started from now on may have so much of this (`nofile`, `as`), and no more.
    pub fn with_limit(&mut self, resource: &str, limit: u64) -> &Place {
        self.limit = Some(format!("--{resource}={limit}:{limit}"));
        self
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.pages.file(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.pages.path()).env("Q", qanat()).env("QANAT_SOCKET", self.file("control.sock"));
        // As at a terminal.
        command.env("COLUMNS", "80").stdin(Stdio::null());
        command
    }

    pub fn shell(&self, script: &str) {
        let done = self.command("sh").args(["-e", "-c", script]).status().expect("a shell");
        assert!(done.success(), "{script}");
    }

    /// Starts a command; its words go to a file.
    pub fn start(&self, words: &str) -> Child {
        let said = File::create(self.file("said")).expect("a file");
        let program = qanat();
        let program = program.to_str().expect("a path");
        let mut command = match &self.limit {
            Some(limit) => {
                let mut command = self.command("prlimit");
                command.arg(limit).arg(program);
                command
            }
            None => self.command(program),
        };
        // `up` may be told where to listen by its own option.
        if words.contains("--socket") {
            command.env_remove("QANAT_SOCKET");
        }
        let copy = said.try_clone().expect("a copy");
        command.args(words.split(' ')).stdout(said).stderr(copy).spawn().expect("it starts")
    }

    /// What a command says until it ends.
    pub fn says(&self, words: &[&str]) -> String {
        let told = self.command(qanat().to_str().expect("a path")).args(words).output().expect("it starts");
        String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr)
    }

    /// Starts a command that goes on until its input ends.
    pub fn piped(&self, words: &[&str]) -> Child {
        let mut command = self.command(qanat().to_str().expect("a path"));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
    }

    /// What a script says, in file systems of its own.
    fn says_apart(&self, script: &str) -> String {
        let told = self.command("unshare").args(["--mount", "sh", "-e", "-c", script]).output().expect("a shell");
        String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr)
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.file("said")).unwrap_or_default()
    }

    pub fn fails(&self, words: &str) -> String {
        let mut child = self.start(words);
        let mut code = None;
        eventually(&format!("{words} fails; it says {}", self.said()), PATIENCE, || {
            code = child.try_wait().expect("its status").and_then(|status| status.code());
            code.is_some()
        });
        assert_ne!(code, Some(0), "{words}: {}", self.said());
        self.said()
    }

    /// It ends well, or serves until it is told to end, and ends well then.
    pub fn works(&self, words: &str) {
        let mut child = self.start(words);
        let mut status = None;
        eventually(&format!("{words} works"), PATIENCE, || {
            status = child.try_wait().expect("its status");
            status.is_some() || READY.iter().any(|word| self.said().contains(word))
        });
        let status = status.unwrap_or_else(|| {
            let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
            kill_process(id, Signal::TERM).expect("it runs");
            child.wait().expect("its status")
        });
        assert!(status.success(), "{words}: {}", self.said());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let number = std::fs::read_to_string(self.file("number")).unwrap_or_default();
        if let Some(id) = number.trim().parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, Signal::TERM);
        }
    }
}

#[test]
fn what_an_error_says_to_do_helps() {
    for row in &ROWS {
        scenario(|| {
            let place = Place::new();
            place.shell(row.before);
            let said = place.fails(row.command);
            for text in row.says {
                assert!(said.contains(text), "{}: {text:?} is not in {said:?}", row.command);
            }
            assert!(!said.contains("run with sudo"), "root is told to become root: {said}");
            place.shell(row.remedy);
            place.works(row.after.unwrap_or(row.command));
        });
    }
}

/// A number that nobody can have is told at once; it neither becomes another one, nor ends the program halfway.
#[test]
fn a_number_that_cannot_be_had_is_refused() {
    scenario(|| {
        let place = Place::new();
        place.shell("printf 'port = 0\\n' > port.toml");
        let of_web = [
            "--port 0",
            "--connections 0",
            "--connections 99999999999",
            "--memory 0",
            "--frame-memory 0",
            "--idle-timeout 0",
            "--head-timeout 0",
            "--send-timeout 0",
        ];
        let mut commands: Vec<String> = of_web.iter().map(|option| format!("web site {option}")).collect();
        commands.extend(
            [
                "echo --port 0",
                "dns --zone example.test=z --port 0",
                "vnic create card --address 10.77.0.9/24 --queues 0",
            ]
            .map(str::to_owned),
        );
        commands.extend(
            [
                "load http http://10.77.0.2/ -c 0",
                "load http http://10.77.0.2/ --pipeline 0",
                "top --interval 0",
                "delay a b --queues 0",
            ]
            .map(str::to_owned),
        );
        for command in commands {
            let option = command.rsplit(" -").next().unwrap_or_default().trim_start_matches('-').to_owned();
            let said = place.fails(&command);
            let name = option.split(' ').next().unwrap_or_default();
            assert!(
                said.contains(name) && !said.contains("panicked") && !said.contains("allocation"),
                "{command}: {said}"
            );
        }
    });
}

/// Every table says which cases it has when a filter names none of them, before it measures anything.
#[test]
fn a_filter_that_names_no_case_is_told_which_there_are() {
    scenario(|| {
        let place = Place::new();
        let list = place.says(&["bench", "--list"]);
        // A line that begins with blanks goes on with the one before.
        let names: Vec<&str> =
            list.lines().filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next()).collect();
        assert!(names.len() > 10 && names.contains(&"breakdown"), "{list}");
        for name in names.into_iter().filter(|name| *name != "breakdown") {
            let said = place.fails(&format!("bench --tables {name} --quick --filter nonesuch"));
            assert!(unfolded(&said).contains("no case's name contains 'nonesuch'; there are '"), "{name}: {said}");
        }
    });
}

/// Root without a capability is told which, not to become root.
#[test]
fn who_lacks_a_capability_is_told_which() {
    scenario(|| {
        let place = Place::new();
        place.shell("ip link add near type veth peer name far; ip link set far up; ip link set near up");
        let words = "--interface near --address 10.9.0.2/24";
        for (taken, name) in [("-bpf,-sys_admin", "CAP_SYS_ADMIN, CAP_BPF"), ("-net_raw", "CAP_NET_RAW")] {
            let script = format!("exec setpriv --bounding-set={taken} --inh-caps=-all \"$Q\" echo {words}");
            let told = place.command("sh").args(["-c", &script]).output().expect("setpriv");
            let said = String::from_utf8_lossy(&told.stderr);
            assert!(!told.status.success() && !said.contains("sudo"), "{taken}: {said}");
            assert!(said.contains(&format!("root has not got {name} here")), "{taken}: {said}");
        }
    });
}

/// What doctor finds, when it is made so by a shell; what it says of it, and the command by which it does something about it.
const FINDINGS: [(&str, &str, &str); 7] = [
    (
        "while umount /sys/fs/bpf 2>/dev/null; do :; done",
        "BPF file system: not mounted",
        "mount -t bpf bpf /sys/fs/bpf",
    ),
    (
        "mkdir t; mount -t tmpfs none t; mkdir t/upper t/work; \
         mount -t overlay none -o lowerdir=/etc,upperdir=t/upper,workdir=t/work /etc; sed -i /^qanat:/d /etc/group /etc/gshadow",
        "no group qanat",
        "groupadd --system qanat",
    ),
    ("begin; kill -9 $daemon", "crashed, 0 cards left, 0 in use", "qanat down --socket "),
    (
        "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('control.sock')\"",
        "left over, nobody listens",
        "rm -- ",
    ),
    (
        "ip link add near type veth peer name far; ip link set far up; ip link set near up; ip address add 10.9.0.1/24 dev near; \
         begin --uplink near; kill -9 $daemon; wait $daemon || true; rm control.sock; begin",
        "of a control plane that is no more",
        "ip link set near xdp off",
    ),
    (
        "begin; \"$Q\" vnic create card --address 10.77.0.9/24; ip link set qanat0 down",
        "down: nothing comes through",
        "ip link set qanat0 up",
    ),
    (
        "begin; \"$Q\" vnic create card --address 10.77.0.9/24; ip address flush dev qanat0",
        "the kernel has no way to 10.77.0.9 by it",
        "ip address add 10.77.0.1 peer 10.77.0.9 dev qanat0",
    ),
];

#[test]
fn doctor_does_what_it_says_and_then_finds_nothing() {
    for (before, finding, fix) in FINDINGS {
        scenario(|| {
            let place = Place::new();
            let said = place.says_apart(&format!(
                "begin() {{ \"$Q\" up \"$@\" >/dev/null 2>&1 & daemon=$!; until \"$Q\" status >/dev/null 2>&1; do sleep 0.1; done; }}
                {before}
                \"$Q\" doctor || true; echo AND; \"$Q\" doctor --fix || true; echo AND; \"$Q\" doctor || true
                kill $daemon 2>/dev/null || true"
            ));
            let said = unfolded(&said);
            let [before, fixing, after] = said.split("AND\n").collect::<Vec<_>>()[..] else { panic!("{said}") };
            assert!(before.contains(finding) && !before.contains("fixed"), "{finding}: {said}");
            let fixed = fixing.lines().find(|line| line.contains(finding)).unwrap_or_default();
            assert!(fixed.starts_with("ok ") && fixed.contains(&format!("(fixed: {fix}")), "{finding}: {said}");
            assert!(!after.contains(finding), "{finding}: {said}");
        });
    }
}
