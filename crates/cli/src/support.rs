//! `qanat run --support`: the library's own table of what it supports, as it stands in `docs/posix.md`.

use qanat_launch::support::{CALLS, FLAGS, MESSAGES, OPTIONS, OTHERS, Row, Support};
use std::fmt::Write as _;

/// The whole table, in Markdown.
pub fn markdown() -> String {
    let mut text = String::from("| calls | | |\n|---|---|---|\n");
    for (names, support, note) in CALLS {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        line(&mut text, &names.join(" "), *support, note);
    }
    for (names, support, note) in OTHERS {
        line(&mut text, names, *support, note);
    }
    for (title, rows) in [("flags", FLAGS), ("control messages", MESSAGES)] {
        let _ = write!(text, "\n| {title} | | |\n|---|---|---|\n");
        for (names, support, note) in rows {
            line(&mut text, names, *support, note);
        }
    }
    text.push_str("\n| options | | |\n|---|---|---|\n");
    // Those of a level that fare alike, and of which there is nothing else to say, in one line.
    let mut rows = OPTIONS.iter().peekable();
    while let Some(row) = rows.next() {
        let mut names = format!("`{}`", row.names.1);
        let is_like = |next: &&Row| {
            next.level == row.level && next.support == row.support && row.note.is_empty() && next.note.is_empty()
        };
        while let Some(next) = rows.next_if(is_like) {
            let _ = write!(names, " `{}`", next.names.1);
        }
        line(&mut text, &names, row.support, row.note);
    }
    text.push_str("| any other | passed through | the kernel's answer; nothing else comes of it |\n");
    text
}

fn line(text: &mut String, names: &str, support: Support, note: &str) {
    let _ = writeln!(text, "| {names} | {support} | {note} |");
}
