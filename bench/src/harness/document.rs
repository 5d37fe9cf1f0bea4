//! Tables in a document that people write: what stands between a table's marks is written anew, and the rest is kept.
//!
//! ```text
//! <!-- bench: web -->
//! the table, and what it was measured on
//! <!-- /bench: web -->
//! ```

use super::markdown::{plain, section_body};
use super::page::Section;
use thiserror::Error;

/// Why a document can't be written anew.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MarkError {
    /// Nobody knows where the table ends.
    #[error("`{begin}` has no `{end}` behind it: add that where the table ends")]
    NoEnd {
        /// The mark that is there.
        begin: String,
        /// The mark that is missing.
        end: String,
    },
    /// There are two places for one table.
    #[error("`{begin}` is there more than once: leave one")]
    Twice {
        /// The mark.
        begin: String,
    },
}

fn marks(name: &str) -> [String; 2] {
    [format!("<!-- bench: {name} -->"), format!("<!-- /bench: {name} -->")]
}

/// Where a table stands in a document, without its marks. `None`: it is not there.
///
/// # Errors
/// See [`MarkError`].
pub fn place(document: &str, name: &str) -> Result<Option<std::ops::Range<usize>>, MarkError> {
    let [begin, end] = marks(name);
    let Some(at) = document.find(&begin) else { return Ok(None) };
    let from = at + begin.len();
    let rest = document.get(from..).unwrap_or_default();
    if rest.contains(&begin) {
        return Err(MarkError::Twice { begin });
    }
    match rest.find(&end) {
        Some(length) => Ok(Some(from..from + length)),
        None => Err(MarkError::NoEnd { begin, end }),
    }
}

/// The document with the tables that were measured. A table that has no place yet comes to the end, below a heading. A table that
/// could not be measured stays as it was. `title` heads a document that was empty, and `picture` says where a table's picture is.
///
/// # Errors
/// See [`MarkError`].
pub fn renewed(
    document: &str,
    title: &str,
    sections: &[Section],
    picture: impl Fn(&Section) -> Option<String>,
) -> Result<String, MarkError> {
    let mut text = document.to_owned();
    if text.trim().is_empty() {
        text = format!(
            "# {}\n\nPeers took turns on one link under one load. Numbers are medians; ± is half the distance from the lowest run to \
             the highest. Compare within a table, not across machines.\n",
            plain(title)
        );
    }
    for section in sections {
        let [begin, end] = marks(&section.name);
        let (heading, body) = match &section.outcome {
            Ok((table, _)) => (plain(&table.title), section_body(table, picture(section))),
            Err(reason) => (plain(&section.name), format!("Not measured: {}\n", plain(&reason.to_string()))),
        };
        match place(&text, &section.name)? {
            Some(range) if section.outcome.is_ok() => text.replace_range(range, &format!("\n{body}")),
            Some(_) => {}
            None => {
                let gap = if text.ends_with('\n') { "" } else { "\n" };
                text.push_str(&format!("{gap}\n## {heading}\n\n{begin}\n{body}{end}\n"));
            }
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::HarnessError;
    use crate::harness::markdown::tests::no_chart;
    use crate::harness::table::tests::sample;

    fn measured(name: &str, command: &str) -> Section {
        let mut table = sample();
        table.command = command.to_owned();
        Section { name: name.to_owned(), outcome: Ok((table, no_chart())) }
    }

    fn failed(name: &str) -> Section {
        Section { name: name.to_owned(), outcome: Err(HarnessError::Missing("no root | here".to_owned())) }
    }

    const BEFORE: &str =
        "# Performance\n\nA lesson.\n\n<!-- bench: web -->\nold numbers\n<!-- /bench: web -->\n\nAnother lesson.\n";

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let after = renewed(BEFORE, "unused", &[measured("web", "qanat bench web")], |_| None).unwrap();
        let (head, rest) = after.split_once("<!-- bench: web -->\n").unwrap();
        let (table, tail) = rest.split_once("<!-- /bench: web -->").unwrap();
        assert_eq!((head, tail), ("# Performance\n\nA lesson.\n\n", "\n\nAnother lesson.\n"));
        assert!(table.starts_with("`qanat bench web`\n") && table.contains("1,234,567"), "{table}");
        assert!(!after.contains("old numbers") && !after.contains("unused"));
        // The same numbers once more change nothing.
        assert_eq!(renewed(&after, "", &[measured("web", "qanat bench web")], |_| None).unwrap(), after);
    }

    #[test]
    fn a_table_without_a_place_comes_to_the_end() {
        let sections = [measured("web", "one"), measured("dns", "two"), failed("gone")];
        let after = renewed(BEFORE.trim_end(), "", &sections, |section| Some(format!("{}.svg", section.name))).unwrap();
        let behind = after.split_once("Another lesson.\n\n## ").expect("headings behind the text").1;
        assert!(behind.contains("<!-- bench: dns -->\n`two`\n") && behind.contains("(dns.svg)\n"), "{behind}");
        assert!(behind.ends_with("<!-- bench: gone -->\nNot measured: no root \\| here\n<!-- /bench: gone -->\n"));
        // Each has its place from then on.
        assert_eq!(
            renewed(&after, "", &sections[..2], |section| Some(format!("{}.svg", section.name))).unwrap(),
            after
        );
        let alone = renewed("", "Qanat *beside* others", &sections, |_| None).unwrap();
        assert!(alone.starts_with("# Qanat \\*beside\\* others\n") && alone.matches("<!-- bench: ").count() == 3);
    }

    #[test]
    fn numbers_that_could_not_be_measured_again_stay() {
        assert_eq!(renewed(BEFORE, "", &[failed("web")], |_| None).unwrap(), BEFORE);
    }

    #[test]
    fn wrong_marks_are_refused() {
        let open = BEFORE.replace("<!-- /bench: web -->", "");
        let error = renewed(&open, "", &[measured("web", "")], |_| None).unwrap_err();
        assert!(matches!(&error, MarkError::NoEnd { .. }) && error.to_string().contains("<!-- /bench: web -->"));
        let twice = format!("{BEFORE}{BEFORE}");
        assert!(matches!(renewed(&twice, "", &[measured("web", "")], |_| None), Err(MarkError::Twice { .. })));
        // Names that begin alike are different tables.
        assert_eq!(place(BEFORE, "we"), Ok(None));
    }
}
