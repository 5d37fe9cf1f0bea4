//! Durations as users write them: `10s`, `500ms`, `2m`, `1.5`.

use std::ops::RangeInclusive;
use std::time::Duration;
use thiserror::Error;

/// A text that is no duration.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("duration {0:?}: expected a number and a unit, for example 10s, 500ms or 2m")]
pub struct NoDuration(String);

/// Parses a number with a unit: `us`, `ms`, `s` (also without any), `m`, `h`.
///
/// # Errors
/// The text is none; the message has an example.
pub fn parse(text: &str) -> Result<Duration, NoDuration> {
    let fail = || NoDuration(text.to_owned());
    let unit_at = text.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(fail()),
    };
    let number: f64 = number.trim().parse().map_err(|_| fail())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| fail())
}

/// Lengths that a run may have.
pub const LENGTHS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(7 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1s", "1x", "NaN", "inf", "1e400s", "10 s s"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
