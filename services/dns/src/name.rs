//! Domain names in wire format (RFC 1035 section 3.1): labels with their lengths, the root's last.

use std::fmt;

/// Longest name, bytes with the root's label.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest label, bytes.
pub const LABEL_BYTES_MAX: usize = 63;

/// Why a text is no name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// Two dots in a row, or one at the start.
    #[error("an empty label: take out the superfluous dot")]
    EmptyLabel,
    /// A label of more than 63 bytes.
    #[error("a label of more than 63 bytes: shorten it")]
    LabelTooLong,
    /// More than 255 bytes.
    #[error("a name of more than 255 bytes: shorten it")]
    TooLong,
    /// A backslash before neither a character nor three digits up to 255.
    #[error("a backslash before neither a character nor three digits up to 255")]
    Escape,
    /// Not ending with a dot, and there is no origin.
    #[error("a relative name without an origin: end it with a dot, or write $ORIGIN first")]
    NoOrigin,
}

/// An absolute name in wire format, letters as written.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Box<[u8]>);

impl Name {
    /// The root.
    pub fn root() -> Name {
        Name(Box::new([0]))
    }

    /// From presentation format; what does not end with a dot is continued by `origin`.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn parse(text: &str, origin: Option<&Name>) -> Result<Name, NameError> {
        let mut wire = Vec::with_capacity(text.len() + 2);
        parse_into(text, origin.map(Name::wire), &mut wire)?;
        Ok(Name(wire.into()))
    }

    /// An absolute name of a user's words: `example.com` is `example.com.`
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn absolute(text: &str) -> Result<Name, NameError> {
        Name::parse(text, Some(&Name::root()))
    }

    /// From wire format without compression; `None`: malformed, or more than a name.
    pub fn from_wire(wire: &[u8]) -> Option<Name> {
        (wire_length(wire)? == wire.len()).then(|| Name(wire.into()))
    }

    /// The bytes.
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// This name with small letters.
    #[must_use]
    pub fn to_lowercase(&self) -> Name {
        Name(self.0.to_ascii_lowercase().into())
    }

    /// Labels without the root's.
    pub fn label_count(&self) -> usize {
        label_count(&self.0)
    }

    /// Without its first label; `None`: the root.
    pub fn parent(&self) -> Option<Name> {
        parent(&self.0).map(|wire| Name(wire.into()))
    }

    /// Whether it is `apex` or below it, in any case of letters.
    pub fn is_within(&self, apex: &Name) -> bool {
        is_within(&self.0, &apex.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Presentation(&self.0), f)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Presentation(&self.0), f)
    }
}

/// A name in wire format, shown in presentation format.
pub struct Presentation<'a>(pub &'a [u8]);

impl fmt::Display for Presentation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == [0] {
            return f.write_str(".");
        }
        for label in labels(self.0) {
            for byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => write!(f, "\\{}", char::from(*byte))?,
                    0x21..=0x7e => write!(f, "{}", char::from(*byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

/// Appends the name in `text` to `wire`, which must be empty.
pub(crate) fn parse_into(text: &str, origin: Option<&[u8]>, wire: &mut Vec<u8>) -> Result<(), NameError> {
    if text == "@" {
        wire.extend_from_slice(origin.ok_or(NameError::NoOrigin)?);
        return Ok(());
    }
    if text == "." {
        wire.push(0);
        return Ok(());
    }
    let mut label = wire.len();
    wire.push(0);
    let mut bytes = text.bytes();
    let mut open = false;
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'.' => {
                close_label(wire, label)?;
                label = wire.len();
                wire.push(0);
                open = false;
                continue;
            }
            b'\\' => unescape(&mut bytes)?,
            byte => byte,
        };
        open = true;
        wire.push(byte);
        if wire.len() > NAME_BYTES_MAX + LABEL_BYTES_MAX {
            return Err(NameError::TooLong);
        }
    }
    if open || text.is_empty() {
        close_label(wire, label)?;
        wire.extend_from_slice(origin.ok_or(NameError::NoOrigin)?);
    }
    if wire.len() > NAME_BYTES_MAX { Err(NameError::TooLong) } else { Ok(()) }
}

fn close_label(wire: &mut [u8], label: usize) -> Result<(), NameError> {
    match wire.len() - label - 1 {
        0 => Err(NameError::EmptyLabel),
        length if length > LABEL_BYTES_MAX => Err(NameError::LabelTooLong),
        length => {
            if let Some(byte) = wire.get_mut(label) {
                *byte = length as u8;
            }
            Ok(())
        }
    }
}

fn unescape(bytes: &mut std::str::Bytes<'_>) -> Result<u8, NameError> {
    let first = bytes.next().ok_or(NameError::Escape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        let digit = bytes.next().filter(u8::is_ascii_digit).ok_or(NameError::Escape)?;
        value = value * 10 + u32::from(digit - b'0');
    }
    u8::try_from(value).map_err(|_| NameError::Escape)
}

/// Length of the uncompressed name at the start of `bytes`, the root's label included; `None`: there is none.
pub fn wire_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += length + 1;
        if length > LABEL_BYTES_MAX || at > NAME_BYTES_MAX || at > bytes.len() {
            return None;
        }
        if length == 0 {
            return Some(at);
        }
    }
}

