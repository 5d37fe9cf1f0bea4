//! The processes that hold an XDP program by a descriptor of it, or of the link that attaches it.

use std::fmt;

/// A process that has a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// Its command line, as far as it fits a message.
    pub command: String,
}

/// Characters of a command line.
const COMMAND_MAX: usize = 60;

impl Holder {
    /// The first process found that has the program of that number. `None`: nobody whose descriptors this process may see.
    pub fn of_program(program: u32) -> Option<Holder> {
        let line = format!("prog_id:\t{program}");
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers.filter(|process| has_line(*process, &line)).map(Holder::of_process).next()
    }

    fn of_process(process: u32) -> Holder {
        let bytes = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&bytes).replace('\0', " ");
        let printable = words.trim_end().chars().filter(|character| !character.is_control());
        Holder { process, command: printable.take(COMMAND_MAX).collect() }
    }

    /// Whether it is a program of ours, which a daemon could give a card to.
    pub fn is_qanat(&self) -> bool {
        let program = self.command.split(' ').next().unwrap_or_default();
        program.rsplit('/').next() == Some("qanat")
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.process, self.command)
    }
}

fn has_line(process: u32, line: &str) -> bool {
    let Ok(files) = std::fs::read_dir(format!("/proc/{process}/fdinfo")) else { return false };
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    files.flatten().any(|file| text(file.path()).lines().any(|found| found == line))
}
