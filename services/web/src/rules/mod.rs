//! What an operator says about a site's answers, besides its files.

mod access;
mod config_file;
mod field;
mod mapping;
mod password;
mod substitute;

pub use access::BasicAuth;
pub use config_file::{ConfigFile, ConfigFileError};
pub use field::Field;
pub use mapping::{Redirect, Rewrite};
pub use password::{PasswordFileError, Passwords};
pub use substitute::{ErrorPage, Fallback};

pub(crate) use access::Access;
#[cfg(test)]
pub(crate) use password::RIGHT;
pub(crate) use mapping::{Redirects, Rewrites};
pub(crate) use substitute::Substitutes;

use crate::http::target;
use serde::Deserialize;
use std::path::PathBuf;

/// Bytes of a field's value, or of an address, at most.
const VALUE_BYTES_MAX: usize = 4_096;

/// Why a rule is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RuleError {
    /// It has not this form.
    #[error("write it as {0}")]
    Form(&'static str),
    /// A field's name has other characters than those of a token (RFC 9110, 5.6.2).
    #[error("`{0}` is no field's name")]
    Name(String),
    /// A value has other characters than printable ones of ASCII, or more than this many.
    #[error("a value has printable characters of ASCII, at most {0}")]
    Value(usize),
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
    #[serde(deserialize_with = "config_file::texts")]
    pub headers: Option<Vec<Field>>,
    /// Addresses that lead elsewhere, looked at before files are.
    #[serde(deserialize_with = "config_file::texts")]
    pub redirects: Option<Vec<Redirect>>,
    /// Addresses for which others' files are served.
    #[serde(deserialize_with = "config_file::texts")]
    pub rewrites: Option<Vec<Rewrite>>,
    /// File of the site that is served where there is none, with status 200; without it, the answer is 404.
    #[serde(deserialize_with = "config_file::text")]
    pub fallback: Option<Fallback>,
    /// Files of the site that are served instead of the service's own pages for errors.
    #[serde(deserialize_with = "config_file::texts")]
    pub error_pages: Option<Vec<ErrorPage>>,
    /// Directories without an index are listed.
    pub listing: Option<bool>,
    /// Files of text that are not there as `.br` and `.gz` are compressed when they are prepared.
    pub compress: Option<bool>,
    /// Responses say how long they waited (`Server-Timing`).
    pub server_timing: Option<bool>,
    /// Which paths are for users with a password.
    #[serde(deserialize_with = "config_file::texts")]
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

pub(crate) fn is_printable(text: &str) -> bool {
    text.len() <= VALUE_BYTES_MAX && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// A path of the site as files are found by: without its first slash.
fn path_of(text: &str) -> Result<Vec<u8>, RuleError> {
    let why = || RuleError::Path(text.to_owned());
    if !text.starts_with('/') || !is_printable(text) {
        return Err(why());
    }
    target::resolve(text.as_bytes(), true).map_err(|_| why())
}
