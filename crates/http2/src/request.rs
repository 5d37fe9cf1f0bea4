//! [`RequestHead`]: the fields of a request (RFC 9113, 8.2 and 8.3) become a head of HTTP/1.1.

/// Fields that are of one connection, and are in no request of HTTP/2 (8.2.2).
const OF_CONNECTION: [&[u8]; 5] = [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];

/// What is wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    /// Its stream ends (8.1.1).
    Malformed,
    /// It is longer than may be.
    TooLarge,
    /// It asks for a tunnel.
    Connect,
}

/// Takes a block's fields, and is used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct RequestHead {
    method: Vec<u8>,
    scheme: Vec<u8>,
    authority: Vec<u8>,
    path: Vec<u8>,
    host: Vec<u8>,
    /// All other fields, as lines.
    lines: Vec<u8>,
    /// All of them.
    bytes: usize,
    content_length: Option<u64>,
    /// A field came that is none of the request itself.
    is_past_pseudo: bool,
    is_malformed: bool,
    is_too_large: bool,
}

/// What a whole block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// Bytes of content that it says will come.
    pub(crate) content_length: Option<u64>,
    /// Its response has no content.
    pub(crate) is_head: bool,
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a field can have this value (8.2.1).
fn is_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_bare = !is_blank(value.first()) && !is_blank(value.last());
    is_bare && !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
}

/// Whether it can be a part of a line of HTTP/1.1 that ends with a blank.
fn is_word(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(|byte| (0x21..0x7f).contains(byte))
}

impl RequestHead {
    /// Forgets the last one.
    pub(crate) fn begin(&mut self) {
        for part in
            [&mut self.method, &mut self.scheme, &mut self.authority, &mut self.path, &mut self.host, &mut self.lines]
        {
            part.clear();
        }
        (self.bytes, self.content_length) = (0, None);
        (self.is_past_pseudo, self.is_malformed, self.is_too_large) = (false, false, false);
    }

    /// Takes the next field, and keeps no more than `bytes_max` of them all.
    pub(crate) fn field(&mut self, name: &[u8], value: &[u8], bytes_max: usize) {
        // As lines of `name: value`.
        self.bytes = self.bytes.saturating_add(name.len() + value.len() + 4);
        if self.bytes > bytes_max {
            self.is_too_large = true;
            return;
        }
        self.is_malformed |= !self.take(name, value);
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> bool {
        let part = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return self.take_ordinary(name, value),
        };
        let is_first = part.is_empty() && !self.is_past_pseudo;
        part.extend_from_slice(value);
        is_first && is_word(value)
    }

    fn take_ordinary(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.is_past_pseudo = true;
        let is_name = !name.is_empty() && name.iter().all(|byte| is_token(*byte) && !byte.is_ascii_uppercase());
        if !is_name || !is_value(value) || OF_CONNECTION.contains(&name) {
            return false;
        }
        match name {
            b"host" => {
                let is_first = self.host.is_empty();
                self.host.extend_from_slice(value);
                return is_first && is_word(value);
            }
            b"content-length" => {
                let length = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                let length = length.and_then(|text| text.parse().ok());
                let is_same = self.content_length.is_none() || self.content_length == length;
                self.content_length = length;
                return length.is_some() && is_same;
            }
            b"te" => return value == b"trailers",
            // What it waits for is not sent: the content is not looked at.
            b"expect" => return true,
            _ => {}
        }
        for part in [name, b": ", value, b"\r\n"] {
            self.lines.extend_from_slice(part);
        }
        true
    }

    /// What all fields together say.
    pub(crate) fn end(&self) -> Result<Request, Wrong> {
        if self.is_malformed || self.method.is_empty() || !self.method.iter().all(|byte| is_token(*byte)) {
            return Err(Wrong::Malformed);
        }
        if self.is_too_large {
            return Err(Wrong::TooLarge);
        }
        if self.method == b"CONNECT" {
            return Err(Wrong::Connect);
        }
        let is_path = self.path.first() == Some(&b'/') || self.path == b"*" && self.method == b"OPTIONS";
        let is_one_host = self.host.is_empty() || self.authority.is_empty() || self.host == self.authority;
        if self.scheme.is_empty() || !is_path || !is_one_host {
            return Err(Wrong::Malformed);
        }
        Ok(Request { content_length: self.content_length, is_head: self.method == b"HEAD" })
    }

