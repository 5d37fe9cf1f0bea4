//! Passing over what is not kept here: streams, and what modules have written.

use super::error::{RdbError, Wrong};
use super::kind::of_value as kind;
use super::source::Source;
use std::io::Read;

/// What such a type is; `None`: it is none of them.
pub fn name(number: u8) -> Option<&'static str> {
    match number {
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => Some("stream"),
        kind::MODULE_OLD | kind::MODULE => Some("value of a module"),
        _ => None,
    }
}

/// Passes over a value of such a type.
pub fn value<R: Read>(source: &mut Source<R>, number: u8) -> Result<(), RdbError> {
    match number {
        kind::STREAM | kind::STREAM_2 | kind::STREAM_3 => stream(source, number),
        kind::MODULE => {
            source.length()?;
            module_parts(source)
        }
        _ => Err(source.wrong(Wrong::Type(number))),
    }
}

fn lengths<R: Read>(source: &mut Source<R>, count: usize) -> Result<(), RdbError> {
    (0..count).try_for_each(|_| source.length().map(drop))
}

fn stream<R: Read>(source: &mut Source<R>, number: u8) -> Result<(), RdbError> {
    let is_second = number != kind::STREAM;
    for _ in 0..source.length()? {
        source.pass_string()?;
        source.pass_string()?;
    }
    // Its length and last ID; its first one, the greatest one deleted, and how many were added.
    lengths(source, if is_second { 3 + 5 } else { 3 })?;
    for _ in 0..source.length()? {
        group(source, number)?;
    }
    Ok(())
}

fn group<R: Read>(source: &mut Source<R>, number: u8) -> Result<(), RdbError> {
    source.pass_string()?;
    lengths(source, if number == kind::STREAM { 2 } else { 3 })?;
    for _ in 0..source.length()? {
        // The ID, and when it was delivered; how often.
        source.array::<24>()?;
        source.length()?;
    }
    for _ in 0..source.length()? {
        source.pass_string()?;
        source.array::<8>()?;
        if number == kind::STREAM_3 {
            source.array::<8>()?;
        }
        for _ in 0..source.length()? {
            source.array::<16>()?;
        }
    }
    Ok(())
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
