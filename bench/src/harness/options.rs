//! What every table understands.

use crate::harness::HarnessError;
use std::path::PathBuf;
use std::time::Duration;

/// How a table is made.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// This program: it is started as server and as load.
    pub program: PathBuf,
    /// Fewer cases, one short run each: under a minute a table.
    pub quick: bool,
    /// Runs of each peer in each case; `None`: the table's choice.
    pub repetitions: Option<usize>,
    /// Length of a run; `None`: the table's choice.
    pub duration: Option<Duration>,
    /// The file or device that a table of disks is about; `None`: a file of its own.
    pub on: Option<PathBuf>,
    /// What is in it may be overwritten.
    pub overwrite: bool,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
}

impl BenchOptions {
    /// Everything as the tables choose.
    pub fn new(program: PathBuf) -> BenchOptions {
        BenchOptions {
            program,
            quick: false,
            repetitions: None,
            duration: None,
            on: None,
            overwrite: false,
            filter: None,
        }
    }

    /// Runs of each peer in each case: 5, or 1 if it should be quick, unless told otherwise.
    pub fn repetitions(&self) -> usize {
        self.repetitions.unwrap_or(if self.quick { 1 } else { 5 }).clamp(1, 1_000)
    }

    /// Length of a run: `full`, or `quick`, unless told otherwise.
    pub fn duration(&self, full: Duration, quick: Duration) -> Duration {
        self.duration.unwrap_or(if self.quick { quick } else { full })
    }

    /// Those of the cases that the filter names.
    ///
    /// # Errors
    /// [`HarnessError::Option`], with the names there are, when it names none of them.
    pub fn chosen<T>(&self, all: Vec<T>, name: impl Fn(&T) -> String) -> Result<Vec<T>, HarnessError> {
        let Some(filter) = &self.filter else { return Ok(all) };
        let names: Vec<String> = all.iter().map(|case| format!("'{}'", name(case))).collect();
        let chosen: Vec<T> = all.into_iter().filter(|case| name(case).contains(filter.as_str())).collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let fewer = if self.quick { " (and more without --quick)" } else { "" };
        Err(HarnessError::Option(format!("no case's name contains '{filter}'; there are {}{fewer}", names.join("; "))))
    }

    /// The words that make `command` do this again.
    pub fn repeat(&self, command: &str) -> String {
        let mut command = command.to_owned();
        if self.quick {
            command.push_str(" --quick");
        }
        if let Some(repetitions) = self.repetitions {
            command.push_str(&format!(" --repetitions {repetitions}"));
        }
        if let Some(duration) = self.duration {
            command.push_str(&format!(" --duration {duration:?}"));
        }
        if let Some(on) = &self.on {
            command.push_str(&format!(" --on {}", on.display()));
        }
        if self.overwrite {
            command.push_str(" --overwrite");
        }
        if let Some(filter) = &self.filter {
            command.push_str(&format!(" --filter '{filter}'"));
        }
        command
    }
}
