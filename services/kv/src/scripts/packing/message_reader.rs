//! MessagePack as values.

use crate::scripts::meter::Meter;
use crate::scripts::raised;
use mlua::{Error, Lua, Value};

/// Arrays and maps in each other. Each takes some of the stack.
const DEPTH_MAX: usize = 200;

/// What is left of some bytes.
pub struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    meter: Meter<'a>,
}

impl<'a> Reader<'a> {
    /// At the beginning of `bytes`.
    pub fn new(lua: &'a Lua, bytes: &'a [u8]) -> Reader<'a> {
        Reader { lua, rest: bytes, meter: Meter::new(lua) }
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    fn missing(&self) -> Error {
        raised::text(self.lua, "Missing bytes in input.")
    }

    fn bytes(&mut self, length: usize) -> mlua::Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.missing())?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A number of so many bytes.
    fn number(&mut self, length: usize) -> mlua::Result<u64> {
        Ok(self.bytes(length)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, length: usize) -> mlua::Result<Value> {
        let unused = 64 - 8 * length as u32;
        let number = (self.number(length)? << unused) as i64 >> unused;
        Ok(Value::Number(number as f64))
    }

    fn text(&mut self, length: u64) -> mlua::Result<Value> {
        let length = usize::try_from(length).map_err(|_| self.missing())?;
        let bytes = self.bytes(length)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    /// The next value, in so many others.
    ///
    /// # Errors
    /// There is none.
    pub fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        self.meter.step()?;
        let kind = self.number(1)? as u8;
        Ok(match kind {
            0x00..=0x7f => Value::Number(kind.into()),
            0xe0..=0xff => Value::Number(f64::from(kind as i8)),
            0x80..=0x8f => return self.map(u64::from(kind & 0x0f), depth),
            0x90..=0x9f => return self.array(u64::from(kind & 0x0f), depth),
            0xa0..=0xbf => return self.text(u64::from(kind & 0x1f)),
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f32::from_bits(self.number(4)? as u32).into()),
            0xcb => Value::Number(f64::from_bits(self.number(8)?)),
            0xcc..=0xce => Value::Number(self.number(1 << (kind - 0xcc))? as f64),
            // The greatest ones have a sign in Redis, too.
            0xcf => return self.signed(8),
            0xd0..=0xd3 => return self.signed(1 << (kind - 0xd0)),
            0xd9..=0xdb => {
                let length = self.number(1 << (kind - 0xd9))?;
                return self.text(length);
            }
            0xdc | 0xdd => {
                let length = self.number(2 << (kind - 0xdc))?;
                return self.array(length, depth);
            }
            0xde | 0xdf => {
                let length = self.number(2 << (kind - 0xde))?;
                return self.map(length, depth);
            }
            _ => return Err(raised::text(self.lua, "Bad data format in input.")),
        })
    }

    fn deeper(&self, depth: usize) -> mlua::Result<usize> {
        match depth < DEPTH_MAX {
            true => Ok(depth + 1),
            false => Err(raised::text(self.lua, "stack overflow (too many nested data structures)")),
        }
    }

    fn array(&mut self, count: u64, depth: usize) -> mlua::Result<Value> {
        let (table, depth) = (self.lua.create_table()?, self.deeper(depth)?);
        for place in 1..=count {
            let value = self.value(depth)?;
            table.raw_set(place, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: u64, depth: usize) -> mlua::Result<Value> {
        let (table, depth) = (self.lua.create_table()?, self.deeper(depth)?);
        for _ in 0..count {
            let (name, value) = (self.value(depth)?, self.value(depth)?);
            match name {
                Value::Nil => return Err(Error::runtime("table index is nil")),
                Value::Number(number) if number.is_nan() => {
                    return Err(Error::runtime("table index is NaN"));
                }
                name => table.raw_set(name, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
