//! Numbers as C's `printf` writes them with `%g`.

/// A number with so many digits at most.
pub fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:.*e}", digits.saturating_sub(1));
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent >= -4 && exponent < digits as i32 {
        let behind = (digits as i32 - 1 - exponent).max(0) as usize;
        return without_zeros(&format!("{number:.behind$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.unsigned_abs())
}

fn without_zeros(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_are_written_as_c_does() {
        for (number, digits, text) in [
            (1.5, 17, "1.5"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e15, 17, "1000000000000000"),
            (1e15, 14, "1e+15"),
            (1e17, 17, "1e+17"),
            (-3.0, 17, "-3"),
            (0.0, 17, "0"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e-5, 14, "1e-05"),
            (f64::INFINITY, 14, "inf"),
        ] {
            assert_eq!(general(number, digits), text);
        }
    }
}
