//! What is served where nothing is.

use super::text::{RuleError, path_of};
use std::collections::BTreeMap;
use std::str::FromStr;

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
    fn substitutes_are_by_status() {
        let pages: Vec<ErrorPage> =
            ["404=/e/404.html", "503=/e/503.html"].iter().map(|text| text.parse().unwrap()).collect();
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
