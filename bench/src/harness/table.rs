//! A result as a table: cases (rows of peers) by columns. Prints for people; serialises for programs.

use super::environment::Environment;
use super::statistics::Summary;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// One quantity.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Column {
    /// What, short: a JSON reader finds values by it.
    pub name: String,
    /// Heading, with the unit.
    pub heading: String,
    /// Digits after the point.
    pub digits: usize,
    /// Show ± half the range beside the median.
    pub spread: bool,
}

impl Column {
    /// A column.
    pub fn new(name: &str, heading: &str, digits: usize) -> Column {
        Column { name: name.to_owned(), heading: heading.to_owned(), digits, spread: false }
    }

    /// With its spread shown.
    #[must_use]
    pub fn with_spread(self) -> Column {
        Column { spread: true, ..self }
    }

    /// Columns whose spread is shown, each by its name, heading and digits.
    pub fn with_spreads(columns: &[(&str, &str, usize)]) -> Vec<Column> {
        columns.iter().map(|(name, heading, digits)| Column::new(name, heading, *digits).with_spread()).collect()
    }
}

/// One peer in one case.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// The case; rows of one case follow each other.
    pub case: String,
    /// The peer.
    pub peer: String,
    /// By column; `None`: not measured, or meaningless here.
    pub values: Vec<Option<Summary>>,
    /// A word at the row's end.
    pub note: String,
}

/// A table with all that is needed to judge it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// What is compared.
    pub title: String,
    /// How to repeat it.
    pub command: String,
    /// On what it was measured.
    pub environment: Environment,
    /// The quantities.
    pub columns: Vec<Column>,
    /// The peers, by case.
    pub rows: Vec<Row>,
    /// What a reader must know to judge it.
    pub remarks: Vec<String>,
}

impl Table {
    /// The summary of `column` for a peer in a case.
    pub fn value(&self, case: &str, peer: &str, column: &str) -> Option<Summary> {
        let index = self.columns.iter().position(|found| found.name == column)?;
        let row = self.rows.iter().find(|row| row.case == case && row.peer == peer)?;
        row.values.get(index).copied().flatten()
    }

    /// The cases, in order.
    pub fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = self.rows.iter().map(|row| row.case.as_str()).collect();
        cases.dedup();
        cases
    }

    /// The cells of a row, as text, by column.
    pub fn cells(&self, row: &Row) -> Vec<String> {
        let cell = |(column, value): (&Column, &Option<Summary>)| {
            let Some(value) = value else { return "·".to_owned() };
            let median = grouped(value.median, column.digits);
            if column.spread && value.count > 1 {
                format!("{median} ±{:>2.0}%", value.spread() * 100.0)
            } else {
                median
            }
        };
        self.columns.iter().zip(&row.values).map(cell).collect()
    }
}

/// A number with its thousands grouped by a thin separator.
fn grouped(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut result = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            result.push(',');
        }
        result.push(digit);
    }
    if let Some(fraction) = fraction {
        result.push('.');
        result.push_str(fraction);
    }
    result
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// As wide as terminals are that nobody has made wider.
const COLUMNS: usize = 80;

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grid = self.grid()?;
        writeln!(f, "{}\n  repeat    {}\n{}", self.title, self.command, self.environment)?;
        // Folded it would be no table any more. Whoever looks at it can make room.
        let wide = grid.lines().map(width).max().unwrap_or(0);
        if wide > COLUMNS {
            writeln!(f, "  width     {wide} columns")?;
        }
        write!(f, "\n{grid}")?;
        for remark in &self.remarks {
            writeln!(f, "\n* {remark}")?;
        }
        Ok(())
    }
}

impl Table {
    /// Headings and rows, one below the other.
    fn grid(&self) -> Result<String, fmt::Error> {
        let mut grid = String::new();
        let f = &mut grid;
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| self.cells(row)).collect();
        let peer_width = self.rows.iter().map(|row| width(&row.peer)).max().unwrap_or(0).max(4);
        let widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| width(cell)).max().unwrap_or(0);
                cells.max(width(&column.heading))
            })
            .collect();
        let pad = |text: &str, wide: usize| " ".repeat(wide.saturating_sub(width(text)));
        write!(f, "  {}", " ".repeat(peer_width))?;
        for (column, wide) in self.columns.iter().zip(&widths) {
            write!(f, "  {}{}", pad(&column.heading, *wide), column.heading)?;
        }
        writeln!(f)?;
        let mut case = None;
        for (row, cells) in self.rows.iter().zip(&rows) {
            if case != Some(&row.case) {
                writeln!(f, "{}", row.case)?;
                case = Some(&row.case);
            }
            write!(f, "  {}{}", row.peer, pad(&row.peer, peer_width))?;
            for (cell, wide) in cells.iter().zip(&widths) {
                write!(f, "  {}{cell}", pad(cell, *wide))?;
            }
            writeln!(f, "{}{}", if row.note.is_empty() { "" } else { "  " }, row.note)?;
        }
        Ok(grid)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Table {
        let one = |value| Some(Summary { median: value, min: value * 0.9, max: value * 1.1, count: 3 });
        Table {
            title: "web: a < b & \"c\"".to_owned(),
            command: "qanat bench web".to_owned(),
            environment: Environment { warnings: vec!["busy".to_owned()], ..Environment::default() },
            columns: vec![Column::new("rate", "requests/s", 0).with_spread(), Column::new("p50", "p50 µs", 1)],
            rows: vec![
                Row {
                    case: "1 KiB".to_owned(),
                    peer: "nginx".to_owned(),
                    values: vec![one(30_000.0), one(99.5)],
                    note: String::new(),
                },
                Row {
                    case: "1 KiB".to_owned(),
                    peer: "qanat".to_owned(),
                    values: vec![one(1_234_567.0), None],
                    note: "server".to_owned(),
                },
            ],
            remarks: vec!["mind".to_owned()],
        }
    }

    #[test]
    fn prints_and_survives_json() {
        let table = sample();
        let text = table.to_string();
        assert!(
            text.contains("1,234,567 ±10%") && text.contains("WARNING   busy") && text.contains("* mind"),
            "{text}"
        );
        assert!(!text.contains("columns"), "{text}");
        let mut wide = table.clone();
        wide.rows[0].note = "n".repeat(80);
        let text = wide.to_string();
        let widest = text.lines().map(width).max().unwrap_or(0);
        assert!(widest > COLUMNS && text.contains(&format!("  width     {widest} columns\n")), "{text}");
        let json = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<Table>(&json).unwrap(), table);
        assert_eq!(table.value("1 KiB", "nginx", "p50").unwrap().median, 99.5);
        assert_eq!(table.value("1 KiB", "qanat", "p50"), None);
        assert_eq!(table.cases(), ["1 KiB"]);
    }

    #[test]
    fn thousands() {
        assert_eq!(grouped(1_234_567.891, 2), "1,234,567.89");
        assert_eq!(grouped(-999.0, 0), "-999");
        assert_eq!(grouped(-1_000.0, 0), "-1,000");
    }
}
