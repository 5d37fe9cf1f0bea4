//! Numbers as Redis reads and writes them.

/// An integer as Redis takes it: no sign but `-`, no leading zeros, no blanks.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_plain {
        return None;
    }
    // It is ASCII.
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An unsigned integer, likewise.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < 20 && rest.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

/// A number with a fraction, or an infinity; never NaN.
pub fn double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= 512)?;
    let number: f64 = text.parse().ok()?;
    // Rust takes these words in any case, as C does; NaN is none that Redis takes, nor what C has no number for.
    let is_out_of_range = number.is_infinite() && has_digits(text, b'0') || number == 0.0 && has_digits(text, b'1');
    (!number.is_nan() && !is_out_of_range).then_some(number)
}

/// Whether a number that is written so has digits before its exponent, from this one on.
fn has_digits(text: &str, least: u8) -> bool {
    text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).any(|byte| (least..=b'9').contains(&byte))
}

/// As Redis answers a double: 17 digits, as C's `%.17g` has them.
pub fn write_answer(number: f64, target: &mut Vec<u8>) {
    const DIGITS: i32 = 17;
    if !number.is_finite() || number == 0.0 {
        return write_double(number, target);
    }
    let text = format!("{number:.16e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    let text = match (-4..DIGITS).contains(&power) {
        true => trimmed(&format!("{number:.*}", (DIGITS - 1 - power).max(0) as usize)),
        false => format!("{}e{}{:0>2}", trimmed(digits), if power < 0 { '-' } else { '+' }, power.unsigned_abs()),
    };
    target.extend_from_slice(text.as_bytes());
}

/// As Redis keeps a double that it made: as short as it can be.
pub fn write_double(number: f64, target: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a vector does not fail.
    let _ = if number.is_infinite() {
        target.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
        Ok(())
    } else if number == 0.0 {
        target.extend_from_slice(if number.is_sign_negative() { b"-0" } else { b"0" });
        Ok(())
    } else if number.abs() >= 1e21 || number.abs() < 1e-6 {
        let text = format!("{number:e}");
        // C writes the exponent's sign, and two digits at least.
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        write!(target, "{digits}e{sign}{exponent:0>2}")
    } else {
        write!(target, "{number}")
    };
}

/// Digits behind the point of a sum that is kept.
const FRACTION_DIGITS: usize = 17;

/// A sum as Redis keeps it as a text: without an exponent.
pub fn sum_text(number: f64) -> Vec<u8> {
    let mut text = number.to_string();
    let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
    if digits > FRACTION_DIGITS {
        text = format!("{number:.FRACTION_DIGITS$}");
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    if text == "-0" { b"0".to_vec() } else { text.into_bytes() }
}

/// A double that Redis made, as a piece of memory of its own.
pub fn double_text(number: f64) -> Vec<u8> {
    let mut text = Vec::with_capacity(24);
    write_double(number, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_have_no_exponent() {
        for (number, text) in [
            (3.0, "3"),
            (0.000_000_5, "0.0000005"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e-20, "0"),
            (-1e-20, "0"),
            (-0.0, "0"),
            (1e22, "10000000000000000000000"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(String::from_utf8(sum_text(number)).unwrap(), text);
        }
    }

    #[test]
    fn numbers_are_those_that_redis_takes() {
        for (text, number) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(integer(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(double(b"nan"), None);
        assert_eq!([&b"1e400"[..], b"-1e-400", b"0e400", b"0e-400"].map(double), [None, None, Some(0.0), Some(0.0)]);
        assert_eq!(double(b"-inf"), Some(f64::NEG_INFINITY));
    }

    #[test]
    fn doubles_are_answered_as_redis_does() {
        for (number, text) in [
            (0.1, "0.10000000000000001"),
            (1e-5, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (-1e17, "-1e+17"),
            (3.0, "3"),
            (123456789.125, "123456789.125"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (-0.0, "-0"),
        ] {
            let mut answer = Vec::new();
            write_answer(number, &mut answer);
            assert_eq!(String::from_utf8(answer).unwrap(), text);
        }
    }

    #[test]
    fn doubles_are_written_as_c_does() {
        for (number, text) in [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (10.6, "10.6"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(String::from_utf8(double_text(number)).unwrap(), text);
        }
    }
}