    /// Whether they are fields behind the content: of the request itself, nothing may be among them (8.1).
    pub(crate) fn is_trailer(&self) -> bool {
        let parts = [&self.method, &self.scheme, &self.authority, &self.path];
        !self.is_malformed && parts.into_iter().all(|part| part.is_empty())
    }

    /// The head, as a request that is the only one of its connection.
    pub(crate) fn write(&self, target: &mut Vec<u8>) {
        let host = if self.authority.is_empty() { &self.host } else { &self.authority };
        for part in [
            &self.method[..],
            b" ",
            &self.path,
            b" HTTP/1.1\r\nHost: ",
            host,
            b"\r\nConnection: close\r\n",
            &self.lines,
            b"\r\n",
        ] {
            target.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x?y")];

    fn head(fields: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::default();
        // As behind another one.
        head.field(b":method", b"HEAD", 100);
        head.field(b"A", b"malformed", 100);
        head.begin();
        fields.iter().for_each(|(name, value)| head.field(name.as_bytes(), value.as_bytes(), 1_000));
        head
    }

    fn with(more: &[(&str, &str)]) -> Result<Request, Wrong> {
        head(&[&GET, more].concat()).end()
    }

    #[test]
    fn a_request_is_a_head_of_http_1() {
        let more = [("user-agent", "x y"), ("host", "a.example"), ("te", "trailers"), ("content-length", "5")];
        let head = head(&[&GET[..], &more].concat());
        assert_eq!(head.end(), Ok(Request { content_length: Some(5), is_head: false }));
        let mut text = Vec::new();
        head.write(&mut text);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "GET /x?y HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nuser-agent: x y\r\n\r\n"
        );
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for more in [
            ("Upper", "case"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("", "nameless"),
            ("a:b", "colon"),
            ("a", "line\r\nend"),
            ("a", "line\nend"),
            ("a", " blank"),
            ("a", "blank\t"),
            ("a", "nul\0"),
            (":path", "/"),
            (":status", "200"),
            ("content-length", "+5"),
            ("content-length", "18446744073709551616"),
            ("host", "b.example"),
            ("host", "a b"),
        ] {
            assert_eq!(with(&[more]), Err(Wrong::Malformed), "{more:?}");
        }
        assert_eq!(with(&[("content-length", "5"), ("content-length", "6")]), Err(Wrong::Malformed));
        for missing in [0, 1, 3] {
            let mut fields = GET.to_vec();
            fields.remove(missing);
            assert_eq!(head(&fields).end(), Err(Wrong::Malformed), "without {missing}");
        }
        for (at, value) in
            [(0, "G ET"), (0, ""), (1, ""), (2, "a b"), (3, ""), (3, "x"), (3, "*"), (3, "/a b"), (3, "/\r\n")]
        {
            let mut fields = GET;
            fields[at].1 = value;
            assert_eq!(head(&fields).end(), Err(Wrong::Malformed), "{:?}", fields[at]);
        }
        // Fields of the request itself come first.
        assert_eq!(head(&[&GET[..3], &[("a", "b")], &GET[3..]].concat()).end(), Err(Wrong::Malformed));
    }

    #[test]
    fn what_is_long_is_told_apart_from_what_is_wrong() {
        let long = "x".repeat(900);
        assert_eq!(with(&[("a", &long)]), Ok(Request { content_length: None, is_head: false }));
        assert_eq!(with(&[("a", &long), ("b", &long)]), Err(Wrong::TooLarge));
        assert_eq!(head(&[(":method", "CONNECT"), (":authority", "a.example:1")]).end(), Err(Wrong::Connect));
    }

    #[test]
    fn trailers_have_nothing_of_the_request() {
        assert!(head(&[("checksum", "1")]).is_trailer());
        assert!(!head(&[(":path", "/")]).is_trailer());
        assert!(!head(&[("Checksum", "1")]).is_trailer());
    }
}
