//! The chapters of `docs/guide`, run as their reader would run them.
//!
//! A chapter is Markdown. The first line of a fenced block says what is done with the block:
//!
//! | block | what is done |
//! |---|---|
//! | `console` | each command is run to its end and must succeed; the lines below it must be its output |
//! | `console fails` | the same, but each command must fail |
//! | `console start NAME` | the command is started; the chapter goes on when it has written the lines shown |
//! | `console stop NAME` | it gets Ctrl-C, and must then write the lines below `^C`, and end |
//! | `LANGUAGE file PATH` | the block is written to that file in the reader's directory |
//! | `LANGUAGE from PATH` | that file of the repository must contain these lines |
//! | `text` | nothing |
//!
//! A command is a line after a prompt: `$ ` is alice's, `bob$ ` is bob's. Lines after `> ` continue it. `sudo` at its start makes it
//! root's; all other commands are run without privileges. In output, `…` stands for any text, or alone in a line for any lines.

use super::patience::eventually;
use super::program::{Outcome, Program, Running, native_library, qanat, workspace};
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reader has a copy of the repository here.
const DIRECTORY: &str = "/run/alice/qanat";
/// A service is built in one of the steps.
const PATIENCE: Duration = Duration::from_secs(900);

/// The reader's machine: a copy of `/etc`, `/usr/local` and the repository that the reader may change, and a `/run` and processes of
/// its own. The first process waits for all that lose their parents. `$1`: the repository, `$2`: where cargo builds.
const MACHINE: &str = r#"
set -e
mount -t tmpfs tmpfs /run
mkdir -p -m 755 /run/alice/qanat /run/layers
changeable() {
    mkdir -p "/run/layers/$1/upper" "/run/layers/$1/work"
    mount -t overlay -o "lowerdir=$2,upperdir=/run/layers/$1/upper,workdir=/run/layers/$1/work" overlay "$3"
}
changeable etc /etc /etc
changeable local /usr/local /usr/local
changeable repository "$1" /run/alice/qanat
mkdir -p /run/alice/qanat/target
mount --bind "$2" /run/alice/qanat/target
for name in alice bob; do
    id "$name" >/run/id 2>&1 || useradd --no-create-home --home-dir "/run/$name" "$name"
done
chown alice /run/alice /run/alice/qanat
chmod 755 /run/alice/qanat
touch /run/ready
sleep infinity &
wait
"#;

/// A command as it is typed, by whom, and what is shown below it.
#[derive(Debug, PartialEq, Eq)]
pub struct Typed {
    user: String,
    text: String,
    shown: Vec<String>,
}

/// What a block of a chapter asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Commands to be run to their ends.
    Run { commands: Vec<Typed>, fails: bool },
    /// A command that runs until it is stopped.
    Start { name: String, command: Typed },
    /// Ctrl-C, and what is written then.
    Stop { name: String, shown: Vec<String> },
    /// A file of the reader's.
    Write { path: String, text: String },
    /// An excerpt of a file of the repository.
    Excerpt { path: String, text: String },
}

/// The prompt's user and the command, if the line has a prompt.
fn prompt(line: &str) -> Option<(&str, &str)> {
    let (user, command) = line.split_once("$ ")?;
    let is_name = user.chars().all(|letter| letter.is_ascii_lowercase());
    is_name.then_some((if user.is_empty() { "alice" } else { user }, command))
}

/// The commands of a block, each with the lines below it.
fn typed(lines: &[&str]) -> Vec<Typed> {
    let mut commands: Vec<Typed> = Vec::new();
    for line in lines {
        match (prompt(line), commands.last_mut()) {
            (Some((user, text)), _) => {
                commands.push(Typed { user: user.to_owned(), text: text.to_owned(), shown: Vec::new() });
            }
            (None, Some(command)) if command.shown.is_empty() && line.starts_with("> ") => {
                command.text = format!("{}\n{}", command.text, &line[2..]);
            }
            (None, Some(command)) => command.shown.push((*line).to_owned()),
            (None, None) => panic!("a block begins with `{line}`, which is no command"),
        }
    }
    commands
}

