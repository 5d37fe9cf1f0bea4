//! The bounded driver: what it finds, and that every target takes its corpus.
#![forbid(unsafe_code)]

use qanat_fuzz::bounded::{Bound, Cause, load_corpus, run};
use qanat_fuzz::{TARGETS, Target};
use std::path::Path;
use std::time::Duration;

fn panics_on_a_seven(data: &[u8]) {
    assert!(!data.iter().skip(2).any(|byte| *byte == 7), "a seven");
}

#[test]
fn finds_a_crash_repeats_it_and_makes_it_small() {
    let target = Target { name: "seven", corpus: "", run: panics_on_a_seven, repair: None };
    let corpus = vec![vec![1u8; 100]];
    let bound = Bound { time: Duration::from_secs(60), iterations: 1_000_000 };
    let first = run(&target, &corpus, 1, bound).expect_err("nothing found");
    let again = run(&target, &corpus, 1, bound).expect_err("not found again");
    assert_eq!(first.input, [0, 0, 7]);
    assert_eq!((first.iteration, first.cause), (again.iteration, Cause::Panic));
}

#[test]
fn every_target_takes_its_corpus() {
    for target in TARGETS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.corpus);
        let corpus = load_corpus(&directory).expect("corpus");
        assert!(!corpus.is_empty(), "{}: no corpus", target.name);
        let bound = Bound { time: Duration::from_secs(60), iterations: corpus.len() as u64 + 2_000 };
        run(target, &corpus, 0, bound).expect("crash");
    }
}
