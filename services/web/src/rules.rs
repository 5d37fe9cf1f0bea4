//! What an operator says about answers, besides the files: fields of every response, addresses that lead elsewhere, and what is served
//! where nothing is.

use crate::http::target;
use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::str::FromStr;

/// Bytes of a field's value, or of an address, at most.
const VALUE_BYTES_MAX: usize = 4_096;
/// Fields that the service writes itself, or that belong to a connection.
const OWN_FIELDS: [&str; 22] = [
    "accept-ranges",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "allow",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "server",
    "strict-transport-security",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// Why a rule is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It has not this form.
    #[error("write it as {0}")]
    Form(&'static str),
    /// A field's name has other characters than those of a token (RFC 9110, 5.6.2).
    #[error("`{0}` is no field's name")]
    Name(String),
    /// A value has other characters than printable ones of ASCII, or too many.
    #[error("a value has printable characters of ASCII, at most {VALUE_BYTES_MAX}")]
    Value,
    /// The service writes this field.
    #[error("the server writes {0} itself (--cache-control, --allow-origin and --hsts set theirs)")]
    Own(String),
    /// A path does not begin with a slash, or leads out of the site.
    #[error("`{0}` is no path of the site: it begins with a slash")]
    Path(String),
    /// The status is none that there can be.
    #[error("{0} is no status for this: {1}")]
    Status(u16, &'static str),
}

fn is_printable(text: &str) -> bool {
    text.len() <= VALUE_BYTES_MAX && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// A path of the site as files are found by: without its first slash, and with the index's name if it names a directory.
fn path_of(text: &str) -> Result<Vec<u8>, RuleError> {
    let why = || RuleError::Path(text.to_owned());
    if !text.starts_with('/') || !is_printable(text) {
        return Err(why());
    }
    target::resolve(text.as_bytes(), true).map_err(|_| why())
}

/// A field of every response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    name: String,
    value: String,
}

impl FromStr for Field {
    type Err = RuleError;

    /// `NAME: VALUE`, as it is sent.
    fn from_str(text: &str) -> Result<Field, RuleError> {
        let (name, value) = text.split_once(':').ok_or(RuleError::Form("NAME: VALUE"))?;
        let (name, value) = (name.trim(), value.trim());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > 256 || !name.bytes().all(is_token) {
            return Err(RuleError::Name(name.chars().take(40).collect()));
        }
        if !is_printable(value) {
            return Err(RuleError::Value);
        }
        if OWN_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(RuleError::Own(name.to_owned()));
        }
        Ok(Field { name: name.to_owned(), value: value.to_owned() })
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.value)
    }
}

/// An address, or all that begin with it, that leads elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    /// 301, 302, 307 or 308.
    status: u16,
    /// Path that is asked for, as files are found by.
    from: Vec<u8>,
    /// All paths that begin with it, too.
    is_prefix: bool,
    /// Where it leads.
    to: String,
    /// What follows the prefix is added to that.
    adds_rest: bool,
}

impl FromStr for Redirect {
    type Err = RuleError;

    /// `FROM=TO` or `STATUS:FROM=TO`. `FROM` is a path, and with a `*` at its end all that begin so; `TO` is a path or an address, and with
    /// a `*` at its end what the other `*` stood for is added.
    fn from_str(text: &str) -> Result<Redirect, RuleError> {
        const FORM: RuleError = RuleError::Form("FROM=TO or STATUS:FROM=TO, as in /old=/new or 302:/old/*=https://new.example/*");
        let (from, to) = text.split_once('=').ok_or(FORM)?;
        let (status, from) = match from.split_once(':') {
            Some((status, from)) => (status.parse().map_err(|_| FORM)?, from),
            None => (301, from),
        };
        if !matches!(status, 301 | 302 | 307 | 308) {
            return Err(RuleError::Status(status, "301, 302, 307 or 308"));
        }
        let (from, is_prefix) = from.strip_suffix('*').map_or((from, false), |prefix| (prefix, true));
        let (to, adds_rest) = to.strip_suffix('*').map_or((to, false), |prefix| (prefix, true));
        let is_address = ["/", "http://", "https://"].iter().any(|start| to.starts_with(start));
        // What begins with two slashes is an address without its scheme.
        if !is_address || to.starts_with("//") || adds_rest && !is_prefix || to.contains(' ') {
            return Err(FORM);
        }
        if !is_printable(to) {
            return Err(RuleError::Value);
        }
        Ok(Redirect { status, from: path_of(from)?, is_prefix, to: to.to_owned(), adds_rest })
    }
}

/// All addresses that lead elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    exact: HashMap<Vec<u8>, Redirect>,
    /// The longest first.
    prefixes: Vec<Redirect>,
}

impl Redirects {
    pub(crate) fn new(all: &[Redirect]) -> Redirects {
        let (mut prefixes, exact): (Vec<Redirect>, Vec<Redirect>) =
            all.iter().cloned().partition(|redirect| redirect.is_prefix);
        prefixes.sort_by_key(|redirect| std::cmp::Reverse(redirect.from.len()));
        Redirects { exact: exact.into_iter().map(|redirect| (redirect.from.clone(), redirect)).collect(), prefixes }
    }

