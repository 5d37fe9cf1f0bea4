//! What a table was measured on.

use super::cpu;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// This program's version and commit, as whoever built it says; until then only the version is known.
pub static VERSION: OnceLock<&'static str> = OnceLock::new();

/// The statement printed with every table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// Kernel release.
    pub kernel: String,
    /// Processor model, and how many.
    pub processors: String,
    /// Version and commit of this program.
    pub commit: String,
    /// When, UTC, by `date`.
    pub date: String,
    /// Versions of the peers.
    pub peers: Vec<String>,
    /// The link, its MTU and offloads.
    pub link: String,
    /// Which program ran on which processor.
    pub pinning: String,
    /// Whether other programs were busy before the first run.
    #[serde(default)]
    pub quiet: String,
    /// How far apart the processors were, run by run.
    #[serde(default)]
    pub placement: String,
    /// Warnings: a machine that was not quiet, processors that moved.
    pub warnings: Vec<String>,
}

impl Environment {
    /// This machine and program; the link and peers are the table's to add.
    pub fn here() -> Environment {
        let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let model = model.map_or("unknown processor", |(_, model)| model);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Environment {
            kernel: format!("Linux {}", kernel.trim()),
            processors: format!("{} × {model}", cpu::count()),
            commit: format!("qanat {}", VERSION.get().unwrap_or(&env!("CARGO_PKG_VERSION"))),
            date: first_line(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])).unwrap_or_default(),
            ..Environment::default()
        }
    }

    /// Waits until the machine is quiet, at most `patience`, and says whether it was.
    pub fn wait_for_quiet(&mut self, patience: Duration) {
        let (busy, quiet) = cpu::wait_for_quiet(patience);
        let busy = format!("a core was {:.0} % busy before the first run", busy * 100.0);
        if !quiet {
            self.warnings.push(format!("the machine was not quiet: {busy}"));
        }
        self.quiet = format!("{}: {busy}", if quiet { "yes" } else { "no" });
    }
}

impl std::fmt::Display for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "  machine   {}, {}", self.processors, self.kernel)?;
        writeln!(f, "  pinning   {}", self.pinning)?;
        writeln!(f, "  link      {}", self.link)?;
        writeln!(f, "  peers     {}", self.peers.join("; "))?;
        for (name, value) in [("quiet", &self.quiet), ("placement", &self.placement)] {
            if !value.is_empty() {
                writeln!(f, "  {name:<9} {value}")?;
            }
        }
        write!(f, "  commit    {}, {}", self.commit, self.date)?;
        for warning in &self.warnings {
            write!(f, "\n  WARNING   {warning}")?;
        }
        Ok(())
    }
}

/// The first line a program prints, if it succeeds (programs that print their version on stderr included).
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.stdin(std::process::Stdio::null()).output().ok().filter(|output| output.status.success())?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&text).lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_where_it_is() {
        let here = Environment::here();
        assert!(here.kernel.starts_with("Linux ") && here.commit.starts_with("qanat "));
        assert!(here.to_string().contains("machine"));
    }
}
