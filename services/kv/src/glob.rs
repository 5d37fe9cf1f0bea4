//! Patterns of names: of keys, channels and settings.

/// Whether a name is of a pattern, as Redis' `stringmatchlen` has it: `*`, `?`, `[a-z]`, `[^a]`, `\` before what means itself.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
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
            (Some(_), Some((byte, rest))) => one(pattern, *byte).map(|after| (after, rest)),
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

/// What is left of a pattern if its first part takes this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [b'?', after @ ..] => Some(after),
        [b'[', after @ ..] => class(after, byte),
        [b'\\', escaped, after @ ..] => (*escaped == byte).then_some(after),
        [other, after @ ..] => (*other == byte).then_some(after),
        [] => None,
    }
}

/// The same for what follows `[`.
fn class(pattern: &[u8], byte: u8) -> Option<&[u8]> {
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
            [b']', after @ ..] => return (is_in != is_not).then_some(after),
            [low, b'-', high, after @ ..] => {
                is_in |= (*low.min(high)..=*low.max(high)).contains(&byte);
                after
            }
            [other, after @ ..] => {
                is_in |= *other == byte;
                after
            }
            // A class that is not closed ends with the pattern.
            [] => return (is_in != is_not).then_some(rest),
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

    /// Many stars are no reason to look at a name for ever.
    #[test]
    fn a_pattern_of_stars_ends() {
        let (pattern, name) = ("*a".repeat(60) + "b", "a".repeat(4_000));
        assert!(!matches(pattern.as_bytes(), name.as_bytes()));
    }
}
