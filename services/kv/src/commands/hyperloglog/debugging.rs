//! PFDEBUG: what is in a sketch.

use crate::commands::hyperloglog::REGISTERS;
use crate::commands::hyperloglog::dense;
use crate::commands::hyperloglog::sketch::{HEADER_BYTES, Sketch, View};
use crate::commands::hyperloglog::sparse;
use crate::commands::hyperloglog::storing::store;
use crate::engine::call::Call;
use crate::engine::command::{Keys, commands};
use crate::engine::fault::Fault;
use std::fmt::Write;

commands! { "hyperloglog":
    "pfdebug", 3, [WRITE GROWS ADMIN], Keys::Range(2, 2, 1), "2.8.9", "Internal commands for debugging HyperLogLog values." => pfdebug;
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
