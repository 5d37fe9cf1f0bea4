//! Grouped bars as a self-contained SVG: no script, no font, no reference to anything outside the file.

use std::fmt::Write;

/// Colours of the series, told apart in print and by most colour-blind eyes (Okabe and Ito).
const COLOURS: [&str; 10] =
    ["#999999", "#56b4e9", "#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#000000", "#b5a642", "#7a5195"];
const WIDTH: f64 = 1_120.0;
const MARGIN: f64 = 70.0;
const TITLE_HEIGHT: f64 = 64.0;
const PANEL_HEIGHT: f64 = 300.0;
const PLOT_HEIGHT: f64 = 190.0;
const LEGEND_HEIGHT: f64 = 28.0;
const LINE_HEIGHT: f64 = 16.0;
const GRID_LINES_MAX: usize = 6;
/// A few groups don't fill the width with fat bars.
const GROUP_WIDTH_MAX: f64 = 260.0;
/// Names of groups below the axis: between two panels there is room for so many lines.
const NAME_LINES_MAX: usize = 4;
const NAME_LINE_HEIGHT: f64 = 13.0;
/// Of a letter in them, about.
const LETTER_WIDTH: f64 = 6.2;

/// Bars of one quantity.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What the bars show, with the unit.
    pub title: String,
    /// The groups along the axis.
    pub groups: Vec<String>,
    /// For each series and group: the bar's height and the text above it.
    pub bars: Vec<Vec<Option<(f64, String)>>>,
    /// The series stand on each other, one bar a group, its sum above it.
    pub stacked: bool,
}

/// A drawing of panels that share their series.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Heading.
    pub title: String,
    /// Second line.
    pub subtitle: String,
    /// Names of the series.
    pub series: Vec<String>,
    /// Panels, one below the other.
    pub panels: Vec<Panel>,
    /// Lines below all.
    pub footer: Vec<String>,
}

impl Chart {
    /// The drawing.
    pub fn to_svg(&self) -> String {
        let footer_height = (self.footer.len() as f64 + 1.0) * LINE_HEIGHT;
        let height = TITLE_HEIGHT + LEGEND_HEIGHT + self.panels.len() as f64 * PANEL_HEIGHT + footer_height;
        let mut svg = String::with_capacity(16 * 1024);
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"DejaVu Sans, Verdana, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        text(&mut svg, 24.0, 30.0, "start", 18, "#000000", &self.title);
        text(&mut svg, 24.0, 50.0, "start", 11, "#444444", &self.subtitle);
        self.legend(&mut svg);
        for (index, panel) in self.panels.iter().enumerate() {
            panel.draw(&mut svg, TITLE_HEIGHT + LEGEND_HEIGHT + index as f64 * PANEL_HEIGHT);
        }
        let below = height - footer_height + LINE_HEIGHT / 2.0;
        for (index, line) in self.footer.iter().enumerate() {
            text(&mut svg, 24.0, below + (index as f64 + 0.5) * LINE_HEIGHT, "start", 10, "#444444", line);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        let mut x = 24.0;
        for (index, name) in self.series.iter().enumerate() {
            let y = TITLE_HEIGHT + 4.0;
            rectangle(svg, (x, y), (12.0, 12.0), colour(index));
            text(svg, x + 17.0, y + 10.0, "start", 12, "#000000", name);
            x += 17.0 + name.chars().count() as f64 * 7.4 + 22.0;
        }
    }
}

impl Panel {
    fn draw(&self, svg: &mut String, top: f64) {
        let bottom = top + 50.0 + PLOT_HEIGHT;
        text(svg, 24.0, top + 22.0, "start", 13, "#000000", &self.title);
        let (step, lines) = grid(self.highest());
        let scale = PLOT_HEIGHT / (step * lines as f64);
        for line in 0..=lines {
            let y = bottom - step * line as f64 * scale;
            let _ = writeln!(
                svg,
                "<line x1=\"{MARGIN}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{}\"/>",
                WIDTH - 24.0,
                if line == 0 { "#000000" } else { "#dddddd" }
            );
            text(svg, MARGIN - 8.0, y + 4.0, "end", 10, "#444444", &short(step * line as f64));
        }
        let group_width = ((WIDTH - 24.0 - MARGIN) / self.groups.len().max(1) as f64).min(GROUP_WIDTH_MAX);
        let bar_width = group_width * 0.84 / self.bars.len().max(1) as f64;
        for (number, group) in self.groups.iter().enumerate() {
            let left = MARGIN + group_width * (number as f64 + 0.08);
            let lines = folded(group, (group_width / LETTER_WIDTH) as usize, NAME_LINES_MAX);
            for (line, words) in lines.iter().enumerate() {
                let y = bottom + 16.0 + line as f64 * NAME_LINE_HEIGHT;
                text(svg, left + group_width * 0.42, y, "middle", 11, "#000000", words);
            }
            if self.stacked {
                self.draw_stack(svg, number, (left, bottom), (group_width * 0.6, scale));
                continue;
            }
            for (series, bars) in self.bars.iter().enumerate() {
                let Some(Some((height, label))) = bars.get(number) else { continue };
                let tall = (height.max(0.0) * scale).clamp(0.0, PLOT_HEIGHT);
                let x = left + bar_width * series as f64;
                rectangle(svg, (x, bottom - tall), (bar_width * 0.92, tall), colour(series));
                vertical_text(svg, x + bar_width * 0.46 + 3.5, bottom - tall - 4.0, label);
            }
        }
    }
}

impl Panel {
    fn highest(&self) -> f64 {
        let sane = |height: f64| if height.is_finite() { height.max(0.0) } else { 0.0 };
        if self.stacked {
            return (0..self.groups.len())
                .map(|group| self.column(group).map(|(_, h)| sane(h)).sum())
                .fold(0.0, f64::max);
        }
        self.bars.iter().flatten().flatten().map(|(height, _)| sane(*height)).fold(0.0, f64::max)
    }

