//! What the machine did meanwhile: CPU time by processor (`/proc/stat`) and by process (`/proc/PID/stat`).
//!
//! `/proc/stat` counts ticks of 10 ms: over a window of a second its error is about 1 %.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs;

/// CPU time of one processor, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CpuTimes {
    /// Programs, niced or not.
    pub user_s: f64,
    /// The kernel on behalf of programs.
    pub system_s: f64,
    /// Interrupts.
    pub irq_s: f64,
    /// Deferred interrupt work: where most packets are received.
    pub softirq_s: f64,
    /// Nothing to do, or waiting for a disk.
    pub idle_s: f64,
    /// Taken by the host of a virtual machine.
    pub steal_s: f64,
}

impl CpuTimes {
    /// Everything but idle and steal.
    pub fn busy_s(&self) -> f64 {
        self.user_s + self.system_s + self.irq_s + self.softirq_s
    }

    /// Busy time as a share of all time; 0 if no tick passed.
    pub fn busy_share(&self) -> f64 {
        let total = self.busy_s() + self.idle_s + self.steal_s;
        if total > 0.0 { self.busy_s() / total } else { 0.0 }
    }

    /// The time from `earlier` to `self`.
    pub fn since(&self, earlier: &CpuTimes) -> CpuTimes {
        let difference = |after: f64, before: f64| (after - before).max(0.0);
        CpuTimes {
            user_s: difference(self.user_s, earlier.user_s),
            system_s: difference(self.system_s, earlier.system_s),
            irq_s: difference(self.irq_s, earlier.irq_s),
            softirq_s: difference(self.softirq_s, earlier.softirq_s),
            idle_s: difference(self.idle_s, earlier.idle_s),
            steal_s: difference(self.steal_s, earlier.steal_s),
        }
    }
}

/// A look at the machine at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MachineSample {
    /// Every processor since boot.
    pub cpus: Vec<CpuTimes>,
    /// This process since its start.
    pub own_cpu_s: f64,
    /// The process watched, if any, with its threads.
    pub watched_cpu_s: Option<f64>,
}

impl MachineSample {
    /// Looks now; also at process `watched`.
    pub fn take(watched: Option<u32>) -> MachineSample {
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second().max(1) as f64;
        let own = clock_gettime(ClockId::ProcessCPUTime);
        MachineSample {
            cpus: parse_cpus(&fs::read_to_string("/proc/stat").unwrap_or_default(), tick_s),
            own_cpu_s: own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9,
            watched_cpu_s: watched
                .and_then(|process| parse_process(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?, tick_s)),
        }
    }
}

fn parse_cpus(text: &str, tick_s: f64) -> Vec<CpuTimes> {
    // "cpu" alone is the sum of all; "cpu0" and so on are the processors.
    text.lines()
        .filter(|line| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' ')))
        .map(|line| {
            let ticks: Vec<f64> = line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
            let time = |index: usize| ticks.get(index).copied().unwrap_or(0.0) * tick_s;
            CpuTimes {
                user_s: time(0) + time(1),
                system_s: time(2),
                idle_s: time(3) + time(4),
                irq_s: time(5),
                softirq_s: time(6),
                steal_s: time(7),
            }
        })
        .collect()
}

/// `utime` + `stime`, fields 14 and 15; the name in field 2 may hold anything, so count from its closing parenthesis.
fn parse_process(text: &str, tick_s: f64) -> Option<f64> {
    let after_name = text.rsplit_once(')')?.1;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) * tick_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_proc_stat() {
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 1 20 300 4 5 6 7 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\nintr 5\n";
        let cpus = parse_cpus(text, 0.01);
        assert_eq!(cpus.len(), 2);
        assert!((cpus[0].user_s - 1.01).abs() < 1e-9 && (cpus[0].softirq_s - 0.06).abs() < 1e-9);
        assert!((cpus[0].idle_s - 3.04).abs() < 1e-9);
        let busy = cpus[0].since(&CpuTimes::default()).busy_share();
        assert!((busy - 1.32 / 4.43).abs() < 1e-6, "{busy}");
        assert_eq!(CpuTimes::default().busy_share(), 0.0);
    }

    #[test]
    fn reads_process_times() {
        let text = "12 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(parse_process(text, 0.01), Some(2.0));
        assert_eq!(parse_process("garbage", 0.01), None);
        let sample = MachineSample::take(Some(std::process::id()));
        assert!(!sample.cpus.is_empty() && sample.watched_cpu_s.is_some());
    }
}
