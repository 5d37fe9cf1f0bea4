//! A line of the log, as every program of ours writes it: the command, the services, the library under `qanat run`.

use crate::name::{escaped_json, printable};
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// Seconds since 1970, to the millisecond.
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as f64 / 1e3
}

/// What an event says that has no fields of its own.
pub fn event(event: &str, text: &str) -> Map<String, Value> {
    Map::from_iter([("event".to_owned(), event.into()), ("text".to_owned(), text.into())])
}

/// For programs: a JSON object that says when, and how important it is. With its end.
pub fn json_line(level: &str, fields: Map<String, Value>) -> String {
    let mut line = json!({ "time": now(), "level": level });
    fields.into_iter().for_each(|(name, value)| line[name] = value);
    escaped_json(&line.to_string()) + "\n"
}

/// For people, with its end. Further lines of a text stand below the first, and none draws on a terminal.
pub fn text_lines(priority: &str, who: &str, text: &str) -> String {
    let lines = text.lines().map(|line| line.replace('\t', " ")).enumerate();
    lines
        .map(|(number, line)| format!("{priority}{}{}\n", if number == 0 { who } else { "" }, printable(&line)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_is_one_value_and_draws_nothing() {
        let text = "a \"name\" with \\, \u{1b}[2J and \u{202e}";
        let line = json_line("warn", event("run", text));
        assert_eq!(line.matches(|letter: char| letter.is_control()).count(), 1, "{line:?}");
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["text"], &value["level"]), (&Value::from(text), &Value::from("warn")));
        assert!(value["time"].is_f64() && value["event"] == "run");
        assert_eq!(text_lines("<4>", "qanat: ", "a\u{1b}b\n\tc"), "<4>qanat: a\\u{1b}b\n<4> c\n");
    }
}
