//! What BITFIELD does: one operation after the other.

use crate::commands::bitfield::kind::{Kind, Overflow};
use crate::commands::bitfield::packed;
use crate::commands::substrings::write;
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::events::Kinds;
use crate::keyspace::text::TEXT_BYTES_MAX;
use crate::resp::number::integer;

commands! { "bitmap":
    "bitfield", -2, [WRITE GROWS], ONE, "3.2.0", "Performs arbitrary bitfield integer operations on strings." => |call| bitfield(call, false);
    "bitfield_ro", -2, [READ FAST], ONE, "6.0.0", "Performs arbitrary read-only bitfield integer operations on strings." => |call| bitfield(call, true);
}

/// What is done with a field.
#[derive(Clone, Copy)]
enum Act {
    Get,
    Set(i64, Overflow),
    Add(i64, Overflow),
}

#[derive(Clone, Copy)]
struct Operation {
    act: Act,
    kind: Kind,
    /// Its first bit.
    offset: u64,
}

impl Operation {
    /// The string has so many bytes at least if this is written.
    fn bytes(&self) -> usize {
        (self.offset + u64::from(self.kind.bits)).div_ceil(8) as usize
    }
}

/// An offset in bits, or with `#` in fields.
fn offset(text: &[u8], kind: Kind) -> Option<u64> {
    let bits = match text {
        [b'#', fields @ ..] => integer(fields)?.checked_mul(i64::from(kind.bits))?,
        bits => integer(bits)?,
    };
    u64::try_from(bits).ok().filter(|offset| offset / 8 < TEXT_BYTES_MAX as u64)
}

fn operations(call: &Call<'_>) -> Result<Vec<Operation>, Fault> {
    let args = call.args;
    let (mut found, mut overflow, mut index) = (Vec::new(), Overflow::default(), 2);
    while index < args.len() {
        let more = args.len() - index - 1;
        if args.is(index, "OVERFLOW") && more > 0 {
            let said = Overflow::of(args.at(index + 1));
            overflow = said.ok_or(Fault::Said("ERR Invalid OVERFLOW type specified"))?;
            index += 2;
            continue;
        }
        let is_set = args.is(index, "SET");
        let gets = args.is(index, "GET") && more > 1;
        if !gets && !(more > 2 && (is_set || args.is(index, "INCRBY"))) {
            return Err(Fault::Syntax);
        }
        let kind = Kind::of(args.at(index + 1)).ok_or(Fault::Said(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
        let offset =
            offset(args.at(index + 2), kind).ok_or(Fault::Said("ERR bit offset is not an integer or out of range"))?;
        let act = match (gets, is_set) {
            (true, _) => Act::Get,
            (_, true) => Act::Set(call.integer(index + 3)?, overflow),
            _ => Act::Add(call.integer(index + 3)?, overflow),
        };
        found.push(Operation { act, kind, offset });
        index += if gets { 3 } else { 4 };
    }
    Ok(found)
}

fn bitfield(call: &mut Call<'_>, only_reads: bool) -> Result<(), Fault> {
    let key = call.args.at(1);
    let operations = operations(call)?;
    let writes = operations.iter().filter(|operation| !matches!(operation.act, Act::Get));
    let wanted = writes.map(Operation::bytes).max();
    if only_reads && wanted.is_some() {
        return Err(Fault::Said("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    let length = call.text(key)?.map_or(0, |text| text.len());
    let changes = call.state.keyspace.changes;
    // The string is as long as the farthest write needs it, even if that fails then.
    if let Some(last) = wanted.filter(|wanted| *wanted > length).map(|wanted| wanted - 1) {
        write(call, key, last, &[0])?;
    }
    call.reply.array(operations.len());
    for operation in operations {
        match execute(call, key, operation) {
            Some(number) => call.reply.integer(number),
            None => call.reply.null(),
        }
    }
    if call.state.keyspace.changes != changes {
        call.note(Kinds::STRING, "setbit", key);
    }
    Ok(())
}

/// Does one operation; what it answers, or nothing if the number does not fit.
fn execute(call: &mut Call<'_>, key: &[u8], Operation { act, kind, offset }: Operation) -> Option<i64> {
    // It is a string, or nothing, as was seen before.
    let text = call.text(key).ok().flatten().map(|text| &**text).unwrap_or_default();
    let before = kind.number(packed::get(text, offset, kind.bits));
    let (after, answer) = match act {
        Act::Get => return Some(before),
        Act::Set(number, overflow) => (kind.fitted(kind.said(number), overflow)?, before),
        Act::Add(number, overflow) => {
            let sum = kind.fitted(i128::from(before) + i128::from(number), overflow)?;
            (sum, sum)
        }
    };
    if after != before {
        let (first, bytes, count) = packed::written(text, offset, kind.bits, after as u64);
        // It is within the string, so it is not too long.
        let _ = write(call, key, first, bytes.get(..count).unwrap_or_default());
    }
    Some(answer)
}