/// The labels of a well-formed name in wire format, without the root's.
pub fn labels(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = wire;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first()?;
        let (label, after) = after.split_at_checked(usize::from(*length))?;
        rest = after;
        (!label.is_empty()).then_some(label)
    })
}

/// Labels without the root's.
pub fn label_count(wire: &[u8]) -> usize {
    labels(wire).count()
}

/// Without the first label; `None`: the root.
pub fn parent(wire: &[u8]) -> Option<&[u8]> {
    match wire.first() {
        None | Some(0) => None,
        Some(length) => wire.get(usize::from(*length) + 1..),
    }
}

/// Whether `wire` is `apex` or below it, in any case of letters.
pub fn is_within(wire: &[u8], apex: &[u8]) -> bool {
    let mut rest = wire;
    while rest.len() > apex.len() {
        match parent(rest) {
            Some(above) => rest = above,
            None => return false,
        }
    }
    rest.eq_ignore_ascii_case(apex)
}

/// The canonical order of names (RFC 4034 section 6.1).
pub fn canonical_order(left: &[u8], right: &[u8]) -> std::cmp::Ordering {
    let (left_starts, right_starts) = (label_starts(left), label_starts(right));
    let label = |wire: &[u8], start: u8| {
        let start = usize::from(start);
        let length = usize::from(wire.get(start).copied().unwrap_or(0));
        start + 1..start + 1 + length
    };
    let pairs = left_starts.0.iter().take(left_starts.1).rev().zip(right_starts.0.iter().take(right_starts.1).rev());
    for (one, other) in pairs {
        let one = left.get(label(left, *one)).unwrap_or_default().iter().map(u8::to_ascii_lowercase);
        let other = right.get(label(right, *other)).unwrap_or_default().iter().map(u8::to_ascii_lowercase);
        match one.cmp(other) {
            std::cmp::Ordering::Equal => {}
            different => return different,
        }
    }
    left_starts.1.cmp(&right_starts.1)
}

/// Where the labels begin, without the root's, and how many there are.
pub(crate) fn label_starts(wire: &[u8]) -> ([u8; 128], usize) {
    let mut starts = [0u8; 128];
    let mut count = 0;
    let mut at = 0usize;
    while let Some(length) = wire.get(at).filter(|length| **length != 0) {
        let Some(start) = starts.get_mut(count) else { break };
        *start = at as u8;
        count += 1;
        at += usize::from(*length) + 1;
    }
    (starts, count)
}

