//! Addresses that stand for others: told to the client (redirects), or not (rewrites).

use super::text::{RuleError, VALUE_BYTES_MAX, is_printable, path_of};
use crate::http::target;
use std::collections::HashMap;
use std::str::FromStr;

/// A path, or all that begin with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pattern {
    /// As files are found by.
    path: Vec<u8>,
    /// All paths that begin with it, too.
    is_prefix: bool,
}

impl Pattern {
    /// `PATH`, or `PATH*`.
    pub(crate) fn parse(text: &str) -> Result<Pattern, RuleError> {
        let (path, is_prefix) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        if path.contains(['*', '?']) {
            return Err(RuleError::Star(text.to_owned()));
        }
        Ok(Pattern { path: path_of(path)?, is_prefix })
    }

    /// As a path in an address, without its star.
    pub(crate) fn shown(&self) -> String {
        target::encode(&self.path)
    }

    /// Whether it is one path, and that of a directory.
    pub(crate) fn is_one_directory(&self) -> bool {
        !self.is_prefix && (self.path.is_empty() || self.path.ends_with(b"/"))
    }

    /// As files are found by.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether it is of all paths that begin with it.
    pub(crate) fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// What follows it in a path that it is of.
    pub(crate) fn rest<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let rest = path.strip_prefix(self.path.as_slice())?;
        (self.is_prefix || rest.is_empty()).then_some(rest)
    }

    /// Whether it is of a path, or of the directory that the path names without its final slash.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        let is_directory = || self.is_prefix && self.path.strip_suffix(b"/") == Some(path);
        self.rest(path).is_some() || is_directory()
    }
}

/// One address that stands for another.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapping {
    from: Pattern,
    to: String,
    /// What follows the pattern is added.
    adds_rest: bool,
}

impl Mapping {
    /// `FROM=TO`, each perhaps with a `*` at its end.
    fn parse(text: &str, form: &RuleError) -> Result<Mapping, RuleError> {
        let (from, to) = text.split_once('=').ok_or_else(|| form.clone())?;
        let from = Pattern::parse(from)?;
        let (to, adds_rest) = to.strip_suffix('*').map_or((to, false), |prefix| (prefix, true));
        // What begins with two slashes is an address without its scheme. What is added is whole names: a part of one could be a hidden name,
        // or become a part of a host's.
        let are_whole = from.is_prefix && (from.path.is_empty() || from.path.ends_with(b"/")) && to.ends_with('/');
        if to.starts_with("//") || adds_rest && !are_whole || to.contains([' ', '#', '*']) {
            return Err(form.clone());
        }
        if !is_printable(to) {
            return Err(RuleError::Value(VALUE_BYTES_MAX));
        }
        Ok(Mapping { from, to: to.to_owned(), adds_rest })
    }

    /// What a path that this is of stands for.
    fn of(&self, rest: &[u8]) -> String {
        let rest = target::encode(if self.adds_rest { rest } else { b"" });
        // It is added to a path: by itself it would be an absolute one.
        format!("{}{}", self.to, rest.trim_start_matches('/'))
    }
}

/// An address, or all that begin with it, that leads elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    /// 301, 302, 307 or 308.
    status: u16,
    mapping: Mapping,
}

impl FromStr for Redirect {
    type Err = RuleError;

    /// `FROM=TO` or `STATUS:FROM=TO`. `FROM` is a path, and with a `*` at its end all that begin so; `TO` is a path or an address, and with
    /// a `*` at its end what the other `*` stood for is added.
    fn from_str(text: &str) -> Result<Redirect, RuleError> {
        const FORM: RuleError =
            RuleError::Form("FROM=TO or STATUS:FROM=TO, as in /old=/new or 302:/old/*=https://new.example/*");
        let (status, mapping) = match text.split_once(':') {
            Some((status, mapping)) if !status.contains('/') => (status.parse().map_err(|_| FORM)?, mapping),
            _ => (301, text),
        };
        if !matches!(status, 301 | 302 | 307 | 308) {
            return Err(RuleError::Status(status, "301, 302, 307 or 308"));
        }
        let mapping = Mapping::parse(mapping, &FORM)?;
        let has_host =
            |start| mapping.to.strip_prefix(start).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
        let is_address = mapping.to.starts_with('/') || has_host("http://") || has_host("https://");
        if is_address { Ok(Redirect { status, mapping }) } else { Err(FORM) }
    }
}

/// An address, or all that begin with it, for which another one's file is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rewrite(Mapping);

impl FromStr for Rewrite {
    type Err = RuleError;

    /// `FROM=TO`, both paths, each perhaps with a `*` at its end.
    fn from_str(text: &str) -> Result<Rewrite, RuleError> {
        const FORM: RuleError = RuleError::Form("FROM=TO, as in /old=/new.html or /v2/*=/*");
        let mapping = Mapping::parse(text, &FORM)?;
        // Hidden names are not served by another one.
        if target::resolve(mapping.to.as_bytes(), false).is_err() || mapping.to.contains('?') {
            return Err(RuleError::Path(mapping.to));
        }
        Ok(Rewrite(mapping))
    }
}

