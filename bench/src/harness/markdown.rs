//! A table as Markdown: one line for each case, and one for what it was measured on.

use super::table::{Row, Table};
use std::fmt::Write;

/// Ends the line of one peer within a cell.
const BREAK: &str = "<br>";

/// The table with its command, its warnings, and what it was measured on; `picture` is where it is drawn.
pub(super) fn section_body(table: &Table, picture: Option<String>) -> String {
    let mut text = String::new();
    let here = &table.environment;
    let _ = writeln!(text, "`{}`\n", table.command);
    for warning in &here.warnings {
        let _ = writeln!(text, "**Warning: {}.**\n", plain(warning));
    }
    write_rows(&mut text, table);
    if let Some(picture) = picture {
        let _ = writeln!(text, "\n![{}]({picture})", plain(&table.title));
    }
    let peers = here.peers.join("; ");
    let facts = [
        ("Measured", &here.date),
        ("Commit", &here.commit),
        ("Machine", &here.processors),
        ("Kernel", &here.kernel),
        ("Machine quiet", &here.quiet),
        ("Placement", &here.placement),
        ("Link", &here.link),
        ("Pinning", &here.pinning),
        ("Peers", &peers),
    ];
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let facts: Vec<String> = facts.map(|(name, value)| format!("{name}: {}.", plain(value))).collect();
    let _ = writeln!(text, "\n* {}", facts.join(" "));
    for remark in &table.remarks {
        let _ = writeln!(text, "* {}", plain(remark));
    }
    text
}

/// A column that no row has a value in is left out, and so are the notes if there is none.
fn write_rows(text: &mut String, table: &Table) {
    let has_value =
        |index: usize| table.rows.iter().any(|row| row.values.get(index).is_some_and(|value| value.is_some()));
    let used: Vec<usize> = (0..table.columns.len()).filter(|index| has_value(*index)).collect();
    let has_notes = table.rows.iter().any(|row| !row.note.is_empty());
    let headings = used.iter().filter_map(|index| table.columns.get(*index)).map(|column| column.heading.clone());
    let mut heads = vec!["case".to_owned(), "peer".to_owned()];
    heads.extend(headings);
    if has_notes {
        heads.push("note".to_owned());
    }
    write_row(text, &heads.iter().map(|head| plain(head)).collect::<Vec<_>>());
    let rule = |(number, _): (usize, &String)| {
        if number < 2 || has_notes && number + 1 == heads.len() { "---" } else { "--:" }
    };
    let _ = writeln!(text, "|{}|", heads.iter().enumerate().map(rule).collect::<Vec<_>>().join("|"));
    for case in table.cases() {
        let rows: Vec<(&Row, Vec<String>)> =
            table.rows.iter().filter(|row| row.case == case).map(|row| (row, table.cells(row))).collect();
        let of_each = |cell: &dyn Fn(&Row, &[String]) -> String| {
            let cells: Vec<String> = rows.iter().map(|(row, cells)| plain(&cell(row, cells))).collect();
            cells.join(BREAK)
        };
        let mut cells = vec![plain(case), of_each(&|row, _| row.peer.clone())];
        cells.extend(used.iter().map(|index| of_each(&|_, all| all.get(*index).cloned().unwrap_or_default())));
        if has_notes {
            cells.push(of_each(&|row, _| row.note.clone()));
        }
        write_row(text, &cells);
    }
}

fn write_row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// Text without anything that Markdown or a table takes for more than text.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        if "|*_<>[]`\\#".contains(character) {
            plain.push('\\');
        }
        plain.push(character);
    }
    plain
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::harness::svg::Chart;
    use crate::harness::table::tests::sample;

    pub(in crate::harness) fn no_chart() -> Chart {
        Chart {
            title: String::new(),
            subtitle: String::new(),
            series: Vec::new(),
            panels: Vec::new(),
            footer: Vec::new(),
        }
    }

    #[test]
    fn every_row_is_there_with_what_it_was_measured_on() {
        let mut table = sample();
        table.environment.processors = "2 × CPU".to_owned();
        table.environment.commit = "qanat 0.1.0 abc".to_owned();
        table.environment.date = "2026-11-25 10:00 UTC".to_owned();
        table.environment.kernel = "Linux 6.18".to_owned();
        let text = section_body(&table, Some("web.svg".to_owned()));
        for part in [
            "`qanat bench web`\n\n**Warning: busy.**\n\n",
            "| case | peer | requests/s | p50 µs | note |\n|---|---|--:|--:|---|\n",
            "| 1 KiB | nginx<br>qanat | 30,000 ±10%<br>1,234,567 ±10% | 99.5<br>· | <br>server |\n",
            "\n\n![web: a \\< b & \"c\"](web.svg)\n",
            "\n* Measured: 2026-11-25 10:00 UTC. Commit: qanat 0.1.0 abc. Machine: 2 × CPU. Kernel: Linux 6.18.\n* mind\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn empty_columns_and_notes_are_left_out() {
        let mut table = sample();
        for row in &mut table.rows {
            row.note.clear();
            row.values[1] = None;
        }
        let mut text = String::new();
        write_rows(&mut text, &table);
        assert!(text.starts_with("| case | peer | requests/s |\n|---|---|--:|\n"), "{text}");
    }
}
