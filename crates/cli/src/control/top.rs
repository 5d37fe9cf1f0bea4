//! `qanat top`: the same as `qanat status`, as rates, live.

use crate::daemon::{DaemonArguments, short};
use crate::say::sayln;
use clap::Args;
use console::Term;
use qanat_control::name::printable;
use qanat_control::protocol::{DirectionStatus, Status, VnicStatus};
use rustix::process::{getpid, kill_process};
use serde_json::{Value, json};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Show the rates and drops of virtual cards, live
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat top                         a table, new each second; Ctrl-C ends it
  qanat top --interval 5 --count 1  one table, of the next five seconds
  qanat top --json                  one object a line, for programs
The table is 79 columns wide. A narrower terminal shows only the part that fits.")]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// Seconds between two tables
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Stop after this many tables (default: at Ctrl-C)
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Shows rates until interrupted.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let interval = Duration::try_from_secs_f64(arguments.interval)
        .ok()
        .filter(|interval| (Duration::from_millis(50)..Duration::from_secs(3_600)).contains(interval))
        .ok_or("--interval: 0.05 to 3600 seconds")?;
    let session = arguments.daemon.session()?;
    let ask = || session.status().map_err(|error| error.to_string());
    let (mut before, mut at) = (ask()?, Instant::now());
    let mut screen = (io::stdout().is_terminal() && !arguments.json).then(Screen::open).transpose()?;
    let mut shown = 0;
    while arguments.count.is_none_or(|count| shown < count) {
        let Some(screen) = &mut screen else {
            std::thread::sleep(interval);
            let now = ask()?;
            show_plain(arguments.json, &before, &now, at.elapsed().as_secs_f64());
            (before, at) = (now, Instant::now());
            shown += 1;
            continue;
        };
        if let Some(signal) = screen.wait(interval.saturating_sub(at.elapsed()))? {
            // As the signal would have ended it, but that the terminal is as it was.
            screen.close();
            if signal == SIGINT {
                return Ok(());
            }
            crate::exit::by_signal(signal);
        }
        if at.elapsed() >= interval {
            let now = ask()?;
            screen.draw(&table(&before, &now, at.elapsed().as_secs_f64()))?;
            (before, at) = (now, Instant::now());
            shown += 1;
        }
    }
    Ok(())
}

fn show_plain(json: bool, before: &Status, now: &Status, elapsed_s: f64) {
    match json {
        true => sayln!("{}", object(before, now, elapsed_s)),
        // With its own line ends.
        false => crate::say::say!("{}", table(before, now, elapsed_s)),
    }
}

/// A terminal that shows one table after the other at the same place. Dropped, also by a panic, it is as it was before.
struct Screen {
    signals: Receiver<i32>,
    last: String,
    is_open: bool,
}

/// Another screen than the shell's, without a cursor; and back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";

impl Screen {
    fn open() -> Result<Screen, String> {
        // From before the first change: whatever ends this, changes it back.
        let caught = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH];
        let mut signals = Signals::new(caught).map_err(|error| format!("handling signals: {error}"))?;
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if sender.send(signal).is_err() {
                    return;
                }
            }
        });
        let mut screen = Screen { signals: receiver, last: String::new(), is_open: true };
        screen.write(OPEN)?;
        Ok(screen)
    }

    /// Waits so long; a signal that is to end this.
    fn wait(&mut self, time: Duration) -> Result<Option<i32>, String> {
        let begun = Instant::now();
        loop {
            match self.signals.recv_timeout(time.saturating_sub(begun.elapsed())) {
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err("the thread for signals has ended".to_owned()),
                Ok(SIGWINCH) => self.redraw()?,
                Ok(SIGCONT) if self.is_open => {}
                Ok(SIGCONT) => {
                    self.is_open = true;
                    self.write(OPEN)?;
                    self.redraw()?;
                }
                Ok(SIGTSTP) => {
                    self.close();
                    let _ = kill_process(getpid(), rustix::process::Signal::STOP);
                }
                Ok(signal) => return Ok(Some(signal)),
            }
        }
    }

    fn draw(&mut self, text: &str) -> Result<(), String> {
        text.clone_into(&mut self.last);
        self.redraw()
    }

    /// From the corner on, line by line over what was there, and nothing that would make it scroll.
    fn redraw(&mut self) -> Result<(), String> {
        let (rows, columns) = Term::stdout().size();
        let drawn = drawn(&self.last, rows.into(), columns.into());
        self.write(&drawn)
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| format!("the terminal: {error}"))
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let _ = self.write(CLOSE);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.close();
    }
}

