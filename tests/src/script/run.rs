//! Runs a script on a backend: events at their times, segments compared as they come.

use super::matching::Translation;
use super::packet::Packet;
use super::syntax::{Action, Call, Line, Script, Segment, Stack, When};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// Time an event expected "at any time" is waited for.
const ANY_MAX: Duration = Duration::from_secs(8);

/// Further segments shown when a script fails.
const REST_MAX: usize = 6;

/// A stack under test, its clock, and the wire to it.
pub trait Backend {
    /// Which.
    fn stack(&self) -> Stack;
    /// Its address and port, and the script's.
    fn addresses(&self) -> (SocketAddr, SocketAddr);
    /// Time since the start.
    fn now(&self) -> Duration;
    /// Lets time pass; returns at `until` or later.
    fn wait_until(&mut self, until: Duration);
    /// The next IP packet the stack sent by `deadline`, and when.
    fn next_packet(&mut self, deadline: Duration) -> Option<(Duration, Vec<u8>)>;
    /// Hands an IP packet to the stack.
    fn inject(&mut self, packet: &[u8]);
    /// Makes a socket call: its result, or the name of its error.
    ///
    /// # Errors
    /// If the call is not known here.
    fn call(&mut self, call: &Call) -> Result<Result<i64, String>, String>;
    /// How early and how late an event may come after waiting for `waited`.
    fn tolerance(&self, script: &Script, waited: Duration) -> (Duration, Duration);
}

/// Why a script failed.
#[derive(Debug)]
pub struct Failure {
    /// `name:line`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// By how much the runner itself was late at worst (never under a virtual clock): the machine may be to blame.
    pub lateness: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// The result of `getsockopt(…, SO_ERROR, [wanted], …)`, given the socket's error.
///
/// # Errors
/// Both errors, if they differ.
pub fn socket_error(call: &Call, error: Option<&str>) -> Result<i64, String> {
    let wanted = call.arguments.get(3).map_or("", |value| value.trim_matches(['[', ']']));
    let error = error.unwrap_or("0");
    if wanted == error { Ok(0) } else { Err(format!("SO_ERROR is {error}, not {wanted}")) }
}

struct Run<'a> {
    script: &'a Script,
    backend: &'a mut dyn Backend,
    translation: Translation,
    /// Time of the previous event.
    last: Duration,
    lateness: Duration,
}

/// Runs `script`.
///
/// # Errors
/// The first line that did not go as written.
pub fn run(script: &Script, backend: &mut dyn Backend) -> Result<(), Failure> {
    let (local, remote) = backend.addresses();
    let stack = backend.stack();
    let last = backend.now();
    let mut run = Run { script, backend, translation: Translation::new(local, remote), last, lateness: Duration::ZERO };
    let mut number = 0;
    let lines = script.lines.iter().filter(|line| line.only.is_none_or(|only| only == stack));
    let result = lines.map(|line| (line.number, line)).try_for_each(|(at, line)| {
        number = at;
        run.step(line)
    });
    let result = result.and_then(|()| run.expect_silence());
    result.map_err(|message| {
        let message = message + &run.rest();
        Failure { place: format!("{}:{number}", script.name), message, lateness: run.lateness }
    })
}

impl Run<'_> {
    fn step(&mut self, line: &Line) -> Result<(), String> {
        let (from, to) = match line.when {
            When::Relative(after) => (self.last + after, self.last + after),
            When::Absolute(at) => (at, at),
            When::Range(from, to) => (self.last + from, self.last + to),
            When::Any => (self.last, self.last + ANY_MAX),
        };
        if let Action::Outbound(segment) = &line.action {
            return self.expect(segment, from, to);
        }
        self.backend.wait_until(from);
        self.last = self.backend.now().max(from);
        self.lateness = self.lateness.max(self.last - from);
        match &line.action {
            Action::Inbound(segment) => {
                let packet = self.translation.inbound(segment).to_bytes();
                self.backend.inject(&packet);
            }
            Action::Icmp(icmp) => {
                let packet = self.translation.icmp(icmp);
                self.backend.inject(&packet);
            }
            Action::Call(call) => self.call(call)?,
            Action::Outbound(_) | Action::Wait => {}
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) -> Result<(), String> {
        let wanted = match (&call.errno, call.result) {
            (Some(errno), _) => Err(errno.clone()),
            (None, result) => Ok(result),
        };
        let got = self.backend.call(call)?;
        if got == wanted { Ok(()) } else { Err(format!("{} returned {got:?}, not {wanted:?}", call.name)) }
    }

    /// What else the stack has sent, for a failure's message.
    fn rest(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..REST_MAX {
            let deadline = self.backend.now() + Duration::from_millis(1);
            let Ok(Some((at, packet))) = self.next(deadline) else { break };
            text += &format!("\n    then {:.4} > {}", at.as_secs_f64(), self.translation.show(&packet));
        }
        text
    }

    /// The next TCP segment by `deadline`.
    fn next(&mut self, deadline: Duration) -> Result<Option<(Duration, Packet)>, String> {
        while let Some((at, bytes)) = self.backend.next_packet(deadline) {
            if let Some(packet) = Packet::parse(&bytes)? {
                return Ok(Some((at, packet)));
            }
        }
        Ok(None)
    }

    fn expect(&mut self, segment: &Segment, from: Duration, to: Duration) -> Result<(), String> {
        let (early, late) = self.backend.tolerance(self.script, to.saturating_sub(self.last));
        let Some((at, packet)) = self.next(to + late)? else {
            return Err(format!("nothing sent by {:.4} s", (to + late).as_secs_f64()));
        };
        let stamps = (early + late).as_millis() as u32 + 2;
        let shown = |run: &Run<'_>| format!("{:.4} > {}", at.as_secs_f64(), run.translation.show(&packet));
        if let Err(wrong) = self.translation.outbound(segment, &packet, self.script.check_push, stamps) {
            return Err(format!("wrong {wrong}: got {}", shown(self)));
        }
        if at + early < from {
            return Err(format!("{:.4} s early: got {}", (from - at).as_secs_f64(), shown(self)));
        }
        if at > to + late {
            return Err(format!("{:.4} s late: got {}", (at - to).as_secs_f64(), shown(self)));
        }
        self.last = at;
        Ok(())
    }

    fn expect_silence(&mut self) -> Result<(), String> {
        let deadline = self.backend.now() + Duration::from_millis(2);
        match self.next(deadline)? {
            None => Ok(()),
            Some((at, packet)) => {
                let shown = self.translation.show(&packet);
                Err(format!("after the script's end: {:.4} > {shown}", at.as_secs_f64()))
            }
        }
    }
}
