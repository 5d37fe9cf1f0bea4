//! Strings as arrays of bits: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP.

use crate::commands::substrings::write;
use crate::engine::call::{Call, range};
use crate::engine::command::{Keys, ONE, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;
use crate::keyspace::text::{TEXT_BYTES_MAX, Text};
use crate::resp::number::{integer, unsigned};

commands! { "bitmap":
    "setbit", 4, [WRITE GROWS], ONE, "2.2.0", "Sets or clears the bit at offset of the string value." => setbit;
    "getbit", 3, [READ FAST], ONE, "2.2.0", "Returns a bit value by offset." => getbit;
    "bitcount", -2, [READ], ONE, "2.6.0", "Counts the number of set bits in a string." => bitcount;
    "bitpos", -3, [READ], ONE, "2.8.7", "Finds the first set or clear bit in a string." => bitpos;
    "bitop", -4, [WRITE GROWS COPIES], Keys::Range(2, -1, 1), "2.6.0", "Performs bitwise operations on multiple strings." => bitop;
}

fn offset(call: &Call<'_>) -> Result<u64, Fault> {
    unsigned(call.args.at(2))
        .filter(|offset| offset / 8 < TEXT_BYTES_MAX as u64)
        .ok_or(Fault::Said("ERR bit offset is not an integer or out of range"))
}

fn bit_of(text: &[u8], offset: u64) -> bool {
    text.get((offset / 8) as usize).is_some_and(|byte| byte >> (7 - offset % 8) & 1 == 1)
}

fn setbit(call: &mut Call<'_>) -> Result<(), Fault> {
    let key = call.args.at(1);
    let offset = offset(call)?;
    let bit = integer(call.args.at(3)).filter(|bit| matches!(bit, 0 | 1));
    let bit = bit.ok_or(Fault::Said("ERR bit is not an integer or out of range"))? == 1;
    let place = (offset / 8) as usize;
    let text = call.text(key)?;
    let before = text.is_some_and(|text| bit_of(text, offset));
    let is_new = text.is_none_or(|text| text.len() <= place);
    let byte = text.and_then(|text| text.get(place)).copied().unwrap_or(0);
    if is_new || before != bit {
        let mask = 0x80 >> (offset % 8);
        let byte = if bit { byte | mask } else { byte & !mask };
        write(call, key, place, &[byte])?;
        call.note(Kinds::STRING, "setbit", key);
    }
    call.reply.integer(i64::from(before));
    Ok(())
}

fn getbit(call: &mut Call<'_>) -> Result<(), Fault> {
    let offset = offset(call)?;
    let bit = call.text(call.args.at(1))?.is_some_and(|text| bit_of(text, offset));
    call.reply.integer(i64::from(bit));
    Ok(())
}

/// A range of bits that the arguments from `index` on say: its first bit, and the one behind its last.
fn bits(call: &Call<'_>, index: usize, length: usize) -> Result<(u64, u64), Fault> {
    let args = call.args;
    if args.len() <= index {
        return Ok((0, 8 * length as u64));
    }
    let start = call.integer(index)?;
    let stop = if args.len() > index + 1 { call.integer(index + 1)? } else { -1 };
    match args.len() - index {
        1 | 2 => {}
        3 if args.is(index + 2, "BYTE") => {}
        3 if args.is(index + 2, "BIT") => {
            let (start, end) = range(start, stop, 8 * length);
            return Ok((start as u64, end as u64));
        }
        _ => return Err(Fault::Syntax),
    }
    let (start, end) = range(start, stop, length);
    Ok((8 * start as u64, 8 * end as u64))
}

/// The bytes that bits lie in, each with a mask of those that count.
fn masked(text: &[u8], start: u64, end: u64) -> impl Iterator<Item = (u64, u8, u8)> {
    let (first, last) = ((start / 8) as usize, end.div_ceil(8) as usize);
    let bytes = text.get(first..last.max(first)).unwrap_or_default();
    (first as u64..).zip(bytes).map(move |(place, byte)| {
        let before = start.saturating_sub(8 * place).min(8);
        let behind = (8 * place + 8).saturating_sub(end).min(8);
        let mask = (0xff_u32 >> before) as u8 & (0xff_u32 << behind) as u8;
        (place, *byte, mask)
    })
}

fn bitcount(call: &mut Call<'_>) -> Result<(), Fault> {
    if call.args.len() == 3 {
        return Err(Fault::Syntax);
    }
    let text = call.text(call.args.at(1))?.cloned().unwrap_or_default();
    let (start, end) = bits(call, 2, text.len())?;
    let count = masked(&text, start, end).map(|(_, byte, mask)| u64::from((byte & mask).count_ones())).sum::<u64>();
    call.reply.integer(count as i64);
    Ok(())
}

fn bitpos(call: &mut Call<'_>) -> Result<(), Fault> {
    let bit = call.integer(2)?;
    if !matches!(bit, 0 | 1) {
        return Err(Fault::Said("ERR The bit argument must be 1 or 0."));
    }
    let text = call.text(call.args.at(1))?.cloned();
    let Some(text) = text else {
        // A key that is not there is zeroes without an end.
        bits(call, 3, 0)?;
        call.reply.integer(if bit == 1 { -1 } else { 0 });
        return Ok(());
    };
    let (start, end) = bits(call, 3, text.len())?;
    let is_open = call.args.len() <= 4;
    let found = masked(&text, start, end).find_map(|(place, byte, mask)| {
        let wanted = if bit == 1 { byte } else { !byte } & mask;
        (wanted != 0).then(|| 8 * place + u64::from(wanted.leading_zeros()))
    });
    call.reply.integer(match found {
        Some(place) => place as i64,
        // Behind a string whose end was not given there are zeroes.
        None if bit == 0 && is_open && start < end => 8 * text.len() as i64,
        None => -1,
    });
    Ok(())
}

fn bitop(call: &mut Call<'_>) -> Result<(), Fault> {
    let target = call.args.at(2);
    let operation: fn(u8, u8) -> u8 = match call.args.at(1).to_ascii_uppercase().as_slice() {
        b"AND" => |one, other| one & other,
        b"OR" => |one, other| one | other,
        b"XOR" => |one, other| one ^ other,
        b"NOT" if call.args.len() != 4 => {
            return Err(Fault::Said("ERR BITOP NOT must be called with a single source key."));
        }
        b"NOT" => |one, _| one,
        _ => return Err(Fault::Syntax),
    };
    let is_not = call.args.is(1, "NOT");
    let sources = call.args.from(3).map(|key| call.text(key).map(|text| text.cloned().unwrap_or_default()));
    let sources: Vec<Text> = sources.collect::<Result<_, _>>()?;
    let length = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let result: Vec<u8> = (0..length)
        .map(|place| {
            let mut bytes = sources.iter().map(|source| source.get(place).copied().unwrap_or(0));
            let first = bytes.next().unwrap_or(0);
            // NOT has one source: nothing comes behind it.
            if is_not { !first } else { bytes.fold(first, operation) }
        })
        .collect();
    if length > 0 {
        call.change(Change::Put { key: target, expires: 0, text: &result });
        call.note(Kinds::STRING, "set", target);
    } else if call.find(target).is_some() {
        call.change(Change::Delete { key: target });
        call.note(Kinds::GENERIC, "del", target);
    }
    call.reply.length(length);
    Ok(())
}