fn drawn(text: &str, rows: usize, columns: usize) -> String {
    let lines: Vec<String> =
        text.lines().take(rows).map(|line| line.chars().take(columns).collect::<String>() + "\x1b[K").collect();
    format!("\x1b[H{}\x1b[J", lines.join("\r\n"))
}

/// Passed frames, bytes and dropped frames so far.
fn sums(direction: &DirectionStatus) -> [u64; 3] {
    let mut sums = [0; 3];
    for count in &direction.counts {
        if count.dropped {
            sums[2] += count.frames;
        } else {
            sums[0] += count.frames;
            sums[1] += count.bytes;
        }
    }
    sums
}

/// Of each card packets, bits and drops a second, sent and received.
fn rates<'a>(
    before: &'a Status,
    now: &'a Status,
    elapsed_s: f64,
) -> impl Iterator<Item = (&'a VnicStatus, [[u64; 3]; 2])> {
    now.vnics.iter().map(move |vnic| {
        let earlier = before.vnics.iter().find(|other| other.vnic == vnic.vnic && other.mac == vnic.mac);
        let rate = |now: &DirectionStatus, before: Option<&DirectionStatus>| {
            let (now, before) = (sums(now), before.map_or([0; 3], sums));
            let rate = |index: usize| {
                let difference = now.get(index).zip(before.get(index)).map_or(0, |(a, b)| a.saturating_sub(*b));
                (difference as f64 / elapsed_s.max(1e-3)) as u64
            };
            [rate(0), rate(1) * 8, rate(2)]
        };
        let sent = rate(&vnic.transmit, earlier.map(|vnic| &vnic.transmit));
        (vnic, [sent, rate(&vnic.receive, earlier.map(|vnic| &vnic.receive))])
    })
}

fn object(before: &Status, now: &Status, elapsed_s: f64) -> Value {
    let direction = |[packets, bits, drops]: [u64; 3]| json!({ "packets_per_s": packets, "bits_per_s": bits, "drops_per_s": drops });
    let vnics: Vec<Value> = rates(before, now, elapsed_s)
        .map(|(vnic, [sent, received])| {
            json!({
                "vnic": vnic.vnic, "name": vnic.name, "user": vnic.user, "interface": vnic.interface,
                "transmit": direction(sent), "receive": direction(received),
            })
        })
        .collect();
    json!({ "event": "rates", "seconds": elapsed_s, "vnics": vnics })
}

fn table(before: &Status, now: &Status, elapsed_s: f64) -> String {
    let row = |cells: [&str; 10]| {
        let [vnic, name, user, interface, rates @ ..] = cells;
        let rates: String = rates.iter().map(|rate| format!(" {rate:>6}")).collect();
        format!("{vnic:<4} {name:<11} {user:>6} {interface:<11}{rates}\n")
    };
    let mut text = row(["", "", "", "", "sent", "", "", "recvd", "", ""]);
    text += &row(["VNIC", "NAME", "USER", "INTERFACE", "pkt/s", "bit/s", "drop/s", "pkt/s", "bit/s", "drop/s"]);
    for (vnic, rates) in rates(before, now, elapsed_s) {
        let short_name: String = printable(&vnic.name).chars().take(11).collect();
        let interface: String = vnic.interface.chars().take(11).collect();
        let [sent, received] = rates.map(|rates| rates.map(rounded));
        text += &row([
            &vnic.vnic.to_string(),
            &short_name,
            &vnic.user.to_string(),
            &interface,
            &sent[0],
            &sent[1],
            &sent[2],
            &received[0],
            &received[1],
            &received[2],
        ]);
    }
    text
}

/// In six characters at most.
fn rounded(number: u64) -> String {
    match number {
        0..1_000_000_000_000 => short(number),
        1_000_000_000_000..1_000_000_000_000_000 => format!("{}T", number / 1_000_000_000_000),
        _ => format!("{}P", number / 1_000_000_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::parse_number;

    #[test]
    fn a_table_is_drawn_in_place() {
        assert_eq!(drawn("abc\ndef\nghi\n", 2, 2), "\x1b[Hab\x1b[K\r\nde\x1b[K\x1b[J");
        assert_eq!(drawn("", 24, 80), "\x1b[H\x1b[J");
    }

    #[test]
    fn rates_have_room() {
        for power in 0..19 {
            for number in [10_u64.pow(power), 10_u64.pow(power) - 1, 9 * 10_u64.pow(power)] {
                assert!(rounded(number).len() <= 9 - 3, "{number}: {}", rounded(number));
            }
        }
        assert_eq!(parse_number(&rounded(1_500_000)), Ok(1_500_000));
    }

    #[test]
    fn the_table_fits_80_columns() {
        let status = Status::default();
        let text = table(&status, &status, 1.0);
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.chars().count() <= 79), "{text}");
    }
}