    /// The bars of a group, by series.
    fn column(&self, group: usize) -> impl Iterator<Item = (usize, f64)> {
        let bars = self.bars.iter().enumerate();
        bars.filter_map(move |(series, bars)| Some((series, bars.get(group)?.as_ref()?.0)))
    }

    fn draw_stack(&self, svg: &mut String, group: usize, (left, bottom): (f64, f64), (width, scale): (f64, f64)) {
        let (mut y, mut sum) = (bottom, 0.0);
        for (series, height) in self.column(group).filter(|(_, height)| height.is_finite() && *height > 0.0) {
            let tall = (height * scale).clamp(0.0, y - (bottom - PLOT_HEIGHT));
            y -= tall;
            sum += height;
            rectangle(svg, (left, y), (width, tall), colour(series));
        }
        text(svg, left + width / 2.0, y - 5.0, "middle", 11, "#000000", &short(sum));
    }
}

/// A text in lines of at most `columns` letters, and at most `lines_max` of them. An ellipsis stands for what has no room: the table below
/// a picture has each name whole.
fn folded(content: &str, columns: usize, lines_max: usize) -> Vec<String> {
    let columns = columns.max(2);
    let length = |text: &str| text.chars().count();
    let cut = |text: &str| text.chars().take(columns - 1).collect::<String>().trim_end().to_owned() + "…";
    let mut lines: Vec<String> = Vec::new();
    for word in content.split_whitespace() {
        let word = if length(word) > columns { cut(word) } else { word.to_owned() };
        let count = lines.len();
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(line) if count == lines_max => {
                let longer = format!("{line} {word}");
                *line = cut(&longer);
                break;
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Distance and number of grid lines that cover `highest` with room for labels above.
fn grid(highest: f64) -> (f64, usize) {
    let sane = (1e-15..1e15).contains(&highest);
    let highest = if sane { highest * 1.25 } else { 1.0 };
    let magnitude = 10f64.powf(highest.log10().floor() - 1.0);
    let step = [1.0, 2.0, 2.5, 5.0, 10.0, 20.0, 50.0].into_iter().map(|factor| factor * magnitude);
    let step = step.into_iter().find(|step| highest / step <= GRID_LINES_MAX as f64).unwrap_or(highest);
    (step, (highest / step).ceil().max(1.0) as usize)
}

/// A number in few characters: 950, 12.5k, 3M.
pub fn short(value: f64) -> String {
    if !value.is_finite() || value.abs() > 1e15 {
        return "?".to_owned();
    }
    let (value, unit) = match value.abs() {
        magnitude if magnitude >= 999_500.0 => (value / 1e6, "M"),
        magnitude if magnitude >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = match value.abs() {
        magnitude if magnitude >= 99.95 || magnitude == 0.0 => format!("{value:.0}"),
        magnitude if magnitude >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

fn colour(series: usize) -> &'static str {
    COLOURS.get(series % COLOURS.len()).copied().unwrap_or("#000000")
}

fn rectangle(svg: &mut String, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str) {
    let _ =
        writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>");
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, fill: &str, content: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{fill}\">{}</text>",
        escape(content)
    );
}

fn vertical_text(svg: &mut String, x: f64, y: f64, content: &str) {
    let _ = writeln!(
        svg,
        "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" font-size=\"10\" fill=\"#000000\">{}</text>",
        escape(content)
    );
}

/// Content of an element. Characters XML can't hold are left out.
pub(super) fn escape(content: &str) -> String {
    let mut escaped = String::with_capacity(content.len());
    for character in content.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            control if control.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tags nest, attributes are quoted, no stray `<` or `&`.
    pub(crate) fn assert_well_formed(svg: &str) {
        let mut open: Vec<&str> = Vec::new();
        let mut rest = svg;
        while let Some(at) = rest.find('<') {
            let content = &rest[..at];
            for (at, _) in content.match_indices('&') {
                assert!(
                    ["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|name| content[at..].starts_with(name)),
                    "{content}"
                );
            }
            let end = rest.find('>').expect("a tag ends");
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
            assert!(!tag.contains("NaN") && !tag.contains("inf"), "no impossible numbers: {tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty() && rest.trim().is_empty());
    }

    proptest! {
        #[test]
        fn any_content_is_well_formed(
            title in any::<String>(),
            series in proptest::collection::vec(any::<String>(), 0..10),
            heights in proptest::collection::vec(proptest::option::of(proptest::num::f64::ANY), 0..20),
            stacked in any::<bool>(),
        ) {
            let bars = series.iter().map(|name| heights.iter().map(|h| h.map(|h| (h, name.clone()))).collect()).collect();
            let groups = (0..heights.len()).map(|number| format!("{number}<&")).collect();
            let panel = Panel { title: title.clone(), groups, bars, stacked };
            let chart = Chart { title: title.clone(), subtitle: title, series, panels: vec![panel], footer: vec!["<".to_owned()] };
            assert_well_formed(&chart.to_svg());
        }
    }

    proptest! {
        #[test]
        fn names_are_folded_within_their_room(content in any::<String>(), columns in 0usize..40, lines_max in 1usize..5) {
            let lines = folded(&content, columns, lines_max);
            prop_assert!(lines.len() <= lines_max);
            prop_assert!(lines.iter().all(|line| !line.is_empty() && line.chars().count() <= columns.max(2)));
            let whole: Vec<&str> = content.split_whitespace().collect();
            if !lines.iter().any(|line| line.contains('…')) {
                prop_assert_eq!(lines.join(" "), whole.join(" "));
            }
        }
    }

    #[test]
    fn names_are_folded_between_words() {
        assert_eq!(
            folded("64 B there and back (linked 1877 ns)", 14, 4),
            ["64 B there and", "back (linked", "1877 ns)"]
        );
        assert_eq!(folded("one two three", 5, 2), ["one", "two…"]);
        assert_eq!(folded("immeasurable", 5, 2), ["imme…"]);
    }

    #[test]
    fn grids_cover() {
        for highest in [0.0, 0.001, 1.0, 3.7, 99.0, 1e6, 12_345_678.0] {
            let (step, lines) = grid(highest);
            assert!(
                step * lines as f64 >= highest && (1..=GRID_LINES_MAX).contains(&lines),
                "{highest}: {step} {lines}"
            );
        }
    }

    #[test]
    fn short_numbers() {
        let pairs = [
            (0.0, "0"),
            (0.5, "0.5"),
            (9.87, "9.87"),
            (12.34, "12.3"),
            (950.0, "950"),
            (12_500.0, "12.5k"),
            (3_000_000.0, "3M"),
            (1_000.0, "1k"),
            (120_000.0, "120k"),
        ];
        for (value, text) in pairs {
            assert_eq!(short(value), text);
        }
    }
}
