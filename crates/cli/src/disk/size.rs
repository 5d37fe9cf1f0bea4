//! Sizes as people write them: `512M`, `4G`, `1048576`.

/// Bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1_u64 << 40,
        _ => return Err(wrong(text)),
    };
    let count: u64 = digits.parse().map_err(|_| wrong(text))?;
    count.checked_mul(unit).filter(|bytes| *bytes > 0 && *bytes <= i64::MAX as u64).ok_or_else(|| wrong(text))
}

fn wrong(text: &str) -> String {
    format!("{text}: no size; write it as 512M or 4G (powers of 1024), or in bytes")
}

/// As people read it.
pub fn text(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(*unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_understood_or_refused() {
        let understood = [("1", 1), ("4K", 4_096), ("512M", 512 << 20), ("4g", 4 << 30), ("2TiB", 2 << 40), ("7B", 7)];
        for (text, bytes) in understood {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "M", "-1", "1.5G", "4X", "99999999999G", "8388608T", "4 G"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!([0, 1_023, 1_024, 1_536, 5 << 30].map(text), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "5 GiB"]);
    }
}
