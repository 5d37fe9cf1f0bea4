//! File names of what may be called anything, such as keys. A byte that is no letter, digit or plain sign of ASCII is `%` and two digits, so
//! any key is a name, and a name draws on no terminal.

use crate::tree::NAME_BYTES_MAX;

/// The name of the key that has no bytes. No other has it, since two digits follow each other `%`.
const EMPTY: &[u8] = b"%";
const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%')
}

/// The file name of a key; `None`: it would be too long.
pub fn name_of(key: &[u8]) -> Option<Vec<u8>> {
    // A longer one has a longer name.
    if key.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut name = Vec::with_capacity(key.len());
    for (index, byte) in key.iter().enumerate() {
        // `.` and `..` are names of directories.
        let is_dots = index == 0 && matches!(key, b"." | b"..");
        match is_plain(*byte) && !is_dots {
            true => name.push(*byte),
            false => {
                let digit = |number: u8| DIGITS.get(usize::from(number)).copied();
                name.extend([Some(b'%'), digit(byte >> 4), digit(byte & 15)].into_iter().flatten());
            }
        }
    }
    if name.is_empty() {
        name.extend(EMPTY);
    }
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

/// The key of a file name. Each key has one name: what is written otherwise is no key's.
pub fn bytes_of(name: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((byte, after)) = rest.split_first().filter(|_| name != EMPTY) {
        rest = after;
        key.push(match byte {
            b'%' => {
                let (high, low) = (after.first()?, after.get(1)?);
                rest = after.get(2..)?;
                let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
                u8::try_from(digit(*high)? << 4 | digit(*low)?).ok()?
            }
            other => *other,
        });
    }
    name_of(&key).is_some_and(|known| known == name).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::is_name;
    use proptest::prelude::*;

    #[test]
    fn names_are_as_written_here() {
        for (key, name) in [
            (&b"user:1"[..], "user:1"),
            (b"a/b", "a%2Fb"),
            (b"", "%"),
            (b"%", "%25"),
            (b".", "%2E"),
            (b"..", "%2E."),
            (b"...", "..."),
            (b"a b\n", "a%20b%0A"),
            ("é".as_bytes(), "%C3%A9"),
            (b"\x1b[2J", "%1B[2J"),
        ] {
            assert_eq!(name_of(key).as_deref(), Some(name.as_bytes()), "{key:?}");
        }
        assert_eq!((name_of(&[b'a'; 255]).is_some(), name_of(&[b'a'; 256])), (true, None));
        assert_eq!((name_of(&[b' '; 85]).is_some(), name_of(&[b' '; 86])), (true, None));
        for name in ["", "%2", "%zz", "%2f", "%41", "a/b", "a b", "..", ".", "%%", "a%"] {
            assert_eq!(bytes_of(name.as_bytes()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn each_key_has_one_name(key in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(name) = name_of(&key) {
                prop_assert!(is_name(&name));
                prop_assert_eq!(bytes_of(&name), Some(key));
            }
        }

        #[test]
        fn what_is_a_key_s_name_is_the_one_it_has(name in prop::collection::vec(prop_oneof![Just(b'%'), any::<u8>()], 0..20)) {
            if let Some(key) = bytes_of(&name) {
                prop_assert_eq!(name_of(&key), Some(name));
            }
        }
    }
}
