//! Preconditions, in the order of RFC 9110, 13.2.2.

use super::date;
use super::lists::list_elements;
use super::parse::{Method, Request};

/// What a representation is compared by.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Strong entity tag, with its quotes.
    pub etag: &'a str,
    /// Seconds since 1970.
    pub last_modified: u64,
}

/// What the preconditions say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Go on; whether a Range field may be heeded (If-Range).
    Perform {
        /// See above.
        range_allowed: bool,
    },
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates the preconditions of a GET or HEAD for an existing representation.
pub fn evaluate(request: &Request<'_, '_>, validators: &Validators<'_>) -> Verdict {
    // 1 and 2: If-Match, else If-Unmodified-Since.
    if let Some(matches) = any_tag(request, "if-match", |tag| tag == validators.etag.as_bytes()) {
        if !matches {
            return Verdict::Failed;
        }
    } else if let Some(time) = request.single("if-unmodified-since").and_then(date::parse)
        && validators.last_modified > time
    {
        return Verdict::Failed;
    }
    // 3 and 4: If-None-Match (weak comparison), else If-Modified-Since.
    let weak = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag) == validators.etag.as_bytes();
    if let Some(matches) = any_tag(request, "if-none-match", weak) {
        if matches {
            return Verdict::NotModified;
        }
    } else if let Some(time) = request.single("if-modified-since").and_then(date::parse)
        && validators.last_modified <= time
    {
        return Verdict::NotModified;
    }
    // 5: If-Range, with strong comparison; a date must be the exact Last-Modified (13.1.5).
    let range_allowed = request.method == Method::Get
        && match request.values("if-range").next() {
            None => true,
            Some(_) => match request.single("if-range") {
                Some(tag) if tag.starts_with(b"\"") => tag == validators.etag.as_bytes(),
                Some(text) => date::parse(text) == Some(validators.last_modified),
                None => false,
            },
        };
    Verdict::Perform { range_allowed }
}

/// Whether a list of entity tags has `*` or a tag that `matches`; `None` if the field is missing.
fn any_tag(request: &Request<'_, '_>, name: &str, matches: impl Fn(&[u8]) -> bool) -> Option<bool> {
    let mut present = false;
    for value in request.values(name) {
        present = true;
        if value == b"*" || list_elements(value).any(&matches) {
            return Some(true);
        }
    }
    present.then_some(false)
}

#[cfg(test)]
mod tests {
    use super::super::parse::{Outcome, ParseLimits, header_storage, parse};
    use super::*;

    const TIME: u64 = 784_111_777;

    fn verdict(fields: &str) -> Verdict {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut storage = header_storage();
        let limits = ParseLimits { head_bytes_max: 16384, target_bytes_max: 8192 };
        let Outcome::Complete(request) = parse(text.as_bytes(), &mut storage, &limits) else { panic!("{fields}") };
        evaluate(&request, &Validators { etag: "\"abc\"", last_modified: TIME })
    }

    #[test]
    fn order_and_comparison() {
        const GO: Verdict = Verdict::Perform { range_allowed: true };
        const GO_WHOLE: Verdict = Verdict::Perform { range_allowed: false };
        let same = "Sun, 06 Nov 1994 08:49:37 GMT";
        let before = "Sun, 06 Nov 1994 08:49:36 GMT";
        for (fields, expected) in [
            (String::new(), GO),
            ("If-Match: \"abc\"\r\n".into(), GO),
            ("If-Match: *\r\n".into(), GO),
            ("If-Match: W/\"abc\"\r\n".into(), Verdict::Failed),
            ("If-Match: \"x\", \"y\"\r\n".into(), Verdict::Failed),
            (format!("If-Match: \"abc\"\r\nIf-Unmodified-Since: {before}\r\n"), GO),
            (format!("If-Unmodified-Since: {before}\r\n"), Verdict::Failed),
            (format!("If-Unmodified-Since: {same}\r\n"), GO),
            ("If-Unmodified-Since: nonsense\r\n".into(), GO),
            ("If-None-Match: \"abc\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: W/\"abc\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n".into(), Verdict::NotModified),
            ("If-None-Match: *\r\n".into(), Verdict::NotModified),
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {same}\r\n"), GO),
            (format!("If-Modified-Since: {same}\r\n"), Verdict::NotModified),
            (format!("If-Modified-Since: {before}\r\n"), GO),
            ("If-Match: \"x\"\r\nIf-None-Match: \"abc\"\r\n".into(), Verdict::Failed),
            ("If-Range: \"abc\"\r\n".into(), GO),
            ("If-Range: W/\"abc\"\r\n".into(), GO_WHOLE),
            ("If-Range: \"x\"\r\n".into(), GO_WHOLE),
            (format!("If-Range: {same}\r\n"), GO),
            (format!("If-Range: {before}\r\n"), GO_WHOLE),
        ] {
            assert_eq!(verdict(&fields), expected, "{fields}");
        }
    }
}
