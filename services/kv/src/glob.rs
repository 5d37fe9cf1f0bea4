//! Patterns of names: of keys, channels and settings.

/// Steps of one comparison. A hostile pattern takes as many as the pattern has bytes, multiplied by those of the name.
const STEPS_MAX: usize = 4 << 20;
/// So many more for each byte of the name.
const STEPS_OF_BYTE: usize = 16;

/// Whether a name is of a pattern, as Redis' `stringmatchlen` has it: `*`, `?`, `[a-z]`, `[^a]`, `\` before what means itself. If that takes
/// too many steps, it is not.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut left = STEPS_MAX.saturating_add(name.len().saturating_mul(STEPS_OF_BYTE));
    let (mut pattern, mut name) = (pattern, name);
    // Where to go on if what follows the last star does not match: with one more byte taken by it.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        let matched = match (pattern.first(), name.split_first()) {
            (Some(b'*'), _) => {
                pattern = pattern.get(1..).unwrap_or_default();
                star = Some((pattern, name));
                continue;
            }
            (None, None) => return true,
            (None, Some(_)) | (Some(_), None) => None,
            (Some(_), Some((byte, rest))) => {
                let (is_taken, after) = one(pattern, *byte);
                match left.checked_sub(pattern.len() - after.len()) {
                    Some(steps) => left = steps,
                    None => return false,
                }
                is_taken.then_some((after, rest))
            }
        };
        match (matched, star) {
            (Some((after, rest)), _) => (pattern, name) = (after, rest),
            (None, Some((after, at))) => {
                let Some((_, rest)) = at.split_first() else { return false };
                (pattern, name) = (after, rest);
                star = Some((after, rest));
            }
            (None, None) => return false,
        }
    }
}

/// Whether the first part of a pattern takes this byte, and what is left of the pattern behind it.
fn one(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', after @ ..] => (true, after),
        [b'[', after @ ..] => class(after, byte),
        [b'\\', escaped, after @ ..] => (*escaped == byte, after),
        [other, after @ ..] => (*other == byte, after),
        [] => (false, pattern),
    }
}

/// The same for what follows `[`.
fn class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let (is_not, mut rest) = match pattern {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut is_in = false;
    loop {
        rest = match rest {
            [b'\\', escaped, after @ ..] => {
                is_in |= *escaped == byte;
                after
            }
            [b']', after @ ..] => return (is_in != is_not, after),
            [low, b'-', high, after @ ..] => {
                is_in |= (*low.min(high)..=*low.max(high)).contains(&byte);
                after
            }
            [other, after @ ..] => {
                is_in |= *other == byte;
                after
            }
            // A class that is not closed ends with the pattern.
            [] => return (is_in != is_not, rest),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_redis_has_it() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("", "", true),
            ("", "a", false),
            ("[", "a", false),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    /// A pattern may be as long as the name: it is given up when that takes too many steps.
    #[test]
    fn what_takes_too_many_steps_is_not_of_a_pattern() {
        for (pattern, name, before) in [
            (format!("*{}b", "a".repeat(5_000)), format!("{}b", "a".repeat(5_000)), "a".repeat(10_000)),
            (format!("*[{}]b", "a".repeat(50_000)), "ab".to_owned(), "c".repeat(50_000)),
        ] {
            assert!(matches(pattern.as_bytes(), name.as_bytes()));
            assert!(!matches(pattern.as_bytes(), format!("{before}{name}").as_bytes()));
        }
    }

    /// Many stars are no reason to look at a name for ever.
    #[test]
    fn a_pattern_of_stars_ends() {
        let (pattern, name) = ("*a".repeat(60) + "b", "a".repeat(4_000));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }
}
