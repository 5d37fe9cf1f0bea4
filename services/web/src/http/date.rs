//! HTTP dates (RFC 9110, 5.6.7).

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Length of an IMF-fixdate.
pub const DATE_LENGTH: usize = 29;

/// The last second an IMF-fixdate can name (the end of the year 9999).
const SECONDS_MAX: u64 = 253_402_300_799;

/// `seconds` since 1970 as IMF-fixdate: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format(seconds: u64) -> [u8; DATE_LENGTH] {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(SECONDS_MAX));
    let mut text = [b' '; DATE_LENGTH];
    // Writing into a slice of the exact length can't fail: the form has a fixed length.
    let _ = write!(&mut text[..], "{}", httpdate::HttpDate::from(time));
    text
}

/// Seconds since 1970 of a date in any of the three forms; `None` if it is none, or before 1970.
pub fn parse(text: &[u8]) -> Option<u64> {
    let time: SystemTime = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|duration| duration.as_secs())
}

/// The last formatted date: a server formats the same second many times.
#[derive(Debug)]
pub struct DateCache {
    last: Cell<(u64, [u8; DATE_LENGTH])>,
}

impl DateCache {
    /// Holding 1970.
    pub fn new() -> DateCache {
        DateCache { last: Cell::new((0, format(0))) }
    }

    /// The text that [`format()`] makes.
    #[inline]
    pub fn text(&self, seconds: u64) -> [u8; DATE_LENGTH] {
        let (last, text) = self.last.get();
        if last == seconds {
            return text;
        }
        let text = format(seconds);
        // Retransmissions of an older second must not displace the current one.
        if seconds > last {
            self.last.set((seconds, text));
        }
        text
    }
}

impl Default for DateCache {
    fn default() -> DateCache {
        DateCache::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
        assert_eq!(parse(b"yesterday"), None);
        assert_eq!(parse(b"\xff"), None);
        assert_eq!(format(u64::MAX).len(), DATE_LENGTH);
        let cache = DateCache::new();
        assert_eq!(cache.text(784_111_777), format(784_111_777));
        assert_eq!(cache.text(5), format(5));
        assert_eq!(cache.text(784_111_777), format(784_111_777));
    }
}
