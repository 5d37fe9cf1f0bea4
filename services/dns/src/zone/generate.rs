//! `$GENERATE` (BIND's): a range of numbers put into a pattern.

use super::error::LineError;

/// Records one line may stand for.
const COUNT_MAX: u64 = 1 << 20;

/// `START-STOP[/STEP]`.
pub(super) fn range(text: &str) -> Result<impl Iterator<Item = u64> + use<>, LineError> {
    let wrong = || LineError::Range(text.to_owned());
    let (range, step) = text.split_once('/').unwrap_or((text, "1"));
    let (start, stop) = range.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u32>().map(u64::from).map_err(|_| wrong());
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    if step == 0 || stop < start {
        return Err(wrong());
    }
    if (stop - start) / step >= COUNT_MAX {
        return Err(LineError::RangeTooLong(COUNT_MAX));
    }
    Ok((start..=stop).step_by(step as usize))
}

/// Puts `value` into `pattern`: `$`, or `${OFFSET[,WIDTH[,BASE]]}` with base d, o, x, X, n or N; `$$` and `\$` are a dollar
/// sign.
pub(super) fn substitute(pattern: &str, value: u64, text: &mut String) -> Result<(), LineError> {
    text.clear();
    let mut rest = pattern;
    while let Some(at) = rest.find(['$', '\\']) {
        let (before, after) = rest.split_at(at);
        text.push_str(before);
        let mut characters = after.chars();
        let first = characters.next();
        rest = characters.as_str();
        if first == Some('\\') {
            match characters.next() {
                Some('$') => text.push('$'),
                Some(other) => {
                    text.push('\\');
                    text.push(other);
                }
                None => text.push('\\'),
            }
            rest = characters.as_str();
        } else if let Some(after) = rest.strip_prefix('$') {
            text.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix('{') {
            let (modifier, after) = after.split_once('}').ok_or(LineError::OpenModifier)?;
            modified(modifier, value, text)?;
            rest = after;
        } else {
            text.push_str(&value.to_string());
        }
    }
    text.push_str(rest);
    Ok(())
}

/// What stands in a pair of quotes, as it would be read without them.
pub(super) fn unquoted(text: &str) -> String {
    text.replace("\\\"", "\"")
}

fn modified(modifier: &str, value: u64, text: &mut String) -> Result<(), LineError> {
    let wrong = || LineError::Modifier(modifier.to_owned());
    let mut parts = modifier.split(',');
    let offset: i64 = parts.next().unwrap_or("0").trim().parse().map_err(|_| wrong())?;
    let width: usize = parts.next().unwrap_or("0").trim().parse().map_err(|_| wrong())?;
    let base = parts.next().unwrap_or("d").trim();
    if parts.next().is_some() || width > 255 {
        return Err(wrong());
    }
    let value = (value as i64).checked_add(offset).filter(|value| *value >= 0).ok_or_else(wrong)?;
    match base {
        "d" => text.push_str(&format!("{value:0width$}")),
        "o" => text.push_str(&format!("{value:0width$o}")),
        "x" => text.push_str(&format!("{value:0width$x}")),
        "X" => text.push_str(&format!("{value:0width$X}")),
        // Digits as labels of ip6.arpa, the least first; width counts the dots too.
        "n" | "N" => {
            let count = width.div_ceil(2).max(1);
            let digits: String = if base == "n" { format!("{value:0count$x}") } else { format!("{value:0count$X}") };
            let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
            text.push_str(&labels.join("."));
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str, value: u64) -> String {
        let mut text = String::new();
        substitute(pattern, value, &mut text).unwrap();
        text
    }

    #[test]
    fn ranges_and_patterns() {
        assert_eq!(range("1-7/3").unwrap().collect::<Vec<_>>(), [1, 4, 7]);
        assert_eq!(range("5-5").unwrap().count(), 1);
        for wrong in ["", "1", "2-1", "1-2/0", "a-b", "0-4294967295"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
        assert_eq!(text("host-$.a", 7), "host-7.a");
        assert_eq!(text("h${10,4,d}", 7), "h0017");
        assert_eq!(text("h${-1,2,x}-${0,2,X}", 171), "haa-AB");
        assert_eq!(text("$$ \\$ \\.", 1), "$ $ \\.");
        assert_eq!(text("${0,7,n}", 0x1a2b), "b.2.a.1");
        let mut target = String::new();
        for wrong in ["${", "${a}", "${-2}", "${0,0,z}", "${0,1,d,x}"] {
            assert!(substitute(wrong, 1, &mut target).is_err(), "{wrong}");
        }
    }
}
