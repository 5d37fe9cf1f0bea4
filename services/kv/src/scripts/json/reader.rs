//! `cjson.decode`.

use super::settings::Settings;
use crate::scripts::meter::Meter;
use crate::scripts::raised;
use mlua::{Error, Lua, Value};

/// Arrays and objects in each other, whatever the settings say. Redis takes 1,000 at first; each takes some of the stack.
const DEPTH_MAX: i64 = 200;

/// A text of JSON as a value.
///
/// # Errors
/// It is none.
pub fn decode(lua: &Lua, text: &[u8], settings: Settings) -> mlua::Result<Value> {
    let mut reader = Reader { lua, text, at: 0, depth: 0, settings, meter: Meter::new(lua) };
    let value = reader.value("value")?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.unexpected("the end"));
    }
    Ok(value)
}

struct Reader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    depth: i64,
    settings: Settings,
    meter: Meter<'a>,
}

/// Whether a number begins here that C reads, and JSON does not have.
fn is_invalid(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [first, ..] if first.is_ascii_digit() => false,
        _ => ["inf", "nan"]
            .iter()
            .any(|word| digits.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))),
    }
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.sign().is_some_and(|sign| matches!(sign, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn sign(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn rest(&self) -> &[u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, expected: &str, found: &str, at: usize) -> Error {
        raised::text(self.lua, format_args!("Expected {expected} but found {found} at character {}", at + 1))
    }

    /// What is here is something else.
    fn unexpected(&mut self, expected: &str) -> Error {
        let found = match self.sign() {
            None => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b',') => "T_COMMA",
            Some(b':') => "T_COLON",
            Some(b'"') => "T_STRING",
            Some(b'-' | b'0'..=b'9') => "T_NUMBER",
            _ if self.rest().starts_with(b"null") => "T_NULL",
            _ if self.rest().starts_with(b"true") || self.rest().starts_with(b"false") => "T_BOOLEAN",
            _ => "invalid token",
        };
        self.wrong(expected, found, self.at)
    }

    fn value(&mut self, expected: &str) -> mlua::Result<Value> {
        self.meter.step()?;
        self.blanks();
        match self.sign() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => {
                let string = self.string(expected)?;
                Ok(Value::String(self.lua.create_string(string)?))
            }
            _ => {
                for (word, value) in [
                    (b"true".as_slice(), Value::Boolean(true)),
                    (b"false", Value::Boolean(false)),
                    (b"null", Value::NULL),
                ] {
                    if self.rest().starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                if !self.settings.decodes_invalid && is_invalid(self.rest()) {
                    let is_number = self.sign().is_some_and(|sign| sign == b'-' || sign.is_ascii_digit());
                    let found = if is_number { "invalid number" } else { "invalid token" };
                    return Err(self.wrong(expected, found, self.at));
                }
                self.number().ok_or_else(|| self.unexpected(expected)).map(Value::Number)
            }
        }
    }

    /// A number, also as C reads them: hexadecimal, infinite, or none.
    fn number(&mut self) -> Option<f64> {
        let rest = self.rest();
        let unsigned = rest.strip_prefix(b"-").unwrap_or(rest);
        let sign = rest.len() - unsigned.len();
        let factor = if sign > 0 { -1.0 } else { 1.0 };
        for (word, value) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
            if unsigned.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes())) {
                self.at += sign + word.len();
                return Some(factor * value);
            }
        }
        let run =
            |from: usize, is_in: fn(&u8) -> bool| unsigned.iter().skip(from).take_while(|sign| is_in(sign)).count();
        if unsigned.starts_with(b"0x") || unsigned.starts_with(b"0X") {
            let digits = unsigned.get(2..2 + run(2, u8::is_ascii_hexdigit))?;
            let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            self.at += sign + 2 + digits.len();
            return Some(factor * number as f64);
        }
        let mut length = run(0, u8::is_ascii_digit);
        if length == 0 {
            return None;
        }
        if unsigned.get(length) == Some(&b'.') {
            length += 1 + run(length + 1, u8::is_ascii_digit);
        }
        if unsigned.get(length).is_some_and(|sign| matches!(sign, b'e' | b'E')) {
            let signed = usize::from(unsigned.get(length + 1).is_some_and(|sign| matches!(sign, b'+' | b'-')));
            let digits = run(length + 1 + signed, u8::is_ascii_digit);
            if digits > 0 {
                length += 1 + signed + digits;
            }
        }
        let number: f64 = std::str::from_utf8(unsigned.get(..length)?).ok()?.parse().ok()?;
        self.at += sign + length;
        Some(factor * number)
    }

    fn nested(&mut self, read: fn(&mut Self) -> mlua::Result<Value>) -> mlua::Result<Value> {
        self.at += 1;
        self.depth += 1;
        if self.depth > self.settings.decode_depth.min(DEPTH_MAX) {
            let why = format_args!("Found too many nested data structures ({}) at character {}", self.depth, self.at);
            return Err(raised::text(self.lua, why));
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn takes(&mut self, sign: u8) -> bool {
        self.blanks();
        let is_here = self.sign() == Some(sign);
        self.at += usize::from(is_here);
        is_here
    }

    fn array(&mut self) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        if self.takes(b']') {
            return Ok(Value::Table(table));
        }
        for index in 1_usize.. {
            let value = self.value("value")?;
            table.raw_set(index, value)?;
            if self.takes(b']') {
                break;
            }
            if !self.takes(b',') {
                return Err(self.unexpected("comma or array end"));
            }
        }
        Ok(Value::Table(table))
    }

    fn object(&mut self) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        if self.takes(b'}') {
            return Ok(Value::Table(table));
        }
        loop {
            self.blanks();
            if self.sign() != Some(b'"') {
                return Err(self.unexpected("object key string"));
            }
            let name = self.string("object key string")?;
            if !self.takes(b':') {
                return Err(self.unexpected("colon"));
            }
            let value = self.value("value")?;
            table.raw_set(self.lua.create_string(name)?, value)?;
            if self.takes(b'}') {
                return Ok(Value::Table(table));
            }
            if !self.takes(b',') {
                return Err(self.unexpected("comma or object end"));
            }
        }
    }

    fn string(&mut self, expected: &str) -> mlua::Result<Vec<u8>> {
        self.at += 1;
        let mut string = Vec::new();
        loop {
            let plain = self.rest().iter().take_while(|sign| !matches!(sign, b'"' | b'\\')).count();
            string.extend_from_slice(self.rest().get(..plain).unwrap_or_default());
            self.at += plain;
            match self.sign() {
                None => return Err(self.wrong(expected, "unexpected end of string", self.at)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(string);
                }
                Some(_) => self.escape(expected, &mut string)?,
            }
        }
    }

    fn escape(&mut self, expected: &str, string: &mut Vec<u8>) -> mlua::Result<()> {
        let byte = match self.text.get(self.at + 1) {
            Some(sign @ (b'"' | b'\\' | b'/')) => *sign,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let Some((sign, length)) = self.unicode() else {
                    return Err(self.wrong(expected, "invalid unicode escape code", self.at));
                };
                string.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
                self.at += length;
                return Ok(());
            }
            _ => return Err(self.wrong(expected, "invalid escape code", self.at)),
        };
        string.push(byte);
        self.at += 2;
        Ok(())
    }

    /// Four digits behind `\u`.
    fn unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let is_number = digits.iter().all(u8::is_ascii_hexdigit);
        u16::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_number)?, 16).ok()
    }

    /// A sign that is escaped, maybe by two units, and the length of that.
    fn unicode(&self) -> Option<(char, usize)> {
        let first = self.unit(self.at)?;
        if let Some(sign) = char::from_u32(u32::from(first)) {
            return Some((sign, 6));
        }
        let pair = [first, self.unit(self.at + 6)?];
        char::decode_utf16(pair).next()?.ok().map(|sign| (sign, 12))
    }
}
