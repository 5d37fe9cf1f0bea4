//! `qanat top`: the same as `qanat status`, as rates, live.

use crate::control::{DaemonArguments, short};
use clap::Args;
use qanat::control::protocol::{DirectionStatus, Status};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Show the virtual cards' rates and drops, live
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    daemon: DaemonArguments,
    /// Seconds between figures
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// End after so many
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
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
    let clears = std::io::stdout().is_terminal();
    let mut shown = 0;
    while arguments.count.is_none_or(|count| shown < count) {
        std::thread::sleep(interval);
        let now = ask()?;
        let text = table(&before, &now, at.elapsed().as_secs_f64());
        let start = if clears { "\x1b[H\x1b[2J" } else { "" };
        if write!(std::io::stdout(), "{start}{text}").and_then(|()| std::io::stdout().flush()).is_err() {
            // Nobody reads any more.
            return Ok(());
        }
        (before, at) = (now, Instant::now());
        shown += 1;
    }
    Ok(())
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

fn table(before: &Status, now: &Status, elapsed_s: f64) -> String {
    let mut text = format!(
        "{:<4} {:<12} {:>6} {:<10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        "VNIC", "NAME", "USER", "INTERFACE", "OUT pkt/s", "OUT bit/s", "DROP/s", "IN pkt/s", "IN bit/s", "DROP/s"
    );
    for vnic in &now.vnics {
        let earlier = before.vnics.iter().find(|other| other.vnic == vnic.vnic && other.mac == vnic.mac);
        let rate = |now: &DirectionStatus, before: Option<&DirectionStatus>| {
            let (now, before) = (sums(now), before.map_or([0; 3], sums));
            let rate = |index: usize| {
                let difference = now.get(index).zip(before.get(index)).map_or(0, |(a, b)| a.saturating_sub(*b));
                (difference as f64 / elapsed_s.max(1e-3)) as u64
            };
            [short(rate(0)), short(rate(1) * 8), short(rate(2))]
        };
        let [out, out_bits, out_drops] = rate(&vnic.transmit, earlier.map(|vnic| &vnic.transmit));
        let [r#in, in_bits, in_drops] = rate(&vnic.receive, earlier.map(|vnic| &vnic.receive));
        let name: String = vnic.name.chars().take(12).collect();
        text += &format!(
            "{:<4} {:<12} {:>6} {:<10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            vnic.vnic, name, vnic.user, vnic.interface, out, out_bits, out_drops, r#in, in_bits, in_drops
        );
    }
    text
}
