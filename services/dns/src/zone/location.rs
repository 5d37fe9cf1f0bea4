//! LOC records (RFC 1876): where something is on Earth.

use super::error::DataError;
use super::lexer::Token;

/// Thousandths of a second of arc from pole or meridian to the middle of the scale.
const MIDDLE: i64 = 1 << 31;
/// Centimetres below the reference that altitudes begin at.
const ALTITUDE_BASE: i64 = 10_000_000;

/// Writes the data of a LOC record in presentation format (section 3).
pub(super) fn scan(tokens: &[Token<'_>], data: &mut Vec<u8>) -> Result<(), DataError> {
    let mut words = tokens.iter().map(|token| token.text).peekable();
    let latitude = angle(&mut words, 90, ["N", "S"])?;
    let longitude = angle(&mut words, 180, ["E", "W"])?;
    let altitude = words.next().ok_or(DataError::NoAltitude)?;
    let altitude = centimetres(altitude)? + ALTITUDE_BASE;
    let altitude = u32::try_from(altitude).map_err(|_| DataError::Altitude)?;
    let mut sizes = [0x12, 0x16, 0x13];
    for size in &mut sizes {
        if let Some(word) = words.next() {
            *size = power(centimetres(word)?)?;
        }
    }
    if let Some(more) = words.next() {
        return Err(DataError::Superfluous(more.to_owned()));
    }
    data.push(0);
    data.extend_from_slice(&sizes);
    for number in [latitude, longitude, altitude] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    Ok(())
}

/// Degrees, minutes and seconds, and the direction.
fn angle<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    degrees_max: i64,
    directions: [&'static str; 2],
) -> Result<u32, DataError> {
    let wrong = || DataError::Angle { degrees_max, directions };
    let [positive, negative] = directions;
    let mut total = 0i64;
    for (unit, limit) in [(3_600_000, degrees_max), (60_000, 59), (1_000, 59), (0, 0)] {
        let word = words.next().ok_or_else(wrong)?;
        let sign = match word {
            _ if word.eq_ignore_ascii_case(positive) => 1,
            _ if word.eq_ignore_ascii_case(negative) => -1,
            _ => {
                let thousandths = decimal(word, 3).filter(|value| (0..=limit * 1_000 + 999).contains(value));
                let thousandths = thousandths.filter(|value| unit == 1_000 || value % 1_000 == 0).ok_or_else(wrong)?;
                total += thousandths * unit / 1_000;
                continue;
            }
        };
        if total > degrees_max * 3_600_000 {
            return Err(wrong());
        }
        return u32::try_from(MIDDLE + sign * total).map_err(|_| wrong());
    }
    Err(wrong())
}

/// A decimal number in units of its last digit, of which there are `places` after the point.
fn decimal(text: &str, places: usize) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > 12 || fraction.len() > places || whole.is_empty() {
        return None;
    }
    let all = format!("{whole}{fraction:0<places$}");
    let value: i64 = all.bytes().all(|byte| byte.is_ascii_digit()).then(|| all.parse().ok())??;
    Some(if negative { -value } else { value })
}

fn centimetres(text: &str) -> Result<i64, DataError> {
    let number = text.strip_suffix(['m', 'M']).unwrap_or(text);
    decimal(number, 2).ok_or_else(|| DataError::Metres(text.to_owned()))
}

/// A length as a digit and a power of ten.
fn power(centimetres: i64) -> Result<u8, DataError> {
    let (mut digit, mut exponent) = (centimetres, 0u8);
    while digit > 9 {
        digit /= 10;
        exponent += 1;
    }
    if digit < 0 || exponent > 9 {
        return Err(DataError::Size);
    }
    Ok((digit as u8) << 4 | exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loc(text: &str) -> Result<String, DataError> {
        let tokens: Vec<Token<'_>> =
            text.split_whitespace().map(|text| Token { text, quoted: false, joined: false }).collect();
        let mut data = Vec::new();
        scan(&tokens, &mut data)?;
        Ok(data.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Examples of RFC 1876 section 4, as other servers encode them.
    #[test]
    fn places() {
        assert_eq!(
            loc("42 21 54 N 71 06 18 W -24m 30m").unwrap(),
            "0033161389 17 2d d0 70 be 15 f0 00 98 8d 20".replace(' ', "")
        );
        assert_eq!(loc("0 N 0 E 0").unwrap(), "00121613800000008000000000989680");
        for wrong in ["91 N 0 E 0", "1 60 N 0 E 0", "1 N 1 E", "1 N 1 E x", "1 N 1 E 0 1 1 1 1", "", "1 2 3 4 N 0 E 0"]
        {
            assert!(loc(wrong).is_err(), "{wrong}");
        }
    }
}
