//! Values as files. A string is what it is. Of other kinds each element is a line, whose parts have tabs between them; what would break
//! a line is written with `\`.

use crate::keyspace::stream::fields;
use crate::keyspace::stream::id::Id;
use crate::keyspace::value::Value;
use crate::resp::number::double_text;
use bytes::Bytes;
use qanat_export::tree::TreeError;

/// Bytes of a text that is made of a collection, at most. The core makes it in one go, and its clients wait meanwhile.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Lines that are written until there are too many bytes.
#[derive(Default)]
pub struct Lines {
    text: Vec<u8>,
}

impl Lines {
    /// Writes a line.
    ///
    /// # Errors
    /// There are too many bytes.
    pub fn line<'a>(&mut self, parts: impl IntoIterator<Item = &'a [u8]>) -> Result<(), TreeError> {
        for (index, part) in parts.into_iter().enumerate() {
            if self.text.len() + part.len() > TEXT_BYTES_MAX {
                return Err(TreeError::TooLarge);
            }
            if index > 0 {
                self.text.push(b'\t');
            }
            part.iter().for_each(|byte| self.byte(*byte));
        }
        self.text.push(b'\n');
        Ok(())
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            b'\n' => self.text.extend(b"\\n"),
            b'\r' => self.text.extend(b"\\r"),
            b'\t' => self.text.extend(b"\\t"),
            b'\\' => self.text.extend(b"\\\\"),
            0..32 | 127 => self.text.extend(format!("\\x{byte:02x}").into_bytes()),
            other => self.text.push(other),
        }
    }

    /// All of them.
    pub fn into_text(self) -> Bytes {
        self.text.into()
    }
}

/// The file of a value. A string's bytes are shared with the store, not copied.
///
/// # Errors
/// The text would be too large.
pub fn of_value(value: &Value) -> Result<Bytes, TreeError> {
    let mut lines = Lines::default();
    match value {
        Value::Text(text) => return Ok(text.to_bytes()),
        Value::Hash(hash) => hash.iter().try_for_each(|(field, value)| lines.line([field, &value]))?,
        Value::List(list) => list.iter().try_for_each(|element| lines.line([element.as_ref()]))?,
        Value::Set(set) => set.iter().try_for_each(|member| lines.line([member]))?,
        Value::Sorted(sorted) => {
            let mut ranked = sorted.order().from(0);
            ranked.try_for_each(|(score, member)| lines.line([double_text(score).as_slice(), member]))?;
        }
        Value::Stream(stream) => stream.range(Id::MIN, Id::MAX).try_for_each(|(id, packed)| {
            let id = id.to_string();
            lines.line(std::iter::once(id.as_bytes()).chain(fields::unpack(packed)))
        })?,
    }
    Ok(lines.into_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one() {
        let mut lines = Lines::default();
        lines.line([&b"a\tb"[..], b"c\nd\\", b"\x1b\x00\xff"]).unwrap();
        lines.line([]).unwrap();
        assert_eq!(lines.into_text(), &b"a\\tb\tc\\nd\\\\\t\\x1b\\x00\xff\n\n"[..]);
    }

    #[test]
    fn what_is_too_large_is_not_made() {
        let mut lines = Lines::default();
        let long = vec![b'x'; TEXT_BYTES_MAX];
        assert_eq!(lines.line([long.as_slice()]), Ok(()));
        assert_eq!(lines.line([&b"y"[..]]), Err(TreeError::TooLarge));
        let text: Bytes = vec![b'x'; TEXT_BYTES_MAX * 2].into();
        assert_eq!(of_value(&Value::Text(text.clone().into())), Ok(text));
    }
}
