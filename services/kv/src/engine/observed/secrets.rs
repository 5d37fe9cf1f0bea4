//! What may not be shown of a request: passwords.

use crate::resp::request::Args;

/// What is shown instead.
const HIDDEN: &[u8] = b"(redacted)";

/// An argument, as others may see it.
pub fn shown<'a>(args: &Args<'a>, index: usize) -> &'a [u8] {
    let is_after = |word: &str, behind: std::ops::RangeInclusive<usize>| {
        behind.into_iter().any(|count| index.checked_sub(count).is_some_and(|place| place > 0 && args.is(place, word)))
    };
    let is_secret = index > 0
        && match args.at(0).len() {
            3 => args.is(0, "ACL") && args.is(1, "SETUSER") && index > 1,
            4 => args.is(0, "AUTH"),
            5 => args.is(0, "HELLO") && is_after("AUTH", 1..=2),
            6 => args.is(0, "CONFIG") && (is_after("REQUIREPASS", 1..=1) || is_after("MASTERAUTH", 1..=1)),
            _ => false,
        };
    if is_secret { HIDDEN } else { args.at(index) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden() {
        for (words, expected) in [
            ("auth one two", "auth (redacted) (redacted)"),
            ("hello 3 auth default x setname y", "hello 3 auth (redacted) (redacted) setname y"),
            ("CONFIG SET requirepass x timeout 1", "CONFIG SET requirepass (redacted) timeout 1"),
            ("acl setuser me >x", "acl setuser (redacted) (redacted)"),
            ("set auth x", "set auth x"),
        ] {
            let mut start = 0;
            let ranges: Vec<_> = words
                .split(' ')
                .map(|word| {
                    start += word.len() + 1;
                    start - word.len() - 1..start - 1
                })
                .collect();
            let args = Args::new(words.as_bytes(), &ranges);
            let seen: Vec<_> = (0..args.len()).map(|index| String::from_utf8_lossy(shown(&args, index))).collect();
            assert_eq!(seen.join(" "), expected);
        }
    }
}
