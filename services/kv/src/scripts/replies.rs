//! Values of Lua as answers to a client.

use crate::engine::fault::Fault;
use crate::resp::reply::Reply;
use crate::scripts::bounds::{ANSWER_BYTES_MAX, ANSWER_DEPTH_MAX};
use crate::scripts::meter::Meter;
use crate::scripts::raised::{Raised, number, told};
use mlua::{Lua, LuaString, Table, Value};

/// Why a value is no answer.
pub const TOO_LARGE: &str = "ERR the answer of the script is too large";
/// The same, for tables in tables.
pub const TOO_DEEP: &str = "ERR reached lua stack limit";

/// Writes an answer. `script_is_three`: the script has asked for version 3 of the protocol.
pub struct Writer<'a> {
    reply: &'a mut Reply,
    script_is_three: bool,
    bytes: usize,
    meter: Meter<'a>,
}

/// What C makes of a number that is none of its integers.
fn integral(number: f64) -> i64 {
    if number >= -(2_f64.powi(63)) && number < 2_f64.powi(63) { number as i64 } else { i64::MIN }
}

fn said(error: &mlua::Error) -> Fault {
    match told(error) {
        Raised::Code(text) => Fault::Told(text),
        Raised::Text(text) => Fault::Told(format!("ERR {text}")),
    }
}

impl<'a> Writer<'a> {
    /// To a reply whose version is the client's.
    pub fn new(lua: &'a Lua, reply: &'a mut Reply, script_is_three: bool) -> Writer<'a> {
        Writer { reply, script_is_three, bytes: 0, meter: Meter::new(lua) }
    }

    fn takes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes + 32;
        if self.bytes > ANSWER_BYTES_MAX { Err(Fault::Said(TOO_LARGE)) } else { Ok(()) }
    }

    /// Writes a value.
    ///
    /// # Errors
    /// It is too large, or too deep, or takes too long. Part of it is written then.
    pub fn value(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        if depth > ANSWER_DEPTH_MAX {
            return Err(Fault::Said(TOO_DEEP));
        }
        self.takes(0)?;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                self.takes(text.len())?;
                self.reply.bulk(&text);
            }
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(integral(*number)),
            Value::Boolean(is_true) => self.boolean(*is_true),
            Value::Table(table) => return self.table(table, depth),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn boolean(&mut self, is_true: bool) {
        match (self.script_is_three, self.reply.is_three(), is_true) {
            (true, true, _) => self.reply.raw(if is_true { b"#t\r\n" } else { b"#f\r\n" }),
            (true, false, _) => self.reply.integer(i64::from(is_true)),
            (false, _, true) => self.reply.integer(1),
            (false, _, false) => self.reply.null(),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Fault> {
        self.meter.table().map_err(|error| said(&error))?;
        let field = |name: &str| table.raw_get::<Value>(name).map_err(|error| said(&error));
        if let Value::String(text) = field("err")? {
            self.reply.error(&text.to_string_lossy());
        } else if let Value::String(text) = field("ok")? {
            self.reply.simple(&text.to_string_lossy().replace(['\r', '\n'], " "));
        } else if let Some(number) = number(Some(&field("double")?)) {
            self.reply.double(number);
        } else if let Value::Table(pairs) = field("map")? {
            self.named(&pairs, true, depth)?;
        } else if let Value::Table(members) = field("set")? {
            self.named(&members, false, depth)?;
        } else if let Value::String(number) = field("big_number")? {
            self.big_number(&number);
        } else if let Value::Table(parts) = field("verbatim_string")? {
            self.verbatim(&parts)?;
        } else {
            let mut length = 0_usize;
            while !table.raw_get::<Value>(length + 1).map_err(|error| said(&error))?.is_nil() {
                self.meter.step().map_err(|error| said(&error))?;
                length += 1;
            }
            self.takes(length)?;
            self.reply.array(length);
            for index in 1..=length {
                let value: Value = table.raw_get(index).map_err(|error| said(&error))?;
                self.value(&value, depth + 1)?;
            }
        }
        Ok(())
    }

    /// A map, or a set: what a table has.
    fn named(&mut self, table: &Table, is_map: bool, depth: usize) -> Result<(), Fault> {
        let pairs = || table.pairs::<Value, Value>().map(|pair| pair.map_err(|error| said(&error)));
        self.meter.table().map_err(|error| said(&error))?;
        let mut count = 0;
        for _ in pairs() {
            self.meter.step().map_err(|error| said(&error))?;
            count += 1;
        }
        self.takes(count)?;
        if is_map {
            self.reply.map(count)
        } else {
            self.reply.set(count)
        }
        for pair in pairs() {
            let (name, value) = pair?;
            self.value(&name, depth + 1)?;
            if is_map {
                self.value(&value, depth + 1)?;
            }
        }
        Ok(())
    }

    fn big_number(&mut self, number: &LuaString) {
        let number = number.to_string_lossy().replace(['\r', '\n'], " ");
        match self.reply.is_three() {
            true => self.reply.raw(format!("({number}\r\n").as_bytes()),
            false => self.reply.bulk(number.as_bytes()),
        }
    }

    fn verbatim(&mut self, parts: &Table) -> Result<(), Fault> {
        let part = |name: &str| parts.raw_get::<Value>(name).map_err(|error| said(&error));
        let (Value::String(format), Value::String(text)) = (part("format")?, part("string")?) else {
            self.reply.null();
            return Ok(());
        };
        let (format, text) = (format.as_bytes(), text.as_bytes());
        self.takes(text.len())?;
        if !self.reply.is_three() {
            self.reply.bulk(&text);
            return Ok(());
        }
        let mut kind: Vec<u8> = format.iter().copied().chain(*b"   ").take(3).collect();
        kind.iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        self.reply.raw(format!("={}\r\n", text.len() + 4).as_bytes());
        self.reply.raw(&kind);
        self.reply.raw(b":");
        self.reply.raw(&text);
        self.reply.raw(b"\r\n");
        Ok(())
    }
}
