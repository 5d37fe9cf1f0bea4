//! From a target to a path below the document root: percent-decoding (RFC 3986, 2.1), then removal of dot segments
//! (5.2.4), so that encoded dots are dots too.

/// Why a target names no file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetError {
    /// Bad percent-encoding, NUL, or a path that climbs above the root: 400.
    Malformed,
    /// An encoded slash (no file's name has one) or a hidden name: 404.
    NotFound,
}

/// Splits off the query; a fragment (never sent by a conforming client) is cut too.
pub fn split_query(path_and_query: &[u8]) -> (&[u8], &[u8]) {
    let end = path_and_query.iter().position(|&byte| byte == b'#').unwrap_or(path_and_query.len());
    let whole = &path_and_query[..end];
    match memchr::memchr(b'?', whole) {
        Some(index) => (&whole[..index], &whole[index..]),
        None => (whole, b""),
    }
}

/// Decodes and normalises `path` (which starts with a slash): the result is relative, has no empty, `.` or `..`
/// segment, and ends with a slash if it names a directory; the root is empty.
///
/// # Errors
/// [`TargetError`].
pub fn resolve(path: &[u8], hidden: bool) -> Result<Vec<u8>, TargetError> {
    let mut resolved: Vec<u8> = Vec::with_capacity(path.len());
    let mut segments = path.split(|&byte| byte == b'/');
    if segments.next() != Some(b"") {
        return Err(TargetError::Malformed);
    }
    let mut directory = true;
    for segment in segments {
        let start = resolved.len();
        decode(segment, &mut resolved)?;
        let name = resolved.get(start..).unwrap_or_default();
        directory = false;
        match name {
            b"" | b"." => {
                resolved.truncate(start);
                directory = true;
            }
            b".." => {
                resolved.truncate(start);
                // `resolved` ends with the parent's slash: drop it and the parent's name.
                resolved.pop().ok_or(TargetError::Malformed)?;
                let parent = memchr::memrchr(b'/', &resolved).map_or(0, |slash| slash + 1);
                resolved.truncate(parent);
                directory = true;
            }
            _ if name.contains(&b'/') => return Err(TargetError::NotFound),
            _ if name.starts_with(b".") && !hidden && name != b".well-known" => return Err(TargetError::NotFound),
            _ => resolved.push(b'/'),
        }
    }
    if !directory {
        resolved.pop();
    }
    Ok(resolved)
}

fn decode(segment: &[u8], target: &mut Vec<u8>) -> Result<(), TargetError> {
    let mut rest = segment;
    while let Some((&byte, after)) = rest.split_first() {
        let (value, after) = match byte {
            b'%' => match after {
                [high, low, after @ ..] => (digit(*high)? << 4 | digit(*low)?, after),
                _ => return Err(TargetError::Malformed),
            },
            _ => (byte, after),
        };
        if value == 0 {
            return Err(TargetError::Malformed);
        }
        target.push(value);
        rest = after;
    }
    Ok(())
}

fn digit(byte: u8) -> Result<u8, TargetError> {
    (byte as char).to_digit(16).map(|value| value as u8).ok_or(TargetError::Malformed)
}

/// A relative path, as made by [`resolve`], as an absolute path in a URL.
pub fn encode(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len() + 1);
    text.push('/');
    for &byte in path {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_' | b'~') {
            text.push(byte as char);
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            text.push('%');
            text.push(DIGITS[usize::from(byte >> 4)] as char);
            text.push(DIGITS[usize::from(byte & 15)] as char);
        }
    }
    text
}

/// `host[:port]` without port and final dot, in lower case: a virtual host's name.
pub fn host_name(host: &[u8]) -> String {
    let name = if host.starts_with(b"[") {
        host.split_inclusive(|&byte| byte == b']').next().unwrap_or(host)
    } else {
        host.split(|&byte| byte == b':').next().unwrap_or(host)
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(text: &str) -> Result<String, TargetError> {
        resolve(text.as_bytes(), false).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn paths() {
        for (text, expected) in [
            ("/", Ok("")),
            ("/a", Ok("a")),
            ("/a/", Ok("a/")),
            ("//a//b", Ok("a/b")),
            ("/a/./b/../c", Ok("a/c")),
            ("/a/..", Ok("")),
            ("/a/b/..", Ok("a/")),
            ("/a/.", Ok("a/")),
            ("/a%20b", Ok("a b")),
            ("/%c3%a4", Ok("\u{e4}")),
            ("/..", Err(TargetError::Malformed)),
            ("/a/../../b", Err(TargetError::Malformed)),
            ("/%2e%2E/b", Err(TargetError::Malformed)),
            ("/a%00", Err(TargetError::Malformed)),
            ("/a%", Err(TargetError::Malformed)),
            ("/a%4", Err(TargetError::Malformed)),
            ("/a%zz", Err(TargetError::Malformed)),
            ("/a%2fb", Err(TargetError::NotFound)),
            ("/..%2f..%2fetc", Err(TargetError::NotFound)),
            ("/.git/config", Err(TargetError::NotFound)),
            ("/%2egit", Err(TargetError::NotFound)),
            ("/.well-known/x", Ok(".well-known/x")),
            ("x", Err(TargetError::Malformed)),
        ] {
            assert_eq!(path(text), expected.map(str::to_owned), "{text}");
        }
        assert_eq!(resolve(b"/.git", true).as_deref(), Ok(&b".git"[..]));
        assert_eq!(split_query(b"/a?b?c#d"), (&b"/a"[..], &b"?b?c"[..]));
        assert_eq!(encode("a b/\u{e4}/".as_bytes()), "/a%20b/%C3%A4/");
        assert_eq!(host_name(b"EXAMPLE.org.:80"), "example.org");
        assert_eq!(host_name(b"[::1]:80"), "[::1]");
    }

    proptest! {
        #[test]
        fn stays_below_the_root(text in "[/.%a2ef0-]{0,40}") {
            if let Ok(bytes) = resolve(text.as_bytes(), true) {
                prop_assert!(!bytes.starts_with(b"/"));
                prop_assert!(!bytes.contains(&0));
                let trimmed = bytes.strip_suffix(b"/").unwrap_or(&bytes);
                if !trimmed.is_empty() {
                    for segment in trimmed.split(|&byte| byte == b'/') {
                        prop_assert!(!matches!(segment, b"" | b"." | b".."), "{:?}", text);
                    }
                }
                // Encoding and resolving again changes nothing.
                prop_assert_eq!(resolve(encode(&bytes).as_bytes(), true), Ok(bytes));
            }
        }
    }
}
