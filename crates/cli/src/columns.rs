//! What people read at a terminal fits 80 columns. Programs ask for JSON.

use std::io::IsTerminal;

/// As wide as terminals are that nobody has made wider.
const COLUMNS: usize = 80;
/// A name at the start of a line, with its value behind it, is no longer than this.
const NAME_MAX: usize = 20;

/// The text as it is shown: in lines that fit where somebody looks at it, that is at a terminal, or where `COLUMNS` is set. What goes to a
/// file or another program stays as it is, so that what is looked for there is found in one line.
pub fn fitted(text: &str) -> String {
    match std::io::stdout().is_terminal() || std::env::var_os("COLUMNS").is_some() {
        true => folded(text),
        false => text.to_owned(),
    }
}

/// The same text in lines that fit. What is too long goes on below, further in, or below the value of its name. Whatever has no blanks
/// stays whole, such as a path, and so does what stands between backticks, which somebody may copy.
fn folded(text: &str) -> String {
    let mut fitted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match width(line.trim_end()) <= COLUMNS {
            true => fitted.push_str(line),
            false => fold(line.trim_end(), &mut fitted),
        }
        if line.ends_with('\n') && !fitted.ends_with('\n') {
            fitted.push('\n');
        }
    }
    fitted
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn fold(line: &str, fitted: &mut String) {
    let indent = hanging(line);
    let mut at = 0;
    for part in parts(line) {
        // The blanks before a part go with it, unless the line ends there.
        let (wide, word) = (width(part), part.trim_start());
        if at > indent && at + wide > COLUMNS {
            fitted.push('\n');
            fitted.push_str(&" ".repeat(indent));
            fitted.push_str(word);
            at = indent + width(word);
        } else {
            fitted.push_str(part);
            at += wide;
        }
    }
}

/// Where the lines below a line begin.
fn hanging(line: &str) -> usize {
    let start = width(line) - width(line.trim_start());
    let text = line.trim_start();
    let value = text.find("  ").map(|end| end + width(&text[end..]) - width(text[end..].trim_start()));
    match value {
        Some(value) if value <= NAME_MAX => start + value,
        _ => start + 4,
    }
}

/// Words with the blanks before them; what stands between backticks is one.
fn parts(line: &str) -> Vec<&str> {
    let (mut parts, mut from, mut is_command, mut in_word) = (Vec::new(), 0, false, false);
    for (at, letter) in line.char_indices() {
        match letter {
            ' ' if in_word && !is_command => {
                parts.push(&line[from..at]);
                (from, in_word) = (at, false);
            }
            ' ' => {}
            _ => in_word = true,
        }
        is_command ^= letter == '`';
    }
    parts.push(&line[from..]);
    parts
}

/// As much of a line as a terminal has columns for: a longer one could not be written over.
pub fn cut(line: &str, columns: usize) -> &str {
    line.char_indices().nth(columns).map_or(line, |(end, _)| &line[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_below_and_no_word_is_lost() {
        let short = "a line that fits\n  and another\n";
        assert_eq!(folded(short), short);
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let value = "fd00::1234/64, ".repeat(20);
        for (line, indent) in [
            (format!("addresses  {value}"), 11),
            (format!("  transmit {value}"), 6),
            (format!("VNIC 3 {value}"), 4),
            (format!("      → {value}"), 10),
        ] {
            let text = folded(&format!("{line}\nnext\n"));
            assert!(text.lines().all(|line| width(line) <= COLUMNS) && text.ends_with("\nnext\n"), "{text}");
            assert!(text.lines().count() > 4 && words(&text) == words(&format!("{line} next")), "{text}");
            let below = text.lines().nth(1).unwrap();
            assert_eq!(width(below) - width(below.trim_start()), indent, "{text}");
        }
    }

    #[test]
    fn what_is_copied_stays_whole() {
        let command = format!("`qanat vnic create card --address {}`", "10.77.0.9/24 ".repeat(8));
        let path = format!("/{}", "x".repeat(100));
        let text = folded(&format!("do this, as root, if it is to go on: {command} or look into {path} for more\n"));
        assert!(text.lines().any(|line| line.trim() == command) && text.contains(&path), "{text}");
        assert_eq!(cut("→→→", 2), "→→");
        assert_eq!(cut("ab", 9), "ab");
    }
}
