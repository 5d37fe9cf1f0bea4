//! Passing over what is not kept here: what modules have written.

use super::error::{RdbError, Wrong};
use super::kind::of_value as kind;
use super::source::Source;
use std::io::Read;

/// What such a type is; `None`: it is none of them.
pub fn name(number: u8) -> Option<&'static str> {
    match number {
        kind::MODULE_OLD | kind::MODULE => Some("value of a module"),
        _ => None,
    }
}

/// Passes over a value of such a type.
pub fn value<R: Read>(source: &mut Source<R>, number: u8) -> Result<(), RdbError> {
    match number {
        kind::MODULE => {
            source.length()?;
            module_parts(source)
        }
        _ => Err(source.wrong(Wrong::Type(number))),
    }
}

/// Passes over what a module has written, which says of each part what it is.
pub fn module_parts<R: Read>(source: &mut Source<R>) -> Result<(), RdbError> {
    loop {
        match source.length()? {
            0 => return Ok(()),
            1 | 2 => drop(source.length()?),
            3 => drop(source.array::<4>()?),
            4 => drop(source.array::<8>()?),
            5 => source.pass_string()?,
            _ => return Err(source.wrong(Wrong::Packed("value of a module"))),
        }
    }
}
