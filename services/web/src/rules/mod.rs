//! What an operator says about a site's answers, besides its files.

mod access;
mod config_file;
mod field;
mod mapping;
mod password;
mod site;
mod substitute;
mod text;

pub use access::BasicAuth;
pub use config_file::{ConfigFile, ConfigFileError};
pub use field::Field;
pub use mapping::{Redirect, Rewrite};
pub use password::{PasswordFileError, Passwords};
pub use site::{Rules, Site};
pub use substitute::{ErrorPage, Fallback};
pub use text::RuleError;

pub(crate) use access::{Access, Space};
pub(crate) use mapping::{Redirects, Rewrites};
#[cfg(test)]
pub(crate) use password::RIGHT;
pub(crate) use substitute::Substitutes;
pub(crate) use text::is_printable;
