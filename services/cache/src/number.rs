//! Numbers, as C reads them: `strtoul` and its like, up to the first blank.

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The sign and the size of the number that these bytes begin with, if nothing but a blank follows it.
fn parse(bytes: &[u8]) -> Option<(bool, u64)> {
    let start = bytes.iter().position(|byte| !is_space(*byte))?;
    let bytes = bytes.get(start..)?;
    let (is_negative, digits) = match bytes.first()? {
        b'-' => (true, bytes.get(1..)?),
        b'+' => (false, bytes.get(1..)?),
        _ => (false, bytes),
    };
    let length = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    if length == 0 || digits.get(length).is_some_and(|byte| !is_space(*byte)) {
        return None;
    }
    let mut number = 0u64;
    for digit in digits.get(..length)? {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some((is_negative, number))
}

/// A number that is not negative.
pub fn unsigned_64(bytes: &[u8]) -> Option<u64> {
    parse(bytes).and_then(|(is_negative, number)| (!is_negative || number == 0).then_some(number))
}

/// The same, of 32 bits.
pub fn unsigned_32(bytes: &[u8]) -> Option<u32> {
    unsigned_64(bytes).and_then(|number| u32::try_from(number).ok())
}

/// A number.
pub fn signed_64(bytes: &[u8]) -> Option<i64> {
    let (is_negative, number) = parse(bytes)?;
    let number = i64::try_from(number).ok()?;
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_a_blank() {
        for (text, number) in
            [("12", Some(12)), ("12 ", Some(12)), ("+7\r\n", Some(7)), (" 5", Some(5)), ("-0", Some(0))]
        {
            assert_eq!(unsigned_64(text.as_bytes()), number, "{text:?}");
        }
        for text in ["", " ", "-", "-1", "12a", "a", "18446744073709551616", "1.5"] {
            assert_eq!(unsigned_64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(unsigned_64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!((unsigned_32(b"4294967295"), unsigned_32(b"4294967296")), (Some(u32::MAX), None));
        assert_eq!((signed_64(b"-5"), signed_64(b"9223372036854775808")), (Some(-5), None));
    }
}
