//! Bars of a table: a panel for each quantity worth seeing, a group for each case, a bar for each peer.

use super::svg::{Chart, Panel, short};
use super::table::Table;

/// One panel.
pub struct Quantity<'a> {
    /// Heading, with the unit.
    pub title: &'a str,
    /// The table's column.
    pub column: &'a str,
    /// Cases whose name contains this; with a `*`: what contains what is before it, and ends with what is behind it.
    pub cases: &'a str,
}

/// A drawing of `quantities`. Peers keep their colour in all panels; panels without a bar are left out.
pub fn chart(table: &Table, quantities: &[Quantity<'_>]) -> Chart {
    let mut series: Vec<&str> = Vec::new();
    for row in &table.rows {
        if !series.contains(&row.peer.as_str()) {
            series.push(&row.peer);
        }
    }
    let panel = |quantity: &Quantity<'_>| {
        let cases: Vec<&str> = table.cases().into_iter().filter(|case| is_meant(case, quantity.cases)).collect();
        let bar = |case: &str, peer: &str| {
            let value = table.value(case, peer, quantity.column)?.median;
            Some((value, short(value)))
        };
        Panel {
            title: quantity.title.to_owned(),
            groups: cases.iter().map(|case| (*case).to_owned()).collect(),
            bars: series.iter().map(|peer| cases.iter().map(|case| bar(case, peer)).collect()).collect(),
            stacked: false,
        }
    };
    let panels = quantities.iter().map(panel).filter(|panel| panel.bars.iter().flatten().any(Option::is_some));
    drawing(table, series.iter().map(|peer| (*peer).to_owned()).collect(), panels.collect())
}

fn is_meant(case: &str, cases: &str) -> bool {
    match cases.split_once('*') {
        Some((part, end)) => case.contains(part) && case.ends_with(end),
        None => case.contains(cases),
    }
}

/// Parts of a whole: a panel for each case, a bar for each peer, and in it `columns` on each other.
pub fn stacked(table: &Table, columns: &[(&str, &str)]) -> Chart {
    let panel = |case: &str| {
        let peers: Vec<&str> = table.rows.iter().filter(|row| row.case == case).map(|row| row.peer.as_str()).collect();
        let part =
            |column: &str, peer: &str| table.value(case, peer, column).map(|value| (value.median, String::new()));
        Panel {
            title: case.to_owned(),
            groups: peers.iter().map(|peer| (*peer).to_owned()).collect(),
            bars: columns.iter().map(|(name, _)| peers.iter().map(|peer| part(name, peer)).collect()).collect(),
            stacked: true,
        }
    };
    let panels = table.cases().into_iter().map(panel).collect();
    drawing(table, columns.iter().map(|(_, heading)| (*heading).to_owned()).collect(), panels)
}

/// Panels of a table's figures, under what was measured on what, and above how.
pub fn drawing(table: &Table, series: Vec<String>, panels: Vec<Panel>) -> Chart {
    let environment = &table.environment;
    Chart {
        title: table.title.clone(),
        subtitle: format!("{}; {}; {}", environment.processors, environment.kernel, environment.link),
        series,
        panels,
        footer: std::iter::once(format!("{} · {} · {}", table.command, environment.commit, environment.date))
            .chain(environment.warnings.iter().map(|warning| format!("Warning: {warning}")))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::table::tests::sample;

    #[test]
    fn a_star_stands_for_what_is_between() {
        assert!(is_meant("random reads, 4 KiB, depth 1", "random reads*, depth 1"));
        assert!(!is_meant("random reads, 4 KiB, depth 128", "random reads*, depth 1"));
        assert!(!is_meant("random overwrites, 4 KiB, depth 1", "random reads*, depth 1"));
    }

    #[test]
    fn a_panel_for_each_quantity_there_is() {
        let quantity = |column| Quantity { title: "t", column, cases: "KiB" };
        let chart = chart(&sample(), &[quantity("rate"), quantity("p50"), quantity("none")]);
        assert_eq!((chart.panels.len(), chart.series.len()), (2, 2));
        assert!(chart.panels[1].bars[1][0].is_none(), "not measured, not drawn");
        let chart = stacked(&sample(), &[("rate", "rate"), ("p50", "p50")]);
        assert_eq!((chart.panels.len(), chart.panels[0].groups.len(), chart.series.len()), (1, 2, 2));
    }
}
