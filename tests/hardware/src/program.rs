//! Programs of the virtual machine.

use std::process::{Child, Command};

fn command(words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    command
}

/// Runs a program: whether it succeeds, and what it printed.
pub fn output_of(words: &str) -> (bool, String) {
    let output = command(words).output().unwrap_or_else(|error| panic!("{words}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
}

/// Runs a program; what it printed.
///
/// # Panics
/// It fails.
pub fn run(words: &str) -> String {
    let (is_done, text) = output_of(words);
    assert!(is_done, "{words}: {text}");
    text
}

/// A program that runs until this is dropped. What it says goes where ours goes.
pub struct Started {
    words: String,
    child: Child,
}

impl Started {
    pub fn new(words: &str) -> Started {
        let child = command(words).spawn().unwrap_or_else(|error| panic!("{words}: {error}"));
        Started { words: words.to_owned(), child }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as Ctrl-C does, and waits until it has ended.
    pub fn interrupt(mut self) {
        let _ = command(&format!("busybox kill -INT {}", self.child.id())).status();
        let _ = self.child.wait();
    }

    /// Ends it without a word.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// # Panics
    /// It has ended.
    pub fn is_running(&mut self) {
        let ended = self.child.try_wait().expect("a child");
        assert!(ended.is_none(), "{}: {ended:?}", self.words);
    }
}

impl Drop for Started {
    /// As an administrator ends it. The case fails by its time if it doesn't.
    fn drop(&mut self) {
        let _ = command(&format!("busybox kill -TERM {}", self.child.id())).status();
        let _ = self.child.wait();
    }
}
