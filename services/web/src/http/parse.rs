//! Request heads (RFC 9112, 3 and 5), strictly: what two parsers could read differently is refused.
//!
//! A head is parsed in place from the received bytes. [`parse`] needs the whole head; [`head_end`] finds, without
//! looking at any byte twice, whether a head gathered from several chunks has become whole.

use super::lists::{list_elements, trim};
use std::mem::MaybeUninit;

/// Most fields a head may have (beyond: 431).
pub const FIELDS_MAX: usize = 96;

/// Where parsed fields go: uninitialised, so that a request doesn't pay for clearing it.
pub type HeaderStorage<'b> = [MaybeUninit<httparse::Header<'b>>; FIELDS_MAX];

/// A fresh [`HeaderStorage`].
#[inline]
pub fn header_storage<'b>() -> HeaderStorage<'b> {
    [const { MaybeUninit::uninit() }; FIELDS_MAX]
}

/// Bounds on a head.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    /// Bytes of the whole head.
    pub head_bytes_max: usize,
    /// Bytes of the target.
    pub target_bytes_max: usize,
}

/// Methods told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET.
    Get,
    /// HEAD.
    Head,
    /// OPTIONS.
    Options,
    /// A registered method a static server doesn't allow: 405.
    NotAllowed,
    /// Anything else: 501.
    Unknown,
}

impl Method {
    fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" | b"PUT" | b"DELETE" | b"PATCH" | b"CONNECT" | b"TRACE" => Method::NotAllowed,
            _ => Method::Unknown,
        }
    }
}

/// Fields whose presence takes a request off the fast path, as bits of [`Request::flags`].
pub mod flag {
    /// If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since or If-Range.
    pub const CONDITION: u8 = 1;
    /// Range.
    pub const RANGE: u8 = 2;
    /// Accept-Encoding.
    pub const ENCODING: u8 = 4;
}

/// A well-formed request without a body.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// Its method.
    pub method: Method,
    /// The method as sent.
    pub method_name: &'b str,
    /// The target as sent.
    pub target: &'b [u8],
    /// The target's path and query: the target itself, or what follows the authority of an absolute form. `*` for the
    /// asterisk form.
    pub path_and_query: &'b [u8],
    /// The authority: of an absolute-form target, else the Host field's value; empty if neither is there (HTTP/1.0).
    pub host: &'b [u8],
    /// HTTP/1.`minor_version`.
    pub minor_version: u8,
    /// Whether the connection should stay open after the response.
    pub keep_alive: bool,
    /// See [`flag`].
    pub flags: u8,
    /// All fields.
    pub fields: &'h [httparse::Header<'b>],
    /// Length of the head in bytes, its empty line included.
    pub head_length: usize,
}

impl<'h, 'b> Request<'h, 'b> {
    /// Values of the fields called `name` (lower case), in order.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'b [u8]> + use<'a, 'h, 'b> {
        self.fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| trim(field.value))
    }

    /// The value of a field that must not be a list: `None` if it is missing or there several times.
    pub fn single(&self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.values(name);
        let first = values.next()?;
        values.next().is_none().then_some(first)
    }
}

/// A refusal; the connection closes after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// The status to answer with.
    pub status: u16,
    /// Why, for people.
    pub why: &'static str,
}

/// What bytes turned out to be.
#[derive(Debug)]
pub enum Outcome<'h, 'b> {
    /// A whole head, and nothing wrong with it.
    Complete(Request<'h, 'b>),
    /// The start of a head.
    Partial,
    /// No request this server reads further.
    Reject(Rejection),
}

const fn refuse(status: u16, why: &'static str) -> Rejection {
    Rejection { status, why }
}

/// Parses the head at the start of `bytes`. Empty lines before it must have been skipped by the caller.
pub fn parse<'h, 'b>(bytes: &'b [u8], storage: &'h mut HeaderStorage<'b>, limits: &ParseLimits) -> Outcome<'h, 'b> {
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, storage) {
        Ok(httparse::Status::Partial) => match check_partial(bytes, limits) {
            Ok(()) => Outcome::Partial,
            Err(rejection) => Outcome::Reject(rejection),
        },
        Err(error) => Outcome::Reject(classify(error, bytes, limits)),
        Ok(httparse::Status::Complete(head_length)) => {
            let head = bytes.get(..head_length).unwrap_or(bytes);
            let (Some(method), Some(target), Some(minor_version)) = (request.method, request.path, request.version)
            else {
                return Outcome::Reject(refuse(400, "incomplete request line"));
            };
            match check(head, method, target, minor_version, request.headers, limits) {
                Ok(request) => Outcome::Complete(request),
                Err(rejection) => Outcome::Reject(rejection),
            }
        }
    }
}

