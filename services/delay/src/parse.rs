//! How quantities are written: `20ms`, `10ms..40ms`, `1.5%`, `100mbit`, `1000p`, `64kb`.

use crate::config::{BANDS_MAX, Bursts, DELAY_MAX, QueueLimit, Rate};
use std::time::Duration;

/// Bands a range is cut into.
const RANGE_BANDS: u32 = 64;

/// A text that is no quantity. What is written instead of it, or the range, is in the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is no time, or too long a time.
    #[error("`{0}` is no time: write 20ms, 500us or 1.5s, at most {max} s", max = DELAY_MAX.as_secs())]
    Duration(String),
    /// The range's end is before its start.
    #[error("`{0}`: a range goes from the shorter to the longer delay")]
    Range(String),
    /// The list has so many bands.
    #[error("{0} bands: at most {BANDS_MAX}")]
    BandCount(usize),
    /// The text is no percentage, or more than 100%.
    #[error("`{0}` is no percentage: write 1% or 0.05%, at most 100%")]
    Percentage(String),
    /// The text is not two to four percentages.
    #[error("`{0}`: write ENTER,LEAVE[,LOSS-IN-BAD[,LOSS-IN-GOOD]], as in 1%,25%")]
    Bursts(String),
    /// The text is no rate.
    #[error("`{0}` is no rate: write 100mbit, 1.5gbit or 64kbit")]
    Rate(String),
    /// The text is no size of a queue.
    #[error("`{0}` is no queue: write 1000 for packets, or 3000b, 64kb, 2mb for bytes")]
    QueueLimit(String),
}

/// Splits a number from its unit.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    digits.parse().ok().map(|value| (value, unit.trim()))
}

/// `20ms`, `500us`, `1.5s`.
///
/// # Errors
/// [`ParseError`] says how to write it.
pub fn duration(text: &str) -> Result<Duration, ParseError> {
    let wrong = || ParseError::Duration(text.to_owned());
    let (value, unit) = number(text).ok_or_else(wrong)?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if value == 0.0 => 1.0,
        _ => return Err(wrong()),
    } * value;
    if nanos > DELAY_MAX.as_nanos() as f64 {
        return Err(wrong());
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// Delay bands: `20ms`, a list `10ms,20ms,40ms`, or a range `10ms..40ms` of 64 evenly spaced ones.
///
/// # Errors
/// [`ParseError`] says how to write it.
pub fn bands(text: &str) -> Result<Vec<Duration>, ParseError> {
    if let Some((first, last)) = text.split_once("..") {
        let (first, last) = (duration(first)?, duration(last)?);
        if first > last {
            return Err(ParseError::Range(text.to_owned()));
        }
        let step = (last - first) / (RANGE_BANDS - 1);
        return Ok((0..RANGE_BANDS).map(|number| first + step * number).collect());
    }
    let bands: Vec<Duration> = text.split(',').map(duration).collect::<Result<_, _>>()?;
    if bands.len() > BANDS_MAX { Err(ParseError::BandCount(bands.len())) } else { Ok(bands) }
}

/// `1%`, `0.05%`; the result is in parts per million.
///
/// # Errors
/// [`ParseError`] says how to write it.
pub fn percentage(text: &str) -> Result<u32, ParseError> {
    match number(text) {
        Some((value, "%")) if value <= 100.0 => Ok((value * 10_000.0).round() as u32),
        Some((0.0, "")) => Ok(0),
        _ => Err(ParseError::Percentage(text.to_owned())),
    }
}

/// Gilbert-Elliott: `ENTER,LEAVE[,LOSS-IN-BAD[,LOSS-IN-GOOD]]`, by default 100% and 0%.
///
/// # Errors
/// [`ParseError`] says how to write it.
pub fn bursts(text: &str) -> Result<Bursts, ParseError> {
    let chances: Vec<u32> = text.split(',').map(percentage).collect::<Result<_, _>>()?;
    let (enter_ppm, leave_ppm, loss_bad_ppm, loss_good_ppm) = match chances[..] {
        [enter, leave] => (enter, leave, 1_000_000, 0),
        [enter, leave, bad] => (enter, leave, bad, 0),
        [enter, leave, bad, good] => (enter, leave, bad, good),
        _ => return Err(ParseError::Bursts(text.to_owned())),
    };
    Ok(Bursts { enter_ppm, leave_ppm, loss_bad_ppm, loss_good_ppm })
}

/// `100mbit`, `1.5gbit`, `64kbit`, `9600bit`.
///
/// # Errors
/// [`ParseError`] says how to write it.
pub fn rate(text: &str) -> Result<Rate, ParseError> {
    let wrong = || ParseError::Rate(text.to_owned());
    let (value, unit) = number(text).ok_or_else(wrong)?;
    let bits = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(wrong()),
    } * value;
    if (1.0..=1e12).contains(&bits) { Ok(Rate(bits as u64)) } else { Err(wrong()) }
}

/// `1000` (packets), `64kb`, `2mb`, `3000b` (bytes).
///
/// # Errors
/// [`ParseError`] says how to write it.
pub fn queue_limit(text: &str) -> Result<QueueLimit, ParseError> {
    let wrong = || ParseError::QueueLimit(text.to_owned());
    let (value, unit) = number(text).filter(|(value, _)| *value >= 1.0 && *value <= 1e9).ok_or_else(wrong)?;
    match unit {
        "" | "p" if value.fract() == 0.0 && value <= f64::from(1 << 20) => Ok(QueueLimit::Packets(value as u32)),
        "b" => Ok(QueueLimit::Bytes(value as u64)),
        "kb" => Ok(QueueLimit::Bytes((value * 1e3) as u64)),
        "mb" => Ok(QueueLimit::Bytes((value * 1e6) as u64)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(percentage("0.05%"), Ok(500));
        assert_eq!(rate("1.5gbit"), Ok(Rate(1_500_000_000)));
        assert_eq!(queue_limit("20"), Ok(QueueLimit::Packets(20)));
        assert_eq!(queue_limit("64kb"), Ok(QueueLimit::Bytes(64_000)));
        assert_eq!(bands("10ms,40ms"), Ok(vec![Duration::from_millis(10), Duration::from_millis(40)]));
        let range = bands("10ms..40ms").unwrap();
        assert_eq!((range.len(), range.first()), (64, Some(&Duration::from_millis(10))));
        assert!(range.last().unwrap().abs_diff(Duration::from_millis(40)) < Duration::from_micros(1));
        assert_eq!(bursts("1%,25%").unwrap().loss_bad_ppm, 1_000_000);
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["", "20", "ms", "-1ms", "61s", "1..2ms", "1e3ms", "٣ms", "999999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "101%", "-1%", "%", "1.2.3%"] {
            assert!(percentage(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0mbit", "100", "1tbit", "9999gbit"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "1.5", "1gb", "9999999999"] {
            assert!(queue_limit(wrong).is_err(), "{wrong}");
        }
        assert!(bands("40ms..10ms").is_err());
        assert!(bursts("1%").is_err());
    }
}
