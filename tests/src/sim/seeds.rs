//! Running a scenario for many seeds, and replaying one.
//!
//! * `QANAT_SEEDS=n`: so many seeds instead of the default.
//! * `QANAT_SEED=s`: only this seed.
//! * `QANAT_PCAP=file`: a capture of the (first) failing seed, or of `QANAT_SEED`'s run.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    /// What everything in it follows from.
    pub seed: u64,
    /// Where the first node's capture goes; the second's goes beside it (`….second.pcap`).
    pub pcap: Option<PathBuf>,
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let digits = text.trim();
    let parsed = match digits.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    Some(parsed.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs `scenario` for `default_count` seeds, or as the environment says.
///
/// # Panics
/// When the scenario does, after saying how to replay it.
pub fn for_each(test: &str, default_count: u64, scenario: impl Fn(&Run)) {
    let pcap = std::env::var_os("QANAT_PCAP").map(PathBuf::from);
    if let Some(seed) = number("QANAT_SEED") {
        scenario(&Run { seed, pcap });
        return;
    }
    for seed in 0..number("QANAT_SEEDS").unwrap_or(default_count) {
        let run = Run { seed, pcap: None };
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(&run))) else { continue };
        eprintln!("{test}: seed {seed} fails; replay:");
        eprintln!("  QANAT_SEED={seed} cargo test -p qanat-tests --release --test simulator {test} -- --nocapture");
        match pcap {
            Some(path) => {
                eprintln!("  its capture: {}", path.display());
                // The same again, recorded; it ends the same way.
                let _ = catch_unwind(AssertUnwindSafe(|| scenario(&Run { seed, pcap: Some(path) })));
            }
            None => eprintln!("  (add QANAT_PCAP=file for a capture)"),
        }
        resume_unwind(panic);
    }
}