/// All mappings of a site, each with something that belongs to it.
#[derive(Debug)]
struct Mappings<T> {
    exact: HashMap<Vec<u8>, (Mapping, T)>,
    /// The longest first.
    prefixes: Vec<(Mapping, T)>,
}

impl<T: Copy> Mappings<T> {
    fn new(all: impl Iterator<Item = (Mapping, T)>) -> Mappings<T> {
        let (mut prefixes, exact): (Vec<_>, Vec<_>) = all.partition(|(mapping, _)| mapping.from.is_prefix);
        prefixes.sort_by_key(|(mapping, _)| std::cmp::Reverse(mapping.from.path.len()));
        Mappings { exact: exact.into_iter().map(|entry| (entry.0.from.path.clone(), entry)).collect(), prefixes }
    }

    /// What a path stands for: the exact ones are looked at first, then those with the longest beginning.
    fn find(&self, path: &[u8]) -> Option<(T, String)> {
        if let Some((mapping, of)) = self.exact.get(path) {
            return Some((*of, mapping.of(b"")));
        }
        self.prefixes.iter().find_map(|(mapping, of)| Some((*of, mapping.of(mapping.from.rest(path)?))))
    }
}

/// All addresses of a site that lead elsewhere.
#[derive(Debug)]
pub(crate) struct Redirects(Mappings<u16>);

impl Redirects {
    pub(crate) fn new(all: &[Redirect]) -> Redirects {
        Redirects(Mappings::new(all.iter().map(|redirect| (redirect.mapping.clone(), redirect.status))))
    }

    /// With which status a path leads where.
    pub(crate) fn find(&self, path: &[u8]) -> Option<(u16, String)> {
        self.0.find(path)
    }
}

/// All addresses of a site for which others' files are served.
#[derive(Debug)]
pub(crate) struct Rewrites(Mappings<()>);

impl Rewrites {
    pub(crate) fn new(all: &[Rewrite]) -> Rewrites {
        Rewrites(Mappings::new(all.iter().map(|rewrite| (rewrite.0.clone(), ()))))
    }

    /// The path that is served for this one: itself, if no rule says otherwise.
    pub(crate) fn apply(&self, path: Vec<u8>) -> Vec<u8> {
        let other = self.0.find(&path).and_then(|((), to)| target::resolve(to.as_bytes(), true).ok());
        other.unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_found_the_exact_ones_first_then_the_longest() {
        let all = ["/a=/b", "302:/a/*=https://a.test/*", "307:/a/b/*=/c", "308:/d/*=/*", "/e=http://e.test:80/x"];
        let all: Vec<Redirect> = all.iter().map(|text| text.parse().unwrap()).collect();
        let redirects = Redirects::new(&all);
        let found = |path: &str| redirects.find(path.as_bytes());
        assert_eq!(found("a"), Some((301, "/b".to_owned())));
        assert_eq!(found("a/x y"), Some((302, "https://a.test/x%20y".to_owned())));
        assert_eq!(found("a/b/x"), Some((307, "/c".to_owned())));
        assert_eq!(found("d//evil.test/"), Some((308, "/evil.test/".to_owned())), "no address without a scheme");
        assert_eq!(found("e"), Some((301, "http://e.test:80/x".to_owned())));
        assert_eq!(found("ab"), None);
        for text in [
            "/a",
            "a=/b",
            "/a=b",
            "/a=//b",
            "/a=/*",
            "/a=javascript:x",
            "200:/a=/b",
            "/a=/b c",
            "/../a=/b",
            "/a*=https://b.test*",
            "/*=https://b.test*",
            "/a*=/b/*",
            "/a/*=/b*",
            "/a=https://",
            "/a=https:///b",
            "/a/*.html=/b",
            "/a**=/b",
            "/a=/b#c",
        ] {
            assert!(text.parse::<Redirect>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rewritten_path_stays_in_the_site() {
        let all: Vec<Rewrite> = ["/v2/*=/*", "/go=/pages/go.html"].iter().map(|text| text.parse().unwrap()).collect();
        let rewrites = Rewrites::new(&all);
        let applied = |path: &str| String::from_utf8(rewrites.apply(path.into())).unwrap();
        assert_eq!(applied("go"), "pages/go.html");
        assert_eq!(applied("v2/a b/c"), "a b/c");
        assert_eq!(applied("v2/"), "");
        assert_eq!(applied("other/"), "other/");
        for text in
            ["/a", "/a=https://b.test/", "/a=/../b", "/a=//b", "/a=/b/*", "/v1*=/*", "/a=/.git/config", "/a=/b?c"]
        {
            assert!(text.parse::<Rewrite>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_covers_its_directory() {
        let of = |text: &str| Pattern::parse(text).unwrap();
        assert!(of("/a/*").covers(b"a") && of("/a/*").covers(b"a/b/c") && !of("/a/*").covers(b"ab"));
        assert!(of("/*").covers(b"") && of("/*").covers(b"x") && of("/x").covers(b"x") && !of("/x").covers(b"x/y"));
    }
}
