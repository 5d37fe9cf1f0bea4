//! A report as Markdown: a table for each benchmark, as docs/performance.md has them, and where its picture is.

use super::page::Section;
use super::table::Table;
use std::fmt::Write;

/// The report. `picture` says where the picture of a benchmark is, if there is one.
pub fn markdown(title: &str, sections: &[Section], picture: impl Fn(&Section) -> Option<String>) -> String {
    let mut text = format!("# {}\n", plain(title));
    if let Some((table, _)) = sections.iter().find_map(|section| section.outcome.as_ref().ok()) {
        let here = &table.environment;
        let machine = [&here.processors, &here.kernel, &here.commit, &here.date].map(|word| plain(word));
        let _ = writeln!(text, "\nMeasured on {}.", machine.join(", "));
    }
    text.push_str(
        "\nPeers took turns on one link under one load. Numbers are medians; ± is half the distance from the lowest run to the highest. \
         Compare within a table, not across machines.\n",
    );
    for section in sections {
        match &section.outcome {
            Ok((table, _)) => write_section(&mut text, table, picture(section)),
            Err(reason) => {
                let _ = writeln!(text, "\n## {}\n\nNot measured: {}", plain(&section.name), plain(&reason.to_string()));
            }
        }
    }
    text
}

fn write_section(text: &mut String, table: &Table, picture: Option<String>) {
    let here = &table.environment;
    let _ = writeln!(text, "\n## {}\n\n`{}`\n", plain(&table.title), table.command);
    for warning in &here.warnings {
        let _ = writeln!(text, "**Warning: {}.**\n", plain(warning));
    }
    write_rows(text, table);
    if let Some(picture) = picture {
        let _ = writeln!(text, "\n![{}]({picture})", plain(&table.title));
    }
    let peers = here.peers.join("; ");
    let facts = [
        ("Link", &here.link),
        ("Pinning", &here.pinning),
        ("Peers", &peers),
        ("Machine", &here.processors),
        ("Kernel", &here.kernel),
        ("Commit", &here.commit),
        ("Measured", &here.date),
        ("Machine quiet", &here.quiet),
        ("Placement", &here.placement),
    ];
    text.push('\n');
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(text, "* {name}: {}", plain(value));
    }
    for remark in &table.remarks {
        let _ = writeln!(text, "* {}", plain(remark));
    }
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
    write_row(text, &heads);
    let rule = |(number, _): (usize, &String)| {
        if number < 2 || has_notes && number + 1 == heads.len() { "---" } else { "--:" }
    };
    let _ = writeln!(text, "|{}|", heads.iter().enumerate().map(rule).collect::<Vec<_>>().join("|"));
    let mut case = None;
    for row in &table.rows {
        // A case is named in the first of its rows.
        let name = if case == Some(&row.case) { String::new() } else { row.case.clone() };
        case = Some(&row.case);
        let all = table.cells(row);
        let mut cells = vec![name, row.peer.clone()];
        cells.extend(used.iter().map(|index| all.get(*index).cloned().unwrap_or_default()));
        if has_notes {
            cells.push(row.note.clone());
        }
        write_row(text, &cells);
    }
}

fn write_row(text: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

/// Text without anything that Markdown or a table takes for more than text.
fn plain(text: &str) -> String {
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
mod tests {
    use super::*;
    use crate::harness::HarnessError;
    use crate::harness::svg::Chart;
    use crate::harness::table::tests::sample;

    #[test]
    fn every_row_is_there_with_what_it_was_measured_on() {
        let mut table = sample();
        table.environment.processors = "2 × CPU".to_owned();
        table.environment.commit = "qanat 0.1.0 abc".to_owned();
        table.environment.date = "2026-11-25 10:00 UTC".to_owned();
        table.environment.kernel = "Linux 6.18".to_owned();
        let drawing = Chart {
            title: String::new(),
            subtitle: String::new(),
            series: Vec::new(),
            panels: Vec::new(),
            footer: Vec::new(),
        };
        let sections = [
            Section { name: "web".to_owned(), outcome: Ok((table, drawing)) },
            Section { name: "gone".to_owned(), outcome: Err(HarnessError::Missing("no root | here".to_owned())) },
        ];
        let text = markdown("Qanat beside others", &sections, |section| Some(format!("{}.svg", section.name)));
        for part in [
            "# Qanat beside others\n",
            "Measured on 2 × CPU, Linux 6.18, qanat 0.1.0 abc, 2026-11-25 10:00 UTC.\n",
            "## web: a \\< b & \"c\"\n\n`qanat bench web`\n",
            "**Warning: busy.**\n\n| case | peer | requests/s | p50 µs | note |\n|---|---|--:|--:|---|\n",
            "| 1 KiB | nginx | 30,000 ±10% | 99.5 |  |\n|  | qanat | 1,234,567 ±10% | · | server |\n",
            "\n\n![web: a \\< b & \"c\"](web.svg)\n",
            "* Commit: qanat 0.1.0 abc\n",
            "* mind\n",
            "## gone\n\nNot measured: no root \\| here\n",
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
