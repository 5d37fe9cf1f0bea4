//! Text that others have chosen and people read: names of cards, programs and services.

use crate::refusal::Refusal;
use std::borrow::Cow;
use std::fmt::Write;
use thiserror::Error;

/// Letters of a VNIC's name at most.
const LETTERS_MAX: usize = 64;

/// No card may be called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a VNIC's name has at most {LETTERS_MAX} letters, and no characters that control, turn round, or can't be seen"
)]
pub struct NameError;

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Refusal {
        error.to_string().into()
    }
}

/// Whether a card may be called so: what lists show of it must not change what they show of others.
///
/// # Errors
/// What it may be.
pub fn check(name: &str) -> Result<(), NameError> {
    match name.chars().count() <= LETTERS_MAX && !name.chars().any(is_unseen) {
        true => Ok(()),
        false => Err(NameError),
    }
}

/// Text of unknown origin as it may be shown on a terminal, in one line: what can't be seen is shown as `\u{…}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.chars().any(is_unseen) {
        false => Cow::Borrowed(text),
        true => {
            let shown =
                |letter: char| if is_unseen(letter) { letter.escape_unicode().to_string() } else { letter.into() };
            Cow::Owned(text.chars().map(shown).collect())
        }
    }
}

/// JSON in which nothing is unseen: a reader gets the same text from it, and a terminal obeys nothing.
pub fn escaped_json(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_unseen(letter) {
            false => line.push(letter),
            true => letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // Writing to a String can't fail.
                let _ = write!(line, "\\u{unit:04x}");
            }),
        }
    }
    line
}

/// Controls, separators of lines, marks of direction, and what takes no room (Unicode's categories Cc, Cf, Zl and Zp).
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_shows_all_it_says() {
        let hidden = serde_json::json!({ "detail": "\u{9b}2J \u{202e}\u{e0001} é" });
        let json = escaped_json(&hidden.to_string());
        assert!(json.contains(r"\u009b2J \u202e\udb40\udc01 é"), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), hidden);
    }

    #[test]
    fn names_draw_on_no_terminal() {
        for good in ["", "web server", "Straße é 網路", "a\"b\\c", "x=1"] {
            assert_eq!((check(good), printable(good)), (Ok(()), Cow::Borrowed(good)), "{good}");
        }
        for (wrong, shown) in [
            ("\x1b[2J", "\\u{1b}[2J"),
            ("a\nb", "a\\u{a}b"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("card\u{200b}", "card\\u{200b}"),
            ("\u{9b}2J", "\\u{9b}2J"),
        ] {
            assert!(check(wrong).unwrap_err().to_string().contains("name"), "{wrong:?}");
            assert_eq!(printable(wrong), shown);
        }
        assert!(check(&"x".repeat(65)).is_err() && check(&"é".repeat(64)).is_ok());
    }
}
