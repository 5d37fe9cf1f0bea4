//! Values of fields: blanks around them, and lists (RFC 9110, 5.6).

/// Optional white space around field values and list elements (RFC 9110, 5.6.3).
pub(super) fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = bytes.iter().position(|byte| !blank(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

/// Elements of a comma-separated list (RFC 9110, 5.6.1); commas inside quoted strings don't count. Empty ones are
/// skipped.
pub(super) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let mut quoted = false;
        let mut escaped = false;
        let mut end = bytes.len();
        for (index, &byte) in bytes.iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' if !quoted => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
        rest = bytes.get(end + 1..);
        Some(trim(&bytes[..end]))
    })
    .filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let elements: Vec<&[u8]> = list_elements(b" a, \"b,\\\"c\" ,, d").collect();
        assert_eq!(elements, [&b"a"[..], b"\"b,\\\"c\"", b"d"]);
        assert_eq!(list_elements(b"").count(), 0);
    }
}
