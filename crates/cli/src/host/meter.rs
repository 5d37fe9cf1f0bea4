//! Turns counters into lines: what a service does now, and at its end what it has done.

use crate::host::application::{Application, Figures, Period};
use crate::host::place_figures::PlaceFigures;
use crate::live::Printer;
use serde_json::{Value, json};
use std::time::Instant;

/// Remembers what was shown last.
pub struct Meter<F> {
    before: F,
    at: Instant,
    was_busy: bool,
}

impl<F: Figures> Meter<F> {
    /// Time begins.
    pub fn new() -> Meter<F> {
        Meter { before: F::default(), at: Instant::now(), was_busy: false }
    }

    /// How long ago the last line was.
    pub fn age_s(&self) -> f64 {
        self.at.elapsed().as_secs_f64()
    }

    /// The live line. `each`: by queue; `place`: what holds the service.
    pub fn show<A: Application<Figures = F>>(
        &mut self,
        printer: &Printer,
        each: &[F],
        place: impl FnOnce() -> PlaceFigures,
    ) {
        let now = F::sum(each);
        let elapsed_s = self.age_s().max(1e-3);
        let rates = A::rates(&Period { now: &now, before: &self.before, elapsed_s });
        let was_busy = std::mem::replace(&mut self.was_busy, rates.is_busy);
        if printer.is_json() {
            let mut line = figures_line::<A>("figures", &now, each);
            extend(&mut line, rates.json);
            if A::TELLS_PLACE {
                place().into_iter().for_each(|(name, value)| line[name] = value);
            }
            printer.live(line.to_string());
        } else if rates.is_busy || was_busy || self.before == F::default() {
            printer.live(rates.text);
        }
        self.before = now;
        self.at = Instant::now();
    }
}

/// The last lines.
pub fn finish<A: Application>(printer: &Printer, each: &[A::Figures], place: PlaceFigures) {
    let all = A::Figures::sum(each);
    if !printer.is_json() {
        A::summary(&all, each).into_iter().for_each(|line| printer.last(line));
        return;
    }
    let mut line = figures_line::<A>("stopped", &all, each);
    place.into_iter().chain(A::last_json(&all)).for_each(|(name, value)| line[name] = value);
    printer.last(line.to_string());
}

/// Of all, and of each queue if there are several.
pub fn figures_line<A: Application>(event: &str, all: &A::Figures, each: &[A::Figures]) -> Value {
    let mut line = json!({ "event": event, A::NAME: A::json(all) });
    if each.len() > 1 {
        line["queues"] = each.iter().map(A::json).collect();
    }
    line
}

fn extend(line: &mut Value, more: Value) {
    if let (Value::Object(line), Value::Object(more)) = (line, more) {
        line.extend(more);
    }
}
