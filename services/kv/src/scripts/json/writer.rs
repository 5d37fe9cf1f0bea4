//! `cjson.encode`.

use super::settings::{Invalid, Settings};
use crate::scripts::decimals::general;
use crate::scripts::meter::Meter;
use crate::scripts::raised::{self, name_of};
use mlua::{Error, Lua, MultiValue, Table, Value};

/// Tables in tables, whatever the settings say.
const DEPTH_MAX: i64 = 200;
/// Bytes of a text that is made.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// A value as JSON.
///
/// # Errors
/// It can't be written.
pub fn encode(lua: &Lua, values: &MultiValue, settings: Settings) -> mlua::Result<Vec<u8>> {
    let (Some(value), 1) = (values.front(), values.len()) else {
        return Err(raised::argument(lua, 1, "encode", "expected 1 argument"));
    };
    let mut writer = Writer { lua, settings, text: Vec::new(), meter: Meter::new(lua) };
    writer.write(value, 0)?;
    Ok(writer.text)
}

fn refused(lua: &Lua, value: &Value, why: &str) -> Error {
    raised::text(lua, format_args!("Cannot serialise {}: {why}", name_of(value)))
}

struct Writer<'a> {
    lua: &'a Lua,
    settings: Settings,
    text: Vec<u8>,
    meter: Meter<'a>,
}

impl Writer<'_> {
    fn write(&mut self, value: &Value, depth: i64) -> mlua::Result<()> {
        self.meter.step()?;
        if self.text.len() > TEXT_BYTES_MAX {
            return Err(Error::MemoryError("not enough memory".to_owned()));
        }
        match value {
            Value::Nil => self.text.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.text.extend_from_slice(b"null"),
            Value::Boolean(is_true) => self.text.extend_from_slice(if *is_true { b"true" } else { b"false" }),
            Value::Integer(number) => self.number(*number as f64, value)?,
            Value::Number(number) => self.number(*number, value)?,
            Value::String(string) => quote(&string.as_bytes(), &mut self.text),
            Value::Table(table) if depth < self.settings.encode_depth.min(DEPTH_MAX) => {
                return self.table(table, depth + 1);
            }
            Value::Table(_) => {
                let why = format_args!("Cannot serialise, excessive nesting ({})", depth + 1);
                return Err(raised::text(self.lua, why));
            }
            other => return Err(refused(self.lua, other, "type not supported")),
        }
        Ok(())
    }

    fn number(&mut self, number: f64, value: &Value) -> mlua::Result<()> {
        let text = match self.settings.encode_invalid {
            _ if number.is_finite() => general(number, self.settings.digits as usize),
            Invalid::Refused => return Err(refused(self.lua, value, "must not be NaN or Inf")),
            Invalid::Null => "null".to_owned(),
            Invalid::Written if number.is_nan() => "nan".to_owned(),
            Invalid::Written => general(number, self.settings.digits as usize),
        };
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// How many places an array has; `None`: the table is an object.
    fn places(&mut self, table: &Table) -> mlua::Result<Option<i64>> {
        let (mut most, mut count) = (0, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            self.meter.step()?;
            let place = match pair?.0 {
                Value::Integer(place) if place > 0 => place,
                Value::Number(place) if place > 0.0 && place.trunc() == place && place < 1e15 => place as i64,
                _ => return Ok(None),
            };
            (most, count) = (most.max(place), count + 1);
        }
        let Settings { sparse_ratio: ratio, sparse_safe: safe, converts_sparse, .. } = self.settings;
        if ratio > 0 && most > count.saturating_mul(ratio) && most > safe {
            return match converts_sparse {
                true => Ok(None),
                false => Err(raised::text(self.lua, "Cannot serialise table: excessively sparse array")),
            };
        }
        Ok(Some(most).filter(|most| *most > 0))
    }

    fn table(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        self.meter.table()?;
        if let Some(places) = self.places(table)? {
            // An array may have many more places than elements.
            self.meter.steps(places as u64)?;
            self.text.push(b'[');
            for place in 1..=places {
                if place > 1 {
                    self.text.push(b',');
                }
                self.write(&table.raw_get::<Value>(place)?, depth)?;
            }
            self.text.push(b']');
            return Ok(());
        }
        self.text.push(b'{');
        let start = self.text.len();
        for pair in table.pairs::<Value, Value>() {
            let (name, value) = pair?;
            if self.text.len() > start {
                self.text.push(b',');
            }
            match &name {
                Value::String(name) => quote(&name.as_bytes(), &mut self.text),
                Value::Integer(_) | Value::Number(_) => {
                    self.text.push(b'"');
                    self.write(&name, depth)?;
                    self.text.push(b'"');
                }
                other => return Err(refused(self.lua, other, "table key must be a number or string")),
            }
            self.text.push(b':');
            self.write(&value, depth)?;
        }
        self.text.push(b'}');
        Ok(())
    }
}

fn quote(string: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for byte in string {
        match byte {
            b'"' | b'\\' | b'/' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            8 => text.extend_from_slice(b"\\b"),
            12 => text.extend_from_slice(b"\\f"),
            0..0x20 | 0x7f => text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}
