//! Values as MessagePack.

use super::arguments::fits;
use crate::scripts::meter::Meter;
use mlua::{Table, Value};

/// Tables in tables. Those that are deeper are nothing, as with Redis: so a table may be in itself.
const DEPTH_MAX: usize = 16;

/// How a length is written: below the first bound together with its kind, else in one, two or four bytes behind one of these.
struct Lengths {
    short: (usize, u8),
    one: Option<u8>,
    two: u8,
    four: u8,
}

const TEXT: Lengths = Lengths { short: (32, 0xa0), one: Some(0xd9), two: 0xda, four: 0xdb };
const ARRAY: Lengths = Lengths { short: (16, 0x90), one: None, two: 0xdc, four: 0xdd };
const MAP: Lengths = Lengths { short: (16, 0x80), one: None, two: 0xde, four: 0xdf };

fn put_length(made: &mut Vec<u8>, lengths: &Lengths, length: usize) {
    match (length, lengths.one) {
        (length, _) if length < lengths.short.0 => made.push(lengths.short.1 | length as u8),
        (0..=0xff, Some(kind)) => made.extend_from_slice(&[kind, length as u8]),
        (0..=0xffff, _) => {
            made.push(lengths.two);
            made.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            made.push(lengths.four);
            made.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn put_integer(made: &mut Vec<u8>, number: i64) {
    let (kind, bytes) = match number {
        -32..=0x7f => return made.push(number as u8),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..-32 => (0xd0, 1),
        -0x8000..-0x80 => (0xd1, 2),
        -0x8000_0000..-0x8000 => (0xd2, 4),
        _ => (0xd3, 8),
    };
    made.push(kind);
    made.extend(number.to_be_bytes().into_iter().skip(8 - bytes));
}

fn put_number(made: &mut Vec<u8>, number: f64) {
    let is_whole = number.trunc() == number && (-(2_f64.powi(63))..2_f64.powi(63)).contains(&number);
    if is_whole {
        return put_integer(made, number as i64);
    }
    let short = number as f32;
    if f64::from(short) == number {
        made.push(0xca);
        made.extend_from_slice(&short.to_be_bytes());
    } else {
        made.push(0xcb);
        made.extend_from_slice(&number.to_be_bytes());
    }
}

/// How many elements a table has, and whether it is an array: its keys are the numbers from one on.
fn count(table: &Table, meter: &mut Meter<'_>) -> mlua::Result<(usize, bool)> {
    let (mut count, mut most, mut is_array) = (0, 0.0_f64, true);
    meter.table()?;
    for pair in table.pairs::<Value, Value>() {
        meter.step()?;
        let place = match pair?.0 {
            Value::Integer(place) => place as f64,
            Value::Number(place) => place,
            _ => 0.0,
        };
        is_array &= place > 0.0 && place.trunc() == place && place <= f64::from(i32::MAX);
        most = most.max(place);
        count += 1;
    }
    Ok((count, is_array && most == count as f64))
}

/// Adds a value that is so deep.
///
/// # Errors
/// There is no memory, or no time left.
pub fn put(made: &mut Vec<u8>, value: &Value, depth: usize, meter: &mut Meter<'_>) -> mlua::Result<()> {
    fits(made)?;
    meter.step()?;
    match value {
        Value::Boolean(is_true) => made.push(if *is_true { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => put_integer(made, *number),
        Value::Number(number) => put_number(made, *number),
        Value::String(text) => {
            let text = text.as_bytes();
            put_length(made, &TEXT, text.len());
            made.extend_from_slice(&text);
        }
        Value::Table(table) if depth < DEPTH_MAX => put_table(made, table, depth, meter)?,
        _ => made.push(0xc0),
    }
    Ok(())
}

fn put_table(made: &mut Vec<u8>, table: &Table, depth: usize, meter: &mut Meter<'_>) -> mlua::Result<()> {
    let (count, is_array) = count(table, meter)?;
    if is_array {
        put_length(made, &ARRAY, count);
        return (1..=count).try_for_each(|place| put(made, &table.raw_get::<Value>(place)?, depth + 1, meter));
    }
    put_length(made, &MAP, count);
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        put(made, &name, depth + 1, meter)?;
        put(made, &value, depth + 1, meter)?;
    }
    Ok(())
}
