//! A report as one HTML page that needs nothing else: no script, no font, no picture outside of it.

use super::HarnessError;
use super::svg::{Chart, escape};
use super::table::Table;
use std::fmt::Write;

/// What became of a table.
#[derive(Debug)]
pub struct Section {
    /// Its name on the command line.
    pub name: String,
    /// The table with its drawing, or why there is none.
    pub outcome: Result<(Table, Chart), HarnessError>,
}

const STYLE: &str = "\
:root{color-scheme:light;--ink:#1b1b1b;--soft:#5b5b5b;--line:#dcdcdc;--ground:#ffffff;--band:#f4f6f8;--warn:#9a3b00}
*{box-sizing:border-box}
body{margin:0 auto;padding:2rem 1.5rem 4rem;max-width:1180px;color:var(--ink);background:var(--ground);
font:15px/1.5 system-ui,'DejaVu Sans',Verdana,sans-serif}
h1{font-size:1.7rem;margin:0 0 .3rem}h2{font-size:1.3rem;margin:3rem 0 .6rem;padding-top:1rem;border-top:2px solid var(--ink)}
p{margin:.4rem 0;max-width:75ch}.soft{color:var(--soft)}
nav{margin:1rem 0}nav a{margin-right:1.2rem}a{color:#00558c}
pre,code{font-family:'DejaVu Sans Mono',ui-monospace,monospace;font-size:.86em}
pre{background:var(--band);padding:.6rem .8rem;overflow-x:auto;margin:.5rem 0}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1.2rem;margin:.8rem 0}dt{color:var(--soft)}dd{margin:0}
.warning{color:var(--warn);border-left:4px solid var(--warn);padding:.2rem .8rem;margin:.5rem 0}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92em;margin:.8rem 0}
th,td{padding:.22rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
thead th{border-bottom:2px solid var(--ink);vertical-align:bottom;white-space:normal;max-width:9rem}
th:first-child,td:first-child,td:last-child,tbody th{text-align:left}td:last-child{color:var(--soft)}
tbody th{background:var(--band);font-weight:600}
.spread{color:var(--soft);font-size:.9em}
/* On a narrow screen a picture is moved aside rather than made too small to read. */
.picture{overflow-x:auto;margin:1rem 0}
svg{display:block;width:100%;min-width:64rem;max-width:1120px;height:auto;border:1px solid var(--line)}
details{margin:.8rem 0}summary{cursor:pointer;color:var(--soft)}
@media print{body{max-width:none;padding:0}h2{break-before:page}details{display:none}}
";

/// The page. Characters HTML can't hold are left out.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut html = String::with_capacity(128 * 1024);
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{0}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    if let Some((table, _)) = sections.iter().find_map(|section| section.outcome.as_ref().ok()) {
        let here = &table.environment;
        let line = format!("{} · {} · {} · {}", here.processors, here.kernel, here.commit, here.date);
        let _ = writeln!(html, "<p class=\"soft\">{}</p>", escape(&line));
    }
    html.push_str(
        "<p>Peers took turns on one link under one load; numbers are medians, ± is half the distance from the lowest \
         run to the highest. Ratios are of one session: compare within a table, not across machines.</p>\n<nav>",
    );
    for (number, section) in sections.iter().enumerate() {
        let _ = write!(html, "<a href=\"#table-{number}\">{}</a> ", escape(&section.name));
    }
    html.push_str("</nav>\n");
    for (number, section) in sections.iter().enumerate() {
        match &section.outcome {
            Ok((table, chart)) => write_section(&mut html, number, table, chart),
            Err(reason) => {
                let _ = writeln!(
                    html,
                    "<section id=\"table-{number}\">\n<h2>{}</h2>\n<p class=\"warning\">Not measured: {}</p>\n</section>",
                    escape(&section.name),
                    escape(&reason.to_string())
                );
            }
        }
    }
    html.push_str("</body>\n</html>\n");
    html
}

fn write_section(html: &mut String, number: usize, table: &Table, chart: &Chart) {
    let environment = &table.environment;
    let _ = writeln!(html, "<section id=\"table-{number}\">\n<h2>{}</h2>", escape(&table.title));
    let _ = writeln!(html, "<pre>{}</pre>", escape(&table.command));
    for warning in &environment.warnings {
        let _ = writeln!(html, "<p class=\"warning\">{}</p>", escape(warning));
    }
    if !chart.panels.is_empty() {
        html.push_str("<div class=\"picture\">\n");
        html.push_str(&chart.to_svg());
        html.push_str("</div>\n");
    }
    write_rows(html, table);
    html.push_str("<dl>\n");
    let peers = environment.peers.join("; ");
    for (name, value) in [
        ("Link", &environment.link),
        ("Pinning", &environment.pinning),
        ("Peers", &peers),
        ("Kernel", &environment.kernel),
        ("Machine", &environment.processors),
        ("Machine quiet", &environment.quiet),
        ("Placement", &environment.placement),
        ("Commit", &environment.commit),
        ("Measured", &environment.date),
    ] {
        if !value.is_empty() {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{}</dd>", escape(value));
        }
    }
    html.push_str("</dl>\n");
    for remark in &table.remarks {
        let _ = writeln!(html, "<p class=\"soft\">{}</p>", escape(remark));
    }
    if let Ok(json) = serde_json::to_string(table) {
        let _ = writeln!(html, "<details><summary>as JSON</summary><pre>{}</pre></details>", escape(&json));
    }
    html.push_str("</section>\n");
}

fn write_rows(html: &mut String, table: &Table) {
    html.push_str("<div class=\"scroll\"><table>\n<thead><tr><th></th>");
    for column in &table.columns {
        let _ = write!(html, "<th>{}</th>", escape(&column.heading));
    }
    html.push_str("<th></th></tr></thead>\n<tbody>\n");
    let mut case = None;
    for row in &table.rows {
        if case != Some(&row.case) {
            let _ = writeln!(html, "<tr><th colspan=\"{}\">{}</th></tr>", table.columns.len() + 2, escape(&row.case));
            case = Some(&row.case);
        }
        let _ = write!(html, "<tr><td>{}</td>", escape(&row.peer));
        for cell in table.cells(row) {
            match cell.split_once(" ±") {
                Some((value, spread)) => {
                    let _ = write!(
                        html,
                        "<td>{} <span class=\"spread\">±{}</span></td>",
                        escape(value),
                        escape(spread.trim_start())
                    );
                }
                None => {
                    let _ = write!(html, "<td>{}</td>", escape(&cell));
                }
            }
        }
        let _ = writeln!(html, "<td>{}</td></tr>", escape(&row.note));
    }
    html.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::bars::{Quantity, chart};
    use crate::harness::svg::tests::assert_well_formed;
    use crate::harness::table::tests::sample;

    #[test]
    fn well_formed_and_complete() {
        let table = sample();
        let drawing = chart(&table, &[Quantity { title: "<rate>", column: "rate", cases: "" }]);
        let sections = [
            Section { name: "a & b".to_owned(), outcome: Ok((table, drawing)) },
            Section { name: "gone".to_owned(), outcome: Err(HarnessError::Missing("no <root>".to_owned())) },
        ];
        let html = page("t < u", &sections);
        let (doctype, rest) = html.split_once('\n').unwrap();
        assert_eq!(doctype, "<!DOCTYPE html>");
        assert_well_formed(rest);
        for part in ["1,234,567 <span", "Not measured: no &lt;root&gt;", "<svg", "busy", "qanat bench web", "mind"] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(!html.contains("src=") && !html.contains("http-equiv"), "nothing outside");
    }
}
