//! Runs cases, one line each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// A case: what it shows, and the function that panics if it is not so.
pub struct Case {
    pub name: &'static str,
    pub run: fn(),
}

/// Chooses cases whose names contain this.
const CHOICE: &str = "QANAT_CASE";

/// Runs cases in turn; those after one that failed, too.
pub fn run(cases: Vec<Case>) -> ExitCode {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let cases: Vec<Case> = cases.into_iter().filter(|case| case.name.contains(&choice)).collect();
    println!("hardware: {} cases begin", cases.len());
    let mut failed = 0;
    for case in &cases {
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(case.run));
        let milliseconds = start.elapsed().as_millis();
        match outcome {
            Ok(()) => println!("hardware: ok {} ({milliseconds} ms)", case.name),
            Err(_) => {
                failed += 1;
                println!("hardware: FAILED {} ({milliseconds} ms)", case.name);
            }
        }
    }
    println!("hardware: {} cases ended, {failed} failed", cases.len());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
