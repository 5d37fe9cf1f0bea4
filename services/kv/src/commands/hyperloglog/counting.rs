//! PFADD, PFCOUNT, PFMERGE.

use crate::commands::hyperloglog::REGISTERS;
use crate::commands::hyperloglog::dense;
use crate::commands::hyperloglog::hash::place;
use crate::commands::hyperloglog::sketch::{
    CARDINALITY, HEADER_BYTES, Sketch, UNKNOWN, UNKNOWN_BIT, View, count_plain, known,
};
use crate::commands::hyperloglog::storing::store;
use crate::engine::call::Call;
use crate::engine::command::{ALL, ONE, commands};
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::text::Text;
use std::collections::HashSet;

commands! { "hyperloglog":
    "pfadd", -2, [WRITE GROWS FAST], ONE, "2.8.9", "Adds elements to a HyperLogLog key. Creates the key if it doesn't exist." => pfadd;
    "pfcount", -2, [READ], ALL, "2.8.9", "Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s)." => pfcount;
    "pfmerge", -2, [WRITE GROWS], ALL, "2.8.9", "Merges one or more HyperLogLog values into a single key." => pfmerge;
}

/// What the record of a cardinality needs of the log, besides the key.
const RECORD_BYTES: usize = 8 << 10;

/// The registers of elements, each with the greatest value. Elements that come again cost no walk through the runs of a sketch.
struct Places(Vec<u8>);

impl Places {
    fn new() -> Places {
        Places(vec![0; REGISTERS])
    }

    /// An element's register and value, if no element before it has as much.
    fn take(&mut self, element: &[u8]) -> Option<(usize, u8)> {
        let (index, value) = place(element);
        let before = self.0.get_mut(index).filter(|before| **before < value)?;
        *before = value;
        Some((index, value))
    }
}

fn pfadd(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let before = call.text(key)?;
    let is_dense = before.map(|text| View::of(text).map(View::is_dense)).transpose()?;
    let is_changed = match is_dense {
        Some(true) => add_to_dense(call, key),
        _ => add_to_sparse(call, key)?,
    };
    if is_changed {
        call.note(Kinds::STRING, "pfadd", key);
    }
    call.reply.integer(i64::from(is_changed));
    Ok(())
}

/// Raises packed registers where they are: a copy of all of them would cost more than the change.
fn add_to_dense(call: &mut Call<'_>, key: &[u8]) -> bool {
    let mut is_changed = false;
    for element in call.args.from(2) {
        let (index, value) = place(element);
        let registers = call.text(key).ok().flatten().and_then(|text| text.get(HEADER_BYTES..)).unwrap_or_default();
        if dense::get(registers, index) < value {
            let (at, bytes, count) = dense::written(registers, index, value);
            let bytes = bytes.get(..count).unwrap_or_default();
            call.change(Change::Write { key, offset: (HEADER_BYTES + at) as u64, bytes });
            is_changed = true;
        }
    }
    let last = call.text(key).ok().flatten().and_then(|text| text.get(UNKNOWN)).copied().unwrap_or(0);
    if is_changed && last & UNKNOWN_BIT == 0 {
        call.change(Change::Write { key, offset: UNKNOWN as u64, bytes: &[last | UNKNOWN_BIT] });
    }
    is_changed
}

fn add_to_sparse(call: &mut Call<'_>, key: &[u8]) -> Result<bool, Fault> {
    let before = call.text(key)?;
    let mut is_changed = before.is_none();
    let mut sketch = before.map_or_else(|| Ok(Sketch::new()), |text| Sketch::of(text))?;
    let bytes_max = call.state.keyspace.shapes().sparse_bytes();
    let mut places = Places::new();
    for (index, value) in call.args.from(2).filter_map(|element| places.take(element)) {
        is_changed |= sketch.raise(index, value, bytes_max)?;
    }
    if is_changed {
        sketch.forget();
        store(call, key, &sketch)?;
    }
    Ok(is_changed)
}

/// The registers of the union of all keys from the first argument on, and whether one of them is dense.
fn union(call: &Call<'_>) -> Result<(Box<[u8; REGISTERS]>, bool), Fault> {
    let (mut registers, mut is_dense) = (Box::new([0; REGISTERS]), false);
    let mut met = HashSet::new();
    // A key that is named again adds nothing.
    for key in call.args.from(1).filter(|key| met.insert(*key)) {
        let Some(text) = call.text(key)? else { continue };
        let view = View::of(text)?;
        is_dense |= view.is_dense();
        view.merge_into(&mut registers)?;
    }
    Ok((registers, is_dense))
}

fn pfcount(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.args.len() > 2 {
        let count = count_plain(&union(call)?.0);
        call.reply.integer(count as i64);
        return Ok(());
    }
    let key = call.args.at(1);
    let text = call.text(key)?.cloned();
    call.count(text.is_some());
    let count = match text {
        None => 0,
        Some(text) => count_one(call, key, text)?,
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// What a sketch knows, or its count, which it knows from then on, as with Redis.
fn count_one(call: &mut Call<'_>, key: &[u8], text: Text) -> Result<u64, Fault> {
    let view = View::of(&text)?;
    if let Some(known) = known(&text) {
        return Ok(known);
    }
    let count = view.count()?;
    // It is changed in place, so nobody may have it. If the log takes nothing now, it is counted again the next time.
    drop(text);
    if admit_bytes(call.state, (key.len() + RECORD_BYTES) as u64, false).is_ok() {
        call.change(Change::Write { key, offset: CARDINALITY as u64, bytes: &count.to_le_bytes() });
    }
    Ok(count)
}

fn pfmerge(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let (registers, is_dense) = union(call)?;
    let mut sketch = call.text(key)?.map_or_else(|| Ok(Sketch::new()), |text| Sketch::of(text))?;
    if is_dense {
        sketch.make_dense()?;
    }
    let bytes_max = call.state.keyspace.shapes().sparse_bytes();
    for (index, value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
        sketch.raise(index, *value, bytes_max)?;
    }
    sketch.forget();
    store(call, key, &sketch)?;
    // As with Redis: it is an addition of many elements.
    call.note(Kinds::STRING, "pfadd", key);
    call.reply.ok();
    Ok(())
}
