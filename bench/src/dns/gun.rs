//! The other client: `kxdpgun`, which sends at a fixed rate whatever comes back.

use crate::harness::HarnessError;
use crate::harness::installed::find;
use crate::harness::process::{Spec, start};
use crate::harness::topology::{Topology, detach_xdp};
use crate::machine::{CpuTimes, MachineSample};
use std::path::Path;
use std::time::Duration;

const BATCH: usize = 32;
const PATIENCE: Duration = Duration::from_secs(30);

/// What it says.
#[derive(Clone, PartialEq, Debug)]
pub struct GunReport {
    /// Questions sent a second.
    pub sent_per_s: f64,
    /// Answers come a second.
    pub answers_per_s: f64,
    /// Of those, with code NOERROR.
    pub good_share: f64,
    /// CPU time by processor, from its start to its end.
    pub cpus: Vec<CpuTimes>,
    /// Answers.
    pub answers: f64,
}

/// Fires questions of the file at `target`, `rate_per_s` of them for `duration` (whole seconds).
///
/// # Errors
/// It isn't installed, or fails.
pub fn fire(
    topology: &Topology,
    questions: &Path,
    target: &str,
    rate_per_s: u64,
    duration: Duration,
    cpu: usize,
) -> Result<GunReport, HarnessError> {
    let seconds = duration.as_secs().max(1).to_string();
    let (batch, rate, file) = (BATCH.to_string(), rate_per_s.to_string(), questions.display().to_string());
    // It pins its threads itself, to processor 0 unless told.
    let pinned = format!("{cpu}");
    let interface = topology.client_interface();
    let arguments = ["-F", &pinned, "-t", &seconds, "-Q", &rate, "-b", &batch, "-I", interface, "-i", &file, target];
    let spec = Spec::new("kxdpgun", find("kxdpgun", "knot-dnsutils")?, &arguments).placed(topology.client(), cpu);
    let before = MachineSample::take(None);
    let output = start(&spec)?.output(duration + PATIENCE);
    let after = MachineSample::take(None);
    // It leaves its program on the interface.
    detach_xdp(topology.client(), topology.client_interface());
    let output = output?;
    let cpus = after.cpus.iter().zip(&before.cpus).map(|(after, before)| after.since(before)).collect();
    parse(&output, cpus).ok_or_else(|| HarnessError::Child(format!("kxdpgun printed no figures: {output:?}")))
}

fn parse(output: &str, cpus: Vec<CpuTimes>) -> Option<GunReport> {
    let after = |name: &str| output.lines().find_map(|line| line.trim().strip_prefix(name));
    let number = |text: &str| text.trim().split([' ', '(']).next()?.parse::<f64>().ok();
    let rate = |text: &str| number(text.split_once('(')?.1);
    let replies = after("total replies:")?;
    let answers = number(replies)?;
    let good = after("responded NOERROR:").and_then(number).unwrap_or_default();
    Some(GunReport {
        sent_per_s: after("total queries:").and_then(rate)?,
        answers_per_s: rate(replies)?,
        good_share: if answers > 0.0 { good / answers } else { 0.0 },
        cpus,
        answers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_figures_are_read() {
        let text = "thread#00: sent 1000032, received 956318\ntotal queries:     1000032 (500016 pps)\n\
                    total replies:     956318 (478159 pps) (95%)\naverage DNS reply size: 61 B\n\
                    responded NOERROR:   956318\nduration: 2 s\n";
        let report = parse(text, Vec::new()).unwrap();
        assert_eq!((report.sent_per_s, report.answers_per_s, report.good_share), (500_016.0, 478_159.0, 1.0));
        assert!(parse("error", Vec::new()).is_none());
    }
}
