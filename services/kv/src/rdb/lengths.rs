//! Writing lengths and strings.

use std::io::{self, Write};

/// Writes a length, or any other number without a sign.
///
/// # Errors
/// As the target has it; a vector has none.
pub fn length(length: u64, to: &mut impl Write) -> io::Result<()> {
    match length {
        0..=0x3f => to.write_all(&[length as u8]),
        0x40..=0x3fff => to.write_all(&[0x40 | (length >> 8) as u8, length as u8]),
        _ => match u32::try_from(length) {
            Ok(length) => {
                to.write_all(&[0x80])?;
                to.write_all(&length.to_be_bytes())
            }
            Err(_) => {
                to.write_all(&[0x81])?;
                to.write_all(&length.to_be_bytes())
            }
        },
    }
}

/// Writes a string.
///
/// # Errors
/// As the target has it.
pub fn string(text: &[u8], to: &mut impl Write) -> io::Result<()> {
    length(text.len() as u64, to)?;
    to.write_all(text)
}