    /// With which status a path leads where.
    pub(crate) fn find(&self, path: &[u8]) -> Option<(u16, String)> {
        if let Some(redirect) = self.exact.get(path) {
            return Some((redirect.status, redirect.to.clone()));
        }
        let redirect = self.prefixes.iter().find(|redirect| path.starts_with(&redirect.from))?;
        let rest = path.strip_prefix(redirect.from.as_slice()).filter(|_| redirect.adds_rest).unwrap_or_default();
        let rest = target::encode(rest);
        // It is added to a path: by itself it would be an absolute one.
        Some((redirect.status, format!("{}{}", redirect.to, rest.trim_start_matches('/'))))
    }
}

/// A file that is served with a status, instead of the service's own page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorPage {
    status: u16,
    path: Vec<u8>,
}

impl FromStr for ErrorPage {
    type Err = RuleError;

    /// `STATUS=PATH`.
    fn from_str(text: &str) -> Result<ErrorPage, RuleError> {
        const FORM: RuleError = RuleError::Form("STATUS=PATH, as in 404=/404.html");
        let (status, path) = text.split_once('=').ok_or(FORM)?;
        let status = status.parse().map_err(|_| FORM)?;
        if !matches!(status, 403 | 404 | 500 | 503) {
            return Err(RuleError::Status(status, "403, 404, 500 or 503"));
        }
        Ok(ErrorPage { status, path: path_of(path)? })
    }
}

/// The file that is served where there is none, as single-page applications want it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fallback(Vec<u8>);

impl FromStr for Fallback {
    type Err = RuleError;

    /// `PATH`.
    fn from_str(text: &str) -> Result<Fallback, RuleError> {
        path_of(text).map(Fallback)
    }
}

/// What is served where nothing is.
#[derive(Debug, Default)]
pub(crate) struct Substitutes {
    fallback: Option<Box<[u8]>>,
    pages: BTreeMap<u16, Box<[u8]>>,
}

impl Substitutes {
    pub(crate) fn new(fallback: Option<&Fallback>, pages: &[ErrorPage]) -> Substitutes {
        let pages = pages.iter().map(|page| (page.status, page.path.clone().into_boxed_slice())).collect();
        Substitutes { fallback: fallback.map(|fallback| fallback.0.clone().into_boxed_slice()), pages }
    }

    pub(crate) fn are_there(&self) -> bool {
        self.fallback.is_some() || !self.pages.is_empty()
    }

    /// The status that is answered with, and the file.
    pub(crate) fn of(&self, status: u16) -> Option<(u16, &[u8])> {
        match &self.fallback {
            Some(path) if status == 404 => Some((200, path)),
            _ => self.pages.get(&status).map(|path| (status, &**path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_checked() {
        let field: Field = "X-Frame-Options:  DENY".parse().unwrap();
        assert_eq!(field.to_string(), "X-Frame-Options: DENY");
        for (text, why) in [
            ("DENY", "write it as NAME: VALUE"),
            ("X Frame: a", "`X Frame` is no field's name"),
            (": a", "`` is no field's name"),
            ("X: a\r\nY: b", "a value has printable characters"),
            ("content-LENGTH: 3", "the server writes content-LENGTH itself"),
        ] {
            let error = text.parse::<Field>().unwrap_err().to_string();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn redirects_are_found_the_exact_ones_first_then_the_longest() {
        let all = ["/a=/b", "302:/a/*=https://a.test/*", "307:/a/b/*=/c", "308:/d/*=/*"];
        let all: Vec<Redirect> = all.iter().map(|text| text.parse().unwrap()).collect();
        let redirects = Redirects::new(&all);
        let found = |path: &str| redirects.find(path.as_bytes());
        assert_eq!(found("a"), Some((301, "/b".to_owned())));
        assert_eq!(found("a/x y"), Some((302, "https://a.test/x%20y".to_owned())));
        assert_eq!(found("a/b/x"), Some((307, "/c".to_owned())));
        assert_eq!(found("d//evil.test/"), Some((308, "/evil.test/".to_owned())), "no address without a scheme");
        assert_eq!(found("ab"), None);
        for text in ["/a", "a=/b", "/a=b", "/a=//b", "/a=/*", "/a=javascript:x", "200:/a=/b", "/a=/b c", "/../a=/b"] {
            assert!(text.parse::<Redirect>().is_err(), "{text}");
        }
    }

    #[test]
    fn substitutes_are_by_status() {
        let pages: Vec<ErrorPage> = ["404=/e/404.html", "503=/e/503.html"].iter().map(|text| text.parse().unwrap()).collect();
        let of = Substitutes::new(None, &pages);
        assert_eq!((of.of(404), of.of(403)), (Some((404, &b"e/404.html"[..])), None));
        let fallback: Fallback = "/index.html".parse().unwrap();
        let of = Substitutes::new(Some(&fallback), &pages);
        assert_eq!((of.of(404), of.of(503)), (Some((200, &b"index.html"[..])), Some((503, &b"e/503.html"[..]))));
        for text in ["404", "200=/x", "404=x", "x=/y"] {
            assert!(text.parse::<ErrorPage>().is_err(), "{text}");
        }
    }
}