/// Appends a key of which plain comparison gives the canonical order of names (RFC 4034 section 6.1): labels from the
/// root's end, small letters, each ended by a zero; zeros and ones within are written as two bytes.
pub fn canonical_key(wire: &[u8], key: &mut Vec<u8>) {
    let (starts, count) = label_starts(wire);
    for start in starts.get(..count).unwrap_or_default().iter().rev() {
        let start = usize::from(*start);
        let length = usize::from(wire.get(start).copied().unwrap_or(0));
        for byte in wire.get(start + 1..=start + length).unwrap_or_default() {
            match byte.to_ascii_lowercase() {
                low @ 0..=1 => key.extend_from_slice(&[1, low + 1]),
                byte => key.push(byte),
            }
        }
        key.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Name {
        Name::absolute(text).unwrap()
    }

    #[test]
    fn presentation_and_wire() {
        assert_eq!(name("www.Example.com").wire(), b"\x03www\x07Example\x03com\0");
        assert_eq!(name(".").wire(), b"\0");
        assert_eq!(Name::parse("a\\.b\\001", Some(&name("x."))).unwrap().wire(), b"\x04a.b\x01\x01x\0");
        assert_eq!(Name::parse("a\\.b\\001", Some(&name("x."))).unwrap().to_string(), "a\\.b\\001.x.");
        assert_eq!(Name::parse("@", Some(&name("x."))).unwrap().wire(), b"\x01x\0");
        let wrong = |text: &str| Name::parse(text, Some(&Name::root())).unwrap_err();
        assert_eq!(wrong("a..b"), NameError::EmptyLabel);
        assert_eq!(wrong(".a"), NameError::EmptyLabel);
        assert_eq!(wrong(""), NameError::EmptyLabel);
        assert_eq!(wrong(&"a".repeat(64)), NameError::LabelTooLong);
        assert_eq!(wrong(&"a.".repeat(128)), NameError::TooLong);
        assert_eq!(wrong("a\\25"), NameError::Escape);
        assert_eq!(wrong("a\\256"), NameError::Escape);
        assert_eq!(Name::parse("a", None).unwrap_err(), NameError::NoOrigin);
        assert!(name(&"a.".repeat(127)).wire().len() == 255);
    }

    #[test]
    fn relations() {
        assert!(name("a.EXAMPLE.com").is_within(&name("example.COM")));
        assert!(name("example.com").is_within(&name("example.com")));
        assert!(!name("xexample.com").is_within(&name("example.com")));
        assert!(!name("com").is_within(&name("example.com")));
        assert!(name("com").is_within(&Name::root()));
        assert_eq!(name("a.b").parent(), Some(name("b")));
        assert_eq!(Name::root().parent(), None);
        assert_eq!(name("a.b.c").label_count(), 3);
    }

    /// The list of RFC 4034 section 6.1.
    #[test]
    fn the_order_of_the_rfc() {
        let sorted = [
            "example.",
            "a.example.",
            "yljkjljk.a.example.",
            "Z.a.example.",
            "zABC.a.EXAMPLE.",
            "z.example.",
            "\\001.z.example.",
            "*.z.example.",
            "\\200.z.example.",
        ];
        let keys: Vec<Vec<u8>> = sorted
            .iter()
            .map(|text| {
                let mut key = Vec::new();
                canonical_key(name(text).wire(), &mut key);
                key
            })
            .collect();
        assert!(keys.windows(2).all(|two| two[0] < two[1]));
        let sorted = sorted.map(name);
        assert!(sorted.windows(2).all(|two| canonical_order(two[0].wire(), two[1].wire()).is_lt()));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let length = wire_length(&bytes);
            prop_assert!(length.is_none_or(|length| length <= bytes.len() && length <= NAME_BYTES_MAX));
            let mut key = Vec::new();
            canonical_key(&bytes, &mut key);
            let _ = canonical_order(&bytes, b"\x01a\0");
            let _ = (label_count(&bytes), is_within(&bytes, b"\x01a\0"), Presentation(&bytes).to_string());
        }

        #[test]
        fn texts_come_back(text in "[a-zA-Z0-9.\\\\ é\"]{0,80}") {
            if let Ok(name) = Name::absolute(&text) {
                prop_assert_eq!(Name::absolute(&name.to_string()).unwrap(), name);
            }
        }
    }
}
