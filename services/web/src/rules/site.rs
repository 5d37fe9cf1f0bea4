//! Sites, and all rules of one.

use super::access::BasicAuth;
use super::field::Field;
use super::mapping::{Redirect, Rewrite};
use super::substitute::{ErrorPage, Fallback};
use super::text;
use serde::Deserialize;
use std::path::PathBuf;

/// A virtual host: these names are served from this directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Host names, without port, any case.
    pub hosts: Vec<String>,
    /// Document root.
    pub root: PathBuf,
    /// Rules of its own, which go before those of all hosts.
    pub rules: Rules,
}

/// Rules of a site. What is `None` is as the rules of all hosts say, or else as if there were none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rules {
    /// Value of a `Cache-Control` field on every file.
    pub cache_control: Option<String>,
    /// Pages of this origin, or of all (`*`), may read what is served (Fetch, CORS); without it, those of this site alone.
    pub allow_origin: Option<String>,
    /// Fields of every response, besides those that the service writes.
    #[serde(deserialize_with = "text::texts")]
    pub headers: Option<Vec<Field>>,
    /// Addresses that lead elsewhere, looked at before files are.
    #[serde(deserialize_with = "text::texts")]
    pub redirects: Option<Vec<Redirect>>,
    /// Addresses for which others' files are served.
    #[serde(deserialize_with = "text::texts")]
    pub rewrites: Option<Vec<Rewrite>>,
    /// File of the site that is served where there is none, with status 200; without it, the answer is 404.
    #[serde(deserialize_with = "text::text")]
    pub fallback: Option<Fallback>,
    /// Files of the site that are served instead of the service's own pages for errors.
    #[serde(deserialize_with = "text::texts")]
    pub error_pages: Option<Vec<ErrorPage>>,
    /// Directories without an index are listed.
    pub listing: Option<bool>,
    /// Files of text that are not there as `.br` and `.gz` are compressed when they are prepared.
    pub compress: Option<bool>,
    /// Responses say how long they waited (`Server-Timing`).
    pub server_timing: Option<bool>,
    /// Which paths are for users with a password.
    #[serde(deserialize_with = "text::texts")]
    pub basic_auth: Option<Vec<BasicAuth>>,
}

impl Rules {
    /// These, and for what they do not say, those of all hosts.
    #[must_use]
    pub fn or(self, general: &Rules) -> Rules {
        Rules {
            cache_control: self.cache_control.or_else(|| general.cache_control.clone()),
            allow_origin: self.allow_origin.or_else(|| general.allow_origin.clone()),
            headers: self.headers.or_else(|| general.headers.clone()),
            redirects: self.redirects.or_else(|| general.redirects.clone()),
            rewrites: self.rewrites.or_else(|| general.rewrites.clone()),
            fallback: self.fallback.or_else(|| general.fallback.clone()),
            error_pages: self.error_pages.or_else(|| general.error_pages.clone()),
            listing: self.listing.or(general.listing),
            compress: self.compress.or(general.compress),
            server_timing: self.server_timing.or(general.server_timing),
            basic_auth: self.basic_auth.or_else(|| general.basic_auth.clone()),
        }
    }
}
