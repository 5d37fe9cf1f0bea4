//! PFDEBUG: what is in a sketch.

use crate::commands::hyperloglog::REGISTERS;
use crate::commands::hyperloglog::dense;
use crate::commands::hyperloglog::hash::place;
use crate::commands::hyperloglog::sketch::{HEADER_BYTES, Sketch, View};
use crate::commands::hyperloglog::sparse;
use crate::commands::hyperloglog::storing::store;
use crate::engine::call::Call;
use crate::engine::command::{Keys, NO_KEYS, commands};
use crate::engine::fault::Fault;
use std::fmt::Write;

commands! { "hyperloglog":
    "pfdebug", 3, [WRITE GROWS ADMIN], Keys::Range(2, 2, 1), "2.8.9", "Internal commands for debugging HyperLogLog values." => pfdebug;
    "pfselftest", 1, [ADMIN], NO_KEYS, "2.8.9", "An internal command for testing HyperLogLog values." => self_test;
}

/// A long run of zeroes is told by another letter.
const SHORT_BYTES: usize = 1;

fn pfdebug(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, key) = (call.args, call.args.at(2));
    let text = call.text(key)?.cloned().ok_or(Fault::Said("ERR The specified key does not exist"))?;
    let view = View::of(&text)?;
    if args.is(1, "GETREG") {
        make_dense(call, key)?;
        let text = call.text(key)?.cloned().unwrap_or_default();
        call.reply.array(REGISTERS);
        let registers = dense::iter(text.get(HEADER_BYTES..).unwrap_or_default());
        registers.for_each(|value| call.reply.integer(i64::from(value)));
    } else if args.is(1, "DECODE") {
        let View::Sparse(runs) = view else { return Err(Fault::Said("ERR HLL encoding is not sparse")) };
        call.reply.bulk(told(runs).as_bytes());
    } else if args.is(1, "ENCODING") {
        call.reply.simple(if view.is_dense() { "dense" } else { "sparse" });
    } else if args.is(1, "TODENSE") {
        let was_sparse = make_dense(call, key)?;
        call.reply.integer(i64::from(was_sparse));
    } else {
        let said = String::from_utf8_lossy(args.at(1));
        return Err(Fault::Told(format!("ERR Unknown PFDEBUG subcommand '{said}'")));
    }
    Ok(())
}

/// Elements of the test, and how far the estimate may be from their number, in percent.
const TESTED: u32 = 2_000;
const PERCENT: u64 = 4;

/// Whether sketches work on this machine: packed registers and runs have the same, and that is about what was put in.
fn self_test(call: &mut Call<'_>) -> Result<(), Fault> {
    let (mut packed, mut runs) = (Sketch::new(), Sketch::new());
    packed.make_dense()?;
    for number in 0..TESTED {
        let (index, value) = place(&number.to_le_bytes());
        packed.raise(index, value, 0)?;
        // Registers stay runs as long as they can.
        runs.raise(index, value, usize::MAX)?;
    }
    let counts = [View::of(&packed.text())?.count()?, View::of(&runs.text())?.count()?];
    let is_near = |count: u64| count.abs_diff(TESTED.into()) * 100 <= u64::from(TESTED) * PERCENT;
    if !counts.into_iter().all(is_near) || counts.windows(2).any(|two| two.first() != two.last()) {
        return Err(Fault::Told(format!("TESTFAILED {TESTED} elements are counted as {counts:?}")));
    }
    call.reply.ok();
    Ok(())
}

/// Packs a key's registers, if they are not; whether they were not.
fn make_dense(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Fault> {
    let mut sketch = Sketch::of(call.text(key)?.ok_or(Fault::NoKey)?)?;
    let was_sparse = sketch.make_dense()?;
    if was_sparse {
        store(call, key, &sketch)?;
    }
    Ok(was_sparse)
}

/// The runs, as Redis tells them.
fn told(runs: &[u8]) -> String {
    let mut text = String::new();
    for run in sparse::iter(runs) {
        // Writing to a string does not fail.
        let _ = match (run.value, run.bytes) {
            (0, SHORT_BYTES) => write!(text, "z:{} ", run.length),
            (0, _) => write!(text, "Z:{} ", run.length),
            (value, _) => write!(text, "v:{value},{} ", run.length),
        };
    }
    text.truncate(text.trim_end().len());
    text
}
