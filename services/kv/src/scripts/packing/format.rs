//! [`Format`]: how `struct` is told what to pack.

use crate::scripts::raised;
use mlua::Lua;

/// Bytes of an integer, at most.
const INTEGER_BYTES_MAX: usize = 32;
/// To how many bytes a value is aligned if `!` has no number.
const ALIGNMENT: usize = 8;

/// A part of a value that is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// An integer, with a sign or without.
    Integer(bool),
    /// A byte that says nothing.
    Pad,
    /// A number of four bytes.
    Float,
    /// One of eight.
    Double,
    /// So many bytes of a string; zero: all of it, or as many as the number before says.
    Bytes,
    /// A string, and a zero behind it.
    Text,
    /// Nothing: it says how others are packed.
    Control,
}

/// An item: how many bytes it has, and how many are before it so that it is aligned.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What it is.
    pub item: Item,
    /// Its bytes.
    pub size: usize,
    /// Bytes before it.
    pub padding: usize,
}

/// A format, from its beginning to its end.
#[derive(Debug)]
pub struct Format<'a> {
    rest: &'a [u8],
    /// The highest byte of a number is the first.
    pub is_big: bool,
    alignment: usize,
}

impl<'a> Format<'a> {
    /// At its beginning.
    pub fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: text, is_big: false, alignment: 1 }
    }

    fn number(&mut self, lua: &Lua, default: usize) -> mlua::Result<usize> {
        let count = self.rest.iter().take_while(|sign| sign.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(count).unwrap_or_default();
        self.rest = rest;
        let number =
            digits.iter().try_fold(0_i32, |number, digit| number.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
        match number {
            _ if digits.is_empty() => Ok(default),
            Some(number) => Ok(number as usize),
            None => Err(raised::text(lua, "integral size overflow")),
        }
    }

    /// The next item; `at`: how many bytes are before it.
    ///
    /// # Errors
    /// There is no such one.
    pub fn next(&mut self, lua: &Lua, function: &str, at: usize) -> mlua::Result<Option<Step>> {
        let Some((option, rest)) = self.rest.split_first().filter(|(option, _)| **option != 0) else {
            return Ok(None);
        };
        self.rest = rest;
        let (item, size) = match option {
            b'b' | b'B' => (Item::Integer(*option == b'b'), 1),
            b'h' | b'H' => (Item::Integer(*option == b'h'), 2),
            b'l' | b'L' => (Item::Integer(*option == b'l'), 8),
            b'T' => (Item::Integer(false), 8),
            b'i' | b'I' => {
                let size = self.number(lua, 4)?;
                if size > INTEGER_BYTES_MAX {
                    let why = format_args!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(raised::text(lua, why));
                }
                (Item::Integer(*option == b'i'), size)
            }
            b'f' => (Item::Float, 4),
            b'd' => (Item::Double, 8),
            b'x' => (Item::Pad, 1),
            b'c' => (Item::Bytes, self.number(lua, 1)?),
            b's' => (Item::Text, 0),
            _ => {
                self.control(lua, function, *option)?;
                (Item::Control, 0)
            }
        };
        let alignment = size.min(self.alignment);
        let padding = match item {
            Item::Bytes => 0,
            _ if size == 0 => 0,
            _ => (alignment - (at & (alignment - 1))) & (alignment - 1),
        };
        Ok(Some(Step { item, size, padding }))
    }

    fn control(&mut self, lua: &Lua, function: &str, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let number = self.number(lua, ALIGNMENT)?;
                if !number.is_power_of_two() {
                    return Err(raised::text(lua, format_args!("alignment {number} is not a power of 2")));
                }
                self.alignment = number;
            }
            other => {
                let why = format_args!("invalid format option '{}'", char::from(other));
                return Err(raised::argument(lua, 1, function, why));
            }
        }
        Ok(())
    }
}
