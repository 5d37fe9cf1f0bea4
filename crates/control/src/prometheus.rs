//! Figures in Prometheus' text format (exposition format 0.0.4), for the daemon and for services.

use std::fmt::{self, Display, Write as _};

/// What kind of figure a family has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows, until a restart.
    Counter,
    /// It grows and shrinks.
    Gauge,
}

impl Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        })
    }
}

/// A label's name and value. The value may have any characters: they are quoted when they are written.
pub type Label<'a> = (&'a str, &'a dyn Display);

/// The text under construction.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a family of figures: writes its head. The format wants all values of a family one after the other.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Family<'a> {
        // Writing to a String cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        self.continued(name)
    }

    /// Goes on with a family whose head was written before, maybe to an earlier part of the same answer.
    pub fn continued<'a>(&'a mut self, name: &'a str) -> Family<'a> {
        Family { text: &mut self.0, name }
    }

    /// Bytes so far.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// A family of figures.
#[derive(Debug)]
pub struct Family<'a> {
    text: &'a mut String,
    name: &'a str,
}

impl Family<'_> {
    /// Writes a value with `labels`.
    pub fn labelled(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.text.push_str(self.name);
        // Writing to a String cannot fail.
        for (index, (name, text)) in labels.iter().enumerate() {
            let before = if index == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{name}=\"");
            let _ = write!(Escaping(self.text), "{text}");
            self.text.push('"');
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{after} {value}");
    }

    /// Writes the family's only value.
    pub fn value(mut self, value: impl Display) {
        self.labelled(&[], value);
    }

    /// Writes values that are told apart by one label.
    pub fn by<T: Display, V: Display>(mut self, label: &str, values: impl IntoIterator<Item = (T, V)>) {
        for (text, value) in values {
            self.labelled(&[(label, &text)], value);
        }
    }
}

/// Writes a label's value with its backslashes, quotes and newlines quoted as the format wants it.
struct Escaping<'a>(&'a mut String);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_heads_and_values() {
        let mut text = Exposition::default();
        text.family("cards", Kind::Gauge, "Cards there are.").value(2);
        text.family("frames_total", Kind::Counter, "Frames.").by("way", [("in", 7u64), ("out", 8)]);
        text.continued("frames_total").labelled(&[("way", &"lost"), ("name", &"a\"\\\n")], 9);
        text.continued("frames_total").by("way", [("\\\"", 1)]);
        let expected = "# HELP cards Cards there are.\n# TYPE cards gauge\ncards 2\n# HELP frames_total Frames.\n\
                        # TYPE frames_total counter\nframes_total{way=\"in\"} 7\nframes_total{way=\"out\"} 8\n\
                        frames_total{way=\"lost\",name=\"a\\\"\\\\\\n\"} 9\n\
                        frames_total{way=\"\\\\\\\"\"} 1\n";
        assert_eq!(text.bytes(), expected.len());
        assert_eq!(text.into_text(), expected);
    }
}
