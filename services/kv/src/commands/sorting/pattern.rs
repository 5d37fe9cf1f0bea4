//! [`Pattern`]: the name of another key, with an element in it, and a field of a hash if `->` is in it.

use crate::commands::sorting::budget::Budget;
use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::keyspace::value::Value;
use bytes::Bytes;
use memchr::memmem;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern<'a> {
    /// `#`: the element itself.
    Element,
    /// There is no `*` in it: it is nobody's name.
    Nothing,
    /// A key.
    Key {
        /// What comes before the element.
        before: &'a [u8],
        /// What comes behind it.
        behind: &'a [u8],
        /// The field, if the key is a hash.
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    /// What is said so.
    pub fn of(text: &'a [u8]) -> Pattern<'a> {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Pattern::Nothing };
        let (before, rest) = text.split_at(star);
        let rest = rest.get(1..).unwrap_or_default();
        // An arrow with nothing behind it is a part of the name.
        let arrow = memmem::find(rest, b"->").and_then(|arrow| rest.split_at_checked(arrow));
        let named = arrow.map(|(behind, field)| (behind, field.get(2..).unwrap_or_default()));
        match named.filter(|(_, field)| !field.is_empty()) {
            Some((behind, field)) => Pattern::Key { before, behind, field: Some(field) },
            None => Pattern::Key { before, behind: rest, field: None },
        }
    }

    /// What it finds for an element.
    ///
    /// # Errors
    /// The budget is used up.
    pub fn find(self, call: &Call<'_>, element: &Bytes, budget: &mut Budget) -> Result<Option<Bytes>, Fault> {
        let (before, behind, field) = match self {
            Pattern::Element => return Ok(Some(element.clone())),
            Pattern::Nothing => return Ok(None),
            Pattern::Key { before, behind, field } => (before, behind, field),
        };
        budget.look_up(before.len() + element.len() + behind.len() + field.map_or(0, <[u8]>::len))?;
        let key = [before, element, behind].concat();
        let found = call.find(&key).map(|entry| &entry.value);
        Ok(match (found, field) {
            (Some(Value::Hash(hash)), Some(field)) => hash.get(field).map(|value| value.to_bytes()),
            (Some(Value::Text(text)), None) => Some(text.to_bytes()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_an_element_and_maybe_a_field() {
        let key = |before, behind, field| Pattern::Key { before, behind, field };
        for (text, pattern) in [
            (&b"#"[..], Pattern::Element),
            (b"##", Pattern::Nothing),
            (b"nosort", Pattern::Nothing),
            (b"a->b", Pattern::Nothing),
            (b"*", key(b"", b"", None)),
            (b"w_*_*", key(b"w_", b"_*", None)),
            (b"w_*->f", key(b"w_", b"", Some(b"f"))),
            (b"w_*x->f->g", key(b"w_", b"x", Some(b"f->g"))),
            (b"w_*->", key(b"w_", b"->", None)),
            (b"->*", key(b"->", b"", None)),
        ] {
            assert_eq!(Pattern::of(text), pattern, "{}", text.escape_ascii());
        }
    }
}
