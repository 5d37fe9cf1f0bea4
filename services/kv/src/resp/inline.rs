//! Inline requests: a line of words, as somebody types them by telnet.

use std::ops::Range;

/// The words of a line, unquoted, in one piece of memory; `None`: a quote is not closed, or what follows it is no blank.
pub fn words(line: &[u8], args: &mut Vec<Range<usize>>) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line;
    loop {
        let blank = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = rest.get(blank..).unwrap_or_default();
        if rest.is_empty() {
            return Some(text);
        }
        let start = text.len();
        rest = word(rest, &mut text)?;
        args.push(start..text.len());
    }
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

/// One word; what comes behind it.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'"', inner @ ..] => closed(double_quoted(inner, text)?)?,
            [b'\'', inner @ ..] => closed(single_quoted(inner, text)?)?,
            [byte, after @ ..] if !is_blank(*byte) => {
                text.push(*byte);
                after
            }
            _ => return Some(rest),
        };
    }
}

/// What follows a closing quote has to be a blank, or the end.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    rest.first().is_none_or(|byte| is_blank(*byte)).then_some(rest)
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'\'', after @ ..] => {
                text.push(b'\'');
                after
            }
            [b'\'', after @ ..] => return Some(after),
            [byte, after @ ..] => {
                text.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

fn hexadecimal(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, after @ ..] if hexadecimal(*high).is_some() && hexadecimal(*low).is_some() => {
                text.push(hexadecimal(*high)? << 4 | hexadecimal(*low)?);
                after
            }
            [b'\\', escaped, after @ ..] => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                after
            }
            [b'"', after @ ..] => return Some(after),
            [byte, after @ ..] => {
                text.push(*byte);
                after
            }
            [] => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::type_complexity, reason = "a table of this test")]
    fn words_are_unquoted_as_redis_does() {
        let cases: [(&[u8], Option<&[&[u8]]>); 8] = [
            (b"", Some(&[])),
            (b"  set  a   b ", Some(&[b"set", b"a", b"b"])),
            (b"a \"b c\" 'd e'", Some(&[b"a", b"b c", b"d e"])),
            (b"\"\\x41\\n\\\"\" 'it\\'s'", Some(&[b"A\n\"", b"it's"])),
            (b"\"\" ''", Some(&[b"", b""])),
            (b"\"a", None),
            (b"\"a\"b", None),
            (b"'a", None),
        ];
        for (line, expected) in cases {
            let mut args = Vec::new();
            let text = words(line, &mut args);
            let found = text.as_ref().map(|text| args.iter().map(|range| &text[range.clone()]).collect::<Vec<_>>());
            assert_eq!(found.as_deref(), expected, "{}", line.escape_ascii());
        }
    }
}