/// The end of the head that starts at the start of `bytes`, if it is whole: the index after its empty line. Bytes
/// before `from` were searched before (3 fewer are trusted). Accepts bare line feeds: [`parse`] refuses them.
pub fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3);
    for index in memchr::memchr_iter(b'\n', bytes.get(start..)?) {
        let at = start + index;
        match bytes.get(..at)? {
            [.., b'\n'] | [.., b'\n', b'\r'] => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Limits on a head that is still growing.
///
/// # Errors
/// 414 or 431.
pub fn check_partial(bytes: &[u8], limits: &ParseLimits) -> Result<(), Rejection> {
    let line_end = memchr::memchr(b'\n', bytes);
    if line_end.is_none() && bytes.len() > limits.target_bytes_max.saturating_add(64) {
        return Err(refuse(414, "request target too long"));
    }
    if bytes.len() >= limits.head_bytes_max {
        return Err(refuse(431, "request header section too large"));
    }
    Ok(())
}

fn classify(error: httparse::Error, bytes: &[u8], limits: &ParseLimits) -> Rejection {
    let line_length = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    if line_length > limits.target_bytes_max.saturating_add(64) {
        return refuse(414, "request target too long");
    }
    match error {
        httparse::Error::TooManyHeaders => refuse(431, "too many header fields"),
        httparse::Error::Version => {
            // "HTTP/" DIGIT "." DIGIT (RFC 9112, 2.3) of another version is 505; anything else is no request line.
            let line = trim_line_end(bytes.get(..line_length).unwrap_or(bytes));
            match line.rsplit(|&byte| byte == b' ').next() {
                Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
                    if major.is_ascii_digit()
                        && minor.is_ascii_digit()
                        && line.iter().filter(|&&byte| byte == b' ').count() == 2 =>
                {
                    refuse(505, "only HTTP/1.0 and HTTP/1.1")
                }
                _ => refuse(400, "malformed request line"),
            }
        }
        httparse::Error::HeaderName => refuse(400, "malformed header field name"),
        httparse::Error::HeaderValue => refuse(400, "malformed header field value"),
        httparse::Error::NewLine => refuse(400, "malformed line end"),
        _ => refuse(400, "malformed request line"),
    }
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What `httparse` leaves to its user.
fn check<'h, 'b>(
    head: &'b [u8],
    method_name: &'b str,
    target: &'b str,
    minor_version: u8,
    fields: &'h [httparse::Header<'b>],
    limits: &ParseLimits,
) -> Result<Request<'h, 'b>, Rejection> {
    if head.len() > limits.head_bytes_max {
        return Err(refuse(431, "request header section too large"));
    }
    if target.len() > limits.target_bytes_max {
        return Err(refuse(414, "request target too long"));
    }
    // A line feed alone may end a line for a lenient reader (RFC 9112, 2.2): a front end that doesn't agree could be
    // made to see another request, so it is refused.
    for index in memchr::memchr_iter(b'\n', head) {
        if index == 0 || head.get(index - 1) != Some(&b'\r') {
            return Err(refuse(400, "line feed without carriage return"));
        }
    }
    let mut scan = Scan::default();
    for field in fields {
        scan.field(field)?;
    }
    let method = Method::of(method_name.as_bytes());
    scan.check_body(method, minor_version)?;
    let target = target.as_bytes();
    let (authority, path_and_query) = split_target(target, method)?;
    let host = match (authority, scan.host) {
        // RFC 9112, 3.2: a 1.1 request without Host is refused even if its target names the host.
        (_, None) if minor_version >= 1 => return Err(refuse(400, "missing Host")),
        (Some(authority), _) => authority,
        (None, Some(host)) => host,
        (None, None) => b"",
    };
    if !host.iter().all(|&byte| is_host_byte(byte)) || (host.is_empty() && authority.is_some()) {
        return Err(refuse(400, "malformed host"));
    }
    let keep_alive = !scan.close && (minor_version >= 1 || scan.keep_alive);
    Ok(Request {
        method,
        method_name,
        target,
        path_and_query,
        host,
        minor_version,
        keep_alive,
        flags: scan.flags,
        fields,
        head_length: head.len(),
    })
}

/// What one pass over the fields finds.
#[derive(Default)]
struct Scan<'b> {
    host: Option<&'b [u8]>,
    content_length: Option<u64>,
    transfer_encoding: bool,
    transfer_encoding_known: bool,
    close: bool,
    keep_alive: bool,
    flags: u8,
}

impl<'b> Scan<'b> {
    #[inline]
    fn field(&mut self, field: &httparse::Header<'b>) -> Result<(), Rejection> {
        let name = field.name;
        // Length first: most fields of most requests are passed over without a comparison.
        match name.len() {
            4 if name.eq_ignore_ascii_case("host") => {
                if self.host.is_some() {
                    return Err(refuse(400, "more than one Host"));
                }
                self.host = Some(trim(field.value));
            }
            5 if name.eq_ignore_ascii_case("range") => self.flags |= flag::RANGE,
            6 if name.eq_ignore_ascii_case("expect") && !trim(field.value).eq_ignore_ascii_case(b"100-continue") => {
                return Err(refuse(417, "unknown expectation"));
            }
            8 if name.eq_ignore_ascii_case("if-match") || name.eq_ignore_ascii_case("if-range") => {
                self.flags |= flag::CONDITION;
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                for option in list_elements(field.value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            13 if name.eq_ignore_ascii_case("if-none-match") => self.flags |= flag::CONDITION,
            14 if name.eq_ignore_ascii_case("content-length") => self.length(trim(field.value))?,
            15 if name.eq_ignore_ascii_case("accept-encoding") => self.flags |= flag::ENCODING,
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                self.transfer_encoding_known =
                    !self.transfer_encoding && trim(field.value).eq_ignore_ascii_case(b"chunked");
                self.transfer_encoding = true;
            }
            17 if name.eq_ignore_ascii_case("if-modified-since") => self.flags |= flag::CONDITION,
            19 if name.eq_ignore_ascii_case("if-unmodified-since") => self.flags |= flag::CONDITION,
            _ => {}
        }
        Ok(())
    }

    /// Content-Length: digits only, once. Even equal duplicates are refused (RFC 9110, 8.6 allows either).
    fn length(&mut self, value: &[u8]) -> Result<(), Rejection> {
        if self.content_length.is_some() {
            return Err(refuse(400, "more than one Content-Length"));
        }
        let digits = !value.is_empty() && value.len() <= 19 && value.iter().all(u8::is_ascii_digit);
        let length = if digits { std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) } else { None };
        self.content_length = Some(length.ok_or(refuse(400, "malformed Content-Length"))?);
        Ok(())
    }

    /// No request of a static server needs a body; one is refused rather than read, and the connection closed, so that
    /// nothing in it can pass for a request.
    fn check_body(&self, method: Method, minor_version: u8) -> Result<(), Rejection> {
        let length = self.content_length.unwrap_or(0);
        if self.transfer_encoding {
            if self.content_length.is_some() {
                return Err(refuse(400, "both Transfer-Encoding and Content-Length"));
            }
            // RFC 9112, 6.1: framing by a 1.0 sender is faulty.
            if minor_version == 0 {
                return Err(refuse(400, "Transfer-Encoding in HTTP/1.0"));
            }
            if !self.transfer_encoding_known {
                return Err(refuse(501, "unknown transfer coding"));
            }
        }
        if self.transfer_encoding || length > 0 {
            return Err(match method {
                Method::NotAllowed => refuse(405, "method not allowed"),
                Method::Unknown => refuse(501, "unknown method"),
                _ => refuse(413, "no request body is accepted"),
            });
        }
        Ok(())
    }
}

/// Authority (absolute form) and path with query of a target (RFC 9112, 3.2).
fn split_target(target: &[u8], method: Method) -> Result<(Option<&[u8]>, &[u8]), Rejection> {
    // NUL and controls never get here (httparse refuses them); bytes above 0x7e must be percent-encoded.
    if !target.iter().all(|&byte| (0x21..0x7f).contains(&byte)) {
        return Err(refuse(400, "malformed request target"));
    }
    match target.first() {
        Some(b'/') => Ok((None, target)),
        Some(b'*') if target.len() == 1 && method == Method::Options => Ok((None, target)),
        // The authority form and any other of a method that is refused anyway.
        _ if matches!(method, Method::NotAllowed | Method::Unknown) => Ok((None, target)),
        _ => {
            let rest = match target.get(..7) {
                Some(scheme) if scheme.eq_ignore_ascii_case(b"http://") => &target[7..],
                _ => match target.get(..8) {
                    Some(scheme) if scheme.eq_ignore_ascii_case(b"https://") => &target[8..],
                    _ => return Err(refuse(400, "malformed request target")),
                },
            };
            let end = rest.iter().position(|&byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            match path.first() {
                None => Ok((Some(authority), b"/")),
                Some(b'/') => Ok((Some(authority), path)),
                // "http://host?query": an empty path; what has no leading slash is not worth a special case.
                Some(_) => Err(refuse(400, "malformed request target")),
            }
        }
    }
}

/// Characters of `host [":" port]` (RFC 3986, 3.2.2); user information ("@") is refused.
#[inline]
fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'.' | b'-' | b':' | b'[' | b']' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'')
        || matches!(byte, b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=')
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