/// The steps of a chapter.
///
/// # Panics
/// A block says nothing that is known, or has no command where one must be.
pub fn steps(chapter: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut block: Option<(Vec<&str>, Vec<&str>)> = None;
    let mut indent = 0;
    for line in chapter.lines() {
        // A block within a list is indented.
        if block.is_none() {
            indent = line.len() - line.trim_start().len();
        }
        let line = line.get(indent..).unwrap_or_default();
        match (line.strip_prefix("```"), block.take()) {
            (Some(words), None) => block = Some((words.split_whitespace().collect(), Vec::new())),
            (None, Some((words, mut lines))) => {
                lines.push(line);
                block = Some((words, lines));
            }
            (Some(_), Some((words, lines))) => steps.extend(step(&words, &lines)),
            (None, None) => {}
        }
    }
    assert!(block.is_none(), "a block has no end");
    steps
}

fn step(words: &[&str], lines: &[&str]) -> Option<Step> {
    let text = || lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    Some(match words {
        ["text"] => return None,
        ["console"] => Step::Run { commands: typed(lines), fails: false },
        ["console", "fails"] => Step::Run { commands: typed(lines), fails: true },
        ["console", "start", name] => {
            let [command] = <[Typed; 1]>::try_from(typed(lines)).expect("one command to start");
            Step::Start { name: (*name).to_owned(), command }
        }
        ["console", "stop", name] => {
            let (first, shown) = lines.split_first().expect("what stops it");
            assert_eq!(*first, "^C", "what stops {name}");
            Step::Stop { name: (*name).to_owned(), shown: shown.iter().map(|line| (*line).to_owned()).collect() }
        }
        [_, "file", path] => Step::Write { path: (*path).to_owned(), text: text() },
        [_, "from", path] => Step::Excerpt { path: (*path).to_owned(), text: text() },
        _ => panic!("a block of docs/guide says `{}`: see tests/src/e2e/guide.rs for what it may say", words.join(" ")),
    })
}

/// Whether a line is as it is shown, with `…` for any text.
fn is_as_shown(line: &str, shown: &str) -> bool {
    let mut parts = shown.trim_end().split('…');
    let Some(mut rest) = parts.next().and_then(|start| line.trim_end().strip_prefix(start)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether lines are as they are shown, with `…` alone for any lines.
fn are_as_shown(lines: &[&str], shown: &[&str]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, first) => first.is_none(),
        (Some((&"…", rest)), first) => {
            are_as_shown(lines, rest) || first.is_some_and(|(_, others)| are_as_shown(others, shown))
        }
        (Some((wanted, rest)), Some((line, others))) => is_as_shown(line, wanted) && are_as_shown(others, rest),
        (Some(_), None) => false,
    }
}

/// Whether an output is what the guide shows of it. Nothing shown: anything will do.
fn is_output_as_shown(output: &str, shown: &[String]) -> bool {
    let lines: Vec<&str> = output.lines().collect();
    let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    shown.is_empty() || are_as_shown(&lines, &shown)
}

/// A command that runs until it is stopped.
#[derive(Debug)]
struct Started {
    name: String,
    running: Running,
    output: PathBuf,
}

