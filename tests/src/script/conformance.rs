//! `docs/conformance.md`: what each script shows, by RFC section, and where the stacks differ.

use super::syntax::{Note, Script, Stack};
use std::fmt::Write;

/// The number of an RFC and its section, for sorting.
fn key(script: &Script) -> (u32, Vec<u32>) {
    let numbers =
        |text: &str| -> Vec<u32> { text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect() };
    let all = numbers(&script.section);
    (all.first().copied().unwrap_or(0), all.get(1..).unwrap_or(&[]).to_vec())
}

/// The tables of the document, generated from the scripts' comments.
pub fn tables(scripts: &[Script]) -> String {
    let mut scripts: Vec<&Script> = scripts.iter().collect();
    scripts.sort_by_key(|script| (key(script), script.name.clone()));
    let mut text = String::new();
    let mut rfc = 0;
    for script in &scripts {
        let (number, _) = key(script);
        if number != rfc {
            rfc = number;
            let _ = write!(text, "\n### RFC {rfc}\n\n| Script | Section | Shows | Sentence |\n|---|---|---|---|\n");
        }
        let section = script.section.split_once(' ').and_then(|(_, rest)| rest.split_once(' ')).map_or("", |(_, s)| s);
        let name = script.name.trim_end_matches(".pkt");
        let _ = writeln!(text, "| `{name}` | {section} | {} | {} |", script.title, script.sentence);
    }
    // Control bits in angle brackets are no markup.
    text = text.replace('<', "&lt;");
    text.push_str("\n## Differences\n\n");
    for (stack, heading) in [(Stack::Qanat, "Qanat"), (Stack::Linux, "Linux")] {
        let _ = write!(text, "### {heading}\n\n| Script | Kind | Reason |\n|---|---|---|\n");
        for script in &scripts {
            for (_, note) in script.notes.iter().filter(|(on, _)| *on == stack) {
                let (kind, reason) = match note {
                    Note::Skip(reason) => ("not run", reason),
                    Note::Deviation(reason) => ("deviation", reason),
                    Note::Bug(reason) => ("bug", reason),
                };
                let _ = writeln!(text, "| `{}` | {kind} | {reason} |", script.name.trim_end_matches(".pkt"));
            }
        }
        text.push('\n');
    }
    text
}
