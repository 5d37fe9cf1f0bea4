//! Signals of services. HUP has two meanings, which a service has to tell apart: `kill -HUP` (or a unit's reload) has it reload, and
//! the end of the terminal in which it was started ends it.
//!
//! A closed terminal is nobody's terminal any more: the kernel takes it from each process that had it, then sends HUP to the leader
//! of the session (a shell), and when that ends, to what runs in the foreground. A shell, and `sudo`, pass the signal on as well. So
//! HUP means the end if the kernel or an ancestor sent it, and this process or an ancestor has lost the terminal that it had when this
//! process began. All other HUPs mean a reload: of a unit, from another terminal after `disown`, and any under `nohup`.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::iterator::{Handle, SignalsInfo};
use std::os::unix::net::UnixStream;

/// Processes above this one that are looked at.
const ANCESTORS_MAX: usize = 64;

/// What comes to a service. A closed terminal is told as TERM, once.
pub struct Signals {
    inner: SignalsInfo<WithOrigin>,
    birth: Birth,
}

/// Where this process was started.
struct Birth {
    /// This process, and those above it.
    line: Vec<Process>,
    has_told: bool,
}

/// A process, and the terminal it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Process {
    id: i32,
    parent: i32,
    /// The terminal's number; 0: none.
    terminal: i32,
    /// A number that is used again is another process.
    began: u64,
    /// It has ended, or is about to.
    is_ending: bool,
}

/// In a process's flags: it is ending. Its children may be another's already.
const PF_EXITING: u64 = 4;

/// Catches HUP from now on. Each one is kept until somebody asks for signals. Other signals do what they always do until they are
/// added.
///
/// # Errors
/// What the system says.
pub fn hangups() -> Result<Signals, String> {
    Signals::new(&[SIGHUP])
}

impl Signals {
    /// Catches these.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(signals: &[i32]) -> Result<Signals, String> {
        // Before the handler stands, for that tells whether HUP was ignored.
        let birth = Birth::look();
        let inner = SignalsInfo::new(signals).map_err(|error| format!("handling signals: {error}"))?;
        Ok(Signals { inner, birth })
    }

    /// Of a process whose leader judges HUPs and passes them on: each HUP means a reload.
    pub fn of_led(mut self, is_led: bool) -> Signals {
        self.birth.line.retain(|_| !is_led);
        self
    }

    /// Catches more of them.
    ///
    /// # Errors
    /// What the system says.
    pub fn also_handle(&self, more: &[i32]) -> Result<(), String> {
        let handle = self.handle();
        more.iter()
            .try_for_each(|signal| handle.add_signal(*signal))
            .map_err(|error| format!("handling signals: {error}"))
    }

    /// Closes them, from another thread.
    pub fn handle(&self) -> Handle {
        self.inner.handle()
    }

    /// Those that come, until they are closed.
    pub fn forever(&mut self) -> impl Iterator<Item = i32> {
        let birth = &mut self.birth;
        self.inner.forever().filter_map(|signal| birth.judge(&signal))
    }

    /// Those that have come.
    pub fn pending(&mut self) -> impl Iterator<Item = i32> {
        let birth = &mut self.birth;
        self.inner.pending().filter_map(|signal| birth.judge(&signal))
    }
}

impl Birth {
    fn look() -> Birth {
        let is_ignored = is_hangup_ignored().unwrap_or_default();
        Birth { line: if is_ignored { Vec::new() } else { line() }, has_told: false }
    }

    /// What a signal means: itself, TERM, or nothing new.
    fn judge(&mut self, signal: &Origin) -> Option<i32> {
        let sender = signal.process.map(|process| process.pid);
        match signal.signal == SIGHUP && self.is_ours(sender) && self.has_lost_terminal() {
            false => Some(signal.signal),
            // The shell and the kernel both say it; a service that is told to stop twice stops at once.
            true => (!std::mem::replace(&mut self.has_told, true)).then_some(SIGTERM),
        }
    }

    /// Whether the kernel sent a signal (`None`), or an ancestor. One that has died since was one when it sent it; one that lives
    /// may be none any more.
    fn is_ours(&self, sender: Option<i32>) -> bool {
        let Some(sender) = sender else { return true };
        let above = self.line.get(1..).unwrap_or_default();
        let Some(ancestor) = above.iter().find(|process| process.id == sender) else { return false };
        // In this order: a shell that ends says HUP just before. It is above this process until it is about to end.
        line().iter().skip(1).any(|process| process.id == sender) || ancestor.now().is_none()
    }

    fn has_lost_terminal(&self) -> bool {
        let had_one = self.line.iter().filter(|process| process.terminal != 0);
        had_one.filter_map(Process::now).any(|now| now.terminal == 0)
    }
}

/// This process and those above it, as they are now.
fn line() -> Vec<Process> {
    let first = Process::read("self");
    std::iter::successors(first, |process| Process::read(&process.parent.to_string())).take(ANCESTORS_MAX).collect()
}

impl Process {
    /// As it is now, if it lives.
    fn now(&self) -> Option<Process> {
        Process::read(&self.id.to_string()).filter(|now| now.began == self.began && !now.is_ending)
    }

    /// As the kernel tells of it: `id (name) state parent group session terminal … flags … began …`.
    fn read(name: &str) -> Option<Process> {
        Process::parse(&std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Process> {
        // A name may have parentheses.
        let (id, rest) = text.split_once(" (")?;
        let fields: Vec<&str> = rest.rsplit_once(") ")?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        let flags: u64 = fields.get(6)?.parse().ok()?;
        Some(Process {
            id: id.parse().ok()?,
            parent: number(1)?,
            terminal: number(4)?,
            began: fields.get(19)?.parse().ok()?,
            is_ending: matches!(*fields.first()?, "Z" | "X") || flags & PF_EXITING != 0,
        })
    }
}

/// Readable when told to stop by one of `signals`.
pub fn stop_signals(signals: &[i32]) -> Result<UnixStream, String> {
    let failed = |error: std::io::Error| format!("handling signals: {error}");
    let (read, write) = UnixStream::pair().map_err(failed)?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, write.try_clone().map_err(failed)?).map_err(failed)?;
    }
    Ok(read)
}

/// What ends a program that has nothing to reload. HUP is among it, unless it was started by `nohup`.
pub fn ends() -> Vec<i32> {
    let is_ignored = is_hangup_ignored().unwrap_or_default();
    [SIGINT, SIGTERM].into_iter().chain((!is_ignored).then_some(SIGHUP)).collect()
}

/// As `nohup` has it.
fn is_hangup_ignored() -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?.trim();
    Some(u64::from_str_radix(mask, 16).ok()? & 1 << (SIGHUP - 1) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read() {
        let text = "4242 (a ) (b) S 17 4242 4242 34816 4242 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 0 0\n";
        let known = Process { id: 4242, parent: 17, terminal: 34_816, began: 987_654, is_ending: false };
        assert_eq!(Process::parse(text), Some(known));
        // A shell sends HUP, and ends: for a moment it is neither gone nor above anybody.
        for changed in [text.replace(") S", ") Z"), text.replace("4194304", "4194308")] {
            assert_eq!(Process::parse(&changed), Some(Process { is_ending: true, ..known }));
        }
        assert_eq!([Process::parse(""), Process::parse("1 (x) S 2")], [None, None]);
        let own = Process::read("self").unwrap();
        assert_eq!(own.id, std::process::id() as i32);
        assert!(is_hangup_ignored().is_some(), "it is told, whoever started this");
    }
}
