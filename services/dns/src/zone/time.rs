//! Spans of time as master files write them.

/// RFC 2181 section 8.
pub(super) const TTL_MAX: u64 = (1 << 31) - 1;

/// Seconds, or sums as `1w2d3h4m5s`.
pub(super) fn parse(text: &str) -> Option<u32> {
    let mut total = 0u64;
    let mut number: Option<u64> = None;
    for character in text.chars() {
        if let Some(digit) = character.to_digit(10) {
            number = Some(number.unwrap_or(0).checked_mul(10)?.checked_add(u64::from(digit))?);
            continue;
        }
        let unit = match character.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    total = total.checked_add(number.unwrap_or(0))?;
    (!text.is_empty() && total <= TTL_MAX).then_some(total as u32)
}
