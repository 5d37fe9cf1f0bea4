//! What runs in a network namespace, as `/proc` shows it.

use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    pub id: i32,
    pub parent: i32,
    pub group: i32,
    pub state: char,
    pub name: String,
    pub line: String,
}

impl Process {
    /// `None`: it is gone, or this user may not look.
    fn read(id: i32) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (start, rest) = stat.rsplit_once(") ")?;
        let (_, name) = start.split_once('(')?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(Process { id, parent, group, state, name: name.to_owned(), line: line.trim().to_owned() })
    }

    /// Whether it has not ended: one that nobody has waited for yet has.
    pub fn lives(&self) -> bool {
        self.state != 'Z' && self.state != 'X'
    }

    pub fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.id)
    }

    /// A signal, if it is there.
    pub fn signal(&self, signal: Signal) {
        self.pid().into_iter().for_each(|pid| _ = kill_process(pid, signal));
    }
}

/// What a process is at, a line for each thread.
pub fn look(id: i32) -> String {
    let read = |path: String| std::fs::read_to_string(path).unwrap_or_default().trim().replace('\0', " ");
    let mut all = vec![format!("{id}: {}", read(format!("/proc/{id}/cmdline")))];
    for task in std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten() {
        let task = task.path().display().to_string();
        let [stat, place, call] = ["stat", "wchan", "syscall"].map(|file| read(format!("{task}/{file}")));
        all.push(format!("  {stat} {place} {call}"));
    }
    all.join("\n")
}

/// All of this machine.
pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?))
        .filter(Process::lives)
        .collect()
}

fn namespace_of(id: i32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{id}/ns/net")).ok()
}

/// Those in the namespace that a process is in.
pub fn beside(id: i32) -> Vec<Process> {
    let Some(here) = namespace_of(id) else { return Vec::new() };
    all().into_iter().filter(|process| namespace_of(process.id).as_ref() == Some(&here)).collect()
}

/// Those of a process group.
pub fn of_group(group: i32) -> Vec<Process> {
    all().into_iter().filter(|process| process.group == group).collect()
}

/// The descendants of a process among `list`, nearest first.
pub fn below(list: &[Process], id: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![id];
    while let Some(parent) = parents.pop() {
        for child in list.iter().filter(|process| process.parent == parent) {
            parents.insert(0, child.id);
            found.push(child.clone());
        }
    }
    found
}

/// Whether a process handles or ignores a signal, by number: what comes then does not end it.
pub fn is_prepared(id: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let has = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        u64::from_str_radix(line.trim(), 16).is_ok_and(|mask| mask & (1 << (signal - 1)) != 0)
    };
    has("SigCgt:") || has("SigIgn:")
}