impl Started {
    fn said(&self) -> String {
        let bytes = std::fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A machine on which chapters are run. All that runs there ends with it.
#[derive(Debug)]
pub struct Reader {
    started: Vec<Started>,
    outputs: tempfile::TempDir,
    first: String,
    _machine: Running,
}

impl Reader {
    /// A machine of its own, in the caller's network namespace.
    ///
    /// # Panics
    /// It can't be made.
    pub fn new() -> Reader {
        let target = workspace().join("target/guide");
        let release = target.join("release");
        let _ = std::fs::remove_dir_all(&release);
        std::fs::create_dir_all(&release).expect("a directory to build in");
        for (from, to) in [
            (qanat(), "qanat"),
            (qanat().with_file_name("libqanat_posix.so"), "libqanat_posix.so"),
            (native_library(), "libqanat-native.so.1"),
        ] {
            std::os::unix::fs::symlink(from, release.join(to)).expect("what was built to be tested");
        }
        // What a chapter builds is made of the crates that the tests are made of: they are not compiled again.
        let tested = std::env::current_exe().expect("a test program");
        let built = tested.ancestors().nth(2).expect("a directory of build products");
        let debug = target.join("debug");
        if built.ends_with("debug") && !debug.exists() {
            std::os::unix::fs::symlink(built, debug).expect("a link to the build products");
        }
        let machine = Program::new("unshare")
            .arguments(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"])
            .arguments(["--", "sh", "-c", MACHINE, "sh"])
            .arguments([workspace(), target])
            .start();
        let children = format!("/proc/{0}/task/{0}/children", machine.id());
        let mut first = String::new();
        eventually("the reader's machine is there", Duration::from_secs(10), || {
            first = std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
            !first.is_empty() && Path::new(&format!("/proc/{first}/root/run/ready")).exists()
        });
        let outputs = tempfile::tempdir().expect("a directory for outputs");
        Reader { started: Vec::new(), outputs, first, _machine: machine }
    }

    /// Runs a chapter, which must leave nothing running.
    ///
    /// # Panics
    /// A step does not do what the chapter says.
    pub fn runs(&mut self, chapter: &str) {
        for step in steps(chapter) {
            match step {
                Step::Run { commands, fails } => commands.iter().for_each(|command| self.run(command, fails)),
                Step::Start { name, command } => self.start(name, &command),
                Step::Stop { name, shown } => self.stop(&name, &shown),
                Step::Write { path, text } => {
                    let path = format!("/proc/{}/root{DIRECTORY}/{path}", self.first);
                    std::fs::write(&path, text).unwrap_or_else(|error| panic!("{path}: {error}"));
                }
                Step::Excerpt { path, text } => {
                    let whole = std::fs::read_to_string(workspace().join(&path)).unwrap_or_default();
                    assert!(whole.contains(&text), "{path} has no such lines: {text}");
                }
            }
        }
        for Started { name, running, .. } in self.started.drain(..) {
            println!("({name} ends)");
            running.wait(Duration::from_secs(15));
        }
    }

    /// A command line as its user's shell runs it, on the reader's machine.
    fn program(&self, command: &Typed, redirection: &str) -> Program {
        let first = self.first.as_str();
        let enter = ["--target", first, "--mount", "--pid", &format!("--wdns={DIRECTORY}"), "--"].map(str::to_owned);
        let program = Program::new("nsenter").arguments(enter).patience(PATIENCE);
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let user = command.user.as_str();
        if command.text.starts_with("cargo ") {
            // With the toolchain of whoever runs the test.
            let toolchain = std::env::var("CARGO").unwrap_or_default();
            let found = Path::new(&toolchain).parent().unwrap_or(Path::new("")).display().to_string();
            let path = format!("PATH={found}:{}", std::env::var("PATH").unwrap_or_default());
            return program.arguments([
                "env",
                "--unset=CARGO_TARGET_DIR",
                &path,
                "sh",
                "-c",
                &format!("{} {redirection}", command.text),
            ]);
        }
        if let Some(text) = command.text.strip_prefix("sudo ") {
            let numbers = self.numbers(user);
            let [number, group] = numbers.map(|(name, number)| format!("SUDO_{name}={number}"));
            return program
                .arguments(["env", "-i", path, "HOME=/root", &format!("SUDO_USER={user}"), &number, &group])
                .arguments(["sh", "-c", &format!("{text} {redirection}")]);
        }
        program
            .arguments(["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--inh-caps=-all", "--"])
            .arguments(["env", "-i", path, &format!("HOME=/run/{user}"), &format!("USER={user}")])
            .arguments(["sh", "-c", &format!("{} {redirection}", command.text)])
    }

    /// A user's number and group, as sudo tells them.
    fn numbers(&self, user: &str) -> [(&'static str, String); 2] {
        let accounts = std::fs::read_to_string(format!("/proc/{}/root/etc/passwd", self.first)).unwrap_or_default();
        let prefix = format!("{user}:");
        let account = accounts.lines().find(|line| line.starts_with(&prefix)).expect("the reader's account");
        let mut fields = account.split(':').skip(2).map(str::to_owned);
        ["UID", "GID"].map(|name| (name, fields.next().unwrap_or_default()))
    }

    fn run(&self, command: &Typed, fails: bool) {
        println!("{}$ {}", command.user, command.text);
        // That is done, and takes minutes.
        let dry = Typed { user: command.user.clone(), text: "make --dry-run build".to_owned(), shown: Vec::new() };
        let command = if command.text == "make build" { &dry } else { command };
        let mut outcome: Outcome = self.program(command, "2>&1").run();
        if fails && outcome.code == Some(0) {
            // The kernel removes what has ended a moment later, and no reader is as quick as this.
            eventually("it fails, as the guide shows", Duration::from_secs(5), || {
                outcome = self.program(command, "2>&1").run();
                outcome.code != Some(0)
            });
        }
        let output = outcome.text();
        println!("{output}");
        let has_failed = outcome.code != Some(0);
        assert_eq!(has_failed, fails, "{}: {:?}\n{output}\n{}", command.text, outcome.code, outcome.stderr);
        assert!(
            is_output_as_shown(&output, &command.shown),
            "`{}` says\n{output}\nand the guide shows\n{}",
            command.text,
            command.shown.join("\n")
        );
    }

    fn start(&mut self, name: String, command: &Typed) {
        println!("{}$ {} &", command.user, command.text);
        let output = self.outputs.path().join(&name);
        std::fs::write(&output, "").expect("a file for its output");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&output, open).expect("its mode");
        let directory = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.outputs.path(), directory).expect("its mode");
        let running = self.program(command, &format!(">>{} 2>&1", output.display())).start();
        let mut started = Started { name, running, output };
        let mut shown = command.shown.clone();
        shown.push("…".to_owned());
        let ready = std::panic::AssertUnwindSafe(|| {
            eventually("it says what the guide shows", Duration::from_secs(20), || {
                is_output_as_shown(&started.said(), &shown) || !started.running.is_running()
            });
        });
        let in_time = std::panic::catch_unwind(ready).is_ok();
        let said = started.said();
        println!("{said}");
        assert!(
            in_time && started.running.is_running(),
            "`{}` says\n{said}\nand the guide shows\n{shown:#?}",
            command.text
        );
        self.started.push(started);
    }

    fn stop(&mut self, name: &str, shown: &[String]) {
        let place = self.started.iter().position(|started| started.name == name).expect("what was started before");
        let Started { name, running, output } = self.started.remove(place);
        let before = std::fs::read(&output).unwrap_or_default().len();
        let group = i32::try_from(running.id()).ok().and_then(Pid::from_raw).expect("a process group");
        kill_process_group(group, Signal::INT).expect("Ctrl-C");
        running.wait(Duration::from_secs(15));
        let said = std::fs::read(&output).unwrap_or_default();
        let said = String::from_utf8_lossy(said.get(before..).unwrap_or_default()).into_owned();
        println!("^C ({name})\n{said}");
        assert!(is_output_as_shown(&said, shown), "{name} says\n{said}\nand the guide shows\n{shown:#?}");
    }
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_steps() {
        let chapter = "Text.\n```console start web\n$ sudo qanat web ./site\nServing …\n```\n```console\n$ curl x\nIt flows.\nbob$ cat \\\n> y\n\
                       ```\n* A list:\n\n  ```console\n  $ ls\n\n    a\n  ```\n```console stop web\n^C\n…\n```\n```toml file p.toml\na = 1\n```\n```text\nno\n```\n";
        let command = |user: &str, text: &str, shown: &[&str]| Typed {
            user: user.to_owned(),
            text: text.to_owned(),
            shown: shown.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(
            steps(chapter),
            [
                Step::Start {
                    name: "web".to_owned(),
                    command: command("alice", "sudo qanat web ./site", &["Serving …"])
                },
                Step::Run {
                    commands: vec![command("alice", "curl x", &["It flows."]), command("bob", "cat \\\ny", &[])],
                    fails: false
                },
                Step::Run { commands: vec![command("alice", "ls", &["", "  a"])], fails: false },
                Step::Stop { name: "web".to_owned(), shown: vec!["…".to_owned()] },
                Step::Write { path: "p.toml".to_owned(), text: "a = 1\n".to_owned() },
            ]
        );
    }

    #[test]
    fn dots_stand_for_what_differs() {
        assert!(is_as_shown("up 17 s: 1 VNICs", "up … s: 1 VNICs"));
        assert!(is_as_shown("anything", "…"));
        assert!(!is_as_shown("up 17 s: 2 VNICs", "up … s: 1 VNICs"));
        assert!(!is_as_shown("a longer line", "a longer"));
        assert!(are_as_shown(&["a", "b", "c", "d"], &["a", "…", "d"]));
        assert!(!are_as_shown(&["a", "b", "c", "d"], &["a", "…", "c"]));
        assert!(are_as_shown(&["a"], &["a", "…"]));
        assert!(!are_as_shown(&[], &["a", "…"]));
    }
}
